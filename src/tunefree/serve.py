"""Predictions with NumPy alone: for small services and containers.

`tunefree.onnx.to_scorer`, or ``tunefree export model FILE``, writes a file of a fitted predictor.
This module reads it, and rows as they come: numbers, dates, categories and sentences are read by
the code that `predict` uses, and the graph of `tunefree.onnx` gives its values up to rounding. Of
the package's requirements only NumPy is needed::

    pip install numpy && pip install --no-deps tunefree
    python -m tunefree.serve FILE rows.csv

The file is a NumPy archive without pickles: nothing in it is executed.

Source of the hash of sentences: Appleby, MurmurHash3, 32 bits, as in scikit-learn.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import sys
import warnings
import zipfile
from functools import lru_cache
from typing import Any

import numpy as np

from tunefree.rows.columns import CATEGORY, TEXT, of_array
from tunefree.rows.kinds import ColumnKind, UnknownLevel, unknown_words, zone_words
from tunefree.rows.written_dates import Dates
from tunefree.rows.written_durations import Durations
from tunefree.rows.written_numbers import Numbers

_FORMAT = "tunefree scorer 1"
_WRITTEN: Any = {cls.__name__: cls for cls in (Numbers, Dates, Durations)}
_MISSING = "(missing)"  # the level of a category where there is none, as in the graph
_PART = 512  # rows of a prediction at once: kernels make large arrays of them


class Scorer:
    """A predictor from a file of `tunefree.onnx.to_scorer`.

    Parameters
    ----------
    path : str or path-like

    Attributes
    ----------
    names_ : list of str or None
        The names of the columns; None if rows have positions only.
    classes_ : list of str or None

    Raises
    ------
    ValueError
        The file is damaged, or no such file.
    """

    def __init__(self, path: str | os.PathLike):
        facts, self._constants, self._sentences = _unpacked(path)
        self.names_ = facts["names"]
        self.classes_ = facts["classes"]
        self._columns = [_column_of(values) for values in facts["columns"]]
        self._kinds, self._dtype, self._takes_missing = (
            facts[name] for name in ("kinds", "dtype", "missing")
        )
        self._nodes, self._outputs = facts["nodes"], facts["outputs"]
        closed = {f"column {j}": j for j in facts.get("closed", ())}
        self._levels = {
            closed[inputs[0]]: attributes["cats_strings"]
            for _, inputs, _, attributes in self._nodes
            if inputs and inputs[0] in closed and "cats_strings" in attributes
        }
        unknown = sorted({node[0] for node in self._nodes} - set(_OPERATORS))
        if unknown:
            raise ValueError(f"{path} needs operators that this version lacks: {unknown}")

    def predict(self, rows: Any) -> np.ndarray:
        """The predictions.

        Parameters
        ----------
        rows : list of dict, dict of columns, or array-like of shape (n_rows, n_columns)
            Cells as they are: numbers or text. Names may come in any order, and others are ignored.

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_outputs)
        """
        return self._scores(rows)[0]

    def predict_proba(self, rows: Any) -> np.ndarray:
        """The probabilities of `classes_`, of shape (n_rows, n_classes)."""
        if "probabilities" not in self._outputs:
            raise ValueError("this model has no probabilities")
        return self._scores(rows)[1]

    def _scores(self, rows):
        """The outputs for all rows."""
        columns: Any = self._given(rows)
        n = len(columns[0])
        if not n:
            raise ValueError("there are no rows")
        inputs = self._inputs(columns)
        parts = [
            self._run({name: values[at : at + _PART] for name, values in inputs.items()})
            for at in range(0, n, _PART)
        ]
        return [np.concatenate(found) for found in zip(*parts, strict=True)]

    def _given(self, rows):
        """The cells of each column of the model, as arrays of objects."""
        if isinstance(rows, list) and rows and isinstance(rows[0], dict):
            known = dict.fromkeys(name for row in rows for name in row)
            rows = {name: [row.get(name) for row in rows] for name in known}
        if isinstance(rows, dict):
            names = self.names_ or [f"x{j}" for j in range(len(self._columns))]
            spelled = {str(name).strip(): name for name in rows}
            spelled |= {name: name for name in rows}
            absent = [name for name in names if name not in spelled]
            if absent:
                raise ValueError(f"columns are missing: {', '.join(map(repr, absent[:5]))}")
            return [_cells(rows[spelled[name]]) for name in names]
        array: Any = np.asarray(rows)
        if array.ndim != 2 or array.shape[1] != len(self._columns):
            raise ValueError(f"give {len(self._columns)} columns, not the shape {array.shape}")
        return list(array.T)

    def _inputs(self, columns):
        """The inputs of the graph, from cells."""
        found, bad, zones = [], [], []
        names = self.names_ or [f"x{j}" for j in range(len(columns))]
        for name, column, cells in zip(names, self._columns, columns, strict=True):
            values = column.read(of_array(cells), name)
            if values.bad is not None and values.bad.any():
                example = cells[int(np.argmax(values.bad))]
                bad.append(f"column {name!r}: {int(values.bad.sum())}, such as {example!r:.40}")
            if values.zone is not None:
                zones.append((name, column.zone, values.zone))
            found.append(values)
        if zones:
            warnings.warn(zone_words(zones), stacklevel=4)
        if bad:
            warnings.warn(f"Cells that count as missing: {'; '.join(bad)}.", stacklevel=4)
        unknown = [self._unknown(j, names[j], found[j]) for j in self._levels]
        unknown = [one for one in unknown if one is not None]
        if unknown:
            warnings.warn(unknown_words(unknown), stacklevel=4)
        if self._kinds is None:
            X = np.column_stack([_numbers(values) for values in found]).astype(self._dtype)
            if not self._takes_missing and np.isnan(X).any():
                j = int(np.argmax(np.isnan(X).any(axis=0)))
                raise ValueError(
                    f"column {names[j]!r} has a missing value, and the model takes none"
                )
            return {"X": X}
        pairs = enumerate(zip(self._kinds, found, strict=True))
        return {f"column {j}": self._input(j, kind, values) for j, (kind, values) in pairs}

    def _unknown(self, j, name, values):
        """The `UnknownLevel` of a column of categories; None if all are known."""
        known = {*self._levels[j], _MISSING}
        is_unknown = np.array([level not in known for level in values.levels], dtype=bool)
        return UnknownLevel.of(name, is_unknown, values.levels, values.codes)

    def _input(self, j, kind, values):
        """The input of one column, of shape (n, 1) or that of the numbers of sentences."""
        if kind == CATEGORY:
            return np.array([*values.levels, _MISSING], dtype=object)[values.codes][:, None]
        if kind == TEXT:
            texts = np.array([*values.levels, ""], dtype=object)[values.codes]
            return _of_sentences(texts, *self._sentences[j])
        return _numbers(values)[:, None]

    def _run(self, values):
        """The outputs of the graph."""
        values = values | self._constants
        with np.errstate(all="ignore"):
            for kind, inputs, outputs, attributes in self._nodes:
                values[outputs[0]] = _OPERATORS[kind](*(values[i] for i in inputs), **attributes)
        return [values[name] for name in self._outputs]


def _numbers(values):
    """Numbers of a column, or days; NaN where they are missing."""
    return np.where(values.missing, np.nan, values.values)


def _cells(values):
    return np.array([*values, None], dtype=object)[:-1]


# --- the operators of the graph -------------------------------------------------------------------


def _one_hot(x, *, cats_strings, **_):
    place = {name: k for k, name in enumerate(cats_strings)}
    codes = np.array([place.get(name, -1) for name in x.ravel().tolist()])
    return (codes[:, None] == np.arange(len(cats_strings))).astype(np.float32)[:, None, :]


def _places(x, *, keys_strings, values_int64s, default_int64, **_):
    place = dict(zip(keys_strings, values_int64s, strict=True))
    found = [place.get(text, default_int64) for text in x.ravel().tolist()]
    return np.array(found, dtype=np.int64).reshape(x.shape)


def _sigmoid(x):
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, small) / (1.0 + small)


def _log_softmax(x, axis=-1):
    x = x - x.max(axis=axis, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=axis, keepdims=True))


def _softmax(x, axis=-1):
    x = np.exp(x - x.max(axis=axis, keepdims=True))
    return x / x.sum(axis=axis, keepdims=True)


def _reduced(function):
    def reduce(*arrays):
        out = arrays[0]
        for array in arrays[1:]:
            out = function(out, array)
        return out

    return reduce


def _cast(x, *, to):
    return np.asarray(x).astype(to)


def _arg_max(x, *, axis, keepdims=1):
    return np.argmax(x, axis=axis, keepdims=bool(keepdims))


def _total(x, axes, *, keepdims=1):
    return x.sum(axis=tuple(axes.tolist()), keepdims=bool(keepdims))


def _top(x, k, *, largest=1):
    x = np.sort(x, axis=-1)
    return (x[..., ::-1] if largest else x)[..., : int(k[0])]


def _product(a, b):
    """Sums in one order, however many rows there are."""
    return np.matmul(np.atleast_2d(a), b)


_OPERATORS: dict[str, Any] = {
    "Abs": np.abs, "Add": np.add, "And": np.logical_and, "ArgMax": _arg_max, "Cast": _cast,
    "Concat": lambda *x, axis: np.concatenate(x, axis=axis), "Div": np.divide, "Equal": np.equal,
    "Erf": np.vectorize(math.erf, otypes=[float]), "Exp": np.exp, "Floor": np.floor,
    "Gather": lambda x, at, axis=0: np.take(x, at, axis=axis),
    "GatherElements": lambda x, at, axis=0: np.take_along_axis(x, at, axis=axis),
    "Greater": np.greater, "IsNaN": np.isnan, "LabelEncoder": _places, "Less": np.less,
    "Log": np.log, "LogSoftmax": _log_softmax, "MatMul": _product, "Max": _reduced(np.maximum),
    "Min": _reduced(np.minimum), "Mod": np.mod, "Mul": np.multiply, "Neg": np.negative,
    "Not": np.logical_not, "OneHotEncoder": _one_hot, "Or": np.logical_or, "Pow": np.power,
    "ReduceSum": _total, "Reshape": lambda x, shape: np.reshape(x, shape.tolist()),
    "Sigmoid": _sigmoid, "Sign": np.sign, "Softmax": _softmax, "Sqrt": np.sqrt,
    "Squeeze": lambda x, axes: np.squeeze(x, axis=tuple(axes.tolist())), "Sub": np.subtract,
    "Sum": _reduced(np.add), "Tanh": np.tanh, "TopK": _top,
    "Unsqueeze": lambda x, axes: np.expand_dims(x, tuple(axes.tolist())), "Where": np.where,
}  # fmt: skip


# --- sentences ------------------------------------------------------------------------------------


def _of_sentences(texts, idf, basis, pieces):
    """The numbers of sentences, as `tunefree.rows.phrases.Phrases`, to the last bit.

    Sums are in the order of the pieces: where numbers are ranked, the last bit counts.
    """
    weights, n_pieces = idf.astype(np.float64), len(idf)
    whole = np.zeros((n_pieces, basis.shape[1]))
    whole[pieces] = basis
    out = np.zeros((len(texts), basis.shape[1]))
    for row, text in enumerate(texts.tolist()):
        found = [_hashed(piece, n_pieces) for piece in _pieces(text)]
        if not found:
            continue
        places, counts = np.unique(found, return_counts=True)
        values = (1.0 + np.log(counts)) * weights[places]
        length = np.sqrt(np.add.reduceat(values * values, [0])[0])
        values *= 1.0 / length
        out[row] = np.add.accumulate(values[:, None] * whole[places])[-1]
    return out


def _pieces(text):
    """Pieces of 3 and 4 characters of words between blanks, as scikit-learn's ``char_wb``."""
    for word in re.sub(r"\s\s+", " ", text.lower()).split():
        word = f" {word} "
        for n in (3, 4):
            yield word[:n]
            if len(word) <= n:  # a short word counts once
                break
            for start in range(1, len(word) - n + 1):
                yield word[start : start + n]


