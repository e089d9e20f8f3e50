"""Scores of predictions that come in parts, in flat memory."""

import numpy as np

from tunefree.cli.scores import score_classes, score_values

# Decisions are counted in bins: the leading bits of their single-precision form.
_BITS = 20


class RunningClasses:
    """The scores of `score_classes`, part by part; the AUC to about four digits.

    Decisions are rounded to one part in 2048 for it, so that no list of them is kept; those that
    round to the same count as ties.

    Parameters
    ----------
    classes : array of shape (n_classes,)
        The model's classes.

    Examples
    --------
    >>> y, decisions = np.array([0, 0, 1]), np.array([-1.0, 1.0, 2.0])
    >>> running = RunningClasses(np.array([0, 1]))
    >>> for part in (slice(0, 2), slice(2, 3)):
    ...     running.add(y[part], (decisions > 0)[part] * 1, None, decisions[part])
    >>> running.result()
    {'error': 0.333..., 'auc': 1.0, 'n': 3}
    """

    def __init__(self, classes):
        self.classes, self.rows, self.weight, self.strangers = classes, 0, 0.0, 0
        self.sums, self.counts = {}, np.zeros((2, 1 << _BITS))

    def add(self, y, predicted, probabilities, decisions, weight=None):
        """Take in some rows.

        Parameters
        ----------
        y, predicted, probabilities, decisions, weight
            As for `score_classes`.
        """
        self.rows += len(y)
        self.strangers += int(np.count_nonzero(~np.isin(y, self.classes)))
        if weight is not None and not weight.any():
            return
        scores = score_classes(
            y, predicted, self.classes, probabilities=probabilities, weight=weight
        )
        total = float(len(y) if weight is None else weight.sum())
        for name in scores.keys() - {"n"}:
            self.sums[name] = self.sums.get(name, 0.0) + total * scores[name]
        self.weight += total
        if decisions is not None and len(self.classes) == 2:
            side = np.asarray(y == self.classes[1], dtype=int)
            bins = _bins(decisions)
            for k in range(2):
                mine = None if weight is None else weight[side == k]
                self.counts[k] += np.bincount(bins[side == k], mine, minlength=1 << _BITS)

    def result(self):
        """The scores of all rows so far."""
        scores = {name: self.sums[name] / self.weight for name in ("error", "log_loss")
                  if name in self.sums}  # fmt: skip
        negative, positive = self.counts
        if negative.any() and positive.any():
            below = np.cumsum(negative) - 0.5 * negative
            scores["auc"] = float(positive @ below / (negative.sum() * positive.sum()))
        return scores | {"n": self.rows}


def _bins(decisions):
    """Numbers of bins in the order of the decisions."""
    bits = np.asarray(decisions, dtype=np.float32).view(np.uint32).astype(np.int64)
    order = np.where(bits >> 31, 0xFFFFFFFF - bits, bits + 0x80000000)
    return order >> (32 - _BITS)


class RunningValues:
    """The scores of `score_values`, part by part.

    Examples
    --------
    >>> running = RunningValues()
    >>> for y in ([1.0], [3.0]):
    ...     running.add(np.array(y), np.array([min(y[0], 2.0)]))
    >>> running.result()
    {'mse': 0.5, 'mae': 0.5, 'r2': 0.5, 'n': 2}
    """

    def __init__(self):
        self.rows = 0
        self.weight = self.mse = self.mae = self.mean = self.square = 0.0

    def add(self, y, predicted, probabilities=None, decisions=None, weight=None):
        """Take in some rows.

        Parameters
        ----------
        y, predicted, weight
            As for `score_values`.
        probabilities, decisions : None
        """
        self.rows += len(y)
        if weight is not None and not weight.any():
            return
        part = score_values(y, predicted, weight=weight)
        added = float(len(y) if weight is None else weight.sum())
        total = self.weight + added
        share, mean = added / total, float(np.average(y, weights=weight))
        spread = float(np.average((y - mean) ** 2, weights=weight))
        gap = mean - self.mean
        self.square += added * spread + self.weight * share * gap**2
        self.mean += share * gap
        self.mse += share * (part["mse"] - self.mse)
        self.mae += share * (part["mae"] - self.mae)
        self.weight = total

    def result(self):
        """The scores of all rows so far."""
        variance = self.square / self.weight
        r2 = 1.0 - self.mse / variance if variance > 0 else None
        return {"mse": self.mse, "mae": self.mae, "r2": r2, "n": self.rows}
