"""Progressive validation: every row is predicted before it is learned.

The mean loss of these predictions is an unbiased estimate of the risk of the predictor that is
returned, without any held-out rows. A record keeps it for several candidates over the rows seen. It
also keeps the latest predictions, on which a calibration is fitted.

Source: Blum, Kalai, Langford 1999 (progressive validation).
"""

from typing import NamedTuple

import numpy as np

# Slots of the trace of the risk; the latest predictions that are kept: rows, and numbers, at most.
N_SLOTS = 512
_RECENT = 8192
_RECENT_NUMBERS = 4_000_000


class ProgressiveRisk(NamedTuple):
    """Losses and latest predictions of the candidates so far."""

    # Summed weighted losses (mistakes, or squared errors), of shape (n_slots, n_candidates).
    risk: np.ndarray
    weight: np.ndarray  # of shape (n_slots,)
    clock: np.ndarray  # rows seen, rows in a slot; when all slots are used, they merge in pairs
    recent: np.ndarray  # ring buffer of predictions, (n_recent, n_candidates, n_outputs)
    targets: np.ndarray  # of shape (n_recent, n_outputs)
    weights: np.ndarray  # of shape (n_recent,)

    def rearranged(self, index, sign):
        """The record whose output i is sign[i] times the output index[i]."""
        targets = self.targets[:, index] * sign
        return self._replace(recent=self.recent[:, :, index] * sign, targets=targets)


def start_progress(n_candidates, n_outputs, rows=None):
    """An empty record; `rows` (if known) bounds how many predictions it must keep."""
    n = int(np.clip(_RECENT_NUMBERS // (n_candidates * n_outputs), 256, _RECENT))
    n = n if rows is None else max(1, min(n, rows))
    return ProgressiveRisk(
        np.zeros((N_SLOTS, n_candidates)),
        np.zeros(N_SLOTS),
        np.array([0, 1], np.int64),
        np.zeros((n, n_candidates, n_outputs)),
        np.zeros((n, n_outputs)),
        np.zeros(n),
    )


def _losses(classify, scored, predictions, targets):
    """The loss of each row: a mistake, or squared errors."""
    if classify and scored == 1:
        return ((predictions[:, 0] > 0.0) != (targets[:, 0] > 0.0)).astype(np.float64)
    if classify:
        best = predictions[:, :scored].argmax(axis=1)
        return (targets[np.arange(len(best)), best] <= 0.0).astype(np.float64)
    loss = np.zeros(len(targets))
    for c in range(scored):
        loss += (predictions[:, c] - targets[:, c]) ** 2
    return loss


def record(progress, classify, scored, predictions, targets, weights):
    """Record the candidates' predictions for some rows; None for a dropped candidate.

    Losses are of the first `scored` outputs: mistakes if `classify`, else squared errors.
    """
    start = 0
    while start < len(targets):
        seen, width = progress.clock
        if seen >= N_SLOTS * width:
            for table in (progress.risk, progress.weight):
                table[: N_SLOTS // 2] = table[0::2] + table[1::2]
                table[N_SLOTS // 2 :] = 0.0
            progress.clock[1] = width = 2 * width
        end = min(len(targets), start + int(N_SLOTS * width - seen))
        slots = np.arange(seen, seen + end - start) // width
        y, w = targets[start:end], weights[start:end]
        present = [(c, p) for c, p in enumerate(predictions) if p is not None]
        for c, p in present:
            # Row by row, so that chunks of any size give the same bits.
            loss = _losses(classify, scored, p[start:end], y)
            np.add.at(progress.risk[:, c], slots, w * loss)
        np.add.at(progress.weight, slots, w)
        # Of rows that the ring buffer does not hold only the latest are kept.
        rows = np.arange(max(start, end - len(progress.recent)), end)
        ring = (int(seen) + rows - start) % len(progress.recent)
        for c, p in present:
            progress.recent[ring, c] = p[rows]
        progress.targets[ring], progress.weights[ring] = targets[rows], weights[rows]
        progress.clock[0] += end - start
        start = end


def curve(progress):
    """Rows seen, (m,), and every candidate's risk over all rows so far, (m, n_candidates)."""
    seen, width = progress.clock
    m = int(-(-seen // width))
    weight = np.maximum(np.cumsum(progress.weight[:m]), 1e-300)
    rows = np.minimum(np.arange(1, m + 1) * width, seen)
    return rows, np.cumsum(progress.risk[:m], axis=0) / weight[:, None]


def risks(progress, share=0.5):
    """Mean progressive risk of every candidate over the last `share` of the rows."""
    seen, width = progress.clock
    first = int((seen * (1.0 - share)) // width)
    weight = progress.weight[first:].sum()
    return progress.risk[first:].sum(axis=0) / max(weight, 1e-300)


def recent_rows(progress, share=0.5, most=_RECENT):
    """Predictions, targets and weights of the latest rows, at most this share of all."""
    seen = int(progress.clock[0])
    size = len(progress.recent)
    m = min(size, most, max(1, int(seen * share)), seen)
    slots = np.arange(seen - m, seen) % size
    return progress.recent[slots], progress.targets[slots], progress.weights[slots]


def rms(x):
    """Root mean square, 1 if that is 0."""
    size = float(np.sqrt(np.mean(np.square(x))))
    return size if size > 0.0 else 1.0
