"""The columns of a formula as learned, without code: they are read from a syntax tree.

A formula may call the functions below and compute with ``+ - * / **`` and comparisons. Others need
formulaic, which runs them as Python; a model file holds none of these.
"""

import ast
import keyword
import re
from typing import Any, NamedTuple

import numpy as np
from scipy import interpolate

from tunefree.core.warn import warn

_NUMPY = (
    "log log10 log2 log1p exp expm1 sqrt abs square sin cos tan arctan tanh floor ceil round sign "
    "minimum maximum"
).split()
_FUNCTIONS = {name: getattr(np, name) for name in _NUMPY} | {"I": lambda values: values}
_LEARNED = ("bs", "cr", "cs", "cc", "poly", "center", "scale", "standardize")
_CODING = ("C", "Q", "offset", "treatment", "sum", "helmert", "diff", "poly", "Treatment", "Sum")
_CALLED = {*_FUNCTIONS, *_LEARNED, *_CODING}
_OPERATORS = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
    ast.USub: np.negative,
    ast.UAdd: np.positive,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}
_TEXT = re.compile(r"""(\w?)(?:`[^`]*`|'[^'\\]*'|"[^"\\]*")""")
QUOTED = re.compile(r"`([^`]*)`")


class NotPlain(ValueError):
    """An expression with more than the functions of this module."""


def is_plain(formula: str) -> bool:
    """Whether a formula calls no other functions than those of this module, and has no attributes.

    Examples
    --------
    >>> is_plain("claims ~ bs(age, df=4) * C(region)"), is_plain("y ~ open(x)")
    (True, False)
    """
    # Quoted text, which has no prefix such as the f of an f-string.
    text = _TEXT.sub(lambda found: "@" if found[1] else " _quoted ", formula)
    if re.search(r"[`'\"\\;@]|:=|\b(lambda|for|if|import|yield|await)\b", text):
        return False
    text = re.sub(r"\b(np|contr)\.(?=[A-Za-z]\w*\b)", "", text)
    if "__" in text or re.search(r"[A-Za-z_)\]}]\s*\.|\.\s*[A-Za-z_]", text):
        return False
    if re.search(r"[)}\]]\s*\(", text):
        return False
    return set(re.findall(r"([A-Za-z_]\w*)\s*\(", text)) <= _CALLED


class Factor(NamedTuple):
    """A factor of terms: numbers by an expression, or the levels of a column."""

    expression: str
    levels: Any = None  # a list; None for numbers
    full: Any = None  # the columns of every level, of shape (n_levels, k)
    reduced: Any = None  # the same with an intercept
    reference: Any = None  # the level without a column, as text


class Term(NamedTuple):
    """A term and the names of its columns."""

    name: str
    factors: list  # their texts
    columns: list
    parts: list  # of (texts of factors, whether each is reduced, scale)


class FormulaColumns(NamedTuple):
    """The columns of a formula, as learned from the rows of a fit."""

    formula: str
    target: Any  # the texts of the left-hand side; None if there is none
    offsets: list  # the expressions of `offset(...)`
    terms: list  # of Term, without the intercept
    factors: dict  # of Factor, by text
    states: dict  # what bs, poly, center, ... have learned, by the text of their calls
    spec: Any = None  # formulaic's, of a formula that is not plain

    @property
    def names(self):
        """The names of the columns."""
        return [column for term in self.terms for column in term.columns]

    @property
    def reference(self):
        """The reference levels of factors, by text."""
        used = reduced_factors(self.terms)
        return {
            text: factor.reference
            for text, factor in self.factors.items()
            if factor.reference is not None and text in used
        }

    def of(self, frame):
        """The columns of rows, shape (n, n_columns)."""
        found = {text: self._coded(text, factor, frame) for text, factor in self.factors.items()}
        n = len(frame)
        out = []
        for term in self.terms:
            for texts, reduced, scale in term.parts:
                columns: Any = None
                for text, is_reduced in zip(texts, reduced, strict=True):
                    own: Any = found[text][1 if is_reduced else 0]
                    if columns is None:
                        columns = own
                    else:  # the first factor varies fastest
                        products = own[:, :, None] * columns[:, None, :]
                        columns = products.reshape(n, -1)
                out.append(columns if scale == 1 else scale * columns)
        return np.concatenate(out, axis=1)

    def offset(self, frame):
        """The sum of the offsets of rows; None if the formula has none."""
        if not self.offsets:
            return None
        values = [self.value(text, frame) for text in self.offsets]
        return sum(np.broadcast_to(value, len(frame)).astype(float) for value in values)

    def value(self, expression, frame):
        """The value of an expression of numbers."""
        return Expression(expression, self.states, self.formula).value(frame)

    def _coded(self, text, factor, frame):
        """The columns of a factor in full, and reduced."""
        if factor.levels is None:
            values = np.asarray(self.value(factor.expression, frame), dtype=float)
            if np.isnan(values).any():
                raise ValueError(f"`{text}` contains null values.")
            values = np.broadcast_to(values, len(frame)) if values.ndim == 0 else values
            values = values[:, None] if values.ndim == 1 else values
            return values, values
        import pandas as pd

        values = pd.Series(self.value(factor.expression, frame))
        if values.isna().any():
            raise ValueError(f"`{text}` contains null values.")
        codes = pd.Index(factor.levels).get_indexer(pd.Index(values.to_numpy()))
        if (codes < 0).any():
            unseen = values.to_numpy()[codes < 0][0]
            raise ValueError(
                f"{text} has the level {unseen!r}, which fit has not seen; it knows "
                f"{', '.join(map(str, factor.levels[:10]))}."
            )
        return factor.full[codes], None if factor.reduced is None else factor.reduced[codes]


