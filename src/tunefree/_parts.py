"""Tables of parts: a name is its part, and a new part is one new file.

A table maps names to parts (losses, links, potentials, ...). To enter a part is all that a new one
takes: the estimators take its name, the command line offers it, and the laws of the tests hold it
to what its table promises. A package of its own enters its parts when it is imported, and names
itself in the entry-point group ``tunefree`` to be found without that, from the shell, too.
"""

from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from tunefree._jit import part

_TABLES = []


class Table(dict):
    """Parts of one kind, by name.

    Parameters
    ----------
    kind : str
        What they are, as the parameter that takes one is called: "link".
    verb : str
        The method by which a part of this kind is known.
    parts : dict
        The parts that the library brings.

    Examples
    --------
    >>> from tunefree.links import LINKS
    >>> LINKS.find("identity") is LINKS.find(LINKS["identity"])
    True
    """

    def __init__(self, kind: str, verb: str, parts: Any = ()):
        super().__init__(parts)
        self.kind, self.verb = kind, verb
        _TABLES.append(self)

    def enter(self, name: str, **parameters: Any) -> Callable[[type], Any]:
        """Decorate the class of a part: with these parameters it stands in the table."""

        def entered(cls):
            cls = part(cls) if issubclass(cls, tuple) else cls
            self[name] = cls(**parameters)
            return cls

        return entered

    def names(self) -> list[str]:
        """All names, those of other packages, too."""
        _load()
        return list(self)

    def find(self, value: Any, also: Iterable[str] = ()) -> Any:
        """The part of a name; an object that has the verb is one itself.

        Raises
        ------
        ValueError
            For another name, `also` being names that the caller knows, or another object.
        """
        if isinstance(value, str):
            if value not in self:
                _load()
            if value in self:
                return self[value]
        elif hasattr(value, self.verb):
            return value
        names = ", ".join([*also, *self.names()])
        raise ValueError(
            f"{self.kind}={value!r} is none of {names}."
            if isinstance(value, str)
            else f"{self.kind}={value!r} is neither a name nor a part: it has no {self.verb}()."
        )


def classes():
    """The classes of all parts in tables, those of other packages, too, by their full names."""
    _load()
    found = {type(part) for table in _TABLES for part in table.values()}
    return {f"{cls.__module__}.{cls.__qualname__}": cls for cls in found}


@cache
def _load():
    """Import what other packages enter: once a process."""
    for point in entry_points(group="tunefree"):
        point.load()
