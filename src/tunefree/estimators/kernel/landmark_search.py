"""The search of kernel ridge on landmarks: which view of the columns, and which bandwidth."""

import numpy as np

from tunefree.columns import Scaling, asinh_scaling, standard_scaling
from tunefree.learners.kernel.nystroem import ALPHAS, place, solve

# Bandwidths tried, relative to one over the median squared distance of two rows; and beyond.
_GRID, _BEYOND = (1 / 4, 1.0, 4.0), (1 / 16, 16.0)
# Rows of the first look at views and bandwidths, and of what follows.
_GLANCE, _SCOUTS = 1500, 3000
# Landmarks of what follows: half as many as rows, within these; the first look takes two thirds.
_FEWEST, _MOST = 120, 300
# Penalties tried: half of those of the last fit.
_ALPHAS = ALPHAS[::2]
# Most rounds of relevance.
_ROUNDS = 6


def show(parts, X):
    """Rows under all parts of a view, one after the other."""
    for part in parts:
        X = part.show(X)
    return X


def risks(solution, y, weights):
    """Squared leave-one-out errors of every row and penalty, times the rows' shares of weight."""
    n = len(solution.left_out)
    square = np.square(solution.left_out - y[:n, None]).sum(axis=2)
    return square * (weights[:n] / weights[:n].mean())[:, None]


def median_distance(Z):
    """Median squared distance of the first rows to as many others, without zeros."""
    half = len(Z) // 2
    square = np.square(Z[:half] - Z[half : 2 * half]).sum(axis=1)
    square = square[square > 0.0]
    return float(np.median(square)) if len(square) else 1.0


class Trial:
    """One view, bandwidth and number of landmarks, judged by leave-one-out."""

    def __init__(self, parts, Z, y, weights, factor, m):
        self.parts, self.Z, self.factor, self.m = parts, Z, factor, m
        self.gamma = float(factor / median_distance(Z))
        self.marks = place(Z[:m], self.gamma)
        n = len(Z)
        solution = solve(self.marks, lambda a, b: Z[a:b], n, y[:n], weights[:n], _ALPHAS)
        table = risks(solution, y, weights)
        i = int(np.argmin(table.mean(axis=0)))
        self.losses, self.risk = table[:, i], float(table[:, i].mean())
        self.coef, self.alpha = solution.coef[:, i], float(_ALPHAS[i])

    def beats(self, other):
        """Whether the risk is lower by more than a standard error of the difference."""
        gain = other.losses - self.losses
        return gain.mean() > gain.std() / np.sqrt(len(gain))

    def relevance(self):
        """Root mean squared derivative of the function in every column, of mean square 1."""
        K, square = self.marks.values(self.Z), 0.0
        for a in self.coef.T:
            slope = self.Z * (K @ a)[:, None] - K @ (a[:, None] * self.marks.centers)
            square = square + np.square(slope).mean(axis=0)
        mean = square.mean()
        return np.sqrt(square / mean) if mean > 0.0 else np.ones(len(square))


class Search:
    """Coarse bandwidths under both views, then rounds in which columns are weighted by relevance.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Distinct rows in random order; the first 3,000 are used, their statistics come from all.
    y : ndarray of shape (n, n_outputs)
    weights : ndarray of shape (n,)
    """

    def __init__(self, X, y, weights):
        s = min(len(X), _SCOUTS)
        squash = asinh_scaling(X)
        self.views = [
            (standard_scaling(X, weights),),
            (squash, standard_scaling(squash.show(X), weights)),
        ]
        self.rows, self.y, self.weights = X[:s].astype(np.float64), y[:s], weights[:s]
        self.more = min(_MOST, max(_FEWEST, s // 2))
        self.few = 2 * self.more // 3
        self.trials = []

    def _try(self, parts, factor, m, n=_SCOUTS):
        Z = show(parts, self.rows[:n])
        trial = Trial(parts, Z, self.y, self.weights, factor, m)
        self.trials.append(trial)
        return trial

    def _glance(self, parts):
        """The best of a few bandwidths on the first rows, and of one more beyond the edge."""
        tried = [self._try(parts, factor, self.few, _GLANCE) for factor in _GRID]
        best = min(tried, key=lambda t: t.risk)
        if best.factor == 1.0:
            return best
        beyond = self._try(parts, _BEYOND[best.factor > 1.0], self.few, _GLANCE)
        return min((best, beyond), key=lambda t: t.risk)

    def result(self):
        """View, relevance, gamma, whether more landmarks did not help, and what was tried."""
        best = min((self._glance(parts) for parts in self.views), key=lambda t: t.risk)
        glanced = len(best.Z) == len(self.rows)  # at all rows
        few = best if glanced else self._try(best.parts, best.factor, self.few)
        best = self._refined(self._try(best.parts, best.factor, self.more))
        saturated = not best.beats(few)
        for _ in range(_ROUNDS):
            weighted = Scaling(np.zeros(best.Z.shape[1]), self._inverse(best), asinh=False)
            trial = self._refined(self._try((*best.parts, weighted), best.factor, self.more), best)
            if not trial.beats(best):
                break
            best, saturated = trial, False
        board = [
            {
                "view": ("standardised", "squashed")[t.parts[0].asinh],
                "rounds": len(t.parts) - 1 - t.parts[0].asinh,
                "gamma": t.gamma,
                "landmarks": min(t.m, len(t.Z)),
                "rows": len(t.Z),
                "leave_one_out_risk": t.risk,
            }
            for t in sorted(self.trials, key=lambda t: t.risk)
        ]
        return *_joined(best.parts), best.gamma, bool(saturated), board

    def _inverse(self, trial):
        # A column of no relevance is not switched off for good: later rounds may want it.
        return 1.0 / np.maximum(trial.relevance(), 1e-3)

    def _refined(self, trial, to_beat=None):
        """The best of a trial and others of half, twice, four times ... its bandwidth.

        Columns of little relevance leave the distances smaller, so twice the bandwidth comes
        first; half of it is tried unless something is good enough already.
        """
        best = trial
        while best.factor >= trial.factor and best.factor < 64.0 * trial.factor:
            more = self._try(trial.parts, 2.0 * best.factor, self.more)
            if more.risk >= best.risk:
                break
            best = more
        if best is trial and not (to_beat is not None and best.beats(to_beat)):
            for _ in range(2):
                less = self._try(trial.parts, 0.5 * best.factor, self.more)
                if less.risk >= best.risk:
                    break
                best = less
        return best


def _joined(parts):
    """The rescalings as one part, and the relevance of the columns in it."""
    plain = [p for p in parts if not p.asinh]
    scale = np.prod([p.scale for p in plain], axis=0)
    view = (*(p for p in parts if p.asinh), Scaling(plain[0].center, scale, False))
    return view, plain[0].scale / scale
