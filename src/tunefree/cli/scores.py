"""How good predictions are: plain numbers, from rows that may come in parts, in flat memory."""

import numpy as np

_LEAST = 1e-15  # a probability below it counts as this, so that one sure mistake is not infinite
_HELD = 1 << 20  # so many decisions are held as they are


class Scores:
    """Error, log-loss and AUC (two classes), or mse, mae and r2; and the number of rows n.

    What comes in one part is scored exactly. Beyond a million rows in parts the decisions are
    rounded to one part in 2048 for the AUC, which keeps about four of its digits. A row of a class
    that the model does not know is an error and costs the log-loss of a probability of 1e-15
    (scikit-learn's `log_loss` refuses it).

    Parameters
    ----------
    classes : array of shape (n_classes,) or None
        The model's classes; None for regression.

    Examples
    --------
    >>> y, decisions = np.array([0, 0, 1]), np.array([-1.0, 1.0, 2.0])
    >>> scores = Scores(np.array([0, 1]))
    >>> for part in (slice(0, 2), slice(2, 3)):
    ...     scores.add(y[part], (decisions > 0)[part] * 1, None, decisions[part])
    >>> scores.result()
    {'error': 0.333..., 'auc': 1.0, 'n': 3}
    """

    def __init__(self, classes=None):
        self.classes, self.rows, self.strangers = classes, 0, 0
        self.weight, self.means = 0.0, {}  # weighted means over the rows so far
        self._decisions = []  # parts of (is of the second class, decision, weight)

    def add(self, y, predicted, probabilities=None, decisions=None, weight=None):
        """Take in some rows."""
        self.rows += len(y)
        weight = np.ones(len(y)) if weight is None else weight
        if self.classes is None:
            costs = {"mse": (predicted - y) ** 2, "mae": np.abs(predicted - y)}
        else:
            place = np.minimum(np.searchsorted(self.classes, y), len(self.classes) - 1)
            known = self.classes[place] == y
            self.strangers += int(np.count_nonzero(~known))
            costs = {"error": y != predicted}
            if probabilities is not None:
                p = np.where(known, probabilities[np.arange(len(y)), place], 0.0)
                costs["log_loss"] = -np.log(np.maximum(p, _LEAST))
        added = float(weight.sum())
        if not added:
            return
        before, self.weight = self.weight, self.weight + added
        share = added / self.weight
        if self.classes is None:  # the targets' variance, about the mean of all rows
            mean = np.average(y, weights=weight)
            gap = mean - self.means.get("y", 0.0)
            costs["y"] = y
            costs["variance"] = (y - mean) ** 2 + before / self.weight * gap**2
        for name, cost in costs.items():
            old = self.means.get(name, 0.0)
            self.means[name] = old + share * (float(np.average(cost, weights=weight)) - old)
        if decisions is not None and self.classes is not None and len(self.classes) == 2:
            if sum(len(side) for side, _, _ in self._decisions) > _HELD:
                self._decisions = _rounded(self._decisions)
            self._decisions.append((y == self.classes[1], decisions, weight))

    def result(self):
        """The scores of all rows so far, as a dict."""
        if not self.weight:
            raise ValueError("every row weighs 0: there is nothing to score")
        scores = dict(self.means)
        if self.classes is None:
            variance, _ = scores.pop("variance"), scores.pop("y")
            scores["r2"] = 1.0 - scores["mse"] / variance if variance > 0 else None
        elif self._decisions:
            from sklearn.metrics import roc_auc_score

            side, decisions, weight = (
                np.concatenate(part) for part in zip(*self._decisions, strict=True)
            )
            if np.any(weight[side]) and np.any(weight[~side]):
                scores["auc"] = float(roc_auc_score(side, decisions, sample_weight=weight))
        return scores | {"n": self.rows}


def _joined(parts):
    return (np.concatenate(part) for part in zip(*parts, strict=True))


def _rounded(parts):
    """Decisions to their leading 20 bits; those that round to the same become one row."""
    side, decisions, weight = _joined(parts)
    bits = np.asarray(decisions, dtype=np.float32).view(np.uint32) & np.uint32(0xFFFFF000)
    out = []
    for k in (False, True):
        values, place = np.unique(bits[side == k].view(np.float32), return_inverse=True)
        out.append((np.full(len(values), k), values, np.bincount(place, weight[side == k])))
    return out
