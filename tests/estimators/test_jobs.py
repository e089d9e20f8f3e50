"""`n_jobs` changes no bit: of every estimator that takes it, with few rows told to be many."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from cases import decide
from scipy import sparse

from tunefree._registry import estimator_class, estimator_classes
from tunefree._threads import side_by_side, team, workers

NAMES = [  # TuneFreeClassifier runs what TuneFreeRegressor does, at twice the cost
    name
    for name, made in estimator_classes().items()
    if "n_jobs" in made._get_param_names() and name != "TuneFreeClassifier"
]


@pytest.mark.parametrize("name", NAMES)
def test_threads_change_no_bit(name, monkeypatch):
    monkeypatch.setattr("tunefree.select.costs.pilot_rows", lambda n, most=None: 200)
    monkeypatch.setattr("tunefree.learners.kernel.ridge.EXACT_ROWS", 500)
    monkeypatch.setattr("tunefree.select.kernel_ridge._START", 50)
    monkeypatch.setattr("tunefree.learners.kernel.geometry._WHOLE", 100)
    monkeypatch.setattr("tunefree.learners.reflectron.mirror._PIECE", 300)
    monkeypatch.setattr("tunefree.designs._MANY", 0)
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (2100 if "TuneFree" in name else 1000, 3))
    y = np.sin(4.0 * X[:, 0]) * X[:, 1]
    y = y > 0.0 if "Classifier" in name else y
    found = []
    for n_jobs in (1, 2):
        model = estimator_class(name)(n_jobs=n_jobs, random_state=0).fit(X, y)
        found.append([np.asarray(decide(model, X))])
        if name.startswith("Reflectron"):
            found[-1].append(model.fit(sparse.csr_array(X), y).coef_)
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)
    if name.startswith("TuneFree"):
        late = ("kernel PiSTOL", "kernel on more rows")
        told = [r["status"] for r in model.leaderboard_ if r["candidate"] in late]
        assert len(told) == 2 and "finished" in told


def test_work_side_by_side_has_its_part_of_the_cores():
    """The last one's blocks wait for cores that others hold; threads of a team have none."""
    begun, ended, running, most = threading.Event(), threading.Event(), [], []

    def block(i):
        running.append(i)
        most.append(len(running))
        time.sleep(1e-3)
        running.remove(i)
        return team()._size

    def first():
        with workers(2) as found:
            begun.set()
            assert ended.wait(60)
            return found._size

    def last():
        begun.wait(60)
        with workers(2) as found:
            sizes = found.map(block, range(20))
        ended.set()
        return found._size, sizes

    with ThreadPoolExecutor(2) as pool:
        told = [pool.submit(work) for work in side_by_side([first, last], 2)]
        assert [one.result() for one in told] == [1, (2, [1] * 20)]
    assert max(most) == 1
