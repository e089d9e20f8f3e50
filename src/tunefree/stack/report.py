"""The report of a stack: one value, which is text in the shell and a table in notebooks."""

from html import escape
from typing import Any, NamedTuple

import numpy as np

from tunefree.core.format import aligned, duration, listed, number
from tunefree.core.process import amount
from tunefree.held_out.predictions import Entry, weighted_mean
from tunefree.held_out.stacking import LEAST_SHARE, Chosen, Means, permutation_importances
from tunefree.rows.preprocessing import of_source_columns
from tunefree.stack.costs import Cost, Plan
from tunefree.stack.problem import several_columns
from tunefree.uncertainty import risk

# Rows from which the columns' standard deviations are computed.
_MOST_SHOWN = 50_000
# A gain of so many standard errors is significant (95 %).
_SIGNIFICANT = 1.96
_MOST_GROUPS = 5  # of columns, that are shown
# Predictions are the same if they differ by less than this, in log-odds or standard deviations.
_SAME = 1e-6


class Stacked(NamedTuple):
    """The candidates' evaluation, and the stack."""

    problem: Any  # with the loss of the stack
    entries: list
    chosen: Chosen
    last: Any  # `LastFits`
    skipped: dict  # candidates that do not suit the data, and why
    scores: dict  # of `scoring`, by candidate
    compression: Any
    plan: Any = None
    seconds: float = 0.0

    def shares(self):
        """The shares of the models of the stack, by name."""
        pairs = zip(self.chosen.entries, self.chosen.stack.shares, strict=True)
        return {e.candidate.name: float(share) for e, share in pairs}

    def reason(self):
        """The reason for the stack, and which models were fitted again, in sentences."""
        sentences = [self.chosen.reason]
        if self.last.names:
            sentences.append(f"Fitted again on all rows: {', '.join(self.last.names)}.")
        if self.last.partial:
            partial = ", ".join(self.last.partial)
            sentences.append(f"Without the held-out rows, for want of time: {partial}.")
        for entry in self.chosen.entries:
            if entry.n_learned is not None:
                rows = f"{entry.candidate.name} learned {entry.n_learned} rows"
                sentences.append(f"The {rows}: more promised hardly a lower loss.")
        return " ".join(sentences)


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
    # Of losses of counts and amounts: the sum of predictions / the sum of targets.
    sum_ratio: float | None = None
    sum_ratio_se: float | None = None

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
        if self.sum_ratio is not None:
            ratio = f"{number(self.sum_ratio)} ± {_error(self.sum_ratio_se)}"
            words.append(f"Sum of predictions / sum of targets on held-out rows: {ratio}.")
        return words


def verdict_of(problem, chosen, constant, losses):
    """The `Verdict` on a stack, beside the `Entry` of the best constant.

    `losses` are the mistakes of the stack on held-out rows, or the losses of a regression, whose
    score is 1 - loss / loss of the constant: R2 for squared errors, else D2. Its standard error is
    that of a ratio of two means (delta method).
    """
    kind, classes = problem.score, getattr(problem.targets, "classes", None)
    _, y, weights = problem.part(constant.rows)
    groups = problem.groups_of(constant.rows)
    constant_losses = constant.proper_losses
    differ = bool(np.ptp(y, axis=0).max() > 0.0)
    constant_loss = weighted_mean(constant_losses, weights)[0]
    if classes is None:
        title = "R2" if kind.kind == "squared error" else "D2"
        name = kind.constant_name
        score = error = constant_score = 0.0
        if differ:
            ratio = weighted_mean(losses, weights)[0] / constant_loss
            shares = (losses - ratio * constant_losses) / constant_loss
            score = 1.0 - ratio
            error = weighted_mean(shares, weights, groups)[1]
        least = _SAME * y.std()
    else:
        title = "Accuracy"
        name = repr(classes.tolist()[np.bincount(y, weights).argmax()])
        score, error = weighted_mean(1.0 - losses, weights, groups)
        constant_score = 1.0 - weighted_mean(constant.losses, weights)[0]
        least, losses = _SAME, chosen.stack.losses
    loss, loss_error = weighted_mean(losses, weights, groups)
    gain, gain_error = weighted_mean(constant_losses - losses, weights, groups)
    sum_ratio = sum_ratio_se = None
    if isinstance(kind, Means):
        predicted = problem.targets.limited(chosen.scores())[:, 0]
        sum_ratio, sum_ratio_se = ratio_of_sums(predicted, y, weights)
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
        sum_ratio=sum_ratio,
        sum_ratio_se=sum_ratio_se,
    )


