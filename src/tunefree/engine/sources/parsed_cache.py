"""Text is parsed once: its blocks lie in an Arrow file, where later passes find them.

The file is written while the text is first read from its start to its end, and takes its place
whole. Blocks keep the places where they ended, so that marks, and with them checkpoints, are those
of the text.
"""

import contextlib
import os
import shutil
import tempfile
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse

from tunefree.io.files import forget, mapped

# Free bytes a byte of text that are asked for: every entry of it takes 12, and 4 of text at least.
_ROOM = 6


class Kept:
    """The blocks of a text in the Arrow file `path`, which `identity` has to describe."""

    def __init__(self, path, identity):
        self.path, self.identity = path, identity.encode()

    def pieces(self, parse, place):
        """The blocks after a place: from the file if it is whole, else parsed."""
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
        pages = blocks = None  # of other data, or damaged: nothing is to hold the file
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
        """The writer after one more block; None if that cannot be: text can be parsed again."""
        try:
            if writer is None:
                schema = batch.schema.with_metadata({"identity": self.identity})
                writer = pa.ipc.new_file(path, schema)
            writer.write_batch(batch.replace_schema_metadata({"identity": self.identity}))
        except (OSError, pa.ArrowInvalid):  # the disk is full, or indices have outgrown their type
            with contextlib.suppress(OSError):
                os.truncate(path, 0)
            return None
        return writer

    def _read(self, blocks, place, pages):
        first, places = 0, range(blocks.num_record_batches if place else 0)
        while first < len(places) and _place(blocks.get_batch(first)) != place:
            first += 1
        for k in range(first + bool(place), blocks.num_record_batches):
            block = _unpacked(blocks.get_batch(k))
            forget(pages)
            yield block


def _packed(X, y, weight, place):
    """A block as a record batch of one row of lists."""
    of = (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X.ravel(), None, None)
    shape = np.array(X.shape, dtype=np.int64)
    names = "values", "indices", "indptr", "y", "weight", "shape", "place"
    parts = zip(names, (*of, y, weight, shape, np.array(place, dtype=np.int64)), strict=True)
    lists = {
        name: pa.LargeListArray.from_arrays(pa.array([0, len(part)], pa.int64()), pa.array(part))
        for name, part in parts
        if part is not None
    }
    return pa.RecordBatch.from_pydict(lists)


def _place(batch):
    return tuple(batch.column("place")[0].as_py())


def _unpacked(batch):
    # Copies: what learns may write, and the file may be gone before the rows are.
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
def place_for(text, beside):
    """Where to keep the blocks of a text: by a checkpoint's path, or for as long as the context.

    None where the disk has no room. Blocks beside a checkpoint outlive an interrupted run.
    """
    with contextlib.ExitStack() as stack:
        if beside is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
            path = os.path.join(folder, "blocks")
        else:
            path = f"{os.path.abspath(beside)}.blocks"
            folder = os.path.dirname(path)
        room = shutil.disk_usage(folder).free
        yield path if room > _ROOM * os.path.getsize(text) else None
        with contextlib.suppress(OSError):
            os.unlink(path)
