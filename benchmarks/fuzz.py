"""Coverage-guided fuzzing of the readers and of the model loader, with a time budget.

python benchmarks/fuzz.py libsvm|csv|mixed|model|all [--seconds N] [--corpus DIR]

Needs atheris. Each target runs N seconds in a process of its own. Inputs that reach new lines of
our Python are kept in DIR/TARGET (by default a temporary folder). A target stops at an undocumented
error, a hang of ten seconds, a number that is not finite, or a result that depends on where the
bytes are cut, and keeps the input in DIR/TARGET-failures. The last line of a target has the number
of inputs, the seconds and the coverage; exit code 1 if anything failed.
"""

import argparse
import contextlib
import copy
import hashlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import types
import warnings
from pathlib import Path

import atheris
import numpy as np
from scipy import sparse

from tunefree import (
    KernelPiSTOLClassifier,
    KernelRidgeRegressor,
    PiSTOLClassifier,
    RidgePathRegressor,
)
from tunefree.files import DataError, Skipped, files, read, tables
from tunefree.files import libsvm as libsvm_reader
from tunefree.files import mixed as mixed_reader
from tunefree.files import model as models
from tunefree.files.mixed import read_mixed
from tunefree.files.model import ModelError, load_model, save_model

_FOLDER = tempfile.mkdtemp()
MODULES = (models, libsvm_reader, files, tables, mixed_reader)


def instrument():
    """Let atheris trace which lines of our Python are reached."""
    for module in MODULES:
        for owner in (module, *(v for v in vars(module).values() if isinstance(v, type))):
            for name, item in list(vars(owner).items()):
                if isinstance(item, types.FunctionType) and item.__module__ == module.__name__:
                    setattr(owner, name, atheris.instrument_func(item))


def _table(data, format):
    whole, cut = (_reading(pieces, format) for pieces in ([data], [data[:7], data[7:]]))
    assert whole == cut, (whole, cut)


def _reading(pieces, format):
    """The bytes of the result, or the position and text of the error."""
    try:
        found = read(pieces, format=format)
    except DataError as refusal:
        return str(refusal)
    entries = found.X.data if format == "libsvm" else found.X
    assert np.isfinite(entries).all() and found.X.shape[0] == len(found.y)
    return found.X.shape, entries.tobytes(), np.asarray(found.y).tobytes()


def libsvm(data):
    """A libsvm file is read to finite numbers or refused."""
    _table(data, "libsvm")


def csv(data):
    """A csv file is read to finite numbers or refused."""
    _table(data, "csv")


def mixed(data):
    """Any csv file is read to a table or refused, and bad rows are skipped or refused.

    Its columns, read again with the kinds that were found, are the same.
    """
    table = _mixed([data])
    assert table == _mixed([data[:7], data[7:]])
    if not isinstance(table, str):
        assert table == _mixed([data], kinds=table[0]), table
    _mixed([data], skipped=Skipped())


def _mixed(pieces, **options):
    """The result of `read_mixed` in types of Python, or the position and text of the error."""
    try:
        found = read_mixed(pieces, format="csv", **options)
    except DataError as refusal:
        return str(refusal)
    X = found.X
    cells = X.tobytes() if isinstance(X, np.ndarray) else repr(X.to_pydict())
    assert X.shape[0] == len(found.y)
    return found.kinds, cells, found.y.tolist()


def model(data):
    """Any bytes, and any header with a valid checksum, are loaded or refused.

    A loaded model may be nonsense, and raise errors, but must not crash the process.
    """
    path = os.path.join(_FOLDER, "model")
    for content in (data, _sealed(data)):
        Path(path).write_bytes(content)
        try:
            loaded = load_model(path)
            loaded.get_params()
        except ModelError:
            continue
        with contextlib.suppress(Exception), np.errstate(all="ignore"):
            loaded.predict(np.ones((2, 2)))


def _sealed(text):
    """A file whose model is that of the input, with the right length and checksum.

    Entries of its tensors are the "arrays" of the input.
    """
    try:
        entries = json.dumps(json.loads(text)["arrays"])[1:-1]
    except (ValueError, RecursionError, KeyError, TypeError, IndexError):
        entries = ""
    rest = f'"model":{json.dumps(text.decode("latin-1"))}}}{", " * bool(entries)}{entries}}}'
    start = b'{"__metadata__":{"format":"tunefree %d","bytes":"' % models.FORMAT
    count = len(start) + 20 + 12 + 64 + 2 + len(rest)
    start += b'%020d","sha256":"' % (8 + count + (1 << 16))
    rest = b'",' + rest.encode() + bytes(1 << 16)
    start = count.to_bytes(8, "little") + start
    return start + hashlib.sha256(start + b"0" * 64 + rest).hexdigest().encode() + rest


ODD = [-1, 0, 1, 2, 7, 2**31, 2**63, -(2**63), 1e308, True, None, "", "F64", "BOOL", "<U9", "T",
       [], {}, [3, 2], {"array": 0}, {"float": "nan"}, {"tuple": []}, {"csr": [[2, 2], 0, 1, 2]},
       {"dtype": "<i4"}, {"strings": [[1], ["a"]]}, {"scalar": 1}, {"bytes": 0}]  # fmt: skip