@lru_cache(maxsize=200_000)
def _hashed(piece, n_pieces):
    """The column of a piece: MurmurHash3 of 32 bits, seed 0, its sign dropped."""
    data, all_bits, h = piece.encode(), 0xFFFFFFFF, 0
    n_whole = len(data) // 4 * 4
    for at in range(0, len(data), 4):
        k = int.from_bytes(data[at : at + 4], "little") * 0xCC9E2D51 & all_bits
        k = (k << 15 | k >> 17) * 0x1B873593 & all_bits
        h ^= k
        if at < n_whole:
            h = (h << 13 | h >> 19) & all_bits
            h = h * 5 + 0xE6546B64 & all_bits
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B & all_bits
    h = (h ^ h >> 13) * 0xC2B2AE35 & all_bits
    h ^= h >> 16
    h = h - (1 << 32) if h >> 31 else h
    if h == -(1 << 31):
        return (2**31 - 1 - (n_pieces - 1)) % n_pieces
    return abs(h) % n_pieces


# --- files ----------------------------------------------------------------------------------------


def as_values(column: ColumnKind) -> list:
    """A `ColumnKind` as plain values, for a file."""
    written = column.written and [type(column.written).__name__, list(column.written)]
    return list(column._replace(written=written))


def _column_of(values):
    """The `ColumnKind` of `as_values`."""
    column = ColumnKind(*values)
    written = column.written and _WRITTEN[column.written[0]](*column.written[1])
    parts = {name: tuple(getattr(column, name)) for name in ("markers", "sentinels")}
    levels = None if column.levels is None else tuple(column.levels)
    return column._replace(written=written, levels=levels, **parts)


