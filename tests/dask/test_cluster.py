"""Rounds on a real cluster of processes: equal to the local fit, unmoved by dying workers."""

import time
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris

import tunefree
from hidden import with_settings
from tunefree.core.registry import estimator_class
from tunefree.parts.links import Identity
from tunefree.reflectron.constraints import L1Ball
from tunefree.reflectron.mirror import Batch, Configuration, Mirror
from tunefree.reflectron.potentials import Euclidean, Hypentropy
from tunefree.rows.designs import Dense

pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")

import dask.array as da  # noqa: E402

from tunefree import dask as tfd  # noqa: E402
from tunefree.dask.cluster import Cluster, RemoteBatches  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning",
    "ignore::DeprecationWarning",
    "ignore::sklearn.exceptions.ConvergenceWarning",  # few passes are enough to compare
)


def rows(n=1200, d=12, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.geomspace(0.1, 50.0, d)
    y = 1.0 / (1.0 + np.exp(-X[:, 0] * 5.0 + X[:, 1])) + 0.02 * rng.normal(size=n)
    return X, y


def near(**settings):
    """A Reflectron with the link 'logit' and some settings."""
    return with_settings(tunefree.ReflectronRegressor, link="logit", **settings)


def far(**settings):
    """The same on a cluster."""
    return with_settings(tfd.DaskReflectronRegressor, link="logit", **settings)


SETTINGS = [
    {"validation_fraction": 0.0, "potential": "euclidean"},
    {"validation_fraction": 0.0, "potential": Hypentropy(1e-4), "constraint": L1Ball(3.0)},
    {"validation_fraction": 0.0, "potential": "p_norm", "fit_intercept": False},
]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: str(s["potential"]))
def test_a_batch_learner_equals_its_local_run(client, setting):
    X, y = rows()
    setting = {**setting, "max_iter": 15, "random_state": 0}
    local = near(**setting).fit(X, y)
    there = far(**setting).fit(da.from_array(X, chunks=(300, 12)), da.from_array(y, chunks=300))
    np.testing.assert_allclose(there.coef_, local.coef_, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(there.intercept_, local.intercept_, rtol=1e-10, atol=1e-10)
    assert there.n_iter_ == local.n_iter_


def test_the_perceptron_equals_its_run_over_blocks(client):
    X, y = load_iris(return_X_y=True)
    local = tunefree.OptimisticPerceptron(max_iter=40)
    there = tfd.DaskOptimisticPerceptron(max_iter=40)
    local.fit_source(lambda: [(X[:70], y[:70]), (X[70:], y[70:])])
    there.fit(da.from_array(X, chunks=(40, 4)), da.from_array(y, chunks=40))
    np.testing.assert_allclose(there.coef_, local.coef_, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(there.margin_bounds_.upper, local.margin_bounds_.upper, rtol=1e-9)
    assert there.to_local().predict(X).tolist() == local.predict(X).tolist()


def test_weights_are_repetitions_over_partitions_of_any_size(client):
    X, y = rows(600)
    weights = np.random.default_rng(1).integers(0, 3, 600).astype(float)
    repeated = np.repeat(np.arange(600), weights.astype(int))
    setting = {"validation_fraction": 0.0, "potential": "euclidean", "max_iter": 10}
    a = far(**setting).fit(
        *(da.from_array(v, chunks=130) for v in (X, y)), da.from_array(weights, chunks=130)
    )
    b = far(**setting).fit(*(da.from_array(v[repeated], chunks=97) for v in (X, y)))
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=1e-9, atol=1e-11)


def test_frames_and_unknown_chunks(client):
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    X, y = rows(400, 3)
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=y)
    frame = dd.from_pandas(frame, npartitions=3)
    setting = {"validation_fraction": 0.0, "potential": "euclidean", "max_iter": 8}
    from_frame = far(**setting).fit(frame[["a", "b", "c"]], frame["y"])
    assert from_frame.feature_names_in_.tolist() == ["a", "b", "c"]
    lazy = from_frame.predict(frame[["a", "b", "c"]])
    assert isinstance(lazy, dd.Series)
    unknown = frame[["a", "b", "c"]].to_dask_array()
    assert np.isnan(unknown.chunks[0]).all()
    from_array = far(**setting).fit(unknown, frame["y"].to_dask_array())
    np.testing.assert_allclose(from_array.coef_, from_frame.coef_, rtol=1e-12)
    np.testing.assert_allclose(
        lazy.compute().to_numpy(), from_array.predict(unknown).compute(), rtol=1e-12
    )


