"""Formulas: a model's columns and targets as text, such as ``claims ~ age + C(region)``.

The library formulaic reads them, and evaluates Python that they contain.
"""

import ast
import re
import warnings
from contextlib import contextmanager
from typing import Any

import numpy as np

from tunefree.core.warn import DataWarning, warn
from tunefree.rows.columns import of_array
from tunefree.rows.formula_columns import (
    QUOTED,
    Factor,
    FormulaColumns,
    NotPlain,
    Term,
    is_plain,
    learned_state,
    reduced_factors,
    tree_of,
)
from tunefree.rows.schema import numbers_among

# The types of objects that are whole numbers or truth values.
_OF_OBJECTS: Any = {"integer": np.int64, "boolean": bool}


def model_columns(formula: str, frame: Any, intercept: bool) -> tuple[Any, FormulaColumns]:
    """The columns of a formula without the intercept, and the encoding learned from the rows.

    The reference level of a factor is that of most rows, as without a formula; of several the
    first by name.

    Parameters
    ----------
    formula : str
    frame : frame of shape (n, d)
    intercept : bool
        Whether the model has an intercept, so that one level of a category has no column.

    Returns
    -------
    columns : pandas.DataFrame of shape (n, n_columns)
    spec : FormulaColumns
        For `encoded` and `terms_of`.

    Raises
    ------
    ImportError
        Without formulaic.
    ValueError
        If the formula is invalid, has an intercept that the model does not have (or the reverse),
        or has missing values.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": [1.0, 2.0, 4.0], "city": ["u", "v", "v"]})
    >>> columns, spec = model_columns("age * C(city)", frame, True)
    >>> list(columns), terms_of(spec)
    (['age', 'C(city)[T.u]', 'age:C(city)[T.u]'], ['age', 'C(city)', 'age:C(city)'])
    """
    left, right = _sides(formula, intercept)
    if ("1" in map(str, right)) != intercept:
        has = "has no" if intercept else "has an"
        raise ValueError(
            f"formula={formula!r} {has} intercept: with it give fit_intercept={not intercept}."
        )
    texts = [str(term) for term in right]
    offsets = [text for text in texts if text.startswith("offset(")]
    right = type(right)([term for term in right if str(term) not in offsets])
    if len(right) == intercept:
        raise ValueError(f"formula={formula!r} has no column: a model needs one.")
    frame = _without_unused(_as_pandas(frame, formula))
    _check_columns(right, frame, formula)
    matrix = _matrix(right, frame, formula)
    states = _levels_by_rows(matrix.model_spec, frame, formula)
    if states:
        matrix = _matrix(_model_spec(right, encoder_state=states), frame, formula)
    spec = FormulaColumns(
        formula=formula,
        target=None if left is None else [str(term) for term in left],
        offsets=[text[len("offset(") : -1] for text in offsets],
        terms=_terms(matrix.model_spec),
        factors={},
        states={},
        spec=matrix.model_spec,
    )
    plain = _plain(spec, matrix.model_spec, frame)
    if plain is None:
        if QUOTED.search(formula) and matrix.model_spec.transform_state:
            # Formulaic would learn their state from new rows, without a warning.
            calls = ", ".join(text for text in map(str, right) if QUOTED.search(text))
            raise ValueError(
                f"formula={formula!r}: {calls} cannot be kept for new rows; rename the columns "
                "in backticks, without blanks and signs."
            )
        return _without_intercept(matrix), spec
    own = encoded(formula, plain, frame)
    if np.allclose(own, _without_intercept(matrix), rtol=1e-9, atol=1e-9):
        return own, plain
    return _without_intercept(matrix), spec


