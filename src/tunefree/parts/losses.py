"""Losses of a prediction: value, slope (derivative in the prediction) and Lipschitz bound.

Classification losses take targets in {-1, +1}; regression losses take real targets.

===================  =========================================  ==========
name                 value at margin m = y p, or residual r      bound
===================  =========================================  ==========
hinge                max(0, 1 - m)                              1
smoothed hinge       0 | (1 - m)^2 | 1 - 2m                     2
squared hinge        max(0, 1 - m)^2, linear beyond width       width
logistic             log(1 + exp(-m))                           1
multinomial          -log softmax of the true output            1
squared              r^2                                        none
absolute             |r|                                        1
huber                r^2/2, linear beyond width                 width
pinball              q r for r = y - p > 0, else (q - 1) r      max(q, 1-q)
epsilon insensitive  max(0, |r| - epsilon)                      1
===================  =========================================  ==========

Estimators read attributes of a loss, never its name: `task`; `probabilities`, whether predictions
are log-odds; `elicits_mean`, whether the risk is least at the conditional mean; `outliers`, whether
it is meant for targets with outliers; and `within`, its form with a bounded slope.

Source: Orabona 2014, section 2 and section 5 (smoothed hinge); Huber 1964.
"""

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from tunefree.core.jit import method, part, verb
from tunefree.core.parts import PartTable
from tunefree.core.protocols import Loss

value, slope = verb("value"), verb("slope")
bound = verb("bound")
# Median absolute deviation to standard deviation of a normal distribution.
NORMAL = 1.4826


def slopes(loss: Any, predictions: np.ndarray, targets: np.ndarray, out: np.ndarray) -> None:
    """Write the derivative in each of a row's predictions to `out`.

    A loss that couples its outputs has a method ``slopes(predictions, targets, out)``. For any
    other loss each output has its own slope.
    """
    if hasattr(loss, "slopes"):
        loss.slopes(predictions, targets, out)
    else:
        _each_slope(loss, predictions, targets, out)


def _each_slope(loss, predictions, targets, out):
    for k in range(predictions.shape[0]):
        out[k] = slope(loss, predictions[k], targets[k])


@overload(slopes, strict=False)
def _compiled_slopes(loss, predictions, targets, out):
    return method(loss, "slopes") or _each_slope


@part
class Hinge(NamedTuple):
    """max(0, 1 - y p), the loss of the support vector machine.

    Examples
    --------
    >>> Hinge().value(0.25, 1.0), Hinge().slope(0.25, 1.0)
    (0.75, -1.0)
    """

    task = "classification"

    def value(self, p: float, y: float) -> float:
        """Loss of predicting p for the label y."""
        return max(0.0, 1.0 - y * p)

    def slope(self, p: float, y: float) -> float:
        """Derivative in p."""
        return -y if y * p < 1.0 else 0.0

    def bound(self) -> float:
        """Largest absolute slope."""
        return 1.0


@part
class SmoothedHinge(NamedTuple):
    """0 for y p >= 1, (1 - y p)^2 between 0 and 1, 1 - 2 y p below 0.

    Examples
    --------
    >>> SmoothedHinge().value(0.5, 1.0), SmoothedHinge().slope(-3.0, 1.0)
    (0.25, -2.0)
    """

    task = "classification"

    def value(self, p: float, y: float) -> float:
        """Loss of predicting p for the label y."""
        m = y * p
        if m >= 1.0:
            return 0.0
        return (1.0 - m) ** 2 if m > 0.0 else 1.0 - 2.0 * m

    def slope(self, p: float, y: float) -> float:
        """Derivative in p."""
        return -2.0 * y * min(1.0, max(0.0, 1.0 - y * p))

    def bound(self) -> float:
        """Largest absolute slope."""
        return 2.0


@part
class SquaredHinge(NamedTuple):
    """max(0, 1 - y p)^2, continued linearly where its slope would exceed `width`.

    Examples
    --------
    >>> SquaredHinge().value(-1.0, 1.0), SquaredHinge(width=2.0).slope(-9.0, 1.0)
    (4.0, -2.0)
    """

    width: float = 4.0
    task = "classification"

    def value(self, p: float, y: float) -> float:
        """Loss of predicting p for the label y."""
        u = max(0.0, 1.0 - y * p)
        c = 0.5 * self.width
        return u * u if u <= c else c * (2.0 * u - c)

    def slope(self, p: float, y: float) -> float:
        """Derivative in p."""
        return -y * min(self.width, 2.0 * max(0.0, 1.0 - y * p))

    def bound(self) -> float:
        """Largest absolute slope."""
        return self.width


