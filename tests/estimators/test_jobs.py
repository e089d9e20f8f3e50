"""`n_jobs` changes no bit: of every estimator that takes it, with few rows told to be many."""

import numpy as np
import pytest
from cases import decide

import tunefree

NAMES = [
    name for name in tunefree.__all__
    if hasattr(found := getattr(tunefree, name), "fit")
    and "n_jobs" in getattr(found, "_get_param_names", lambda: ())()
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_threads_change_no_bit(name, monkeypatch):
    for module in ("choose.race.pilot_rows", "estimators.auto.pilot_rows"):
        monkeypatch.setattr(f"tunefree.{module}", lambda n, most=None: 200)
    monkeypatch.setattr("tunefree.estimators.auto.EXACT", 500)
    monkeypatch.setattr("tunefree.estimators.kernel.landmarks._ALL", 500)
    monkeypatch.setattr("tunefree.estimators.kernel.landmarks._START", 50)
    monkeypatch.setattr("tunefree.learners.kernel.geometry._WHOLE", 100)
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (2100, 3))
    y = np.sin(4.0 * X[:, 0]) * X[:, 1]
    y = y > 0.0 if "Classifier" in name else y
    found = []
    for n_jobs in (1, 2):
        model = getattr(tunefree, name)(n_jobs=n_jobs, random_state=0).fit(X, y)
        found.append(np.asarray(decide(model, X)))
    np.testing.assert_array_equal(*found)
    if name.startswith("TuneFree"):
        late = ("kernel PiSTOL", "kernel on more rows")
        told = [r["status"] for r in model.leaderboard_ if r["candidate"] in late]
        assert len(told) == 2 and "finished" in told