def _levels_by_rows(spec, frame, formula):
    """The states of factors whose reference is not the first level by name: {text: state}.

    It is the level of most rows, of several the first by name. A factor with its own contrasts, or
    ``levels=``, keeps its own.
    """
    from formulaic import SimpleFormula
    from formulaic.parser.types import Term as OneTerm
    from formulaic.transforms.contrasts import TreatmentContrasts

    factors = {str(factor): factor for term in spec.formula for factor in term.factors}
    reduced = reduced_factors(_terms(spec))
    states = {}
    for text, (kind, state) in spec.encoder_state.items():
        coding = getattr(state.get("contrasts"), "contrasts", None)
        if coding != TreatmentContrasts() or text not in reduced or _names_levels(text):
            continue
        alone = _model_spec(SimpleFormula([OneTerm([factors[text]])]), ensure_full_rank=False)
        rows = _matrix(alone, frame, formula).to_numpy(dtype=float).sum(axis=0)
        levels = list(state["categories"])
        most = [level for level, n in zip(levels, rows, strict=True) if n == rows.max()]
        first = min(most, key=lambda level: (isinstance(level, str), level))
        if first != levels[0]:
            levels.remove(first)
            states[text] = kind, {"categories": [first, *levels]}
    return states


def _without_unused(frame):
    """A frame of pandas whose categories are those that rows have."""
    unused = {
        name: column.cat.remove_unused_categories()
        for name, column in frame.items()
        if hasattr(column, "cat")
    }
    return frame.assign(**unused) if unused else frame


def _names_levels(text):
    """Whether a factor is a call with the levels in the user's order."""
    tree = None if _is_name(text) else tree_of(text)
    return isinstance(tree, ast.Call) and any(word.arg == "levels" for word in tree.keywords)


def _model_spec(formula, **settings):
    from formulaic import ModelSpec

    return ModelSpec(formula=formula, **settings)


def _terms(spec):
    """The `Term`s of formulaic's structure."""
    found = []
    for own in spec.structure:
        name, parts = str(own.term), []
        if name == "1":
            continue
        for scoped in own.scoped_terms:
            texts = [str(scaled.factor.factor) for scaled in scoped.factors]
            parts.append((texts, [bool(each.reduced) for each in scoped.factors], scoped.scale))
        factors = [str(factor) for factor in own.term.factors]
        found.append(Term(name, factors, list(own.columns), parts))
    return found


def _plain(columns, spec, frame):
    """The columns without formulaic's encoding; None if they need its code."""
    if not is_plain(columns.formula):
        return None
    names = set(map(str, frame.columns))
    try:
        states: dict[str, dict] = {
            ast.unparse(_with_names(text, columns.formula, names)): learned_state(text, state)
            for text, state in spec.transform_state.items()
            if state
        }
        factors = {
            text: _factor(text, state[1], state[0].value, names)
            for text, state in spec.encoder_state.items()
        }
    except (NotPlain, KeyError, ValueError, AttributeError, SyntaxError):
        return None
    plain = columns._replace(factors=factors, states=states, spec=None)
    for text, state in states.items():
        if state["kind"] == "poly":
            x = plain.value(ast.unparse(tree_of(text).args[0]), frame)
            state["ends"] = np.array([np.min(x), np.max(x)], dtype=float)
    return plain


def _with_names(text, formula, names):
    """The tree of a call with its names in backticks, for which formulaic has others.

    These have no blanks, and a random end where a column has that name.
    """
    quoted = dict.fromkeys(QUOTED.findall(formula))
    tree = tree_of(text)
    for node in ast.walk(tree):
        for field, child in ast.iter_fields(node):
            children = child if isinstance(child, list) else [child]
            own = [_with_name(each, quoted, names) for each in children]
            setattr(node, field, own if isinstance(child, list) else own[0])
    return tree


def _with_name(node, quoted, names):
    """A call of ``Q`` for a name that stands for one in backticks, else the node."""
    if not isinstance(node, ast.Name) or node.id in names:
        return node
    found = [q for q in quoted if re.fullmatch(re.sub(r"\W", "_", q) + "(_[a-z]{10})?", node.id)]
    if len(found) > 1:
        raise NotPlain(f"{found[0]!r} and {found[1]!r} are alike.")
    return tree_of(f"`{found[0]}`") if found else node