def ratio_of_sums(predicted, y, weights):
    """The sum of predictions over that of targets, and its standard error.

    The error is that of the sum of the residuals: rows are independent, predictions are given.

    Examples
    --------
    >>> ratio_of_sums(np.array([1.0, 2.0]), np.array([0.0, 4.0]), np.ones(2))
    (0.75, 0.5590169943749475)
    """
    total = float(weights @ y)
    error = float(np.linalg.norm(weights * (y - predicted)))
    return float(weights @ predicted) / total, error / total


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
    notes: tuple = ()  # what a person should look at, a sentence each: those of every `DataWarning`

    def timeless(self):
        """The report without measured times, as model files keep it."""
        board = [{**row, "seconds": None} for row in self.leaderboard]
        plan = self.plan.timeless()
        return self._replace(leaderboard=board, plan=plan, seconds=None, refit_seconds=None)

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
        shown = {key for row in self.leaderboard for key in row if row[key] is not None}
        columns = [c for c in columns if c[0] in shown]
        rows = [("candidate", *(title for _, title, _ in columns), "share")]
        for row in self.leaderboard:
            cells = ["" if row[key] is None else as_text(row[key]) for key, _, as_text in columns]
            status = row["status"].replace("finished", "")
            last = share_words(row["share"]) if row["chosen"] else status
            rows.append((row["candidate"], *cells, last))
        return rows

    def sentences(self):
        """The verdict, the reason for the choice, the risk on new rows, and time and memory."""
        return [*self.judgement(), self.reason, self.expected_risk(), self._cost()]

    def judgement(self):
        """The sentences of the verdict; none if no row was held out."""
        return [] if self.verdict is None else self.verdict.sentences()

    def details(self):
        """The most important columns, skipped candidates and dropped columns, in sentences."""
        found = []
        if self.relevances:
            shares = [f"{name} {share:.0%}" for name, share in self.relevances.items()]
            found.append(f"Share of prediction variance: {', '.join(shares)}.")
        if self.importances and self.verdict:
            losses = [f"{name} {number(loss, 2)}" for name, loss in self.importances.items()]
            kind = self.verdict.loss_kind
            found.append(f"Permutation importance (rise of the {kind}): {', '.join(losses)}.")
        if self.groups:
            rows = [
                (listed(row["columns"]), row["importance"]) for row in self.groups[:_MOST_GROUPS]
            ]
            rises = "; ".join(f"{names}: {number(rise, 2)}" for names, rise in rows)
            found.append(f"Permutation importance of correlated columns together: {rises}.")
        found += [f"Skipped: {name} ({reason})." for name, reason in self.skipped.items()]
        if self.dropped:
            names = ", ".join(map(repr, self.dropped))
            found.append(f"Dropped text columns with hardly any repeated value: {names}.")
        for column, levels in self.merged.items():
            pairs = ", ".join(f"{level!r} into {other!r}" for level, other in levels.items())
            found.append(f"Merged levels of {column}: {pairs}.")
        return found

    def expected_risk(self):
        """The interval of the stack's risk on new rows, in a sentence."""
        if self.risk_interval is None:
            return "The expected error on new rows is unknown: no row was held out."
        as_text = _percent if self.task == "classification" else number
        interval = " to ".join(map(as_text, self.risk_interval))
        return f"Expected {self._loss_name()} on new rows: {interval} (95%)."

    def _cost(self):
        cost = self.plan.expected
        words = f"Planned: at most {duration(cost.seconds)} and {amount(cost.bytes)}."
        if self.seconds is not None:
            refit = duration(self.refit_seconds)
            part = "" if refit == "0 s" else f", of which {refit} for the models on all rows"
            words = f"Took {duration(self.seconds)}{part}. {words}"
        return f"{words} {self.plan.limitations}".strip()

    def _loss_name(self):
        if self.task == "classification":
            return "error"
        return self.leaderboard[0].get("loss", "squared error")

    def __repr__(self):
        rows = self.table()
        lines = zip(aligned([row[:-1] for row in rows]), rows, strict=True)
        table = [f"{line}  {row[-1]}".rstrip() for line, row in lines]
        return "\n".join([self.heading(), "", *table, "", *self._words()])

    def _words(self):
        """All sentences."""
        return [*self.sentences(), *self.notes, *self.details()]

    __str__ = __repr__

    def _repr_html_(self):
        head, *body = self.table()
        rows = "".join(
            f"<tr{' style=font-weight:bold' if row['chosen'] else ''}>{_tagged('td', cells)}</tr>"
            for cells, row in zip(body, self.leaderboard, strict=True)
        )
        return (
            f"<p>{escape(self.heading())}</p><table><thead><tr>{_tagged('th', head)}</tr></thead>"
            f"<tbody>{rows}</tbody></table>{_tagged('p', self._words())}"
        )


