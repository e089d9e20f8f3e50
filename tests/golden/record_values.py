"""What the golden record keeps of a value: numbers and texts by their path, and their digests."""

import hashlib
import json
import re
import tempfile
from collections.abc import Mapping

import numpy as np
from scipy import sparse

# Clocks, and names of versions.
UNSTABLE = ("seconds", "time", "versions", "budget_left", ".used")
# A text of one line is kept up to so many characters.
SHORT = 80
_FOLDER = re.compile(re.escape(tempfile.gettempdir()) + r"/[^/\s'\"]+")


class Leaves(dict):
    """Numbers and texts of a nested value, by their path; objects of other kinds are skipped."""

    def add(self, path, value):
        """Take what is below `value`."""
        if any(word in path for word in UNSTABLE):
            return
        if sparse.issparse(value):
            self.add(path, value.toarray())
        elif hasattr(value, "_asdict"):
            self.add(path, value._asdict())
        elif isinstance(value, Mapping):
            for key in value:
                self.add(f"{path}.{key}", value[key])
        elif isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
            self[path] = value
        elif isinstance(value, (bool, int, float, np.number, np.bool_)):
            self[path] = np.asarray(value)
        elif isinstance(value, (str, np.str_)):
            self[path] = str(value)
        elif isinstance(value, (list, tuple, np.ndarray)) and len(value):
            if all(isinstance(v, (bool, int, float, np.number)) for v in value):
                self[path] = np.asarray(value)
            elif all(isinstance(v, str) for v in value):
                self[path] = "|".join(value)
            elif all(isinstance(v, Mapping) for v in value):  # a table, column by column
                for key in dict.fromkeys(key for row in value for key in row):
                    self.add(f"{path}.{key}", [row[key] for row in value if key in row])
            else:
                for i, item in enumerate(value):
                    self.add(f"{path}.{i}", item)


def published(model, X):
    """Predictions and fitted attributes."""
    leaves = Leaves()
    own = {}
    if type(model).__name__ == "GLMRegressor":  # rates, where an exposure was given
        neutral = {"exposure": 1.0, "offset": 0.0}
        own = {name: neutral[name] for name in vars(model).get("row_terms_", ())}
    for verb in ("predict", "decision_function", "predict_proba", "transform"):
        if hasattr(model, verb):
            leaves.add(verb, getattr(model, verb)(X, **own))
    for name in getattr(model, "_ON_DEMAND", ()):
        hasattr(model, name)  # a stream's read-out is made when it is asked for
    for name in sorted(vars(model)):
        if name.endswith("_") and not name.startswith("_"):
            leaves.add(name, vars(model)[name])
    return leaves


def without_folders(text):
    """A text without the names of temporary folders.

    >>> without_folders(f"no file {tempfile.gettempdir()}/tmp1a2b/rows.csv")
    'no file FOLDER/rows.csv'
    """
    return _FOLDER.sub("FOLDER", text)


def digest(value):
    """A value in short.

    Numbers: type and shape, norm, projection on fixed random numbers, hash of all bytes.
    Texts: hash of the whole, and how it begins (all of it, if it has several lines).
    """
    if isinstance(value, str):
        value = without_folders(value)
        start = value if "\n" in value else value[:SHORT]
        return [hashlib.sha256(value.encode()).hexdigest()[:16], start]
    value = np.asarray(value)
    flat = np.nan_to_num(value.astype(float).ravel(), nan=0.5, posinf=1e9, neginf=-1e9)
    drawn = np.random.default_rng(flat.size).normal(size=flat.size)
    summary = [float(f"{x:.13g}") for x in (np.linalg.norm(flat), drawn @ flat)]
    raw = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]
    return [f"{value.dtype}{list(value.shape)}", *summary, raw]


def shortened(cases):
    """Cases as the stored copy has them: numbers without the hash of their bytes, short texts."""
    return {key: {p: _shortened(d) for p, d in leaves.items()} for key, leaves in cases.items()}


def _shortened(kept):
    if is_text(kept):
        return [kept[0], *(start[:SHORT] for start in kept[1:])]
    return kept[:3]


def is_text(kept):
    """Whether a digest is that of a text."""
    return len(kept) < 3


def as_json(found):
    """JSON with a case a line."""
    lines = (f"{json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in found.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"
