"""Where the loss of a sample is least, by Newton's steps; and what keeps it from being found."""

from typing import Any, NamedTuple

import numpy as np

from tunefree.parts.families import Binomial, HuberT, Matching, Quantile
from tunefree.parts.links import LINKS, link_range
from tunefree.uncertainty import classes, quantiles
from tunefree.uncertainty.laws import Law, is_identity

_MOST_STEPS = 100
_CONVERGED = 1e-10  # the largest change of an index, relative to the largest index
LARGEST_INDEX = 30.0  # of classes: beyond it a probability is certain
_MOST_HALVINGS = 40  # of a step
_SUFFICIENT = 0.25  # the part of the promised fall
_ROUNDING = 1e-14  # of the first loss
_SMALL_STEP = 0.1  # in the index
_BLOCK = 4096  # rows of a block
_ALIASED = 1e-9  # the part of a column that other columns do not explain


class StandardColumns(NamedTuple):
    """Standardised columns that are not aliased, and ones for the intercept."""

    A: np.ndarray
    to_raw: np.ndarray  # from their coefficients to those of the columns
    kept: np.ndarray  # which columns, and the intercept, have a coefficient
    aliased: dict  # the names of the others, and the reasons


class Minimum(NamedTuple):
    """Where the loss is least; the first fields are those of `StandardColumns`."""

    A: np.ndarray
    to_raw: np.ndarray
    kept: np.ndarray
    aliased: dict
    beta: np.ndarray
    s: np.ndarray  # indices
    above: Any = None  # of a quantile the part of every row above the plane


def minimum(sample, near=None):
    """The `Minimum` of the loss; `near` is that of another loss of the same columns, if any."""
    columns = standard(sample) if near is None else StandardColumns(*near[:4])
    if sample.labels:
        return _minimum_of_classes(sample, columns)
    A = columns.A
    _check_rows(sample, A.shape[1])
    if isinstance(sample.law.family, Quantile):
        y = sample.y - sample.law.offset
        q = float(sample.law.family.q[0])
        beta, above = quantiles.plane(A, y, sample.weights, q)
        return Minimum(*columns, beta, A @ beta, above)
    start = None if near is None else near.beta
    beta, s, converged = _newton(A, sample, _curvature, start)
    if not converged and isinstance(sample.law.family, HuberT):
        beta, s, converged = _newton(A, sample, _majorant)
    _check_finite(sample, beta, s, columns.kept, converged)
    return Minimum(*columns, beta, s)


def _minimum_of_classes(sample, columns):
    """The `Minimum` over the parameters of classes."""
    y, family, m = sample.y, sample.law.family, sample.y.shape[1]
    A, to_raw, kept, aliased = columns
    codes = y.sum(axis=1) if family.tied else y.argmax(axis=1)
    absent = [label for c, label in enumerate(sample.labels) if not (codes == c).any()]
    if absent:
        raise ValueError(f"The class {absent[0]} has no rows: its coefficients are infinite.")
    share = sample.weights / sample.weights.sum()
    E = classes.parameters(family, A.shape[1], m)
    _check_rows(sample, E.shape[2])
    given = E, y, share, family, sample.intercept, sample.law.offset
    theta, s, converged = classes.most_likely(A, *given)
    own = A @ (E @ theta)  # without the offset, which separates nothing
    guessed = (own > 0.0).sum(axis=1) if family.tied else own.argmax(axis=1)
    separable = bool((guessed == codes).all())
    if separable or not converged or np.abs(own).max() > LARGEST_INDEX:
        B = E @ theta
        B = B if family.tied else B - B.mean(axis=1, keepdims=True)
        one = int(np.argmax(np.square(B).sum(axis=0)))
        refuse(sample, B[:, one], kept, separable, _separating_classes(sample))
    wide = E.reshape(-1, E.shape[2])
    to_raw = np.linalg.pinv(wide) @ np.kron(to_raw, np.eye(m)) @ wide
    if family.tied:
        kept = np.append(kept[:-1], np.ones(m, dtype=bool))
    return Minimum(A, to_raw, np.tile(kept, sample.n_blocks), aliased, theta, s)


def _check_rows(sample, k):
    """Refuse more coefficients than rows."""
    if k >= sample.n:
        raise ValueError(f"{k} coefficients are too many for {sample.n:.0f} rows: drop columns.")


