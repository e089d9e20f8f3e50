"""Which candidates of `TuneFree*` suit a problem, and why others do not."""

from functools import partial
from typing import Any, NamedTuple

from tunefree.held_out.predictions import FEW_ROWS
from tunefree.held_out.stacking import Means, Quantiles
from tunefree.kernel_ridge import solvers as ridge
from tunefree.kernel_ridge.estimators import KernelRidgeClassifier, KernelRidgeRegressor
from tunefree.pistol.classifier import PiSTOLClassifier
from tunefree.pistol.kernel_classifier import KernelPiSTOLClassifier
from tunefree.pistol.kernel_regressor import KernelPiSTOLRegressor
from tunefree.pistol.regressor import PiSTOLRegressor
from tunefree.reflectron.constraints import Monotone
from tunefree.reflectron.glm.classifier import GLMClassifier
from tunefree.reflectron.glm.regressor import GLMRegressor
from tunefree.ridge_path.estimators import RidgePathRegressor
from tunefree.stack import costs
from tunefree.stack.candidates import (
    GLM,
    KERNELS,
    MOST_COLUMNS,
    TREES_NAME,
    AsinhPiSTOL,
    BoostedTrees,
    Candidate,
    Folds,
    KernelPiSTOL,
    KernelRidge,
    LinearPiSTOL,
    OneFit,
    PilotedKernel,
    Ridge,
    RidgeOnRanks,
    ThreeFolds,
)
from tunefree.trees.classifier import BoostedTreesClassifier
from tunefree.trees.regressor import BoostedTreesRegressor

# Kernels on landmarks are skipped for more cells: sparse rows become dense.
_MOST_CELLS = 2e8
# Ridge regression on the view is a candidate up to so many columns.
_FEW_COLUMNS = 1000
# The GLM, which finds sparse weights, is a candidate for so many columns, and if there are
# fewer rows a column than the last number.
_WIDE = 100
_WIDEST = 10_000
_NARROW = 20
# With fewer rows a column, leave-one-out errors of rates chosen on the same rows are misleading.
_RATED = 4
# Landmarks to which a plan may limit a kernel: of few rows, and of many.
_FEWER = (1000, 500, 250)
_MORE = (4000, 2000, 1000)
# Landmarks of kernels that are fitted fold by fold.
_LANDMARKS_OF_FOLDS = 1000
# Kernels of more rows than this wait for pilots.
_PILOTED = 5000
# Trees are a candidate from so many rows on.
_TREE_ROWS = 100
# Rounds to which a plan may limit them.
_FEWER_ROUNDS = (1000, 500, 250)


class Models(NamedTuple):
    """The two estimators of one kind."""

    classifier: Any
    regressor: Any


_PISTOLS = Models(PiSTOLClassifier, PiSTOLRegressor)
_GLMS = Models(GLMClassifier, GLMRegressor)
_KERNEL_RIDGES = Models(KernelRidgeClassifier, KernelRidgeRegressor)
_KERNEL_PISTOLS = Models(KernelPiSTOLClassifier, KernelPiSTOLRegressor)
_TREES = Models(BoostedTreesClassifier, BoostedTreesRegressor)


class Unsuited(NamedTuple):
    """A candidate that does not suit a problem."""

    name: str
    reason: str


def make_candidates(problem, kinds, n_jobs=None, compress=None):
    """The candidates for some data, in the order of evaluation, and why others are skipped.

    `kinds` are some of 'linear', 'kernel', 'trees'; `compress` is a number of landmarks, or None.
    """
    if problem.signs is None:
        found = _of_kinds(problem, kinds, n_jobs, compress)
    else:
        found = _monotone(problem, kinds, n_jobs)
    skipped = {c.name: c.reason for c in found if isinstance(c, Unsuited)}
    made = [c for c in found if c.name not in skipped]
    if not made:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in skipped.items())
        columns = f"{problem.shape.d} columns"
        raise ValueError(f"candidates={kinds!r} leave none for {columns}: {reasons}")
    return made, skipped


def _of_kinds(problem, kinds, n_jobs, compress):
    """The candidates without signs of columns."""
    (n, d), found = problem.shape[:2], []
    on_landmarks = d <= MOST_COLUMNS and n * d <= _MOST_CELLS
    solved_exactly = not problem.is_sparse() and n <= ridge.EXACT_ROWS
    both = "linear" in kinds and "kernel" in kinds and on_landmarks
    on_ranks = both and d <= _FEW_COLUMNS
    if on_ranks:
        found += _ridge_on_ranks(problem, n_jobs)
    ridge_on_ranks_is_enough = on_ranks and solved_exactly
    if "linear" in kinds and not ridge_on_ranks_is_enough:
        found += _linear_models(problem)
    if "trees" in kinds:
        found += _trees(problem, n_jobs)
    if "kernel" in kinds and on_landmarks:
        found += _kernels(problem, n_jobs)
    elif "kernel" in kinds:
        found += _kernel_pistol(problem, n_jobs, compress)
    return found + _glm_of_loss(problem)


def _monotone(problem, kinds, n_jobs):
    """The candidates that increase or decrease with some columns."""
    found = []
    if "linear" in kinds:
        family = _family_of(problem) or ("binomial" if problem.classify else "gaussian")
        model = _estimator(problem, _GLMS, family=family, constraint=Monotone(tuple(problem.signs)))
        found.append(GLM("GLM, monotone", model))
    if "trees" in kinds:
        found += _trees(problem, n_jobs)
    others = Unsuited("kernels and other linear models", "they do not keep monotonic_cst")
    return [*found, others]


