"""Data to apply a model to, as tables of consecutive rows: large data never lie in memory."""

from typing import NamedTuple

import numpy as np

from tunefree.cli.console import BAD_DATA, failing, note
from tunefree.cli.streaming import from_stdin, is_large
from tunefree.engine.sources import open_source
from tunefree.engine.sources.readers import Replay
from tunefree.io import Column, Named
from tunefree.io.mixed import format_in, mixed_parts


class Part(NamedTuple):
    """Some rows: what of a `tunefree.io.Table` scores need."""

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
    if notes.get("kinds"):
        yield from _mixed_parts(estimator, notes["kinds"], source, data, settings | noted | given)
        return
    with failing(BAD_DATA, data):
        opened = open_source(source, **settings | noted | given)
        for chunk in opened.chunks():
            yield Part(chunk.X, chunk.y, chunk.weight)
    tell_ignored(getattr(opened.reader, "ignored", 0))


def _mixed_parts(estimator, kinds, source, data, settings):
    """The same for a model that takes text and gaps."""
    del settings["hashed"]
    with failing(BAD_DATA, data):
        settings["format"] = format_in(source, settings.get("format"))
        if isinstance(source, Replay):
            source = Named(source.name, source.for_good())
        for table in mixed_parts(source, kinds=kinds, **settings):
            yield Part(named_as(estimator, table.X), table.y, table.weight)


def kinds_of(estimator, notes):
    """What the features of a model are that takes more than numbers.

    Parameters
    ----------
    estimator : estimator
        The model.
    notes : dict
        What the training noted.

    Returns
    -------
    list or None
        As for `tunefree.io.mixed.read_mixed`; None if the model takes numbers only.
    """
    if not hasattr(estimator, "table_"):
        return None
    if notes.get("task") is not None:
        return notes.get("kinds") or ["number"] * estimator.n_features_in_
    return ["text" if kind == "category" else None for kind in estimator.table_.kinds_.tolist()]


def named_as(estimator, X):
    """Rows with the names of columns that a model knows; `X` has them in the model's order.

    Parameters
    ----------
    estimator : estimator
        The model.
    X : array, CSR or pyarrow table

    Returns
    -------
    array, CSR or pyarrow table
    """
    if not hasattr(X, "rename_columns") or not hasattr(estimator, "feature_names_in_"):
        return X
    return X.rename_columns(estimator.feature_names_in_.tolist())


def tell_ignored(count):
    """Say how many values of features that a model has never seen were ignored.

    Parameters
    ----------
    count : int
    """
    if count:
        values = "1 value" if count == 1 else f"{count} values"
        note(f"note: ignored {values} of features that the model has never seen")
