import io
import re
import warnings

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_svmlight_file

from tunefree.files import DataError, read
from tunefree.files.libsvm import blocks, read_libsvm
from tunefree.files.records import records


def random_text(rng):
    """A libsvm file with the liberties that the format takes."""
    zero_based = bool(rng.integers(2))
    newline = ["\n", "\r\n"][rng.integers(2)]
    lines = []
    for _ in range(rng.integers(1, 12)):
        kind = rng.random()
        if kind < 0.1:
            lines.append("")
        elif kind < 0.2:
            lines.append(" # a comment 3:4")
        else:
            label = rng.choice(["1", "-1", "+1", "0", "2.5", "1e-3", "-0"])
            indices = np.sort(rng.choice(30, rng.integers(0, 6), replace=False)) + (not zero_based)
            values = rng.choice(
                ["1", "0", "-2.5", "1e5", ".5", "7.", "0.1234567890123456789", "1E-320", "3e+2"],
                len(indices),
            )
            space = rng.choice([" ", "  ", "\t"])
            words = [label] + ["qid:3"] * (rng.random() < 0.1)
            words += [f"{i}:{v}" for i, v in zip(indices, values, strict=True)]
            lines.append(space.join(words) + rng.choice(["", " ", " # end", "#end"]))
    lines.append("1 3:1")
    return (newline.join(lines) + newline * int(rng.integers(2))).encode()


