"""Learning from a source is learning from its rows; an interrupted run ends with the same bits."""

import os
import signal

import numpy as np
import pytest

from tunefree import (
    Checkpoint,
    OptimisticPerceptron,
    PiSTOLClassifier,
    PiSTOLRegressor,
    ReflectronRegressor,
    RidgePathRegressor,
    open_source,
)
from tunefree.engine.sources.readers import Replay
from tunefree.files import DataError, read
from tunefree.files.model import ModelError, load_values, save_values

RNG = np.random.default_rng(0)
ROWS = 1500


def growing(targets):
    """libsvm text whose later rows have ever larger indices."""
    lines = []
    for i in range(ROWS):
        columns = np.unique(RNG.integers(1, 3 + 2 * i, 7))
        lines.append(f"{targets(columns)} " + " ".join(f"{j}:{RNG.random():.3f}" for j in columns))
    return ("\n".join(lines) + "\n").encode()


LABELS, VALUES = growing(lambda c: 1 - 2 * (len(c) % 2)), growing(lambda c: f"{np.sqrt(c[0]):.3f}")
DENSE = RNG.standard_normal((ROWS, 5)) * [1, 10, 100, 1, 1]
ONLINE = [
    (PiSTOLClassifier, LABELS),
    (PiSTOLRegressor, VALUES),
    (RidgePathRegressor, VALUES),
]
BOTH = pytest.mark.parametrize("estimator, text", ONLINE, ids=[e.__name__ for e, _ in ONLINE])


def cut(text, size):
    return Replay("text", (text[i : i + size] for i in range(0, len(text), size)))


def same(one, other):
    assert one.coef_.tobytes() == other.coef_.tobytes()
    assert one.intercept_.tobytes() == other.intercept_.tobytes()
    assert one.n_features_in_ == other.n_features_in_


@BOTH
@pytest.mark.parametrize("size", [150, 3000, 1 << 20])
def test_columns_that_appear_late_are_learned_as_if_known(estimator, text, size):
    whole = read([text])
    expected = estimator().partial_fit(whole.X, whole.y)
    assert np.count_nonzero(expected.coef_) > 1000
    same(estimator().fit_source(cut(text, size)), expected)


@BOTH
def test_dense_rows_weights_and_classes_give_what_partial_fit_gives(estimator, text):
    y = DENSE[:, 0] + 0.1 * DENSE[:, 1] + 0.3 * RNG.standard_normal(ROWS)
    y = np.where(y > 0, "up", "down") if estimator is PiSTOLClassifier else y
    weight = RNG.integers(0, 3, ROWS) * 1.0
    expected = estimator().partial_fit(DENSE, y, sample_weight=weight)
    same(estimator().fit_source((DENSE, y, weight)), expected)

    def pieces():
        for start in range(0, ROWS, 77):
            yield tuple(a[start : start + 77] for a in (DENSE, y, weight))

    same(estimator().fit_source(pieces), expected)
    same(estimator().fit_source(pieces()), expected)


def test_a_file_sorted_by_class_is_learned_once_the_second_class_comes():
    y = np.repeat([0, 1, 2], ROWS // 3)
    X = DENSE + y[:, None]
    pieces = [(X[i : i + 100], y[i : i + 100]) for i in range(0, ROWS, 100)]
    model = PiSTOLClassifier().fit_source(pieces)
    assert model.classes_.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="All of the first 200 rows .* have the class 0"):
        PiSTOLClassifier().fit_source(pieces[:2])
    announced = PiSTOLClassifier().fit_source(pieces[:2], classes=[0, 1])
    assert announced.predict(X[:5]).tolist() == [0] * 5


def test_a_source_that_cannot_be_read_again_serves_one_pass():
    with pytest.raises(ValueError, match="max_iter=2 needs a source that can be read again"):
        PiSTOLClassifier(max_iter=2).fit_source(iter([(DENSE, DENSE[:, 0] > 0)]))


