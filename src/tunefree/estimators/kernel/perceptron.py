"""The paper's second baseline: the kernel Perceptron, its average and its vote."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tunefree._threads import one_blas_thread
from tunefree.estimators import base
from tunefree.estimators.callbacks import told
from tunefree.estimators.kernel.baselines import BaselineClassifier
from tunefree.learners.pistol.isotropic import Isotropic
from tunefree.learners.pistol.rules import SUM, ConstantStep
from tunefree.losses import Mistake

_VOTED = 512  # rows whose votes are counted at a time


class KernelPerceptron(BaselineClassifier):
    r"""The kernel Perceptron (the paper's Algorithm 2), its average and its vote, for comparison.

    A row with y f(x) <= 0 is added: :math:`f \leftarrow f + y\, k(x, \cdot)`. Among rows of length
    at most X in feature space the number M of mistakes obeys, for every h,
    :math:`M \le L + X^2 \|h\|^2 + X \|h\| \sqrt{L}` with L the sum of h's hinge losses.

    Parameters
    ----------
    kernel : str or callable, default='rbf'
        See `KernelPiSTOLClassifier`, as for all parameters that are not named here.
    gamma : 'auto', 'scale' or float, default='scale'
    degree, coef0 : float, default=3 and 1
    average : {'averaged', 'voted', 'last'}, default='averaged'
        Read-out: the mean of the iterates, the majority of their signs (each counts as many rounds
        as it lived), or the last iterate.
    max_iter : int, default=1
        Passes.
    precision : {'auto', 'single', 'double'}, default='auto'
    shuffle : bool, default=True
    n_jobs : int or None, default=None
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    n_mistakes_ : ndarray of shape (n_outputs,)
        Updates made.
    lives_ : ndarray of shape (n_outputs, n_support) or None
        Rounds that each voted iterate lived, for ``average='voted'``.
    classes_, dual_coef_, gamma_, support_, coordinates_, expansion_, leaderboard_, trace_, n_iter_
        See `KernelAveragedSGDClassifier`.
    n_features_in_ : int

    Raises
    ------
    ValueError
        As `KernelPiSTOLClassifier`.

    References
    ----------
    Orabona 2014, Algorithm 2 and equation 5; Freund and Schapire 1999 for votes and averages.

    Examples
    --------
    >>> import numpy as np
    >>> from tunefree import KernelPerceptron
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> y = np.hypot(*X.T) > 1.2
    >>> bool(KernelPerceptron(random_state=0).fit(X, y).score(X, y) > 0.9)
    True
    """

    def __init__(
        self,
        kernel="rbf",
        gamma="scale",
        *,
        degree=3,
        coef0=1,
        average="averaged",
        max_iter=1,
        precision="auto",
        shuffle=True,
        n_jobs=None,
        random_state=None,
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.average = average
        self.max_iter = max_iter
        self.precision = precision
        self.shuffle = shuffle
        self.n_jobs = n_jobs
        self.random_state = random_state

    @told
    def fit(self, X, y, sample_weight=None):
        """Learn from rows in memory.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
            Whole weights are repetitions.

        Returns
        -------
        self
        """
        if self.average not in ("averaged", "voted", "last"):
            raise ValueError(f"average={self.average!r} is none of averaged, voted, last.")
        voted = self.average == "voted"
        if voted and self.kernel == "precomputed":
            raise ValueError("average='voted' needs rows, not a precomputed kernel.")
        prepared = self._prepare(X, y, sample_weight)
        learner = Isotropic(ConstantStep(1.0), Mistake())
        problem, data, engine, kernels = self._run(
            *prepared, lambda largest, n: learner, classify=True, apart=voted
        )
        self.n_mistakes_ = engine.updates[0].copy()
        coefs = [engine.mean(0) if self.average == "averaged" else engine.last(0)]
        self._publish(problem, data, engine, kernels, coefs)
        self.lives_ = _lives(engine) if voted else None
        return self

    @one_blas_thread()
    def decision_function(self, X):
        """Decisions, or the share of votes for less those against, of the second or every class.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
            Or kernel values of shape (n_samples, n_samples_fit) for kernel='precomputed'.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
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
        return out[:, 0] if out.shape[1] == 1 else out


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
