r"""The Optimistic Perceptron: a game of two players, the learner and the data.

The learner plays a weight vector, the data play a distribution p over the rows. In round t,
with the step a, x_t = Z' p_t and D the divergence of the data's potential,

    w_t = sum_{s<t} a_s x_s + a_t x_{t-1},                              (learner: optimistic FTRL)
    p_t = argmin_p a_t <p, Z w_t> + D(p, p_{t-1}).                      (data: mirror descent)

With the constant a = sqrt(lambda) / r (lambda: strong convexity of the potential in the 1-norm, r:
the longest row) this is Algorithm 1, in units in which the learner's vector is r times shorter.
The regrets of the two players add up to

    c gamma A_T <= c^2 / 2 + D(p*, p_0) + S_T + c min_i <Z_i, v_T>,      A_T = sum a_t,
    v_T = sum a_t w_t,     S_T = sum a_t^2 |x_t - x_{t-1}|^2 / 2 - D(p_t, p_{t-1})

for every c, so v_T separates as soon as gamma A_T > sqrt(2 (D(p*, p_0) + max(S_T, 0))). The paper's
step keeps every term of S negative; an adaptive step is as long as the *sum* S allows.

The data's potential may be any that is strongly convex in the 1-norm; its range determines the
guarantee. For the entropy p_t = softmax(log p_0 - Z v_t): the state is O(d), and one pass over the
rows yields the margins of the average (v_t) together with x_t.

Source: Hanashiro and Abernethy, "Linear Separation via Optimism", Algorithm 1, Theorems 1-3 and
appendix A.2. The weighted form, the adaptive step and the certificates are ours.
"""

from typing import Any, NamedTuple

import numpy as np

from tunefree.core.jit import fast_exp, kernel, part
from tunefree.core.parts import PartTable
from tunefree.perceptron.margins import Certificate, Goal, LinearRows, tally


@kernel
def _tilt(margins, weights, shift, out):
    """Out = weights exp(shift - margins), and its sum."""
    total = 0.0
    for i in range(margins.shape[0]):
        out[i] = weights[i] * fast_exp(max(min(shift - margins[i], 700.0), -700.0))
    for i in range(out.shape[0]):
        total += out[i]
    return total


@kernel
def project_simplex(s, q, out):
    """Out = q max(0, s - tau), the point of the simplex with the least sum (out - q s)^2 / q.

    Michelot's iteration: tau grows while rows leave the support.
    """
    top = -np.inf
    for i in range(s.shape[0]):
        if q[i] > 0.0:
            top = max(top, s[i])
    tau = -np.inf
    while True:
        mass, total = 0.0, 0.0
        for i in range(s.shape[0]):
            if s[i] - top > tau:
                mass += q[i]
                total += q[i] * (s[i] - top)
        threshold = (total - 1.0) / mass
        if not threshold > tau:
            break
        tau = threshold
    for i in range(s.shape[0]):
        out[i] = q[i] * max(0.0, s[i] - top - tau)


@kernel
def _blend(answer, mean, rho):
    """Move the mean by rho towards the answer."""
    for i in range(mean.shape[0]):
        mean[i] += rho * (answer[i] - mean[i])


@kernel
def _advance(x, step, sums, longer, trial, w, out):
    """Add step x to the sums; write the next w, and the v that follows from it, to w and out."""
    for j in range(x.shape[0]):
        sums[j] += step * x[j]
        w[j] = sums[j] + longer * x[j]
        out[j] = trial[j] + longer * w[j]


@part
class EntropyPlayer(NamedTuple):
    """Negative entropy, as in the paper: D is the Kullback-Leibler divergence.

    A player plays argmin_p <p, g> + D(p, p_{t-1}), D the divergence of its potential, which is
    strongly convex in the 1-norm with lambda = 1.
    """

    streams = True

    def range(self, least):
        """Largest divergence from a p_0 whose smallest entry is `least`."""
        return -float(np.log(least))

    def respond(self, margins, before, previous, weights, least):
        """Unnormalised p, its sum, and the exponent by which it was divided."""
        out = np.empty_like(margins)
        return out, _tilt(margins, weights, least, out), least

    def divergence(self, drop, log_ratio, memory):
        """D(p_t, p_{t-1}) from a <p_t, Z w_t> and log(mass_t / mass_{t-1})."""
        return -drop - log_ratio


