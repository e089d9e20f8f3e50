"""Texts that are not UTF-8, or not all of them."""

import warnings

import numpy as np
import pytest

from tunefree.files.files import decoded, likely_encoding
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


JAPANESE = "東京 大阪 名古屋 さくら カタカナ 高い 安い 部屋 良い 悪い 価格 面積 はい いいえ".split()
CHINESE = "北京 上海 广州 价格 面积 高 低 是 否 红色 蓝色 客户 编号 良好 优秀 男 女".split()
TAIWANESE = "台北 高雄 台中 價格 面積 高 低 是 否 紅色 藍色 客戶 編號".split()
KOREAN = "서울 부산 대구 가격 면적 높음 낮음 예 아니오 남 여 빨강 파랑".split()
RUSSIAN = "Москва Казань Тула да нет мужской женский цена площадь красный синий".split()
GREEK = "Αθήνα ναι όχι τιμή κόκκινο άνδρας γυναίκα μέγεθος".split()
POLISH = "Łódź Gdańsk Poznań mężczyzna kobieta tak wysoki żółty Šumava příliš žlutý".split()
WESTERN = (
    "Größe Straße café naïve Ærø rød plain señor à\u00a0côté größer coração Öl 10\u00a0m²".split(
        " "
    )
)
ENCODINGS = {
    "SHIFT-JIS": ("cp932", JAPANESE),
    "EUC-JP": ("euc_jp", JAPANESE),
    "GB18030": ("gb18030", CHINESE),
    "BIG5": ("big5", TAIWANESE),
    "EUC-KR": ("cp949", KOREAN),
    "WINDOWS-1251": ("cp1251", RUSSIAN),
    "KOI8-R": ("koi8_r", RUSSIAN),
    "WINDOWS-1253": ("cp1253", GREEK),
    "ISO-8859-2": ("iso8859_2", POLISH),
    "WINDOWS-1250": ("cp1250", POLISH),
    None: ("cp1252", WESTERN),
}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", ENCODINGS, ids=str)
def test_what_other_encodings_look_like_is_told(name, seed):
    """Python knows the codec under the name that the warning gives."""
    codec, words = ENCODINGS[name]
    drawn = np.random.default_rng(seed).choice(words, 60)
    content = "x,word,y\n" + "".join(f"{k},{word},{k}\n" for k, word in enumerate(drawn))
    assert likely_encoding(content.encode(codec)) == name
    if name is not None:
        assert content.encode(codec).decode(name) == content
    more = "$" if name is None else f". It looks like {name}, .*iconv -f {name} -t UTF-8"
    with pytest.warns(UserWarning, match=f"read as Windows-1252{more}"):
        read_mixed([content.encode(codec)], format="csv", cells=True)


@pytest.mark.parametrize("name", ["WINDOWS-1251", "KOI8-R"])
def test_words_of_an_even_length_are_no_chinese_ones(name):
    assert likely_encoding(" ".join(["Москва", "Казань", "Омск", "да"] * 9).encode(name)) == name


def test_a_few_letters_show_no_encoding():
    for codec, words in ENCODINGS.values():
        assert likely_encoding(words[0].encode(codec)[:7]) is None