def test_sparse_partitions(client):
    X, y = rows(300)
    X[np.abs(X) < 0.5] = 0.0
    blocks = [sparse.csr_array(X[i : i + 100]) for i in (0, 100, 200)]
    from dask import delayed

    stacked = da.concatenate(
        [da.from_delayed(delayed(b), shape=b.shape, dtype=float, meta=b[:0]) for b in blocks]
    )
    setting = {"validation_fraction": 0.0, "potential": "euclidean", "max_iter": 10}
    there = far(**setting).fit(stacked, da.from_array(y, chunks=100))
    local = near(**setting).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(there.coef_, local.coef_, rtol=1e-9, atol=1e-10)


def test_wide_sparse_rows_travel_as_the_columns_that_a_worker_has(client, monkeypatch):
    """With a mean that is taken off the sums: the local fit."""
    from dask import delayed

    A = sparse.random_array((400, 200_000), density=1e-4, format="csr", rng=0)
    first = np.arange(400), np.zeros(400, int)
    mean = sparse.csr_array((np.random.default_rng(0).uniform(1.0, 2.0, 400), first), A.shape)
    A = sparse.csr_array(A + mean)
    y, asked = (A @ np.linspace(-1.0, 1.0, 200_000) > -0.9).astype(float), []
    narrowed = Mirror.narrowed

    def count(self, known, columns):
        asked.append(len(columns))
        return narrowed(self, known, columns)

    monkeypatch.setattr(Mirror, "narrowed", count)
    setting = {"validation_fraction": 0.0, "potential": "euclidean", "max_iter": 4}
    parts = [da.from_delayed(delayed(A[i : i + 200]), (200, 200_000), float, meta=A[:0])
             for i in (0, 200)]  # fmt: skip
    there = far(**setting).fit(da.concatenate(parts), da.from_array(y, chunks=200))
    local = near(**setting).fit(A, y)
    np.testing.assert_allclose(there.coef_, local.coef_, rtol=1e-8, atol=1e-11)
    assert asked and max(asked) < 10_000


@pytest.fixture(params=["told", "killed"])
def lose(request):
    """A function after which a worker does not answer: it says so, or is killed."""
    if request.param == "killed":
        return request.getfixturevalue("kill")

    def told():
        raise distributed.comm.CommClosedError("lost")

    return told


def test_a_worker_lost_in_mid_fit_changes_nothing(client, lose, monkeypatch):
    """The worker is gone as it is asked for its part of a pass."""
    X, y = rows(2000)
    arrays = da.from_array(X, chunks=(250, 12)), da.from_array(y, chunks=250)
    model = with_settings(
        tfd.DaskReflectronRegressor,
        link="logit",
        validation_fraction=0.0,
        potential="euclidean",
        max_iter=15,
        random_state=0,
    )
    calm, dealt = model.fit(*arrays).coef_.copy(), []
    deal, swept = RemoteBatches._assign, RemoteBatches._swept

    def count(self):
        dealt.append(len(self.batches))
        deal(self)

    def strike(self, learner, known, epoch):
        if epoch == 7 and len(dealt) == 1:
            lose()
        return swept(self, learner, known, epoch)

    monkeypatch.setattr(RemoteBatches, "_assign", count)
    monkeypatch.setattr(RemoteBatches, "_swept", strike)
    there = model.fit(*arrays).coef_
    assert len(dealt) > 1 and dealt[0] == 8
    np.testing.assert_allclose(there, calm, rtol=0, atol=1e-10)


def test_a_partition_of_more_than_a_share_is_cut(client):
    X, y = rows(6000, 3)
    sizes = (5500, 100, 400)
    cluster = Cluster(da.from_array(X, chunks=(sizes, 3)), da.from_array(y, chunks=(sizes,)))
    assert [f.n_rows for f in cluster.even().facts] == [2750, 2750, 100, 400]
    assert cluster.names == [0, 0, 1, 2] and cluster.n_rows == 6000
    loads = [
        sum(cluster.facts[i].n_rows for i in hand) for _, hand in cluster.assigned(cluster.parts)
    ]
    assert max(loads) <= 3250  # dealt by rows, not by partitions
    whole = cluster.gather(cluster.each("again", _same), "reading")
    assert np.concatenate([part.X for part in whole]).tobytes() == X.tobytes()