def sklearns(text, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load_svmlight_file(io.BytesIO(text), **options)


@pytest.mark.parametrize("seed", range(300))
def test_a_random_file_reads_as_load_svmlight_file_reads_it(seed):
    text = random_text(np.random.default_rng(seed))
    X, y, _, _ = read_libsvm([text])
    theirs, labels = sklearns(text, zero_based="auto")
    assert X.shape == theirs.shape
    assert np.array_equal(X.toarray(), theirs.toarray())
    assert np.array_equal(y, labels)


@pytest.mark.parametrize("seed", range(50))
def test_the_order_within_a_row_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    text = random_text(rng)
    shuffled = []
    for line in text.split(b"\n"):
        pairs = re.findall(rb"(?<!\S)\d+:[^\s#]+", line.split(b"#")[0])
        order = rng.permutation(len(pairs))
        head = line.split(b"#")[0].split()[:1]
        shuffled.append(b" ".join(head + [pairs[i] for i in order]))
    X, y, _, _ = read_libsvm([text])
    again, labels, _, _ = read_libsvm([b"\n".join(shuffled)])
    assert np.array_equal(X.toarray(), again.toarray()) and np.array_equal(y, labels)
    assert again.has_sorted_indices and np.array_equal(again.indices, X.indices)


@pytest.mark.parametrize("seed", range(20))
def test_where_the_text_is_cut_changes_nothing(seed):
    rng = np.random.default_rng(seed)
    text = random_text(rng)
    X, y, zero_based, _ = read_libsvm([text])
    for size in (1, 2, 7, 64):
        pieces = [text[i : i + size] for i in range(0, len(text), size)]
        again, labels, base, _ = read_libsvm(pieces)
        assert again.shape == X.shape and base == zero_based
        for part in ("data", "indices", "indptr"):
            assert np.array_equal(getattr(again, part), getattr(X, part))
        assert np.array_equal(labels, y)


def test_blocks_concatenate_to_the_whole_file():
    text = b"".join(b"%d 1:%d 5:2\n" % (i % 2, i) for i in range(100))
    pieces = [text[i : i + 33] for i in range(0, len(text), 33)]
    read_blocks = [block for block, _ in blocks(pieces)]
    assert len(read_blocks) > 10
    assert np.concatenate([b.labels for b in read_blocks]).tolist() == [i % 2 for i in range(100)]
    assert np.concatenate([b.values for b in read_blocks])[::2].tolist() == list(range(100))


MALFORMED = {
    "a negative index": (b"1 1:1\n1 -3:1\n", 2, 3, "negative: '-3:1'"),
    "a word for an index": (b"1 a:1\n", 1, 3, "expected index:value, found 'a:1'"),
    "a fraction for an index": (b"1 1.5:1\n", 1, 3, "expected index:value, found '1.5:1'"),
    "a signed index": (b"1 +1:1\n", 1, 3, "expected index:value"),
    "no index": (b"1 :1\n", 1, 3, "expected index:value, found ':1'"),
    "an index beyond 64 bits": (b"1 99999999999999999999:1\n", 1, 3, "too large"),
    "an index of many digits": (b"1 1:1 " + b"9" * 500 + b":1\n", 1, 7, "too large"),
    "no colon": (b"1 1:1\n-1 2\n", 2, 4, "'2' without a colon"),
    "no colon at the end": (b"1 1:1 7", 1, 7, "'7' without a colon"),
    "two colons": (b"1 1:2:3\n", 1, 5, "finite number, not '2:3'"),
    "no value": (b"1 1: 2:1\n", 1, 5, "value after the colon is missing"),
    "no value at the end": (b"1 1:", 1, 5, "value after the colon is missing"),
    "a word for a value": (b"1 1:1\n\n# c\n1 1:x\n", 4, 5, "finite number, not 'x'"),
    "nan": (b"1 1:nan\n", 1, 5, "finite number, not 'nan'"),
    "inf": (b"1 12:-inf\n", 1, 6, "finite number, not '-inf'"),
    "a value beyond float64": (b"1 1:1e999\n", 1, 5, "finite number, not '1e999'"),
    "an unfinished exponent": (b"1 1:1e\n", 1, 5, "finite number, not '1e'"),
    "a hexadecimal value": (b"1 1:0x1\n", 1, 5, "finite number, not '0x1'"),
    "an underscore": (b"1 1:1_0\n", 1, 5, "finite number, not '1_0'"),
    "a comma for a point": (b"1 1:1,5\n", 1, 5, "finite number, not '1,5'"),
    "a repeated index": (b"1 1:1 2:1 1:3\n", 1, 11, "feature 1 occurs twice"),
    "an index repeated at once": (b"0\n1 2:1\n1 7:1 7:1\r\n", 3, 7, "feature 7 occurs twice"),
    "a word for a label": (b"1 1:1\ncat 1:1\n", 2, 1, "label must be a finite number, not 'cat'"),
    "a nan label": (b"  nan 1:1\n", 1, 3, "label must be a finite number, not 'nan'"),
    "an infinite label": (b"1e400 1:1\n", 1, 1, "label must be a finite number, not '1e400'"),
    "two labels": (b"1,2 1:1\n", 1, 1, "one label, not several: '1,2'"),
    "no label": (b"1 1:1\n1:1 2:1\n", 2, 1, "label is missing: the row starts with '1:1'"),
    "binary junk": (b"1 1:1\n\x01\xff\x00\n", 2, 1, "label must be a finite number"),
    "a late qid": (b"1 1:1 qid:3\n", 1, 7, "expected index:value, found 'qid:3'"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_file_is_refused_with_its_place(tmp_path, name):
    text, line, column, words = MALFORMED[name]
    path = tmp_path / "bad.libsvm"
    path.write_bytes(text)
    with pytest.raises(DataError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}:{line}:{column}: ")
    assert words in caught.value.message
    assert (caught.value.path, caught.value.line, caught.value.column) == (str(path), line, column)


@pytest.mark.parametrize("name", MALFORMED)
def test_the_place_does_not_depend_on_where_the_text_is_cut(name):
    text, line, column, _ = MALFORMED[name]
    pieces = [bytes([byte]) for byte in b"1 1:1\n1 2:2 1:1\n" * 3 + text]
    with pytest.raises(DataError) as caught:
        read_libsvm(pieces)
    assert (caught.value.line, caught.value.column) == (line + 6, column)


def test_a_place_far_down_is_exact():
    rows = b"1 1:1 2:2.5\n" * 300_000
    with pytest.raises(DataError) as caught:
        read_libsvm([rows, b"1 1:1 2:bad\n", rows])
    assert (caught.value.line, caught.value.column) == (300_001, 9)


@pytest.mark.parametrize("text", [b"", b"\n\n", b"# only a comment\n", b" \r\n"])
def test_a_file_without_rows_is_refused(tmp_path, text):
    path = tmp_path / "empty.svm"
    path.write_bytes(text)
    with pytest.raises(DataError, match=r"empty.svm: the file has no rows"):
        read(path)


def test_zero_in_a_one_based_file_is_refused_and_told_apart_otherwise():
    text = b"1 1:1\n1 0:1\n"
    with pytest.raises(DataError, match=r"2:3: index 0 in a file whose indices start from 1"):
        read_libsvm([text], zero_based=False)
    assert read_libsvm([text])[0].toarray().tolist() == [[0, 1], [1, 0]]
    assert read_libsvm([b"1 1:1\n"], zero_based=True)[0].shape == (1, 2)
    assert read_libsvm([b"1 1:1\n"])[0].shape == (1, 1)


def test_n_features_widens_and_bounds():
    assert read_libsvm([b"1 2:1\n"], n_features=5)[0].shape == (1, 5)
    with pytest.raises(DataError, match=r"1:3: the feature index is too large \(at most 1\)"):
        read_libsvm([b"1 2:1\n"], n_features=1)
    with pytest.raises(DataError, match=r"1:7: the feature index is too large \(at most 1\)"):
        read_libsvm([b"1 0:1 2:1\n"], n_features=2, zero_based=True)
    with pytest.raises(DataError, match="index 2 is too large for 2 features counted from 0"):
        read_libsvm([b"1 0:1 2:1\n"], n_features=2)


def test_unseen_features_are_ignored_and_counted_on_request():
    text = b"1 1:1 7:5\n0 9:1\n1 2:2 99999999999:3\n"
    X, _, _, ignored = read_libsvm([text], n_features=2, unseen="ignore")
    assert ignored == 3
    assert X.toarray().tolist() == [[1, 0], [0, 0], [0, 2]]
    assert X.indices.dtype == np.int32
    assert read_libsvm([text], n_features=2, unseen="ignore", zero_based=True)[3] == 4


def test_rows_without_labels_can_be_read_for_prediction():
    X, y, _, _ = read_libsvm([b"1:1 2:2\n7 2:3\n\n3:1\n"], labelled=False)
    assert y is None
    assert X.toarray().tolist() == [[1, 2, 0], [0, 3, 0], [0, 0, 1]]


def test_indices_are_int32_until_they_do_not_fit():
    assert read_libsvm([b"1 2147483647:1\n"])[0].indices.dtype == np.int32
    X, _, _, _ = read_libsvm([b"1 3:1\n", b"1 3000000000:1\n"])
    assert X.shape == (2, 3_000_000_000)
    assert X.indices.dtype == np.int64
    assert X.indices.tolist() == [2, 2_999_999_999]


def test_the_matrix_is_canonical():
    X, _, _, _ = read_libsvm([b"1 9:1 2:1e400000\n".replace(b"e400000", b""), b"1 5:5 4:4 1:1\n"])
    assert isinstance(X, scipy.sparse.csr_array)
    assert X.indices.tolist() == [1, 8, 0, 3, 4]
    assert X.data.tolist() == [1, 1, 1, 4, 5]


def test_a_slow_number_in_an_unsorted_row_stays_with_its_index():
    X, _, _, _ = read_libsvm([b"1 3:0.12345678901234567890123 1:1e-310 2:9007199254740993.5\n"])
    assert X.toarray()[0].tolist() == [1e-310, 9007199254740993.5, 0.12345678901234567890123]


@pytest.mark.parametrize("seed", range(20))
def test_rows_one_by_one_are_those_of_the_file(seed):
    text = random_text(np.random.default_rng(seed))
    X, y, zero_based, _ = read_libsvm([text])
    found = list(records([text], "libsvm"))
    assert [record.y for record in found] == y.tolist()
    for row, record in enumerate(found):
        indices = X[[row]].indices + (not zero_based)
        assert record.x == dict(zip(map(str, indices), X[[row]].data, strict=True))


@pytest.mark.parametrize("name", MALFORMED)
def test_rows_one_by_one_are_refused_as_in_the_file(name):
    text = MALFORMED[name][0]

    def refusal(reading):
        try:
            reading()
        except DataError as error:
            return str(error)

    whole = refusal(lambda: read_libsvm([text], labelled=False))
    assert refusal(lambda: list(records([text], "libsvm"))) == whole
    assert (whole is None) == (name == "no label")
