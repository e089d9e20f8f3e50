r"""What single rows do to a generalized linear model: leverage, Cook's distance, changes.

At the minimum of the loss without a penalty, with a row's weight h_i in the curvature A of the loss
(or in Fisher's information), its Pearson residual r_i and the dispersion phi,

.. math:: l_i = h_i x_i^\top A^{-1} x_i, \qquad
    t_i = \frac{r_i}{\sqrt{\phi (1 - l_i)}}, \qquad D_i = \frac{t_i^2}{k} \frac{l_i}{1 - l_i}

are leverage, studentized residual and Cook's distance for k coefficients; leverages add up to k.
The change of the coefficients without a row is that of one of Newton's steps.

Of several classes a row has an index an output, a slope r_i and a curvature H_i of its loss in
these, and a matrix in place of the leverage (see `tunefree.uncertainty.classes`):

.. math:: l_i = \operatorname{tr} H_i Q_i,\quad Q_i = Z_i A^{-1} Z_i^\top, \qquad
    \tilde r_i = (I - H_i Q_i)^{-1} r_i, \qquad t_i^2 = r_i^\top H_i^{-} \tilde r_i, \qquad
    D_i = \frac{1}{k} \tilde r_i^\top Q_i \tilde r_i

with Fisher's information in t. For two classes these are the numbers above; t has no sign.

Source: Cook 1977; Pregibon 1981 (one step); Belsley, Kuh and Welsch 1980 (dfbetas, dffits);
Lesaffre and Albert 1989, "Multiple-group logistic regression diagnostics" (classes).
"""

from typing import Any, NamedTuple

import numpy as np

from tunefree.core.format import aligned
from tunefree.uncertainty import class_rows, classes
from tunefree.uncertainty.residuals import FittedRows

_WHOLE_LEVERAGE = 1e-10  # from 1: nothing is known of the row's error


class Influence(NamedTuple):
    """What every row does to the coefficients: `print` shows the rows of the largest influence.

    Attributes
    ----------
    names : list of str
        Of the coefficients.
    leverage : ndarray of shape (n_samples,)
        The diagonal of the hat matrix; of several classes the trace of the row's block. It adds up
        to the number of coefficients.
    resid_studentized : ndarray of shape (n_samples,)
        Pearson's residual over its standard deviation. Of several classes its size, over all.
    cooks_distance : ndarray of shape (n_samples,)
        How far all coefficients move without the row, in their standard errors.
    dffits : ndarray of shape (n_samples,)
        How far the row's prediction moves without it. Of several classes without a sign.
    dfbetas : ndarray of shape (n_samples, n_coefs)
        How far each coefficient moves without the row, in its standard errors; NaN for one that is
        aliased.

    Rows of weight 0 have NaN. So have rows of leverage 1, apart from their leverage: the model
    passes through them whatever they are.
    """

    names: list
    leverage: np.ndarray
    resid_studentized: np.ndarray
    cooks_distance: np.ndarray
    dffits: np.ndarray
    dfbetas: np.ndarray

    def columns(self) -> dict[str, np.ndarray]:
        """The columns of the table, by the headings of statsmodels."""
        changes = {f"dfb_{name}": self.dfbetas[:, j] for j, name in enumerate(self.names)}
        return {
            **changes,
            "cooks_d": self.cooks_distance,
            "standard_resid": self.resid_studentized,
            "hat_diag": self.leverage,
            "dffits_internal": self.dffits,
        }

    def to_frame(self) -> Any:
        """The table as a pandas DataFrame, one row a row of the data."""
        import pandas as pd

        return pd.DataFrame(self.columns())

    def largest(self, most: int = 10) -> np.ndarray:
        """The rows of the largest Cook's distances, the largest first."""
        distance = np.nan_to_num(self.cooks_distance, nan=-1.0)
        return np.argsort(-distance, kind="stable")[:most]

    def among(self, is_used: np.ndarray) -> "Influence":
        """The table of all rows, of which only some were used."""

        def spread(values):
            wide = np.full((len(is_used), *values.shape[1:]), np.nan)
            wide[is_used] = values
            return wide

        return Influence(self.names, *map(spread, self[1:]))

    def __repr__(self):
        columns = {name: c for name, c in self.columns().items() if not name.startswith("dfb_")}
        rows = self.largest()
        body = [[f"row {i}", *(f"{c[i]:.4g}" for c in columns.values())] for i in rows.tolist()]
        note = f"{len(rows)} of {len(self.leverage)} rows, those of the largest Cook's distance."
        return "\n".join([*aligned([["", *columns], *body]), "", note])


