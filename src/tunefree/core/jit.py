"""One formula for Python and for Numba: parts with methods that compiled kernels can call.

A *part* (a loss, an averaging scheme, a design, a learning rule) is a ``NamedTuple`` whose methods
are plain NumPy scalar code. A *verb* made here calls a part's method from Python, and compiles that
same method body when a kernel calls it. So a formula is written once, and a user's own part works
in kernels as well.

Numba's cache depends on the file of a kernel, not on the files of its parts. So kernels that take
parts are cached only for parts of this package (`_ours`), and the test suite has one
``NUMBA_CACHE_DIR`` for each hash of the sources.
"""

import gc
import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import config
from numba.extending import intrinsic, overload

from tunefree.core.clock import compiling

# Typed as Any: type checkers know neither names that are set at import, nor that arguments of
# decorated functions are removed.
_config: Any = config
_njit: Any = numba.njit
_intrinsic: Any = intrinsic
_OPTIONS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
# `tunefree.core.within` uses internals of Numba: only in versions that it was tested with.
_TESTED = (0, 60) <= numba.version_info[:2] <= (0, 68)
_WHOLE: Any = {}
_ROLLED: Any = {}
_WITHIN: Any = {}
if _TESTED:
    from tunefree.core.within import RolledKernel, WholeKernel, Within

    _WHOLE = {"pipeline_class": WholeKernel}
    _ROLLED = {"pipeline_class": RolledKernel}
    _WITHIN = {"pipeline_class": Within, "no_cpython_wrapper": True}
# Sums may be reassociated, so that a dot product can use vector registers; NaN and inf are exact.
REASSOCIATE = {"reassoc", "nsz", "contract"}


def _private_folder():
    """A private folder of this user in the temporary folder; None if there is none.

    Numba executes its cache files, so a folder that another user created or may write to is
    refused.
    """
    if not hasattr(os, "getuid"):  # Windows: the temporary folder is the user's own
        return Path(tempfile.gettempdir()) / "tunefree-kernels"
    folder = Path(tempfile.gettempdir()) / f"tunefree-kernels-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return folder if ours and not found.st_mode & 0o022 else None


def _compiler(function, fastmath, borrows=False, unrolls=True) -> Any:
    """The compiler of a function: on its own for Python, inlined into the kernels that call it.

    Of constant arguments only the type is used, so that there is no compilation for each value. The
    garbage collector is off meanwhile: it would scan the compiler's objects again and again.
    """
    options = _OPTIONS | ({"_nrt": False} if borrows and _TESTED else {})
    whole = _WHOLE if unrolls else _ROLLED
    compiled = _njit(fastmath=fastmath, **options | whole)(function)
    if not _TESTED:
        return compiled
    within = _njit(fastmath=fastmath, **options | _WITHIN)(function)
    whole = compiled.compile

    def compile_whole(*args):
        collects = gc.isenabled()
        gc.disable()
        try:
            with compiling():
                # Numba looks into its cache first, and that registers lists, dicts and texts before
                # arrays: the index of an array would then be tried as theirs, too, each time.
                compiled.targetdescr.typing_context.refresh()
                return whole(*args)
        finally:
            if collects:
                gc.enable()

    compiled.compile = compile_whole
    compiled.get_call_template = lambda args, kws: within.get_call_template(
        tuple(types.unliteral(a) for a in args), kws
    )
    compiled.get_overload = within.get_overload
    return compiled


def _cached(function, fastmath, borrows=False, unrolls=True) -> Any:
    """Compile a function, and cache the result where there is a folder for it.

    In this order: ``NUMBA_CACHE_DIR``; ``__pycache__`` beside the module; the user's cache folder;
    ``tunefree-kernels-<user>`` in the temporary folder; nowhere (each process compiles again).
    Numba itself tries the first three, and raises where none is writable, as in a read-only
    container without a home. If the disk is full, nothing is cached.
    """
    compiled = _compiler(function, fastmath, borrows, unrolls)
    try:
        compiled.enable_caching()
    except RuntimeError:
        folder = _private_folder()
        if folder is None:
            return compiled
        configured, _config.CACHE_DIR = _config.CACHE_DIR, str(folder)
        try:
            compiled.enable_caching()
        except RuntimeError:  # the temporary folder is full or read-only, too
            return compiled
        finally:
            _config.CACHE_DIR = configured
    cache = compiled._cache
    load, save = cache.load_overload, cache.save_overload

    def load_if_possible(*args):
        try:
            return load(*args)
        except (AttributeError, ImportError):  # it names a part that another version had
            cache.flush()
            return None

    def save_if_possible(signature, result):
        with suppress(OSError):  # a full disk: the next process compiles again
            if all(map(_ours, result.signature.args)):
                save(signature, result)

    cache.load_overload, cache.save_overload = load_if_possible, save_if_possible
    return compiled


def kernel(function=None, *, fastmath: bool | set[str] = False, borrows=False, unrolls=True) -> Any:
    """Compile a function; it is cached between processes, except for a user's parts.

    Arithmetic is strict by default: with reassociation the dot product over a sparse row becomes
    vector gathers, which are slower than a sum of scalars. One that `borrows` makes no arrays:
    views of its arguments then need no reference counts, which cost more than the arithmetic on a
    short row. One that does not unroll loops is compiled in less time, and as fast where loops are
    long or wait for memory.
    """
    if function is None:
        return lambda f: kernel(f, fastmath=fastmath, borrows=borrows, unrolls=unrolls)
    return _cached(function, fastmath, borrows, unrolls)


