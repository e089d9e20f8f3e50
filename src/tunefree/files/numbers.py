"""Numbers of text as float64, with the bits of Python's `float`.

A number ``m * 10**e`` with at most 19 digits in its significand ``m`` is rounded in compiled code.
All others, and the few numbers too close to a rounding boundary for 64 bits, are read by Python's
`float` (outcome `SLOW`). The result is therefore always that of `float`. The scanner stops at the
first byte that cannot continue a number and never looks past a newline, so a buffer that ends in
one needs no bounds checks.
"""

import re
from typing import Any

import numpy as np

from tunefree.core.jit import kernel

EXACT, SLOW, NOT_A_NUMBER = 0, 1, 2

NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LOWEST, _HIGHEST = -290, 288  # outside, a 19-digit significand may leave the normal range


def _significand(power):
    """Compute the leading 64 bits of 10**power, rounded down: 2**63 <= it < 2**64."""
    if power >= 0:
        value = 5**power
        excess = value.bit_length() - 64
        return value >> excess if excess >= 0 else value << -excess
    divisor = 5**-power
    return (1 << (63 + divisor.bit_length())) // divisor


_POWERS = range(_LOWEST, _HIGHEST + 1)
_TENS = np.array([_significand(e) for e in _POWERS], dtype=np.uint64)
# floor(e * log2(10)): the binary exponent of 10**e
_TEN_EXPONENTS = np.array(
    [(10**e).bit_length() - 1 if e >= 0 else -((10**-e).bit_length()) for e in _POWERS]
)
_SMALL_TENS = 10.0 ** np.arange(23)  # all exact in float64
_TWOS = np.ldexp(1.0, np.arange(-1074, 1024))
_HALF_WORD = np.uint64(0xFFFFFFFF)
_TOP_BIT = np.uint64(1 << 63)


@kernel
def _high_word(a, b):
    """Compute the upper 64 bits of the 128-bit product of two uint64."""
    shift = np.uint64(32)
    a1, a0 = a >> shift, a & _HALF_WORD
    b1, b0 = b >> shift, b & _HALF_WORD
    middle = a1 * b0 + ((a0 * b0) >> shift)
    carry = a0 * b1 + (middle & _HALF_WORD)
    return a1 * b1 + (middle >> shift) + (carry >> shift)


@kernel
def round_decimal(m, e):
    """Round ``m * 10**e`` to the nearest float64, if 64 bits are enough to be certain.

    With ``m`` and the table entry ``t`` shifted to fill 64 bits, the true product lies between
    ``h * 2**64`` and ``(h + 2) * 2**64``, h the upper word of ``m * t``. The leading 53 bits of h
    are kept; the rest decides the rounding unless it is one half, or one unit below it.

    `m` is not zero. Returns the number, and whether it is certain.
    """
    if e < _LOWEST or e > _HIGHEST:
        return 0.0, False
    shift = 0
    while m < _TOP_BIT:
        m <<= np.uint64(1)
        shift += 1
    high = _high_word(m, _TENS[e - _LOWEST])
    exponent = _TEN_EXPONENTS[e - _LOWEST] - shift + 64
    drop = 11
    if high < _TOP_BIT:
        drop = 10
    rest = np.int64(high & np.uint64((1 << drop) - 1))
    half = 1 << (drop - 1)
    if rest == half or rest == half - 1:
        return 0.0, False
    kept = np.int64(high >> np.uint64(drop)) + (1 if rest > half else 0)
    # m * 10**e = high * 2**(exponent - 63), and high = kept * 2**drop
    return kept * _TWOS[exponent - 63 + drop + 1074], True


@kernel
def scan_number(text, at):
    """Read a decimal number from its sign or first digit or point on: (value, end, outcome).

    The text ends in a newline. `EXACT` means that the value is right, `SLOW` that `float` must read
    ``text[at:end]``; on `NOT_A_NUMBER` the end is where the scan gave up.
    """
    negative = text[at] == 45
    if negative or text[at] == 43:
        at += 1
    m, zeros, fraction = np.uint64(0), 0, 0
    first = at
    digit = np.int64(text[at]) - 48
    while 0 <= digit <= 9:
        m = m * np.uint64(10) + np.uint64(digit)
        at += 1
        digit = np.int64(text[at]) - 48
    digits = at - first
    if text[at] == 46:
        at += 1
        point = at
        digit = np.int64(text[at]) - 48
        while 0 <= digit <= 9:
            m = m * np.uint64(10) + np.uint64(digit)
            at += 1
            digit = np.int64(text[at]) - 48
        fraction = at - point
        digits += fraction
    if digits == 0:
        return 0.0, at, NOT_A_NUMBER
    if digits > 19:  # leading zeros do not count
        while text[first + zeros] == 48 or text[first + zeros] == 46:
            zeros += 1
            if text[first + zeros - 1] != 46:
                digits -= 1
    e = 0
    if text[at] == 101 or text[at] == 69:
        at += 1
        down = text[at] == 45
        if down or text[at] == 43:
            at += 1
        start = at
        digit = np.int64(text[at]) - 48
        while 0 <= digit <= 9:
            if e < 100000:
                e = 10 * e + digit
            at += 1
            digit = np.int64(text[at]) - 48
        if at == start:
            return 0.0, at, NOT_A_NUMBER
        if down:
            e = -e
    if digits > 19:
        return 0.0, at, SLOW
    e -= fraction
    if m == 0:
        value = 0.0
    elif e == 0 and m <= np.uint64(1 << 53):
        value = np.float64(np.int64(m))
    elif m <= np.uint64(1 << 53) and -22 <= e <= 22:
        if e < 0:
            value = np.int64(m) / _SMALL_TENS[-e]
        else:
            value = np.int64(m) * _SMALL_TENS[e]
    else:
        value, certain = round_decimal(m, e)
        if not certain:
            return 0.0, at, SLOW
    return (-value if negative else value), at, EXACT


def python_number(text, at):
    """Read the number that `scan_number` found at a byte with `float`; inf if it is too large.

    >>> python_number(b"1:9007199254740993 2:1", 2)
    9007199254740992.0
    """
    found: Any = NUMBER.match(text, at)
    return float(found[0])
