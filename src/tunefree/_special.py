"""SciPy's special functions of the links, taught to kernels: scalars, in plain arithmetic."""

import math

import numpy as np
from numba.extending import overload
from scipy import special


@overload(special.expit)
def _expit(s):
    def compiled(s):
        e = np.exp(-abs(s))
        return 1.0 / (1.0 + e) if s > 0.0 else e / (1.0 + e)

    return compiled


@overload(special.ndtr)
def _ndtr(s):
    return lambda s: 0.5 * math.erfc(-s / math.sqrt(2.0))
