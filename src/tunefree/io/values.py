"""Nested values as JSON and arrays, from an allow list.

A value is null, a truth value, a number, a string, a list, or an object whose single key names a
type:

=========== =====================================================================
float       "nan", "inf" or "-inf"
tuple       the list of its items
dict        the object itself
bytes       the number of an array of uint8
array       the number of an array
scalar      the number of an array without axes
strings     shape and flat list of an array of objects that are all strings
dtype       the name of a type of numbers
csr         shape, values, indices and row starts of a CSR array
part        full name and fields of a NamedTuple or dataclass of this package
object      full name and attributes of a class of this package that lists `_SAVED`
estimator   name, parameters, fitted attributes and learner of a public estimator
=========== =====================================================================

An array that stands in several places is stored once, and read as one array again: a learner may
share its state between two attributes.

Classes are looked up among those that this package defines. No name from a file is ever imported,
and no object from a file is called.
"""

import dataclasses
import math
import re
import sys

import numpy as np
from scipy import sparse

from tunefree import _parts

_ALIGNMENT = 64
_LARGEST_AXIS = 1 << 48
_TYPES = re.compile(r"[<|](b1|[iu][1248]|f[248]|c8|c16|[US][1-9]\d{0,8})")
_FITTED = re.compile(r"[A-Za-z][A-Za-z0-9_]*_")  # names of fitted attributes


class ModelError(ValueError):
    """A model that cannot be saved, or a file that is not a sound model."""


