"""Sources: where rows come from. The learners do not know whether it is an array, a file or a pipe.

`readers` has the files and iterators; `source` cuts, shuffles and fetches ahead what they give.
"""

from tunefree.engine.run import Batches, Block, Rows, Whole
from tunefree.engine.sources.source import Chunk, Mark, Source, joined, open_source, widened

__all__ = [
    "Block",
    "Chunk",
    "Mark",
    "Rows",
    "Batches",
    "Source",
    "Whole",
    "joined",
    "open_source",
    "widened",
]
