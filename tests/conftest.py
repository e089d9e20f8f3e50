"""Where compiled kernels are kept, and where the public data sets lie."""

import gc
import hashlib
import os
import signal
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def _key():
    """Hash of the sources that hold kernels or the parts that are compiled into them.

    Numba recompiles a kernel when its own file changes, not when a part in another file does.
    """
    sources = (p.read_bytes() for p in sorted((ROOT / "src").rglob("*.py")))
    compiled = [s for s in sources if b"_jit" in s or b"njit" in s or b"NamedTuple" in s]
    return hashlib.sha256(b"\0".join(compiled)).hexdigest()[:16]


# A shell starts background jobs with Ctrl-C ignored, and their children inherit it: the tests that
# send it would wait forever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Whatever the environment says, modules and rewritten tests are compiled once, not by every worker
# and every Python that a test starts: collection takes 9 s in place of 20, and 6 s without garbage
# collection (below).
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Before NumPy is imported: a worker of a test run has a core, and the threads of several BLAS on
# it would wait for each other. `test_threads.py` sets what it is about.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Likewise the threads of scikit-learn's trees, to which ours are compared: they sleep while they
# wait.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# Before SciPy is imported: scikit-learn's array checks run only with it.
os.environ["SCIPY_ARRAY_API"] = "1"
# Before tunefree is imported: Numba reads the folder when a kernel is declared.
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".numba_cache" / _key()))
# `PLAIN_NUMBA=1 pytest` compiles as with a version of Numba that `tunefree.core.within` was not
# tested with. Commands in processes of their own do not.
if os.environ.get("PLAIN_NUMBA"):
    os.environ["NUMBA_CACHE_DIR"] += "-plain"
    import numba

    numba.version_info = numba.version_info._replace(minor=99)


@pytest.fixture(scope="session")
def data():
    """The folder of public data sets beside the repository."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the public data sets are not in ../shared/data beside the repository")
    return folder


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect without garbage collection, which need not look through what is collected, ever."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items):
    """Mark the first case of every test function `quick`, but of those in `slow.txt`.

    So `pytest -m quick` checks every law once. A test that takes long has a short case first: fewer
    rows, draws or candidates. In `slow.txt` are tests of processes, browsers and whole pages whose
    laws have a short test beside them.
    """
    seen = set((ROOT / "tests" / "slow.txt").read_text().split())
    for item in items:
        function = item.nodeid.split("[")[0]
        if function not in seen:
            item.add_marker("quick")
        seen.add(function)


def pytest_terminal_summary(terminalreporter):
    """Print the report of the house after a run of continuous integration."""
    is_whole_run = terminalreporter.config.args == terminalreporter.config.getini("testpaths")
    if (
        os.environ.get("CI")
        and is_whole_run
        and not hasattr(terminalreporter.config, "workerinput")
    ):
        import house

        terminalreporter.section("the house")
        for line in house.report():
            terminalreporter.line(line)