def standard(sample):
    """The `StandardColumns` of a sample."""
    A, intercept, d = sample.X, sample.intercept, len(sample.names)
    share = sample.weights / sample.weights.sum()
    center = share @ A if intercept else np.zeros(d)
    A = A - center
    scale = np.sqrt(share @ np.square(A))
    constant = scale <= 1e-12 * np.maximum(np.abs(center), 1e-300)
    A /= np.where(constant, 1.0, scale)
    kept, aliased = independent(np.sqrt(share)[:, None] * A, constant, sample.names)
    A, scale = A[:, kept], scale[kept]
    to_raw = np.diag(np.append(1.0 / scale, 1.0) if intercept else 1.0 / scale)
    if intercept:
        A, kept = np.column_stack([A, np.ones(len(A))]), np.append(kept, True)
        to_raw[-1, :-1] = -center[kept[:-1]] / scale
    return StandardColumns(A, to_raw, kept, aliased)


def _triangle(A):
    """R of the QR decomposition of A, by blocks of rows that fit in the cache."""
    R: Any = np.zeros((0, A.shape[1]))
    for start in range(0, len(A), _BLOCK) if A.shape[1] else ():
        R = np.linalg.qr(np.concatenate([R, A[start : start + _BLOCK]]), mode="r")
    return R


def independent(A, constant, names):
    """Which columns do not depend on columns before them, and the names of the others."""
    R = _triangle(A)
    basis: Any = np.zeros((len(R), 0))
    kept, aliased = np.zeros(len(names), dtype=bool), {}
    for j, name in enumerate(names):
        rest = R[:, j]
        for _ in range(2):  # again, because of rounding
            rest = rest - basis @ (basis.T @ rest)
        size = np.linalg.norm(rest)
        if constant[j]:
            aliased[name] = "which is constant"
        elif size <= _ALIASED * np.linalg.norm(R[:, j]):
            weights = np.linalg.lstsq(R[:, :j][:, kept[:j]], R[:, j], rcond=None)[0]
            others = [names[i] for i in np.flatnonzero(kept)]
            aliased[name] = f"linear combination {_direction(weights, others)} (standardised)"
        else:
            kept[j], basis = True, np.column_stack([basis, rest / size])
    return kept, aliased


def _direction(weights, names, most=4):
    """A combination of standardised columns as text, the largest first."""
    order = np.argsort(-np.abs(weights), kind="stable")[:most]
    order = [j for j in order if abs(weights[j]) > 0.01 * np.abs(weights).max()]
    return " ".join(f"{weights[j]:+.2g} {names[j]}" for j in order)


def _newton(A, sample, curvature, start=None):
    """Parameters and indices where the weighted score vanishes, and whether they were found.

    Newton's steps, halved until the loss falls by a part of what its slope promises.
    """
    y, law, share = sample.y, sample.law, sample.weights / sample.weights.sum()
    beta, size = np.zeros(A.shape[1]) if start is None else start, np.inf
    if sample.intercept and start is None:
        beta[-1] = law.start(y, sample.weights)
    s = A @ beta
    # A step changes indices by at most 4 (logistic link), or 4 standard deviations.
    limit = 4.0 * max(1.0, float(np.std(y))) if is_identity(law.link) else 4.0
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        # A matching loss is convex, and has no value here: its steps are taken as they are.
        has_loss = not isinstance(law.family, Matching)
        loss = law.loss(s, y, share)
        rounding = _ROUNDING * loss if has_loss else np.inf
        for _ in range(_MOST_STEPS):
            slope = A.T @ (share * law.score(s, y))
            step = _newton_step(A, share, slope, [curvature(law, s, y, size), law.information(s)])
            if step is None:
                return beta, s, False
            change = A @ step
            size = float(np.abs(change).max(initial=0.0))
            part = min(1.0, limit / max(size, 1e-300))
            for _ in range(_MOST_HALVINGS):
                lower = law.loss(s - part * change, y, share)
                if lower <= loss - _SUFFICIENT * part * (slope @ step) + rounding:
                    break
                part *= 0.5
            beta, loss = beta - part * step, lower
            s = A @ beta
            if size <= _CONVERGED * max(1.0, float(np.abs(s).max())) or not np.isfinite(size):
                break
    return beta, s, size <= 1e-6 * max(1.0, float(np.abs(s).max()))


