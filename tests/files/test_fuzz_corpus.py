"""Inputs that fuzzing found to reach different lines: each is read as documented, or refused.

`benchmarks/fuzz.py` found them; `tests/corpus/model` holds headers of model files.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from test_persistence import forge

from tunefree.files import DataError, Skipped, read
from tunefree.files.mixed import read_mixed
from tunefree.files.model import ModelError, load_model

CORPUS = Path(__file__).parents[1] / "corpus"


def inputs(kind):
    return sorted((CORPUS / kind).iterdir())


def reading(pieces, format):
    """The bytes of what was read, or the place and text of the refusal."""
    try:
        found = read(pieces, format=format)
    except DataError as refusal:
        return str(refusal)
    entries = found.X.data if format == "libsvm" else found.X
    assert np.isfinite(entries).all() and found.X.shape[0] == len(found.y)
    return found.X.shape, entries.tobytes(), np.asarray(found.y).tobytes()


@pytest.mark.parametrize("format", ["libsvm", "csv"])
def test_a_reading_does_not_depend_on_where_the_bytes_are_cut(format):
    outcomes = set()
    for path in inputs(format):
        data = path.read_bytes()
        whole = reading([data], format)
        outcomes.add(type(whole))
        for cut in {1, 7, len(data) // 2, max(0, len(data) - 1)}:
            assert reading([data[:cut], data[cut:]], format) == whole, (path.name, cut)
    assert outcomes == {str, tuple}  # some are refused, and some are sound


def mixed(pieces, **options):
    """The cells and targets that were read, or the place and text of the refusal."""
    try:
        found = read_mixed(pieces, format="csv", **options)
    except DataError as refusal:
        return str(refusal)
    X = found.X
    assert X.shape[0] == len(found.y)
    cells = X.tobytes() if isinstance(X, np.ndarray) else repr(X.to_pydict())
    return cells, found.y.tolist()


@pytest.mark.filterwarnings("ignore:.* is not UTF-8")
def test_a_mixed_table_is_the_same_wherever_it_is_cut():
    outcomes = set()
    for path in inputs("mixed"):
        data = path.read_bytes()
        whole = mixed([data])
        outcomes.add(type(whole))
        for cut in {1, 7, len(data) // 2}:
            assert mixed([data[:cut], data[cut:]]) == whole, (path.name, cut)
        mixed([data], skipped=Skipped())
    assert outcomes == {str, tuple}


def test_headers_under_a_right_checksum_are_loaded_or_refused(tmp_path):
    path, outcomes = tmp_path / "model", {"loaded": 0, "refused": 0}
    for header in inputs("model"):
        text = header.read_bytes().decode("latin-1")
        try:
            text = json.loads(text)
        except (ValueError, RecursionError):
            pass  # no JSON is an input, too
        path.write_bytes(forge(text, bytes(1 << 16)))
        try:
            load_model(path).get_params()
            outcomes["loaded"] += 1
        except ModelError:
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 0, outcomes
