"""Linear members: Kalman filters that drift, and implicit gradient learners.

A filter's weights have the covariance C, to which its drift is added at each row; a gradient
learner's step is its rate over the mean squared norm of rows. Both go to the minimum of their loss
plus their distance.
"""

from tunefree.core.jit import kernel, maximum, minimum
from tunefree.streams.state import DRIFTS, N_FILTERS, N_LINES, N_MEMBERS, RATES

# A weight's variance, up to which drift is added; the least curvature of the loss by which filters
# learn.
MOST_VARIANCE = 100.0
LEAST_CURVATURE = 1e-4


@kernel
def _drifted(variance, drift, rows):
    """The variance of a weight whose column had no entry for so many rows."""
    return (
        variance if variance >= MOST_VARIANCE else minimum(variance + drift * rows, MOST_VARIANCE)
    )


# --- predictions ----------------------------------------------------------------------------------


@kernel
def score_lines(weights, row, scores):
    """Scores w z of the linear members."""
    for o in range(len(scores)):
        for k in range(N_LINES):
            scores[o, k] = 0.0
        for i in range(len(row.z)):
            place, x = row.places[i], row.z[i]
            for k in range(N_LINES):
                scores[o, k] += weights[o, place, k] * x


@kernel
def find_directions(is_whole, covariances, last_row, t, row, directions):
    """Directions C z of the filters."""
    n = len(row.z)
    if not is_whole:
        for i in range(n):
            place, x = row.places[i], row.z[i]
            rows = t - last_row[place]
            for f in range(N_FILTERS):
                directions[i, f] = x * _drifted(covariances[0, place, f], DRIFTS[f], rows)
        return
    for i in range(n):
        for f in range(N_FILTERS):
            directions[i, f] = 0.0
    for j in range(n):  # C is symmetric: a row at a time is a vector
        x = row.z[j]
        for i in range(n):
            for f in range(N_FILTERS):
                directions[i, f] += covariances[j, i, f] * x


@kernel
def find_gains(row, mean_norm, directions, gains):
    """Gains of the members: z C z of filters, step times squared norm of gradient learners."""
    for k in range(N_MEMBERS):
        gains[k] = 0.0
    for i in range(len(row.z)):
        x = row.z[i]
        for f in range(N_FILTERS):
            gains[f] += directions[i, f] * x
    for k in range(N_FILTERS, N_LINES):
        gains[k] = RATES[k - N_FILTERS] * row.norm / mean_norm


# --- updates --------------------------------------------------------------------------------------


@kernel
def find_steps(weight, norm, scratch):
    """The factors of the filters' updates from curvatures, the gradient learners' rates."""
    gains, rates, factors = scratch.gains, scratch.steps, scratch.curvatures
    for f in range(N_FILTERS):
        v = weight * maximum(factors[f], LEAST_CURVATURE)
        factors[f] = v / (1.0 + v * gains[f])
    for k in range(N_FILTERS, N_LINES):
        rates[k] = gains[k] / norm


@kernel
def update_weights(weights, row, slopes, directions, rates):
    """Add the steps to the weights."""
    for o in range(len(slopes)):
        for i in range(len(row.z)):
            place, x = row.places[i], row.z[i]
            for f in range(N_FILTERS):
                weights[o, place, f] += slopes[o, f] * directions[i, f]
            for k in range(N_FILTERS, N_LINES):
                weights[o, place, k] += slopes[o, k] * rates[k] * x


@kernel
def update_covariances(is_whole, covariances, last_row, t, row, factors, directions):
    """Reduce the covariances by what the row showed, and add the drifts."""
    n = len(row.z)
    for i in range(n if is_whole else 0):
        for j in range(n):
            for f in range(N_FILTERS):
                covariances[i, j, f] -= factors[f] * (directions[i, f] * directions[j, f])
    for i in range(n):
        place = row.places[i]
        line, rows = place if is_whole else 0, t - last_row[place]
        for f in range(N_FILTERS):
            variance = covariances[line, place, f]
            if not is_whole:
                variance = _drifted(variance, DRIFTS[f], rows)
                variance -= factors[f] * (directions[i, f] * directions[i, f])
            drift = DRIFTS[f] if variance < MOST_VARIANCE else 0.0
            covariances[line, place, f] = variance + drift
        last_row[place] = t + 1.0
