"""Laws of intervals, sets, calibration and risks: exact ranks, coverage, references."""

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.isotonic import isotonic_regression

from tunefree.uncertainty import risk
from tunefree.uncertainty.calibration import Slopes, VennAbers, calibrated
from tunefree.uncertainty.intervals import (
    HeldOutProbabilities,
    Local,
    Residuals,
    conformity_scores,
    intervals,
    plus_interval,
    plus_set,
    quantiles,
    rates,
)

ALPHAS = np.array([0.05, 0.1, 0.3])


@pytest.mark.parametrize("n", [20, 57, 100])
def test_a_quantile_has_the_rank_that_covers(n):
    scores = np.random.default_rng(n).permutation(n) + 1.0
    assert (
        quantiles(scores, np.ones(n), ALPHAS).tolist() == np.ceil((1 - ALPHAS) * (n + 1)).tolist()
    )


def test_whole_weights_are_repetitions_and_others_count_as_effective_rows():
    rng = np.random.default_rng(0)
    scores, weights = rng.normal(size=60), rng.integers(1, 4, 60).astype(float)
    every = np.repeat(scores, weights.astype(int))
    expected = quantiles(every, np.ones(len(every)), ALPHAS)
    np.testing.assert_array_equal(quantiles(scores, weights, ALPHAS), expected)
    # A common factor that leaves weights fractional changes nothing.
    np.testing.assert_array_equal(
        quantiles(scores, 0.3 * weights, ALPHAS), quantiles(scores, 0.7 * weights, ALPHAS)
    )


def test_fewer_rows_than_one_over_alpha_have_no_limit():
    with pytest.warns(UserWarning, match="8 held-out rows are fewer"):
        assert quantiles(np.arange(8.0), np.ones(8), np.array([0.1, 0.2])).tolist() == [np.inf, 7]


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, [], [[0.1]], np.nan])
def test_what_is_no_rate_is_refused(alpha):
    with pytest.raises(ValueError, match="alpha="):
        rates(alpha)


def test_split_conformal_covers_whatever_the_law_of_the_scores():
    """The coverage of rank k of n has the law Beta(k, n + 1 - k), whose mean is 1 - alpha."""
    rng, n, alpha = np.random.default_rng(1), 39, np.array([0.1])
    covered = [
        np.mean(rng.standard_cauchy(200) <= quantiles(rng.standard_cauchy(n), np.ones(n), alpha))
        for _ in range(400)
    ]
    assert abs(np.mean(covered) - 0.9) < 4 * np.std(covered) / 20


def noisy(n, rng, slope):
    x = rng.uniform(-1, 1, n)
    return x, x + (0.1 + slope * np.abs(x)) * rng.normal(size=n)


def test_a_local_scale_is_taken_where_it_pays_and_only_there():
    rng = np.random.default_rng(0)
    for slope, local in ((0.0, False), (1.0, True)):
        x, y = noisy(500, rng, slope)
        part = Residuals.of(x, y, np.ones(500))
        assert isinstance(part.scale, Local) == local
        new, target = noisy(4000, rng, slope)
        sigma = part.scale.of(new, None)
        ends = intervals((part,), new[:, None], sigma[:, None], ALPHAS)[:, 0]
        inside = (ends[:, 0] <= target[:, None]) & (target[:, None] <= ends[:, 1])
        np.testing.assert_allclose(inside.mean(axis=0), 1 - ALPHAS, atol=0.045)
        if local:
            size = 0.1 + np.abs(new)
            assert np.corrcoef(np.log(sigma), np.log(size))[0, 1] > 0.8
    # In other units everything is as many times larger.
    twice = Residuals.of(1e6 * x, 1e6 * y, np.ones(500))
    np.testing.assert_allclose(twice.ends(ALPHAS)[1], part.ends(ALPHAS)[1], rtol=1e-5)
    np.testing.assert_allclose(twice.scale.of(1e6 * new, None), 1e6 * sigma, rtol=1e-5)


def test_two_sides_are_taken_for_skewed_noise():
    rng = np.random.default_rng(0)
    said, noise = np.zeros(1000), rng.exponential(size=1000)
    part = Residuals.of(said, noise, np.ones(1000))
    assert part.two_sided
    low, high = part.ends(np.array([0.1]))
    assert part.scale.value * high[0] < 3.5 and part.scale.value * low[0] > -0.1


