"""Model files: versioned, checksummed, written whole or not at all; nothing in them is executed."""

from tunefree.persistence.atomic import write_atomically
from tunefree.persistence.checkpoints import Checkpoint
from tunefree.persistence.container import (
    describe_model,
    load_model,
    load_values,
    save_model,
    save_values,
)
from tunefree.persistence.export import to_onnx
from tunefree.persistence.values import ModelError

__all__ = [
    "Checkpoint",
    "ModelError",
    "describe_model",
    "load_model",
    "load_values",
    "save_model",
    "save_values",
    "to_onnx",
    "write_atomically",
]
