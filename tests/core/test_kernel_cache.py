"""Compiled kernels find a folder, or do without one: read-only installations and homes."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from numba.core.caching import IndexDataCacheFile

import tunefree
from tunefree.core import jit

PROGRAM = """
from tunefree import TuneFreeClassifier  # declares every kernel that a default fit may need
from tunefree.core.jit import fast_exp
assert abs(fast_exp(1.0) - 2.718281828459045) < 1e-14
print(sum(fast_exp.stats.cache_hits.values()))
"""


@pytest.fixture
def plus_one(tmp_path, monkeypatch):
    """A function of a module beside which, and at home, nothing can be written."""
    (tmp_path / "__pycache__").touch()
    (tmp_path / "temporary").mkdir()
    (tmp_path / "plus.py").write_text("def plus_one(x):\n    return x + 1.0\n")
    monkeypatch.setattr(jit._config, "CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/nobody")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    spec = importlib.util.spec_from_file_location("plus", tmp_path / "plus.py")
    spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
    return module.plus_one


def _hits(function):
    """How often kernels of a function, as two processes make them, were loaded."""
    kernels = [jit.kernel(function) for _ in range(2)]
    assert [compiled(1.0) for compiled in kernels] == [2.0, 2.0]
    return [sum(compiled.stats.cache_hits.values()) for compiled in kernels]


def _full(*_):
    raise OSError("the disk is full")


@pytest.mark.skipif(os.name != "posix", reason="owners and modes of folders are those of POSIX")
def test_kernels_are_kept_where_only_their_user_writes(plus_one, tmp_path, monkeypatch):
    folder = tmp_path / "temporary" / f"tunefree-kernels-{os.getuid()}"
    with monkeypatch.context() as patch:
        patch.setattr(IndexDataCacheFile, "save", _full)
        assert _hits(plus_one) == [0, 0]
    assert _hits(plus_one) == [0, 1]
    assert folder.stat().st_mode & 0o077 == 0
    folder.chmod(0o777)
    assert _hits(plus_one) == [0, 0]


@pytest.fixture
def sealed(tmp_path):
    """The package where nothing can be written beside it (not even by root)."""
    package = tmp_path / "site" / "tunefree"
    shutil.copytree(
        Path(tunefree.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__")
    )
    for folder in [package, *(p for p in package.rglob("*") if p.is_dir())]:
        (folder / "__pycache__").touch()  # a file where the folder would be
    return tmp_path


def _run(sealed, temporary):
    temporary.mkdir(exist_ok=True)
    kept = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    kept |= {"HOME": "/dev/null/nobody", "TMPDIR": str(temporary)}
    kept |= {"PYTHONPATH": str(sealed / "site"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=kept)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.skipif(os.name != "posix", reason="the file system of POSIX is what is blocked here")
def test_read_only_folders_keep_kernels_in_a_temporary_one(sealed):
    temporary = sealed / "temporary"
    assert _run(sealed, temporary) == 0
    (folder,) = temporary.glob("tunefree-kernels-*")
    assert folder.stat().st_mode & 0o077 == 0
    assert _run(sealed, temporary) == 1  # the second process loads what the first compiled


FULL = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))  # like a full disk
"""


@pytest.mark.skipif(os.name != "posix", reason="limits of files' sizes are those of POSIX")
def test_a_full_disk_keeps_no_kernels_and_stops_no_fit(tmp_path):
    kept = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    kept |= {"PYTHONDONTWRITEBYTECODE": "1"}  # else Python would leave cut files of libraries
    for before in (FULL, ""):  # only the second one keeps its kernel
        done = subprocess.run(
            [sys.executable, "-c", before + PROGRAM], capture_output=True, text=True, env=kept
        )
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) == 0
        assert bool(list(tmp_path.rglob("*.nbc"))) == (before == "")
    assert not list(tmp_path.rglob("*.tmp.*"))


@pytest.mark.skipif(os.name != "posix", reason="owners and modes of folders are those of POSIX")
def test_a_folder_that_others_can_write_to_is_not_trusted(sealed):
    folder = sealed / "temporary" / f"tunefree-kernels-{os.getuid()}"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    assert _run(sealed, folder.parent) == 0
    assert list(folder.iterdir()) == []


FIRST = """
import operator
from numba.core.registry import cpu_target
from tunefree.core.jit import minimum
assert minimum(1.0, 2.0) == 1.0
tried = cpu_target.typing_context._lookup_global(operator.getitem).templates
overloads = [kind.__name__.startswith("OverloadTemplate") for kind in tried]
assert overloads == sorted(overloads), overloads
"""


@pytest.mark.skipif(not jit._TESTED, reason="Numba of another version compiles as it does itself")
def test_indices_are_tried_as_those_of_arrays_before_lists_dicts_and_texts(tmp_path):
    # In a new process: what was registered first stays first.
    kept = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, env=kept)
    assert done.returncode == 0, done.stderr


def test_a_kernel_of_this_package_may_have_a_comprehension_and_make_an_array():
    def squares(n):
        return np.array([i * i for i in range(n)]) + 1.0

    squares.__module__ = "tunefree.of_this_package"
    assert jit.kernel(squares)(3).tolist() == [1.0, 2.0, 5.0]
