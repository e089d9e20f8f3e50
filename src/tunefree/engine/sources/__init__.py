"""Sources of rows: arrays, files and pipes, in one form for all learners.

`readers` reads files and iterators; `source` cuts their rows into chunks, shuffles and prefetches;
`row_sample` draws a sample of them.
"""

from tunefree.engine.run import Batches, Block, Rows, Whole
from tunefree.engine.sources.row_sample import RowSample, row_keys
from tunefree.engine.sources.source import Chunk, Mark, Source, joined, open_source, widened

__all__ = [
    "Block",
    "Chunk",
    "Mark",
    "RowSample",
    "Rows",
    "Batches",
    "Source",
    "Whole",
    "joined",
    "open_source",
    "row_keys",
    "widened",
]
