"""The papers' guarantees as numbers, one module a paper.

`pistol` (regret), `separation` (rounds and mistakes), `reflectron` and `flow` (risk of generalized
linear models), `averaging` (excess risk of geometric averages), `stream` (mixtures, implicit steps
and intervals under drift). All functions can also be imported from here.
"""

from tunefree.perceptron.bounds import game_gap, perceptron_mistakes, separation_budget
from tunefree.pistol.bounds import (
    phi,
    pistol_regret,
    pistol_regret_coordinates,
    pistol_regret_root,
    pistol_regret_seen,
    pistol_regret_smooth,
)
from tunefree.reflectron.bounds import (
    reflectron_realizable,
    reflectron_risk,
    reflectron_risk_l1,
    reflectron_risk_norm,
    reflectron_step,
    reflectron_stochastic,
    reflectron_stochastic_noisy,
)
from tunefree.reflectron.flow_bounds import reflectron_flow_risk, reflectron_flow_time
from tunefree.ridge_path.bounds import geometric_excess_risk
from tunefree.streams.bounds import stream_coverage, stream_mixing, stream_path_regret

__all__ = [
    "game_gap",
    "geometric_excess_risk",
    "perceptron_mistakes",
    "phi",
    "pistol_regret",
    "pistol_regret_coordinates",
    "pistol_regret_root",
    "pistol_regret_seen",
    "pistol_regret_smooth",
    "reflectron_flow_risk",
    "reflectron_flow_time",
    "reflectron_realizable",
    "reflectron_risk",
    "reflectron_risk_l1",
    "reflectron_risk_norm",
    "reflectron_step",
    "reflectron_stochastic",
    "reflectron_stochastic_noisy",
    "separation_budget",
    "stream_coverage",
    "stream_mixing",
    "stream_path_regret",
]
