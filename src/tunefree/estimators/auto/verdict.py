"""What a `TuneFree` estimator says about its choice."""

from html import escape
from typing import NamedTuple


class Report(NamedTuple):
    """What was tried, what was chosen and why: text in the shell, a table in notebooks.

    Attributes
    ----------
    estimator, task : str
    shape : tuple of int
        Distinct rows, columns as numbers, outputs.
    leaderboard : list of dict
    left_out : dict of str to str
        Candidates that do not suit the data, and why.
    reason : str
    passes, budget : float
        Passes spent and allowed.
    seconds, refit_seconds : float or None
        None in a model from a file: how long a fit took is no part of the model.
    """

    estimator: str
    task: str
    shape: tuple
    leaderboard: list
    left_out: dict
    reason: str
    passes: float
    budget: float
    seconds: float | None
    refit_seconds: float | None

    def times(self):
        """What was measured with a clock: all, the last fit, and every candidate."""
        each = {r["candidate"]: r["seconds"] for r in self.leaderboard}
        return {"all": self.seconds, "last fit": self.refit_seconds, "candidates": each}

    def timed(self, times=None):
        """The report with other `times`, or without any."""
        times = times or {"all": None, "last fit": None, "candidates": {}}
        board = [
            {**r, "seconds": times["candidates"].get(r["candidate"])} for r in self.leaderboard
        ]
        return self._replace(
            leaderboard=board, seconds=times["all"], refit_seconds=times["last fit"]
        )

    def heading(self):
        """The first line."""
        n, d, _ = self.shape
        return f"{self.estimator}: {n} distinct rows, {d} columns as numbers"

    def closing(self):
        """What was spent."""
        # On small data the default allows millions of passes: a limit that says nothing.
        told = self.budget < 1e6
        spent = f"{self.passes:.0f} passes" + (f" of {self.budget:.0f} allowed" if told else "")
        if self.seconds is None:
            return f"{spent}."
        spent = f"{spent}, in" if told else "In"
        return f"{spent} {self.seconds:.2f} s ({self.refit_seconds:.2f} s for the last fit)."

    def table(self):
        """Header and rows of text: candidate, risk and its error, log-loss, seconds, outcome."""
        classify = self.task == "classification"
        kind = "error" if classify else "squared error"
        scores = ("log-loss",) if classify else ()
        rows = [("candidate", f"validation {kind}", "standard error", *scores, "seconds", "")]
        for r in self.leaderboard:
            cells = [_told(r["risk"], ".4g"), _told(r["risk_se"], ".2g")]
            cells += [_told(r["log_loss"], ".4g")] if classify else []
            status = "chosen" if r["chosen"] else r["status"].replace("finished", "")
            rows.append((r["candidate"], *cells, _told(r["seconds"], ".2f"), status))
        return rows

    def __repr__(self):
        rows = self.table()
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = [self.heading(), ""]
        for row in rows:
            cells = [row[0].ljust(widths[0])]
            cells += [cell.rjust(w) for cell, w in zip(row[1:-1], widths[1:-1], strict=True)]
            lines.append("  ".join([*cells, row[-1]]).rstrip())
        lines += ["", self.reason, self.closing()]
        lines += [f"Not suited: {name} ({why})." for name, why in self.left_out.items()]
        return "\n".join(lines)

    __str__ = __repr__

    def _repr_html_(self):
        head, *body = self.table()
        cells = "".join(f"<th>{escape(c)}</th>" for c in head)
        rows = "".join(
            f"<tr{' style=font-weight:bold' if row[-1] == 'chosen' else ''}>"
            + "".join(f"<td>{escape(c)}</td>" for c in row)
            + "</tr>"
            for row in body
        )
        left = "".join(
            f"<p>Not suited: {escape(name)} ({escape(why)}).</p>"
            for name, why in self.left_out.items()
        )
        return (
            f"<p>{escape(self.heading())}</p><table><thead><tr>{cells}</tr></thead>"
            f"<tbody>{rows}</tbody></table><p>{escape(self.reason)}</p>"
            f"<p>{escape(self.closing())}</p>{left}"
        )


def _told(value, form):
    """A number as text, nothing for None."""
    return "" if value is None else format(value, form)
