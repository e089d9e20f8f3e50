import hashlib
import json
import os
import pickle
import random
import struct
import subprocess
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import tunefree
from tunefree import PiSTOLClassifier, PiSTOLRegressor
from tunefree.core.registry import estimator_classes
from tunefree.files.model import (
    Decoder,
    Encoder,
    ModelError,
    describe_model,
    load_model,
    save_model,
)
from tunefree.parts.losses import Huber

RNG = np.random.default_rng(0)
X = RNG.standard_normal((120, 4))
KINDS = {
    "binary": lambda: PiSTOLClassifier(random_state=0).fit(X, X[:, 0] > 0),
    "text": lambda: PiSTOLClassifier(random_state=0).fit(
        X, np.array(["no", "yes", "wörtlich"])[(X[:, 0] > 0) + 1 * (X[:, 1] > 0.5)]
    ),
    "objects": lambda: PiSTOLClassifier(random_state=0).fit(
        X, np.array(["no", "yes"], dtype=object)[(X[:, 0] > 0).astype(int)]
    ),
    "integers": lambda: PiSTOLClassifier(random_state=0).fit(X, np.arange(120) % 3),
    "regression": lambda: PiSTOLRegressor(random_state=0).fit(X, X @ [1, 2, 3, 4]),
    "outputs": lambda: PiSTOLRegressor(random_state=0).fit(X, X @ np.ones((4, 2))),
}


@pytest.fixture(scope="module")
def models():
    return {name: make() for name, make in KINDS.items()}


@pytest.fixture
def saved(models, tmp_path):
    path = tmp_path / "model"
    save_model(models["text"], path, notes={"rows": 120})
    return path


@pytest.mark.parametrize("name", KINDS)
def test_a_loaded_model_gives_the_same_bits(models, tmp_path, name):
    model, path = models[name], tmp_path / "model"
    save_model(model, path)
    again = load_model(path)
    assert type(again) is type(model)
    assert repr(again.get_params()) == repr(model.get_params())
    assert again.predict(X).tolist() == model.predict(X).tolist()
    assert again.predict(X).dtype == model.predict(X).dtype
    if hasattr(model, "predict_proba"):
        assert again.predict_proba(X).tobytes() == model.predict_proba(X).tobytes()
    assert again.coef_.tobytes() == model.coef_.tobytes()
    assert again.leaderboard_ == model.leaderboard_


