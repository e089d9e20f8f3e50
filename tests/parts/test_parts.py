"""Every part: a value of its own type, whose formula is the same in Python and in a kernel."""

import itertools
import pickle
from typing import NamedTuple

import numba
import numpy as np
import pytest

from tunefree.core.jit import fast_exp, kernel, part
from tunefree.parts import averaging, losses
from tunefree.parts.losses import LOSSES, Hinge, Huber, Logistic
from tunefree.pistol import rules
from tunefree.pistol.linear import SETTINGS, Diagonal, Isotropic
from tunefree.rows.designs import Dense, Many, One

# One part of each type: a specialization is compiled for each.
PARTS = list({type(p): p for p in [*LOSSES.values(), *averaging.AVERAGES.values()]}.values()) + [
    rules.PiSTOL(),
    rules.DoWG(),
    One(),
    Many(3),
]
LEARNERS = [make(Logistic(), 100) for make in SETTINGS.values()]


@pytest.mark.parametrize("one, other", [*itertools.combinations(PARTS + LEARNERS[:1], 2)])
def test_parts_of_different_types_differ(one, other):
    assert one != other
    assert len({one, other}) == 2


@pytest.mark.parametrize("one", PARTS + LEARNERS)
def test_a_part_is_a_value(one):
    """True, equal to its copy, hashable, and the same after a pickle."""
    copy = pickle.loads(pickle.dumps(one))
    assert one
    assert copy == one
    assert not copy != one
    assert hash(copy) == hash(one)


def test_a_parameter_makes_a_difference():
    assert Huber(1.0) != Huber(2.0)
    assert Huber(1.0) == Huber(1.0)
    assert Hinge() != ()


@numba.njit
def _losses(loss, p, y, out):
    for i in range(p.shape[0]):
        out[0, i] = losses.value(loss, p[i], y)
        out[1, i] = losses.slope(loss, p[i], y)
        out[2, i] = losses.bound(loss)


@pytest.mark.parametrize("loss", [p for p in PARTS if hasattr(p, "task")])
def test_compiled_losses_equal_python(loss):
    p = np.array([-1e3, -2.0, -1.0, 0.0, 0.3, 1.0, 1.7, 1e3])
    compiled = np.empty((3, len(p)))
    _losses(loss, p, 1.0, compiled)
    python = [[loss.value(v, 1.0), loss.slope(v, 1.0), loss.bound()] for v in p]
    np.testing.assert_allclose(compiled.T, python, rtol=1e-15)


@numba.njit
def _masses(average, start, stop):
    return averaging.mass(average, start, stop)


@pytest.mark.parametrize("average", [*averaging.AVERAGES.values()])
def test_compiled_averages_equal_python(average):
    placed = averaging.within(average, 8)
    assert _masses(placed, 3.0, 10.0) == placed.mass(3.0, 10.0)


@numba.njit
def _rule(rule, s):
    rules.enter(rule, s, 0, 0.0, 2.0, 1.5)
    rules.loosen(rule, s, 0, 2.0, 1.5, 1.75)
    s[0, rules.SQUARED_NORM] = 0.7
    c = rules.coefficient(rule, s, 0, 2.0)
    step = rules.increment(rule, s, 0, -0.8, 1.3, 2.0)
    rules.settle(rule, s, 0)
    return c, step, rules.importance(rule, s, 0)


@pytest.mark.parametrize(
    "rule", [rules.PiSTOL(), rules.PiSTOL(squares=True, root=False), rules.DoWG()]
)
def test_compiled_rules_equal_python(rule):
    compiled, python = np.zeros((2, 1, rules.N_SCALARS))
    np.testing.assert_allclose(_rule(rule, compiled), _rule.py_func(rule, python), rtol=1e-14)
    np.testing.assert_allclose(compiled, python, rtol=1e-14)


def test_fast_exp_is_exp():
    x = np.concatenate([np.linspace(-700, 700, 20001), np.linspace(-1, 1, 2001)])
    fast = np.array([fast_exp(v) for v in x])
    np.testing.assert_allclose(fast, np.exp(x), rtol=4e-16)


@part
class Quantile(NamedTuple):
    """A user's loss: the pinball loss of a quantile."""

    q: float = 0.9
    task = "regression"

    def value(self, p, y):
        return self.q * (y - p) if y > p else (1.0 - self.q) * (p - y)

    def slope(self, p, y):
        return -self.q if y > p else (1.0 - self.q)

    def bound(self):
        return max(self.q, 1.0 - self.q)


@pytest.mark.parametrize("learner", [Diagonal, Isotropic])
def test_a_users_own_loss_works_in_the_kernels(learner):
    """On a constant column the learner finds the quantile of the targets."""
    y = np.random.default_rng(0).uniform(size=(4000, 1))
    learner = learner(loss=Quantile())
    state = learner.init(1, 1)
    learner.scan(state, Dense(np.ones((len(y), 1))), y, np.ones(len(y)))
    assert np.mean(y < learner.mean(state)[0, 0]) == pytest.approx(0.9, abs=0.03)


def test_a_users_own_part_is_not_cached():
    """Numba could not see an edit of it: such kernels are compiled in each process."""

    @kernel
    def answer(loss):
        return losses.bound(loss)

    assert answer(Hinge()) == 1.0
    assert answer(Quantile(0.25)) == 0.75
    assert len(answer.overloads) == 2
    assert len(answer._cache._cache_file._load_index()) == 1
    with pytest.raises(numba.TypingError):
        answer((1.0, 2.0))