def aligned(length):
    """Round a length up to the alignment of the arrays.

    Parameters
    ----------
    length : int
        A number of bytes.

    Returns
    -------
    int
        The next multiple of 64.
    """
    return -(-length // _ALIGNMENT) * _ALIGNMENT


def public_estimators():
    """Map the names of the public estimators of `tunefree` to their classes.

    Returns
    -------
    dict
        Name to class.
    """
    import tunefree

    public = {name: getattr(tunefree, name) for name in tunefree.__all__}
    return {name: item for name, item in public.items() if hasattr(item, "get_params")}


def _known_classes():
    """Map the full names of this package's parts and saved objects to the classes."""
    public_estimators()  # imports every module that a model can need
    return _parts.classes() | {
        f"{module.__name__}.{name}": item
        for module in list(sys.modules.values())
        if getattr(module, "__name__", "").startswith("tunefree.")
        for name, item in list(vars(module).items())
        if isinstance(item, type)
        and item.__module__ == module.__name__
        and (_is_named_tuple(item) or dataclasses.is_dataclass(item) or "_SAVED" in vars(item))
    }


def _is_named_tuple(cls):
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


def _field_names(cls):
    if "_SAVED" in vars(cls):
        return list(cls._SAVED)
    return list(cls._fields if _is_named_tuple(cls) else (f.name for f in dataclasses.fields(cls)))


def name_type(value):
    """Name what a value is, for a message.

    Parameters
    ----------
    value : object
        Anything.

    Returns
    -------
    str
        Its name if it is a function or a class, else its type.

    Examples
    --------
    >>> from tunefree.io.values import name_type
    >>> name_type(len), name_type(1j)
    ('the function len', 'a complex')
    """
    if isinstance(value, type):
        return f"the class {value.__qualname__}"
    if callable(value) and hasattr(value, "__qualname__"):
        return f"the function {value.__qualname__}"
    return f"a {type(value).__qualname__}"


def _learner(estimator):
    """Collect what an estimator needs to go on learning."""
    names = getattr(type(estimator), "_LEARNER", ())
    return {name: vars(estimator)[name] for name in names if name in vars(estimator)}


def _fitted(estimator):
    """Collect the fitted attributes of an estimator."""
    if hasattr(estimator, "_model_state"):
        return estimator._model_state()
    return {
        name: value
        for name, value in vars(estimator).items()
        if name.endswith("_") and not name.startswith("_")
    }


class Encoder:
    """Turns values into JSON; arrays are set aside in `arrays`, with one row each in `table`.

    Parameters
    ----------
    learner : bool, default=True
        Whether an estimator's learner is kept, without which it cannot go on learning.
    """

    def __init__(self, *, learner=True):
        self.arrays, self.table, self.length = [], [], 0
        self._learner, self._numbers = learner, {}
        self._estimators, self._classes = public_estimators(), _known_classes()

    def encode(self, value, where):
        """Encode one value.

        Parameters
        ----------
        value : object
            Anything on the allow list.
        where : str
            Its name, for a message.

        Returns
        -------
        object
            What `json` can write.

        Raises
        ------
        ModelError
            The value, or one inside it, is not on the list.
        """
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if kind in (list, tuple):
            items = [self.encode(item, f"{where}[{i}]") for i, item in enumerate(value)]
            return items if kind is list else {"tuple": items}
        if kind is dict:
            return {"dict": self._encode_items(value, where)}
        if kind is bytes:
            return {"bytes": self._set_aside(np.frombuffer(value, np.uint8), where)}
        if isinstance(value, np.generic):
            return {"scalar": self._set_aside(np.asarray(value), where)}
        if kind is np.ndarray and value.dtype.kind == "O":
            items = value.ravel().tolist()
            if not all(type(item) is str for item in items):
                raise ModelError(f"{where} cannot be saved: an array of objects, not all strings")
            return {"strings": [list(value.shape), items]}
        if kind is np.ndarray:
            return {"array": self._set_aside(value, where)}
        if isinstance(value, np.dtype) and _TYPES.fullmatch(value.str):
            return {"dtype": value.str}
        if sparse.issparse(value) and value.format == "csr":
            arrays = (value.data, value.indices, value.indptr)
            return {"csr": [list(value.shape), *(self._set_aside(a, where) for a in arrays)]}
        if self._estimators.get(kind.__name__) is kind:
            parameters = self._encode_items(value.get_params(deep=False), where)
            fitted = self._encode_items(_fitted(value), where)
            learner = self._encode_items(_learner(value) if self._learner else {}, where)
            return {"estimator": [kind.__name__, parameters, fitted, learner]}
        name = f"{kind.__module__}.{kind.__qualname__}"
        if self._classes.get(name) is kind:
            word = "object" if hasattr(kind, "_SAVED") else "part"
            names = vars(value) if word == "object" else _field_names(kind)
            fields = {field: getattr(value, field) for field in names}
            return {word: [name, self._encode_items(fields, where)]}
        raise ModelError(f"{where} cannot be saved: it is {name_type(value)}")

    def _encode_items(self, items, where):
        for key in items:
            if type(key) is not str:
                raise ModelError(f"{where} cannot be saved: its key {key!r} is not a string")
        return {key: self.encode(value, f"{where}.{key}") for key, value in items.items()}

    def _set_aside(self, array, where):
        """Keep an array for later and return its number."""
        if id(array) in self._numbers:
            return self._numbers[id(array)][0]
        self._numbers[id(array)] = len(self.table), array  # alive, so that no other has its id
        little = array.dtype.newbyteorder("<")
        if not _TYPES.fullmatch(little.str):
            raise ModelError(f"{where} cannot be saved: an array of type {array.dtype}")
        order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        array = np.asarray(array, dtype=little, order=order)
        self.table.append([little.str, list(array.shape), order, self.length])
        self.arrays.append(array)
        self.length += aligned(array.nbytes)
        return len(self.table) - 1


class Decoder:
    """Turns JSON back into values; `data` are the bytes that `table` describes.

    Whatever does not fit raises one of `Decoder.FAULTS`.
    """

    FAULTS = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError,
              RecursionError, MemoryError)  # fmt: skip

    def __init__(self, data, table):
        self._data, self._table, self._arrays = data, table, {}
        self._estimators, self._classes = public_estimators(), _known_classes()

    def decode(self, value):
        """Decode one value.

        Parameters
        ----------
        value : object
            What `json` read.

        Returns
        -------
        object
            The value that was encoded.
        """
        if type(value) is list:
            return [self.decode(item) for item in value]
        if type(value) is not dict:
            return value
        ((kind, content),) = value.items()
        if kind == "float":
            if content not in ("nan", "inf", "-inf"):
                raise ValueError(f"{content!r} is no special float")
            return float(content)
        if kind == "tuple":
            return tuple(self.decode(item) for item in _checked(content, list))
        if kind == "dict":
            return self._decode_items(content)
        if kind == "bytes":
            return self._array(content).tobytes()
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
            return np.dtype(_checked_type(content))
        if kind == "csr":
            return self._csr(*content)
        if kind in ("part", "object"):
            name, fields = content
            return self._part(self._classes[name], self._decode_items(fields), kind)
        if kind == "estimator":
            name, *items = content
            return self._estimator(self._estimators[name], *map(self._decode_items, items))
        raise ValueError(f"unknown kind of value {kind!r}")

    def _decode_items(self, items):
        return {key: self.decode(value) for key, value in _checked(items, dict).items()}

    def _part(self, cls, fields, kind):
        partial = "_SAVED" in vars(cls)  # an object may not yet have all of its attributes
        missing = set(_field_names(cls)) - set(fields)
        if partial != (kind == "object") or not set(fields) <= set(_field_names(cls)) or (
            missing and not partial
        ):  # fmt: skip
            raise ValueError(f"the fields of {cls.__name__} differ")
        if not partial:
            return cls(**fields)
        item = cls.__new__(cls)
        vars(item).update(fields)
        return item

    def _csr(self, shape, *numbers):
        """A CSR array whose indices lie inside it: compiled code trusts them."""
        data, indices, starts = (self._array(n) for n in numbers)
        rows, width = (_natural(axis) for axis in shape)
        if not all(a.dtype.kind == "i" and a.ndim == 1 for a in (indices, starts)) or (
            data.shape != indices.shape
            or len(starts) != rows + 1
            or starts[0] != 0
            or starts[-1] != len(data)
            or np.any(np.diff(starts) < 0)
            or np.any((indices < 0) | (indices >= width))
        ):
            raise ValueError("impossible sparse rows")
        out = sparse.csr_array((rows, width), dtype=data.dtype)
        out.data, out.indices, out.indptr = data, indices, starts
        return out

    def _estimator(self, cls, parameters, fitted, learner):
        if set(parameters) != set(cls._get_param_names()):
            raise ValueError(f"the parameters of {cls.__name__} differ")
        estimator = cls(**parameters)
        for name, value in fitted.items():
            if not _FITTED.fullmatch(name) or hasattr(cls, name) or name in parameters:
                raise ValueError(f"{name!r} is no fitted attribute")
            setattr(estimator, name, value)
        if not set(learner) <= set(getattr(cls, "_LEARNER", ())):
            raise ValueError(f"{cls.__name__} has no such learner")
        vars(estimator).update(learner)
        if learner:
            estimator._check_learner()
        return estimator

    def _array(self, number):
        """Copy an array out of the data, after checking that it lies inside them."""
        if _natural(number) not in self._arrays:
            self._arrays[number] = self._copied(*self._table[number])
        return self._arrays[number]

    def _copied(self, kind, shape, order, start):
        if not _TYPES.fullmatch(kind) or order not in ("C", "F"):
            raise ValueError(f"unknown type of array {kind!r}")
        kind = np.dtype(kind)
        if len(shape) > 32 or not all(_natural(axis) <= _LARGEST_AXIS for axis in shape):
            raise ValueError("impossible shape")
        count = math.prod(shape)
        if _natural(start) + count * kind.itemsize > len(self._data):
            raise ValueError("an array reaches beyond the data")
        array = np.frombuffer(self._data, kind, count, start) if count else np.empty(0, kind)
        if kind.kind == "b" and np.any(array.view(np.uint8) > 1):
            raise ValueError("a truth value other than 0 and 1")
        if kind.kind == "U" and count and array.view("<u4").max() > sys.maxunicode:
            raise ValueError("an impossible character")
        return array.astype(kind.newbyteorder("=")).reshape(shape, order=order)


def _checked(value, kind):
    if type(value) is not kind:
        raise TypeError(f"expected a {kind.__name__}")
    return value


def _checked_type(name):
    if not _TYPES.fullmatch(name):
        raise ValueError(f"unknown type {name!r}")
    return name


def _natural(value):
    if _checked(value, int) < 0:
        raise ValueError("a negative number")
    return value
