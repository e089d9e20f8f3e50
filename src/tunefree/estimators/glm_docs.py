"""What the documentation of the Reflectron's two estimators has in common, written once."""

_PARAMETERS = """Parameters
    ----------
    link : str or link, default='logistic'
        The mean u of the model: a name of `tunefree.links.LINKS`, one of its parts, or any object
        with a nondecreasing ``mean(s)``.
    potential : str, potential or list, default='auto'
        The geometry: a name of `tunefree.potentials.POTENTIALS`, a part, or a list of these to
        choose from. 'auto' is the Euclidean potential and the hypentropy of beta 1e-4, 1e-6, 1e-8,
        1e-12.
    constraint : str, constraint, None or list, default=None
        A set to project onto, from `tunefree.constraints`.
    step : 'auto', float > 0, 'theorem-4.1', 'theorem-5.1', 'theorem-5.2' or list, default='auto'
        The theorems' steps follow from the longest row and the potential's convexity: safe and
        slow. In stochastic form 'auto' tries multiples of Theorem 5.2's side by side. Every
        combination of potential, constraint and step is learned, all in the same passes.
    weight : None, 'slope' or callable, default=None
        Weight of the residuals: 1 (GLM-tron), the link's slope (mirror descent on the square
        loss), or a function of the margins; other than None it needs a number as step.
    feature_map : callable, transformer, kernel or str, optional
        What to learn on in place of the columns: a function of rows, an object with ``fit`` and
        ``transform``, or a part of `tunefree.kernels` or its name: the Alphatron, whose potential
        is the Euclidean one. Kernels compare rows in standardised columns; 'rbf' and 'laplacian'
        take their bandwidth from the median distance.
    solver : {'batch', 'stochastic', 'flow', 'natural-flow'}, default='batch'
        Full batches, or passes of steps of ``batch_size`` rows; `partial_fit` is stochastic,
        `fit_source` either (many passes over a file, or one). 'flow'
        follows the mirror flow in continuous time, 'natural-flow' the natural-gradient flow (the
        same curve, from a small random start where it cannot leave 0), without constraint or step.
    average : None, 'uniform', 'polynomial', 'geometric' or scheme, default='uniform'
        Which average of the stochastic iterates to read; None is the last one.
    batch_size : int, default=1
        Rows a stochastic step. With 1, a step costs only the entries of its row, unless there is
        a constraint other than 'non_negative' or 'box'.
    init : array-like of shape (n_features,) or (n_outputs, n_features), optional
        A prior guess to start from: on data that can be fitted exactly, the fit is its Bregman
        projection onto the interpolating predictors.
    validation_fraction : float in [0, 1) or 'auto', default='auto'
        Share of the rows held out to choose the iterate and the configuration; 'auto' is a fifth,
        or so much less that all splits are disjoint. One row in round(1 / share) is held out.
    n_splits : int or 'auto', default='auto'
        How many disjoint shares are held out, each from a member of its own that learns beside the
        one that learns from all rows, with the same steps; 'auto' is 5 below 1,000 rows, else 1.
    patience : int, default=50
        Accepted steps without progress of the hold-out risk before a configuration ends; at
        least half as many as the progress took, and half of it once another does better.
    tol : float, default=1e-3
        Fall of the risk that counts as progress, relative to the risk and a tenth of the start's.
    max_iter : int, default=1000
        Most passes; stochastic ones end after 5 without progress.
    fit_intercept : bool, default=True
        Learn an intercept, free of potential and constraint.
    standardize : bool, default=True
        Measure columns in standard deviations, from their mean if there is an intercept, so that
        a potential means the same for all; constraints then hold in these units. Entries and
        targets ten times as far from the middle of their column as any other then count as
        missing in `fit`, with a warning; without units of columns rows are learned as they are.
        A stream has one unit for all columns instead, the median of the largest entries of its
        first 64 rows: all columns times one factor give the same predictions. Its constraints, and
        the entropy, are in the user's units.
    keep_path : bool, default=False
        Keep the parameters after every pass in ``coef_path_``.
    warm_start : bool, default=False
        Start from the last fit's parameters.
    random_state : int, RandomState or None, default=None
        Seed of the hash by which rows are held out.
    per_output : bool, default=False
        Of several outputs, potential and constraint are those of the whole matrix of parameters
        (so that outputs share what is sparse); True has them of every output on its own."""


_FITTED = """n_iter_ : int
        Passes over the rows, rejected trials included.
    link_ : part
        The link in use.
    potential_, constraint_ : the chosen parts
    feature_map_ : fitted map or None
    leaderboard_ : list of dict
        Every configuration's lowest hold-out risk and the time that had it (the sum of steps; in
        stochastic form passes, on a stream rows), the best first.
    trace_ : dict of ndarray of shape (n_passes, n_configurations)
        'risk' (mean squared error on the rows learned from), 'held_risk' (on the rows held out),
        'time', 'step', and 'move', the symmetric Bregman divergence of the last step. In stochastic
        form 'held_risk' only, NaN after a run has ended.
    coef_path_ : ndarray of shape (n_passes, n_configurations, n_outputs, n_features)
        If kept.
    n_features_in_ : int"""


def documented(cls):
    """Put the common parameters and attributes into a class's documentation, where it says so."""
    if cls.__doc__:  # none under python -OO
        text = cls.__doc__.replace("{parameters}", _PARAMETERS)
        cls.__doc__ = text.replace("{fitted}", _FITTED)
    return cls