@pytest.mark.parametrize("estimator", [PiSTOLClassifier, PiSTOLRegressor])
def test_more_passes_fit_closer(estimator):
    y = DENSE @ [3.0, 0.2, 0.01, -2.0, 1.0]
    y = y > 0 if estimator is PiSTOLClassifier else y
    scores = [estimator(max_iter=k).fit_source((DENSE, y)).score(DENSE, y) for k in (1, 6)]
    assert scores[1] >= scores[0] and scores[1] > 0.98


def test_a_malformed_row_far_down_leaves_the_estimator_as_it_was():
    model = PiSTOLClassifier().fit_source(cut(LABELS, 4000))
    before = model.coef_.tobytes()
    text = LABELS + b"1 2:oops\n"
    with pytest.raises(DataError, match=f"text:{ROWS + 1}:5: the value must be a finite number"):
        model.fit_source(cut(text, 4000))
    assert model.coef_.tobytes() == before
    source = open_source(cut(text, 4000), on_bad_row="skip")
    same(PiSTOLClassifier().fit_source(source), model)
    assert source.skipped.count == 1


class Killed(Exception):
    pass


def killed_at(rows):
    """A callback that ends a run without warning after so many rows."""

    def after(estimator, row, epoch):
        if epoch * ROWS + row >= rows:
            raise Killed

    return after


@BOTH
@pytest.mark.parametrize("options", [{}, {"window": 400}], ids=["plain", "window"])
@pytest.mark.parametrize("passes", ["auto", 2])
def test_a_run_killed_at_any_row_resumes_with_the_same_bits(
    estimator, text, options, passes, tmp_path
):
    model, kills = estimator(max_iter=passes), 0

    def pieces():
        whole = read([text])
        for start in range(0, ROWS, 90):
            part = slice(start, start + 90)
            yield whole.X[part], whole.y[part]

    expected = estimator(max_iter=passes).fit_source(open_source(pieces, **options))
    total = ROWS * (1 if passes == "auto" else passes)
    rng = np.random.default_rng(len(options))
    for trial in range(3):
        path = tmp_path / f"checkpoint-{trial}"
        for at in sorted(rng.integers(1, total, 3)):
            try:
                model.fit_source(
                    open_source(pieces, **options),
                    checkpoint=Checkpoint(path, every=50 * (trial + 1), resume=True),
                    on_chunk=killed_at(at),
                )
            except Killed:
                kills += 1
        last = Checkpoint(path, every=100, resume=True)
        model.fit_source(open_source(pieces, **options), checkpoint=last)
        assert last.rows > 0
        same(model, expected)
    assert kills >= 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_what_was_learned_and_the_rest_follows(number, tmp_path):
    expected = PiSTOLClassifier().fit_source(open_source(cut(LABELS, 4000), n_features=4000))
    handlers = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]

    def send(estimator, row, epoch):
        if row > 500:
            os.kill(os.getpid(), number)

    path = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        PiSTOLClassifier().fit_source(
            open_source(cut(LABELS, 4000), n_features=4000),
            checkpoint=Checkpoint(path), on_chunk=send,
        )  # fmt: skip
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == handlers
    saved = Checkpoint(path, resume=True)
    model = PiSTOLClassifier()
    model.fit_source(open_source(cut(LABELS, 4000), n_features=4000), checkpoint=saved)
    assert 500 < saved.rows < ROWS
    same(model, expected)


def test_a_checkpoint_of_something_else_is_refused_and_stays(tmp_path):
    path, data = tmp_path / "run", tmp_path / "data.svm"
    data.write_bytes(LABELS)
    PiSTOLClassifier().fit_source(data, checkpoint=Checkpoint(path, every=10))
    before = path.read_bytes()

    def resume(model, source=data):
        model.fit_source(source, checkpoint=Checkpoint(path, resume=True))

    with pytest.raises(ModelError, match="of a PiSTOLClassifier, not of a PiSTOLRegressor"):
        resume(PiSTOLRegressor())
    with pytest.raises(ModelError, match="another model: random_state=None, not 3"):
        resume(PiSTOLClassifier(random_state=3))
    with pytest.raises(ModelError, match="other data: .* differs in its window"):
        resume(PiSTOLClassifier(), open_source(data, window=10))
    other = tmp_path / "other.svm"
    other.write_bytes(VALUES)
    with pytest.raises(ModelError, match="differs in its content"):
        resume(PiSTOLClassifier(), other)
    for text in (LABELS[: len(LABELS) // 2], LABELS[:-20] + b"1" + LABELS[-19:]):
        data.write_bytes(text)
        with pytest.raises(ModelError, match="differs in its content"):
            resume(PiSTOLClassifier())
    assert path.read_bytes() == before
    data.write_bytes(LABELS)
    values = load_values(path, kind="checkpoint") | {"version": "0.0"}
    save_values(values, path, kind="checkpoint")
    with pytest.raises(ModelError, match="written by tunefree 0.0"):
        resume(PiSTOLClassifier())
    path.write_bytes(before[:-100])
    with pytest.raises(ModelError, match="truncated"):
        resume(PiSTOLClassifier())


def test_a_file_that_shrinks_while_it_is_read_leaves_the_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr("tunefree.files.files.CHUNK", 4096)
    data, path = tmp_path / "data.svm", tmp_path / "run"
    data.write_bytes(LABELS)
    model = PiSTOLClassifier()

    def shrink(estimator, row, epoch):
        os.truncate(data, len(LABELS) * 3 // 4)

    with pytest.raises(DataError, match="data.svm: the file shrank while it was read"):
        model.fit_source(data, checkpoint=Checkpoint(path, every=100), on_chunk=shrink)
    data.write_bytes(LABELS)
    saved = Checkpoint(path, every=100, resume=True)
    model.fit_source(data, checkpoint=saved)
    assert saved.rows > 0
    same(model, PiSTOLClassifier().fit_source(data))


def test_a_full_disk_leaves_the_last_checkpoint(tmp_path):
    import resource

    path, data = tmp_path / "run", tmp_path / "data.svm"
    data.write_bytes(LABELS)
    PiSTOLClassifier().fit_source(data, checkpoint=Checkpoint(path, every=10))
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            PiSTOLClassifier().fit_source(data, checkpoint=Checkpoint(path, every=10))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, old)
    assert path.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["data.svm", "run"]


def test_the_stochastic_reflectron_learns_from_a_source_and_resumes(tmp_path):
    y = 1.0 / (1.0 + np.exp(-DENSE[:, 0]))
    pieces = [(DENSE[i : i + 100], y[i : i + 100]) for i in range(0, ROWS, 100)]
    model = ReflectronRegressor("logit", solver="stochastic")
    expected = ReflectronRegressor("logit", solver="stochastic").partial_fit(DENSE, y)
    same(model.fit_source(pieces), expected)
    saved = Checkpoint(tmp_path / "run", every=100)
    with pytest.raises(Killed):
        model.fit_source(pieces, checkpoint=saved, on_chunk=killed_at(700))
    again = Checkpoint(tmp_path / "run", resume=True)
    same(model.fit_source(pieces, checkpoint=again), expected)


def test_a_separator_reads_its_source_in_every_pass(tmp_path):
    X = DENSE / [1, 10, 100, 1, 1]
    y = np.where(X @ [1.0, -1.0, 0.5, 0.0, 0.0] > 0, "a", "b")
    kept = np.abs(X @ [1.0, -1.0, 0.5, 0.0, 0.0]) > 0.5
    X, y = X[kept], y[kept]
    models = []
    for size in (50, 333):
        pieces = [(X[i : i + size], y[i : i + size]) for i in range(0, len(y), size)]
        models.append(OptimisticPerceptron().fit_source(pieces))
    same(*models)
    assert models[0].separated_ and models[0].score(X, y) == 1.0
    with pytest.raises(ValueError, match="can be read once only"):
        OptimisticPerceptron().fit_source(iter(pieces))
