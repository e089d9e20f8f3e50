"""What the house is measured by: tokens, repeated class names, long classes, banned words."""

import ast
import io
import re
import tokenize
from collections import defaultdict
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
# Words that are banned as parts of names only: as verbs and prepositions they are plain English.
BANNED_IN_NAMES = {
    "leads", "follows", "grows", "thirds", "moves", "room", "together", "turns", "wild", "hear",
}  # fmt: skip
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def files(*rooms, suffix=".py"):
    """Files with a suffix below folders of the repository, in order."""
    return sorted(p for room in rooms for p in (ROOT / room).rglob(f"*{suffix}"))


def parsed(path):
    """The syntax tree of a file."""
    return ast.parse(path.read_text())


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


def code_lines(node, text):
    """Lines of a function of a source, without docstrings, comments and blank lines."""
    documented = {n for doc in docstrings(node) for n in range(doc.lineno, doc.end_lineno + 1)}
    lines = enumerate(text.splitlines()[node.lineno - 1 : node.end_lineno], node.lineno)
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
    for path, node in classes():
        homes[node.name].add(path)
    return sorted(name for name, paths in homes.items() if len(paths) > 1)


def long_classes(limit=250):
    """Names of classes with more lines than `limit`, docstrings not counted."""
    return sorted(node.name for _, node in classes() if class_lines(node) > limit)


def names(text):
    """Every identifier of a source."""
    found = tokenize.generate_tokens(io.StringIO(text).readline)
    return [t.string for t in found if t.type == tokenize.NAME]


def banned_words():
    """(Place, word) of every banned word in code, comments, docstrings, messages and docs."""
    pages = [*files("docs", suffix=".md"), *files("docs", suffix=".sh"), *ROOT.glob("*.md")]
    sources = files(*ROOMS, "examples", "benchmarks")
    for path in [*pages, *sources]:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            plain = line.replace("_", " ") if path.suffix == ".py" else line
            for match in BANNED.finditer(plain):
                yield f"{path.relative_to(ROOT)}:{number}", match.group()
    for path in sources:
        for name in names(path.read_text()):
            for word in BANNED_IN_NAMES.intersection(w.lower() for w in _WORD.findall(name)):
                yield f"{path.relative_to(ROOT)}: {name}", word


def measures():
    """The figures that test_house holds: {name: value}."""
    texts = [path.read_text() for path in files(*ROOMS)]
    return {
        "code tokens": sum(map(code_tokens, texts)),
        "fmt: skip": sum(text.count("fmt: skip") for text in texts),
        "issparse": sum(len(re.findall(r"\bissparse\(", text)) for text in texts),
        "class names with two homes": len(repeated_class_names()),
        "classes over 250 lines": len(long_classes()),
        "banned words": sum(1 for _ in banned_words()),
    }


if __name__ == "__main__":
    for name, value in measures().items():
        print(f"{name:28}{value:8,}")
