"""Compilers of kernels, and of the functions in them, which get no machine code of their own.

They do less than Numba's compiler, whose work takes most of a first fit: syntax that this package
does not use is not looked for, and functions are optimised once.

This uses internals of Numba; `tunefree.core.jit` uses it only for versions that it was tested with.
"""

from copy import copy
from importlib import import_module
from types import CodeType
from typing import Any

from llvmlite import binding
from numba.core import config
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import LoweringPass, register_pass
from numba.core.cpu import CPUContext
from numba.core.typed_passes import NativeLowering

_dynfunc: Any = import_module("numba._dynfunc")
_config: Any = config
# The level of optimisation of kernels whose loops are not unrolled.
_LEVEL = min(2, int(_config.OPT))
# Passes for syntax that kernels of this package do not have: closures and comprehensions, `with`,
# numbers in messages of errors, `literally`, `literal_unroll` and functions that Numba inlines.
_OF_OTHER_SYNTAX = {
    "WithLifting",
    "InlineClosureLikes",
    "RewriteDynamicRaises",
    "MakeFunctionToJitFunction",
    "InlineInlinables",
    "FindLiterallyCalls",
    "LiteralUnroll",
}
# How the name of the function that Python calls begins.
_ENTRY = "_ZN7cpython"
# Passes for arithmetic of whole arrays, whose results are new arrays.
_OF_NEW_ARRAYS = {"NopythonRewrites"}


class _Target(CPUContext):
    """Numba's context of machine code."""

    def get_function(self, fn, sig, _firstcall=True):
        """The code of a function, looked for once for ``__array__``, which no array has.

        Numba asks for it at each access of an array, and would look for new declarations each time.
        """
        return super().get_function(fn, sig, _firstcall and fn != "__array__")


class _Rolled(JITCPUCodegen):
    """Numba's compiler of machine code, for kernels whose loops are not unrolled.

    At level 2 it takes a fifth less time than at 3, and boosted trees, streams and kernels are as
    fast (by hand).
    """

    def _pass_builder(self, opt=None, loop_vectorize=True, slp_vectorize=False):
        options = binding.create_pipeline_tuning_options()
        options.speed_level = _LEVEL if opt is None else opt
        options.loop_vectorization, options.slp_vectorization = loop_vectorize, slp_vectorize
        options.loop_unrolling = False
        return binding.create_pass_builder(self._tm, options)


class _Kernel(JITCodeLibrary):
    """Code of a kernel and of its functions, which are optimised together only."""

    def _optimize_functions(self, ll_module):
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self):
        """Optimise all but the entry, which only takes apart what Python hands over."""
        for function in self._final_module.functions:
            if function.name.startswith(_ENTRY) and not function.is_declaration:
                function.add_function_attribute("noinline")
                function.add_function_attribute("optnone")
        super()._optimize_final_module()


class _Plain(_Kernel):
    """Code that is not linked nor optimised: the calling kernel does it with its own."""

    def finalize(self):
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _NoEntry(LoweringPass):
    """Register a function without an address."""

    _name = "no_entry"

    def __init__(self):
        super().__init__()

    def run_pass(self, state):
        result = state["cr"]
        descriptor = result.fndesc
        entry = _dynfunc.make_function(
            descriptor.lookup_module(), descriptor.qualname, "", 0, result.env, (state.library,)
        )
        libraries = dict.fromkeys([state.library, *state.library._linking_libraries])
        state.targetctx.insert_user_function(entry, descriptor, list(libraries))
        state["cr"] = result._replace(cfunc=entry)
        return True


class WholeKernel(CompilerBase):
    """Compile a kernel that Python calls."""

    _library: Any = _Kernel
    _unrolls = True

    def define_pipelines(self):
        """Numba's passes, but those for what the function does not have."""
        state = self.state
        state.targetctx.__class__ = _Target  # a copy of Numba's
        codegen = state.targetctx.codegen()
        if not self._unrolls:
            codegen = copy(codegen)
            codegen.__class__ = _Rolled
        state.library = self._library(codegen, state.func_id.func_qualname)
        passes = DefaultPassBuilder.define_nopython_pipeline(state)
        unneeded = set()
        function = state.func_id
        nested = any(isinstance(constant, CodeType) for constant in function.code.co_consts)
        if function.modname.startswith("tunefree.") and not nested:
            unneeded |= _OF_OTHER_SYNTAX
        if not state.flags.nrt:
            unneeded |= _OF_NEW_ARRAYS
        passes.passes = [each for each in passes.passes if each[0].__name__ not in unneeded]
        self._complete(passes)
        passes.finalize()
        return [passes]

    def _complete(self, passes):
        self.state.library.enable_object_caching()


class RolledKernel(WholeKernel):
    """Compile a kernel whose loops are not unrolled, which takes less time."""

    _unrolls = False


class Within(WholeKernel):
    """Compile a function into the kernels that call it.

    By default, Numba optimises a function and writes its machine code again for each caller, and
    for the callers of these. All of it except the kernel that Python calls is discarded.
    """

    _library = _Plain

    def _complete(self, passes):
        """Without the entry that Python calls."""
        self.state.flags.no_compile = True
        passes.add_pass_after(_NoEntry, NativeLowering)