def packed(facts: dict, constants: dict, sentences: dict) -> bytes:
    """The bytes of a file."""
    arrays = {f"c {name}": _storable(array) for name, array in constants.items()}
    for j, parts in sentences.items():
        arrays |= {f"s {j} {k}": part for k, part in enumerate(parts)}
    text = json.dumps({"format": _FORMAT, **facts}, default=_plain).encode()
    out = io.BytesIO()
    np.savez_compressed(out, facts=np.frombuffer(text, np.uint8), **arrays)
    return out.getvalue()


def _storable(array):
    return array.astype(str) if array.dtype.kind == "O" else array


def _plain(value):
    return value.tolist()


def _unpacked(path):
    """The facts, the constants and the numbers of sentences in a file."""
    try:
        with np.load(path, allow_pickle=False) as file:
            facts = json.loads(bytes(file["facts"]))
            arrays = {name: file[name] for name in file.files if name != "facts"}
    except OSError as problem:
        if problem.errno is not None:
            raise
        raise ValueError(f"{path} is no scorer of tunefree, or damaged") from None
    except (ValueError, KeyError, EOFError, AttributeError, zipfile.BadZipFile, TypeError):
        raise ValueError(f"{path} is no scorer of tunefree, or damaged") from None
    if facts.get("format") != _FORMAT:
        raise ValueError(f"{path} has the format {facts.get('format')!r}, not {_FORMAT!r}")
    constants = {name[2:]: array for name, array in arrays.items() if name.startswith("c ")}
    sentences: dict = {}
    for name, array in arrays.items():
        if name.startswith("s "):
            _, j, k = name.split()
            sentences.setdefault(int(j), [None] * 3)[int(k)] = array
    return facts, constants, sentences


