r"""A bound on the support rows of kernel learners on a stream.

`limit_support` bounds the support rows of learners on a stream. If the next block might exceed the
bound, two vectors of every member, the sum g of its gradients and the one of its average, are
projected onto half as many support rows. Rows that repeat, or that others nearly span, are dropped
first, at nearly no loss. The state's |g|^2 becomes that of the projection; the sums of sizes of
gradients, which set the scale of the predictor, stay. The regret guarantees of the unbounded
learner do not cover the projections. Nothing is drawn at random.

Source: the bound is ours, in the spirit of the Projectron (Orabona, Keshet and Caputo, "Bounded
kernel-based online learning", JMLR 2009), which projects single rows; the projection is that of
`tunefree.kernels.compression`.
"""

import numpy as np

from tunefree.kernels.compression import RIDGE, choose
from tunefree.kernels.expansion import Expansion
from tunefree.pistol.rules import SQUARED_NORM

# With more rows than this, groups of so many are projected one after the other, to limit memory.
GROUP = 4096


def limit_support(engine, n_rows, max_support):
    """Contract an engine on a stream if a block of rows might exceed the bound.

    A block may have at most ``max_support - max_support // 2`` rows.
    """
    if engine.n_slots + n_rows > max_support:
        contract(engine, max_support // 2)


def contract(engine, n_kept):
    """Project all members onto `n_kept` of their support rows, or fewer."""
    n, rows = engine.n_slots, engine.support.rows
    if n <= n_kept:
        return
    n_groups = -(-n // GROUP)
    cuts = np.arange(n_groups + 1) * n_kept // n_groups
    kept, tables = [], []
    for group in range(n_groups):
        at = np.arange(group, n, n_groups)
        chosen, coefs = _project(engine, rows[at], at, cuts[group + 1] - cuts[group])
        kept.append(at[chosen])
        tables.append(coefs)
    kept = np.concatenate(kept)
    order = np.argsort(kept)
    tables = [np.concatenate(parts)[order] for parts in zip(*tables, strict=True)]
    engine.rebuild(rows[kept[order]], tables)
    for member, state in zip(engine.members, engine.states, strict=True):
        z = state.z[: engine.n_slots]
        g = Expansion((_kernel(engine, member.gamma),), engine.support.rows, (z,))
        state.scalars[:, SQUARED_NORM] = np.maximum(0.0, np.sum(z * g(engine.support.rows), axis=0))


def _project(engine, rows, at, count):
    """The rows of a group that are kept, and each member's coefficients [z, u] for them."""
    rows, layout = rows.astype(np.float64), engine.layout()
    grams = [_kernel(engine, gamma).gram(rows, rows) for gamma in engine.gammas]

    def unit_functions(K, members):
        """Values of the members' last iterates and averages, each divided by its norm."""
        out = []
        for i in members:
            for coef in (engine.mean(i)[at], engine.last(i)[at]):
                values = K @ coef
                out.append(values / max(np.sqrt(np.sum(coef * values)), 1e-300))
        return np.hstack(out)

    functions = [unit_functions(*pair) for pair in zip(grams, layout, strict=True)]
    projection = choose(grams, functions, count, RIDGE[engine.dtype.char])
    chosen = projection.indices

    def values_there(K, members):
        """Values of the members' z and u on the rows that are kept."""
        states = [engine.states[i] for i in members]
        return np.hstack([K[chosen] @ np.hstack([s.z[at], s.u[at]]) for s in states])

    projected: dict = {}
    values = [values_there(*pair) for pair in zip(grams, layout, strict=True)]
    for members, coefs in zip(layout, projection.project(values), strict=True):
        projected |= zip(members, np.hsplit(coefs, len(members)), strict=True)
    return chosen, [projected[i] for i in range(len(engine.members))]


def _kernel(engine, gamma):
    return engine.kernel if gamma is None else engine.kernel._replace(gamma=gamma)