def _factor(text, state, kind, names):
    """A `Factor` as formulaic has learned it."""
    expression = f"`{text}`" if text in names or _is_name(text) else text
    if kind != "categorical":
        return Factor(expression)
    coding, levels = state["contrasts"].contrasts, list(state["contrasts"].levels)
    tree = tree_of(expression)
    if isinstance(tree, ast.Call) and ast.unparse(tree.func) == "C":
        expression = ast.unparse(tree.args[0])
    full, reduced = (
        np.asarray(coding.get_coding_matrix(levels, reduced_rank=one, sparse=False), dtype=float)
        for one in (False, True)
    )
    lacking = np.flatnonzero(~reduced.any(axis=1))
    reference = str(levels[lacking[0]]) if len(lacking) == 1 else None
    plain = [level.item() if hasattr(level, "item") else level for level in levels]
    return Factor(expression, plain, full, reduced, reference)


def _is_name(text):
    """Whether a factor is the name of a column, not an expression."""
    try:
        return isinstance(tree_of(text), ast.Name)
    except NotPlain:
        return True


def encoded(formula: str, spec: FormulaColumns, frame: Any) -> Any:
    """The columns of new rows, by the encoding of `model_columns`; new levels are an error."""
    frame = _as_pandas(frame, formula)
    if spec.spec is not None:
        return _without_intercept(_matrix(spec.spec, frame, formula))
    import pandas as pd

    with _named(formula):
        return pd.DataFrame(spec.of(frame), columns=spec.names, index=frame.index)


def offset_of(spec: FormulaColumns, frame: Any) -> Any:
    """The sum of the terms ``offset(...)`` of rows; None if the formula has none."""
    if not spec.offsets:
        return None
    with _named(spec.formula):
        return spec.offset(_as_pandas(frame, spec.formula))


def terms_of(spec: FormulaColumns) -> list[str]:
    """The term of every column."""
    return [term.name for term in spec.terms for _ in term.columns]


def containing_terms(spec: FormulaColumns) -> dict[str, list[str]]:
    """The terms that contain each term, by all of its factors: its interactions.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": [1.0, 2.0, 4.0], "city": ["u", "v", "v"]})
    >>> containing_terms(model_columns("age * C(city)", frame, True)[1])["age"]
    ['age:C(city)']
    """
    factors = {term.name: set(term.factors) for term in spec.terms}
    return {
        name: [other for other, theirs in factors.items() if own < theirs]
        for name, own in factors.items()
    }


def targets_of(formula: str, frame: Any, spec: Any = None) -> Any:
    """The left-hand side of a formula: a column of the frame, or numbers made of its columns.

    `spec` are the `FormulaColumns` of a fit; without formulaic's encoding no code is run.

    Examples
    --------
    >>> import pandas as pd
    >>> targets_of("np.log2(size) ~ age", pd.DataFrame({"size": [2.0, 8.0]}))
    array([1., 3.])
    """
    if spec is not None and spec.spec is None:
        return _plain_targets(spec, frame)
    left = _sides(formula)[0]
    if left is None:
        raise ValueError(f"formula={formula!r} has no left-hand side: give y=.")
    names = list(getattr(frame, "column_names", getattr(frame, "columns", ())))
    if len(left) == 1 and str(left[0]) in names:
        return frame[str(left[0])]
    values = _matrix(left, frame, formula, missing="ignore").to_numpy()
    return values[:, 0] if values.shape[1] == 1 else values


def _plain_targets(spec, frame):
    """The left-hand side of a plain formula."""
    if spec.target is None:
        raise ValueError(f"formula={spec.formula!r} has no left-hand side: give y=.")
    names = list(getattr(frame, "column_names", getattr(frame, "columns", ())))
    if len(spec.target) == 1 and spec.target[0] in names:
        return frame[spec.target[0]]
    frame = _as_pandas(frame, spec.formula)
    with _named(spec.formula):
        values = [np.asarray(spec.value(text, frame), dtype=float) for text in spec.target]
    return values[0] if len(values) == 1 else np.column_stack(values)


def _sides(formula, intercept=True):
    """The left-hand side of a formula, None if it has none, and the right-hand side."""
    try:
        from formulaic import Formula, SimpleFormula
        from formulaic.parser import DefaultFormulaParser
    except ImportError as error:
        raise ImportError("formula= needs formulaic: pip install 'tunefree[formula]'.") from error
    if not isinstance(formula, str):
        raise ValueError(f"formula={formula!r} is neither None nor text.")
    with _named(formula):
        parsed: Any = Formula(DefaultFormulaParser(include_intercept=intercept).get_terms(formula))
    left, right = getattr(parsed, "lhs", None), getattr(parsed, "rhs", parsed)
    if not all(side is None or isinstance(side, SimpleFormula) for side in (left, right)):
        raise ValueError(f"formula={formula!r} has parts apart from one left and one right side.")
    return left, right


