"""Maximum likelihood on a cluster: Newton's steps, and the table of coefficients, from sums.

A round adds up the loss, its slope and its curvature over the partitions; the client takes the
step. Columns that depend on others are found by the triangular factor of the columns, which is
joined from those of the partitions. So the fit is that of one machine, up to the order of sums, and
no row leaves its worker. Source: McCullagh and Nelder 1989, section 2.5; Demmel, Grigori, Hoemmen
and Langou 2012 (the factor of parts).
"""

from copy import copy
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.base import is_classifier
from sklearn.utils.validation import _check_feature_names_in

from tunefree.base import base
from tunefree.base.exposures import per_exposure
from tunefree.dask.cluster import joined
from tunefree.parts.families import Family, Gaussian, Quantile
from tunefree.parts.links import link_range
from tunefree.rows.levels import TableColumns
from tunefree.rows.matrices import as_columns, as_dense
from tunefree.uncertainty import classes
from tunefree.uncertainty.coefficients import Statistics
from tunefree.uncertainty.inference import notes_of
from tunefree.uncertainty.kept import KeptFit, KeptFits, check_work
from tunefree.uncertainty.laws import is_identity
from tunefree.uncertainty.minima import LARGEST_INDEX, independent, refuse
from tunefree.uncertainty.samples import SampleRows

_MOST_STEPS = 100
_MOST_HALVINGS = 40
_CONVERGED = 1e-10  # the largest change of an index, relative to the largest index
_SUFFICIENT = 0.25  # the part of the promised fall
_ROUNDING = 1e-14  # of the first loss
_SMALL_STEP = 0.1  # in the index


class FittedPart(NamedTuple):
    """The rows of a partition as one target, or classes, of a law; they stay on the worker."""

    X: np.ndarray  # the columns of the table
    y: np.ndarray  # of shape (n,), or (n, m) for classes
    weights: np.ndarray
    law: Any
    are_classes: bool

    def at(self, view, theta, family):
        """Columns, E of `classes`, indices without the offset, and the law of a family."""
        A = view.of(self.X)
        m = self.y.shape[1] if self.are_classes else 1
        E = view.parameters(family, m, self.are_classes)
        return A, E, A @ (E @ theta), self.law._replace(family=family)

    def slopes(self, s, law):
        """Half deviances; slopes, curvatures and the information in the indices, row by row."""
        if self.are_classes:
            # One number a row is in all indices.
            s = s + (law.offset if np.ndim(law.offset) == 2 else np.reshape(law.offset, (-1, 1)))
            r, H = law.family.residuals(None, s, self.y)[0], law.family.hessian(s, self.y)
            return 0.5 * classes.deviances(law.family, s, self.y), r, H, H
        s = s[:, 0]
        loss = 0.5 * law.exposure * law.family.deviance(self.y, law.mean(s))
        r, H, J = law.score(s, self.y), law.slope(s, self.y), law.information(s)
        return loss, r[:, None], H[:, None, None], J[:, None, None]


class StandardView(NamedTuple):
    """How columns are standardised; `kept` are those with a coefficient."""

    center: np.ndarray
    scale: np.ndarray
    kept: np.ndarray
    intercept: bool

    def of(self, X):
        """The standardised columns that are kept, and ones for an intercept."""
        A = ((X - self.center) / self.scale)[:, self.kept]
        return np.column_stack([A, np.ones(len(A))]) if self.intercept else A

    @property
    def n_columns(self):
        """The number of columns, with the ones."""
        return int(self.kept.sum()) + self.intercept

    def parameters(self, family, m, are_classes):
        """E of `tunefree.uncertainty.classes`."""
        k = self.n_columns
        return classes.parameters(family, k, m) if are_classes else np.eye(k)[:, None]

    def to_raw(self):
        """From the coefficients of these columns to those of the raw ones."""
        scale, center = self.scale[self.kept], self.center[self.kept]
        to_raw = np.diag(np.append(1.0 / scale, 1.0) if self.intercept else 1.0 / scale)
        if self.intercept:
            to_raw[-1, :-1] = -center / scale
        return to_raw

    def without_columns(self):
        """An intercept alone."""
        return self._replace(kept=np.zeros_like(self.kept), intercept=True)


