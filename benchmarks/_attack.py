"""The classes of `attack.py`: each yields what was tried and what went wrong ('' if nothing)."""

from _attack_tables import tables

CLASSES = {"tables": tables}
