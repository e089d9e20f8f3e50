"""A portfolio: several learners in several views, which learn side by side in the same passes.

All members learn the same rows in the same order. Progressive validation scores them, so that the
selection needs no held-out rows. The best members continue for further passes and are averaged.

The members at the end of this file are those of linear PiSTOL with ``setting="auto"``. They and the
number of passes were chosen by test errors over about thirty public and synthetic data sets
together, never for one set.
"""

from typing import Any, NamedTuple

import numpy as np

from tunefree.held_out.progressive_risk import (
    ProgressiveRisk,
    curve,
    recent_rows,
    record,
    risks,
    rms,
    start_progress,
)
from tunefree.parts.averaging import PolynomialDecay
from tunefree.parts.losses import Logistic, Multinomial, SmoothedHinge
from tunefree.pistol.linear import Diagonal, dowg, per_coordinate, per_coordinate_constant
from tunefree.pistol.rules import PiSTOL

# In a portfolio, slopes below a thousandth of their bound cause no update.
_NEGLIGIBLE = 1e-3


class ViewMember(NamedTuple):
    """A learner and the view of the columns that it is given."""

    view: str
    learner: Any
    name: str


class PortfolioState(NamedTuple):
    """State of a run."""

    views: dict  # name to View
    members: tuple  # the members' states; None for a dropped member
    progress: ProgressiveRisk
    epoch: int
    chosen: tuple  # numbers of the selected members, the best first; empty before the selection
    scales: tuple  # for each pass a dict: each member's effective scale


class Portfolio(NamedTuple):
    """Learn with all members, select by progressive validation, continue with the best."""

    members: tuple  # of `ViewMember`
    classify: bool  # scored by mistakes rather than squared errors
    n_passes: int  # in all; members are selected after the first
    keep: int = 2  # how many members continue
    tail: float = 0.5  # the last share of passes, which is averaged; 0 reads the last iterate
    unseen: bool = False  # the last output is for classes to come: learned, but not scored

    @property
    def last(self):
        """Whether the last iterates are read instead of averages."""
        return self.tail == 0.0

    @property
    def _restart(self):
        """The pass after which averages restart; 0 for none."""
        return 0 if self.last else min(self.n_passes - 1, int(self.n_passes * (1.0 - self.tail)))

    def with_learners(self, change):
        """The portfolio with other learners: `change` maps each learner to its replacement."""
        members = (m._replace(learner=change(m.learner)) for m in self.members)
        return self._replace(members=tuple(members))

    def init(self, views, n_columns, n_outputs, rows=None):
        """The state before the first row; `rows`, if known, is how many there will be."""
        states = tuple(
            m.learner.init(n_columns + (views[m.view].bias != 0.0), n_outputs) for m in self.members
        )
        # Both the running average and the iterate of every member are scored.
        progress = start_progress(2 * len(self.members), n_outputs, rows)
        chosen = (0,) if len(self.members) == 1 else ()
        return PortfolioState(views, states, progress, 0, chosen, ())

    def expect(self, state, X, rows):
        """Give the members the largest value of each column before they learn the rows."""
        for name, view in state.views.items():
            largest = 0.0
            for start in range(0, len(rows), 1024):
                shown = view.show(X, rows[start : start + 1024])
                low, high = shown.ranges()
                largest = np.maximum(largest, np.maximum(high, -low))
            for member, s in zip(self.members, state.members, strict=True):
                if member.view == name:
                    member.learner.expect(s, largest)
        return state

    def scan(self, state, block):
        """Learn a block; in the first pass also record the predictions made before."""
        shown, first = {}, state.epoch == 0
        predictions: list[Any] = [None] * (2 * len(self.members))
        for i, member in enumerate(self.members):
            if state.members[i] is None:
                continue
            if member.view not in shown:
                shown[member.view] = state.views[member.view].show(block.X, block.rows)
            scores: Any = np.empty((2, *block.targets.shape)) if first else None
            member.learner.scan(
                state.members[i], shown[member.view], block.targets, block.weights, scores
            )
            if first:
                predictions[2 * i], predictions[2 * i + 1] = scores
        if first:
            scored = block.targets.shape[1] - self.unseen
            record(state.progress, self.classify, scored, predictions, block.targets, block.weights)
        return state

    def columns(self, state, d):
        """Extend members and views to d columns, since rows of a stream may become wider."""
        views = state.views
        members = tuple(
            s if s is None else m.learner.columns(s, d, views[m.view].bias != 0.0)
            for m, s in zip(self.members, state.members, strict=True)
        )
        views = {name: view.columns(d) for name, view in views.items()}
        return state._replace(members=members, views=views)

    def turn(self, state):
        """End a pass: select members after the first, restart averages where the tail begins."""
        epoch, members, chosen = state.epoch + 1, state.members, state.chosen
        if epoch == 1 and not chosen:
            risk = risks(state.progress)[self.last :: 2]
            order = np.argsort(risk, kind="stable")
            chosen = tuple(int(i) for i in order[: self.keep])
            members = tuple(s if i in chosen else None for i, s in enumerate(members))
        if epoch == self._restart:
            for i in chosen:
                self.members[i].learner.restart(members[i])
        scales = {
            self.members[i].name: self.members[i].learner.scale(s)
            for i, s in enumerate(members)
            if s is not None
        }
        state = state._replace(
            members=members, chosen=chosen, epoch=epoch, scales=(*state.scales, scales)
        )
        return state, epoch >= self.n_passes

    def weights(self, state, i, last=False):
        """A member's coefficients (d, n_outputs) and intercepts (n_outputs,) on raw columns."""
        member = self.members[i]
        read = member.learner.last if last else member.learner.mean
        return state.views[member.view].fold(read(state.members[i]))

    def candidates(self, state):
        """Pairs (member, last) of the selected members, which are read out.

        Where averages have just restarted, the last iterate is read.
        """
        last = self.last or 0 < state.epoch == self._restart
        return [(i, last) for i in state.chosen]

    def blend(self, state, X=None, candidates=None, most=8192):
        """Sum of the candidates, (member, last), each divided by the size of its decisions.

        The size is their root mean square on the rows X, by default that of the progressive
        predictions. Also returns the same sum for the latest of these, at most `most` rows.
        """
        recent, _, _ = recent_rows(state.progress, most=most)
        coef = intercept = predicted = 0.0
        for i, last in candidates or self.candidates(state):
            c, b = self.weights(state, i, last)
            p = recent[:, 2 * i + last]
            if self.unseen:
                c, b, p = c[:, :-1], b[:-1], p[:, :-1]
            s = rms(p if X is None else X @ c + b)
            coef, intercept = coef + c / s, intercept + b / s
            predicted = predicted + p / rms(p)
        return coef, intercept, predicted

    def leaderboard(self, state):
        """One dict for each member, the best first: name, progressive risk, `chosen`."""
        risk = risks(state.progress)
        order = sorted(
            range(len(self.members)), key=lambda i: (i not in state.chosen, risk[2 * i], i)
        )
        return [
            {
                "name": self.members[i].name,
                "progressive_error": float(risk[2 * i]),
                "progressive_error_last": float(risk[2 * i + 1]),
                "chosen": i in state.chosen,
            }
            for i in order
        ]

    def trace(self, state):
        """Rows seen, every member's progressive risk, and its effective scale after each pass."""
        rows, risk = curve(state.progress)
        return {
            "rows": rows,
            "progressive_error": {m.name: risk[:, 2 * i] for i, m in enumerate(self.members)},
            "scale": list(state.scales),
        }