def read_rows(file: Any, name: str) -> Any:
    """The rows of csv with a header, or of JSON lines, as columns by name."""
    text = file.read().removeprefix("\ufeff")
    if text.lstrip().startswith("{"):
        rows = []
        for k, line in enumerate(text.split("\n"), 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as problem:
                raise ValueError(f"{name}:{k}: not one JSON object ({problem})") from None
            if not isinstance(row, dict) or any(isinstance(v, dict | list) for v in row.values()):
                raise ValueError(f"{name}:{k}: give an object of numbers and texts")
            rows.append(row)
        return rows
    head = text.partition("\n")[0]
    delimiter = max(",;\t", key=head.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    names = next(reader, [])
    rows = []
    try:
        for row in reader:
            if row and len(row) != len(names):
                raise ValueError(f"{name}:{reader.line_num}: {len(row)} cells, not {len(names)}")
            rows += [row] if row else []
    except csv.Error as problem:
        raise ValueError(f"{name}:{reader.line_num}: {problem}") from None
    if not rows:
        raise ValueError(f"{name} has no rows")
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def main(arguments: list[str] | None = None) -> int:
    """``python -m tunefree.serve FILE ROWS [--proba]``: predictions on stdout, a line a row."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    with_proba = "--proba" in given
    files = [one for one in given if one != "--proba"]
    if len(files) != 2:
        print(
            "usage: python -m tunefree.serve FILE ROWS.csv|ROWS.jsonl|- [--proba]", file=sys.stderr
        )
        return 2
    warnings.showwarning = lambda message, *_, **__: print(f"note: {message}", file=sys.stderr)
    try:
        scorer = Scorer(files[0])
    except (OSError, ValueError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 4
    try:
        if files[1] == "-":
            rows = read_rows(io.TextIOWrapper(sys.stdin.buffer, "utf-8", newline=""), "<stdin>")
        else:
            with open(files[1], encoding="utf-8", newline="") as file:
                rows = read_rows(file, files[1])
        found = scorer.predict_proba(rows) if with_proba else scorer.predict(rows)
    except (OSError, ValueError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 3
    lines = csv.writer(sys.stdout, lineterminator="\n")
    try:
        if with_proba:
            lines.writerow(scorer.classes_ or [])
        lines.writerows(found.reshape(len(found), -1).tolist())
        sys.stdout.flush()
    except OSError as problem:
        # Python drops what it could not write, in place of an error as it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(problem, BrokenPipeError):  # its reader has seen enough
            print(f"error: standard output: {problem.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
