"""What the house looks like in figures: `python tests/house.py` prints them.

Tokens, lines, long classes, and the files of twelve ways through the library (`walks.py`) are
shown, not held: judge by reading. `test_house.py` holds class names and banned words.
"""

import ast
import io
import re
import tokenize
from collections import defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROOMS = ("src", "papers")
_LAYOUT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENCODING, tokenize.ENDMARKER,
}  # fmt: skip
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

# Words that the field has better words for, anywhere a reader meets them.
BANNED = re.compile(
    r"(?<!\.)\b(told|tells?|heard|hears?|said|says?|saying|believed?|struck|absurd|dear(est)?|foretold"
    r"|speaks? for|(leave|leaves|left|leaving) out|bears? out|of late)\b",
    re.IGNORECASE,
)


def files(*rooms, suffix=".py"):
    """Files with a suffix below folders of the repository, in order."""
    return sorted(p for room in rooms for p in (ROOT / room).rglob(f"*{suffix}"))


def parsed(path):
    """The syntax tree of a file."""
    return ast.parse(path.read_text())


@cache
def names_and_strings(path):
    """The names of the classes in a file, and (line, text) of its strings: it is parsed once."""
    nodes = list(ast.walk(parsed(path)))
    constants = [n for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    names = [n.name for n in nodes if isinstance(n, ast.ClassDef)]
    return names, [(n.lineno, n.value) for n in constants]


def docstrings(tree):
    """The string nodes that are docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            yield node.body[0]


def code_tokens(text):
    """Tokens of a source, without layout, comments and docstrings."""
    documented = {(node.lineno, node.col_offset) for node in docstrings(ast.parse(text))}
    found = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(t.type not in _LAYOUT and t.start not in documented for t in found)


def code_lines(tree, text):
    """Lines of a source without docstrings, comments and blank lines."""
    documented = {n for doc in docstrings(tree) for n in range(doc.lineno, doc.end_lineno + 1)}
    lines = enumerate(text.splitlines(), 1)
    return sum(bool(x.split("#")[0].strip()) for n, x in lines if n not in documented)


def class_lines(node):
    """Lines of a class without docstrings."""
    spent = sum(doc.end_lineno - doc.lineno + 1 for doc in docstrings(node))
    return node.end_lineno - node.lineno + 1 - spent


def classes():
    """(Path, node) of every class of the library."""
    for path in files(*ROOMS):
        yield from ((path, n) for n in ast.walk(parsed(path)) if isinstance(n, ast.ClassDef))


def repeated_class_names():
    """Class names that two modules or more define."""
    homes = defaultdict(set)
    for path in files(*ROOMS):
        for name in names_and_strings(path)[0]:
            homes[name].add(path)
    return sorted(name for name, paths in homes.items() if len(paths) > 1)


def longest_classes(n=10):
    """(Lines, name) of the longest classes, docstrings not counted."""
    return sorted(((class_lines(node), node.name) for _, node in classes()), reverse=True)[:n]


def texts(path):
    """(Line, text) of what a reader meets in a file: a page's lines; of code the strings."""
    if path.suffix != ".py":
        yield from enumerate(path.read_text().splitlines(), 1)
        return
    for line, text in names_and_strings(path)[1]:
        yield from enumerate(text.splitlines(), line)


def banned_words():
    """(Place, word) of every banned word in docs, docstrings, messages and help."""
    pages = [*files("docs", suffix=".md"), *files("docs", suffix=".sh"), *ROOT.glob("*.md")]
    sources = files(*ROOMS, "examples", "benchmarks")
    for path in [*pages, *sources]:
        for number, line in texts(path):
            for match in BANNED.finditer(line):
                yield f"{path.relative_to(ROOT)}:{number}", match.group()


def measures():
    """The figures of the code: {name: value}."""
    sources = [path.read_text() for path in files(*ROOMS)]
    tokens = sum(map(code_tokens, sources))
    lines = sum(text.count("\n") for text in sources)
    filled = sum(code_lines(ast.parse(text), text) for text in sources)
    return {
        "files": len(sources),
        "lines": lines,
        "code lines": filled,
        "code tokens": tokens,
        "tokens a code line": round(tokens / filled, 1),
        "fmt: skip": sum(text.count("fmt: skip") for text in sources),
        "issparse": sum(len(re.findall(r"\bissparse\(", text)) for text in sources),
        "class names with two homes": len(repeated_class_names()),
        "classes over 250 lines": sum(class_lines(node) > 250 for _, node in classes()),
        "banned words": sum(1 for _ in banned_words()),
    }


def report():
    """The figures as text: the code, the folders, the longest classes, the ways."""
    from walks import ways  # imports the library, which the figures of the code do not need

    yield from (f"{name:28}{value:>10,}" for name, value in measures().items())
    yield "\nlines of folders"
    for folder, lines in sorted(folder_lines().items()):
        yield f"{folder:28}{lines:>10,}"
    yield "\nlongest classes"
    yield from (f"{name:28}{lines:>10,}" for lines, name in longest_classes())
    yield f"\n{'ways':36}{'files':>6}{'functions':>11}{'climbs':>8}"
    for name, found in ways():
        yield f"{name:36}{len(found.files):>6}{len(found.functions):>11}{len(found.climbs):>8}"


def folder_lines():
    """{Folder below `src/tunefree`: its lines}; files beside them count as the folder "."."""
    library, found = ROOT / "src" / "tunefree", defaultdict(int)
    for path in files("src"):
        folder = path.relative_to(library).parent
        found[str(folder.parts[0] if folder.parts else ".")] += path.read_text().count("\n")
    return found


if __name__ == "__main__":
    print("\n".join(report()))