@part
class Logistic(NamedTuple):
    """log(1 + exp(-y p)), the negative log-likelihood of logistic regression.

    Examples
    --------
    >>> print(round(Logistic().value(0.0, 1.0), 6), Logistic().slope(0.0, 1.0))
    0.693147 -0.5
    """

    task = "classification"
    probabilities = True

    def value(self, p: float, y: float) -> float:
        """Loss of predicting p for the label y."""
        m = y * p
        return np.log1p(np.exp(-m)) if m > 0.0 else np.log1p(np.exp(m)) - m

    def slope(self, p: float, y: float) -> float:
        """Derivative in p."""
        m = y * p
        if m > 0.0:
            e = np.exp(-m)
            return -y * e / (1.0 + e)
        return -y / (1.0 + np.exp(m))

    def bound(self) -> float:
        """Largest absolute slope."""
        return 1.0


@part
class Multinomial(NamedTuple):
    """The negative log-likelihood of a softmax over the outputs; logistic for a single output.

    -p_y + log sum_k exp(p_k), with target +1 for the output y and -1 for the others.

    Examples
    --------
    >>> out = np.empty(2)
    >>> Multinomial().slopes(np.zeros(2), np.array([1.0, -1.0]), out)
    >>> out
    array([-0.5,  0.5])
    """

    task = "classification"
    probabilities = True
    # Used where outputs cannot be coupled: classes that may still appear have no probability.
    uncoupled = Logistic()

    def value(self, p: float, y: float) -> float:
        """Loss of predicting p for the label y with a single output."""
        return value(Logistic(), p, y)

    def slope(self, p: float, y: float) -> float:
        """Derivative in p with a single output."""
        return slope(Logistic(), p, y)

    def slopes(self, predictions: np.ndarray, targets: np.ndarray, out: np.ndarray) -> None:
        """Probability of each output less 1 for the true one."""
        n = predictions.shape[0]
        if n == 1:
            out[0] = slope(Logistic(), predictions[0], targets[0])
        else:
            top = predictions[0]
            for k in range(1, n):
                top = max(top, predictions[k])
            total = 0.0
            for k in range(n):
                out[k] = np.exp(predictions[k] - top)
                total += out[k]
            for k in range(n):
                out[k] = out[k] / total - (1.0 if targets[k] > 0.0 else 0.0)

    def bound(self) -> float:
        """Largest absolute slope."""
        return 1.0


@part
class Absolute(NamedTuple):
    r"""\|p - y\|: the regression function is the conditional median.

    Examples
    --------
    >>> Absolute().value(1.0, 3.0), Absolute().slope(1.0, 3.0)
    (2.0, -1.0)
    """

    task = "regression"

    def value(self, p: float, y: float) -> float:
        """Loss of predicting p for the target y."""
        return abs(p - y)

    def slope(self, p: float, y: float) -> float:
        """Derivative in p."""
        return 1.0 if p > y else (-1.0 if p < y else 0.0)

    def bound(self) -> float:
        """Largest absolute slope."""
        return 1.0


@part
class Huber(NamedTuple):
    r"""(p - y)^2 / 2, continued linearly where \|p - y\| exceeds `width`.

    The regressors take the width in robust standard deviations of the residuals, which they learn:
    1.345 loses 5 % of the efficiency of least squares on normal residuals.

    Examples
    --------
    >>> Huber(width=1.0).value(3.0, 0.0), Huber(width=1.0).slope(3.0, 0.0)
    (2.5, 1.0)
    """

    width: float = 1.345
    task = "regression"
    outliers = True

    def value(self, p: float, y: float) -> float:
        """Loss of predicting p for the target y."""
        r = abs(p - y)
        return 0.5 * r * r if r <= self.width else self.width * (r - 0.5 * self.width)

    def slope(self, p: float, y: float) -> float:
        """Derivative in p."""
        return min(self.width, max(-self.width, p - y))

    def bound(self) -> float:
        """Largest absolute slope."""
        return self.width

    def within(self, limit: float, residual: float | None = None) -> "Huber":
        """The loss with its width in median absolute residuals; 1 until these are known."""
        if residual is None:
            return Huber(min(limit, 1.0))
        return Huber(min(limit, max(self.width * NORMAL * residual, 1e-3)))


@part
class EpsilonInsensitive(NamedTuple):
    r"""max(0, \|p - y\| - epsilon), the loss of support vector regression.

    Examples
    --------
    >>> EpsilonInsensitive(0.5).value(1.0, 3.0), EpsilonInsensitive(0.5).slope(2.8, 3.0)
    (1.5, 0.0)
    """

    epsilon: float = 0.1
    task = "regression"

    def value(self, p: float, y: float) -> float:
        """Loss of predicting p for the target y."""
        return max(0.0, abs(p - y) - self.epsilon)

    def slope(self, p: float, y: float) -> float:
        """Derivative in p."""
        r = p - y
        return 1.0 if r > self.epsilon else (-1.0 if r < -self.epsilon else 0.0)

    def bound(self) -> float:
        """Largest absolute slope."""
        return 1.0