def reduced_factors(terms: list[Term]) -> set[str]:
    """The factors, as text, that have no column for one of their levels in some term."""
    return {
        text
        for term in terms
        for texts, reduced, _ in term.parts
        for text, is_reduced in zip(texts, reduced, strict=True)
        if is_reduced
    }


def tree_of(text: str) -> Any:
    """The syntax tree of an expression; names in backticks are calls of ``Q``.

    Examples
    --------
    >>> ast.unparse(tree_of("C(`my column` > 0)"))
    "C(Q('my column') > 0)"
    """
    quoted = QUOTED.sub(lambda found: _called_name(found[1]), text)
    try:
        return ast.parse(quoted.strip(), mode="eval").body
    except SyntaxError:
        raise NotPlain(f"{text!r} is no expression.") from None


def _called_name(name):
    """A name in backticks as Python."""
    is_plain_name = name.isidentifier() and not keyword.iskeyword(name)
    return name if is_plain_name else f"Q({name!r})"


class Expression:
    """An expression as a tree, with the states that its calls have learned."""

    def __init__(self, text, states, formula):
        self.states, self.formula = states, formula
        self.tree = tree_of(text)

    def value(self, frame):
        """The value for a frame."""
        return self._value(self.tree, frame)

    def _value(self, node, frame):
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float | str):
            return node.value
        if isinstance(node, ast.Name):
            return column(frame, node.id)
        if isinstance(node, ast.UnaryOp | ast.BinOp) and type(node.op) in _OPERATORS:
            sides = [node.operand] if isinstance(node, ast.UnaryOp) else [node.left, node.right]
            values = [np.asarray(self._value(side, frame)) for side in sides]
            return _OPERATORS[type(node.op)](*values)
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            sides = [self._value(side, frame) for side in (node.left, node.comparators[0])]
            return _OPERATORS[type(node.ops[0])](*map(np.asarray, sides))
        if isinstance(node, ast.Call):
            return self._called(node, frame)
        raise NotPlain(f"{ast.unparse(node)} is not plain.")

    def _called(self, node, frame):
        name, function = ast.unparse(node.func).removeprefix("np."), node.func
        plain = isinstance(function, ast.Name) or ast.unparse(function) == f"np.{name}"
        if name == "Q" and len(node.args) == 1 and isinstance(node.args[0], ast.Constant):
            return column(frame, node.args[0].value)
        if plain and name in _FUNCTIONS and not node.keywords:
            with np.errstate(all="ignore"):
                return _FUNCTIONS[name](*(np.asarray(self._value(a, frame)) for a in node.args))
        if isinstance(function, ast.Name) and name in _LEARNED and node.args:
            state = self.states.get(ast.unparse(node))
            if state is None:
                raise NotPlain(f"{ast.unparse(node)} has not been learned.")
            x = np.asarray(self._value(node.args[0], frame), dtype=float)
            own = re.sub(r"Q\('([^']*)'\)", r"`\1`", ast.unparse(node))
            return _BASES[state["kind"]](state, x, own)
        raise NotPlain(f"{name} is no function that a formula without code can call.")


