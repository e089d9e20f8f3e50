"""Model files: versioned, checksummed, written atomically; nothing in them is executed.

The layout is that of safetensors, and any of its readers opens the file: the length N of the header
as little-endian uint64, N bytes of JSON, and the arrays, one after the other without gaps::

    {"__metadata__": {"format": "tunefree 2", "bytes": "000...", "sha256": "...", "model": "..."},
     "0": {"dtype": "F64", "shape": [3, 2], "data_offsets": [0, 48]}, "1": ...}

``model`` is again JSON: the versions of the libraries and the estimator as nested values.
A value is null, a truth value, a number, a string, a list, or an object whose single key names a
type; an array is the number n of a tensor, or [n, "T"] for its transpose, or [n, type] for bytes
that stand for text or complex numbers:

=========== =====================================================================
float       "nan", "inf" or "-inf"
tuple       the list of its items
dict        the object itself
bytes       an array of uint8
array       an array
scalar      an array without axes
strings     shape and flat list of an array of objects that are all strings
dtype       the name of a type of numbers
csr         shape, values, indices and row starts of a CSR array
part        full name and fields of a NamedTuple or dataclass of this package
object      full name and attributes of a class of this package that lists `_SAVED`
estimator   name, parameters, fitted attributes and learner of a public estimator
pipeline    names and estimators of a pipeline of scikit-learn with public estimators only
=========== =====================================================================

An array that occurs several times is stored once, and read as one array again: a learner may share
its state between two attributes. Classes are looked up among those that this package
defines; no name from a file is ever imported, and no object from a file is called. The same model
always gives the same bytes.

Why the package safetensors is not used: its writer copies every array and then the file in
memory, and its reader has no checksum. Here lengths are checked against the size of the file
before anything is allocated, and the checksum before anything is parsed; arrays are written without
a copy.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
import os
import re
import sys
from typing import Any, NamedTuple

import numpy as np

from tunefree._version import __version__
from tunefree.core import parts as _parts
from tunefree.core.protocols import Model, SavedState
from tunefree.core.registry import estimator_class, estimator_classes, is_public
from tunefree.files.files import CHUNK, distinct, write_atomically
from tunefree.rows.formula_columns import is_plain

FORMAT = 2
_LIBRARIES = ("tunefree", "numpy", "scikit-learn")  # whose versions a file notes
_HEAD = re.compile(
    rb'.{8}\{"__metadata__":\{"format":"tunefree (\d{1,9})","bytes":"(\d{20})",'
    rb'"sha256":"([0-9a-f]{64})",',
    re.DOTALL,
)
_OLD = b"tunefree"  # how a file of format 1 begins
# A learner of more bytes is saved only on request, or if learning continues.
_LARGE = 64 << 20
_LARGEST_AXIS = 1 << 48
_TENSORS = {
    "BOOL": "|b1", "U8": "|u1", "I8": "|i1", "U16": "<u2", "I16": "<i2", "U32": "<u4",
    "I32": "<i4", "U64": "<u8", "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8",
}  # fmt: skip
_NAMES = {kind: name for name, kind in _TENSORS.items()}
_VIEWED = re.compile(r"[<|](c8|c16|[US][1-9]\d{0,8})")  # types that no tensor has
_FITTED = re.compile(r"[A-Za-z][A-Za-z0-9_]*_")  # names of fitted attributes


class ModelError(ValueError):
    """A model that cannot be saved, or a file that is not a valid model."""


def save_model(
    estimator: Any,
    path: str | os.PathLike,
    *,
    learner: bool | str = "auto",
    notes: dict | None = None,
) -> None:
    """Write a fitted estimator to a file, atomically.

    If another thread fits the estimator, this waits for the lock.

    Parameters
    ----------
    estimator : estimator of `tunefree`, or pipeline of such
        The model. A pipeline is one of scikit-learn.
    path : str or path-like
        Where to write. An existing file is replaced only once the new one is complete.
    learner : bool or 'auto', default='auto'
        Whether the file holds the state from which `partial_fit` and `warm_start` continue, as if
        the model had never been saved. 'auto' omits it after `fit` if it takes more than 64 MiB;
        without it the file holds the predictor only.
    notes : dict or None
        Values for the header, such as ``{"date": "2026-11-28", "stage": "test"}``, which
        `describe_model` and ``tunefree inspect`` show.

    Raises
    ------
    NotFittedError
        The estimator is not fitted.
    ModelError
        An attribute cannot be stored, such as a function; the message names it. Or the written file
        is damaged. An existing file is unchanged.
    OSError
        The file cannot be written. An existing file is unchanged.

    Examples
    --------
    >>> import tempfile, os, numpy as np, tunefree
    >>> model = tunefree.PiSTOLRegressor(random_state=0).fit(np.eye(4), [1.0, 2.0, 3.0, 4.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model")
    ...     tunefree.save_model(model, path)
    ...     again = tunefree.load_model(path)
    >>> bool(np.all(again.predict(np.eye(4)) == model.predict(np.eye(4))))
    True
    """
    if not is_public(type(estimator)) and not _is_pipeline(estimator):
        raise ModelError(
            f"only estimators of tunefree can be saved, not {name_type(estimator)} (and a pipeline "
            "of such estimators alone)"
        )
    name = type(estimator).__name__
    known = vars(_last(estimator))
    with getattr(_last(estimator), "_alone", contextlib.nullcontext)():
        if not any(key.endswith("_") for key in known):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(f"This {name} is not fitted yet: call fit before you save it.")
        n_features = vars(_first(estimator)).get("n_features_in_")
        facts = {"n_features": n_features, "notes": notes or {}}
        facts["model"] = estimator
        encoder, header = _encoded(name, facts, learner=bool(learner))
        # Without its learner a stream or a warm start could not continue.
        continues = known.get("_stream") is not None or known.get("warm_start")
        if learner == "auto" and encoder.length > _LARGE and not continues:
            encoder, header = _encoded(name, facts, learner=False)
        header["learner"] = bool(_parts_of(header)[3])
        _write(path, header, encoder)


def save_values(values, path, *, kind):
    """Write nested values of the kinds above, such as the state of a run; `kind` is their name.

    >>> import tempfile, numpy as np
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     save_values({"epoch": 3, "sum": np.ones(2)}, file.name, kind="checkpoint")
    ...     load_values(file.name, kind="checkpoint")
    {'epoch': 3, 'sum': array([1., 1.])}
    """
    encoder, header = _encoded(kind, {"values": values}, learner=True)
    _write(path, header, encoder)


def load_values(path, *, kind):
    """Read the values that `save_values` wrote as this kind."""
    file = _read(path)
    with _damage(path, file.header):
        if file.header["class"] != kind:
            raise ValueError(f"it holds a {str(file.header['class'])[:80]!r}, not a {kind!r}")
        return file.decoder.decode(file.header["values"])


def load_model(path: str | os.PathLike) -> Model:
    """Read an estimator from a file.

    Nothing in the file is executed, and it is used only if its checksum is right.

    Parameters
    ----------
    path : str or path-like
        A file written by `save_model`.

    Returns
    -------
    estimator
        The model: its predictions have the same bits as before.

    Raises
    ------
    ModelError
        A `ValueError`: the file is truncated, damaged, of another format or not a model.
    OSError
        The file cannot be read.

    Examples
    --------
    >>> import tempfile, tunefree
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     model = tunefree.PiSTOLClassifier(random_state=7).fit([[-1.0], [1.0]], [0, 1])
    ...     tunefree.save_model(model, file.name)
    ...     print(tunefree.load_model(file.name))
    PiSTOLClassifier(random_state=7)
    """
    file = _read(path)
    with _damage(path, file.header):
        model = file.header["model"]
        kind = "pipeline" if "pipeline" in model else "estimator"
        return file.decoder.decode({kind: model[kind]})


def describe_model(path: str | os.PathLike) -> dict[str, Any]:
    """Describe a model file, without building the model.

    Parameters
    ----------
    path : str or path-like
        A file written by `save_model`.

    Returns
    -------
    dict
        ``class``, ``versions``, ``format``, ``n_features``, ``learner`` (whether the file holds
        it), ``notes``, ``bytes``, ``parts`` (how many bytes each attribute takes, the largest
        first), ``sha256``.

    Raises
    ------
    ModelError
        As for `load_model`.

    Examples
    --------
    >>> import tempfile, tunefree
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     model = tunefree.PiSTOLClassifier(random_state=7).fit([[-1.0], [1.0]], [0, 1])
    ...     tunefree.save_model(model, file.name, notes={"date": "2026-11-28"})
    ...     found = tunefree.describe_model(file.name)
    >>> found["class"], found["n_features"], found["notes"]
    ('PiSTOLClassifier', 1, {'date': '2026-11-28'})
    """
    file = _read(path)
    with _damage(path):
        return {
            "class": str(file.header["class"]),
            "n_features": file.decoder.decode(file.header["n_features"]),
            "learner": file.header["learner"] is True,
            "notes": dict(file.decoder.decode(file.header["notes"])),
            "versions": {name: str(file.header[name]) for name in _LIBRARIES},
            "format": FORMAT,
            "bytes": file.size,
            "parts": _space_of(file),
            "sha256": file.digest,
        }


def _space_of(file):
    """The bytes of each attribute of an estimator, and of each of a list of estimators."""
    _, _, *attributes = _parts_of(file.header)
    found: dict[str, Any] = {}
    for name, value in ((name, value) for items in attributes for name, value in items.items()):
        items = value.get("tuple", ()) if isinstance(value, dict) else value
        if isinstance(items, list) and items and all(_is_estimator(item) for item in items):
            for k, item in enumerate(items):
                found[f"{name}[{k}], {item['estimator'][0]}"] = item
        else:
            found[name] = value
    known: set[str] = set()
    sizes = {name: _size(value, file.table, known) for name, value in found.items()}
    return dict(sorted(sizes.items(), key=lambda item: -item[1]))


def _parts_of(header):
    """Name, parameters, fitted attributes and learner of a model; of a pipeline's last step."""
    model = header["model"]
    return (model["pipeline"][-1][1] if "pipeline" in model else model)["estimator"]


def _is_pipeline(value):
    """Whether a value is a pipeline of public estimators, without more."""
    pipeline = getattr(sys.modules.get("sklearn.pipeline"), "Pipeline", None)
    if pipeline is None or type(value) is not pipeline or not value.steps:
        return False
    return value.memory is None and all(is_public(type(step)) for _, step in value.steps)


def _first(model):
    """The estimator that gets the rows: of a pipeline the first."""
    return model.steps[0][1] if _is_pipeline(model) else model


def _last(model):
    """The estimator that predicts: of a pipeline the last."""
    return model.steps[-1][1] if _is_pipeline(model) else model


def _is_estimator(value):
    return isinstance(value, dict) and "estimator" in value


def _size(value, table, known):
    """The bytes of an encoded value: of its text, and of arrays that are not yet `known`."""
    size = len(json.dumps(value, separators=(",", ":")))
    for key in table.keys() & set(map(str, _references(value))) - known:
        known.add(key)
        start, stop = table[key]["data_offsets"]
        size += stop - start
    return size


def _references(value):
    """The numbers of the arrays in an encoded value."""
    if isinstance(value, dict) and len(value) == 1:
        (word, content), *_ = value.items()
        if word in ("array", "scalar", "bytes", "csr") and isinstance(content, int | list):
            specs: Any = content[1:] if isinstance(content, list) and word == "csr" else [content]
            yield from (spec[0] if isinstance(spec, list) else spec for spec in specs)
            return
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _references(item)


def is_model(path: str | os.PathLike) -> bool:
    """Whether a file begins like a model file, of any format, valid or not."""
    with open(path, "rb") as stream:
        head = stream.read(256)
    return head.startswith(_OLD) or _HEAD.match(head) is not None


def _known_class(name) -> Any:
    """The part or saved object of an imported module by its full name; None if there is none."""
    home, _, short = name.rpartition(".")
    if not home.startswith("tunefree."):
        return _parts.classes().get(name)
    found: Any = getattr(sys.modules.get(home), "__dict__", {}).get(short)
    ours = isinstance(found, type) and found.__module__ == home
    return found if ours and (_is_part(found) or "_SAVED" in vars(found)) else None


def _is_part(cls):
    return _is_named_tuple(cls) or dataclasses.is_dataclass(cls)


def _is_named_tuple(cls):
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


def _field_names(cls):
    if "_SAVED" in vars(cls):
        return list(cls._SAVED)
    return list(cls._fields if _is_named_tuple(cls) else (f.name for f in dataclasses.fields(cls)))


def name_type(value):
    """A value in messages: its name if it is a function or a class, or else its type.

    >>> name_type(len), name_type(1j)
    ('the function len', 'a complex')
    """
    if isinstance(value, type):
        return f"the class {value.__qualname__}"
    if callable(value) and hasattr(value, "__qualname__"):
        return f"the function {value.__qualname__}"
    return f"a {type(value).__qualname__}"


class Encoder:
    """Turns values into JSON; arrays are collected in `arrays`, with their entries in `table`.

    Without `learner` the state of an estimator's learner is omitted, and it cannot continue.
    """

    def __init__(self, *, learner=True):
        self.arrays, self.table, self.length = [], {}, 0
        self._learner, self._collected = learner, {}

    def encode(self, value: Any, where: str) -> Any:
        """Values for `json`; `where` names the value in errors."""
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if kind in (list, tuple):
            items = [self.encode(item, f"{where}[{i}]") for i, item in enumerate(value)]
            return items if kind is list else {"tuple": items}
        if kind is dict:
            return {"dict": self._items(value, where)}
        if kind is bytes:
            return {"bytes": self._collect(np.frombuffer(value, np.uint8), where)}
        if isinstance(value, np.generic):
            return {"scalar": self._collect(np.asarray(value), where)}
        if kind is np.ndarray and value.dtype.kind == "O":
            items = value.ravel().tolist()
            if not all(type(item) is str for item in items):
                raise ModelError(f"{where} cannot be saved: an array of objects, not all strings")
            return {"strings": [list(value.shape), items]}
        if kind is np.ndarray:
            return {"array": self._collect(value, where)}
        if issubclass(kind, np.dtype) and value.str in _NAMES:
            return {"dtype": value.str}
        if getattr(value, "format", None) == "csr" and hasattr(value, "indptr"):
            arrays = (value.data, value.indices, value.indptr)
            return {"csr": [list(value.shape), *(self._collect(a, where) for a in arrays)]}
        if is_public(kind):
            state = _state(value, self._learner)
            _check_no_code(state.parameters, state.fitted)
            return {"estimator": [kind.__name__, *(self._items(part, where) for part in state)]}
        if _is_pipeline(value):
            steps = [[n, self.encode(step, f"{where}.{n}")] for n, step in value.steps]
            return {"pipeline": steps}
        name = f"{kind.__module__}.{kind.__qualname__}"
        if _known_class(name) is kind:
            word = "object" if hasattr(kind, "_SAVED") else "part"
            names = vars(value) if word == "object" else _field_names(kind)
            fields = {field: getattr(value, field) for field in names}
            return {word: [name, self._items(fields, where)]}
        raise ModelError(f"{where} cannot be saved: it is {name_type(value)}")

    def _items(self, items, where):
        for key in items:
            if type(key) is not str:
                raise ModelError(f"{where} cannot be saved: its key {key!r} is not a string")
        return {key: self.encode(value, f"{where}.{key}") for key, value in items.items()}

    def _collect(self, array, where):
        """Collect an array; returns the reference to it."""
        if id(array) not in self._collected:
            spec, stored = len(self.table), array.astype(array.dtype.newbyteorder("<"), copy=False)
            if _VIEWED.fullmatch(stored.dtype.str):
                spec, size = [spec, stored.dtype.str], stored.itemsize
                stored = np.frombuffer(stored.tobytes(), np.uint8).reshape(*array.shape, size)
            elif stored.flags.f_contiguous and not stored.flags.c_contiguous:
                spec, stored = [spec, "T"], stored.T
            if stored.dtype.str not in _NAMES:
                raise ModelError(f"{where} cannot be saved: an array of type {array.dtype}")
            stored = np.asarray(stored, order="C")
            start, self.length = self.length, self.length + stored.nbytes
            self.table[str(len(self.table))] = {
                "dtype": _NAMES[stored.dtype.str],
                "shape": list(stored.shape),
                "data_offsets": [start, self.length],
            }
            self.arrays.append(stored)
            self._collected[id(array)] = spec, array  # a reference keeps the id unique
        return self._collected[id(array)][0]


def _check_no_code(parameters, fitted):
    """Refuse a formula with more than known functions: formulaic would execute it as Python."""
    formula, columns = parameters.get("formula"), fitted.get("model_spec_")
    if formula is None:
        return
    if type(formula) is not str or not is_plain(formula) or getattr(columns, "spec", 0) is not None:
        raise ModelError(
            f"formula={formula!r} is code, which a model file never holds: a file can hold "
            "arithmetic, functions such as log, exp and sqrt, and C, bs, cr, poly, center and "
            "scale. For others fit on the columns of formulaic.model_matrix(formula, frame)"
        )


def _state(estimator, learner):
    """The `SavedState` of an estimator."""
    if hasattr(estimator, "_saved_state"):
        return estimator._saved_state(learner)
    # A transformer of rows learns in one go: it is its parameters and its fitted attributes.
    fitted = {
        name: value
        for name, value in vars(estimator).items()
        if name.endswith("_") and not name.startswith("_")
    }
    return SavedState(estimator.get_params(deep=False), fitted, {})


def _encoded(name, facts, learner):
    """Encode the contents of a file: the encoder, and the header of the model."""
    encoder = Encoder(learner=learner)
    try:
        items = {
            key: encoder.encode(value, name if key in ("model", "values") else key)
            for key, value in facts.items()
        }
    except RecursionError:
        raise ModelError(f"{name} cannot be saved: its values are nested too deeply") from None
    import sklearn

    versions = __version__, np.__version__, sklearn.__version__
    known = dict(zip(_LIBRARIES, versions, strict=True))
    return encoder, {**known, "class": name, **items}


def _write(path, header, encoder):
    model = json.dumps(header, allow_nan=False, separators=(",", ":"))
    facts = {"format": f"tunefree {FORMAT}", "bytes": "0" * 20, "sha256": "0" * 64, "model": model}
    text = json.dumps({"__metadata__": facts} | encoder.table, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # so that the arrays begin aligned
    size = 8 + len(text) + encoder.length
    head = len(text).to_bytes(8, "little") + text.replace(b"0" * 20, b"%020d" % size, 1)
    data = [a.reshape(-1).view(np.uint8).data for a in encoder.arrays]
    digest = hashlib.sha256(head)
    for piece in data:
        digest.update(piece)
    head = head.replace(b"0" * 64, digest.hexdigest().encode(), 1)
    write_atomically(path, [head, *data], _check_written)


def _check_written(path):
    """Refuse a file that was not written correctly: the old file is not replaced."""
    with open(path, "rb") as stream:
        found = _HEAD.match(stream.read(256))
        stream.seek(0)
        if found is None or not _is_whole(found, iter(lambda: stream.read(CHUNK), b"")):
            raise ModelError(
                "the written file differs from the model: it was changed meanwhile, or the disk is "
                "damaged; an existing file is unchanged"
            )


def _is_whole(found, pieces):
    """Whether pieces have the checksum of the head `found`; its digits count as zeros."""
    digest, (start, stop) = hashlib.sha256(), found.span(3)
    for piece in pieces:
        zeros = b"0" * (stop - start)
        digest.update(piece[:start])
        digest.update(zeros)
        digest.update(piece[stop:])
        start = stop = 0  # the head is in the first piece
    return digest.hexdigest().encode() == found[3]


class Decoder:
    """Turns JSON into values; `data` are the bytes that the entries of `table` describe.

    Anything invalid raises one of `Decoder.FAULTS`.
    """

    FAULTS = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError,
              RecursionError, MemoryError)  # fmt: skip

    def __init__(self, data, table):
        self._data, self._table, self._arrays = data, table, {}
        self._free = len(data)  # bytes of no array so far: each byte belongs to one array

    def decode(self, value) -> Any:
        """The value that was encoded."""
        if type(value) is list:
            return [self.decode(item) for item in value]
        if type(value) is not dict:
            return value
        ((kind, content),) = value.items()
        if kind == "float":
            if content not in ("nan", "inf", "-inf"):
                raise ValueError(f"{content!r} is not a special float")
            return float(content)
        if kind == "tuple":
            return tuple(self.decode(item) for item in _checked(content, list))
        if kind == "dict":
            return self._items(content)
        if kind == "bytes":
            return self._array(content, np.ndarray.tobytes)
        if kind == "array":
            return self._array(content)
        if kind == "scalar":
            return self._array(content)[()]
        if kind == "strings":
            shape, items = content
            array = np.empty(len(items), dtype=object)
            array[:] = [_checked(item, str) for item in items]
            return array.reshape(_checked(shape, list))
        if kind == "dtype":
            if content not in _NAMES:
                raise ValueError(f"unknown type {content!r}")
            return np.dtype(content)
        if kind == "csr":
            return self._csr(*content)
        if kind in ("part", "object"):
            name, fields = content
            return self._part(name, self._items(fields), kind)
        if kind == "estimator":
            name, *items = content
            estimator = estimator_class(name)  # imports the modules of its parts, too
            return self._estimator(estimator, *map(self._items, items))
        if kind == "pipeline":
            return self._pipeline(content)
        raise ValueError(f"unknown kind of value {kind!r}")

    def _pipeline(self, content):
        """A pipeline of estimators."""
        from sklearn.pipeline import Pipeline

        steps = [(_checked(name, str), self.decode(step)) for name, step in content]
        found = Pipeline(steps)
        if not _is_pipeline(found):
            raise ValueError("a step of the pipeline is no estimator")
        return found

    def _items(self, items):
        return {key: self.decode(value) for key, value in _checked(items, dict).items()}

    def _part(self, name, fields, kind):
        cls: Any = _known_class(_checked(name, str))
        if cls is None:
            estimator_classes()  # imports every module that a file can need
            cls = _known_class(name)
        if cls is None:
            raise ValueError(f"unknown class {name[:80]!r}")
        is_object, own = "_SAVED" in vars(cls), set(_field_names(cls))
        differ = not own >= set(fields) if is_object else own != set(fields)
        if differ or is_object != (kind == "object"):  # an object may lack attributes
            raise ValueError(f"the fields of {cls.__name__} differ")
        if not is_object:
            return cls(**fields)
        item = cls.__new__(cls)
        vars(item).update(fields)
        return item

    def _csr(self, shape, *specs):
        """A CSR array with valid indices: compiled code does not check them."""
        data, indices, starts = map(self._array, specs)
        rows, width = (_natural(axis) for axis in shape)
        are_lists = all(a.dtype.kind == "i" and a.ndim == 1 for a in (indices, starts))
        if not are_lists or data.shape != indices.shape or len(starts) != rows + 1:
            raise ValueError("invalid sparse rows")
        ends_right = starts[0] == 0 and starts[-1] == len(data) and (np.diff(starts) >= 0).all()
        if not ends_right or not ((indices >= 0) & (indices < width)).all():
            raise ValueError("invalid sparse rows")
        from scipy import sparse

        out = sparse.csr_array((rows, width), dtype=data.dtype)
        out.data, out.indices, out.indptr = data, indices, starts
        return out

    def _estimator(self, cls, parameters, fitted, learner):
        if set(parameters) != set(cls._get_param_names()):
            raise ValueError(f"the parameters of {cls.__name__} differ")
        _check_no_code(parameters, fitted)
        for name in fitted:
            if not _FITTED.fullmatch(name) or hasattr(cls, name) or name in parameters:
                raise ValueError(f"{name!r} is not a fitted attribute")
        if hasattr(cls, "_from_saved_state"):
            return cls._from_saved_state(SavedState(parameters, fitted, learner))
        if learner:
            raise ValueError(f"{cls.__name__} has no such learner")
        estimator = cls(**parameters)
        vars(estimator).update(fitted)
        return estimator

    def _array(self, spec, change=None):
        """An array, or what `change` makes of it: the same object every time."""
        number, form = (spec[0], _checked(spec[1], str)) if type(spec) is list else (spec, None)
        key = _natural(number), form, change
        if key not in self._arrays:
            array = self._copied(self._table[str(number)])
            if form == "T":
                array = array.T
            elif form is not None:
                array = _viewed(array, form)
            self._arrays[key] = array if change is None else change(array)
        return self._arrays[key]

    def _copied(self, entry):
        """Copy a tensor out of the data, after a check that it lies inside."""
        kind, shape = np.dtype(_TENSORS[entry["dtype"]]), _checked(entry["shape"], list)
        if len(shape) > 32 or not all(_natural(axis) <= _LARGEST_AXIS for axis in shape):
            raise ValueError("invalid shape")
        (start, stop), count = map(_natural, entry["data_offsets"]), math.prod(shape)
        if stop > len(self._data) or stop - start != count * kind.itemsize:
            raise ValueError("an array ends beyond the data")
        self._free -= stop - start
        if self._free < 0:
            raise ValueError("arrays overlap")
        array = np.frombuffer(self._data[start:stop], kind)
        if kind.kind == "b" and np.any(array.view(np.uint8) > 1):
            raise ValueError("a boolean other than 0 and 1")
        return array.astype(kind.newbyteorder("=")).reshape(shape)


def _viewed(array, name):
    """Bytes as text or complex numbers."""
    if not _VIEWED.fullmatch(name):
        raise ValueError(f"unknown type {name!r}")
    kind = np.dtype(name)
    if array.dtype != np.uint8 or array.shape[-1] != kind.itemsize:
        raise ValueError("an array that is not of its type")
    if kind.kind == "U" and array.size and array.reshape(-1).view("<u4").max() > sys.maxunicode:
        raise ValueError("an invalid character")
    shape = array.shape[:-1]
    return array.reshape(-1).view(kind).astype(kind.newbyteorder("=")).reshape(shape)


def _checked(value, kind):
    if type(value) is not kind:
        raise TypeError(f"expected a {kind.__name__}")
    return value


def _natural(value):
    if _checked(value, int) < 0:
        raise ValueError("a negative number")
    return value


class _File(NamedTuple):
    """A model file whose checksum is right."""

    header: dict
    table: dict  # of the arrays
    decoder: Decoder
    size: int
    digest: str


def _read(path):
    """Read a model file and check its head and its checksum."""
    with open(path, "rb") as stream:
        head = stream.read(256)
        found = _HEAD.match(head)
        if head.startswith(_OLD):
            raise ModelError(
                f"{path} is damaged or was written by tunefree 0.1.0 (format 1), and this version "
                f"reads format {FORMAT}: use tunefree 0.1.0, or fit the model again"
            )
        if found is None:
            raise ModelError(f"{path} is not a tunefree model")
        version, size, digest = int(found[1]), int(found[2]), found[3]
        if version != FORMAT:
            raise ModelError(
                f"{path} is damaged or has another format: version {version}; "
                f"this tunefree {__version__} reads version {FORMAT}"
            )
        actual = os.fstat(stream.fileno()).st_size
        length = int.from_bytes(head[:8], "little")
        if size != actual or 8 + length > size:
            raise ModelError(f"{path} is truncated or damaged: {actual} bytes instead of {size}")
        stream.seek(0)
        content = memoryview(stream.read())
    if not _is_whole(found, [content]):
        raise ModelError(f"{path} is damaged: its checksum is wrong")
    with _damage(path):
        table = json.loads(bytes(content[8 : 8 + length]), object_pairs_hook=distinct)
        header = json.loads(table.pop("__metadata__")["model"], object_pairs_hook=distinct)
        decoder = Decoder(content[8 + length :], table)
        return _File(header, table, decoder, size, digest.decode())


@contextlib.contextmanager
def _damage(path, header=None):
    """Turn errors from a hostile header, or one of another version, into one message."""
    try:
        yield
    except Decoder.FAULTS as fault:
        words = f"{path} is not a valid model: {fault or type(fault).__name__}"
        writer = header.get("tunefree") if isinstance(header, dict) else None
        if isinstance(writer, str) and writer != __version__:
            words += (
                f" (written by tunefree {writer[:20]}: use that version, or fit the model again)"
            )
        raise ModelError(words) from None
