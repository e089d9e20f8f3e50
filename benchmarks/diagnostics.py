"""Tests and bands of generalized linear models under the truth: rejection rates and coverage.

python benchmarks/diagnostics.py [--draws N] [--only FAMILY ...]

1,000 draws of each family: 300 rows of four columns, of which only the first has an effect (0.5 in
the index). The columns b, c and d have none, so a test at .05 of these should reject in .05 of
draws; two standard errors of 1,000 draws are .0138. LR, Wald: b and c at once and d (type II), by
likelihood ratio and by Wald's test with the covariance HC3 and, nonrobust, by Fisher's information.
type I: d added last. two models: the likelihood-ratio test of the model of a alone. band: the share
of draws in which the 95 % band of the mean holds it, the mean over five rows, HC3 | nonrobust.
Of three classes the effects of a are 0.5 and -0.5, and the bands are of the probabilities of all.
"""

import argparse
import time

import numpy as np

from _tables import console, table
from tunefree.parts import families
from tunefree.rows.levels import TableColumns
from tunefree.uncertainty.class_rows import probability_band
from tunefree.uncertainty.inference import inferred
from tunefree.uncertainty.laws import Law
from tunefree.uncertainty.mean_bands import mean_band
from tunefree.uncertainty.nested import nested_test
from tunefree.uncertainty.samples import CovarianceOptions
from tunefree.uncertainty.terms import terms_tested

NAMES, ROWS, EFFECT, CONSTANT = list("abcd"), 300, 0.5, 0.5
GROUPS = [["b", "c"], "d"]


def _tweedie(mean, rng):
    """Of power 1.5 and dispersion 1."""
    number = rng.poisson(2.0 * np.sqrt(mean))
    return np.where(number, rng.gamma(np.maximum(number, 1), np.sqrt(mean) / 2.0), 0.0)


DRAWN = {
    "gaussian": (families.Gaussian(), lambda mean, rng: rng.normal(mean)),
    "poisson": (families.Poisson(), lambda mean, rng: rng.poisson(mean)),
    "negative binomial": (
        families.NegativeBinomial(0.5),
        lambda mean, rng: rng.negative_binomial(2.0, 2.0 / (2.0 + mean)),
    ),
    "gamma": (families.Gamma(), lambda mean, rng: rng.gamma(3.0, mean / 3.0)),
    "inverse Gaussian": (families.InverseGaussian(), lambda mean, rng: rng.wald(mean, 4.0)),
    "tweedie": (families.Tweedie(1.5), _tweedie),
    "binomial": (families.Binomial(), lambda mean, rng: rng.binomial(1, mean)),
}


def _of_classes(family):
    """A family of classes, and the draws of rows with these probabilities."""

    def draw(p, rng):
        return family.codes((p.cumsum(axis=1) < rng.uniform(size=(len(p), 1))).sum(axis=1), 3)

    return family, draw


OF_CLASSES = {
    "multinomial": _of_classes(families.MultinomialLogit()),
    "ordinal": _of_classes(families.Ordinal()),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--only", nargs="*", default=[*DRAWN, *OF_CLASSES])
    options = parser.parse_args()
    start, rows = time.process_time(), []
    for name in options.only:
        found = np.array([draw(name, seed) for seed in range(options.draws)])
        rates = [f"{rate:.3f}" for rate in (found[:, :8] < 0.05).mean(axis=0)]
        bands = [f"{share:.3f}" for share in found[:, 8:].mean(axis=0)]
        rows.append([name, *rates, " | ".join(bands)])
    heads = [
        "family", "LR b, c", "LR d", "Wald b, c", "Wald d", "nonrobust b, c", "nonrobust d",
        "type I d", "two models", "band",
    ]  # fmt: skip
    table(f"{options.draws} draws: share rejected at .05", heads, rows)
    console.print(f"{time.process_time() - start:.0f} CPU seconds")
    console.print(__doc__.split("\n\n", 2)[2].replace("\n", " "))


def draw(name, seed):
    """The p-values of one draw, and the shares of the bands that hold the mean."""
    family, targets = (DRAWN | OF_CLASSES)[name]
    rng = np.random.default_rng(seed)
    X, new = rng.normal(size=(ROWS, 4)), np.eye(5, 4)
    labels = list("123") if name in OF_CLASSES else []
    if labels:
        link = getattr(family, "cumulative", families.Binomial().link)
        mean, truth = (family.probabilities(_indices(family, rows)) for rows in (X, new))
    else:
        link = family.link
        mean, truth = (link.mean(EFFECT * rows[:, 0] + CONSTANT) for rows in (X, new))
    law = Law(family, link)
    y, ones = np.asarray(targets(mean, rng), dtype=float), np.ones(ROWS)
    y = np.maximum(y, 1e-8) if family.open_below else y
    robust, plain = (CovarianceOptions(cov_type) for cov_type in ("HC3", "nonrobust"))
    fits = [inferred(X, y, ones, law, True, NAMES, own, labels=labels) for own in (robust, plain)]
    two, other = (terms_tested(fit, NAMES, groups=GROUPS) for fit in fits)
    added = terms_tested(fits[1], NAMES, typ=1, groups=["a", "b", "c", "d"])
    nested = nested_test(fits[0], inferred(X[:, :1], y, ones, law, True, NAMES[:1], labels=labels))
    shares, band = [], probability_band if labels else mean_band
    for fit in fits:
        columns = TableColumns(NAMES, NAMES, [])
        ends = band(fit, columns, new, np.array([0.05]))[1][..., 0]
        shares.append(np.mean((ends[..., 0] < truth) & (truth < ends[..., 1])))
    p_values = [*two.lr_p_value, *two.wald_p_value, *other.wald_p_value, added.lr_p_value[-1]]
    return [*p_values, nested.p_value, *shares]


def _indices(family, X):
    """The indices of the outputs of classes."""
    if family.tied:
        return EFFECT * X[:, :1] + [CONSTANT, -CONSTANT]
    return np.column_stack([np.zeros(len(X)), EFFECT * X[:, 0], CONSTANT - EFFECT * X[:, 0]])


if __name__ == "__main__":
    main()
