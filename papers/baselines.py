"""The baselines of Orabona 2014 in a feature space: averaged SGD and the kernel Perceptron."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tunefree.base import base
from tunefree.core.parameters import is_number
from tunefree.core.process import one_blas_thread
from tunefree.parts.losses import Mistake, make_loss
from tunefree.pistol.kernel_estimator import (
    KernelClassifier,
    KernelEstimator,
    KernelRegressor,
    Standard,
)
from tunefree.pistol.linear import Isotropic
from tunefree.pistol.rules import SUM, ConstantStep

_VOTED = 512  # rows whose votes are counted at a time


class _Baseline(KernelEstimator):
    """One learner and one average, of rows as they are."""

    _AVERAGES = ()
    standardize, compress, class_weight = False, None, None

    def _reads_last(self):
        return False


class KernelPerceptron(KernelClassifier, _Baseline):
    r"""The kernel Perceptron (the paper's Algorithm 2), its average and its vote, for comparison.

    A row with y f(x) <= 0 is added: :math:`f \leftarrow f + y\, k(x, \cdot)`. Among rows of length
    at most X in feature space the number M of mistakes obeys, for every h,
    :math:`M \le L + X^2 \|h\|^2 + X \|h\| \sqrt{L}` with L the sum of h's hinge losses.

    `average` is a scheme of `tunefree.parts.averaging`, 'last' (the last iterate) or 'voted': the
    majority of the iterates' signs, each of which counts the rounds, `lives_`, that it lived.
    `n_mistakes_` counts the updates of every output. All else is as in `KernelPiSTOLClassifier`;
    ``gamma='auto'`` learns the grid of bandwidths and takes that of the least progressive error.

    References
    ----------
    Orabona 2014, Algorithm 2 and equation 5; Freund and Schapire 1999 for votes and averages.

    Examples
    --------
    >>> import numpy as np
    >>> from papers.baselines import KernelPerceptron
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> y = np.hypot(*X.T) > 1.2
    >>> bool(KernelPerceptron(random_state=0).fit(X, y).score(X, y) > 0.9)
    True
    """

    _AVERAGES = ("voted",)

    def __init__(
        self,
        kernel="rbf",
        gamma="scale",
        *,
        degree=3,
        coef0=1,
        average="uniform",
        max_iter=1,
        precision="auto",
        shuffle=True,
        n_jobs=None,
        random_state=None,
    ):
        vars(self).update({name: value for name, value in locals().items() if name != "self"})

    def _check(self):
        if self._apart() and self.kernel == "precomputed":
            raise ValueError("average='voted' needs rows, not a precomputed kernel.")
        return super()._check()

    def _learner(self, n_rounds, largest=1.0):
        return Isotropic(ConstantStep(1.0), Mistake())

    def _apart(self):
        return self.average == "voted"

    def _reads_last(self):
        return self.average in ("voted", "last")

    def _finish(self, engine, outcome, prior):
        self.n_mistakes_ = engine.updates[0].copy()
        self.lives_ = _lives(engine) if self._apart() else None
        return super()._finish(engine, outcome, prior)

    @one_blas_thread()
    def decision_function(self, X):
        """Decisions, or the share of votes for less those against, of the second or every class."""
        check_is_fitted(self, "expansion_")
        if self.lives_ is None:
            return super().decision_function(X)
        X = base.check_rows(self, X)
        shown, f = self.coordinates_.show(X), self.expansion_
        out = np.zeros((X.shape[0], f.n_outputs), X.dtype)
        for start in range(0, X.shape[0], _VOTED):
            K = f.kernels[0].gram(shown[start : start + _VOTED], f.support)
            for k, lives in enumerate(self.lives_):
                at = np.flatnonzero(f.coefs[0][:, k])
                votes = np.sign(np.cumsum(K[:, at] * f.coefs[0][at, k].astype(float), axis=1))
                out[start : start + _VOTED, k] = votes @ lives[at] / max(lives.sum(), 1.0)
        return base.squeezed(out)


def _lives(engine):
    """Rounds from each update to the next of the same output, shape (n_outputs, n_updates)."""
    n, state = engine.n_slots, engine.states[0]
    lives = np.zeros((engine.n_outputs, n))
    for k in range(engine.n_outputs):
        at = np.flatnonzero(state.z[:n, k])
        # Each step's lag is the number of its round times the step.
        rounds = state.u[at, k] / state.z[at, k]
        lives[k, at] = np.diff(rounds, append=state.scalars[k, SUM] + 1.0)
    return lives


class _SGD(_Baseline):
    step: float
    loss: Any

    def __init__(
        self,
        kernel="rbf",
        gamma="scale",
        *,
        degree=3,
        coef0=1,
        step=0.25,
        loss="squared_error",
        average="uniform",
        max_iter=1,
        precision="auto",
        shuffle=True,
        n_jobs=None,
        random_state=None,
    ):
        vars(self).update({name: value for name, value in locals().items() if name != "self"})

    def _check(self):
        if not (is_number(self.step) and self.step > 0):
            raise ValueError(f"step={self.step!r} is not a positive number.")
        self._loss()
        return super()._check()

    def _loss(self):
        return make_loss(self.loss, "classification" if self._CLASSIFY else "regression")

    def _learner(self, n_rounds, largest=1.0):
        return Isotropic(ConstantStep(float(self.step) / largest), self._loss())


class KernelAveragedSGDClassifier(KernelClassifier, _SGD):
    r"""Averaged kernel SGD with a constant step (the paper's Algorithm 1), for comparison.

    :math:`f_{t+1} = f_t - \eta\, \ell'(f_t(x_t), y_t)\, k(x_t, \cdot)` from f_1 = 0, and the
    predictor is an average of the iterates. Step and number of passes are the user's to choose,
    which is what `KernelPiSTOLClassifier` does away with.

    `step` is in units of 1 / (the largest k(x, x)); `loss` a loss of classification
    ('squared_error' is (1 - y f)^2); `average` a scheme of `tunefree.parts.averaging`, such as
    ``Geometric(rate=0.01)``. All else is as in `KernelPiSTOLClassifier`. With a given bandwidth
    `trace_` has the 'rows' and the progressive errors of the running average and of the iterate.

    References
    ----------
    Orabona 2014, Algorithm 1 and equation 3; Neu and Rosasco 2018 for geometric averages.

    Examples
    --------
    >>> import numpy as np
    >>> from papers.baselines import KernelAveragedSGDClassifier
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> y = np.hypot(*X.T) > 1.2
    >>> model = KernelAveragedSGDClassifier(loss="hinge", random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.85)
    True
    """


class KernelAveragedSGDRegressor(_SGD, KernelRegressor):
    r"""Averaged kernel SGD with a constant step (the paper's Algorithm 1) for regression.

    As `KernelAveragedSGDClassifier`, on targets in units of a robust scale about their median.

    Examples
    --------
    >>> import numpy as np
    >>> from papers.baselines import KernelAveragedSGDRegressor
    >>> X = np.random.default_rng(0).uniform(-3, 3, (300, 1))
    >>> y = np.sin(X[:, 0])
    >>> model = KernelAveragedSGDRegressor(gamma=1.0, max_iter=10, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    def _standard(self, encoded, rows, totals, dtype):
        targets = encoded[0]
        standard = Standard.of(np.unique(targets, axis=0), tails=True)
        ends = np.full((2, targets.shape[1]), np.inf, dtype)
        ends[0] = -np.inf
        return standard(targets), (standard, ends, None)  # no way back to the mean
