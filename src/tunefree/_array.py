"""Arrays: tables of other widths, and random numbers that are a function of content and seed."""

from typing import Any

import numpy as np

from tunefree._jit import _as_integer, kernel


@kernel
def mix(x):
    """Scramble a 64-bit integer (the finaliser of splitmix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def number_hash(value, position):
    """Hash of a number at a position."""
    return mix(np.uint64(_as_integer(np.float64(value) + 0.0)) ^ mix(np.uint64(position)))


@kernel
def scramble(keys, salt):
    """A new key for every key, for a new order."""
    out = np.empty_like(keys)
    for i in range(keys.shape[0]):
        out[i] = mix(keys[i] + np.uint64(salt))
    return out


def seed_of(random_state: Any) -> int:
    """A 32-bit seed from anything scikit-learn takes as `random_state`, or a Generator.

    Raises
    ------
    ValueError
        For what is no seed.

    Examples
    --------
    >>> seed_of(7)
    7
    """
    if random_state is None:
        return int(np.random.randint(2**31 - 1))
    if isinstance(random_state, int | np.integer) and random_state >= 0:
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    other: Any = random_state
    if hasattr(other, "randint"):
        return int(other.randint(2**31 - 1))
    raise ValueError(
        f"random_state={random_state!r} is neither None nor a nonnegative integer nor a "
        "RandomState or Generator."
    )


def resized(table, d, bias=False, fill=0.0):
    """A table with d columns (its first axis), and after them the constant's if there is one.

    Columns that are new hold `fill`, and so must those that go.

    Examples
    --------
    >>> resized(np.array([1.0, 2.0, 9.0]), 3, bias=True).tolist()
    [1.0, 2.0, 0.0, 9.0]
    """
    out = np.full((d + bias, *table.shape[1:]), fill)
    known = min(len(table) - bias, d)
    out[:known] = table[:known]
    if bias:
        out[-1] = table[-1]
    return out
