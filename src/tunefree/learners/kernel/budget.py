"""A bound on the support rows of learners on a stream.

When the next block might exceed the bound, every member's two vectors of the feature space, the sum
g of its gradients and the one that makes up its average, are projected orthogonally onto half as
many support rows. These are chosen (`learners.landmarks`) for what they explain of g and of the
average, so rows that repeat, or that others nearly span, go first, at nearly no loss. The state's
|g|^2 becomes that of the projection; the sums of sizes of gradients, which set the scale of the
predictor, stay. The rule looks at rows and coefficients only: nothing is drawn at random.

The regret guarantees of the unbounded learner do not cover the projections.

Source: ours; in the spirit of the Projectron (Orabona, Keshet and Caputo, "Bounded kernel-based
online learning", JMLR 2009), which projects single rows.
"""

import numpy as np

from tunefree.learners.kernel.expansion import Expansion
from tunefree.learners.kernel.landmarks import RIDGE, choose
from tunefree.learners.pistol.rules import SQUARED_NORM

# Kernel values of this many rows are held at a time; more rows are projected in several groups.
GROUP = 4096


def check_budget(max_support):
    """Refuse a bound that leaves nothing to learn with.

    Raises
    ------
    ValueError
        For anything but None or a whole number from 2 on.

    Examples
    --------
    >>> check_budget(500)
    """
    whole = isinstance(max_support, int | np.integer) and not isinstance(max_support, bool)
    if max_support is not None and (not whole or max_support < 2):
        raise ValueError(
            f"max_support={max_support!r}: a budget is None or a whole number from 2 on."
        )


def make_room(engine, n_rows, max_support):
    """Contract an engine if a block of rows might exceed the bound.

    Parameters
    ----------
    engine : Blocked
        On a stream, without a cache.
    n_rows : int
        How many rows come; at most ``max_support - max_support // 2`` at a time.
    max_support : int
    """
    if engine.n_slots + n_rows > max_support:
        contract(engine, max_support // 2)


def contract(engine, n_kept):
    """Project all members onto `n_kept` of their support rows, or fewer.

    Parameters
    ----------
    engine : Blocked
    n_kept : int
    """
    n, rows = engine.n_slots, engine.support.rows
    if n <= n_kept:
        return
    n_groups = -(-n // GROUP)
    share = np.arange(n_groups + 1) * n_kept // n_groups
    kept, tables = [], []
    for group in range(n_groups):
        at = np.arange(group, n, n_groups)
        chosen, coefs = _project(engine, rows[at], at, share[group + 1] - share[group])
        kept.append(at[chosen])
        tables.append(coefs)
    kept, tables = (
        np.concatenate(kept),
        [np.concatenate(parts) for parts in zip(*tables, strict=True)],
    )
    order = np.argsort(kept)
    engine.rebuild(rows[kept[order]], [t[order] for t in tables])
    for member, state in zip(engine.members, engine.states, strict=True):
        z = state.z[: engine.n_slots]
        g = Expansion((_kernel(engine, member.gamma),), engine.support.rows, (z,))
        state.scalars[:, SQUARED_NORM] = np.maximum(0.0, np.sum(z * g(engine.support.rows), axis=0))


def _project(engine, rows, at, count):
    """Which rows of a group stay, and the coefficients [z, u] of each member on them."""
    rows = rows.astype(np.float64)
    grams = [_kernel(engine, gamma).gram(rows, rows) for gamma in engine.gammas]
    level = [engine.gammas.index(m.gamma) for m in engine.members]
    functions = [[] for _ in grams]
    for i, g in enumerate(level):
        for coef in (engine.mean(i)[at], engine.last(i)[at]):
            values = grams[g] @ coef
            functions[g].append(values / max(np.sqrt(np.sum(coef * values)), 1e-300))
    found = choose(grams, [np.hstack(f) for f in functions], count, RIDGE[engine.dtype.char])
    tables = [np.hstack([s.z[at], s.u[at]]) for s in engine.states]
    values = [
        np.hstack([K[found.indices] @ t for t, i in zip(tables, level, strict=True) if i == g])
        for g, K in enumerate(grams)
    ]
    width, taken, out = tables[0].shape[1], [0] * len(grams), []
    projected = found.project(values)
    for g in level:
        out.append(projected[g][:, taken[g] : taken[g] + width])
        taken[g] += width
    return found.indices, out


def _kernel(engine, gamma):
    return engine.kernel if gamma is None else engine.kernel._replace(gamma=gamma)