class Totals(NamedTuple):
    """Sums over rows before a fit."""

    n_rows: int
    weight: float
    columns: np.ndarray
    exposure: float
    y: Any  # times the exposure
    squares: float  # of y
    offset: Any  # or one for each class
    are_whole: bool  # whether all weights are whole numbers
    are_ones: bool

    @classmethod
    def of(cls, part):
        """Those of a `FittedPart`."""
        w, law = part.weights, part.law
        exposed = w * law.exposure
        y = np.asarray(part.y)
        return cls(
            len(w),
            float(w.sum()),
            w @ part.X,
            float(np.sum(exposed)),
            exposed @ y,
            float(np.sum(w @ np.square(y))),
            w @ law.offset if np.ndim(law.offset) else 0.0,
            bool((w == np.round(w)).all()),
            bool((w == 1.0).all()),
        )

    def join(self, other, *_):
        """Those of both."""
        sums: Any = [a + b for a, b in zip(self[:-2], other[:-2], strict=True)]
        both: Any = [a and b for a, b in zip(self[-2:], other[-2:], strict=True)]
        return Totals(*sums, *both)


class Spread(NamedTuple):
    """Squares of centred columns, and their triangular factor."""

    squares: np.ndarray
    factor: np.ndarray

    @classmethod
    def of(cls, part, center):
        """Those of a `FittedPart`."""
        A = part.X - center
        root = np.sqrt(part.weights)[:, None]
        return cls(part.weights @ np.square(A), _triangle(root * A))

    def join(self, other, *_):
        """Those of both."""
        factor = _triangle(np.vstack([self.factor, other.factor]))
        return Spread(self.squares + other.squares, factor)


def _triangle(A) -> Any:
    """The triangular factor of columns."""
    return np.linalg.qr(A, mode="r") if A.shape[1] else A[:0]


class LossSums(NamedTuple):
    """Sums of a step: the loss, its slope and curvature, and Fisher's information."""

    loss: float
    slope: np.ndarray
    curvature: np.ndarray
    information: np.ndarray
    pearson: float
    change: float  # the largest, of an index
    size: float  # the largest index
    lowest: float  # the lowest curvature of a row
    guessed: bool  # whether the index has the right sign, or class, in all rows
    at_ends: bool  # whether all targets are 0 or 1

    @classmethod
    def of(cls, part, view, theta, before, family):
        """Those of a `FittedPart` at theta; the change is that since `before`."""
        w = part.weights
        with np.errstate(all="ignore"):
            A, E, s, law = part.at(view, theta, family)
            loss, r, H, J = part.slopes(s, law)
            if part.are_classes:
                pearson = np.expm1(loss)
                codes = part.y.sum(axis=1) if family.tied else part.y.argmax(axis=1)
                guess = (s > 0.0).sum(axis=1) if family.tied else s.argmax(axis=1)
                guessed, at_ends = bool((guess == codes).all()), True
            else:
                mean = law.mean(s[:, 0])
                pearson = law.exposure * np.square(part.y - mean) / family.variance(mean)
                guessed = bool(((s[:, 0] > 0.0) == (part.y == 1.0)).all())
                at_ends = bool(np.isin(part.y, (0.0, 1.0)).all())
            each = w[:, None, None]
            return cls(
                float(w @ loss),
                classes.scores(A, E, w[:, None] * r).sum(axis=0),
                classes.curvature(A, E, each * H),
                classes.curvature(A, E, each * J),
                float(w @ pearson),
                float(np.abs(A @ (E @ (theta - before))).max(initial=0.0)),
                float(np.abs(s).max(initial=0.0)),
                float(H.min(initial=0.0)) if H.shape[1] == 1 else 0.0,
                guessed,
                at_ends,
            )

    def join(self, other, *_):
        """Those of both."""
        sums: Any = [a + b for a, b in zip(self[:5], other[:5], strict=True)]
        sizes: Any = [max(a, b) for a, b in zip(self[5:7], other[5:7], strict=True)]
        lowest = min(self.lowest, other.lowest)
        both = self.guessed and other.guessed, self.at_ends and other.at_ends
        rest: Any = [*sizes, lowest, *both]
        return LossSums(*sums, *rest)


class Meats(NamedTuple):
    """The log-likelihood, and the middles of the sandwiches HC0, HC2 and HC3."""

    llf: float
    hc0: np.ndarray
    hc2: np.ndarray
    hc3: np.ndarray

    @classmethod
    def of(cls, part, view, theta, family, bread, scale, are_frequencies):
        """Those of a `FittedPart`."""
        w = part.weights
        with np.errstate(all="ignore"):
            A, E, s, law = part.at(view, theta, family)
            loss, r, H, _ = part.slopes(s, law)
            if part.are_classes:
                llf = -float(w @ loss)
            else:
                llf = _log_likelihood(part, law, s[:, 0], scale, are_frequencies)
            counted = H if are_frequencies else w[:, None, None] * H
            Q = classes.leverages(A, E, bread)
            factors = np.sqrt(w) if are_frequencies else w
            middles = []
            for own in (
                r,
                classes.studentized(counted, Q, r),
                classes.without_own_row(counted, Q, r),
            ):
                g = classes.scores(A, E, factors[:, None] * own)
                middles.append(g.T @ g)
            return cls(llf, *middles)

    def join(self, other, *_):
        """Those of both."""
        return Meats(*(a + b for a, b in zip(self, other, strict=True)))


def _log_likelihood(part, law, s, scale, are_frequencies):
    """The log-likelihood of the rows of a partition; NaN without a density."""
    if law.family.log_likelihood is None:
        return np.nan
    mean, exposure = law.mean(s), np.broadcast_to(law.exposure, part.y.shape)
    if are_frequencies:
        return float(part.weights @ law.family.log_likelihood(part.y, mean, exposure, scale))
    return float(law.family.log_likelihood(part.y, mean, exposure, scale / part.weights).sum())


# --- the rows -------------------------------------------------------------------------------------


def _counts_of_levels(part, categories):
    """The weights and the numbers of rows of every level, and of missing values."""
    part = part.positive()
    found = []
    for j, own in enumerate(categories):
        if own is not None:
            codes = np.where(part.X[:, j] < 0.0, len(own), part.X[:, j]).astype(int)
            counts = [np.bincount(codes, w, len(own) + 1) for w in (part.weights, None)]
            found.append(np.array(counts, dtype=float))
    return tuple(found)


def _both(a, b, *_):
    return tuple(x + y for x, y in zip(a, b, strict=True))


def _table_columns(model, cluster):
    """The `TableColumns` of the rows of a cluster."""
    names = [str(name) for name in _check_feature_names_in(model)]
    categories = vars(model).get("categories_")
    if categories is None:
        return TableColumns(names, names, [])
    counts = cluster.total("levels", _counts_of_levels, categories, merge=_both)
    return TableColumns.of_counts(names, categories, counts, model.fit_intercept)


def _parts_of(part, model, columns, law):
    """A `FittedPart` for every target of a partition."""
    part = part.positive()
    X = np.asarray(as_dense(columns.of(part.X)), dtype=np.float64)
    are_classes = hasattr(law.family, "probabilities")
    if is_classifier(model):
        targets = model._targets(base.places_of(model.classes_, part.y), model.classes_)
    else:
        targets = as_columns(part.y)
    targets, exposure = np.asarray(law.family.targets(targets), dtype=float), 1.0
    offset = part.offset
    if part.exposure is not None:
        ones = np.ones(len(X))
        targets, exposure, offset = per_exposure(
            law.family, law.link, targets, ones, part.exposure, offset
        )
    law = law._replace(exposure=exposure, offset=0.0 if offset is None else offset)
    outputs = [targets] if are_classes else list(as_columns(targets).T)
    laws = [law] if are_classes else law.of_outputs(len(outputs))
    pairs = zip(outputs, laws, strict=True)
    return [FittedPart(X, y, part.weights, own, are_classes) for y, own in pairs]


def _one(parts, k):
    return parts[k]


# --- the fit --------------------------------------------------------------------------------------


class ClusterFit:
    """The maximum likelihood fit of one target, or of classes, of the rows of a cluster."""

    def __init__(self, cluster, parts, law, intercept, names, labels):
        self.cluster, self.parts, self.law, self.labels = cluster, parts, law, labels
        self.intercept = bool(intercept or law.family.tied)
        totals: Any = self._total("means", Totals.of)
        self.totals, self.n = totals, totals.weight if totals.are_whole else float(totals.n_rows)
        # Names and kinds, as of a sample without rows.
        weight = 1.0 if totals.are_ones else 2.0 if totals.are_whole else 0.5
        self.sample = SampleRows(
            np.zeros((0, len(names))), np.zeros(0), np.array([weight]), law, self.intercept, names,
            totals.are_whole, labels,
        )  # fmt: skip
        center = totals.columns / totals.weight * self.intercept
        spread: Any = self._total("spread", Spread.of, center)
        scale = np.sqrt(spread.squares / totals.weight)
        constant = scale <= 1e-12 * np.maximum(np.abs(center), 1e-300)
        scale = np.where(constant, 1.0, scale)
        kept, self.aliased = independent(spread.factor / scale, constant, names)
        self.view = StandardView(center, scale, kept, self.intercept)

    def _total(self, what, function, *arguments):
        return self.cluster.total(what, function, *arguments, merge=joined, parts=self.parts)

    def _start(self, view, family):
        """The first parameters: those of a constant."""
        totals, are_classes = self.totals, bool(self.labels)
        m = np.size(totals.y) if are_classes else 1
        E = view.parameters(family, m, are_classes)
        if not view.intercept:
            return np.zeros(E.shape[2])
        start = np.zeros(E.shape[:2])
        mean, offset = totals.y / totals.exposure, totals.offset / totals.weight
        if are_classes:
            constant = family.start(np.reshape(mean, (1, -1)), np.ones(1)) - offset
            start[-1] = constant if family.tied else constant - constant[0]
            return np.linalg.pinv(E.reshape(-1, E.shape[2])) @ start.ravel()
        law = self.law._replace(family=family, exposure=1.0, offset=0.0)
        theta = np.zeros(E.shape[2])
        theta[-1] = law.start(np.array([mean]), np.ones(1)) - offset
        return theta

    def minimum(self, view, family, start=None):
        """Parameters where the slope is 0, the `LossSums` there, and whether they were found."""
        theta = self._start(view, family) if start is None else start
        total = self.totals.weight

        def at(theta, before):
            return self._total("step", LossSums.of, view, theta, before, family)

        variance = self.totals.squares / total - np.square(np.mean(self.totals.y / total))
        limit = 4.0
        if not self.labels and is_identity(self.law.link):
            limit = 4.0 * max(1.0, float(np.sqrt(max(variance, 0.0))))
        now, size = at(theta, theta), np.inf
        rounding = _ROUNDING * now.loss
        for _ in range(_MOST_STEPS):
            step = _step(now, size)
            if step is None:
                return theta, now, False
            part, fall = 1.0, now.slope @ step
            after = at(theta - step, theta)
            size = after.change
            if not np.isfinite(size):
                return theta, now, False
            if size > limit:
                part = limit / size
                after = at(theta - part * step, theta)
            for _ in range(_MOST_HALVINGS):
                if after.loss <= now.loss - _SUFFICIENT * part * fall + rounding:
                    break
                part *= 0.5
                after = at(theta - part * step, theta)
            theta, now = theta - part * step, after
            if size <= _CONVERGED * max(1.0, now.size) or self._is_separable(now):
                break
        return theta, now, size <= 1e-6 * max(1.0, now.size)

    def dispersion(self, family, now, k):
        """1, or Pearson's estimate."""
        return 1.0 if family.unit_scale else now.pearson / (self.n - k)

    def _scale(self, family, now, k):
        """The scale of the log-likelihood, as in `tunefree.uncertainty.inference`."""
        if isinstance(family, Gaussian) and is_identity(self.law.link):
            return 2.0 * now.loss / self.n
        return self.dispersion(family, now, k)

    def meats(self, theta, now, family, bread):
        """The `Meats` at the minimum."""
        scale = self._scale(family, now, len(theta))
        given = self.view, theta, family, bread, scale, self.totals.are_whole
        return self._total("meats", Meats.of, *given)

    def most_likely(self, family):
        """The family with its parameter at maximum likelihood."""
        theta: Any = None

        def cost(share):
            nonlocal theta
            own = family.at(share)
            theta, now, _ = self.minimum(self.view, own, theta)
            bread = np.eye(len(theta))
            return -self.meats(theta, now, own, bread).llf

        best: Any = minimize_scalar(
            cost, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-8}
        )
        return family.at(best.x)

    def kept(self, learns):
        """The `KeptFit`; `learns` is whether the family's parameter is unknown."""
        k = self.view.n_columns * self.sample.n_blocks
        if k >= self.n:
            raise ValueError(f"{k} coefficients are too many for {self.n:.0f} rows: drop columns.")
        family = self.most_likely(self.law.family) if learns else self.law.family
        theta, now, converged = self.minimum(self.view, family)
        self._check_finite(theta, now, family, converged)
        bread = np.linalg.inv(now.curvature)
        meats = self.meats(theta, now, family, bread)
        null = self.minimum(self.view.without_columns(), family)[1]
        statistics = self._statistics(family, now, null, meats.llf, len(theta), learns)
        to_raw, found = self._to_raw(family)
        plain = statistics.scale * np.linalg.inv(now.information)
        sandwiches = [bread @ meat @ bread for meat in meats[1:]]
        kinds = zip(("nonrobust", "HC0", "HC2", "HC3"), [plain, *sandwiches], strict=True)
        if family.log_likelihood is None and not self.labels:
            kinds = list(kinds)[1:]
        coef = np.full(len(found), np.nan)
        coef[found] = to_raw @ theta
        covariances = {}
        for kind, V in kinds:
            wide = np.full((len(found), len(found)), np.nan)
            wide[np.ix_(found, found)] = to_raw @ V @ to_raw.T
            covariances[kind] = wide
        sample = self.sample._replace(law=self.law._replace(family=family))
        kind = "equal" if self.totals.are_ones else None
        kind = kind or ("frequency" if self.totals.are_whole else "precision")
        return KeptFit(
            names=sample.coefficient_names(),
            coef=coef,
            covariances=covariances,
            statistics=statistics,
            family=family,
            link=self.law.link,
            aliased=self.aliased,
            notes=notes_of(sample, len(theta), self.aliased, learns, statistics),
            n_blocks=sample.n_blocks,
            weight_type=kind,
        )

    def _to_raw(self, family):
        """From the parameters to the coefficients of the raw columns, and which these are."""
        to_raw, kept = self.view.to_raw(), self.view.kept
        if self.intercept:
            kept = np.append(kept, True)
        if not self.labels:
            return to_raw, kept
        m = np.size(self.totals.y)
        E = self.view.parameters(family, m, True)
        wide = E.reshape(-1, E.shape[2])
        to_raw = np.linalg.pinv(wide) @ np.kron(to_raw, np.eye(m)) @ wide
        if family.tied:
            kept = np.append(kept[:-1], np.ones(m, dtype=bool))
        return to_raw, np.tile(kept, self.sample.n_blocks)

    def _statistics(self, family, now, null, llf, k, learns):
        deviance, null_deviance = 2.0 * now.loss, 2.0 * null.loss
        constants = len(self.labels) - 1.0 if self.labels else 1.0
        statistics = Statistics(
            nobs=self.n,
            df_model=k - constants,
            df_resid=self.n - k,
            deviance=deviance,
            null_deviance=null_deviance,
            pearson_chi2=now.pearson,
            scale=self.dispersion(family, now, k),
            d2=1.0 - deviance / null_deviance if null_deviance > 0.0 else 1.0,
        )
        if np.isnan(llf):
            return statistics
        n_parameters = k + learns
        aic = 2.0 * (n_parameters - llf)
        bic = float(np.log(self.n)) * n_parameters - 2.0 * llf
        return statistics._replace(llf=llf, aic=aic, bic=bic)

    def _are_shares(self):
        """Whether means are probabilities."""
        return bool(self.labels) or bool(np.isfinite(link_range(self.law.link)).all())

    def _is_separable(self, now):
        """Whether all classes are guessed, with certainty: further steps go on without end."""
        return self._are_shares() and now.at_ends and now.guessed and now.size > LARGEST_INDEX

    def _check_finite(self, theta, now, family, converged):
        """Refuse coefficients that grow without end, and name the columns."""
        are_classes = bool(self.labels)
        is_certain = self._are_shares() and now.at_ends and now.size > LARGEST_INDEX
        separable = self._are_shares() and now.at_ends and now.guessed
        if converged and not separable and not is_certain:
            return
        m = np.size(self.totals.y) if are_classes else 1
        B = self.view.parameters(family, m, are_classes) @ theta
        B = B - B.mean(axis=1, keepdims=True) if are_classes and not family.tied else B
        normal = B[:, int(np.argmax(np.square(B).sum(axis=0)))]
        refuse(self.sample, normal, self.view.kept, separable, "")


