"""Model files: versioned, checksummed, written whole or not at all; nothing in them is executed."""

from tunefree.io.atomic import write_atomically
from tunefree.io.container import (
    describe_model,
    load_model,
    load_values,
    save_model,
    save_values,
)
from tunefree.io.values import ModelError

__all__ = [
    "ModelError",
    "describe_model",
    "load_model",
    "load_values",
    "save_model",
    "save_values",
    "write_atomically",
]
