"""Separating surfaces with a certificate: the Optimistic Perceptron with a kernel."""

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from tunefree._threads import one_blas_thread
from tunefree.engine.sources import Whole
from tunefree.estimators import base
from tunefree.estimators.callbacks import told
from tunefree.estimators.perceptron.base import Separator, double, prepare
from tunefree.kernels import check_gram, make_kernel
from tunefree.learners.perceptron.margins import Gram


class KernelOptimisticPerceptron(Separator):
    r"""Kernel classifier that finds a separating surface and proves how wide its margin is.

    The rounds of `OptimisticPerceptron` need inner products of rows only: with
    :math:`Q_{ij} = y_i y_j k(x_i, x_j)` and :math:`h_t = Q p_t`, the margins of w_t are
    :math:`m_t = m_{t-1} + 2 h_{t-1} - h_{t-2}`, so that a round is one product with Q. Margins are
    those of the rows in the kernel's feature space.

    Parameters
    ----------
    kernel : str or callable, default='rbf'
        A kernel of `tunefree.kernels` or of `sklearn.metrics.pairwise`, by name; a function of two
        matrices or of two rows; or 'precomputed': X is the matrix.
    gamma : float, optional
        Of the 'rbf', 'polynomial', 'sigmoid', 'laplacian' and 'chi2' kernels; by default 1 /
        n_features.
    degree : float, default=3
        Of the 'polynomial' kernel.
    coef0 : float, default=1
        Of the 'polynomial' and 'sigmoid' kernels.
    method : {'optimistic', 'accelerated', 'min-norm', 'auto'}, default='optimistic'
        As in `OptimisticPerceptron`.
    step : {'adaptive', 'paper'} or float, default='adaptive'
        As in `OptimisticPerceptron`.
    potential : {'entropy', 'euclidean'}, default='entropy'
        As in `OptimisticPerceptron`.
    stop : {'separated', 'margin'}, default='separated'
        Stop at the first separator, or when the margin is known to `tol`.
    tol : float, default=0.01
        Relative width of the bounds for stop='margin'.
    margin : float, optional
        The smallest margin of interest; by default 1e-4 of the longest row in feature space.
    max_iter : int, default=10000
        Most rounds; each takes one product with the kernel matrix.
    fit_intercept : bool, default=True
        Learn an intercept: a constant is added to the kernel.
    intercept_scaling : 'auto' or float, default='auto'
        Root of that constant; 'auto' is the norm of the longest row in feature space.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (1, n_support) or (n_classes, n_support)
        decision(x) = sum_i dual_coef_i k(x_i, x) + intercept, a vector of length one.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    support_ : ndarray of shape (n_support,)
        Which rows of the input have a coefficient.
    X_fit_ : ndarray or CSR of shape (n_support, n_features)
        Those rows (None for a precomputed kernel).
    classes_ : ndarray of shape (n_classes,)
    margin_bounds_ : MarginBounds
        (lower, upper, certified), as in `OptimisticPerceptron`.
    separated_ : bool or ndarray of shape (n_classes,)
        Whether the surface is proven to separate.
    support_weights_ : ndarray of shape (n_samples,) or (n_classes, n_samples)
        The distribution over the rows that proves `upper`.
    status_ : str or list of str
        The proof in words.
    n_updates_, n_operations_, n_iter_ : int
        As in `OptimisticPerceptron`.
    intercept_scale_ : float
        Value of the constant coordinate (0 without an intercept).
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    Raises
    ------
    ValueError
        For NaN or infinity, labels of one class, weights that are all zero or negative, a
        precomputed kernel that is not square.

    Notes
    -----
    Time O(n^2) a round and memory O(n^2). The bounds are exact for the kernel matrix as computed in
    float64, which must be positive semidefinite.

    References
    ----------
    Hanashiro and Abernethy, "Linear Separation via Optimism", Algorithm 1; the kernel form is ours.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]]), [0, 0, 1, 1]
    >>> model = KernelOptimisticPerceptron(gamma=1.0).fit(X, y)
    >>> model.separated_, model.predict(X)
    (True, array([0, 0, 1, 1]))
    """

    def __init__(
        self,
        kernel="rbf",
        *,
        gamma=None,
        degree=3,
        coef0=1,
        method="optimistic",
        step="adaptive",
        potential="entropy",
        stop="separated",
        tol=1e-2,
        margin=None,
        max_iter=10_000,
        fit_intercept=True,
        intercept_scaling="auto",
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.method = method
        self.step = step
        self.potential = potential
        self.stop = stop
        self.tol = tol
        self.margin = margin
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling

    def _kernel(self, d):
        gamma = 1.0 / d if self.gamma is None else self.gamma
        return make_kernel(self.kernel, gamma, self.degree, self.coef0)

    @told
    def fit(self, X, y, sample_weight=None):
        """Find separators.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
            Or the kernel matrix of shape (n_samples, n_samples) for kernel='precomputed'.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
            The prior p_0; whole weights are repetitions, rows of weight 0 are left out.

        Returns
        -------
        self
        """
        self._check_parameters()
        X, signs, weights, alive, n_rows = prepare(self, X, y, sample_weight)
        dtype = X.dtype
        if self.kernel == "precomputed":
            if X.shape[1] != n_rows:
                raise ValueError(f"A precomputed kernel is square; X has the shape {X.shape}.")
            gram, rows = double(X)[:, alive], None
            gram = gram.toarray() if sparse.issparse(gram) else np.ascontiguousarray(gram)
        else:
            rows = X
            gram = self._kernel(X.shape[1]).gram(double(X), double(X))
            check_gram(gram, f"kernel={self.kernel!r}")
        bias = self._bias(np.diag(gram))
        space, fits, duals, watch = Gram(bias), [], [], self._passes(signs.shape[1])
        for column in signs.T:
            source = Whole(gram, column[:, None], weights)
            view = space.view(next(source.blocks(0)))

            def publish(w, view=view):
                """Round as the published coefficients are: the bounds are for these."""
                return view.pull(w[0].astype(dtype).astype(np.float64))

            fits.append(self._solve(space, source, publish, watch))
            duals.append(column * fits[-1][0].w[0])
        duals = np.stack(duals)
        kept = np.flatnonzero(duals.any(axis=0))
        self.dual_coef_ = duals[:, kept].astype(dtype)
        self.intercept_ = (bias**2 * duals.sum(axis=1)).astype(dtype)
        self.intercept_scale_ = bias
        self.support_ = alive[kept]
        self.X_fit_ = None if rows is None else rows[kept]
        self._publish(fits, alive, n_rows)
        return self

    @one_blas_thread()
    def decision_function(self, X):
        """Distances from the surfaces in feature space.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
            Or kernel values of shape (n_samples, n_samples_fit) for kernel='precomputed'.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        check_is_fitted(self)
        X = base.check_rows(self, X)
        if self.kernel == "precomputed":
            gram = double(X)[:, self.support_]
        else:
            gram = self._kernel(X.shape[1]).gram(double(X), double(self.X_fit_))
        scores = gram @ self.dual_coef_.T.astype(np.float64) + self.intercept_
        scores = np.asarray(scores).astype(X.dtype)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags
