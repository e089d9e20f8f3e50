"""What the generalized linear models share: their columns, formulas, tables and likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from tunefree.base import base
from tunefree.base.diagnostics import DiagnosticsMixin
from tunefree.base.exposures import row_term
from tunefree.parts.families import FAMILIES, Family
from tunefree.parts.links import LINKS, link_range
from tunefree.reflectron.descent import DescentResult
from tunefree.reflectron.likelihood import distance, line_of, most_likely, warn_aliased
from tunefree.reflectron.reflectron import COMMON, FITTED, GEOMETRY, MirrorDescent
from tunefree.rows import formulas
from tunefree.rows.columns import column_named, named_table, names_of, without_columns
from tunefree.rows.levels import Coded, TableColumns, coded, coefficient_names
from tunefree.rows.missing import is_finite_number
from tunefree.rows.units import Units
from tunefree.uncertainty.kept import KeptFit, KeptFits, check_work
from tunefree.uncertainty.laws import Law
from tunefree.uncertainty.mean_bands import unknown_rows

# What a column of X may be that is no feature.
_ROLES = ("sample_weight", "exposure", "offset")

_FORMULA = """formula : str or None, default=None
        The columns, and y where it is not given, as text: ``"claims ~ age + C(region)"``. It is
        read by formulaic (``pip install 'tunefree[formula]'``), which evaluates the Python in it.
        All methods then take a frame. A model file keeps formulas of arithmetic, log, exp, sqrt, C,
        bs, cr, poly, center, scale, ``a:b``, ``a*b`` and ``offset(...)``."""

_SELECTION = """per_output : bool, default=False
        With several outputs, potential and constraint act on the whole matrix of coefficients (so
        that outputs share the pattern of sparsity); with True on every output separately.
    validation_fraction : float in [0, 1) or 'auto', default='auto'
        Share of the rows held out to choose the iterate and the configuration; 'auto' is a fifth,
        or less if disjoint splits need it. One row in round(1 / share) is held out.
    n_splits : int or 'auto', default='auto'
        The number of disjoint folds. For each a model learns from the other rows, with the same
        steps as the model that learns from all rows. 'auto' is 5 below 20,000 rows in memory, or
        1,000 of a source, else 1.
    tol : float, default=1e-3
        Fall of the deviance that counts as progress, relative to the deviance and a tenth of the
        start's."""

_LAST = """warm_start : bool, default=False
        Start from the last fit's coefficients.
    n_jobs : int or None, default=None
        Threads for batches of 16,384 rows or more, all by default; results do not depend on it.
    verbose : bool or int, default=False
        Print the progress of `fit` on stderr.
    random_state : int, RandomState or None, default=None
        Seed of the hash by which rows are held out."""

_FITTED = """family_ : part
        The family in use.
    categories_ : list or None
        For a data frame with columns of text or categories, the levels of each (None: numbers).
        ``coef_`` has an entry for every column of numbers and then for every level; indicator
        columns are not stored in memory. A new level has the coefficient 0; with potential='none'
        `predict` warns of it, because that is the reference level's.
    coef_names_ : ndarray of str
        The names of the entries of ``coef_``.
    likelihood_ : part
        What `summary`, `coef_interval` and `anova` need of the rows of `fit`, or why there is no
        table.
    model_spec_ : formulaic.ModelSpec or None
        The columns of the formula as learned, with levels and means.
    """

_NONE = """. 'none' is maximum likelihood: no penalty, no held-out rows,
        no early stop, no limits of predictions; `predict` is then that of the table of `summary`"""

TEXTS = {
    "formula": _FORMULA,
    "geometry": GEOMETRY.replace(
        "{also}", ", and up to 500 columns `Whitened` in four\n        shrinkages" + _NONE
    ),
    "common": COMMON,
    "selection": _SELECTION,
    "last": _LAST,
    "fitted": _FITTED + FITTED,
}


class GeneralizedLinearModel(DiagnosticsMixin, MirrorDescent):
    """Coefficients of a fitted family and link, with intervals."""

    constraint_: Any
    family: Any
    family_: Any
    formula: Any
    link_: Any
    model_spec_: Any
    # Whether `fit` keeps the maximum likelihood fit; the models of a stack do not need it.
    _keeps_likelihood = True

    @property
    def coef_names_(self) -> np.ndarray:
        """The names of the entries of `coef_`: columns of numbers, then the levels of categories.

        Features of a map are numbered.
        """
        check_is_fitted(self, "link_")
        if vars(self).get("feature_map_") is not None:
            names = [f"feature {j}" for j in range(np.shape(self.coef_)[-1])]
            return np.array(names, dtype=object)
        names = [str(name) for name in _check_feature_names_in(self)]
        categories = vars(self).get("categories_")
        if categories is not None:
            names = coefficient_names(names, categories)
        return np.array(names, dtype=object)

    def _encoded(self, X, y):
        """For `fit`: the `Coded` rows, the formula's encoding, and targets."""
        if self.formula is None:
            return coded(X), None, y
        columns, spec = formulas.model_columns(self.formula, X, self.fit_intercept)
        return Coded(columns, None, None), spec, self._targets_given(X, y)

    def _take_columns(self, arguments):
        """Replace names of columns by their numbers, and take these out of X."""
        X, self.row_columns_ = arguments["X"], {}
        for role in _ROLES:
            values = arguments.get(role)
            if isinstance(values, str):
                arguments[role] = column_named(X, values, role)
                self.row_columns_[role] = values
            elif role == "offset" and _are_of_columns(values, X):
                arguments[role] = _columns_named(X, values)
                self.row_columns_[role] = values
        if self.formula is None:
            arguments["X"] = self._without_roles(X)

    def _without_roles(self, X):
        """X without the columns that are no features."""
        names = []
        for found in vars(self).get("row_columns_", {}).values():
            names += [found] if isinstance(found, str) else list(in_columns(found))
        return without_columns(X, names)

    def _column_of_role(self, X, values, role):
        """The numbers of a role: as given, or those of its column in X; else None."""
        if role == "offset" and _are_of_columns(values, X):
            return _columns_named(X, values)
        name = values if isinstance(values, str) else vars(self).get("row_columns_", {}).get(role)
        if name is None or not (values is None or isinstance(values, str)):
            return values
        if values is None and role == "sample_weight" and name not in (names_of(X) or ()):
            return None
        return column_named(X, name, role) if isinstance(name, str) else _columns_named(X, name)

    def _weights_of_rows(self, X, sample_weight):
        return self._column_of_role(X, sample_weight, "sample_weight")

    def _terms_of_rows(self, X, exposure, offset):
        exposure = self._column_of_role(X, exposure, "exposure")
        offset = self._column_of_role(X, offset, "offset")
        own = self._offset_of_formula(X)
        if own is None:
            return exposure, offset
        given: Any = offset
        if np.ndim(given) == 2 and np.shape(given)[1] > 1:
            raise ValueError(
                "offset= has a column for each class, and the formula has offset(...): give one of "
                "them."
            )
        return exposure, own if offset is None else own + np.asarray(offset, dtype=np.float64)

    def _offset_of_formula(self, X):
        """The sum of the formula's terms ``offset(...)``; None if it has none."""
        spec = vars(self).get("model_spec_")
        return None if spec is None else formulas.offset_of(spec, X)

    def _coded(self, X, unknown=None):
        X = self._without_roles(X)
        spec = vars(self).get("model_spec_")
        if spec is None:
            return super()._coded(X, unknown)
        return formulas.encoded(self.formula, spec, X)

    def _margins(self, X, limits=None):
        kept = vars(self).get("likelihood_")
        if kept is None or kept.problem or not self._is_unpenalized():
            return super()._margins(X, limits)
        unknown = []  # named by the warning of rows
        X = base.check_rows(self, self._coded(X, unknown))
        reference = ", ".join(f"{n} = {level}" for n, level in kept.columns.reference.items())
        fate = f"they count as the reference level ({reference})"
        unknown_rows(kept.columns, X, fate, unknown)
        return self._margins_of_rows(X, limits)

    def _targets_given(self, X, y):
        if y is None and self.formula is not None:
            return formulas.targets_of(self.formula, X, vars(self).get("model_spec_"))
        return y

    def _after_fit(self, X, y, sample_weight):
        super()._after_fit(X, self._targets_given(X, y), sample_weight)

    def _stream_law(self):
        self._refuse_chunks()
        return super()._stream_law()

    def _fit_rows(self, *source):
        self._refuse_chunks()
        super()._fit_rows(*source)
        vars(self).pop("likelihood_", None)  # of rows that `fit` had before

    def _learn(self, X, targets, weights, flat, is_open=False):
        super()._learn(X, targets, weights, flat, is_open)
        vars(self).pop("likelihood_", None)  # of rows that `fit` had before

    def _refuse_chunks(self):
        if self.formula is not None:
            raise ValueError("formula= needs a frame in memory: use fit.")
        if self._is_unpenalized():
            raise ValueError("potential='none' needs all rows in memory: use fit.")

    def _smooth(self, y):
        """The `Law` and the targets for inference of coefficients."""
        if self.constraint_ is not None:
            raise ValueError(
                "Coefficients have no valid intervals with constraint=: fit without it."
            )
        family, link = self.family_, self.link_
        if hasattr(family, "probabilities"):
            return Law(family, getattr(family, "cumulative", LINKS["logit"])), family.targets(y)
        bent = hasattr(family, "levels") and link != LINKS["identity"]
        if bent or not hasattr(link, "slope") or hasattr(link, "base"):
            raise ValueError(
                f"Coefficients of family={family!r} with the link {type(link).__name__} have no "
                "valid intervals: these need one smooth index for each target, and a link that "
                "was not learned."
            )
        return Law(family, link), family.targets(y)

    def _rows_of_tables(self, X):
        return super()._rows_of_tables(self._coded(X))

    def _table_columns(self, rows, weights, reference):
        categories = vars(self).get("categories_")
        columns = super()._table_columns(rows, weights, reference if categories is None else {})
        if vars(self).get("model_spec_") is not None:
            spec = self.model_spec_
            return columns._replace(own_terms=formulas.terms_of(spec), of_factors=spec.reference)
        if categories is None:
            return columns
        names = columns.numbers
        return TableColumns.learned(rows, names, categories, weights, self.fit_intercept, reference)

    def _is_unpenalized(self):
        """Whether the model is the maximum likelihood fit."""
        return isinstance(self.potential, str) and self.potential == "none"

    def _keep_likelihood(self, rows, y, weights, exposure=None, offset=None, fits=None):
        """Keep the maximum likelihood fits of checked rows, for tables without them.

        `fits` are these fits, if they were needed before.
        """
        if not self._keeps_likelihood:
            return
        try:
            with np.errstate(all="ignore"):
                columns = self._table_columns(rows, weights, {})
                law, targets = self._estimand_of_rows(np.asarray(y), exposure, offset)
                n_blocks = 1 if law.family.tied else max(len(targets.T) - 1, 1)
                check_work(len(targets), len(columns.names), n_blocks, self._learns_parameter())
                if fits is None:
                    fits = self._fits_of(columns.of(rows), columns, law, targets, weights, None)
                remark = self._distance(fits, rows, weights, offset)
                self.likelihood_ = self._kept_of(fits, columns, np.ndim(y) == 2, remark)
        except ValueError as problem:
            self.likelihood_ = KeptFits.without(str(problem))

    def _kept_of(self, fits, columns, are_several, remark=""):
        """The `KeptFits` of fits with rows."""
        containing = self._containing_terms()
        kept = [KeptFit.of(fit, columns, containing) for fit in fits]
        return KeptFits(kept, columns, are_several, remark=remark)

    def _distance(self, fits, rows, weights, offset):
        """How far the model's predictions of checked rows are from the fits, in a sentence."""
        read = self._ranges_read_as_numbers()
        if self._is_unpenalized():
            return read
        margins = self._margins_of_rows(rows)[weights > 0.0]
        if offset is not None:
            margins = margins + self._added(offset, rows)[weights > 0.0]
        far = distance(fits, self._means_of(margins), hasattr(self, "classes_"))
        return " ".join(part for part in (read, far) if part)

    def _ranges_read_as_numbers(self):
        """Which columns of ranges are numbers, in a sentence: elsewhere they would be levels."""
        schema: Any = vars(self).get("schema_")
        if schema is None:
            return ""
        pairs = zip(schema.names, schema.columns, strict=True)
        names = [str(name) for name, own in pairs if _has_ranges(own.written)]
        if not names:
            return ""
        return (
            f"Ranges of {', '.join(names)} are their middles, and bounds such as <25 the number: a "
            "category dtype, or C(...) in a formula, has a coefficient for every level."
        )

    def _added(self, offset, rows):
        """What the offset adds to the indices of rows, (n, 1), or (n, n_classes)."""
        return np.reshape(row_term(offset, rows, "offset"), (-1, 1))

    def _solve(self, rows, y, weights, exposure=None, offset=None):
        """Set the coefficients, and what predictions need, to those of maximum likelihood."""
        if self.constraint is not None:
            raise ValueError("potential='none' has no constraint=: give another potential.")
        columns = self._table_columns(rows, weights, {})
        law, targets = self._estimand_of_rows(np.asarray(y), exposure, offset)
        A = columns.of(rows)

        def fits_of(law):
            return self._fits_of(A, columns, law, targets, weights, None)

        with np.errstate(all="ignore"):
            fits = most_likely(fits_of, law, targets, weights)
        self._publish_likelihood(fits, columns, np.result_type(rows.dtype, np.float32))
        try:
            check_work(len(targets), len(columns.names), fits[0].n_blocks, False)
            remark = self._ranges_read_as_numbers()
            self.likelihood_ = self._kept_of(fits, columns, np.ndim(y) == 2, remark)
        except ValueError as problem:
            self.likelihood_ = KeptFits.without(str(problem))

    def _publish_likelihood(self, fits, columns, dtype):
        """Set the coefficients, and what predictions need, to those of `CoefficientFit`s."""
        warn_aliased(fits)
        levels = self._levels_of_columns()
        sizes = () if levels is None else levels.sizes
        line = line_of(fits, columns, sizes, fits[0].family.tied)
        family = self.family_ if len(fits) > 1 else fits[0].family
        units = Units.unchanged(line.coef.shape[1])
        own: Any = family, self.link_, units
        self.held_out_ = self.feature_map_ = self._stream = None
        self._publish(DescentResult(*line, [], {}, 1, *own), dtype)
        self.potential_, self.constraint_, self.leaderboard_ = self.potential, None, []

    def _check_unpenalized(self, X_val):
        """Refuse validation rows, which would have nothing to choose."""
        if X_val is not None:
            raise ValueError("potential='none' has nothing to choose by X_val=: leave it out.")

    def _containing_terms(self):
        spec = vars(self).get("model_spec_")
        return {} if spec is None else formulas.containing_terms(spec)

    def _learns_parameter(self):
        named = isinstance(self.family, Family) or self.family in FAMILIES.names()
        given = FAMILIES.find(self.family) if named else None
        is_open = given is None or None in vars(given).values()
        return self.family_.at is not None and is_open


def are_names(values):
    """Whether values name a column of X for each class: a list of texts, or a dict by class."""
    names = in_columns(values) if isinstance(values, list | tuple | dict) else ()
    return len(names) > 0 and all(isinstance(name, str) for name in names)


def _are_of_columns(values, X):
    """Whether values name columns of X, and are no numbers as text."""
    if not are_names(values):
        return False
    names = in_columns(values)
    own = names_of(X) or ()
    return any(name in own for name in names) or not any(map(is_finite_number, names))


def in_columns(values):
    """The names of columns in a list, or in a dict by class."""
    return list(values.values()) if isinstance(values, dict) else list(values)


def _columns_named(X, values):
    """The offsets of several classes from columns of X; a frame if the columns are by class."""
    columns = [column_named(X, name, "offset") for name in in_columns(values)]
    labels = [str(label) for label in values] if isinstance(values, dict) else None
    return named_table(columns, labels)


def _has_ranges(written):
    """Whether the numbers of a column are written as ranges, such as 25-29."""
    return "ranges" in getattr(written, "styles", "").split()


def suits(link, family):
    """Whether the means of a link lie in the range of a family."""
    (low, high), (least, most) = link_range(link), family.range
    return low >= least and high <= most


def check_link(link, family, name):
    """Refuse a link that a family cannot have."""
    if not suits(link, family):
        (low, high), (least, most) = link_range(link), family.range
        raise ValueError(
            f"link={name!r} has means from {low:g} to {high:g}, but {family!r} has means from "
            f"{least:g} to {most:g}: choose another link or family."
        )
    if not hasattr(link, "slope"):
        raise ValueError(f"link={name!r} needs a method slope(s) with a family.")