@part
class Pinball(NamedTuple):
    r"""q (y - p) above the prediction and (1 - q) (p - y) below: the conditional quantile q.

    Examples
    --------
    >>> Pinball(0.9).value(1.0, 3.0), Pinball(0.9).slope(1.0, 3.0)
    (1.8, -0.9)
    """

    q: float = 0.5
    task = "regression"

    def value(self, p: float, y: float) -> float:
        """Loss of predicting p for the target y."""
        return self.q * (y - p) if y > p else (1.0 - self.q) * (p - y)

    def slope(self, p: float, y: float) -> float:
        """Derivative in p."""
        return 1.0 - self.q if p > y else (-self.q if p < y else 0.0)

    def bound(self) -> float:
        """Largest absolute slope."""
        return max(self.q, 1.0 - self.q)


@part
class Squared(NamedTuple):
    """(p - y)^2, which is (1 - y p)^2 for y = +-1.

    Its slope has no bound. Learners that need one use `within`: half of the loss up to a few
    standard deviations of the target, and linear beyond.

    Examples
    --------
    >>> Squared().value(0.5, 1.0), Squared().slope(0.5, 1.0)
    (0.25, -1.0)
    """

    task = "both"
    elicits_mean = True

    def within(self, limit: float, residual: float | None = None) -> Huber:
        """Half of the loss, continued linearly beyond a residual."""
        return Huber(limit)

    def value(self, p: float, y: float) -> float:
        """Loss of predicting p for y."""
        return (p - y) * (p - y)

    def slope(self, p: float, y: float) -> float:
        """Derivative in p."""
        return 2.0 * (p - y)

    def bound(self) -> float:
        """Largest absolute slope."""
        return np.inf


@part
class Mistake(NamedTuple):
    """max(0, -y p): the Perceptron's loss, with a slope where y p <= 0 only. Not in the table.

    Examples
    --------
    >>> Mistake().slope(0.0, 1.0), Mistake().slope(0.1, 1.0)
    (-1.0, 0.0)
    """

    task = "classification"

    def value(self, p: float, y: float) -> float:
        """Loss of predicting p for the label y."""
        return max(0.0, -y * p)

    def slope(self, p: float, y: float) -> float:
        """A derivative in p."""
        return -y if y * p <= 0.0 else 0.0

    def bound(self) -> float:
        """Largest absolute slope."""
        return 1.0


LOSSES = PartTable(
    "loss",
    "slope",
    {
        "smoothed_hinge": SmoothedHinge(),
        "hinge": Hinge(),
        "squared_hinge": SquaredHinge(),
        "log_loss": Logistic(),
        "multinomial": Multinomial(),
        "squared_error": Squared(),
        "huber": Huber(),
        "absolute_error": Absolute(),
        "quantile": Pinball(),
        "epsilon_insensitive": EpsilonInsensitive(),
    },
)


def make_loss(loss: str | Loss, task: str, default: Loss | None = None) -> Loss:
    """The loss of a name for a task; a part is returned as it is, 'auto' gives the default.

    Raises
    ------
    ValueError
        If it is neither a name nor a part, or the name of a loss for another task.

    Examples
    --------
    >>> make_loss("hinge", "classification"), make_loss(Absolute(), "regression")
    (Hinge(), Absolute())
    """
    if default is not None and isinstance(loss, str) and loss == "auto":
        return default
    found: Any = LOSSES.find(loss, () if default is None else ("auto",))
    if isinstance(loss, str) and getattr(found, "task", task) not in (task, "both"):
        raise ValueError(f"loss={loss!r} is one for {found.task}: choose a loss for {task}.")
    return found


def check_bounded(loss: Loss) -> Loss:
    """Refuse a loss whose slope has no bound, or return it.

    Raises
    ------
    ValueError
    """
    if not np.isfinite(loss.bound()):
        raise ValueError(
            f"The slope of the loss {loss!r} has no bound, and PiSTOL needs one: take "
            "'squared_hinge' or Huber(width), which are like the squared loss."
        )
    return loss


def within(loss: Any, limit: float, residual: float | None = None) -> Loss:
    """The form of a loss with a bounded slope, so that one outlier cannot ruin a fit.

    A loss whose slope has no bound, or whose width depends on the residuals, has a method
    ``within(limit, residual)`` that makes this form. Any other loss is returned as it is.

    Parameters
    ----------
    loss : part
    limit : float
        The residual beyond which the slope may not increase.
    residual : float or None, default=None
        The median absolute residual, if known.

    Examples
    --------
    >>> within(Squared(), 4.0), within(Huber(), 4.0), within(Absolute(), 4.0)
    (Huber(width=4.0), Huber(width=1.0), Absolute())
    """
    return loss.within(limit, residual) if hasattr(loss, "within") else loss
