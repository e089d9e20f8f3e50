"""Tables of parts by name; a new part is one new file.

A table maps names to parts (losses, links, potentials, ...). A new part only has to be entered: the
estimators then take its name, the command line offers it, and the test suite checks the laws of its
table. Another package enters its parts when it is imported. If it is also in the entry-point group
``tunefree``, it is imported when needed, from the shell, too.
"""

from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from tunefree.core.jit import part
from tunefree.core.warn import none_of

_TABLES = []


class PartTable(dict):
    """Parts of one kind, by name.

    Parameters
    ----------
    kind : str
        The name of the parameter that takes a part: "link".
    verb : str
        The method that every part of this kind has.
    parts : dict
        The parts of this library.
    synonyms : dict
        Names that other libraries use, and the table's own.

    Examples
    --------
    >>> from tunefree.parts.links import LINKS
    >>> LINKS.find("identity") is LINKS.find(LINKS["identity"])
    True
    """

    def __init__(self, kind: str, verb: str, parts: Any = (), synonyms: Any = ()):
        super().__init__(parts)
        self.kind, self.verb, self.synonyms = kind, verb, dict(synonyms)
        _TABLES.append(self)

    def enter(self, name: str, **parameters: Any) -> Callable[[type], Any]:
        """Decorate the class of a part: with these parameters it is entered in the table."""

        def entered(cls):
            cls = part(cls) if issubclass(cls, tuple) else cls
            self[name] = cls(**parameters)
            return cls

        return entered

    def names(self) -> list[str]:
        """All names, with those of other packages."""
        _load()
        return list(self)

    def find(self, value: Any, also: Iterable[str] = ()) -> Any:
        """The part of a name; an object with the method `verb` is returned unchanged.

        Raises
        ------
        ValueError
            For an unknown name (the message also lists `also`), or another object.
        """
        if isinstance(value, str):
            value = self.synonyms.get(value, value)
            if value not in self:
                _load()
            if value in self:
                return self[value]
        elif hasattr(value, self.verb):
            return value
        if isinstance(value, str):
            raise none_of(self.kind, value, [*also, *self.names()])
        raise ValueError(
            f"{self.kind}={value!r} is neither a name nor a part: it has no {self.verb}()."
        )


def classes():
    """The classes of all parts in tables, with those of other packages, by full name."""
    _load()
    types = {type(part) for table in _TABLES for part in table.values()}
    return {f"{cls.__module__}.{cls.__qualname__}": cls for cls in types}


@cache
def _load():
    """Import the parts of other packages, once a process."""
    for point in entry_points(group="tunefree"):
        point.load()