def _members(*entries):
    return tuple(
        ViewMember(view, learner._replace(negligible=_NEGLIGIBLE), f"{view} {name}")
        for view, name, learner in entries
    )


def sparse_members(n_outputs, loss):
    """The portfolio for data that are mostly zeros, which cost nothing."""
    hinge, logistic = loss or SmoothedHinge(), loss or Multinomial()
    first = [("raw", "per-coordinate logistic", per_coordinate(logistic))]
    others = [
        ("raw", "per-coordinate-constant logistic", per_coordinate_constant(logistic)),
        ("scaled", "dowg", dowg(hinge)),
    ]
    if loss is None:
        first.insert(0, ("raw", "per-coordinate", per_coordinate(hinge)))
        if n_outputs > 1:
            first.append(("raw", "per-coordinate one-vs-rest", per_coordinate(Logistic())))
    return _members(*first, *others)


def dense_members(n_outputs, loss, whiten):
    """The portfolio for dense data: one learner under three views of the columns.

    Several classes are learned both jointly by a softmax, and one against the rest.
    """
    views = ("standardised", "whitened", "strongly_whitened") if whiten else ("standardised",)
    learner = per_coordinate(loss or Multinomial())
    members: list[tuple] = [(view, "per-coordinate", learner) for view in views]
    if n_outputs > 1 and loss is None:
        learner = per_coordinate(Logistic())
        members += [(view, "per-coordinate one-vs-rest", learner) for view in views[:2]]
    if not whiten:
        members.append(("standardised", "dowg", dowg(loss or SmoothedHinge())))
    return _members(*members)


def stream_members(sparse_data, loss, whiten):
    """The portfolio for a stream: one against the rest, and later iterates weigh more.

    A stream may drift, and outputs cannot be coupled with those of classes that have yet to appear.
    """
    loss = loss or Logistic()
    members = sparse_members(1, loss) if sparse_data else dense_members(1, loss, whiten)
    return with_average(members, PolynomialDecay())


def with_average(members, scheme):
    """The members with another average of their iterates."""
    return tuple(m._replace(learner=m.learner._replace(average=scheme)) for m in members)


def regression_members(loss, n_columns, views):
    """The regression recipe under each view: per coordinate, later iterates weigh more."""
    rule = PiSTOL(a=1.0, b=min(0.1, 1.0 / n_columns), squares=True, cap=50.0)
    learner = Diagonal(rule, loss, PolynomialDecay())
    return tuple(ViewMember(view, learner, f"{view} per-coordinate") for view in views)