def share_words(share):
    """The share of a member of a stack.

    >>> share_words(0.254), share_words(0.001)
    ('25%', 'below 1%')
    """
    return "below 1%" if share < LEAST_SHARE else f"{share:.0%}"


def report_of(name, table, stacked, losses, relevances, importances, notes=()):
    """The `Report` of the estimator of this name; `losses` are those of the stack's predictions."""
    problem, chosen = stacked.problem, stacked.chosen
    shape, names = problem.shape, table.schema_.names
    constant = constant_entry(chosen, problem)
    interval, method = _risk_interval(losses, chosen.rows, problem, chosen.optimism)
    shares, rises = {}, {}
    if len(relevances):
        shares = _largest(of_source_columns(relevances, table), names, 0.005)
    if importances is not None:
        rises = _largest(importances.values, names, 0.01 * importances.values.max())
    return Report(
        name,
        problem.score.task,
        (shape.n, shape.d, shape.k),
        _leaderboard(stacked, constant),
        stacked.skipped,
        stacked.reason(),
        stacked.plan,
        stacked.seconds,
        stacked.last.seconds,
        shares,
        rises,
        interval,
        method,
        table.dropped_,
        None if constant is None else verdict_of(problem, chosen, constant, losses),
        {names[int(j)]: levels for j, levels in table.merged_.items()},
        [] if importances is None else importances.groups,
        notes,
    )


class Baseline(NamedTuple):
    """The same scores for all rows: the baseline of the leaderboard."""

    name: str = "constant"

    def total_cost(self, shape):
        """Nothing."""
        return Cost(0.0, 0.0)


def constant_entry(chosen, problem):
    """The `Entry` of the best constant on the held-out rows of a stack; None without such rows."""
    rows, score = chosen.rows, problem.score
    if not len(rows):
        return None
    _, y, weights = problem.part(rows)
    scores = np.tile(score.constant(y, weights), (len(rows), 1)) + problem.means_of_others(rows)
    losses = proper_losses = score.losses(scores, y)
    if problem.classify:
        losses = (y != np.bincount(y, weights).argmax()).astype(float)
    return Entry(Baseline(), scores, losses, proper_losses, rows, 0.0, "baseline")


def _risk_interval(losses, rows, problem, optimism):
    """The interval of the risk on new rows, and its method."""
    weights = problem.weights[rows]
    once = len(rows) < problem.shape.n
    more = {"once": once, "spent": optimism, "groups": problem.groups_of(rows)}
    return risk.held_out(losses, weights, bounded=problem.classify, **more)


