"""The report of a stack: one value, which is text in the shell and a table in notebooks."""

from html import escape
from typing import NamedTuple

import numpy as np

from tunefree._format import duration, number
from tunefree._process import amount
from tunefree.select.costs import Plan
from tunefree.select.stacking import weighted_mean

# A gain of so many standard errors is significant (95 %).
_SIGNIFICANT = 1.96
_MOST = 5  # groups of columns, and names of a group, that are shown
# Predictions are the same if they differ by less than this, in log-odds or standard deviations.
_SAME = 1e-6


class Verdict(NamedTuple):
    """How well the stack predicts held-out rows, beside the best constant."""

    kind: str  # of the score: 'Accuracy', 'R2' or 'D2'
    score: float
    score_se: float  # standard errors take rows as independent
    loss_kind: str
    loss: float
    loss_se: float
    constant: str  # what the best constant predicts
    constant_score: float
    constant_loss: float
    is_constant: bool  # whether the stack predicts the same for all rows
    is_better: bool  # whether its loss is significantly below that of the constant

    def sentences(self):
        """The score and the loss, those of the constant, and how they compare."""
        is_share = self.kind == "Accuracy"
        as_text, error_text = (_percent, _percent) if is_share else (number, _error)
        words = [
            f"{self.kind} on held-out rows: {as_text(self.score)} ± {error_text(self.score_se)}; "
            f"{self.loss_kind}: {number(self.loss)} ± {_error(self.loss_se)}.",
            f"Always predicting {self.constant}: {as_text(self.constant_score)}; "
            f"{self.loss_kind}: {number(self.constant_loss)}.",
        ]
        if self.is_constant:
            words.append(f"No signal was found: it predicts {self.constant}.")
        elif not self.is_better:
            words.append("The model is not significantly better than that.")
        return words


def verdict_of(problem, stacked, losses, classes):
    """The `Verdict` on a stack; None if no row was held out.

    `losses` are the mistakes of the stack with these classes on held-out rows. For None they are
    the losses of a regression, whose score is 1 - loss / loss of the constant: R2 for squared
    errors, else D2. Its standard error is that of a ratio of two means (delta method).
    """
    chosen, constant, kind = stacked.chosen, stacked.constant, problem.score
    if constant is None:
        return None
    y, weights = problem.y[constant.rows], problem.weights[constant.rows]
    constant_losses, differ = constant.proper_losses, bool(np.ptp(y, axis=0).max() > 0.0)
    constant_loss = weighted_mean(constant_losses, weights)[0]
    if classes is None:
        title, name = "R2" if kind.kind == "squared error" else "D2", kind.constant_name
        score = error = constant_score = 0.0
        if differ:
            ratio = weighted_mean(losses, weights)[0] / constant_loss
            shares = (losses - ratio * constant_losses) / constant_loss
            score, error = 1.0 - ratio, weighted_mean(shares, weights)[1]
        least = _SAME * y.std()
    else:
        title, name = "Accuracy", repr(classes.tolist()[np.bincount(y, weights).argmax()])
        score, error = weighted_mean(1.0 - losses, weights)
        constant_score = 1.0 - weighted_mean(constant.losses, weights)[0]
        least, losses = _SAME, chosen.stack.losses
    loss, loss_error = weighted_mean(losses, weights)
    gain, gain_error = weighted_mean(constant_losses - losses, weights)
    return Verdict(
        kind=title,
        score=round(float(score), 12),
        score_se=round(float(error), 12),
        loss_kind=kind.kind,
        loss=float(loss),
        loss_se=float(loss_error),
        constant=name,
        constant_score=float(constant_score),
        constant_loss=float(constant_loss),
        is_constant=not differ or bool(np.ptp(chosen.scores(), axis=0).max() < least),
        is_better=differ and bool(gain > _SIGNIFICANT * gain_error),
    )


