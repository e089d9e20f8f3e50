r"""Intervals for coefficients: of the M-estimand of a loss, with the sandwich HC3.

Learned coefficients have no valid standard error: learning stops early, averages and shrinks. So
the centre of the intervals is the unpenalised minimum of the loss, by Newton's steps. With the
score r_i (half the slope of the deviance in the index s_i) and its slope h_i,

.. math:: V = A^{-1} \Bigl(\sum_i \frac{r_i^2}{(1 - l_i)^2} x_i x_i^\top\Bigr) A^{-1}, \qquad
    A = \sum_i h_i x_i x_i^\top,\quad l_i = h_i x_i^\top A^{-1} x_i,

with quantiles of Student's t with n - d degrees of freedom. The intervals are for the best linear
predictor of the loss, whether or not the model is linear. Errors need not be normal or of equal
variance: rows must be independent, and many more than columns.

Source: Huber 1967; White 1980; MacKinnon and White 1985 (HC3).
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t as student

from tunefree._array import as_dense
from tunefree.families import Matching

_MOST_STEPS, _CONVERGED, _LARGEST_INDEX, _MOST_CELLS = 100, 1e-10, 30.0, 2e8
_ROWS_PER_COLUMN = 3  # at least


class Summary(NamedTuple):
    """The usual table of coefficients: `print` shows it, `to_frame` converts it to pandas.

    Attributes
    ----------
    names : list of str
    coef, standard_error, statistic, p_value, low, high : ndarray of shape (n_rows,)
    alpha : float
        The intervals from low to high hold the estimand in 1 - alpha of samples.
    note : str
        What is estimated, and by which method.
    """

    names: list
    coef: np.ndarray
    standard_error: np.ndarray
    statistic: np.ndarray
    p_value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    alpha: float
    note: str

    def columns(self):
        """The columns of the table, by their headings."""
        limits = f"[{0.5 * self.alpha:g}", f"{1.0 - 0.5 * self.alpha:g}]"
        return {
            "coef": self.coef,
            "std err": self.standard_error,
            "t": self.statistic,
            "P>|t|": self.p_value,
            limits[0]: self.low,
            limits[1]: self.high,
        }

    def to_frame(self) -> Any:
        """The table as a pandas DataFrame, one row a coefficient."""
        import pandas as pd

        return pd.DataFrame(self.columns(), index=self.names)

    def __repr__(self):
        table = self.columns()
        body = [
            [name, *(f"{v[i]:.4g}" for v in table.values())] for i, name in enumerate(self.names)
        ]
        rows = [["", *table], *body]
        widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
        lines = []
        for name, *cells in rows:
            right = [c.rjust(w) for c, w in zip(cells, widths[1:], strict=True)]
            lines.append("  ".join([name.ljust(widths[0]), *right]))
        return "\n".join([*lines, "", self.note])

    __str__ = __repr__


class Law(NamedTuple):
    r"""The law of one output: E[y | x] = exposure * u(s + offset) at the index s = <beta, x> + b.

    `score` and `slope` are of targets per unit of exposure; a row counts as much as its exposure.
    """

    family: Any
    link: Any
    exposure: Any = None  # shape (n,)
    offset: Any = None  # shape (n,)

    def only(self, rows):
        """The law of some of the rows."""
        exposure, offset = (None if a is None else a[rows] for a in self[2:])
        return self._replace(exposure=exposure, offset=offset)

    def score(self, s, y):
        """Half the slope of the deviance in the index, shape (n,)."""
        s = s if self.offset is None else s + self.offset
        if isinstance(self.family, Matching):
            score = np.asarray(self.link.mean(s)) - y
        else:
            score = self.family.score(self.link, s, self.family.clipped(self.link.mean(s)), y)
        return score if self.exposure is None else self.exposure * score

    def slope(self, s, y):
        """The slope of the score in the index, by a central difference."""
        step = 1e-5 * np.maximum(1.0, np.abs(s)) * max(float(np.std(s)), 1e-3)
        return (self.score(s + step, y) - self.score(s - step, y)) / (2.0 * step)

    def start(self, y, weights):
        """The first intercept: near the best constant, or 0 where the link has no inverse."""
        mean = np.average(y, weights=weights if self.exposure is None else weights * self.exposure)
        low, high = getattr(self.link, "range", (-np.inf, np.inf))
        if not (low < mean < high and hasattr(self.link, "inverse")):
            return 0.0
        index = float(np.asarray(self.link.inverse(np.array([mean])))[0])
        return index if self.offset is None else index - np.average(self.offset, weights=weights)


def inferred(X, y, weights, law, intercept, names):
    """Coefficients, the last of which is the intercept, and their covariance, of one output.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, d)
    y : ndarray of shape (n,)
        Targets per unit of exposure.
    weights : ndarray of shape (n,)
        Whole ones are repetitions, others sampling weights.
    law : Law
    intercept : bool
    names : list of str
        Of the columns.

    Returns
    -------
    coef : ndarray of shape (d + intercept,)
    covariance : ndarray of shape (d + intercept, d + intercept)
    n : float
        Rows.

    Raises
    ------
    ValueError
        Where the covariance would not be valid; the message has the reason.

    Examples
    --------
    >>> from tunefree.families import Gaussian
    >>> from tunefree.links import Identity
    >>> x, rng = np.linspace(-1, 1, 50)[:, None], np.random.default_rng(0)
    >>> y = 2.0 * x[:, 0] + rng.normal(size=50)
    >>> coef, V, n = inferred(x, y, np.ones(50), Law(Gaussian(), Identity()), True, ["x"])
    >>> bool(abs(coef[0] - 2.0) < 3 * np.sqrt(V[0, 0]))
    True
    """
    positive = weights > 0.0
    X, y, weights, law = X[positive], y[positive], weights[positive], law.only(positive)
    whole = bool((weights == np.round(weights)).all())
    n, d = float(weights.sum()) if whole else float(len(y)), X.shape[1]
    if _ROWS_PER_COLUMN * (d + intercept) >= n:
        raise ValueError(
            f"{d} columns are too many for {n:.0f} rows: intervals of coefficients need more than "
            f"{_ROWS_PER_COLUMN} rows a column. Drop columns first, chosen on other rows."
        )
    if len(y) * d > _MOST_CELLS:
        raise ValueError(f"{len(y)} rows of {d} columns are too many: give a sample of the rows.")
    A, center, scale = _standard(X, weights, intercept, names)
    beta, s = _newton(A, y, weights, law, names)
    score, slope = law.score(s, y), law.slope(s, y)
    bread = np.linalg.inv(A.T @ ((weights * slope)[:, None] * A))
    leverage = slope * np.einsum("ij,jk,ik->i", A, bread, A) * (1.0 if whole else weights)
    size = score / np.maximum(1.0 - leverage, 1e-8)
    heavy = weights if whole else np.square(weights)
    meat = A.T @ ((heavy * np.square(size))[:, None] * A)
    # Back to the units of the columns: coefficients over their scales, and the intercept.
    to_raw = np.diag(1.0 / scale)
    if intercept:
        to_raw[-1, :d] = -center / scale[:d]
    return to_raw @ beta, to_raw @ bread @ meat @ bread @ to_raw.T, n


def _standard(X, weights, intercept, names):
    """Standardised columns, and ones for the intercept; refuse dependent columns."""
    A = np.array(as_dense(X))
    A = A.astype(np.float64)
    share = weights / weights.sum()
    center = share @ A if intercept else np.zeros(A.shape[1])
    A -= center
    scale = np.sqrt(share @ np.square(A))
    constant = scale <= 1e-12 * np.maximum(np.abs(center), 1e-300)
    if constant.any():
        raise ValueError(f"Column {names[int(np.argmax(constant))]} is constant: drop it.")
    A /= scale
    values, vectors = np.linalg.eigh(A.T @ (share[:, None] * A))
    if values[0] <= 1e-10 * values[-1]:
        combination = _direction(vectors[:, 0], names)
        raise ValueError(
            f"Columns are linear combinations of each other ({combination} is constant): drop some."
        )
    if intercept:
        A, scale = np.column_stack([A, np.ones(len(A))]), np.append(scale, 1.0)
    return A, center, scale


def _direction(weights, names, most=4):
    """A combination of standardised columns as text, the largest first."""
    order = np.argsort(-np.abs(weights), kind="stable")[:most]
    order = [j for j in order if abs(weights[j]) > 0.01 * np.abs(weights).max()]
    return " ".join(f"{weights[j]:+.2g} {names[j]}" for j in order)


def _newton(A, y, weights, law, names):
    """Parameters of standardised columns, and the indices, where the weighted score vanishes."""
    beta, share = np.zeros(A.shape[1]), weights / weights.sum()
    if (A[:, -1] == 1.0).all():  # the intercept
        beta[-1] = law.start(y, weights)
    s, size = A @ beta, np.inf
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for _ in range(_MOST_STEPS):
            slope, score = law.slope(s, y), share * law.score(s, y)
            curvature = np.maximum(slope, 1e-3 * np.maximum(slope.max(), 1e-300))
            step = np.linalg.solve(A.T @ ((share * curvature)[:, None] * A), A.T @ score)
            size = float(np.abs(A @ step).max())
            # A step changes indices by at most 4 (logistic link), or 4 standard deviations.
            limit = 4.0 * max(1.0, float(np.std(y))) if _is_real(law.link) else 4.0
            beta = beta - step * min(1.0, limit / max(size, 1e-300))
            s = A @ beta
            if size <= _CONVERGED * max(1.0, float(np.abs(s).max())) or not np.isfinite(size):
                break
    bounded = np.isfinite(getattr(law.link, "range", (-np.inf, np.inf))).all()
    classes = bounded and set(np.unique(y).tolist()) == {0.0, 1.0}
    if classes and np.isfinite(s).all():
        correct = (s > 0.0) == (y == 1.0)
        if correct.all():
            normal = beta[: len(names)] / np.linalg.norm(beta[: len(names)])
            raise ValueError(
                "The classes are separable, and no coefficient is finite: the standardised columns "
                f"{_direction(normal, names)} separate them without a mistake."
            )
    converged = size <= 1e-6 * max(1.0, float(np.abs(s).max()))
    if not converged or (classes and float(np.abs(s).max()) > _LARGEST_INDEX):
        direction = _direction(
            beta[: len(names)] / max(np.linalg.norm(beta[: len(names)]), 1e-300), names
        )
        raise ValueError(
            "The minimum of the loss lies at infinity or was not found: coefficients grow along "
            f"the standardised columns {direction}. OptimisticPerceptron proves whether classes "
            "are separable."
        )
    return beta, s


def _is_real(link):
    """Whether the link is the identity."""
    probe = np.array([0.0, 1.0, 5.0])
    return bool(np.allclose(link.mean(probe), probe))


def table(coef, covariance, n, names, alpha, note):
    """The `Summary` of the results of `inferred`."""
    error, degrees = np.sqrt(np.diag(covariance)), n - len(coef)
    reach = student.ppf(1.0 - 0.5 * alpha, degrees) * error
    t = np.divide(coef, error, out=np.full(len(coef), np.inf), where=error > 0.0)
    p_value, limits = 2.0 * student.sf(np.abs(t), degrees), (coef - reach, coef + reach)
    return Summary(names, coef, error, t, p_value, *limits, alpha, note)