@part
class EuclideanPlayer(NamedTuple):
    """Half the squared distance in units of p_0: D(p, p') = sum (p - p')^2 / (2 p_0).

    Its range is (n - 1) / 2 instead of log n. It needs all rows in one block.
    """

    streams = False

    def range(self, least):
        """Largest divergence from a p_0 whose smallest entry is `least`."""
        return 0.5 * (1.0 / least - 1.0)

    def respond(self, margins, before, previous, weights, least):
        """As `EntropyPlayer.respond`; no exponent is divided by."""
        out, prior = np.empty_like(margins), weights / weights.sum()
        density = np.divide(previous, prior, out=np.ones_like(prior), where=prior > 0.0)
        project_simplex(density - (margins - before), prior, out)
        return out, float(out.sum()), 0.0

    def divergence(self, drop, log_ratio, memory):
        """D(p_t, p_{t-1}) from the two vectors; rows without a weight stay at 0."""
        move = memory.answer - memory.p
        return 0.5 * float(np.sum(move * move / np.where(memory.prior > 0.0, memory.prior, 1.0)))


_BY_NAME = {"entropy": EntropyPlayer(), "euclidean": EuclideanPlayer()}
PLAYERS = PartTable("potential", "respond", _BY_NAME)


class Sweep(NamedTuple):
    """The sums of one pass: the data's p has the sum mass exp(-shift) before normalising."""

    shift: float = np.inf
    mass: float = 0.0
    pulled: np.ndarray | float = 0.0  # Z' p, unnormalised
    average: float = np.inf  # smallest margins under v and w, weights of the rows with a mistake
    current: float = np.inf
    average_errors: float = 0.0
    current_errors: float = 0.0
    square: float = 0.0  # the longest squared row, the smallest and the total weight
    least: float = np.inf
    total: float = 0.0
    n_rows: int = 0

    def join(self, other):
        """The sums of two sets of rows."""
        shift = min(self.shift, other.shift)
        if self.n_rows == 0:
            return other
        a, b = (np.exp(shift - s.shift) if s.mass > 0.0 else 0.0 for s in (self, other))
        return Sweep(
            shift,
            a * self.mass + b * other.mass,
            a * self.pulled + b * other.pulled,
            min(self.average, other.average),
            min(self.current, other.current),
            self.average_errors + other.average_errors,
            self.current_errors + other.current_errors,
            max(self.square, other.square),
            min(self.least, other.least),
            self.total + other.total,
            self.n_rows + other.n_rows,
        )


class RowMemory(NamedTuple):
    """What is stored for each row when all rows are in memory."""

    margins: np.ndarray  # Z v before and after the trial step
    trial: np.ndarray
    p: np.ndarray  # the distribution before the trial step, and (unnormalised) after it
    answer: np.ndarray
    mean: np.ndarray  # the average distribution
    prior: np.ndarray  # p_0


class OptimisticState(NamedTuple):
    """State of a run: O(d) numbers, and `memory` if there are numbers for each row."""

    sums: np.ndarray | float = 0.0  # sum a_t x_t
    direction: np.ndarray | float = 0.0  # v
    pulled: np.ndarray | float = 0.0  # x of the last round, and the average of all x
    mean: np.ndarray | float = 0.0
    w: np.ndarray | float = 0.0  # the learner's next vector, and the v that follows from it
    trial: np.ndarray | float = 0.0
    step: float = 0.0  # a, A and S of the module's text
    time: float = 0.0
    excess: float = 0.0
    log_mass: float = 0.0  # log of the sum of p before normalising
    mean_mass: float = 0.0  # of the average of x
    radius: float = 0.0  # the longest row
    range: float = 0.0  # D(p*, p_0) at most
    n_rows: int = 0
    n_sweeps: int = 0
    certificate: Certificate = Certificate()
    sweep: Sweep = Sweep()
    memory: RowMemory | None = None

    @property
    def n_updates(self):
        """Updates of the weight vector, trials that were shortened included."""
        return max(self.n_sweeps - 1, 0)

    @property
    def n_operations(self):
        """Inner products and additions of rows, counted as in the paper."""
        return self.n_rows + self.n_updates * (2 * self.n_rows + 2)