class Report(NamedTuple):
    """The candidates, the stack and the reason for it."""

    estimator: str
    task: str
    shape: tuple  # distinct rows, columns as numbers, outputs
    leaderboard: list
    skipped: dict  # candidates that do not suit the data, and why
    reason: str
    plan: Plan
    seconds: float | None  # None in a model from a file, which keeps no times
    refit_seconds: float | None
    relevances: dict = {}  # the columns of most influence, at most ten
    importances: dict = {}  # how much the held-out loss grows without their order
    risk_interval: tuple | None = None  # of the stack's risk on new rows (95 %)
    risk_interval_kind: str = ""  # the method of this interval
    dropped: list = []  # text columns with hardly any repeated value
    verdict: Verdict | None = None  # None if no row was held out
    merged: dict = {}  # by column: levels that became another level, and that one
    groups: list = []  # importances of groups of correlated columns

    def timeless(self):
        """The report without measured times, as model files keep it."""
        board = [{**row, "seconds": None} for row in self.leaderboard]
        return self._replace(leaderboard=board, seconds=None, refit_seconds=None)

    def heading(self):
        """The first line."""
        n, d, _ = self.shape
        return f"{self.estimator}: {number(n)} distinct rows, {number(d)} columns as numbers"

    def table(self):
        """Header and rows as text: candidate, losses, seconds, share or status."""
        columns = [
            ("risk", f"held-out {self._loss_name()}", number),
            ("risk_se", "standard error", _error),
            ("log_loss", "log-loss", number),
            ("score", "score", number),
            ("seconds", "time", duration),
        ]
        columns = [c for c in columns if any(c[0] in row for row in self.leaderboard)]
        rows = [("candidate", *(title for _, title, _ in columns), "share")]
        for row in self.leaderboard:
            cells = ["" if row[key] is None else shown(row[key]) for key, _, shown in columns]
            status = row["status"].replace("finished", "")
            last = f"{row['share']:.0%}" if row["chosen"] else status
            rows.append((row["candidate"], *cells, last))
        return rows

    def sentences(self):
        """The verdict, the reason for the choice, the risk on new rows, and time and memory."""
        return [*self.judgement(), self.reason, self.expected_risk(), self._cost()]

    def judgement(self):
        """The sentences of the verdict; none if no row was held out."""
        return [] if self.verdict is None else self.verdict.sentences()

    def notes(self):
        """The most important columns, skipped candidates and dropped columns, in sentences."""
        notes = []
        if self.relevances:
            shares = [f"{name} {share:.0%}" for name, share in self.relevances.items()]
            notes.append(f"Share of prediction variance: {', '.join(shares)}.")
        if self.importances:
            losses = [f"{name} {number(loss, 2)}" for name, loss in self.importances.items()]
            notes.append(f"Permutation importance (held-out rows): {', '.join(losses)}.")
        if self.groups:
            rows = [(listed(row["columns"]), row["importance"]) for row in self.groups[:_MOST]]
            rises = "; ".join(f"{names}: {number(rise, 2)}" for names, rise in rows)
            notes.append(f"Permutation importance of correlated columns together: {rises}.")
        notes += [f"Skipped: {name} ({reason})." for name, reason in self.skipped.items()]
        if self.dropped:
            names = ", ".join(map(repr, self.dropped))
            notes.append(f"Dropped text columns with hardly any repeated value: {names}.")
        for column, levels in self.merged.items():
            pairs = ", ".join(f"{level!r} into {other!r}" for level, other in levels.items())
            notes.append(f"Merged levels of {column}: {pairs}.")
        return notes

    def expected_risk(self):
        """The interval of the stack's risk on new rows and its method, in sentences."""
        if self.risk_interval is None:
            return "The expected error on new rows is unknown: no row was held out."
        as_text = _percent if self.task == "classification" else number
        interval = " to ".join(map(as_text, self.risk_interval))
        words = f"Expected {self._loss_name()} on new rows: {interval} (95%)."
        return f"{words} Method: {self.risk_interval_kind}."

    def _cost(self):
        cost = self.plan.expected
        words = f"Planned: at most {duration(cost.seconds)} and {amount(cost.bytes)}."
        if self.seconds is not None:
            refit = f"({duration(self.refit_seconds)} for the last fit)"
            words = f"Took {duration(self.seconds)} {refit}. {words}"
        return f"{words} {self.plan.limitations}".strip()

    def _loss_name(self):
        if self.task == "classification":
            return "error"
        return self.leaderboard[0].get("loss", "squared error")

    def __repr__(self):
        rows = self.table()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [self.heading(), ""]
        for name, *cells, last in rows:
            aligned = [cell.rjust(w) for cell, w in zip(cells, widths[1:-1], strict=True)]
            lines.append("  ".join([name.ljust(widths[0]), *aligned, last]).rstrip())
        return "\n".join([*lines, "", *self.sentences(), *self.notes()])

    __str__ = __repr__

    def _repr_html_(self):
        head, *body = self.table()
        rows = "".join(
            f"<tr{' style=font-weight:bold' if row['chosen'] else ''}>{_tagged('td', cells)}</tr>"
            for cells, row in zip(body, self.leaderboard, strict=True)
        )
        return (
            f"<p>{escape(self.heading())}</p><table><thead><tr>{_tagged('th', head)}</tr></thead>"
            f"<tbody>{rows}</tbody></table>{_tagged('p', [*self.sentences(), *self.notes()])}"
        )


def listed(names):
    """The first names of a list.

    >>> listed(["a", "b"]), listed(list("abcdefg"))
    ('a, b', 'a, b, c, d, e and 2 more')
    """
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(names[:_MOST]) + more


def _error(value):
    """A standard error as text: two digits."""
    return number(value, 2)


def _percent(share):
    """A share as text."""
    return f"{share:.1%}"


def _tagged(tag, texts):
    """Texts as elements of HTML."""
    return "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts)