def influence_of(fit: Any, observed: bool = True) -> Influence:
    """The `Influence` of the rows of a `CoefficientFit`.

    Parameters
    ----------
    fit : CoefficientFit
        Of rows, one target, and a family with a variance.
    observed : bool, default=True
        By the curvature of the loss, as in statsmodels; else by Fisher's information, as in R.
    """
    if fit.sample.labels:
        return _influence_of_classes(fit, observed)
    sample, found = fit.sample, fit.minimum
    law, A = sample.law, found.A
    counts = sample.weights if sample.are_frequencies else 1.0
    precision = 1.0 if sample.are_frequencies else sample.weights
    information = precision * law.information(found.s)
    weight = precision * law.slope(found.s, sample.y) if observed else information
    inverse = np.linalg.inv(A.T @ ((counts * weight)[:, None] * A))
    expected = np.linalg.inv(A.T @ ((counts * information)[:, None] * A))
    leverage = weight * ((A @ inverse) * A).sum(axis=1)
    left = np.where(leverage < 1.0 - _WHOLE_LEVERAGE, 1.0 - leverage, np.nan)
    scale, k = fit.statistics.scale, A.shape[1]
    rows = FittedRows(
        law.family, law.link, sample.y, law.mean(found.s), found.s, law.exposure, precision
    )
    studentized = rows.residuals("pearson") / np.sqrt(scale * left)
    ratio = leverage / left
    score = precision * law.score(found.s, sample.y) / left
    change = -score[:, None] * (A @ inverse @ found.to_raw.T)
    error = np.sqrt(scale * np.diag(found.to_raw @ expected @ found.to_raw.T))
    dfbetas = np.full((len(A), len(found.kept)), np.nan)
    dfbetas[:, found.kept] = change / error
    return Influence(
        names=sample.coefficient_names(),
        leverage=leverage,
        resid_studentized=studentized,
        cooks_distance=np.square(studentized) * ratio / k,
        dffits=studentized * np.sqrt(np.maximum(ratio, 0.0)),
        dfbetas=dfbetas,
    )


def _influence_of_classes(fit, observed):
    """The `Influence` of the rows of a `CoefficientFit` of classes."""
    sample, found = fit.sample, fit.minimum
    family, A, s = sample.law.family, found.A, found.s
    counts = sample.weights if sample.are_frequencies else np.ones(len(A))
    precision = np.ones(len(A)) if sample.are_frequencies else sample.weights
    p, slopes = family.probabilities(s), family.slopes(s)
    over_p = np.divide(1.0, p, out=np.zeros_like(p), where=p > 0.0)
    information = np.einsum("nci,nc,ncj->nij", slopes, over_p, slopes)
    slope = precision[:, None] * family.residuals(None, s, sample.y)[0]
    E = classes.parameters(family, A.shape[1], s.shape[1])

    def without_own(H):
        """The leverages of rows with these curvatures, slopes without them, Q, and the inverse."""
        H = precision[:, None, None] * H
        inverse = np.linalg.inv(classes.curvature(A, E, counts[:, None, None] * H))
        Q = classes.leverages(A, E, inverse)
        block = H @ Q
        rest = np.eye(s.shape[1]) - block
        is_whole = np.abs(np.linalg.det(rest)) <= _WHOLE_LEVERAGE
        rest[is_whole] = np.nan
        leverage = np.trace(block, axis1=1, axis2=2)
        return leverage, np.linalg.solve(rest, slope[:, :, None])[:, :, 0], Q, inverse

    of_loss = without_own(family.hessian(s, sample.y))
    expected = without_own(information)
    leverage, left, Q, inverse = of_loss if observed else expected
    codes = sample.y.sum(axis=1) if family.tied else sample.y.argmax(axis=1)
    working = class_rows.working(family, codes.astype(int), p)
    if not family.tied:  # against the first class, whose index is 0
        working = np.column_stack([np.zeros(len(A)), working])
    k = len(found.beta)
    distance = np.einsum("ni,nij,nj->n", left, Q, left)
    change = -classes.scores(A, E, left) @ inverse @ found.to_raw.T
    error = np.sqrt(np.diag(found.to_raw @ of_loss[-1] @ found.to_raw.T))
    dfbetas = np.full((len(A), len(found.kept)), np.nan)
    dfbetas[:, found.kept] = change / error
    return Influence(
        names=sample.coefficient_names(),
        leverage=leverage,
        resid_studentized=np.sqrt(-(working * expected[1]).sum(axis=1)),
        cooks_distance=distance / k,
        dffits=np.sqrt(distance),
        dfbetas=dfbetas,
    )
