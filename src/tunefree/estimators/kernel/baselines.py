"""What the paper's baselines share: passes of one learner over rows in memory."""

import numpy as np

from tunefree._array import seed_of
from tunefree.choose.risk import curve
from tunefree.choose.tournament import train
from tunefree.estimators import base
from tunefree.estimators.kernel.base import KernelDecisions, KernelEstimator, check_passes
from tunefree.estimators.kernel.fitting import (
    Problem,
    check_kernel,
    check_memory,
    choose,
    data_of,
    kernels_of,
    resolved,
)
from tunefree.estimators.pistol.fitting import visits_of
from tunefree.estimators.pistol.settings import is_dense
from tunefree.learners.kernel.blocked import workers


class Baseline(KernelEstimator):
    """Passes of one learner over rows in memory."""

    standardize = "auto"

    def _check_baseline(self):
        check_passes(self.max_iter)
        return check_kernel(self)

    def _run(self, kernel, X, targets, labels, weights, kept, learner_of, *, classify, apart=False):
        """Learn, and publish the predictor; returns the problem and the engine.

        `learner_of` gives the learner from the largest k(x, x) and the number of rounds; `apart`
        gives every update a support row of its own.
        """
        visits, _, _ = visits_of(
            X, labels, weights, self.shuffle, seed_of(self.random_state),
            affine=not classify and is_dense(X),
        )  # fmt: skip
        problem = Problem(X, visits, kept)
        kernel = resolved(self, kernel, problem)
        targets = targets[problem.stored]
        check_memory(len(targets), X.shape[1], targets.shape[1], 1, 8)
        rounds, passes = len(problem.order(0)[0]), 1 if self.max_iter == "auto" else self.max_iter
        with workers(self.n_jobs) as team:
            trial = learner_of(1.0, rounds)
            choice = choose(self, team, kernel, problem, targets, trial, classify)
            gamma = choice.leaderboard[0]["gamma"] if choice.leaderboard else choice.gammas[0]
            data = data_of(team, kernel, problem, choice.view, [gamma], targets)
            if apart:
                data = data._replace(cache=None)
            largest = max(float(data.squares.max(initial=0.0)), 1e-300)
            learner = learner_of(largest, rounds * passes)
            engine, progress, passes = train(
                team, kernel, data, gamma, learner, passes, classify=classify, apart=apart,
                watch=self._told.passes(passes),
            )  # fmt: skip
        rows, risk = curve(progress)
        self.trace_ = choice.trace | {
            "rows": rows,
            "progressive_error_average": risk[:, 0],
            "progressive_error_last": risk[:, 1],
        }
        self.n_iter_, self.leaderboard_ = passes, choice.leaderboard
        self.coordinates_ = choice.view
        kernels = kernels_of(kernel, [gamma])
        return problem, data, engine, kernels


class BaselineClassifier(KernelDecisions, Baseline):
    """Labels as targets +1 and -1, decisions as classes."""

    def _prepare(self, X, y, sample_weight):
        kernel = self._check_baseline()
        X, y = base.check_rows_and_targets(self, X, y)
        weights = base.check_weights(sample_weight, X)
        self._check_values(kernel, X)
        kept = np.flatnonzero(weights)
        base.encode_labels(y)
        self.classes_, codes = base.encode_labels(y[kept], fewest=2)
        X = X if len(kept) == X.shape[0] else X[kept]
        targets, labels = base.signs(codes, len(self.classes_)), codes[:, None].astype(float)
        return kernel, X, targets, labels, weights[kept], kept
