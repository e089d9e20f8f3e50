"""What a search spent on held-out rows counts, but not against those that did not search."""

from types import SimpleNamespace

import numpy as np
import pytest

from tunefree.held_out.predictions import Entry
from tunefree.held_out.stacking import Classes, Targets, choose_stack

N = 150
RNG = np.random.default_rng(0)
LABELS = np.arange(N) % 2
KINDS = {
    "classes": (Classes(2), LABELS, 1.5 * (2.0 * LABELS - 1.0)),
    "numbers": (Targets(np.ones(1)), 2.0 * LABELS[:, None] - 1.0, 0.8 * (2.0 * LABELS - 1.0)),
}


def chosen(kind, *optimisms):
    """The stack of candidates that are equally good, of which some searched on the rows."""
    score, y, signal = KINDS[kind]
    weights, entries = np.ones(N), []
    for number, optimism in enumerate(optimisms):
        noise = 0.7 * np.random.default_rng(number).normal(size=N)
        scores = (signal + noise)[:, None]
        losses = score.evaluate(scores, y, weights)
        name = SimpleNamespace(name=f"candidate {number}")
        rows = np.arange(N)
        entries.append(Entry(name, scores, *losses, rows, 1.0, "finished", optimism=optimism))
    problem = SimpleNamespace(
        y=y, weights=weights, score=score, groups_of=lambda rows: None, shape=SimpleNamespace(k=1)
    )
    return choose_stack(entries, problem)


@pytest.mark.parametrize("kind", KINDS)
def test_a_costly_search_does_not_end_the_others(kind):
    alone = chosen(kind, 0.0, 0.0)
    assert np.abs(alone.scores()).max() > 0.5
    beside = chosen(kind, 0.0, 0.0, 5.0)
    np.testing.assert_array_equal(beside.scores(), alone.scores())
    assert beside.optimism == 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_a_search_that_cost_nearly_nothing_keeps_its_share(kind):
    assert len(chosen(kind, 0.0, 1e-6).entries) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_where_all_searched_the_step_is_lost(kind):
    searched = chosen(kind, 5.0, 5.0)
    assert np.ptp(searched.scores()) < 1e-9
