"""Functions compiled into the kernels that call them, once, without machine code of their own.

It goes by inner parts of Numba; `tunefree._jit` uses it for the versions that it was tried with.
"""

from importlib import import_module
from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import LoweringPass, register_pass
from numba.core.typed_passes import NativeLowering

_dynfunc: Any = import_module("numba._dynfunc")


class _Plain(JITCodeLibrary):
    """Code as it was written down: whoever takes it in optimises it with its own."""

    def _optimize_functions(self, ll_module):
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self):
        pass

    def _finalize_final_module(self):
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _NoEntry(LoweringPass):
    """Register a function that has no address of its own."""

    _name = "no_entry"

    def __init__(self):
        super().__init__()

    def run_pass(self, state):
        found = state["cr"]
        of = found.fndesc
        entry = _dynfunc.make_function(
            of.lookup_module(), of.qualname, "", 0, found.env, (state.library,)
        )
        state.targetctx.insert_user_function(entry, of, [state.library])
        state["cr"] = found._replace(cfunc=entry)
        return True


class Within(CompilerBase):
    """Compile a function into the kernels that call it.

    Numba optimises a function and writes machine code of it for each of its callers, and those of
    these, again and again; all of it but the kernel that Python calls is thrown away.
    """

    def define_pipelines(self):
        state = self.state
        state.flags.no_compile = True
        state.library = _Plain(state.targetctx.codegen(), state.func_id.func_qualname)
        passes = DefaultPassBuilder.define_nopython_pipeline(state)
        passes.add_pass_after(_NoEntry, NativeLowering)
        passes.finalize()
        return [passes]
