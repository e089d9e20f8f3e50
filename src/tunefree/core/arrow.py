"""Arrow for the reading of cells: pyarrow, or where it is not installed `plain_arrow`.

`tunefree.serve` needs NumPy alone, and so reads cells by the same code as everything else.
"""

from typing import TYPE_CHECKING, Any

compute: Any
types: Any
if TYPE_CHECKING:
    import pyarrow as pa
else:
    try:
        import pyarrow as pa
        from pyarrow import compute, types
    except ImportError:
        from tunefree.core import plain_arrow as pa

        compute, types = pa, None

__all__ = ["compute", "pa", "types"]
