"""Texts that are not UTF-8, or not all of them."""

import warnings

import numpy as np
import pytest

from tunefree.files.files import decoded
from tunefree.files.mixed import read_mixed
from tunefree.files.records import records

WORDS = ["café", "naïve", "Ærø", "rød", "plain", "€uro"]


def rows(seed, n=40):
    rng = np.random.default_rng(seed)
    words = rng.choice(WORDS, n)
    return [
        f"{a:.2f},{w},{a + k:.2f}\n"
        for k, (a, w) in enumerate(zip(rng.normal(size=n), words, strict=True))
    ]


def levels(content):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = read_mixed([content], format="csv", cells=True)
        streamed = [row.x["word"] for row in records([content], "csv")]
    assert streamed == found.X.column("word").to_pylist()
    return streamed


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 1.0])
def test_a_word_is_the_same_in_every_line(seed, share):
    """Files that were joined have lines in two encodings, and one damaged line spoils no other."""
    rng = np.random.default_rng(seed)
    lines = rows(seed)
    other = [*(rng.random(len(lines)) < share)]
    content = b"".join(
        line.encode("cp1252" if is_other else "utf-8")
        for line, is_other in zip(["x,word,y\n", *lines], [False, *other], strict=True)
    )
    assert levels(content) == [line.split(",")[1] for line in lines]


def test_a_damaged_line_is_told():
    content = "".join(["x,word,y\n", *rows(1)]).encode() + b"1,r\xf8d,2\n"
    with pytest.warns(UserWarning, match=":42: the line is not UTF-8"):
        read_mixed([content], format="csv", cells=True)
    with pytest.warns(UserWarning, match="> is not UTF-8: read as Windows-1252"):
        read_mixed([b"x,word,y\n1,r\xf8d,2\n2,b,3\n"], format="csv", cells=True)


@pytest.mark.parametrize("encoding", ["shift-jis", "gbk", "cp1251", "koi8-r", "cp866", "euc-kr"])
def test_words_in_unknown_encodings_stay_apart(encoding):
    letters = {
        "shift-jis": "赤青緑白黒黄紫橙",
        "gbk": "红蓝绿白黑黄紫橙",
        "euc-kr": "가나다라마바사아",
    }
    words = list(letters.get(encoding, "жзиклмнп"))
    content = "x,word,y\n" + "".join(f"{k},{word},{k}\n" for k, word in enumerate(words * 5))
    found = levels(content.encode(encoding))
    assert len({*found}) == len(words) and found[:8] == found[8:16]


def test_every_byte_keeps_its_place():
    text = bytes(range(128, 256))
    assert len({*decoded(text)}) == len(decoded(text)) == 128
