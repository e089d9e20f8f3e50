"""Stochastic runs of several configurations, side by side; those that fall behind end.

Each predicts every row before it learns it, so the runs can be compared on a stream that is read
once. When the number of rows has doubled (from 1,024 on), the worse half of the runs ends.

The automatic step of a run is a multiple of what Theorem 5.2 asks for, sigma / (L C^2 B), with the
longest row so far as C; the multiples are tried side by side.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from tunefree.designs import CSR, Dense
from tunefree.guards import Guard
from tunefree.learners.clock import risk
from tunefree.learners.stochastic import stochastic

MULTIPLES = (1.0 / 16.0, 0.25, 1.0, 4.0, 16.0)
_FIRST_HALVING = 1024


class Pace(NamedTuple):
    """How long a run's steps are: longest / C^2 for the automatic ones and those of theorems.

    Attributes
    ----------
    fixed : float or None
        A step that does not depend on the rows.
    numerator : float
        What is divided by C^2.
    exponent : float
        Of the norm that measures rows.
    extra : float
        What an intercept adds to C^2.
    most : float
        Upper limit of the steps.
    """

    fixed: float | None
    numerator: float = 1.0
    exponent: float = 2.0
    extra: float = 0.0
    most: float = np.inf

    def steps(self, X, longest):
        """Steps for rows, and the length of the longest row so far."""
        n = X.shape[0]
        if self.fixed is not None:
            return np.full(n, self.fixed), longest
        design = CSR.from_scipy(X) if sparse.issparse(X) else Dense(X)
        norms = np.maximum.accumulate(np.r_[longest, design.norms(self.exponent)])[1:]
        square = norms.astype(float) ** 2 + self.extra
        steps = np.divide(self.numerator, square, out=np.zeros(n), where=square > 0.0)
        return np.minimum(steps, self.most), float(norms[-1])


class Run(NamedTuple):
    """One of the runs.

    Attributes
    ----------
    configuration : Configuration
    learner : Lazy or Batches
    state : NamedTuple
    pace : Pace
    longest : float
        The longest row so far.
    """

    configuration: object
    learner: object
    state: tuple
    pace: Pace
    longest: float = 0.0

    def learn(self, X, targets, weights):
        """The run after more rows; this one is consumed."""
        steps, longest = self.pace.steps(X, self.longest)
        state = self.learner.scan(self.state, X, targets, weights, steps)
        return self._replace(state=state, longest=longest)

    def read(self):
        """Parameters (k, d) and intercepts (k,)."""
        return self.learner.read(self.state)

    def risk(self):
        """Of the predictions before learning."""
        return risk(self.state)


class Walks(NamedTuple):
    """Runs side by side.

    Attributes
    ----------
    runs : tuple of Run
    seen : int
        Rows learned.
    guards : tuple of Guard
        Of the rows and of the targets, for streams.
    is_open : bool, default=False
        Whether the last output is for classes that may yet appear.
    """

    runs: tuple
    seen: int = 0
    guards: tuple = ()
    is_open: bool = False

    @classmethod
    def begin(cls, link, configurations, paces, scheme, weight, intercept, size, d, k, start):
        """All runs before the first row; `start` is (theta, offset), or None for each."""
        runs = []
        for configuration, pace in zip(configurations, paces, strict=True):
            learner = stochastic(link, configuration, scheme, weight, intercept, d, size)
            runs.append(Run(configuration, learner, learner.init(d, k, *start), pace))
        return cls(tuple(runs), guards=(Guard.of(np.zeros(d)), Guard.of(np.zeros(k))))

    def n_outputs(self):
        """How many predictions a row."""
        return len(self.runs[0].state.offset)

    def learn(self, X, targets, weights, *, halve=True):
        """The runs after more rows, in the order given; these are consumed."""
        walks, start = self, 0
        while start < len(targets):
            grid = max(_FIRST_HALVING, 1 << walks.seen.bit_length())
            stop = min(len(targets), start + grid - walks.seen)
            part = slice(start, stop)
            runs = tuple(run.learn(X[part], targets[part], weights[part]) for run in walks.runs)
            walks = walks._replace(runs=runs, seen=walks.seen + stop - start)
            if halve and walks.seen == grid:
                walks = walks.halved([run.risk() for run in walks.runs])
            start = stop
        return walks

    def outputs(self, index, sign, ends):
        """Outputs rearranged: the new i is sign[i] times the old index[i].

        A negative sign needs an odd potential, no constraint, and a link with
        mean(s) + mean(-s) = ends, the sum of the two ends of its range.
        """
        sign = np.array(sign)
        runs = tuple(
            run._replace(state=run.learner.outputs(run.state, index, sign, ends))
            for run in self.runs
        )
        of_rows, of_targets = self.guards
        arrays = (np.ascontiguousarray(a[index]) for a in of_targets[:-1])
        guards = of_rows, Guard(*arrays, of_targets.clock)
        return self._replace(runs=runs, guards=guards)

    def halved(self, risks):
        """The better half of the runs, in their order."""
        keep = (len(self.runs) + 1) // 2
        better = sorted(np.argsort(risks, kind="stable")[:keep])
        return self._replace(runs=tuple(self.runs[i] for i in better))

    def best(self):
        """The run of the lowest risk."""
        return self.runs[int(np.argmin([run.risk() for run in self.runs]))]
