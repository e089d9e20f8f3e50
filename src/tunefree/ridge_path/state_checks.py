"""What a stream of averages from a model file must hold before compiled code reads it."""

import numpy as np

from tunefree.base.state_checks import require, same_form
from tunefree.ridge_path.stream import StreamSGD, StreamState


def check_averages(estimator):
    """Check the stream of averages of a ridge path from a file."""
    stream, d = vars(estimator).get("_stream"), estimator.n_features_in_
    require(type(d) is int and d > 0)
    if stream is not None:
        require(type(stream) is StreamState)
        origin = np.zeros(d) if len(stream.origin) else None
        start = np.zeros(stream.weights.shape[1])
        require(same_form(stream, StreamSGD().init(d, start, origin=origin)))
