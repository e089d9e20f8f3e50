"""Sources: where rows come from. The learners do not know whether it is an array, a file or a pipe.

`blocks` holds what learners see; `chunks` how rows are cut, shuffled and fetched ahead; `readers`
the files and iterators; `source` puts them together.
"""

from tunefree.engine.sources.blocks import Batches, Block, Rows, Whole
from tunefree.engine.sources.chunks import Chunk, Mark, joined, widened
from tunefree.engine.sources.source import Source, open_source

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