def mutated(data, longest, seed):
    """A header with some of its values exchanged; arbitrary bytes if it is not JSON."""
    rng = random.Random(seed)
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return atheris.Mutate(data, longest)
    if rng.random() < 0.1:
        return atheris.Mutate(data, longest)
    for _ in range(rng.choice([1, 1, 2, 4])):
        places = list(_places(tree))
        if not places:
            break
        owner, key = rng.choice(places)
        other, place = rng.choice(places)
        act = rng.randrange(4)
        if act == 0:
            owner[key] = copy.deepcopy(other[place])
        elif act == 1:
            del owner[key]
        elif act == 2 and isinstance(owner[key], int):
            owner[key] += rng.choice([-1, 1, 64, 2**40])
        else:
            owner[key] = copy.deepcopy(rng.choice(ODD))
    return json.dumps(tree, separators=(",", ":")).encode()[:longest]


def _places(node):
    """Every (container, key) of a JSON value."""
    keys = node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    for key in keys:
        yield node, key
        yield from _places(node[key])


def seeds(target):
    """The first inputs."""
    if target == "libsvm":
        return [b"1 1:0.5 3:2\n-1 2:1e-3 # c\n", b"+1 qid:3 1:1\r\n"]
    if target == "csv":
        return [b'a,b,"c ""d"""\n1,2,x\n3,,y\n', b"1;2;3\n4;5;6\n"]
    if target == "mixed":
        return [b'city,day,b,n,y\nRome,2026-01-31,true,,1\n"Oslo, N",,no,"7"\n,2,b\n',
                b"a;b;c\n1,5;x;2\n;2025-02-03 04:05;3\n"]  # fmt: skip
    path = os.path.join(_FOLDER, "seed")
    X = np.arange(24.0).reshape(12, 2) % 7
    fits = [RidgePathRegressor(random_state=0).fit(X, X[:, 0]),
            PiSTOLClassifier(random_state=0).fit(sparse.csr_array(X), X[:, 0] > 3),
            KernelPiSTOLClassifier(random_state=0, max_iter=1).fit(X, X[:, 0] > 3),
            KernelRidgeRegressor().fit(X, X[:, 0])]  # fmt: skip
    texts = []
    for estimator in fits:
        for learner in (False, True):
            save_model(estimator, path, learner=learner)
            content = Path(path).read_bytes()
            tensors = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
            header = json.loads(tensors.pop("__metadata__")["model"])
            texts.append(json.dumps(header | {"arrays": tensors}).encode())
    return [content, *texts]


def fuzz(target, seconds, corpus):
    """Fuzz in this process; does not return."""
    for text in seeds(target):
        (corpus / hashlib.sha1(text).hexdigest()).write_bytes(text)
        TARGETS[target](text)  # compiles, which would count as a hang
    failures = corpus.with_name(f"{target}-failures")
    failures.mkdir(exist_ok=True)
    flags = [f"-max_total_time={seconds}", "-timeout=10", f"-max_len={LONGEST[target]}",
             "-print_final_stats=1", f"-artifact_prefix={failures}/",
             # The fuzzer itself uses a kilobyte more for every input of a csv file; the reader
             # alone does not.
             "-rss_limit_mb=0", str(corpus)]  # fmt: skip
    warnings.simplefilter("ignore")
    instrument()
    more = {"custom_mutator": mutated} if target == "model" else {}
    atheris.Setup([sys.argv[0], *flags], TARGETS[target], **more)
    atheris.Fuzz()


def watch(target, seconds, corpus):
    """Fuzz in a child, since libFuzzer ends its process; print its output and a summary."""
    corpus.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, __file__, target, "--seconds", str(seconds), "--corpus",
               str(corpus.parent), "--here"]  # fmt: skip
    start = time.monotonic()
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, errors="replace")
    lines, runs, covered = 0, "0", "0"
    for line in child.stderr:
        lines += 1
        runs = _last(r"^(?:#|Done |stat::number_of_executed_units: )(\d+)", line, runs)
        covered = _last(r"cov: (\d+)", line, covered)
        if lines % 200 == 1 or not line.startswith("#"):
            print(line, end="", flush=True)
    code = child.wait()
    failures = len(list(corpus.with_name(f"{target}-failures").iterdir()))
    print(f"{target}: {runs} inputs in {time.monotonic() - start:.0f} s, {covered} branches of our "
          f"Python reached, {len(list(corpus.iterdir()))} inputs kept, {failures} failures, "
          f"exit code {code}", flush=True)  # fmt: skip
    return bool(code or failures)


def _last(pattern, line, before):
    found = re.search(pattern, line)
    return found.group(1) if found else before


TARGETS = {"libsvm": libsvm, "csv": csv, "mixed": mixed, "model": model}
LONGEST = {"libsvm": 4096, "csv": 4096, "mixed": 2048, "model": 16384}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", choices=[*TARGETS, "all"])
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    corpus = options.corpus or Path(tempfile.mkdtemp())
    if options.here:
        fuzz(options.target, options.seconds, corpus / options.target)
    names = TARGETS if options.target == "all" else [options.target]
    sys.exit(max(watch(name, options.seconds, corpus / name) for name in names))


if __name__ == "__main__":
    main()
