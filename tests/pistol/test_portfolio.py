"""A portfolio: every member learns as it would alone, the lowest progressive error goes on."""

import numpy as np
import pytest

from tunefree.engine.run import run
from tunefree.engine.sources import Rows
from tunefree.held_out.progressive_risk import risks
from tunefree.parts.losses import Logistic
from tunefree.pistol.linear import Diagonal
from tunefree.pistol.portfolio import Portfolio, ViewMember
from tunefree.pistol.views import View
from tunefree.rows.order import given_visits

N, D = 1200, 5
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D))
Y = np.where(X @ RNG.normal(size=D) + 0.5 * RNG.normal(size=N) > 0, 1.0, -1.0)[:, None]
# The second view hides all but one column, the third all of them.
VIEWS = {
    "full": View(1.0),
    "narrow": View(1.0, scale=np.eye(D)[0]),
    "blind": View(1.0, scale=np.zeros(D)),
}
LEARNER = Diagonal(loss=Logistic())
MEMBERS = tuple(ViewMember(v, LEARNER, v) for v in ("blind", "full", "narrow"))


def portfolio(members=MEMBERS, n_passes=4, **kwargs):
    return Portfolio(members, True, n_passes, **kwargs)


def learn(p, views=VIEWS):
    views = {m.view: views[m.view] for m in p.members}
    source = Rows(X, Y, given_visits(np.ones(N)))
    return run(p, p.init(views, D, 1, N), source)


def test_the_best_go_on_in_the_order_of_their_progressive_error():
    result = learn(portfolio(keep=2))
    risk = risks(result.state.progress)[::2]
    assert result.state.chosen == tuple(np.argsort(risk)[:2]) == (1, 2)
    assert result.state.members[0] is None
    assert result.n_passes == 4
    board = portfolio().leaderboard(result.state)
    assert [row["name"] for row in board] == ["full", "narrow", "blind"]
    assert [row["chosen"] for row in board] == [True, True, False]
    np.testing.assert_allclose([row["progressive_error"] for row in board], np.sort(risk))


def test_the_progressive_error_is_that_of_the_running_average():
    """Every row is predicted by the mean of the iterates up to it."""
    state = learn(portfolio(n_passes=1)).state
    shown = VIEWS["full"].show(X, np.arange(N))
    scores = np.empty((2, N, 1))
    LEARNER.scan(LEARNER.init(D + 1, 1), shown, Y, np.ones(N), scores)
    for position, seen in enumerate(scores):
        mistakes = (seen[:, 0] > 0) != (Y[:, 0] > 0)
        assert risks(state.progress, 1.0)[2 + position] == pytest.approx(mistakes.mean())


@pytest.mark.parametrize("tail, last", [(0.5, False), (1.0, False), (0.0, True)])
def test_a_member_learns_as_it_would_alone(tail, last):
    together, alone = portfolio(tail=tail), portfolio(MEMBERS[1:2], tail=tail)
    one, other = learn(together).state, learn(alone).state
    for a, b in zip(together.weights(one, 1, last), alone.weights(other, 0, last), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_tail_is_the_mean_of_the_second_half_of_the_passes():
    whole, half = portfolio(MEMBERS[1:2], tail=1.0), portfolio(MEMBERS[1:2])
    first = learn(whole._replace(n_passes=2)).state
    both, second = learn(whole).state, learn(half).state
    for a, b, c in zip(
        *(p.weights(s, 0) for p, s in ((whole, first), (half, second), (whole, both))), strict=True
    ):
        np.testing.assert_allclose((a + b) / 2, c, rtol=1e-10)


def test_the_blend_is_the_sum_of_the_chosen_in_units_of_their_size():
    p = portfolio()
    state = learn(p).state
    coef, intercept, predicted = p.blend(state, X)
    direct = 0.0
    for i in state.chosen:
        c, b = p.weights(state, i)
        f = X @ c + b
        direct = direct + f / np.sqrt(np.mean(f**2))
    np.testing.assert_allclose(X @ coef + intercept, direct, rtol=1e-10)
    assert predicted.shape == (N // 2, 1)


def test_trace_has_the_curve_and_the_scale_of_every_pass():
    p = portfolio()
    trace = p.trace(learn(p).state)
    assert trace["rows"][-1] == N
    assert set(trace["progressive_error"]) == {"blind", "full", "narrow"}
    assert [set(scales) for scales in trace["scale"]] == [{"full", "narrow"}] * 4
    assert all(s > 0 for scales in trace["scale"] for s in scales.values())
