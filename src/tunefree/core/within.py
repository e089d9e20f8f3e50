"""Functions compiled into the kernels that call them, without machine code of their own.

This uses internals of Numba; `tunefree.core.jit` uses it only for versions that it was tested with.
"""

from importlib import import_module
from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import LoweringPass, register_pass
from numba.core.typed_passes import NativeLowering

_dynfunc: Any = import_module("numba._dynfunc")


class _Plain(JITCodeLibrary):
    """Code that is not linked nor optimised: the calling kernel does it with its own."""

    def _optimize_functions(self, ll_module):
        ll_module.data_layout = self._codegen._data_layout

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


class Within(CompilerBase):
    """Compile a function into the kernels that call it.

    By default, Numba optimises a function and writes its machine code again for each caller, and
    for the callers of these. All of it except the kernel that Python calls is discarded.
    """

    def define_pipelines(self):
        """Numba's passes, without the entry that Python calls."""
        state = self.state
        state.flags.no_compile = True
        state.library = _Plain(state.targetctx.codegen(), state.func_id.func_qualname)
        passes = DefaultPassBuilder.define_nopython_pipeline(state)
        passes.add_pass_after(_NoEntry, NativeLowering)
        passes.finalize()
        return [passes]
