"""Model files that lie under a right checksum: refused, or answered without foreign memory.

Integers, shapes and contents of every kind of model are forged in turn. A process of its own reads
each file and predicts and learns with it, so that a crash is seen. The test takes some of the
forgeries; ``python tests/test_forged_models.py FOLDER 0 1`` takes all, of the models in a folder.
With ``NUMBA_BOUNDSCHECK=1`` and a fresh ``NUMBA_CACHE_DIR`` in the environment every index of
compiled code that is out of bounds is seen, too.
"""

import copy
import resource
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from test_persistence import forge, header_of

import tunefree
from tunefree.core.registry import estimator_class, estimator_classes
from tunefree.files.model import ModelError, load_model, save_model
from tunefree.streams.betting import BETS as BETS_RECORD

BETS = BETS_RECORD.itemsize // 8
RNG = np.random.default_rng(0)
X = RNG.normal(size=(100, 4))
ROWS = {"dense": X, "sparse": sparse.csr_array(X * (RNG.random(X.shape) < 0.5))}
NUMBERS = X @ [1.0, -2.0, 0.5, 0.0]
CODES = np.digitize(NUMBERS, [-1.0, 1.0])
PATHS = np.cumsum(0.3 * RNG.normal(size=(6, 6, 4)), axis=1)
WIDE = sparse.csr_array(np.tile(X, 10))
FEW = {"max_iter": 20}
FITTED = {
    "BoostedTreesClassifier": {},
    "BoostedTreesRegressor": {},
    "RidgePathRegressor": {},
    "ClassicalPerceptron": FEW,
    "DynamicsReflectron": {"link": "identity", "max_iter": 20},
    "KernelOptimisticPerceptron": FEW,
    "KernelPiSTOLClassifier": {},
    "KernelPiSTOLRegressor": {"kernel": "laplacian"},
    "KernelRidgeClassifier": {"n_landmarks": 20},
    "KernelRidgeRegressor": {"n_landmarks": 20},
    "OptimisticPerceptron": FEW,
    "PiSTOLClassifier": {"warm_start": True},
    "PiSTOLRegressor": {"warm_start": True},
    "ReflectronClassifier": FEW,
    "ReflectronRegressor": FEW,
    "SharedReflectron": {"link": "identity", "max_iter": 20},
    "TuneFreeClassifier": {},
    "TuneFreeRegressor": {},
}
STREAMS = ("RidgePathRegressor", "PiSTOLClassifier", "PiSTOLRegressor", "ReflectronClassifier")


def made():
    """Small models of every estimator, and streams on dense, sparse and named rows."""
    for name, setting in FITTED.items():
        model = estimator_class(name)(**setting)
        if "random_state" in model.get_params():
            model.set_params(random_state=0)
        classifies = name.endswith(("Classifier", "Perceptron"))
        y = (NUMBERS > 0).astype(int) if "Perceptron" in name else CODES if classifies else NUMBERS
        if name == "DynamicsReflectron":
            yield name, model.fit(PATHS)
        else:
            yield name, model.fit(X, np.c_[y, -y] if name == "SharedReflectron" else y)
    yield "TablePreprocessor", tunefree.TablePreprocessor().fit(X)
    for name in STREAMS:
        y, known = (CODES, {"classes": [0, 1, 2]}) if "Classifier" in name else (NUMBERS, {})
        for kind, rows in ROWS.items():
            for n in (10, 100):
                model = estimator_class(name)(random_state=0)
                yield f"{name} {kind} {n}", model.partial_fit(rows[:n], y[:n], **known)
    for delay in (0, 3):
        codes, numbers = tunefree.StreamClassifier(delay), tunefree.StreamRegressor(delay)
        yield f"StreamClassifier dense {delay}", codes.partial_fit(X, CODES)
        yield f"StreamRegressor dense {delay}", numbers.partial_fit(X, NUMBERS)
    yield "StreamRegressor wide", tunefree.StreamRegressor().partial_fit(WIDE, NUMBERS)
    named = [dict(zip("abcd", row, strict=True)) for row in X.tolist()]
    yield "StreamClassifier named", tunefree.StreamClassifier().partial_fit(named, CODES)


