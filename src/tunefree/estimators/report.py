"""The report of a stack: one value, which is text in the shell and a table in notebooks."""

from html import escape
from typing import NamedTuple

from tunefree._process import amount
from tunefree.select.costs import Plan


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

    def timeless(self):
        """The report without measured times, as model files keep it."""
        board = [{**row, "seconds": None} for row in self.leaderboard]
        return self._replace(leaderboard=board, seconds=None, refit_seconds=None)

    def heading(self):
        """The first line."""
        n, d, _ = self.shape
        return f"{self.estimator}: {n} distinct rows, {d} columns as numbers"

    def table(self):
        """Header and rows as text: candidate, losses, seconds, share or status."""
        columns = [
            ("risk", f"held-out {self._loss_name()}", ".4g"),
            ("risk_se", "standard error", ".2g"),
            ("log_loss", "log-loss", ".4g"),
            ("score", "score", ".4g"),
            ("seconds", "seconds", ".2f"),
        ]
        columns = [c for c in columns if any(c[0] in row for row in self.leaderboard)]
        rows = [("candidate", *(title for _, title, _ in columns), "share")]
        for row in self.leaderboard:
            cells = [_formatted(row[key], form) for key, _, form in columns]
            status = row["status"].replace("finished", "")
            last = f"{row['share']:.0%}" if row["chosen"] else status
            rows.append((row["candidate"], *cells, last))
        return rows

    def sentences(self):
        """The reason for the choice, the risk on new rows, and time and memory."""
        return [self.reason, self.expected_risk(), self._cost()]

    def notes(self):
        """The most important columns, skipped candidates and dropped columns, in sentences."""
        notes = []
        if self.relevances:
            shares = [f"{name} {share:.0%}" for name, share in self.relevances.items()]
            notes.append(f"Share of prediction variance: {', '.join(shares)}.")
        if self.importances:
            losses = [f"{name} {loss:.2g}" for name, loss in self.importances.items()]
            notes.append(f"Permutation importance (held-out rows): {', '.join(losses)}.")
        notes += [f"Skipped: {name} ({reason})." for name, reason in self.skipped.items()]
        if self.dropped:
            names = ", ".join(map(repr, self.dropped))
            notes.append(f"Dropped text columns with hardly any repeated value: {names}.")
        return notes

    def expected_risk(self):
        """The interval of the stack's risk on new rows and its method, in sentences."""
        if self.risk_interval is None:
            return "The expected error on new rows is unknown: no row was held out."
        form = ".1%" if self.task == "classification" else ".4g"
        interval = " to ".join(format(end, form) for end in self.risk_interval)
        words = f"Expected {self._loss_name()} on new rows: {interval} (95%)."
        return f"{words} Method: {self.risk_interval_kind}."

    def _cost(self):
        cost = self.plan.expected
        words = f"Planned: at most {cost.seconds:.2g} s and {amount(cost.bytes)}."
        if self.seconds is not None:
            refit = f"({self.refit_seconds:.2f} s for the last fit)"
            words = f"Took {self.seconds:.2f} s {refit}. {words}"
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


def _formatted(value, form):
    """A number as text, '' for None."""
    return "" if value is None else format(value, form)


def _tagged(tag, texts):
    """Texts as elements of HTML."""
    return "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts)
