"""A cache of parsed text: its blocks are stored in an Arrow file for later passes.

The file is written during the first complete pass over the text, and renamed when it is complete.
Each block stores its end position in the text, so that marks and checkpoints are the same with and
without the cache.
"""

import contextlib
import itertools
import os
import shutil
import tempfile
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse

from tunefree.files.files import forget, mapped

# Free bytes needed per byte of text: twice the 12 bytes of an entry over its 4 bytes of text.
_FREE_BYTES = 6


class ParsedCache:
    """The blocks of a text in the Arrow file `path`; `identity` identifies the text."""

    def __init__(self, path, identity):
        self.path, self.identity = path, identity.encode()

    def pieces(self, parse, place):
        """The blocks after a position: from the file if it is complete, else parsed."""
        try:
            pages = mapped(self.path)
        except FileNotFoundError:
            return parse(place) if place else self._written(parse(()))
        except OSError:
            return parse(place)
        with contextlib.suppress(pa.ArrowInvalid):
            blocks = pa.ipc.open_file(pa.py_buffer(pages))
            if (blocks.schema.metadata or {}).get(b"identity") == self.identity:
                return self._read(blocks, place, pages)
        pages = blocks = None  # other data, or damaged: close the file
        os.unlink(self.path)
        return self.pieces(parse, place)

    def _written(self, blocks):
        folder, name = os.path.split(self.path)
        handle, temporary = tempfile.mkstemp(prefix=f".{name}.", suffix=".tmp", dir=folder)
        os.close(handle)
        try:
            writer: Any = None
            for k, block in enumerate(blocks):
                if k == 0 or writer is not None:
                    writer = self._append(writer, _packed(*block), temporary)
                yield block
            if writer is not None:
                writer.close()
                os.replace(temporary, self.path)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)

    def _append(self, writer, batch, path):
        """The writer after one more block; None if writing failed: text can be parsed again."""
        try:
            if writer is None:
                schema = batch.schema.with_metadata({"identity": self.identity})
                writer = pa.ipc.new_file(path, schema)
            writer.write_batch(batch.replace_schema_metadata({"identity": self.identity}))
        except (OSError, pa.ArrowInvalid):  # the disk is full, or indices need a larger type
            with contextlib.suppress(OSError):
                os.truncate(path, 0)
            return None
        return writer

    def _read(self, blocks, place, pages):
        batches = map(blocks.get_batch, range(blocks.num_record_batches))
        if place:
            batches = itertools.dropwhile(lambda batch: _place(batch) != place, batches)
            next(batches, None)  # the block that ends there
        for batch in batches:
            block = _unpacked(batch)
            forget(pages)
            yield block


def _packed(X, y, weight, place):
    """A block as a record batch of one row of lists."""
    arrays = (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X.ravel(), None, None)
    shape = np.array(X.shape, dtype=np.int64)
    names = "values", "indices", "indptr", "y", "weight", "shape", "place"
    parts = zip(names, (*arrays, y, weight, shape, np.array(place, dtype=np.int64)), strict=True)
    lists = {
        name: pa.LargeListArray.from_arrays(pa.array([0, len(part)], pa.int64()), pa.array(part))
        for name, part in parts
        if part is not None
    }
    return pa.RecordBatch.from_pydict(lists)


def _place(batch):
    return tuple(batch.column("place")[0].as_py())


def _unpacked(batch):
    # Copies: a learner may write to them, and the file may be deleted before they are.
    parts = {}
    for name in batch.schema.names:
        values = batch.column(name).values
        if pa.types.is_string(values.type):
            parts[name] = np.array(values.to_pylist(), dtype=np.str_)
        else:
            parts[name] = values.to_numpy().copy()
    shape = tuple(parts["shape"].tolist())
    if "indptr" in parts:
        X = sparse.csr_array((parts["values"], parts["indices"], parts["indptr"]), shape=shape)
        X.has_canonical_format = True
    else:
        X = parts["values"].reshape(shape)
    return X, parts.get("y"), parts.get("weight"), _place(batch)


@contextlib.contextmanager
def cache_path(text, checkpoint_path):
    """The path for the parsed blocks of a text; None if the disk has not enough free space.

    It is next to a checkpoint, where it outlives an interrupted run, or else temporary.
    """
    with contextlib.ExitStack() as stack:
        if checkpoint_path is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
            path = os.path.join(folder, "blocks")
        else:
            path = f"{os.path.abspath(checkpoint_path)}.blocks"
            folder = os.path.dirname(path)
        free = shutil.disk_usage(folder).free
        yield path if free > _FREE_BYTES * os.path.getsize(text) else None
        with contextlib.suppress(OSError):
            os.unlink(path)