@part
class Optimistic(NamedTuple):
    r"""Learn a separator by optimistic play.

    `step` is the data player's in units of lambda / r^2 (1: the paper), None for the longest step
    that the guarantee allows. The adaptive step is multiplied by `growth` after each round, and
    halved when S would become positive, which costs a pass. Steps longer than the paper's are tried
    only while sum a_t r, the number of rounds of the paper that they replace, exceeds the passes so
    far minus log2(passes): the guarantee is that of the constant step, but for log2 T passes.
    """

    space: Any = LinearRows()
    goal: Any = Goal()
    player: Any = EntropyPlayer()
    step: float | None = None
    growth: float = 1.1

    def init(self, n_rows=0):
        """The state before the first pass; with n_rows=0 it has O(d) numbers.

        Otherwise margins and distributions over the rows are stored: this saves a product a pass
        and gives the distribution that proves the upper bound.
        """
        if not n_rows:
            if not self.player.streams:
                raise ValueError(f"{type(self.player).__name__} needs all rows in memory: n_rows=.")
            return OptimisticState()
        return OptimisticState(memory=RowMemory(*(np.zeros(n_rows) for _ in RowMemory._fields)))

    def scan(self, state, block):
        """Add a block's part of the data's answer to the trial vector."""
        view, weights = self.space.view(block), block.weights
        at = slice(block.start, block.start + len(weights))
        memory, sweep = state.memory, state.sweep
        before = previous = None
        if memory is not None:
            before, previous = memory.margins[at], memory.p[at]
        found = {"n_rows": len(weights)}
        if state.n_sweeps == 0:
            margins = np.zeros(len(weights))
            alive = weights > 0.0
            found["square"] = np.max(view.squares(), where=alive, initial=0.0)
            found["least"] = np.min(weights, where=alive, initial=np.inf)
            found["total"] = weights.sum()
            before = margins
        else:
            margins = view.push(state.trial)
            if memory is None:
                found["current"], found["current_errors"] = tally(view.push(state.w), weights)
            else:
                change, found["current_errors"] = tally(margins - before, weights)
                found["current"] = change / state.step
        found["average"], found["average_errors"] = tally(margins, weights)
        answer, mass, shift = self.player.respond(
            margins, before, previous, weights, found["average"]
        )
        joint = sweep.join(Sweep(shift, mass, view.pull(answer), **found))
        if memory is not None:
            memory.trial[at] = margins
            if sweep.mass > 0.0 and joint.shift < sweep.shift:
                memory.answer[:] *= np.exp(joint.shift - sweep.shift)
            if mass > 0.0 and joint.shift < shift:
                answer *= np.exp(joint.shift - shift)
            memory.answer[at] = answer
        return state._replace(sweep=joint)

    def merge(self, base, parts):
        """Join the sums of workers that scanned different rows from the same state."""
        sweep = base.sweep
        for state in parts:
            sweep = sweep.join(state.sweep)
        return base._replace(sweep=sweep)

    def turn(self, state):
        """Accept or shorten the trial step, and propose the next; the state is consumed."""
        sweep = state.sweep
        if not sweep.mass > 0.0:
            raise ValueError("There is no row with a positive weight.")
        if state.memory is not None:
            state.memory.answer[:] /= sweep.mass
        x = sweep.pulled
        x /= sweep.mass
        state = self._open(state, x) if state.n_sweeps == 0 else self._judge(state, x)
        state = state._replace(sweep=Sweep(), n_sweeps=state.n_sweeps + 1)
        return state, self._done(state)

    def _shortest(self, state):
        """The paper's step."""
        return 1.0 / state.radius if state.radius > 0.0 else 0.0

    def _open(self, state, x):
        """End the first pass: the scale of the data, and p_0."""
        sweep, memory = state.sweep, state.memory
        if memory is not None:
            memory = memory._replace(
                p=memory.answer.copy(), mean=memory.answer.copy(), prior=memory.answer.copy()
            )
        state = state._replace(
            radius=float(np.sqrt(sweep.square)),
            range=self.player.range(sweep.least / sweep.total),
            n_rows=sweep.n_rows,
            pulled=x,
            mean=x.copy(),
            direction=0.0 * x,
            trial=0.0 * x,
            sums=0.0 * x,
            w=0.0 * x,
            log_mass=float(np.log(sweep.mass)) - sweep.shift,
            memory=memory,
        )
        factor = 1.0 if self.step is None else np.sqrt(self.step)
        step = factor * self._shortest(state)
        state = self._propose(state, 0.0, step, state.trial)
        return state._replace(
            certificate=Certificate().above(
                self.space, x, None if memory is None else memory.p, state.n_rows, state.radius
            )
        )

    def _judge(self, state, x):
        state = state._replace(certificate=self._certify(state, x))
        sweep, memory, a = state.sweep, state.memory, state.step
        log_mass = float(np.log(sweep.mass)) - sweep.shift
        drop = a * self.space.dot(x, state.w)
        moved = np.subtract(x, state.pulled, out=state.w)  # w is no longer needed
        moved = max(self.space.dot(moved, moved), 0.0)
        shortest = self._shortest(state)
        # The divergence is a small difference of large numbers; this is a lower bound.
        divergence = max(
            self.player.divergence(drop, log_mass - state.log_mass, memory),
            0.5 * shortest * shortest * moved,
        )
        excess = state.excess + 0.5 * a * a * moved - divergence
        is_too_long = excess > 1e-12 and a > shortest * (1.0 + 1e-9)
        if self.step is None and is_too_long:
            return self._propose(state, 0.0, max(0.5 * a, shortest), state.trial)
        time, taken, spare = state.time + a, a, state.direction
        share = a * time * time
        rho = share / (state.mean_mass + share)
        _blend(x.ravel(), state.mean.ravel(), rho)
        if memory is not None:
            _blend(memory.answer, memory.mean, rho)
            memory = RowMemory(memory.trial, memory.margins, memory.answer, memory.p, *memory[4:])
        if self.step is None:
            passes = state.n_sweeps + 1
            credit = time / shortest - passes if shortest > 0.0 else 0.0
            a = a * self.growth if credit >= -np.log2(passes) else shortest
        state = state._replace(
            direction=state.trial,
            pulled=x,
            time=time,
            excess=excess,
            log_mass=log_mass,
            mean_mass=state.mean_mass + share,
            memory=memory,
            certificate=state.certificate.above(
                self.space,
                state.mean,
                None if memory is None else memory.mean,
                state.n_rows + state.n_sweeps,
                state.radius,
            ),
        )
        return self._propose(state, taken, a, spare)

    def _propose(self, state, taken, step, buffer):
        """Add `taken` times x to the sums, and write a trial of the next step to `buffer`."""
        vectors = (state.pulled, state.sums, state.direction, state.w, buffer)
        x, sums, start, w, trial = (v.ravel() for v in vectors)
        _advance(x, taken, sums, step, start, w, trial)
        return state._replace(step=step, trial=buffer)

    def _certify(self, state, x):
        """The certificate with the averaged and the current vector and the data's answer."""
        sweep, memory, space, radius = state.sweep, state.memory, self.space, state.radius
        terms = state.n_rows + state.n_sweeps
        slack = 0.0
        if memory is not None and sweep.current > 0.0:
            # The current margins are a difference of two products.
            slack = space.slack(state.trial, terms, radius)
            slack = (slack + space.slack(state.direction, terms, radius)) / state.step
        errors = sweep.current_errors if sweep.current > 0.0 else np.inf
        average, current = (sweep.average, sweep.average_errors), (sweep.current - slack, errors)
        found = state.certificate.below(space, state.trial, average, terms, radius)
        found = found.below(space, state.w, current, terms, radius)
        return found.above(space, x, None if memory is None else memory.answer, terms, radius)

    def _done(self, state):
        if self.goal.reached(state.certificate, state.radius):
            return True
        if not self.goal.margin or state.certificate.lower > 0.0:
            return False
        budget = np.sqrt(2.0 * (state.range + max(state.excess, 0.0))) / self.goal.margin
        return bool(state.time > budget)
