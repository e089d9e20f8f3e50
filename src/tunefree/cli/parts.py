"""Data to apply a model to, as tables of consecutive rows: large data never lie in memory."""

from typing import NamedTuple

import numpy as np

from tunefree.cli.console import BAD_DATA, failing, note
from tunefree.cli.streaming import from_stdin, is_large
from tunefree.engine.sources import open_source
from tunefree.readers import Column


class Part(NamedTuple):
    """Some rows: what of a `tunefree.readers.Table` scores need."""

    X: object
    y: np.ndarray | None
    weight: np.ndarray | None


def needs_parts(data, notes):
    """Whether data are to be read in parts, and where they are read from.

    Parameters
    ----------
    data : str
        A path, or ``"-"`` for standard input.
    notes : dict
        What the training noted.

    Returns
    -------
    source : str, Named or Replay
    in_parts : bool
    """
    if data == "-":
        with failing(BAD_DATA, data):
            source, whole = from_stdin()
        return source, not whole
    return data, is_large(data) or bool(notes.get("hashed"))


def in_parts(estimator, notes, source, data, *, labelled, **options):
    """Read data in parts, in the form that a model expects.

    Parameters
    ----------
    estimator : estimator
        The model.
    notes : dict
        What the training noted.
    source : str or Replay
        Where to read.
    data : str
        What the user calls it.
    labelled : bool
        Whether the targets are wanted.
    **options
        For `tunefree.open_source`; what is not None comes before the notes.

    Yields
    ------
    Part
        As many features as the model has, in its order.
    """
    noted = {name: Column(*notes[name]) for name in ("target", "weight_column") if notes.get(name)}
    given = {name: value for name, value in options.items() if value is not None}
    settings = {
        "target": None if labelled else False,
        "target_type": None if labelled else str,
        "columns": notes.get("feature_names"),
        "hashed": notes.get("hashed"),
        "zero_based": notes.get("zero_based", "auto"),
        "n_features": estimator.n_features_in_,
        "unseen": "ignore",
    }
    with failing(BAD_DATA, data):
        opened = open_source(source, **settings | noted | given)
        for chunk in opened.chunks():
            yield Part(chunk.X, chunk.y, chunk.weight)
    tell_ignored(getattr(opened.reader, "ignored", 0))


def tell_ignored(count):
    """Say how many values of features that a model has never seen were ignored.

    Parameters
    ----------
    count : int
    """
    if count:
        values = "1 value" if count == 1 else f"{count} values"
        note(f"note: ignored {values} of features that the model has never seen")