def _linear_models(problem):
    """Linear models from cheap to expensive."""
    shape, is_sparse, classify = problem.shape, problem.is_sparse(), problem.classify
    pistol = _estimator(problem, _PISTOLS)
    found: list[Candidate] = [LinearPiSTOL("linear", pistol)]
    skipped = []
    has_moments = not is_sparse or shape.d <= 1000
    if has_moments and not classify:
        found.insert(0, Ridge("ridge", RidgePathRegressor(random_state=problem.seed)))
    if not is_sparse and shape.entries >= 0.25 * shape.n * shape.d:
        found.append(AsinhPiSTOL("linear, asinh columns", pistol))
    else:
        skipped.append(Unsuited("linear, asinh columns", "most entries are zero"))
    wide = _WIDE <= shape.d <= _WIDEST and shape.n < _NARROW * shape.d
    if wide and (classify or shape.k == 1):
        family = "auto" if classify else "gaussian"
        found.append(GLM("GLM", _estimator(problem, _GLMS, family=family)))
    elif _family_of(problem) is None:  # else there is a GLM of the loss
        reason = "many rows for each column, or too few or too many columns"
        skipped.append(Unsuited("GLM", reason))
    return [*sorted(found, key=lambda c: c.cost(shape).seconds), *skipped]


def _glm_of_loss(problem):
    """The GLM of the loss, unless that is of squared errors or classes."""
    family = _family_of(problem)
    if family is None:
        return []
    return [GLM(f"GLM, {type(family).__name__}", _estimator(problem, _GLMS, family=family))]


def _ridge_on_ranks(problem, n_jobs):
    evaluation = OneFit() if problem.blocks() is None else Folds()
    made = _estimator(problem, _KERNEL_RIDGES, n_jobs=n_jobs, kernel="linear")
    return [RidgeOnRanks("ridge on ranks and levels", made, evaluation)]


def _kernels(problem, n_jobs):
    """Kernel ridge regression."""
    n, single_rows = problem.shape.n, problem.blocks() is None
    make = partial(_estimator, problem, _KERNEL_RIDGES, n_jobs=n_jobs)
    if n > _PILOTED and single_rows:
        limits = tuple(m for m in _MORE if m < n)
        return [PilotedKernel("kernel ridge", make(), OneFit(), limits)]
    limits = tuple(m for m in _FEWER if m < n and single_rows)
    landmarks = "auto" if n <= ridge.EXACT_ROWS else _LANDMARKS_OF_FOLDS
    evaluation = _evaluation_of_kernels(problem)
    return [
        KernelRidge(name, make(kernel=kernel, n_landmarks=landmarks), evaluation, limits)
        for kernel, name in KERNELS.items()
    ]


def _evaluation_of_kernels(problem):
    """How kernels are evaluated.

    All rows as landmarks hold out whole groups exactly, fewer landmarks do not. With few rows a
    column so many rates fit noise: rows that did not choose them evaluate them. Nor may other rows
    of a group choose the rates that evaluate it.
    """
    n, d = problem.shape[:2]
    has_groups = problem.groups is not None
    if problem.given or (has_groups and n > ridge.EXACT_ROWS):
        return Folds()
    chosen_by_group = has_groups and problem.held().all()
    if chosen_by_group or n < min(FEW_ROWS, _RATED * d):
        return ThreeFolds()
    return OneFit()


def _kernel_pistol(problem, n_jobs, compress):
    """Kernel PiSTOL, for rows of too many columns for other kernels."""
    n, name = problem.shape.n, "kernel PiSTOL"
    others = Unsuited(KERNELS["rbf"], f"{problem.shape.d} columns are too many")
    if problem.given:
        return [others, Unsuited(name, "with cv= it would be fitted fold by fold")]
    if problem.groups is not None:
        return [others, Unsuited(name, "it cannot hold out whole groups")]
    limits = tuple(m for m in (costs.MOST_ROWS // 2, costs.MOST_ROWS // 4) if m < n)
    made = _estimator(problem, _KERNEL_PISTOLS, n_jobs=n_jobs, compress=compress)
    return [others, KernelPiSTOL(name, made, OneFit() if n >= FEW_ROWS else Folds(), limits)]


def _trees(problem, n_jobs):
    """Boosted trees."""
    shape, score, options = problem.shape, problem.score, {}
    if shape.d > MOST_COLUMNS:
        return [Unsuited(TREES_NAME, f"{shape.d} columns are too many")]
    if shape.n < _TREE_ROWS:
        return [Unsuited(TREES_NAME, f"{shape.n} rows are too few")]
    if isinstance(score, Means):
        name = type(score.family).__name__.lower()
        if name not in ("poisson", "gamma", "tweedie"):
            return [Unsuited(TREES_NAME, f"trees have no loss {name}")]
        options = {"loss": score.family if name == "tweedie" else name}
    elif isinstance(score, Quantiles):
        options = {"loss": "quantile", "quantile": score.family.levels}
    if problem.signs is not None:
        options["monotonic_cst"] = problem.signs
    made = _estimator(problem, _TREES, n_jobs=n_jobs, **options)
    return [BoostedTrees(TREES_NAME, made, OneFit(), _FEWER_ROUNDS)]


def _family_of(problem):
    """The family of the loss, if it is not that of squared errors or classes."""
    return getattr(problem.score, "family", None)


def _estimator(problem, models, **options):
    """The model of this kind for the targets of a problem."""
    cls = models.classifier if problem.classify else models.regressor
    return cls(random_state=problem.seed, **options)
