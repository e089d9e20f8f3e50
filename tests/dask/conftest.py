"""One cluster of two processes for all tests here."""

import os
import signal
import threading

import pytest


@pytest.fixture(scope="package")
def client(tmp_path_factory):
    pytest.importorskip("dask")
    distributed = pytest.importorskip("distributed")
    folder = str(tmp_path_factory.mktemp("dask"))
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0",
            local_directory=folder,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):  # fmt: skip
        yield client


@pytest.fixture
def kill(client):
    """A function that kills one of the workers a moment later."""
    victim = sorted(client.run(os.getpid).values())[0]
    yield threading.Timer(0.001, os.kill, (victim, signal.SIGKILL)).start
    client.wait_for_workers(2, timeout=300)
