"""The engine: sources of rows, the only loop, and checkpoints."""