def column(frame, name):
    """A column of a frame, as an array."""
    if name not in frame.columns:
        raise ValueError(f"column {name!r} is not present.")
    values = frame[name]
    return values.to_numpy() if values.dtype.kind in "biuf" else values.to_numpy(dtype=object)


# ---------------------------------------------------------------- what calls learn


def learned_state(text, state):
    """The plain state of a call that formulaic has learned; a `NotPlain` error if it has none."""
    call: Any = tree_of(text)
    name, given = call.func.id, {word.arg: ast.literal_eval(word.value) for word in call.keywords}
    rest = [ast.literal_eval(value) for value in call.args[1:]]
    if given.get("extrapolation", "extend") not in ("extend", "raise"):
        raise NotPlain(f"{text} has its own extrapolation.")
    if name == "bs":
        given |= dict(zip(("df", "knots", "degree", "include_intercept"), rest, strict=False))
        state = {"knots": np.array(state["knots"]), "degree": int(given.get("degree", 3))}
        return state | {"kind": "bs", "first": int(not given.get("include_intercept", False))}
    if name in ("cr", "cs", "cc"):
        constraints = state.get("constraints")
        own: dict[str, Any] = {"kind": "cc" if state["cyclic"] else "cr"}
        if constraints is not None:
            constraints = np.atleast_2d(constraints)
            q = np.linalg.qr(constraints.T, mode="complete")[0]
            own["absorbed"] = q[:, len(constraints) :]
        return own | {"knots": np.array(state["knots"])}
    if name == "poly" and "alpha" in state:
        alpha, norms = state["alpha"], state["norms2"]
        return {
            "kind": "poly",
            "alpha": np.array([alpha[k] for k in sorted(alpha)]),
            "norms": np.array([norms[k] for k in sorted(norms)]),
        }
    if name in ("center", "scale", "standardize") and "center" in state:
        values = {k: None if state[k] is None else float(state[k]) for k in ("center", "scale")}
        return {"kind": "scale"} | values
    raise NotPlain(f"{text} has a state that is not known.")


def _beyond(x, low, high, text, ends="outer knots"):
    """Warn of values beyond the knots, or other ends of the rows of the fit."""
    n = int(np.sum((x < low) | (x > high)))
    if n:
        warn(
            f"{n} {'value lies' if n == 1 else 'values lie'} beyond the {ends} {low:g} and "
            f"{high:g} of {text}: the curve is extended there."
        )


def _b_splines(state, x, text):
    """B-splines, whose polynomials are extended beyond the outer knots."""
    knots, degree = state["knots"], state["degree"]
    _beyond(x, knots[0], knots[-1], text)
    basis = interpolate.BSpline(knots, np.eye(len(knots) - degree - 1), degree, extrapolate=True)
    return basis(x)[:, state["first"] :]


def _natural(state, x, text):
    """Natural cubic splines, by their values at the knots; straight lines beyond these."""
    knots = state["knots"]
    _beyond(x, knots[0], knots[-1], text)
    basis = interpolate.CubicSpline(knots, np.eye(len(knots)), bc_type="natural")
    inside = np.clip(x, knots[0], knots[-1])
    values = basis(inside) + (x - inside)[:, None] * basis(inside, 1)
    return values @ state["absorbed"] if "absorbed" in state else values


def _cyclic(state, x, text):
    """Cyclic cubic splines, which repeat beyond the outer knots."""
    knots = state["knots"]
    units = np.eye(len(knots) - 1)
    basis = interpolate.CubicSpline(knots, np.vstack([units, units[:1]]), bc_type="periodic")
    values = basis(x)
    return values @ state["absorbed"] if "absorbed" in state else values


def _polynomials(state, x, text):
    """Orthogonal polynomials, by their recurrence."""
    alpha, norms = state["alpha"], state["norms"]
    if "ends" in state:  # files of 0.2.0 have none
        low, high = state["ends"]
        _beyond(x, low, high, text, "least and largest value")
    P = [np.ones_like(x)]
    for k, own in enumerate(alpha):
        P.append((x - own) * P[k] - (norms[k] / norms[k - 1] * P[k - 1] if k else 0.0))
    return np.stack(P, axis=1)[:, 1:] / np.sqrt(norms[1:])


def _scaled(state, x, text):
    """Values less a centre, over a scale."""
    x = x if state["center"] is None else x - state["center"]
    return x if state["scale"] is None else x / state["scale"]


_BASES = {
    "bs": _b_splines,
    "cr": _natural,
    "cc": _cyclic,
    "poly": _polynomials,
    "scale": _scaled,
}
