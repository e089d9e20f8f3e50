"""The engine: sources of rows, the only loop, and what it leaves behind."""
