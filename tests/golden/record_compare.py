"""How two golden records are compared, and how names of the old one become those of the new one."""

import difflib
import re
import shlex
from typing import NamedTuple

from record_values import is_text

# Between two components of the name of a case, or of a path.
_BETWEEN = re.compile(r"([/.])")


class Renames:
    """A table of names: whole components of the names of cases and of paths.

    A line is `old new`, a name with a blank is in quotes, `#` begins a comment. A name may be
    several components in a row: the longest one wins. All renames happen at once, so that two names
    may be exchanged.

    >>> renames = Renames("Landmark Ridge  # a class\\nleft_out_ held_out_\\nLandmark/3 Other/0")
    >>> renames.of("Landmark/0/numbers/dense"), renames.of("Landmark/3/numbers/dense")
    ('Ridge/0/numbers/dense', 'Other/0/numbers/dense')
    >>> renames.of("left_out_.targets"), renames.of("not_left_out_")
    ('held_out_.targets', 'not_left_out_')
    """

    def __init__(self, text=""):
        self.table, self.used = {}, set()
        for number, line in enumerate(text.splitlines(), 1):
            names = shlex.split(line, comments=True)
            if not names:
                continue
            if len(names) != 2:
                raise ValueError(f"Line {number} is no `old new`: {line!r}")
            old, new = names
            if old in self.table:
                raise ValueError(f"Line {number} renames {old!r} again.")
            self.table[old] = new
        self._parts = {old: _BETWEEN.split(old) for old in self.table}
        self._longest_first = sorted(self._parts, key=lambda old: -len(self._parts[old]))

    def of(self, name):
        """The new name of a case or of a path."""
        parts, out, i = _BETWEEN.split(name), [], 0
        while i < len(parts):
            old = self._found(parts, i)
            if old is None:
                out.append(parts[i])
                i += 1
            else:
                self.used.add(old)
                out.append(self.table[old])
                i += len(self._parts[old])
        return "".join(out)

    def _found(self, parts, i):
        for old in self._longest_first:
            if parts[i : i + len(self._parts[old])] == self._parts[old]:
                return old
        return None

    def unused(self):
        """Old names that no case and no path had."""
        return [old for old in self.table if old not in self.used]

    def of_cases(self, cases):
        """Cases under their new names."""
        renamed = {
            key: self._of_keys(leaves, f"paths of {key}")
            for key, leaves in self._of_keys(cases, "cases").items()
        }
        return renamed

    def _of_keys(self, values, what):
        out = {}
        for name, value in values.items():
            new = self.of(name)
            if new in out:
                raise ValueError(f"Two {what} become {new!r}: {name!r} is one of them.")
            out[new] = value
        return out


class Comparison(NamedTuple):
    """What differs, a sentence each.

    Attributes
    ----------
    missing : list of str
        Cases, and paths of cases, that one record alone has.
    numbers : list of str
    texts : list of str
        They do not count: messages are reworded.
    """

    missing: list
    numbers: list
    texts: list

    @property
    def counts(self):
        """Whether there is a difference beyond texts."""
        return bool(self.missing or self.numbers)

    def __str__(self):
        lines = []
        for heading, found in (
            ("only in one record", self.missing),
            ("numbers that differ", self.numbers),
            ("texts that differ", self.texts),
        ):
            if found:
                lines += [f"{heading}: {len(found)}", *(f"  {line}" for line in found)]
        if not self.counts:
            lines.append("numbers are equal" if self.texts else "equal")
        return "\n".join(lines)


def compare(old, new, tolerance=None):
    """Compare two records, {case: {path: digest}}.

    Numbers may differ by `tolerance` relative to their norm; None compares the hashes of their
    bytes, too.
    """
    found = Comparison([], [], [])
    for key in _in_order(old, new):
        if key not in old or key not in new:
            found.missing.append(f"{key}: {_where(key in new)}")
            continue
        a, b = old[key], new[key]
        for path in _in_order(a, b):
            if path not in a or path not in b:
                found.missing.append(f"{key} {path}: {_where(path in b)}")
            elif is_text(a[path]) and is_text(b[path]):
                if a[path][0] != b[path][0]:
                    found.texts.append(f"{key} {path}: {_text_change(a[path], b[path])}")
            elif not _equal(a[path], b[path], tolerance):
                found.numbers.append(f"{key} {path}: {a[path]} became {b[path]}")
    return found


def _in_order(a, b):
    return sorted(a.keys() | b.keys())


def _where(in_new):
    return f"only in the {'new' if in_new else 'old'} record"


def _equal(x, y, tolerance):
    if tolerance is None or is_text(x) or is_text(y) or x[0] != y[0]:
        return x == y
    allowed = tolerance * max(x[1], y[1])
    return max(abs(x[1] - y[1]), abs(x[2] - y[2])) <= allowed


def _text_change(old, new):
    """What became of a text: of several lines those that differ."""
    before, after = ("".join(kept[1:]) for kept in (old, new))
    if "\n" not in before + after:
        return f"{before!r} ({old[0]}) became {after!r} ({new[0]})"
    lines = difflib.ndiff(before.splitlines(), after.splitlines())
    return "".join(f"\n    {line}" for line in lines if line[0] in "+-")
