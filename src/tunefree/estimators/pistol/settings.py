"""Settings: which parts make which method, by name.

The portfolios are what ``setting="auto"`` runs. Their members and the number of passes were chosen
by looking at test errors over about thirty public and synthetic sets together, never for one set.
"""

import numpy as np

from tunefree.averaging import Polynomial
from tunefree.choose.portfolio import Member
from tunefree.columns import ViewSet
from tunefree.estimators.base import share_stored
from tunefree.learners.pistol.diagonal import Diagonal
from tunefree.learners.pistol.isotropic import Isotropic
from tunefree.learners.pistol.rules import DoWG, PiSTOL
from tunefree.losses import Logistic, Multinomial, SmoothedHinge

# A wider matrix is not whitened: the eigenvectors would cost more than the learning.
MOST_WHITENED, MOST_WHITENED_STREAM = 1000, 256
# Sparse data up to this many cells are learned as dense: centring and whitening are worth it.
_MOST_CELLS = 5e7
# In a portfolio, slopes below a thousandth of their bound are not worth an update.
_NEGLIGIBLE = 1e-3


def _paper_scale(loss, n_rows):
    """The b of the paper's experiments, sqrt(2 a L T)."""
    if n_rows is None:
        raise ValueError(
            "The paper's settings scale b by the number of rows, which a stream does not tell: "
            "give horizon=, how many there will be, or another setting ('guaranteed', 'global')."
        )
    return np.sqrt(2 * 0.25 * loss.bound() * n_rows)


def _coordinates(loss, n_rows=0):
    return Diagonal(PiSTOL(a=1.0, b=0.1, squares=True), loss)


def _constant_coordinates(loss, n_rows=0):
    return Diagonal(PiSTOL(a=1.0, b=0.1, root=False), loss)


def _dowg(loss, n_rows=0):
    return Isotropic(DoWG(), loss)


# Functions of a loss and the number of rows.
SETTINGS = {
    "paper": lambda loss, n: Isotropic(PiSTOL(b=_paper_scale(loss, n), root=False), loss),
    "paper-per-coordinate": lambda loss, n: Diagonal(
        PiSTOL(b=_paper_scale(loss, n), root=False), loss
    ),
    "theorem-1": lambda loss, n: Isotropic(PiSTOL(a=2.25 * loss.bound(), root=False), loss),
    "guaranteed": lambda loss, n: Isotropic(PiSTOL(a=3.0 * loss.bound()), loss),
    "global": lambda loss, n: Isotropic(PiSTOL(), loss),
    "per-coordinate": _coordinates,
    "per-coordinate-constant": _constant_coordinates,
    "dowg": _dowg,
}
# Settings that make a single pass unless `max_iter` says otherwise: their theorems are about one.
ONE_PASS = ("paper", "paper-per-coordinate", "theorem-1", "guaranteed")


def _members(*entries):
    return tuple(
        Member(view, learner._replace(negligible=_NEGLIGIBLE), f"{view} {name}")
        for view, name, learner in entries
    )


def sparse_members(n_outputs, loss=None):
    """The portfolio for data of which most entries are zero: zeros cost nothing."""
    hinge, logistic = loss or SmoothedHinge(), loss or Multinomial()
    members = [
        ("raw", "per-coordinate", _coordinates(hinge)),
        ("raw", "per-coordinate logistic", _coordinates(logistic)),
        ("raw", "per-coordinate-constant logistic", _constant_coordinates(logistic)),
        ("scaled", "dowg", _dowg(hinge)),
    ]
    if n_outputs > 1 and loss is None:
        members.insert(2, ("raw", "per-coordinate one-vs-rest", _coordinates(Logistic())))
    return _members(*(members if loss is None else members[1:]))


def dense_members(n_outputs, loss=None, whiten=True):
    """The portfolio for dense data: one good learner under three views.

    Several classes are learned jointly by a softmax and, beside it, one against the rest.
    """
    views = ("standardised", "whitened", "strongly_whitened") if whiten else ("standardised",)
    learner = _coordinates(loss or Multinomial())
    members = [(view, "per-coordinate", learner) for view in views]
    if n_outputs > 1 and loss is None:
        learner = _coordinates(Logistic())
        members += [(view, "per-coordinate one-vs-rest", learner) for view in views[:2]]
    if not whiten:
        members.append(("standardised", "dowg", _dowg(loss or SmoothedHinge())))
    return _members(*members)


def stream_members(sparse_data, loss=None, whiten=True):
    """The portfolio for a stream: as in memory, one against the rest, later iterates counting more.

    A stream may drift, and classes that may yet appear cannot be coupled with those that have.
    """
    loss = loss or Logistic()
    members = sparse_members(1, loss) if sparse_data else dense_members(1, loss, whiten)
    return tuple(m._replace(learner=m.learner._replace(average=Polynomial())) for m in members)


def regression_members(loss, n_columns, views):
    """The regression recipe under each view: per coordinate, later iterates count more."""
    rule = PiSTOL(a=1.0, b=min(0.1, 1.0 / n_columns), squares=True, cap=50.0)
    learner = Diagonal(rule, loss, Polynomial())
    return tuple(Member(view, learner, f"{view} per-coordinate") for view in views)


def is_dense(X):
    """Whether a regression learns rows as dense: by what they hold, not by how they are stored."""
    small = X.shape[1] <= MOST_WHITENED and X.shape[0] * X.shape[1] <= _MOST_CELLS
    return small or share_stored(X) >= 0.25


def view_set(members, intercept):
    """The views that members need."""
    return ViewSet(tuple(dict.fromkeys(m.view for m in members)), intercept)


def passes(max_iter, n_visits, entries, n_outputs=1, visits=3.2e4):
    """How many passes: enough visits of rows for small data, 3 (several classes: 4) to 12.

    More gained little on any set.
    """
    if max_iter != "auto":
        return int(max_iter)
    fewest = 3 if n_outputs == 1 else 4
    return int(np.clip(np.ceil(min(visits / n_visits, 1e7 / max(entries, 1))), fewest, 12))


def check_horizon(horizon):
    """Refuse a number of rows that is none."""
    whole = isinstance(horizon, int | np.integer) and not isinstance(horizon, bool)
    if horizon is not None and (not whole or horizon < 1):
        raise ValueError(f"horizon={horizon!r} is neither None nor a positive integer.")
