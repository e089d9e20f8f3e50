import gzip

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file

from tunefree.files import read

TABLES = {
    "california_housing": (20640, 8, -1, float),
    "elec2": (45312, 9, "class", str),
    "letterrecognition": (20000, 16, "lettr", str),
    "magic04": (19020, 10, None, str),
    "satellite": (6435, 36, "classes", None),
    "spam": (4601, 57, -1, None),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_public_table_reads_as_numpy_reads_it(data, name):
    rows, columns, target, kind = TABLES[name]
    path = data / f"{name}.csv.gz"
    table = read(path, target=target)
    assert table.X.shape == (rows, columns) and len(table.y) == rows
    assert kind is None or table.y.dtype.kind == {float: "f", str: "U"}[kind]
    position = table.target.position
    with gzip.open(path, "rt") as file:
        theirs = np.genfromtxt(
            file,
            delimiter=",",
            skip_header=0 if table.feature_names is None else 1,
            usecols=[j for j in range(columns + 1) if j != position],
        )
    assert np.array_equal(table.X, theirs)


@pytest.mark.parametrize("name", ["a9a", "a9a.t", "w8a", "agaricus.txt.train"])
def test_a_public_libsvm_file_reads_as_scikit_learn_reads_it(data, name):
    table = read(data / f"{name}.gz")
    X, y = load_svmlight_file(str(data / f"{name}.gz"))
    assert np.array_equal(table.y, y)
    for part in ("data", "indices", "indptr"):
        assert np.array_equal(getattr(table.X, part), getattr(X, part))
