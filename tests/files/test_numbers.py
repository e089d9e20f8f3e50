import math
import random
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tunefree.files.numbers import EXACT, NOT_A_NUMBER, SLOW, python_number, scan_number


def scan(word):
    text = word.encode() + b"\n"
    value, end, outcome = scan_number(np.frombuffer(text, np.uint8), 0)
    if outcome == SLOW:
        value = python_number(text, 0)
    return value, end, outcome


def bits(x):
    return struct.pack("<d", x)


def words(seed, count):
    """Decimal numbers of every shape, many of them next to a rounding boundary."""
    rng = random.Random(seed)
    for _ in range(count):
        sign = rng.choice(["", "+", "-"])
        digits = str(rng.getrandbits(rng.randint(1, 90)))
        yield sign + digits
        yield f"{sign}{digits}e{rng.randint(-345, 310)}"
        yield f"{sign}{'0' * rng.randint(0, 25)}.{'0' * rng.randint(0, 25)}{digits}"
        cut = rng.randint(0, len(digits))
        yield f"{sign}{digits[:cut]}.{digits[cut:]}E{rng.choice('+-')}0{rng.randint(0, 30)}"
        x = struct.unpack("<d", rng.randbytes(8))[0]
        if math.isfinite(x):
            yield repr(x)
            # halfway between two neighbours, and just beside it
            exponent = rng.randint(-40, 40)
            odd = (rng.getrandbits(53) | 1) * 2 + 1
            half = odd * 2**exponent if exponent >= 0 else odd / 2**-exponent
            yield repr(half)
            yield str(((1 << 53) | rng.getrandbits(52)) * 2 + 1)


def test_every_number_has_the_bits_that_float_gives():
    wrong = [
        w for w in words(0, 3000) if bits(scan(w)[0]) != bits(float(w)) or scan(w)[1] != len(w)
    ]
    assert wrong == []


@settings(max_examples=300, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_shortest_text_of_a_float_is_read_back(x):
    assert bits(scan(repr(x))[0]) == bits(x)


def test_the_slow_path_is_rare_for_ordinary_numbers():
    rng = np.random.default_rng(0)
    outcomes = [scan(repr(x))[2] for x in rng.standard_normal(2000).tolist()]
    assert outcomes.count(EXACT) > 1900
    assert NOT_A_NUMBER not in outcomes


@pytest.mark.parametrize("word", ["", "+", "-", ".", "e5", "-.e1", "1e", "1e+", "nan", "inf", "x1"])
def test_what_is_not_a_number_is_said_to_be_none(word):
    assert scan(word)[2] == NOT_A_NUMBER


@pytest.mark.parametrize(("word", "length"), [("1_000", 1), ("0x10", 1), ("1,5", 1), ("2 3", 1)])
def test_the_scan_stops_where_the_number_ends(word, length):
    assert scan(word)[1] == length
