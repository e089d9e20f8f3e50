"""Drift without labels: the size of the tests, what they find, and what a model file keeps."""

import numpy as np
import pytest

from tunefree.uncertainty.drift import DriftReference


def rows(rng, n, shift=0.0):
    """Numbers, counts, numbers with gaps, five levels, levels of which most are rare, and names."""
    gaps = np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n) + shift)
    shares = np.array([0.4, 0.3, 0.15, 0.1, 0.05])
    return {
        "number": rng.normal(size=n) + shift,
        "count": rng.poisson(1.5 + shift, n),
        "gaps": gaps,
        "level": rng.choice([*"abcde"], n, p=shares[::-1] if shift else shares),
        "rare levels": np.minimum(rng.zipf(1.6 if not shift else 3.0, n), 150).astype(str),
        "names": rng.integers(0, 10**9, n).astype(str).astype(object),
    }


@pytest.mark.parametrize("sizes, n_draws", [((300, 200), 60), ((300, 200), 300), ((15, 200), 300)])
def test_without_drift_one_column_in_twenty_has_a_p_value_below_a_twentieth(sizes, n_draws):
    p, n_false = [], 0
    for seed in range(n_draws):
        rng = np.random.default_rng(seed)
        one, new = (rows(rng, n) for n in sizes)
        report = DriftReference.of(one, one["number"], held_out=True).compare(new, new["number"])
        p.append([found.p_value for found in [*report.columns, report.predictions]])
        n_false += report.drifts
    below, error = (np.array(p) < 0.05).mean(axis=0), np.sqrt(0.05 * 0.95 / n_draws)
    assert (below < 0.05 + 2.5 * error).all()
    assert n_false <= 2, "the threshold is one in a thousand of tables"


def test_drift_is_found_in_each_column_that_has_some():
    rng = np.random.default_rng(0)
    reference = DriftReference.of(rows(rng, 500))
    report = reference.compare(rows(rng, 300, shift=1.0))
    drifting = {found.column for found in report.columns if found.drifts}
    assert drifting == {"number", "count", "gaps", "level", "rare levels"}
    assert reference.compare(rows(rng, 300)).drifts is False


def test_predictions_for_rows_that_were_learned_have_an_index_and_no_test():
    y = np.random.default_rng(0).normal(size=200)
    report = DriftReference.of({"x": y}, y).compare({"x": y}, y + 9.0)
    assert report.predictions.index > 1.0 and report.predictions.p_value is None
    assert not report.drifts


def test_the_share_outside_counts_rows_beyond_the_range_and_levels_that_are_new():
    reference = DriftReference.of({"x": np.arange(40.0), "c": np.array(["a", "b"] * 20)})
    report = reference.compare({"x": np.array([1.0, 99.0, 2.0, 3.0]), "c": np.array([*"abzz"])})
    assert [found.outside for found in report.columns] == [0.25, 0.5]
    assert report.outside == 0.75
    assert reference.compare({"x": np.ones(3)}).absent == ["c"]
