r"""Families: the distributions of targets, with their links and deviances.

A family evaluates means by its unit deviance d(y, mu). Learning follows the score, which for the
index s and the mean mu = u(s) is

.. math:: \frac12 \frac{\partial d}{\partial s} = (\mu - y)\, \frac{u'(s)}{V(\mu)} ,

V being the variance as a function of the mean: the weighted residual of GLM-tron. With the family's
own link it is the slope of a convex function of s.

==================  ===============  ==========================  =============  ==================
name                targets          unit deviance               V(mu)          link
==================  ===============  ==========================  =============  ==================
matching            any              (y - mu)^2                  u'(s): none    any
normal              any              (y - mu)^2                  1              identity
poisson             >= 0             2 (y log(y/mu) - y + mu)    mu             log
negative_binomial   >= 0             of NB2                      mu + a mu^2    log
gamma               > 0              2 (y/mu - 1 - log(y/mu))    mu^2           log
inverse_gaussian    > 0              (y - mu)^2 / (mu^2 y)       mu^3           log
tweedie             >= 0             of the power p              mu^p           log
binomial            [0, 1]           2 KL(y, mu)                 mu (1 - mu)    logistic
huber               any              Huber's loss                -              identity
quantile            any              pinball loss                -              identity
multinomial         classes          2 KL                        -              softmax
ordinal             classes          2 KL                        -              cumulative
==================  ===============  ==========================  =============  ==================

Parameters of a family (the power of Tweedie, the overdispersion a, Huber's scale) may be learned
from means and targets: ``learned``. ``log_likelihood`` is that of families with a density.

Source: McCullagh and Nelder 1989; Joergensen 1997 (Tweedie); Dunn and Smyth 2005 (its density);
Davidian and Carroll 1987 (the power); He, Pan, Tan and Zhou 2023 (smoothed pinball loss);
Chernozhukov, Fernandez-Val and Galichon 2010 (quantiles that do not cross).
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize, special, stats
from scipy.special import expit, gammaln, log_softmax, softmax, xlog1py, xlogy

from tunefree.core.parts import PartTable
from tunefree.parts import links
from tunefree.parts.losses import NORMAL

_SUPPORT = np.sqrt(5.0)  # Epanechnikov's density of deviation 1 is 0 beyond it
_LEAST, _SURE = 1e-100, 1e-15  # least distances of means, and probabilities, from their limits
# Poisson numbers farther from their mean, in deviations, have no weight in Tweedie's distribution.
_NUMBERS = 10.0
# Dispersions of Tweedie's likelihood are at most so far from Pearson's, in logarithms.
_FAR = 2.0
# Whole targets are counts if the smallest is below this, else amounts.
_SMALL_COUNT = 10
# The largest of shares is not below this: the logit of smaller ones is lost in rounding.
_LEAST_SHARE = 1e-9


class Tails(NamedTuple):
    """The probabilities of targets below and above y, each without and with y itself."""

    below: Any  # P(Y < y)
    up_to: Any  # P(Y <= y)
    above: Any  # P(Y > y)
    from_on: Any  # P(Y >= y)

    @classmethod
    def continuous(cls, lower: Any, upper: Any) -> "Tails":
        """Of a distribution without atoms."""
        return cls(lower, lower, upper, upper)

    def normal_scores(self, share: Any) -> Any:
        """The normal quantile of P(Y < y) + share * P(Y = y), exact in both tails."""
        lower = (1.0 - share) * self.below + share * self.up_to
        upper = (1.0 - share) * self.from_on + share * self.above
        return np.where(lower < 0.5, special.ndtri(lower), -special.ndtri(upper))


def _whole(counts, name):
    """Counts as whole numbers; a ValueError for others."""
    whole = np.round(counts)
    is_other = np.abs(counts - whole) > 1e-6 * np.maximum(1.0, np.abs(whole))
    if is_other.any():
        raise ValueError(
            f"Quantile and probability residuals of the family {name} need counts, and y holds "
            f"{counts[is_other][0]:g}."
        )
    return whole


class Family:
    """The methods of all families; `range` is that of the means."""

    link: Any = links.Identity()
    range = (-np.inf, np.inf)
    open_below = False  # whether targets must be above 0
    tied = False  # whether all outputs have the same coefficients
    canonical: Any = None  # the class of links whose slope is V
    others: tuple = ()  # other candidates among the closed-form links
    # An exposure e is the weight of the rate y / e, or the "offset" log e; None refuses exposures.
    exposure: Any = "rate"
    unit_scale = False  # whether the dispersion is 1
    # log_likelihood(y, mean, exposure, scale) of rates y, row by row; None without a density.
    log_likelihood: Any = None
    # tails(y, mean, exposure, scale): the `Tails` of rates y, row by row; None without a
    # distribution.
    tails: Any = None
    # at(share): the family with its unknown parameter at a share of its range.
    at: Any = None

    def check(self, y: np.ndarray) -> None:
        """Refuse targets outside the family's range, and name the first."""
        low, high = self.range
        outside = (y < low) | (y > high) | ((y <= low) & self.open_below)
        if outside.any():
            below = f"above {low:g}" if self.open_below else f"from {low:g} on"
            allowed = f"in [{low:g}, {high:g}]" if np.isfinite(high) else below
            raise ValueError(
                f"y has targets outside the range of {self!r}, the first {y[outside][0]:g}: they "
                f"must be {allowed}."
            )
        if low == 0.0 and not y.any():
            raise ValueError(
                f"y holds zeros only: {self!r} has a mean of 0, whose logarithm is infinite. Give "
                "rows with a positive target, or family='gaussian'."
            )

    def clipped(self, mean: Any) -> Any:
        """Means, clipped to just inside the range."""
        low, high = self.range
        return np.clip(
            mean, low + _LEAST if np.isfinite(low) else None, high - _SURE if high == 1.0 else None
        )

    def variance(self, mean: Any) -> Any:
        """V(mu)."""
        return np.ones_like(mean)

    def deviance(self, y: Any, mean: Any) -> Any:
        """The unit deviance, 0 where the mean is the target."""
        return np.square(y - mean)

    def score(self, link: Any, s: Any, mean: Any, y: Any) -> Any:
        """Half the slope of the deviance in the index."""
        if self.canonical is not None and isinstance(link, self.canonical):
            return mean - y
        return (mean - y) * link.slope(s) / self.variance(mean)

    def residuals(
        self, link: Any, s: np.ndarray, y: np.ndarray, judged: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Scores and deviances at indices s, of the same shape (or of one that y broadcasts to).

        `judged` selects the means whose deviance is needed.
        """
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            mean = self.clipped(link.mean(s))
            selected = mean if judged is None else judged(mean)
            # By rounding, a deviance of 0 may be negative.
            return self.score(link, s, mean, y), np.maximum(self.deviance(y, selected), 0.0)

    def curvature(self, link: Any, s: Any) -> Any:
        """The expected curvature of half the deviance in the index: Fisher's information."""
        mean = self.clipped(link.mean(s))
        return np.square(link.slope(s)) / self.variance(mean)

    def targets(self, y: np.ndarray) -> np.ndarray:
        """Targets of shape (n, k) for k outputs."""
        return y

    def start(self, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The best constant mean of every output."""
        return weights @ y / weights.sum()

    def constant_rate(self, y: np.ndarray, weights: np.ndarray, exposure: np.ndarray) -> np.ndarray:
        """The rate c of least deviance of means c * exposure, by iterated weighted means."""
        rate = weights @ y / (weights @ exposure)
        for _ in range(100):
            precision = weights[:, None] * exposure / self.variance(self.clipped(exposure * rate))
            before, rate = rate, (precision * y).sum(axis=0) / (precision * exposure).sum(axis=0)
            if np.allclose(rate, before, rtol=1e-12, atol=0.0):
                break
        return rate

    def learned(self, y: np.ndarray, mean: np.ndarray, weights: np.ndarray) -> "Family":
        """The family with parameters learned from means and targets."""
        return self

    def predicted(self, link: Any, s: np.ndarray) -> np.ndarray:
        """Predicted means at indices."""
        return np.asarray(link.mean(s))

    def d2(
        self, y: np.ndarray, mean: np.ndarray, weights: np.ndarray, exposure: Any = None
    ) -> float:
        """The share of the deviance of the best constant that is explained, over all outputs.

        With an exposure that is an offset it is the best constant rate, times the exposure.
        """
        constant = np.broadcast_to(self.start(y, weights), y.shape)
        if exposure is not None:
            constant = exposure * self.constant_rate(y, weights, exposure)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            own, null = (
                weights @ self.deviance(y, self.clipped(each)) for each in (mean, constant)
            )
        # Of a constant target nothing is left unexplained, or all.
        left = np.divide(own, null, out=np.where(own > 0.0, 1.0, 0.0), where=null > 0.0)
        return float(np.mean(1.0 - left))


@dataclass(frozen=True)
class Matching(Family):
    """The link's matching loss, GLM-tron: any targets, any link, evaluated by squared errors.

    Examples
    --------
    >>> Matching().deviance(1.0, 3.0)
    np.float64(4.0)
    """


@dataclass(frozen=True)
class Gaussian(Family):
    """Real targets around their mean: least squares, through any link.

    Examples
    --------
    >>> Gaussian().score(links.Tanh(), 0.0, 0.0, 1.0)
    np.float64(-1.0)
    """

    canonical = links.Identity

    def log_likelihood(self, y: Any, mean: Any, exposure: Any, scale: Any) -> Any:
        """Of normal targets with the variance scale / exposure."""
        variance = scale / exposure
        return -0.5 * (np.square(y - mean) / variance + np.log(2.0 * np.pi * variance))

    def tails(self, y: Any, mean: Any, exposure: Any, scale: Any) -> Tails:
        """Of normal targets with the variance scale / exposure."""
        z = (y - mean) / np.sqrt(scale / exposure)
        return Tails.continuous(special.ndtr(z), special.ndtr(-z))


class Positive(Family):
    """What families of positive means share: the logarithm as link."""

    link = links.LINKS["log"]
    range = (0.0, np.inf)
    others = (links.Softplus(),)


@dataclass(frozen=True)
class Poisson(Positive):
    """Counts, or rates that weigh as much as their exposure; any targets from 0 on.

    Examples
    --------
    >>> Poisson().deviance(np.array([0.0, 2.0]), np.array([1.0, 2.0]))
    array([2., 0.])
    """

    canonical = links.Exp
    unit_scale = True

    def variance(self, mean: Any) -> Any:
        """V(mu)."""
        return mean

    def deviance(self, y: Any, mean: Any) -> Any:
        """The unit deviance."""
        return 2.0 * ((xlogy(y, y) - y) - (y * np.log(mean) - mean))

    def log_likelihood(self, y: Any, mean: Any, exposure: Any, scale: Any) -> Any:
        """Of counts, which are the rate times the exposure."""
        count, expected = exposure * y, exposure * mean
        return (xlogy(count, expected) - expected - gammaln(count + 1.0)) / scale

    def tails(self, y: Any, mean: Any, exposure: Any, scale: Any) -> Tails:
        """Of counts, which are the rate times the exposure."""
        count, expected = _whole(exposure * y, "poisson"), exposure * mean
        least, is_zero = np.maximum(count, 1.0), count == 0.0
        return Tails(
            below=np.where(is_zero, 0.0, special.gammaincc(least, expected)),
            up_to=special.gammaincc(count + 1.0, expected),
            above=special.gammainc(count + 1.0, expected),
            from_on=np.where(is_zero, 1.0, special.gammainc(least, expected)),
        )


@dataclass(frozen=True)
class NegativeBinomial(Positive):
    """Counts whose variance is mu + dispersion mu^2 (NB2); a dispersion of None is learned.

    Examples
    --------
    >>> NegativeBinomial(1.0).variance(2.0)
    6.0
    """

    dispersion: float | None = None
    exposure = "offset"
    unit_scale = True

    def variance(self, mean: Any) -> Any:
        """V(mu)."""
        return mean + (self.dispersion or 1.0) * mean * mean

    def deviance(self, y: Any, mean: Any) -> Any:
        """The unit deviance."""
        a = self.dispersion or 1.0
        log_ratio = np.log1p(a * y) - np.log1p(a * mean)
        return 2.0 * (xlogy(y, y) - y * np.log(mean) - (y + 1.0 / a) * log_ratio)

    def log_likelihood(self, y: Any, mean: Any, exposure: Any, scale: Any) -> Any:
        """Of counts; an exposure is in the mean."""
        a = self.dispersion or 1.0
        k = 1.0 / a
        constant = gammaln(y + k) - gammaln(k) - gammaln(y + 1.0)
        return (constant + xlogy(y, a * mean) - (y + k) * np.log1p(a * mean)) / scale

    def tails(self, y: Any, mean: Any, exposure: Any, scale: Any) -> Tails:
        """Of counts; an exposure is in the mean."""
        count, k = _whole(y, "negative_binomial"), 1.0 / (self.dispersion or 1.0)
        least, is_zero = np.maximum(count, 1.0), count == 0.0
        rest, own = mean / (k + mean), k / (k + mean)
        return Tails(
            below=np.where(is_zero, 0.0, special.betainc(k, least, own)),
            up_to=special.betainc(k, count + 1.0, own),
            above=special.betainc(count + 1.0, k, rest),
            from_on=np.where(is_zero, 1.0, special.betainc(least, k, rest)),
        )

    def at(self, share: float) -> "Family":
        """The dispersion at a share of its range, which is logarithmic."""
        return NegativeBinomial(float(np.exp(-9.0 + 14.0 * share)))

    def learned(self, y: np.ndarray, mean: np.ndarray, weights: np.ndarray) -> "Family":
        """The dispersion of maximum likelihood for these means."""
        if self.dispersion is not None:
            return self

        def negative_log_likelihood(log_a):
            k = np.exp(-log_a)
            each = gammaln(y + k) - gammaln(k) + k * np.log(k / (k + mean))
            return -float(np.sum(weights @ (each + y * np.log(mean / (k + mean)))))

        found: Any = optimize.minimize_scalar(
            negative_log_likelihood, bounds=(-9.0, 5.0), method="bounded"
        )
        return NegativeBinomial(float(f"{np.exp(found.x):.4g}"))


@dataclass(frozen=True)
class Gamma(Positive):
    """Positive amounts whose deviation is in proportion to the mean.

    Examples
    --------
    >>> Gamma().deviance(2.0, 2.0)
    np.float64(0.0)
    """

    open_below = True

    def variance(self, mean: Any) -> Any:
        """V(mu)."""
        return mean * mean

    def score(self, link: Any, s: Any, mean: Any, y: Any) -> Any:
        """Half the slope of the deviance in the index."""
        return (1.0 - y / mean) * (link.slope(s) / mean)

    def deviance(self, y: Any, mean: Any) -> Any:
        """The unit deviance."""
        ratio = y / mean
        return 2.0 * (ratio - 1.0 - np.log(ratio))

    def log_likelihood(self, y: Any, mean: Any, exposure: Any, scale: Any) -> Any:
        """Of amounts with the shape exposure / scale."""
        shape, ratio = exposure / scale, y / mean
        return shape * (np.log(shape * ratio) - ratio) - gammaln(shape) - np.log(y)

    def tails(self, y: Any, mean: Any, exposure: Any, scale: Any) -> Tails:
        """Of amounts with the shape exposure / scale."""
        shape = exposure / scale
        x = shape * y / mean
        return Tails.continuous(special.gammainc(shape, x), special.gammaincc(shape, x))


@dataclass(frozen=True)
class InverseGaussian(Positive):
    """Positive amounts with a heavy tail to the right: variance mu^3.

    Examples
    --------
    >>> InverseGaussian().deviance(2.0, 1.0)
    np.float64(0.5)
    """

    open_below = True

    def variance(self, mean: Any) -> Any:
        """V(mu)."""
        return mean * mean * mean

    def deviance(self, y: Any, mean: Any) -> Any:
        """The unit deviance."""
        return np.square(y / mean - 1.0) / y

    def log_likelihood(self, y: Any, mean: Any, exposure: Any, scale: Any) -> Any:
        """Of amounts with the dispersion scale / exposure."""
        phi = scale / exposure
        return -0.5 * (self.deviance(y, mean) / phi + np.log(2.0 * np.pi * phi * y**3))

    def tails(self, y: Any, mean: Any, exposure: Any, scale: Any) -> Tails:
        """Of amounts with the dispersion scale / exposure."""
        phi = scale / exposure
        law: Any = stats.invgauss(mean * phi, scale=1.0 / phi)
        return Tails.continuous(law.cdf(y), law.sf(y))


@dataclass(frozen=True)
class Tweedie(Positive):
    """Amounts that may be 0, of variance mu^power, 1 < power < 2; a power of None is learned.

    Examples
    --------
    >>> round(float(Tweedie(1.5).deviance(0.0, 4.0)), 6)
    8.0
    """

    power: float | None = None

    def __post_init__(self):
        if self.power is not None and not 1.0 < self.power < 2.0:
            raise ValueError(f"power={self.power!r} is not between 1 (poisson) and 2 (gamma).")

    def variance(self, mean: Any) -> Any:
        """V(mu)."""
        return mean ** (self.power or 1.5)

    def deviance(self, y: Any, mean: Any) -> Any:
        """The unit deviance."""
        p = self.power or 1.5
        low, high = mean ** (1.0 - p), mean ** (2.0 - p)
        return 2.0 * (
            y ** (2.0 - p) / ((1.0 - p) * (2.0 - p)) - y * low / (1.0 - p) + high / (2.0 - p)
        )

    def log_likelihood(self, y: Any, mean: Any, exposure: Any, scale: Any) -> Any:
        """Of a Poisson number of gamma amounts, with the dispersion scale / exposure."""
        p, phi = self.power or 1.5, scale / exposure
        alpha, positive = (2.0 - p) / (p - 1.0), y > 0.0
        amount = np.where(positive, y, 1.0)
        x = (amount / ((p - 1.0) * phi)) ** alpha / ((2.0 - p) * phi)
        density = np.where(positive, _log_bessel(alpha, x) - np.log(amount), 0.0)
        return density + (y * mean ** (1.0 - p) / (1.0 - p) - mean ** (2.0 - p) / (2.0 - p)) / phi

    def tails(self, y: Any, mean: Any, exposure: Any, scale: Any) -> Tails:
        """Of a Poisson number of gamma amounts, with the dispersion scale / exposure."""
        p, phi = self.power or 1.5, scale / exposure
        number = np.broadcast_to(mean ** (2.0 - p) / (phi * (2.0 - p)), np.shape(y))
        x = np.broadcast_to(y / (phi * (p - 1.0) * mean ** (p - 1.0)), number.shape)
        none, alpha = np.exp(-number), (2.0 - p) / (p - 1.0)
        lower, upper = np.zeros_like(number), np.zeros_like(number)
        # Numbers outside of the spread have no weight.
        spread = _NUMBERS * np.sqrt(number) + _NUMBERS
        first = np.maximum(np.floor(number - spread), 1.0)
        n_terms = number + spread - first + 2.0
        for step in range(int(np.max(n_terms, initial=0.0))):
            own = step < n_terms
            k = first[own] + step
            share = np.exp(xlogy(k, number[own]) - number[own] - gammaln(k + 1.0))
            lower[own] += share * special.gammainc(alpha * k, x[own])
            upper[own] += share * special.gammaincc(alpha * k, x[own])
        is_zero = y == 0.0
        return Tails(
            below=np.where(is_zero, 0.0, none + lower),
            up_to=none + lower,
            above=upper,
            from_on=np.where(is_zero, 1.0, upper),
        )

    def at(self, share: float) -> "Family":
        """The power at a share of its range."""
        return Tweedie(1.05 + 0.9 * float(share))

    def likely(self, y: np.ndarray, mean: np.ndarray, weights: np.ndarray, exposure: Any) -> Any:
        """The family of the power of maximum likelihood, with that dispersion, for these means.

        `y`, `mean`, `weights` (numbers of repetitions) and `exposure` are vectors of rows. Where
        all means are equal to the targets, the power stays unknown.
        """
        if self.power is not None:
            return self
        if not len(y) or not np.square(y - mean).any():
            return self
        share = weights / weights.sum()

        def cost(power):
            own = Tweedie(float(power))
            pearson = share @ (exposure * np.square(y - mean) / own.variance(mean))
            unit = np.log(pearson)
            found: Any = optimize.minimize_scalar(
                lambda log: -float(share @ own.log_likelihood(y, mean, exposure, np.exp(log))),
                bounds=(unit - _FAR, unit + _FAR),
                method="bounded",
                options={"xatol": 1e-2},
            )
            return found.fun

        limits = {"bounds": (1.05, 1.95), "method": "bounded", "options": {"xatol": 5e-4}}
        with np.errstate(all="ignore"):
            best: Any = optimize.minimize_scalar(cost, **limits)
        return Tweedie(round(float(best.x), 3))

    def learned(self, y: np.ndarray, mean: np.ndarray, weights: np.ndarray) -> "Family":
        """The power by which squared residuals grow with the mean: pseudo-likelihood."""
        if self.power is not None or np.ptp(mean) == 0.0:
            return self
        square, log = np.square(y - mean), np.log(mean)
        middle = np.average(log, weights=np.broadcast_to(weights[:, None], log.shape))
        log = log - middle  # so that powers neither overflow nor vanish

        def negative_log_likelihood(p):
            scale = np.sum(weights @ (square * np.exp(-p * log)))
            mass = weights.sum() * log.shape[1]
            return float(np.log(scale / mass) + p * np.sum(weights @ log) / mass)

        found: Any = optimize.minimize_scalar(
            negative_log_likelihood, bounds=(1.05, 1.95), method="bounded"
        )
        return Tweedie(round(float(found.x), 3))


@dataclass(frozen=True)
class Binomial(Family):
    """Shares of successes, 0 and 1 among them; their exposure is the number of trials.

    Examples
    --------
    >>> round(float(Binomial().deviance(1.0, 0.5)), 4)
    1.3863
    """

    link = links.Logit()
    range = (0.0, 1.0)
    canonical = links.Logit
    others = (links.Probit(), links.Cloglog())
    unit_scale = True

    def check(self, y: np.ndarray) -> None:
        """Refuse targets outside [0, 1]."""
        outside = (y < 0.0) | (y > 1.0)
        if outside.any():
            raise ValueError(
                f"y has targets outside [0, 1], the first {y[outside][0]:g}: they "
                "must be shares of successes. For counts give exposure=, the numbers of trials."
            )

    def clipped(self, mean: Any) -> Any:
        """Means, clipped to just inside 0 and 1."""
        return np.clip(mean, _SURE, 1.0 - _SURE)

    def variance(self, mean: Any) -> Any:
        """V(mu)."""
        return mean * (1.0 - mean)

    def deviance(self, y: Any, mean: Any) -> Any:
        """The unit deviance."""
        own = xlogy(y, y) + xlogy(1.0 - y, 1.0 - y)
        return 2.0 * (own - (y * np.log(mean) + (1.0 - y) * np.log1p(-mean)))

    def log_likelihood(self, y: Any, mean: Any, exposure: Any, scale: Any) -> Any:
        """Of the number of successes among as many trials as the exposure."""
        wins, losses = exposure * y, exposure * (1.0 - y)
        ways = gammaln(exposure + 1.0) - gammaln(wins + 1.0) - gammaln(losses + 1.0)
        return (ways + xlogy(wins, mean) + xlog1py(losses, -mean)) / scale

    def tails(self, y: Any, mean: Any, exposure: Any, scale: Any) -> Tails:
        """Of the number of successes among as many trials as the exposure."""
        trials = _whole(exposure * np.ones_like(y), "binomial")
        wins = _whole(exposure * y, "binomial")
        is_zero, is_all = wins == 0.0, wins == trials
        least, losses = np.maximum(wins, 1.0), np.maximum(trials - wins, 1.0)
        return Tails(
            below=np.where(is_zero, 0.0, special.betainc(trials - wins + 1.0, least, 1.0 - mean)),
            up_to=np.where(is_all, 1.0, special.betainc(losses, wins + 1.0, 1.0 - mean)),
            above=np.where(is_all, 0.0, special.betainc(wins + 1.0, losses, mean)),
            from_on=np.where(is_zero, 1.0, special.betainc(least, trials - wins + 1.0, mean)),
        )


@dataclass(frozen=True)
class HuberT(Family):
    """Real targets with outliers: squares up to `width` robust deviations, linear beyond.

    A scale of None is learned: 1.4826 times the median absolute residual.

    Examples
    --------
    >>> HuberT(width=1.0, scale=1.0).deviance(3.0, 0.0)
    np.float64(5.0)
    """

    width: float = 1.345
    scale: float | None = None
    exposure = None

    def _limit(self):
        return self.width * (self.scale or 1.0)

    def score(self, link: Any, s: Any, mean: Any, y: Any) -> Any:
        """Half the slope of the deviance in the index."""
        limit = self._limit()
        return np.clip(mean - y, -limit, limit) * link.slope(s)

    def deviance(self, y: Any, mean: Any) -> Any:
        """Twice Huber's loss: squared errors near 0."""
        r, limit = np.abs(y - mean), self._limit()
        return np.where(r <= limit, np.square(r), limit * (2.0 * r - limit))[()]

    def start(self, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The medians."""
        return quantiles(y, weights, 0.5)

    def learned(self, y: np.ndarray, mean: np.ndarray, weights: np.ndarray) -> "Family":
        """The scale of the residuals."""
        if self.scale is not None:
            return self
        scale = NORMAL * float(np.max(quantiles(np.abs(y - mean), weights, 0.5)))
        return replace(self, scale=scale if scale > 0.0 else 1.0)


@dataclass(frozen=True)
class Quantile(Family):
    r"""Quantiles of real targets, one output each: the pinball loss, smoothed to learn by.

    The score is F((p - y) / width) - q: the slope of the pinball loss, averaged over errors with
    Epanechnikov's distribution F (the fastest to compute) and a learned deviation `width`. Risks
    use the exact pinball loss. Predicted quantiles are sorted, which never raises their loss, so
    that they do not cross.

    Examples
    --------
    >>> Quantile(0.9).deviance(np.array([[1.0]]), np.array([[0.0]]))
    array([[0.9]])
    """

    levels: float | tuple = 0.5
    width: float | None = None
    exposure = None
    unit_scale = True

    def __post_init__(self):
        q = np.atleast_1d(self.levels)
        if q.ndim != 1 or not ((q > 0.0) & (q < 1.0)).all() or (np.diff(q) <= 0.0).any():
            raise ValueError(f"levels={self.levels!r} are not increasing numbers between 0 and 1.")

    @classmethod
    def of(cls, levels: Any) -> "Quantile":
        """The quantile of one level, or quantiles of a sequence of levels."""
        return cls(float(levels) if np.ndim(levels) == 0 else tuple(map(float, levels)))

    @property
    def q(self) -> np.ndarray:
        """The levels."""
        return np.atleast_1d(np.asarray(self.levels, dtype=float))

    def targets(self, y: np.ndarray) -> np.ndarray:
        """The one target, for every level."""
        if y.shape[1] != 1:
            raise ValueError("Quantiles need one target: y must have one column.")
        return np.repeat(y, len(self.q), axis=1)

    def score(self, link: Any, s: Any, mean: Any, y: Any) -> Any:
        """The slope of the smoothed loss in the index."""
        width = self.width or 1.0
        t = np.clip((mean - y) * (1.0 / (_SUPPORT * width)), -1.0, 1.0)
        score = t * (0.75 - 0.25 * np.square(t)) + (0.5 - self.q)
        return score if isinstance(link, links.Identity) else score * link.slope(s)

    def deviance(self, y: Any, mean: Any) -> Any:
        """The pinball loss."""
        r = y - mean
        return self.q * r - np.minimum(r, 0.0)

    def curvature(self, link: Any, s: Any) -> Any:
        """The density of the smoothing errors at 0."""
        return np.full_like(s, 0.75 / (_SUPPORT * (self.width or 1.0)))

    def start(self, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The quantiles of the targets."""
        return np.array([quantiles(y[:, [j]], weights, q)[0] for j, q in enumerate(self.q)])

    def learned(self, y: np.ndarray, mean: np.ndarray, weights: np.ndarray) -> "Family":
        """A width in proportion to the residuals, the smaller the more rows there are."""
        if self.width is not None:
            return self
        r = y - mean
        r = r - self.start(r, weights)
        most = np.square(3.0 * NORMAL * quantiles(np.abs(r), weights, 0.5))
        square = weights @ np.minimum(np.square(r), most) / weights.sum()
        scale = float(np.mean(np.sqrt(square)))
        return replace(self, width=max(scale, 1e-12) * min(0.5, 2.0 * len(y) ** -0.4))

    def predicted(self, link: Any, s: np.ndarray) -> np.ndarray:
        """Quantiles in order."""
        return np.sort(np.asarray(link.mean(s)), axis=-1)


@dataclass(frozen=True)
class MultinomialLogit(Family):
    """Classes, by a softmax over one index each, and its log-likelihood.

    Examples
    --------
    >>> MultinomialLogit().probabilities(np.zeros((1, 2)))
    array([[0.5, 0.5]])
    """

    unit_scale = True

    def residuals(
        self, link: Any, s: np.ndarray, y: np.ndarray, judged: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities less the true ones, and deviances."""
        logs = log_softmax(s, axis=-1)
        return np.exp(logs) - y, -2.0 * y * (logs if judged is None else judged(logs))

    def hessian(self, s: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The curvature of -log p in the indices, shape (n, k, k)."""
        p = softmax(s, axis=-1)
        return p[:, :, None] * (np.eye(s.shape[1]) - p[:, None])

    def start(self, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Logarithms of the shares of the classes."""
        share = np.maximum(weights @ y / weights.sum(), _SURE)
        return np.log(share) - np.mean(np.log(share))

    def curvature(self, link: Any, s: Any) -> Any:
        """The largest variance of a class, on average."""
        p = softmax(s, axis=-1)
        return p * (1.0 - p)

    def codes(self, codes: np.ndarray, n_classes: int) -> np.ndarray:
        """One column a class."""
        return np.where(codes[:, None] == np.arange(n_classes), 1.0, 0.0)

    def probabilities(self, s: np.ndarray) -> np.ndarray:
        """Of all classes."""
        return softmax(s, axis=1)

    def slopes(self, s: np.ndarray) -> np.ndarray:
        """Those of the probabilities in the indices, shape (n, n_classes, k)."""
        return self.hessian(s, s)

    def onnx(self, g: Any, s: Any) -> Any:
        """Probabilities as nodes of a graph."""
        return g("Softmax", s, axis=1)


@dataclass(frozen=True)
class Ordinal(Family):
    r"""Ordered classes: P(y <= j) = u(c_j - s), one index s and increasing thresholds c.

    u is the logistic function, or that of the links probit and cloglog (proportional hazards).
    Every output is an index less a threshold; all have the same coefficients.

    Examples
    --------
    >>> Ordinal().probabilities(np.array([[1.0, -1.0]])).round(2)
    array([[0.27, 0.46, 0.27]])
    """

    cumulative: Any = links.Logit()

    tied = True
    unit_scale = True

    def __post_init__(self):
        if not isinstance(self.cumulative, tuple(_BENDS)):
            names = [name for name, part in links.LINKS.items() if isinstance(part, tuple(_BENDS))]
            raise ValueError(
                f"link={self.cumulative!r} is not for ordered classes: choose one of "
                f"{', '.join(names)}."
            )

    def _above(self, s):
        """P(y > j) of the outputs."""
        if isinstance(self.cumulative, links.Cloglog):  # 1 - u(-s), without cancellation
            return np.exp(-np.exp(np.minimum(-s, 700.0)))
        return self.cumulative.mean(s)  # u is symmetric

    def _ends(self, s):
        """P(y > j) on both sides of every class."""
        above = self._above(s)
        ones = np.ones_like(above[..., :1])
        return np.concatenate([ones, above], axis=-1), np.concatenate([above, 0.0 * ones], axis=-1)

    def residuals(
        self, link: Any, s: np.ndarray, y: np.ndarray, judged: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Slopes in every output, and the deviance (in the first)."""
        # y is 1 for outputs below the class and 0 above: its differences give the class.
        one = np.ones_like(y[..., :1])
        of_class = np.concatenate([one, y], axis=-1) - np.concatenate([y, 0.0 * one], axis=-1)
        upper, lower = self._ends(s)
        with np.errstate(divide="ignore", invalid="ignore"):
            p = np.sum(of_class * (upper - lower), axis=-1, keepdims=True)
            slope = self.cumulative.slope(-s)
            # d/ds_j of -log p, for the class above threshold j and the one below.
            score = slope * (of_class[..., :-1] - of_class[..., 1:]) / np.where(p > 0.0, p, np.nan)
            deviance = np.zeros_like(score)
            deviance[..., 0] = -2.0 * np.log(np.maximum(p[..., 0], _LEAST))
        return score, deviance if judged is None else judged(deviance)

    def hessian(self, s: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The curvature of -log p in the outputs, shape (n, k, k)."""
        score = self.residuals(self.link, s, y)[0]
        own = score * _BENDS[type(self.cumulative)](s)
        return score[:, :, None] * score[:, None] + own[:, :, None] * np.eye(s.shape[1])

    def start(self, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The thresholds of the shares of the classes."""
        share = np.clip(weights @ y / weights.sum(), _SURE, 1.0 - _SURE)
        return -self.cumulative.inverse(1.0 - share)

    def curvature(self, link: Any, s: Any) -> Any:
        """That of one output alone: Fisher's information of P(y > j)."""
        above = np.clip(self._above(s), _SURE, 1.0 - _SURE)
        return np.square(self.cumulative.slope(-s)) / (above * (1.0 - above))

    def codes(self, codes: np.ndarray, n_classes: int) -> np.ndarray:
        """One column a threshold: whether the class is above."""
        return np.where(codes[:, None] > np.arange(n_classes - 1), 1.0, 0.0)

    def probabilities(self, s: np.ndarray) -> np.ndarray:
        """Of all classes."""
        upper, lower = self._ends(s)
        return np.maximum(upper - lower, 0.0)

    def slopes(self, s: np.ndarray) -> np.ndarray:
        """Those of the probabilities in the outputs, shape (n, n_classes, k)."""
        k = s.shape[1]
        slope = np.asarray(self.cumulative.slope(-s))[:, None, :]
        return slope * (np.eye(k + 1, k, -1) - np.eye(k + 1, k))

    def at_threshold(self, below: Any, above: Any) -> Any:
        """The argument of u where it is `below`, which is 1 - `above`, exact in both tails."""
        if isinstance(self.cumulative, links.Cloglog):
            return np.log(np.where(below < above, -np.log1p(-below), -np.log(above)))
        inverse = self.cumulative.inverse  # u is symmetric
        return np.where(below < above, inverse(below), -inverse(above))

    def onnx(self, g: Any, s: Any) -> Any:
        """Probabilities as nodes of a graph."""
        if isinstance(self.cumulative, links.Cloglog):
            above = g("Sub", 1.0, self.cumulative.onnx(g, g("Neg", s)))
        else:
            above = self.cumulative.onnx(g, s)
        zero = g("Mul", g("Gather", above, np.array([0]), axis=1), 0.0)
        upper = g("Concat", g("Add", zero, 1.0), above, axis=1)
        return g("Max", g("Sub", upper, g("Concat", above, zero, axis=1)), 0.0)


# The links of ordered classes, and the slope of log u'(-s) in the output s.
_BENDS = {
    links.Logit: lambda s: 1.0 - 2.0 * expit(s),
    links.Probit: lambda s: -s,
    links.Cloglog: lambda s: np.exp(np.minimum(-s, 700.0)) - 1.0,
}


FAMILIES = PartTable(
    "family",
    "deviance",
    {
        "matching": Matching(),
        "gaussian": Gaussian(),
        "poisson": Poisson(),
        "negative_binomial": NegativeBinomial(),
        "gamma": Gamma(),
        "inverse_gaussian": InverseGaussian(),
        "tweedie": Tweedie(),
        "binomial": Binomial(),
        "huber": HuberT(),
        "quantile": Quantile(),
        "multinomial": MultinomialLogit(),
        "ordinal": Ordinal(),
    },
    # Of statsmodels, glum and R.
    synonyms={
        "normal": "gaussian",
        "bernoulli": "binomial",
        "inversegaussian": "inverse_gaussian",
        "inverse.gaussian": "inverse_gaussian",
        "negativebinomial": "negative_binomial",
        "negative.binomial": "negative_binomial",
    },
)
# Families of classes.
OF_CLASSES = ("matching", "binomial", "multinomial", "ordinal")


def _log_bessel(alpha, x):
    """The logarithm of Wright's function, in the series of Tweedie's density."""
    logarithm = getattr(special, "log_wright_bessel", None)  # from SciPy 1.14 on
    return (
        np.log(special.wright_bessel(alpha, 0.0, x))
        if logarithm is None
        else logarithm(alpha, 0.0, x)
    )


def quantiles(y: np.ndarray, weights: np.ndarray, q: float) -> np.ndarray:
    """The weighted quantile of every column: where the weight below first reaches a share q.

    Examples
    --------
    >>> quantiles(np.array([[3.0], [1.0], [2.0]]), np.ones(3), 0.5)
    array([2.])
    """
    order = np.argsort(y, axis=0, kind="stable")
    mass = np.cumsum(weights[order], axis=0)
    position = np.argmax(mass >= q * mass[-1] * (1.0 - 1e-12), axis=0)
    return np.take_along_axis(y, np.take_along_axis(order, position[None], 0), 0)[0]


def family_of(y: np.ndarray) -> Any:
    """The family that is inferred from targets.

    - Binomial for numbers from 0 to 1, unless all are below 1e-9: then they are amounts in a large
      unit.
    - Poisson for whole numbers from 0 on, the smallest below 10.
    - Gamma for positive numbers with a tail to the right (the mean above the median, the largest
      above twice the median); Tweedie instead if some are 0.
    - Otherwise, and where all are equal, normal.

    Examples
    --------
    >>> family_of(np.array([0.0, 1.0, 1.0])), family_of(np.array([0.0, 3.0, 1.0]))
    (Binomial(), Poisson())
    """
    low, high = float(np.min(y)), float(np.max(y))
    if low < 0.0 or low == high:
        return FAMILIES["gaussian"]
    if _LEAST_SHARE <= high <= 1.0:
        return FAMILIES["binomial"]
    if low < _SMALL_COUNT and np.all(y == np.floor(y)):
        return FAMILIES["poisson"]
    middle = float(np.median(y))
    if np.mean(y) <= middle or high <= 2.0 * middle:
        return FAMILIES["gaussian"]
    return FAMILIES["gamma" if low > 0.0 else "tweedie"]