def walk(value, path=()):
    """(path, value) of all that is no container."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(item, (dict, list)):
            yield from walk(item, (*path, key))
        else:
            yield (*path, key), item


def integers(header):
    """The paths of a model's integers, of many in like places two; numbers of arrays among them."""
    seen = {}
    for path, value in walk(header["model"], ("model",)):
        pattern = tuple("*" if type(key) is int else key for key in path)
        seen[pattern] = seen.get(pattern, 0) + (type(value) is int)
        if type(value) is int and seen[pattern] <= 2:
            yield path, value


def arrays(header):
    """The entries of the arrays in those places."""
    found = [str(n) for path, n in integers(header) if {"array", "csr", "bytes"} & {*path[-3:]}]
    return {number: header["arrays"][number] for number in found if number in header["arrays"]}


def with_value(header, path, new):
    header = copy.deepcopy(header)
    at = header
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = new
    return header


def other_shapes(entry, size):
    """What may stand in place of an array's entry: cut, emptied, turned, flat, of another type."""
    shape, (start, stop) = entry["shape"], entry["data_offsets"]
    item = max((stop - start) // max(int(np.prod(shape)), 1), 1)
    others = [shape[::-1], [int(np.prod(shape))], [*shape, 1], [1, *shape], shape[1:]]
    for axis, n in enumerate(shape):
        for new in {0, n - 1, n + 1} - {-1}:
            others.append([*shape[:axis], new, *shape[axis + 1 :]])
    if swap := {"F64": "I64", "I64": "F64"}.get(entry["dtype"]):
        yield entry | {"dtype": swap}
    for other in others:
        length = int(np.prod(other)) * item
        begin = start if start + length <= size else 0
        if other != shape and begin + length <= size:
            yield entry | {"shape": other, "data_offsets": [begin, begin + length]}


def other_contents(header, entry):
    """(type, where, value): the first number of an array, the last and all; heads of mixtures."""
    start, stop = entry["data_offsets"]
    kind = {"I64": "<i8", "I32": "<i4", "F64": "<f8", "U32": "<u4"}.get(entry["dtype"])
    if kind is None or stop == start:
        return
    count = (stop - start) // np.dtype(kind).itemsize
    places = [slice(0, 1), slice(count - 1, count), slice(None)]
    if "Stream" in header["class"] and count > BETS and len(entry["shape"]) == 1:
        places += [slice(i, i + 1) for i in (*range(20), count - BETS, count - BETS + 1)]
    for place in places:
        for new in (-5.0, 1e6, 1e300, np.nan) if "f" in kind else (0, 10**6):
            yield kind, place, new


def changed(data, entry, kind, place, new):
    data, (start, stop) = bytearray(data), entry["data_offsets"]
    np.frombuffer(data, kind, (stop - start) // np.dtype(kind).itemsize, start)[place] = new
    return bytes(data)


def forgeries(path):
    """(what is forged, function that makes the file) of all forgeries of a file."""
    header, data = header_of(path)
    for at, value in integers(header):
        for new in sorted({-1, value + 1, 2000} - {value}):
            what = f"{'.'.join(map(str, at))} = {new}"
            yield what, lambda at=at, new=new: forge(with_value(header, at, new), data)
    for number, entry in arrays(header).items():
        for other in other_shapes(entry, len(data)):
            entries = {"arrays": header["arrays"] | {number: other}}
            yield f"array {number}: {other}", lambda e=entries: forge(header | e, data)
        for kind, place, new in other_contents(header, entry):
            change = entry, kind, place, new
            what = f"array {number} {entry['shape']} {place} = {new}"
            yield what, lambda change=change: forge(header, changed(data, *change))


def steps(model, name):
    """Predictions, then learning, each twice: what is refused once must be refused again."""
    rows = ROWS["sparse" if "sparse" in name else "dense"]
    if "wide" in name:
        rows = WIDE
    if "named" in name:
        rows = [dict(zip("abcd", row, strict=True)) for row in X[:20].tolist()]
    rows = PATHS[0] if name == "DynamicsReflectron" else rows[:20]
    for verb in ("predict", "predict", "decision_function", "predict_proba", "transform"):
        if hasattr(type(model), verb):
            yield lambda verb=verb: getattr(model, verb)(rows)
    if " " in name:
        y = CODES[:20] if "Classifier" in name else NUMBERS[:20]
        yield from [lambda: model.partial_fit(rows, y)] * 2
        for fact in ("predict_one", "drift_", "members_", "half_life_"):
            if hasattr(type(model), fact):
                yield lambda fact=fact: getattr(model, fact)


def attack(folder, begin, every=1):
    """Try one of so many forgeries from a number on, and say what is tried before it is."""
    resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    number = 0
    for path in sorted(Path(folder).glob("*.model")):
        often = max(every // 5, 1) if path.stem.startswith("Stream") else every
        for what, make in forgeries(path):
            number += 1
            if number <= begin or number % often:
                continue
            print(f"{number}\t{path.stem}\t{what}", flush=True)
            path.with_suffix(".forged").write_bytes(make())
            print("; ".join(sorted(outcomes(path))), flush=True)


def outcomes(path):
    """What comes of a forged file."""
    try:
        model = load_model(path.with_suffix(".forged"))
    except ModelError:
        return {"refused"}
    found = set()
    for step in steps(model, path.stem):
        try:
            step()
            found.add("used")
        except MemoryError:
            found.add("no memory")
        except Exception as fault:
            # NumPy's messages name an axis; this one is of compiled code.
            beyond = str(fault) == "index is out of bounds"
            found.add("beyond" if beyond else f"raised {fault!r}"[:100].replace("\n", " "))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are those of Linux")
def test_a_forged_model_is_refused_or_answers_from_its_own_memory(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, model in made():
            save_model(model, tmp_path / f"{name}.model")
    begin, crashes, told = 0, [], []
    while len(crashes) < 5:
        command = [sys.executable, __file__, str(tmp_path), str(begin), "120"]
        done = subprocess.run(command, capture_output=True, text=True)
        told += done.stdout.splitlines()
        if done.returncode == 0:
            break
        crashes.append((done.returncode, told[-1], done.stderr[-500:]))
        begin = int(told[-1].split("\t")[0])
    assert crashes == []
    assert not {"beyond", "no memory"} & {word for line in told for word in line.split("; ")}
    assert told.count("refused") > 60 and told.count("used") > 60


@pytest.mark.parametrize("name", ["StreamClassifier", "StreamRegressor"])
def test_a_forged_stream_is_refused_when_it_is_read(tmp_path, name):
    path, make = tmp_path / "model", estimator_classes()[name]
    save_model(make(3).partial_fit(X, CODES if "Class" in name else NUMBERS), path)
    header, data = header_of(path)
    fitted = header["model"]["estimator"][2]
    at = "model", "estimator", 2
    lies = [((*at, "n_features_in_"), 5), ((*at, "columns_"), ["a"] * 5), ((*at, "columns_"), 5)]
    lies += [((*at, "mixture_", "object", 1, field), new)
             for field in "dm" for new in (-1, 0, 5, 2000, 2**40, 1.5, None)]  # fmt: skip
    lies += [((*at, "mixture_", "object", 1, "form"), new) for new in (1, 2, 3, -1)]
    lies.append(((*at, "mixture_", "object", 1, "real"), name == "StreamClassifier"))
    for lie, new in lies:
        path.write_bytes(forge(with_value(header, lie, new), data))
        with pytest.raises(ModelError):
            load_model(path)
    state = header["arrays"][str(fitted["mixture_"]["object"][1]["state"]["array"])]
    for place in (0, 15, 16, -BETS):  # rows, points, stride, rows bet on
        path.write_bytes(forge(header, changed(data, state, "<f8", place, -5.0)))
        with pytest.raises(ModelError, match="is inconsistent|does not fit together"):
            load_model(path)


if __name__ == "__main__":
    attack(sys.argv[1], *map(int, sys.argv[2:]))