def _newton_step(A, share, slope, curvatures):
    """The step by the first curvature along which the loss falls; None if there is none."""
    for curvature in curvatures:
        try:
            step = np.linalg.solve(A.T @ ((share * curvature)[:, None] * A), slope)
        except np.linalg.LinAlgError:
            continue
        if slope @ step >= 0.0:
            return step
    return None


def _curvature(law, s, y, size):
    """The curvature of Newton's step after a step of a size.

    Where the loss is not convex it is Fisher's information, until steps are small.
    """
    slope = law.slope(s, y)
    if (slope < 0.0).any():
        return slope if size < _SMALL_STEP else law.information(s)
    return np.maximum(slope, 1e-3 * np.maximum(slope.max(), 1e-300))


def _majorant(law, s, y, size):
    """Huber's weights, with which no step raises the loss; the slope once steps are small."""
    score, error = law.score(s, y), law.mean(s) - y
    limit = float(np.abs(score).max())
    if size < _SMALL_STEP * limit or not is_identity(law.link):
        return _curvature(law, s, y, size)
    return np.divide(score, error, out=np.ones_like(s), where=error != 0.0)


def _check_finite(sample, beta, s, kept, converged):
    """Refuse coefficients that grow without end, and name the columns."""
    y, law = sample.y, sample.law
    bounded = np.isfinite(link_range(law.link)).all()
    are_classes = bounded and set(np.unique(y).tolist()) == {0.0, 1.0}
    are_right = np.isfinite(s).all() and ((s > 0.0) == (y == 1.0)).all()
    separable = are_classes and bool(are_right)
    is_certain = are_classes and np.abs(s).max() > LARGEST_INDEX
    if separable or is_certain or not converged:
        refuse(sample, beta, kept, separable, _separating(sample))


def refuse(sample, beta, kept, separable, alone):
    """Raise an error with the direction along which coefficients grow."""
    names = [name for name, own in zip(sample.names, kept, strict=False) if own]
    normal = np.nan_to_num(beta[: len(names)])
    direction = _direction(normal / max(np.linalg.norm(normal), 1e-300), names)
    if separable:
        raise ValueError(
            "The classes are separable, and no coefficient is finite: the standardised columns "
            f"{direction} separate them without a mistake{alone}."
        )
    are_classes = sample.labels or np.isfinite(link_range(sample.law.link)).all()
    way_out = (
        "OptimisticPerceptron proves whether classes are separable."
        if are_classes
        else "Drop columns, or give more rows."
    )
    raise ValueError(
        "The minimum of the loss lies at infinity or was not found: coefficients grow along "
        f"the standardised columns {direction}{alone}. {way_out}"
    )


def _separating(sample):
    """The columns and levels that separate the targets alone, as text."""
    ends = link_range(sample.law.link)
    at_ends, found = np.isfinite(ends[1]) and np.isin(sample.y, ends).all(), []
    for name, x in zip(sample.names, sample.X.T, strict=True):
        if len(np.unique(x)) == 2:
            found += _separating_levels(name, x, sample.y, ends)
        elif at_ends:
            zeros, ones = (x[sample.y == end] for end in ends)
            if min(zeros.max(), ones.max()) <= max(zeros.min(), ones.min()):
                found.append(f"; {name} separates the classes by itself")
    return "".join(found[:3])


def _separating_levels(name, x, y, ends):
    """The values of a column whose rows all have the same target, an end of its range."""
    found = []
    for value in np.unique(x):
        targets = np.unique(y[x == value])
        if len(targets) == 1 and targets[0] in ends:
            found.append(f"; every row with {name} = {value:g} has y = {targets[0]:g}")
    return found


def _separating_classes(sample):
    """`_separating` for each class against the others, or of thresholds."""
    law = Law(Binomial(), LINKS["logit"])
    outputs = sample.labels[1:] if sample.law.family.tied else sample.labels
    kind = "class {} or above" if sample.law.family.tied else "class {}"
    for label, y in zip(outputs, sample.y.T, strict=True):
        text = _separating(sample._replace(y=y, law=law))
        if text:
            return f"; with y = 1 for {kind.format(label)}, else 0{text.replace(';', ':', 1)}"
    return ""