def test_the_same_training_gives_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        save_model(KINDS["text"](), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("cls", [tunefree.TuneFreeClassifier, tunefree.TuneFreeRegressor])
def test_the_same_race_gives_the_same_bytes_whatever_it_took(tmp_path, cls):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    y = (X[:, 0] > X[:, 1]).astype(int)
    models = [cls(random_state=0).fit(X, y) for _ in range(2)]
    for model, name in zip(models, "ab", strict=True):
        tunefree.save_model(model, tmp_path / name)
        assert model.seconds_ > 0 and model.leaderboard_[0]["seconds"] > 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    loaded = tunefree.load_model(tmp_path / "a")
    assert loaded.seconds_ is None and " s (" not in str(loaded.report_)
    assert loaded.report_ == models[0].report_.timeless()


@pytest.mark.parametrize("name", sorted(estimator_classes()))
def test_what_is_not_fitted_is_not_saved(tmp_path, name):
    with pytest.raises(NotFittedError, match=name):
        tunefree.save_model(estimator_classes()[name](), tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_parts_and_special_parameters_come_back(tmp_path):
    model = PiSTOLRegressor(loss=Huber(2.5), random_state=7).fit(X, X[:, 0])
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again.loss == Huber(2.5) and type(again.loss) is Huber
    assert again.random_state == 7


def test_a_file_describes_itself(saved):
    facts = describe_model(saved)
    assert facts["class"] == "PiSTOLClassifier"
    assert facts["n_features"] == 4
    assert facts["notes"] == {"rows": 120}
    assert facts["versions"]["tunefree"] == tunefree.__version__
    assert facts["bytes"] == saved.stat().st_size
    assert 0 < sum(facts["parts"].values()) <= facts["bytes"]
    assert next(iter(facts["parts"].values())) == max(facts["parts"].values())
    digest, content = facts["sha256"].encode(), saved.read_bytes()
    assert content.count(digest) == 1
    assert digest.decode() == hashlib.sha256(content.replace(digest, b"0" * 64)).hexdigest()


def test_a_file_is_one_of_safetensors(saved, models):
    tensors = pytest.importorskip("safetensors.numpy").load_file(saved)
    assert any(np.array_equal(a, models["text"].coef_) for a in tensors.values())


VALUES = [
    None, True, 0, -1, 2**70, 0.1, -0.0, float("inf"), float("nan"), "", "é\x00\n",
    b"", b"\x00\xff", [], (), {}, [1, (2, [None]), {"a": {"b": (True,)}}], {"tuple": [1]},
    {"array": 0}, np.float32(0.1), np.int64(3), np.bool_(True), np.str_("x"), np.complex128(1j),
    np.arange(6.0).reshape(2, 3), np.asfortranarray(np.arange(6).reshape(2, 3)),
    np.arange(10, dtype=">i2")[::3], np.array(5), np.empty((0, 3)), np.empty((2, 0), np.float32),
    np.array(["a", "bé"]), np.array([b"a", b"bc"]), np.array([True, False]),
    np.array([["a", "é"], ["", "b"]], dtype=object), np.array([np.nan, -0.0, np.inf]), Huber(1.5),
]  # fmt: skip


def same(a, b):
    if isinstance(a, np.ndarray):
        return (a.dtype.newbyteorder("=") == b.dtype and a.shape == b.shape
                and a.tolist().__repr__() == b.tolist().__repr__()
                and (a.flags.c_contiguous == b.flags.c_contiguous or not a.flags.forc))  # fmt: skip
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    return type(a) is type(b) and repr(a) == repr(b)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_comes_back_as_it_was(value):
    encoder = Encoder()
    text = json.dumps(encoder.encode({"nested": [value]}, "value"), allow_nan=False)
    data = b"".join(array.tobytes() for array in encoder.arrays)
    (again,) = Decoder(data, encoder.table).decode(json.loads(text))["nested"]
    assert same(value, again)


def a_function(x):
    return x


REFUSED = {
    "a lambda": (lambda x: x, "the function"),
    "a function": (a_function, "the function a_function"),
    "a class": (dict, "the class dict"),
    "a generator": (np.random.default_rng(0), "a Generator"),
    "a random state": (np.random.RandomState(0), "a RandomState"),
    "a set": ({1}, "a set"),
    "a module": (os, "a module"),
    "an object": (object(), "a object"),
    "objects": (np.array([1, None]), "objects, not all strings"),
    "dates": (np.array(["2020-01-01"], "M8[D]"), "type datetime64"),
    "records": (np.zeros(1, [("a", float)]), "an array of type"),
    "a long double": (np.longdouble(1), "an array of type"),
    "an odd key": ({1: 2}, "its key 1 is not a string"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_saved_is_named_and_nothing_is_written(models, tmp_path, name):
    value, words = REFUSED[name]
    model = load_model_copy(models["binary"], tmp_path)
    model.odd_ = {"deep": [1, value]}
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(ModelError) as caught:
        save_model(model, tmp_path / "refused")
    assert "PiSTOLClassifier.odd_.deep[1] cannot be saved: " in str(caught.value)
    assert words in str(caught.value)
    assert sorted(os.listdir(tmp_path)) == before


def load_model_copy(model, folder):
    save_model(model, folder / "copy")
    return load_model(folder / "copy")


def test_a_parameter_that_cannot_be_saved_is_named(models, tmp_path):
    model = load_model_copy(models["binary"], tmp_path).set_params(random_state=a_function)
    with pytest.raises(ModelError, match="PiSTOLClassifier.random_state .* function a_function"):
        save_model(model, tmp_path / "refused")


def test_values_nested_without_end_are_refused(models, tmp_path):
    model = load_model_copy(models["binary"], tmp_path)
    model.loop_ = []
    model.loop_.append(model.loop_)
    with pytest.raises(ModelError, match="nested too deeply"):
        save_model(model, tmp_path / "refused")


class Stranger(PiSTOLClassifier):
    pass


def test_only_our_own_estimators_are_saved(tmp_path):
    for stranger in (Stranger(), "text", None):
        with pytest.raises(ModelError, match="only estimators of tunefree can be saved"):
            save_model(stranger, tmp_path / "refused")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("model", [PiSTOLClassifier(), tunefree.RidgePathRegressor()])
def test_a_pipeline_of_our_own_estimators_predicts_the_same(tmp_path, model):
    rng, path = np.random.default_rng(0), tmp_path / "pipeline"
    X = np.column_stack([rng.choice(["u", "v", "w"], 60), rng.normal(size=60).round(2)])
    X = X.astype(object)
    X[3, 1] = None
    y = (X[:, 0] == "v").astype(int)
    table = tunefree.TablePreprocessor()
    pipeline = Pipeline([("table", table), ("model", model)]).fit(X, y)
    save_model(pipeline, path)
    again = load_model(path)
    assert [name for name, _ in again.steps] == ["table", "model"]
    np.testing.assert_array_equal(again.predict(X), pipeline.predict(X))
    about = describe_model(path)
    assert about["class"] == "Pipeline" and about["n_features"] == 2 and about["parts"]
    save_model(again, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_a_pipeline_with_a_step_of_others_is_refused(tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 2))
    for steps in ([StandardScaler(), PiSTOLRegressor()], [Stranger()], ["passthrough", Stranger()]):
        pipeline = Pipeline([(str(i), step) for i, step in enumerate(steps)])
        pipeline.fit(X, (X[:, 0] > 0).astype(int))
        with pytest.raises(ModelError, match="can be saved, not a Pipeline"):
            save_model(pipeline, tmp_path / "refused")
    with pytest.raises(NotFittedError):
        save_model(Pipeline([("model", PiSTOLRegressor())]), tmp_path / "refused")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("step", [-101, -1])
def test_every_truncation_is_rejected(saved, step):
    content = saved.read_bytes()
    saved.write_bytes(content + b"\0")
    with pytest.raises(ModelError, match="truncated or damaged"):
        load_model(saved)
    for length in range(len(content) - 1, -1, step):
        os.truncate(saved, length)
        with pytest.raises(ModelError):
            load_model(saved)


def test_bit_flips_are_rejected(saved):
    content = bytearray(saved.read_bytes())
    rng = random.Random(0)
    flips = [rng.randrange(8 * len(content)) for _ in range(10_000)] + list(range(8 * 40))
    with open(saved, "r+b", buffering=0) as file:
        for flip in flips:
            place, bit = divmod(flip, 8)
            file.seek(place)
            file.write(bytes([content[place] ^ (1 << bit)]))
            with pytest.raises(ModelError):
                load_model(saved)
            file.seek(place)
            file.write(content[place : place + 1])
    assert load_model(saved).classes_.tolist() == ["no", "wörtlich", "yes"]


def forge(header, data=b"", *, rest=None, version=2, length=None, size=None):
    """A model file with a right checksum and whatever inside; `rest` is raw text after the head."""
    if rest is None:
        model = header if isinstance(header, str) else json.dumps(header)
        tensors = header.get("arrays", {}) if isinstance(header, dict) else {}
        entries = json.dumps(tensors)[1:-1] if isinstance(tensors, dict) else json.dumps(tensors)
        rest = f'"model":{json.dumps(model)}}}{", " * bool(entries)}{entries}}}'.encode()
    start = b'{"__metadata__":{"format":"tunefree %d","bytes":"' % version
    actual = 8 + len(start) + 20 + 12 + 64 + 2 + len(rest) + len(data)
    start += b'%020d","sha256":"' % (size or actual)
    count = len(start) + 66 + len(rest)
    start = (count if length is None else length).to_bytes(8, "little") + start
    rest = b'",' + rest + data
    digest = hashlib.sha256(start + b"0" * 64 + rest).hexdigest().encode()
    return start + digest + rest


def header_of(path):
    """What a file says of its model, with the entries of the tensors as "arrays", and the data."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    tensors = json.loads(content[8 : 8 + length])
    header = json.loads(tensors.pop("__metadata__")["model"])
    return header | {"arrays": tensors}, content[8 + length :]


def hostile_files(path, canary):
    """Files that would run something, allocate without end, or smuggle something in."""
    good, data = header_of(path)

    class Bomb:
        def __reduce__(self):
            return os.system, (f"touch {canary}",)

    yield pickle.dumps(Bomb())
    yield pickle.dumps(Bomb(), protocol=0)
    yield b"tunefree" + pickle.dumps(Bomb())
    yield b"\x93NUMPY\x01\x00" + pickle.dumps(Bomb())
    with zipfile.ZipFile(canary.parent / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../evil", b"\0" * 10_000_000)
    yield (canary.parent / "bomb.zip").read_bytes()
    yield from (b"", b"tunefree", b"tunefree" * 100, b"\0" * 1000, b"../../etc/passwd")
    for version in (0, 1, 3, 2**32 - 1):
        yield forge(good, data, version=version)
    for length in (0, 1, 2**40, 2**63, 2**64 - 1):
        yield forge(good, data, length=length)
    for size in (1, 2**40, 2**64 - 1):
        yield forge(good, data, size=size)
    for text in ("", "[]", "nul", "\xff\xfe", '{"a":', "{}", "1", "[" * 100_000, "9" * 9999):
        yield forge(text, data)
        yield forge(good, data, rest=text.encode("latin-1"))
        yield forge(good, data, rest=f'"model":{text}}}}}'.encode("latin-1"))
    yield forge('{"model": {"estimator": ' + "[" * 50_000 + "]" * 50_000 + "}}")
    yield forge(json.dumps(good)[:-1] + ', "class": "PiSTOLRegressor"}', data)  # a name twice

    def changed(**changes):
        return forge(good | changes, data)

    def estimator(name="PiSTOLClassifier", parameters=None, fitted=None):
        old = good["model"]["estimator"]
        return {"estimator": [name, parameters or old[1], fitted or old[2], {}]}

    for name in ("os.system", "eval", "load_model", "../../evil", "BaseEstimator", "__class__", 7):
        yield changed(model=estimator(name))
    yield changed(model="PiSTOLClassifier")
    yield changed(model={"part": ["tunefree.parts.losses.Huber", {"delta": 1.0}]})
    yield changed(model=estimator(parameters={"verbose": 1, "os": 2}))
    for name in (
        "__class__",
        "__dict__",
        "__reduce__",
        "predict",
        "fit",
        "a b",
        "",
        "_model_state",
    ):
        yield changed(model=estimator(fitted={name: 1}))
    for name in ("os.system", "subprocess.Popen", "tunefree.files.model.Decoder", "evil"):
        yield changed(model=estimator(fitted={"x_": {"part": [name, {"args": "touch"}]}}))
    yield changed(
        model=estimator(fitted={"x_": {"part": ["tunefree.parts.losses.Huber", {"x": 1}]}})
    )
    for value in ({"eval": "1"}, {"float": "1/0"}, {"a": 1, "b": 2}, {}, {"array": -1},
                  {"array": 1e9}, {"array": 10**6}, {"array": "0"}, {"tuple": "ab"}, {"dict": []},
                  {"bytes": None}, {"strings": [[2], ["a"]]}, {"strings": [[1], [1]]},
                  {"scalar": True}, {"array": [0]}, {"array": []}):  # fmt: skip
        yield changed(model=estimator(fitted={"x_": value}))

    def entry(dtype="F64", shape=(1,), start=0, stop=8):
        return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, stop]}

    for forged in (entry("O"), entry("<f8"), entry(None), entry([]), entry(shape=[2**60]),
                   entry(shape=[2**60], stop=2**63), entry(shape=[2**47, 2**47]),
                   entry(shape=[-1]), entry(shape=[1.0]), entry(shape=[True]),
                   entry(shape=[1] * 100), entry(shape="1"), entry(shape=[0, 2**60], stop=0),
                   entry(start=-8, stop=0), entry(start=8, stop=0),
                   entry(start=2**62, stop=2**62 + 8), entry(stop=9), entry(stop=8.0),
                   {"dtype": "F64", "shape": [1]}, [], None,
                   entry() | {"data_offsets": [0]}, entry("BOOL", [8]),
                   entry("F64", [10**12])):  # fmt: skip
        data = b"\x02" * len(data)  # no truth value either
        arrays = good["arrays"] | {"0": forged}
        yield changed(arrays=arrays, model=estimator(fitted={"x_": {"array": 0}}))
    for form in ("<U2", "<U1", "<U3", "T2", "<M8[s]", "|V8", "<f8,os", ">U2", "<U0", 1, None, []):
        bytes_of = good["arrays"] | {"0": entry("U8", [1, 8])}
        yield forge(
            good | {"arrays": bytes_of, "model": estimator(fitted={"x_": {"array": [0, form]}})},
            b"\xff" * len(data),
        )


def test_hostile_files_are_rejected_without_running_or_allocating_anything(saved, tmp_path):
    canary = tmp_path / "canary"
    modules = set(sys.modules)
    files = list(hostile_files(saved, canary))
    assert len(files) >= 50
    tracemalloc.start()
    accepted = []
    for number, content in enumerate(files):
        path = tmp_path / "hostile"
        path.write_bytes(content)
        try:
            load_model(path)
            accepted.append(number)
        except ModelError:
            pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert accepted == []
    assert not canary.exists()
    assert not [name for name in set(sys.modules) - modules if name.startswith(("os", "evil"))]
    assert peak < 50_000_000


def test_what_is_mentioned_often_is_decoded_once(saved):
    header, data = header_of(saved)
    n, last = 10**6, str(10**6)
    entry = {"dtype": "U8", "shape": [n], "data_offsets": [len(data), len(data) + n]}
    header["arrays"][last], data = entry, data + bytes(n)
    mentions = [{"bytes": 10**6}] * 1000
    header["model"]["estimator"][2]["x_"] = mentions
    saved.write_bytes(forge(header | {"notes": {"dict": {"x": mentions}}}, data))
    tracemalloc.start()
    for tell in (load_model, describe_model):
        tell(saved)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * n


def test_no_byte_of_a_file_belongs_to_two_arrays(saved):
    header, data = header_of(saved)
    first = header["arrays"]["0"]
    for copy, mention in (("1000", {"array": 1000}), ("0", {"array": [0, "T"]})):
        header["arrays"][copy] = first
        header["model"]["estimator"][2]["x_"] = [{"array": 0}, mention]
        header["model"]["estimator"][2]["y_"] = [{"array": int(n)} for n in header["arrays"]]
        saved.write_bytes(forge(header, data))
        with pytest.raises(ModelError, match="arrays overlap"):
            load_model(saved)


def test_another_version_is_named(saved):
    header, data = header_of(saved)
    saved.write_bytes(forge(header, data))
    load_model(saved)  # what is forged without a change is sound
    saved.write_bytes(forge(header, data, version=9))
    with pytest.raises(ModelError, match="version 9; this tunefree .* reads version 2"):
        load_model(saved)


def test_a_file_of_the_first_release_says_what_reads_it(saved):
    saved.write_bytes(struct.pack("<8sIIQQ", b"tunefree", 1, 0, 2, 98) + b"{}" + bytes(64))
    with pytest.raises(ModelError, match="tunefree 0.1.0 .format 1.*use tunefree 0.1.0"):
        load_model(saved)


def test_a_model_whose_parts_have_changed_since_says_which_version_wrote_it(saved):
    header, data = header_of(saved)
    header["model"]["estimator"][1]["gone"] = 1
    for version, words in (
        (tunefree.__version__, "differ$"),
        ("0.1.7", "written by tunefree 0.1.7"),
    ):
        saved.write_bytes(forge(header | {"tunefree": version}, data))
        with pytest.raises(ModelError, match=words):
            load_model(saved)


def test_a_missing_file_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "none")


def test_a_fresh_process_loads_without_importing_from_the_file(models, saved):
    code = (
        "import sys, tunefree, numpy as np\n"
        "model = tunefree.load_model(sys.argv[1])\n"
        "print(model.predict(np.eye(4)).tolist())"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(saved)], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == str(models["text"].predict(np.eye(4)).tolist())
