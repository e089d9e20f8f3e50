"""Formulas: a model's columns and targets as text, such as ``claims ~ age + C(region)``.

The library formulaic reads them, and evaluates Python that they contain.
"""

import warnings
from contextlib import contextmanager
from typing import Any


def model_columns(formula: str, frame: Any, intercept: bool) -> tuple[Any, Any]:
    """The columns of a formula without the intercept, and the encoding learned from the rows.

    Parameters
    ----------
    formula : str
    frame : frame of shape (n, d)
    intercept : bool
        Whether the model has an intercept, so that one level of a category has no column.

    Returns
    -------
    columns : pandas.DataFrame of shape (n, n_columns)
    spec : formulaic.ModelSpec
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
    (['age', 'C(city)[T.v]', 'age:C(city)[T.v]'], ['age', 'C(city)', 'age:C(city)'])
    """
    right = _sides(formula, intercept)[1]
    if ("1" in map(str, right)) != intercept:
        has = "has no" if intercept else "has an"
        raise ValueError(
            f"formula={formula!r} {has} intercept: with it give fit_intercept={not intercept}."
        )
    if len(right) == intercept:
        raise ValueError(f"formula={formula!r} has no column: a model needs one.")
    matrix = _matrix(right, frame, formula)
    return _without_intercept(matrix), matrix.model_spec


def encoded(formula: str, spec: Any, frame: Any) -> Any:
    """The columns of new rows, by the encoding of `model_columns`; new levels are an error."""
    return _without_intercept(_matrix(spec, frame, formula))


def terms_of(spec: Any) -> list[str]:
    """The term of every column."""
    terms = [str(term) for term, columns in spec.term_indices.items() for _ in columns]
    return [term for term in terms if term != "1"]


def containing_terms(spec: Any) -> dict[str, list[str]]:
    """The terms that contain each term, by all of its factors: its interactions.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": [1.0, 2.0, 4.0], "city": ["u", "v", "v"]})
    >>> containing_terms(model_columns("age * C(city)", frame, True)[1])["age"]
    ['age:C(city)']
    """
    factors = {str(term): set(map(str, term.factors)) for term in spec.term_indices}
    factors.pop("1", None)
    return {
        name: [other for other, theirs in factors.items() if own < theirs]
        for name, own in factors.items()
    }


def targets_of(formula: str, frame: Any) -> Any:
    """The left-hand side of a formula: a column of the frame, or numbers made of its columns.

    Examples
    --------
    >>> import pandas as pd
    >>> targets_of("np.log2(size) ~ age", pd.DataFrame({"size": [2.0, 8.0]}))
    array([1., 3.])
    """
    left = _sides(formula)[0]
    if left is None:
        raise ValueError(f"formula={formula!r} has no left-hand side: give y=.")
    names = list(getattr(frame, "column_names", getattr(frame, "columns", ())))
    if len(left) == 1 and str(left[0]) in names:
        return frame[str(left[0])]
    values = _matrix(left, frame, formula, missing="ignore").to_numpy()
    return values[:, 0] if values.shape[1] == 1 else values


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


def _matrix(side, frame, formula, missing="raise"):
    """The model matrix of one side."""
    if hasattr(frame, "to_pandas"):
        frame = frame.to_pandas()
    if not hasattr(frame, "columns"):
        raise ValueError(f"formula={formula!r} needs a frame with named columns, not an array.")
    with _named(formula):
        return side.get_model_matrix(frame, context={}, na_action=missing, output="pandas")


def _without_intercept(matrix):
    first = int("1" in map(str, matrix.model_spec.formula))
    return matrix.iloc[:, first:]


@contextmanager
def _named(formula):
    """Errors of formulaic, and its warning of new levels, as errors that name the formula."""
    from formulaic.errors import DataMismatchWarning, FormulaicError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DataMismatchWarning)
            yield
    except DataMismatchWarning as warning:
        words = str(warning).split(". ")[0]
        raise ValueError(f"formula={formula!r}: {words}.") from None
    except (FormulaicError, ValueError) as problem:
        words = str(problem).split("\n")[0]
        raise ValueError(f"formula={formula!r}: {words}") from problem