def _memory(reset=False):
    """Megabytes that this process holds, and the most it held since the last reset."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    held = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return [int(held[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM")]


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
@pytest.mark.parametrize("name", ["ReflectronRegressor", "RidgePathRegressor"])
def test_a_worker_holds_less_than_three_times_its_partition(client, name):
    def fit(n):
        X = da.random.default_rng(0).normal(size=(2 * n, 100), chunks=(n, 100))
        setting = (
            {"link": "identity", "potential": "euclidean"}
            if "Reflectron" in name
            else {"solver": "exact"}
        )
        getattr(tfd, f"Dask{name}")(max_iter=2, **setting).fit(X, X[:, 0] + X[:, 1])

    fit(1000)  # code is loaded
    before = client.run(_memory, True)
    fit(40_000)
    after = client.run(_memory)
    assert sorted(before) == sorted(after)
    partition = 40_000 * 100 * 8 / 2**20
    grown = [after[worker][1] - before[worker][0] for worker in before]
    assert sum(grown) < 2 * 3 * partition  # one worker may have got both


def test_no_task_gathers_the_rows(client):
    """Results of tasks other than the partitions themselves stay small."""
    X, y = rows(4000, 20)

    class Sizes(distributed.SchedulerPlugin):
        def __init__(self):
            self.seen = {}

        def transition(self, key, start, finish, *args, nbytes=0, **kwargs):
            if finish == "memory":
                self.seen[str(key)] = max(nbytes or 0, self.seen.get(str(key), 0))

    client.register_plugin(Sizes(), name="sizes")
    tfd.DaskReflectronRegressor("logit", max_iter=5, potential="euclidean").fit(
        da.from_array(X, chunks=(500, 20)), da.from_array(y, chunks=500)
    )
    seen = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.plugins["sizes"].seen)
    client.unregister_scheduler_plugin("sizes")
    part = 500 * 22 * 8
    ours = {k: v for k, v in seen.items() if k.startswith("tunefree-")}
    of_rows = "-numbers-", "-batches-"  # partitions as numbers, and in the learner's units
    rounds = {k: v for k, v in ours.items() if not any(name in k for name in of_rows)}
    assert len(rounds) > 10
    assert max(ours.values()) <= 1.2 * part
    assert max(rounds.values()) < 0.2 * part


def _block(part):
    return [Batch(Dense(part.X), part.y[:, None], part.weights)]


def _received(dask_worker):
    return sum(transfer["total"] for transfer in dask_worker.transfer_incoming_log)


def _same(part):
    return part


def test_passes_leave_the_rows_where_they_are(client):
    """A worker that has all partitions gives half of them away, once."""
    X, y = rows(6000, 40)
    cluster = Cluster(da.from_array(X, chunks=(1000, 40)), da.from_array(y, chunks=1000))
    first, second = client.nthreads()
    cluster.parts = cluster.each("moving", _same, at=[first] * 6)
    cluster.gather(cluster.each("sizes", len), "waiting")
    assert [len(hand) for _, hand in cluster.assigned(cluster.parts)] == [3, 3]
    batches = RemoteBatches(cluster, _block)
    learner = Mirror(Identity(), (Configuration(Euclidean()),))
    state = learner.init(40)
    whole = learner.scan(state, Batch(Dense(X), y[:, None], np.ones(6000)))
    batches.sweep(learner, state, 0)
    before = sum(client.run(_received).values())
    for epoch in range(5):
        batches._scanners = []  # deal them out in every pass
        swept = batches.sweep(learner, state, epoch)
    moved = sum(client.run(_received).values()) - before
    assert moved < 3 * 1000 * 40 * 8  # the scheduler may have put one elsewhere
    np.testing.assert_allclose(swept.sums.gradient, whole.sums.gradient, rtol=1e-12, atol=1e-9)


@pytest.fixture
def impatient(client, tmp_path):
    """Four partitions, and a file for which tasks wait; the workers are free at the end."""
    X = np.repeat([[0.0], [1.0], [2.0], [3.0]], 5, axis=0)
    cluster = Cluster(da.from_array(X, chunks=(5, 1)), da.from_array(X[:, 0], chunks=5))
    yield cluster, tmp_path / "free"
    (tmp_path / "free").touch()
    client.gather([client.submit(int, workers=w, pure=False) for w in client.nthreads()])


def _wait_for(path):
    for _ in range(3000):
        if path.exists():
            return
        time.sleep(0.02)


class _Stuck:
    def __init__(self, until):
        self.until = until

    def scan(self, state, block):
        if block.targets[0, 0] == 3.0:
            _wait_for(self.until)
        return state


def test_a_pass_that_hangs_names_the_partitions_of_its_worker(impatient):
    cluster, free = impatient
    batches = RemoteBatches(cluster, _block)
    batches._assign()
    late = next(one.names for one in batches._scanners if "3" in one.names)
    cluster.timeout = 1.0
    message = f"pass 0: no answer within 1 s from partition {', '.join(late)} [(]on tcp"
    with pytest.raises(TimeoutError, match=message):
        batches.sweep(_Stuck(free), Mirror(Identity(), (Configuration(Euclidean()),)).init(1), 0)


def _sleepy(part, until):
    if part.X[0, 0] == 2.0:
        _wait_for(until)


def test_a_round_that_hangs_names_its_partition(impatient):
    cluster, free = impatient
    cluster.timeout = 0.5
    with pytest.raises(
        TimeoutError, match=r"waiting: no answer within 0.5 s from partition (\d, )*2\b"
    ):
        cluster.gather(cluster.each("waiting", _sleepy, free), "waiting")


@pytest.mark.parametrize(
    "spoil, message",
    [
        (lambda X, y: (X, y[:-100]), "y has 3 partitions and X has 4"),
        (lambda X, y: (_with(X, 250, np.inf), y), "partition 2.*X contains infinity"),
        (lambda X, y: (X, _with(y, 250, np.inf)), "partition 2.*y.*infinity"),
    ],
)
def test_bad_rows_are_named(client, spoil, message):
    X, y = spoil(*rows(400))
    with pytest.raises(ValueError, match=message):
        tfd.DaskReflectronRegressor("logit").fit(
            da.from_array(X, chunks=100), da.from_array(y, chunks=100)
        )


def _with(values, at, value):
    values = values.copy()
    values[at] = value
    return values


def test_what_is_not_a_dask_collection_is_refused(client):
    X, y = rows(100)
    with pytest.raises(TypeError, match="X is a ndarray, not a Dask"):
        tfd.DaskGLMClassifier().fit(X, y > 0.5)


@pytest.mark.parametrize("name", ["RidgePathRegressor", "ReflectronRegressor"])
def test_one_absurd_entry_is_taken_as_missing_here_as_in_memory(client, name):
    """One target of 1e30, or one entry of X: the policy and the warning are those of memory."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    y = X @ [1.0, 2.0, 0.0, -1.0] + 0.1 * rng.normal(size=600)
    Z, t = X[:400].copy(), y[:400].copy()
    Z[250, 1], t[17] = -1e25, 1e30
    options = {} if name == "RidgePathRegressor" else {"link": "identity"}
    model = getattr(tfd, f"Dask{name}")(random_state=0, **options)
    with pytest.warns(UserWarning, match="as any other: 1 in 1 distinct rows") as told:
        model.fit(da.from_array(Z, chunks=(100, 4)), da.from_array(t, chunks=100), client=client)
    words = sorted(str(w.message) for w in told)
    assert "X has" in words[0] and "-1e+25 in row 50 of partition 2 and column 1" in words[0]
    assert "y has" in words[1] and "1e+30 in row 17 of partition 0" in words[1]
    with pytest.warns(UserWarning, match="taken as missing"):
        local = estimator_class(name)(random_state=0, **options).fit(Z, t)
    assert model.score(X[400:], y[400:]) > 0.98
    assert abs(model.score(X[400:], y[400:]) - local.score(X[400:], y[400:])) < 0.01


def test_a_failed_refit_on_a_cluster_leaves_the_model_that_was(client, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    rows = da.from_array(X, chunks=(100, 3)), da.from_array(X[:, 0], chunks=100)
    model = tunefree.dask.DaskRidgePathRegressor().fit(*rows, client=client)
    before = vars(model).copy()
    for problem in (KeyboardInterrupt, RuntimeError):

        def stop(*_, problem=problem):
            raise problem

        monkeypatch.setattr(type(model), "_fit_on", stop)
        with pytest.raises(problem):
            model.fit(rows[0][:, :2], rows[1], client=client)
        assert vars(model) == before