def test_targets_jointly_have_one_quantile():
    rng = np.random.default_rng(0)
    told = rng.normal(size=(400, 3)) * [1.0, 10.0, 100.0]
    parts = [Residuals.of(np.zeros(400), told[:, j], np.ones(400)) for j in range(3)]
    new, sigma = rng.normal(size=(5000, 3)) * [1.0, 10.0, 100.0], np.empty((5000, 3))
    for j, part in enumerate(parts):
        sigma[:, j] = part.scale.of(new[:, j], None)
    ends = intervals(parts, np.zeros((5000, 3)), sigma, np.array([0.1]), joint=True)[..., 0]
    inside = ((ends[:, :, 0] <= new) & (new <= ends[:, :, 1])).all(axis=1)
    assert abs(inside.mean() - 0.9) < 0.03


def test_cv_plus_is_what_it_says():
    """Against the definition, row by row, with unit and other weights."""
    rng, n = np.random.default_rng(0), 30
    said = [rng.normal(size=6) for _ in range(3)]
    sigma = [rng.uniform(0.5, 2, 6) for _ in range(3)]
    scores = [rng.exponential(size=n // 3) for _ in range(3)]
    alphas = np.array([0.1, 0.2])
    for weight in (1.0, 2.0):
        weights = [np.full(n // 3, weight)] * 3
        ends = plus_interval(scores, weights, said, sigma, alphas)
        for i in range(6):
            up = np.concatenate(
                [f[i] + s * c[i] for f, s, c in zip(said, scores, sigma, strict=True)]
            )
            down = np.concatenate(
                [f[i] - s * c[i] for f, s, c in zip(said, scores, sigma, strict=True)]
            )
            up, down = (np.sort(np.repeat(v, int(weight))) for v in (up, down))
            k = np.ceil((1 - alphas) * (len(up) + 1)).astype(int)
            np.testing.assert_allclose(ends[i, 1], up[k - 1])
            np.testing.assert_allclose(ends[i, 0], down[len(up) - k])


def chances(n, rng, k=4):
    p = rng.dirichlet(np.full(k, 0.5), n)
    return p, (rng.uniform(size=(n, 1)) > p.cumsum(axis=1)).sum(axis=1)


@pytest.mark.parametrize("score", ["lac", "aps"])
def test_sets_cover_and_those_of_every_class_do_in_every_class(score):
    rng = np.random.default_rng(0)
    p, codes = chances(2000, rng)
    part, (new, truth) = HeldOutProbabilities(p, codes, np.ones(2000)), chances(5000, rng)
    for conditional in (False, True):
        sets = part.sets(new, ALPHAS, score, conditional)
        inside = sets[np.arange(5000), truth]
        np.testing.assert_allclose(inside.mean(axis=0), 1 - ALPHAS, atol=0.03)
        if conditional:
            for c in range(4):
                rate = inside[truth == c].mean(axis=0)
                np.testing.assert_allclose(rate, 1 - ALPHAS, atol=0.05)
    # CV+ of one model is the split: the definitions agree.
    same = plus_set([part], [new], ALPHAS, score)
    np.testing.assert_array_equal(same, part.sets(new, ALPHAS, score))


def test_a_class_of_few_rows_is_always_in():
    rng = np.random.default_rng(0)
    p, codes = chances(400, rng)
    codes[codes == 3], codes[:5] = 2, 3
    sets = HeldOutProbabilities(p, codes, np.ones(400)).sets(
        p, np.array([0.1]), class_conditional=True
    )
    assert sets[:, 3].all() and not sets[:, 2].all()


def test_an_unknown_score_is_refused():
    with pytest.raises(ValueError, match="score='raps'"):
        conformity_scores(np.ones((1, 2)), "raps")


def test_venn_abers_is_two_isotonic_regressions():
    rng = np.random.default_rng(0)
    for trial in range(60):
        n = int(rng.integers(2, 30))
        s = np.round(rng.uniform(size=n), 1 if trial % 2 else 6)
        y = (rng.uniform(size=n) < s).astype(float)
        w = rng.integers(1, 4, n).astype(float) if trial % 3 else np.ones(n)
        pair = VennAbers.fit(s, y, w)
        for new in [*rng.uniform(-0.1, 1.1, 4), *s[:3]]:
            for label, got in enumerate(pair.of(np.array([new]))[0]):
                knots, place = np.unique(np.append(s, new), return_inverse=True)
                total = np.bincount(place, np.append(w, 1.0))
                hits = np.bincount(place, np.append(w * y, label))
                fit = isotonic_regression(hits / total, sample_weight=total)
                assert abs(fit[place[-1]] - got) < 1e-12


def test_calibration_is_left_alone_where_it_is_right_and_mended_where_not():
    rng = np.random.default_rng(0)
    p, codes = chances(1500, rng, 3)
    logs = np.log(p)
    assert calibrated(logs, codes, np.ones(1500)) is None
    found = calibrated(logs * [1.0, 3.0, 0.5], codes, np.ones(1500))
    new, truth = chances(4000, rng, 3)
    wrong = np.log(new) * [1.0, 3.0, 0.5]
    each = np.arange(4000), truth
    assert found.of(wrong)[each].mean() > log_softmax(wrong, axis=1)[each].mean() + 0.1
    assert found.of(wrong)[each].mean() > np.log(new)[each].mean() - 0.01
    np.testing.assert_allclose(np.exp(Slopes.of(found, wrong)).sum(axis=1), 1.0)


@pytest.mark.parametrize("p", [0.02, 0.3])
def test_risk_intervals_cover(p):
    """In 200 draws each: 95 % less three standard errors of that."""
    rng, n, told = np.random.default_rng(0), 300, []
    for _ in range(200):
        losses = (rng.uniform(size=n) < p).astype(float)
        ends = [risk.hedged(losses), risk.exact(losses.sum(), n), risk.online(losses.sum(), n)]
        told.append([low <= p <= high for low, high in ends])
    assert (np.mean(told, axis=0) >= 0.95 - 3 * np.sqrt(0.05 * 0.95 / 200)).all()


@pytest.mark.parametrize("p", [0.01, 0.2])
def test_risk_intervals_of_weighted_rows_cover(p):
    """Weights that balance two classes of 270 and 30 rows: few mistakes are no certainty."""
    rng, covered = np.random.default_rng(0), 0
    weights = np.repeat([1.0 / 1.8, 5.0], [270, 30])
    for _ in range(400):
        losses = (rng.uniform(size=300) < p).astype(float)
        low, high = risk.held_out(losses, weights, bounded=True, once=True)[0]
        covered += low <= p <= high
    assert covered / 400 >= 0.94
    assert risk.held_out(0.0 * losses, weights, bounded=True)[0][1] > 0.03


def test_the_mean_of_skewed_losses_is_covered():
    """Squares of normal errors: from 20 rows 1.96 standard errors cover .87."""
    rng, held = np.random.default_rng(0), 0
    for _ in range(1000):
        low, high = risk.skewed(rng.normal(size=20) ** 2, np.ones(20))
        held += low <= 1.0 <= high
    assert held / 1000 > 0.92


def test_the_online_interval_holds_at_all_times_for_risks_that_move():
    """The mean of the risks so far is missed anywhere in at most 5 % of streams."""
    rng, n, missed = np.random.default_rng(0), 1000, 0
    times = np.unique(np.geomspace(5, n, 12).astype(int))
    for trial in range(40):
        risks = 0.2 + 0.2 * np.sin(np.arange(n) / 50 + trial)
        wrong, mean = (rng.uniform(size=n) < risks).cumsum(), risks.cumsum() / np.arange(1, n + 1)
        ends = [risk.online(wrong[t - 1], t) for t in times]
        missed += any(
            not low <= mean[t - 1] <= high for t, (low, high) in zip(times, ends, strict=True)
        )
    assert missed <= 2


def test_the_risk_says_what_it_rests_on():
    losses = np.random.default_rng(0).permutation(np.repeat([0.0, 1.0], [90, 10]))
    ends = {
        "Waudby-Smith-Ramdas": risk.held_out(losses, np.ones(100), bounded=True),
        "Clopper": risk.held_out(losses, np.ones(100), bounded=True, once=True),
        "approximate": risk.held_out(losses, np.ones(100), bounded=False),
    }
    for word, ((low, high), kind) in ends.items():
        assert word in kind and low < 0.1 < high
    weighted = risk.held_out(np.array([0.0, 1.0]), np.array([90.0, 10.0]), bounded=True, once=True)
    assert weighted[0] == ends["Clopper"][0]
    assert risk.held_out(losses[:0], losses[:0], bounded=True)[0] is None