def _as_pandas(frame, formula):
    """A frame of pandas."""
    if hasattr(frame, "to_pandas"):
        frame = frame.to_pandas()
    if not hasattr(frame, "columns"):
        raise ValueError(f"formula={formula!r} needs a frame with named columns, not an array.")
    named = ((name, column) for name, column in frame.items() if isinstance(name, str))
    plain = {name: found for name, column in named if (found := _plain_type(column)) is not None}
    return frame.assign(**plain) if plain else frame


def _plain_type(series):
    """A column with a type of NumPy; None if formulaic reads it as it is.

    It would make a category of every column of objects, numbers or not.
    """
    dtype = series.dtype
    if isinstance(dtype, np.dtype):
        if dtype.kind != "O":
            return None
        from pandas.api.types import infer_dtype

        found = infer_dtype(series, skipna=True)
        if found not in ("integer", "floating", "mixed-integer-float", "decimal", "boolean"):
            return None
        has_gaps = bool(series.isna().any())
        return series.astype(float if has_gaps or found not in _OF_OBJECTS else _OF_OBJECTS[found])
    name = str(dtype)
    if name in ("category", "str") or name.startswith(("datetime", "period", "interval", "Sparse")):
        return None
    number = getattr(dtype, "numpy_dtype", np.dtype(object))
    if number.kind in "iufb":
        return series.astype(float if series.isna().any() else number)
    return _of_objects(series)


def _of_objects(series):
    """A column of an extension of pandas as objects, or as numbers if they are some."""
    objects = series.astype(object).where(series.notna(), None)
    found = _plain_type(objects)
    return objects if found is None else found


def _check_columns(side, frame, formula):
    """Refuse columns of dates, which are no factors; warn of levels that are numbers."""
    for factor in dict.fromkeys(str(factor) for term in side for factor in term.factors):
        if factor not in frame:
            continue
        column = frame[factor]
        if getattr(column.dtype, "kind", "") == "M":
            raise ValueError(
                f"formula={formula!r}: column {factor!r} holds dates: give numbers, such as days "
                "since a date."
            )
        if column.dtype == object or str(column.dtype) == "str":
            _warn_of_numbers(factor, column, formula)


def _warn_of_numbers(name, column, formula):
    """Warn of a column of text that are numbers."""
    raw = of_array(column.to_numpy(dtype=object))
    if raw.texts is None or raw.missing.any() or np.isnan(numbers_among(raw)).any():
        return
    warn(
        f"formula={formula!r}: column {name!r} holds numbers as text such as {raw.text(0)!r:.40}, "
        f"and each is a level: give numbers, or C({name}) if they are names.",
        DataWarning,
    )


def _matrix(side, frame, formula, missing="raise"):
    """The model matrix of one side."""
    frame = _as_pandas(frame, formula)
    with _named(formula):
        return side.get_model_matrix(frame, context={}, na_action=missing, output="pandas")


def _without_intercept(matrix):
    first = int("1" in map(str, matrix.model_spec.formula))
    return matrix.iloc[:, first:]


@contextmanager
def _named(formula):
    """Errors of formulaic, and its warning of new levels, as errors that name the formula."""
    try:
        from formulaic.errors import DataMismatchWarning, FormulaicError
    except ImportError:  # columns without code need no formulaic
        DataMismatchWarning, FormulaicError = UserWarning, ValueError
    try:
        with warnings.catch_warnings():
            if DataMismatchWarning is not UserWarning:
                warnings.simplefilter("error", DataMismatchWarning)
            yield
    except DataMismatchWarning as warning:
        words = str(warning).split(". ")[0]
        raise ValueError(f"formula={formula!r}: {words}.") from None
    except (FormulaicError, SyntaxError, ValueError) as problem:
        words = str(problem).split("\n")[0]
        if words.startswith("The `.` operator"):
            words = "'.' for all columns is not read: name the columns."
        raise ValueError(f"formula={formula!r}: {words}") from problem