def _leaderboard(stacked, constant):
    """One dict for each candidate, those in the stack first, then by risk."""
    board, shares, problem = [], stacked.shares(), stacked.problem
    for e in [*stacked.entries, *filter(None, [constant])]:
        name, weights = e.candidate.name, problem.weights[e.rows]
        row: dict[str, Any] = dict.fromkeys(("candidate", "risk", "risk_se", "risk_interval"))
        if problem.classify:
            row["log_loss"] = None
        if len(e.losses):
            row["risk"], row["risk_se"] = map(
                float, weighted_mean(e.losses, weights, problem.groups_of(e.rows))
            )
            row["risk_interval"] = _risk_interval(e.losses, e.rows, problem, e.optimism)[0]
            if "log_loss" in row:
                row["log_loss"] = float(weighted_mean(e.proper_losses, weights)[0])
        row |= {
            "candidate": name,
            "share": shares.get(name, 0.0),
            "seconds": float(e.seconds),
            "cost": e.candidate.total_cost(problem.shape).seconds,
            "rows": len(e.rows),
            "chosen": name in shares,
            "status": e.status,
        }
        if problem.score.kind not in ("log-loss", "squared error"):
            row["loss"] = problem.score.kind
        if stacked.scores:
            row["score"] = stacked.scores.get(name)
        board.append(row)
    return sorted(board, key=lambda r: (-r["share"], r["risk"] is None, r["risk"] or 0.0))


def _largest(values, names, least):
    """The largest ten of the columns' values that are above `least`, by name."""
    order = np.argsort(-values, kind="stable")[:10].tolist()
    return {names[j]: float(values[j]) for j in order if values[j] > least}


def level_relevances(relevances, table):
    """The shares of the levels of every column of categories, by name."""
    names = table.schema_.names
    out = {}
    for j in np.flatnonzero(table.kinds_ == "category").tolist():
        suffixes = table._suffixes(j)
        levels = [suffix.removeprefix("=").removeprefix(": ") for suffix in suffixes]
        shares = relevances[table.sources_ == j].tolist()
        out[names[j]] = dict(zip(levels, shares, strict=False))
    return out


def column_relevances(stacked):
    """The mean of the models' relevances, weighted by shares; empty if no model has any."""
    problem, last, shares = stacked.problem, stacked.last, stacked.chosen.stack.shares
    found, found_shares = [], []
    for fitted, share in zip(last.fits, shares, strict=True):
        model = fitted.model
        if getattr(model, "feature_relevances_", None) is not None:
            each = model.feature_relevances_
        elif hasattr(model, "coef_"):
            shown = fitted.show(problem.X[:_MOST_SHOWN]).astype(np.float64)
            weights = problem.weights[:_MOST_SHOWN]
            w = weights / weights.sum()
            variance = (shown * shown).T @ w - np.square(shown.T @ w)
            spread = np.sqrt(np.maximum(variance, 0.0))
            each = np.square(np.atleast_2d(model.coef_) * spread).sum(axis=0)
        elif fitted.view and last.donor is not None:  # the model uses the donor's geometry
            each = last.donor.feature_relevances_
        else:
            continue
        found.append(each / max(each.sum(), 1e-300))
        found_shares.append(share)
    if not found:
        return np.empty(0)
    total = np.array(found_shares) @ np.array(found, dtype=np.float64)
    # Of a constant predictor all columns are equally relevant.
    return total / total.sum() if total.any() else np.full(len(total), 1.0 / len(total))


class Importances(NamedTuple):
    """Permutation importances of the user's columns, and of groups of correlated ones."""

    values: np.ndarray
    errors: np.ndarray
    groups: list

    @classmethod
    def of(cls, stacked, table):
        """Those of a stack; None if a model of it has no effects of permuted columns."""
        found = permutation_importances(stacked.chosen, stacked.problem)
        if found is None:
            return None
        names, several = table.schema_.names, several_columns(table)
        d = len(table.sources_)
        end, groups = d + len(several), []

        def of_columns(values):
            out = np.zeros(table.n_features_in_)
            out[table.sources_], out[several] = values[:d], values[d:end]
            return out

        for k, columns in enumerate(stacked.problem.column_groups[len(several) :], end):
            users = [names[j] for j in np.unique(table.sources_[columns])]
            value, error = (float(values[k]) for values in found)
            groups.append({"columns": users, "importance": value, "importance_se": error})
        groups.sort(key=lambda group: -group["importance"])
        return cls(of_columns(found[0]), of_columns(found[1]), groups)


def _error(value):
    """A standard error as text: two digits."""
    return number(value, 2)


def _percent(share):
    """A share as text."""
    return f"{share:.1%}"


def _tagged(tag, texts):
    """Texts as elements of HTML."""
    return "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts)
