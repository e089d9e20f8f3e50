"""Tables of rows that arrive: from a pipe or standard input, in parts of what has arrived.

A part is read as soon as the writer has sent a whole row, and no row waits for the next one. What
the first rows show holds for all of them: the format, the dialect of delimited text, and whether
indices of libsvm text count from 0. Cells are read by what the model knows of its columns, so parts
give the same values as the whole.
"""

import itertools
import os
import sys
from typing import Any

from tunefree.files.arrays import laid_out
from tunefree.files.files import (
    DataError,
    Named,
    check_options,
    chunks,
    detected,
    name_of,
    numbered_lines,
)
from tunefree.files.json_tables import json_shape, lines_table
from tunefree.files.libsvm import blocks, matrix
from tunefree.files.mixed import mixed_parts, table_of_batch
from tunefree.files.tables import Table, names_beside_blanks

# Formats whose rows are lines.
_LINES = ("csv", "libsvm", "jsonl")
# A pipe holds 64 KiB by default. What arrives during a prediction is one part: at 1 MiB parts are
# large enough for 200,000 rows a second.
_PIPE_BYTES = 1 << 20


def is_pipe(data):
    """Whether data are read once, as they come: standard input, or a path that is no file."""
    return data == "-" or (os.path.exists(data) and not os.path.isfile(data))


def opened(data):
    """The pieces of a pipe, as they arrive, with its name."""
    if data == "-":
        file = sys.stdin.buffer
        _enlarge(file)
        return Named("<stdin>", chunks("-"))
    return Named(data, _pieces_of(data))


def _pieces_of(path):
    with open(path, "rb", buffering=0) as file:
        _enlarge(file)
        yield from chunks(file)


def _enlarge(file):
    """Let a pipe hold more, where the system can."""
    try:
        import fcntl

        fcntl.fcntl(file.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    except (ImportError, AttributeError, OSError, ValueError):
        pass  # no pipe, or another system: parts are smaller


def kind_of_lines(source, format=None):
    """The format of the rows if they are lines, or None; and the source, unread."""
    pieces = iter(source)
    head = next(pieces, None)
    if head is None:
        raise DataError("the file has no rows", name_of(source))
    kind, source = detected(Named(name_of(source), itertools.chain([head], pieces)), format)
    if kind == "jsonl":
        shape, source = json_shape(source)
        kind = "jsonl" if shape == "lines" else None
    return (kind if kind in _LINES else None), source


def arriving_tables(source, kind, *, skipped, keep=(), **settings):
    r"""Yield a `Table` of the rows of each part that has arrived.

    Parameters
    ----------
    source : iterable of bytes
        What `kind_of_lines` gives.
    kind : {'csv', 'libsvm', 'jsonl'}
    skipped : Skipped
        Counts malformed rows, if they are skipped.
    keep : sequence of str or Column
        Columns whose cells the tables keep as they are.
    **settings
        Options of `tunefree.files.read`.

    Examples
    --------
    >>> from tunefree.files.files import Skipped
    >>> pieces = Named("pipe", [b"a,b\n1,x\n", b"2,y\n3,", b"z\n"])
    >>> found = arriving_tables(pieces, "csv", skipped=Skipped(), target=False)
    >>> [table.X.to_pylist() for table in found]
    [[{'a': '1', 'b': 'x'}], [{'a': '2', 'b': 'y'}], [{'a': '3', 'b': 'z'}]]
    """
    settings.pop("format", None)
    check_options(kind, name_of(source), settings)
    if kind == "libsvm":
        yield from libsvm_tables(source, skipped, **settings)
    elif kind == "csv":
        n_lines = 1 if settings.get("header") is False else 2
        begun = Named(name_of(source), _begun(source, n_lines))
        how = {"format": "csv", "part": 1, "enough": 1, "skipped": skipped, "keep": keep}
        yield from mixed_parts(begun, **how, **settings)
    else:
        yield from _of_json(source, skipped, keep, **settings)


def _begun(pieces, n_lines):
    """Pieces of which the first has so many lines: a header and a row."""
    head, pieces = b"", iter(pieces)
    for piece in pieces:
        head += piece
        if head.count(b"\n") >= n_lines:
            break
    if head:
        yield head
    yield from pieces


def libsvm_tables(
    source, skipped, *, labelled=False, n_features=None, zero_based: Any = "auto", **_
):
    """Consecutive sparse rows; indices beyond the features of the model are counted."""
    options = {"labelled": labelled, "zero_based": zero_based, "n_features": None}
    if zero_based == "auto":
        pieces = iter(source)
        head = b"".join(itertools.islice(_begun(pieces, 1), 1))
        found = blocks(Named(name_of(source), [head]), skipped=type(skipped)(), **options)
        options["zero_based"] = any((block.indices == 0).any() for block, _ in found)
        source = Named(name_of(source), itertools.chain([head], pieces))
    for block, _ in blocks(source, skipped=skipped, **options):
        X = matrix(block, 0 if options["zero_based"] else 1)
        n_entries = X.nnz
        if n_features is not None:
            X.resize(X.shape[0], n_features)
        ignored = n_entries - X.nnz
        y = block.labels if labelled else None
        yield Table(X, y, None, None, name_of(source), options["zero_based"], ignored=ignored)


def _of_json(source, skipped, keep, *, columns=None, **settings):
    """Rows of JSON; a name that a row lacks is a missing value."""
    path, names = name_of(source), None
    for name in ("header", "delimiter", "sheet", "zero_based", "unseen", "target_type"):
        settings.pop(name, None)
    ids = [getattr(column, "name", column) for column in keep]
    for table, kept, line in _tables_of_json(source, path, skipped, ids):
        if names is None:  # a model without names takes the order of the first rows
            names = columns or table.column_names
        known = names_beside_blanks(table.column_names, names)
        table = table.rename_columns(known)
        for name in (n for n in names if n not in known):
            table = table.append_column(name, [[None] * table.num_rows])
        order = [*names, *(n for n in known if n not in names)]
        table = table.select(order)
        for batch, _, layout in laid_out([table], path, columns=columns, **settings):
            known = layout.positions(keep, path)  # an error for one that is not there
            found = table_of_batch(batch, line - 1, layout, path)
            yield found._replace(kept={name: kept[name] for name in known})


def _tables_of_json(source, path, skipped, ids):
    """The table of each part, the cells that are kept, and the number of the first line.

    The error for a malformed row comes after the rows before it.
    """
    for text, line in numbered_lines(source):
        error = None
        try:
            table, kept = lines_table(text, (path, line), skipped, ids)
        except DataError as problem:
            if not problem.row:
                raise
            error = problem
            before = b"\n".join(text.split(b"\n")[: problem.line - line])
            table, kept = lines_table(before, (path, line), skipped, ids)
        if table is not None:
            yield table, kept, line
        if error is not None:
            raise error