def _ours(kind):
    """Whether a Numba type neither is nor holds a part from outside this package."""
    named: Any = types.BaseNamedTuple
    if isinstance(kind, named):
        is_ours = kind.instance_class.__module__.startswith("tunefree")
    else:
        is_ours = True
    return is_ours and all(map(_ours, getattr(kind, "types", ())))


def part(cls):
    """Give a ``NamedTuple`` class the equality, hash and truth of a value of its own type.

    Without it ``Hinge() == Logistic()`` is True and ``bool(Hinge())`` is False, since both are
    empty tuples.
    """
    cls.__eq__ = lambda self, other: type(self) is type(other) and tuple.__eq__(self, other)
    cls.__ne__ = lambda self, other: not self == other
    cls.__hash__ = lambda self: hash((type(self).__qualname__, tuple(self)))
    cls.__bool__ = lambda self: True
    return cls


def method(part_type: Any, name: str) -> Any:
    """The method of a part, given its Numba type; None if it has none."""
    if issubclass(type(part_type), types.BaseNamedTuple):
        return getattr(part_type.instance_class, name, None)
    return None


def verb(name: str) -> Callable[..., Any]:
    """A function ``call(part, *args)`` that runs ``part.name(*args)`` in Python and in kernels."""

    def call(part, *args):
        return getattr(part, name)(*args)

    def compiled(part, *args):
        return method(part, name)

    overload(call, strict=False, jit_options=_WITHIN)(compiled)
    return call


@kernel
def minimum(a, b):
    """The built-in min of two numbers, which Numba would compile apart from the kernel."""
    return b if b <= a else a


@kernel
def maximum(a, b):
    """The built-in max of two numbers, which Numba would compile apart from the kernel."""
    return b if b >= a else a


@_intrinsic
def _as_integer(context, x):
    def generate(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), generate


@_intrinsic
def _as_float(context, n):
    def generate(context, builder, signature, args):
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), generate


@kernel
def fast_exp(x):
    """exp(x) for -700 <= x <= 700 without a branch, so that loops over it vectorise.

    x = n ln 2 + r with |r| <= ln(2)/2: a Taylor polynomial for exp(r), n put into the exponent
    bits. The relative error is below 3e-16.
    """
    shift = 6755399441055744.0  # 1.5 * 2**52: adding it rounds to an integer held in the low bits
    rounded = x * 1.4426950408889634 + shift
    n = rounded - shift
    r = (x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    return p * _as_float((_as_integer(rounded) + 1023) << 52)


@_intrinsic
def _as_integer32(context, x):
    def generate(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(32))

    return types.int32(types.float32), generate


@_intrinsic
def _as_float32(context, n):
    def generate(context, builder, signature, args):
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.int32), generate


@kernel
def fast_exp32(x):
    """exp(x) in single precision for -87 <= x <= 88, with a relative error below 2e-7."""
    shift = np.float32(12582912.0)  # 1.5 * 2**23
    rounded = x * np.float32(1.44269504) + shift
    n = rounded - shift
    r = (x - n * np.float32(0.693145752)) - n * np.float32(1.42860677e-6)
    p = np.float32(1.0 / 720.0)
    p = p * r + np.float32(1.0 / 120.0)
    p = p * r + np.float32(1.0 / 24.0)
    p = p * r + np.float32(1.0 / 6.0)
    p = p * r + np.float32(0.5)
    p = p * r + np.float32(1.0)
    p = p * r + np.float32(1.0)
    bits = (_as_integer32(rounded) + np.int32(127)) << np.int32(23)
    return p * _as_float32(np.int32(bits))


@kernel(fastmath={"contract"})
def fast_exp2(x):
    """2^x for x <= 0, with a relative error below 3e-14; below -1000 that of -1000.

    As `fast_exp`, with a polynomial of degree 9 that interpolates at Chebyshev nodes.
    """
    shift = 6755399441055744.0
    x = minimum(maximum(x, -1000.0), 0.0)
    rounded = x + shift
    r = x - (rounded - shift)
    p = 1.0212097549811005e-07
    p = p * r + 1.3259945262689143e-06
    p = p * r + 1.5252640059770786e-05
    p = p * r + 0.00015403432339553542
    p = p * r + 0.001333355825801874
    p = p * r + 0.009618129195951041
    p = p * r + 0.05550410866428854
    p = p * r + 0.24022650695631514
    p = p * r + 0.6931471805599526
    p = p * r + 1.000000000000014
    return _as_float(_as_integer(p) + (_as_integer(rounded) << 52))


@kernel(fastmath={"contract"})
def fast_exp2_32(x):
    """2^x in single precision for x <= 0, with a relative error below 2e-7; see `fast_exp2`."""
    shift = np.float32(12582912.0)
    x = minimum(maximum(x, np.float32(-125.0)), np.float32(0.0))
    rounded = x + shift
    r = x - (rounded - shift)
    p = np.float32(0.00015461444854736328)
    p = p * r + np.float32(0.0013400427997112274)
    p = p * r + np.float32(0.009618056938052177)
    p = p * r + np.float32(0.05550327152013779)
    p = p * r + np.float32(0.24022650718688965)
    p = p * r + np.float32(0.6931471824645996)
    p = p * r + np.float32(1.0)
    bits = _as_integer32(p) + (_as_integer32(rounded) << np.int32(23))
    return _as_float32(np.int32(bits))
