import contextlib
import os
import resource

import numpy as np
import pytest

from tunefree import PiSTOLRegressor
from tunefree.files.files import write_atomically
from tunefree.files.model import ModelError, save_model


@contextlib.contextmanager
def small_files():
    """No file may grow beyond 1000 bytes: like a full disk. (The test log is a file, too.)"""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_keeps_the_old_model(tmp_path):
    path = tmp_path / "model"
    path.write_bytes(b"old")
    model = PiSTOLRegressor(random_state=0)
    model.coef_ = np.zeros(1000)
    with pytest.raises(OSError), small_files():
        save_model(model, path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["model"]


def test_a_failure_half_way_keeps_the_old_file(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, [b"old"])

    def pieces():
        yield b"new"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, pieces())
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_file_that_came_out_damaged_does_not_replace_the_old_one(tmp_path, monkeypatch):
    path, sync = tmp_path / "model", os.fsync
    path.write_bytes(b"old")

    def damaging(handle):
        os.pwrite(handle, b"?", 1000)
        sync(handle)

    model = PiSTOLRegressor().fit([[1.0], [2.0]], [1.0, 2.0])
    monkeypatch.setattr(os, "fsync", damaging)
    with pytest.raises(ModelError, match="existing file is unchanged"):
        save_model(model, path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["model"]


def test_permissions_and_links_survive(tmp_path):
    path, link = tmp_path / "file", tmp_path / "link"
    write_atomically(path, [b"a"])
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask
    path.chmod(0o640)
    link.symlink_to(path)
    write_atomically(link, [b"b"])
    assert link.is_symlink() and path.read_bytes() == b"b"
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_device_is_written_not_replaced():
    save_model(PiSTOLRegressor().fit([[1.0], [2.0]], [1.0, 2.0]), os.devnull)
    assert not os.path.isfile(os.devnull)