def _step(now, size):
    """Newton's step by a curvature along which the loss falls; None if there is none.

    Where the loss is not convex it is Fisher's information, until steps are small.
    """
    by_information = now.lowest < 0.0 and size >= _SMALL_STEP
    tried = [now.information if by_information else now.curvature, now.information]
    for curvature in tried:
        try:
            step = np.linalg.solve(curvature, now.slope)
        except np.linalg.LinAlgError:
            continue
        if now.slope @ step >= 0.0:
            return step
    return None


def fit_likelihood(model, cluster):
    """Learn a generalized linear model by maximum likelihood."""
    _refuse_options(model)
    if is_classifier(model):
        model.family_, model.link_ = model._law(model.classes_)
        model.class_count_ = _class_count(model, cluster)
    else:
        model._flat = not cluster.facts[0].n_outputs
        model.family_, model.link_ = model._law()
        model.input_limits_ = model.prediction_limits_ = None
    model.constraint_ = None
    family = model.family_
    if isinstance(family, Quantile) or type(family).learned is not Family.learned:
        if family.at is None:
            raise ValueError(
                f"potential='none' is not for family={model.family!r} on a cluster, whose fit is "
                "no sum over rows: use GLMRegressor, or another potential."
            )
    law = model._smooth(np.zeros((1, 1)))[0]
    columns = _table_columns(model, cluster)
    worker = copy(model)
    per_target = cluster.each("columns", _parts_of, worker, columns, law)
    labels = [str(label) for label in vars(model).get("classes_", ())]
    labels = labels if hasattr(law.family, "probabilities") else []
    outputs = 1 if is_classifier(model) and len(model.classes_) == 2 else None
    if outputs is None:
        outputs = len(model.classes_) if is_classifier(model) else cluster.n_outputs
    outputs = 1 if labels else outputs
    learns = model._learns_parameter()
    fits = []
    for k in range(outputs):
        parts = cluster.each("target", _one, k, parts=per_target)
        fit = ClusterFit(cluster, parts, law, model.fit_intercept, columns.names, labels)
        fits.append(fit.kept(learns))
    several = bool(cluster.facts[0].n_outputs)
    kept = KeptFits(fits, columns, several, remark=model._ranges_read_as_numbers())
    model._publish_likelihood(kept.coefficient_fits(), columns, cluster.dtype)
    try:
        check_work(0, len(columns.names), fits[0].n_blocks, False)
        model.likelihood_ = kept
    except ValueError as problem:
        model.likelihood_ = KeptFits.without(str(problem))


def _refuse_options(model):
    """Refuse what maximum likelihood does not have, or not on a cluster."""
    if model.constraint is not None:
        raise ValueError("potential='none' has no constraint=: give another potential.")
    if model.formula is not None:
        raise ValueError("On a cluster give the columns in place of formula=.")
    if getattr(model, "class_weight", None) is not None:
        raise ValueError("On a cluster give sample_weight in place of class_weight.")
    if getattr(model, "_learns_link", bool)():
        raise ValueError(f"link={model.link!r} is learned by held-out rows: name a link.")


def _weights_of_classes(part, classes_):
    part = part.positive()
    return (np.bincount(base.places_of(classes_, part.y), part.weights, len(classes_)),)


def _class_count(model, cluster):
    """The weight of the rows of each class."""
    return cluster.total("classes", _weights_of_classes, model.classes_, merge=_both)[0]
