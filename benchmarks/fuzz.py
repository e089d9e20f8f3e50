"""Coverage-guided fuzzing of the readers and of the model loader, with a time budget.

python benchmarks/fuzz.py libsvm|csv|model|all [--seconds N] [--corpus DIR]

Needs atheris. Each target runs N seconds in a process of its own. Inputs that reach new lines of our
Python are kept in DIR/TARGET (by default a temporary folder). Anything but the documented errors, a
hang of ten seconds, a number that is not finite, or a reading that depends on where the bytes are
cut stops a target and keeps the input in DIR/TARGET-failures. The last line of a target says how many
inputs ran, in how many seconds, and what was reached; exit code 1 if anything failed.
"""

import argparse
import hashlib
import os
import re
import struct
import subprocess
import sys
import tempfile
import time
import types
from pathlib import Path

import atheris
import numpy as np

import tunefree.persistence.container as container
from tunefree import AveragedSGDRegressor
from tunefree.persistence import ModelError, load_model, save_model, values
from tunefree.readers import DataError, layout, numbers, read, table
from tunefree.readers import libsvm as libsvm_reader

_FOLDER = tempfile.mkdtemp()


def instrument():
    """Let atheris see which lines of our own Python are reached."""
    for module in (container, values, layout, libsvm_reader, numbers, table):
        for owner in (module, *(v for v in vars(module).values() if isinstance(v, type))):
            for name, item in list(vars(owner).items()):
                if isinstance(item, types.FunctionType) and item.__module__ == module.__name__:
                    setattr(owner, name, atheris.instrument_func(item))


def _table(data, format):
    whole, cut = (_reading(pieces, format) for pieces in ([data], [data[:7], data[7:]]))
    assert whole == cut, (whole, cut)


def _reading(pieces, format):
    """The bytes of what was read, or the place and text of the refusal."""
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


def model(data):
    """Any bytes, and any header under a right checksum, are loaded or refused."""
    path = os.path.join(_FOLDER, "model")
    for content in (data, _sealed(data)):
        Path(path).write_bytes(content)
        try:
            load_model(path).get_params()
        except ModelError:
            pass


def _sealed(text):
    """A file whose header is the input, with lengths and a checksum that are right."""
    body = text + bytes(-(32 + len(text)) % 64) + bytes(4096)
    head = struct.pack("<8sIIQQ", container.MAGIC, 1, 0, len(text), 32 + len(body) + 32)
    return head + body + hashlib.sha256(head + body).digest()


def seeds(target):
    """Inputs to start from."""
    if target == "libsvm":
        return [b"1 1:0.5 3:2\n-1 2:1e-3 # c\n", b"+1 qid:3 1:1\r\n"]
    if target == "csv":
        return [b'a,b,"c ""d"""\n1,2,x\n3,,y\n', b"1;2;3\n4;5;6\n"]
    path = os.path.join(_FOLDER, "seed")
    X = np.arange(6.0).reshape(3, 2)
    save_model(AveragedSGDRegressor(random_state=0).fit(X, X[:, 0]), path, learner=False)
    content = Path(path).read_bytes()
    length = struct.unpack_from("<Q", content, 16)[0]
    return [content, content[32 : 32 + length]]


def fuzz(target, seconds, corpus):
    """Fuzz in this process; does not return."""
    for text in seeds(target):
        (corpus / hashlib.sha1(text).hexdigest()).write_bytes(text)
    failures = corpus.with_name(f"{target}-failures")
    failures.mkdir(exist_ok=True)
    flags = [f"-max_total_time={seconds}", "-timeout=10", "-max_len=4096",
             "-print_final_stats=1", f"-artifact_prefix={failures}/", str(corpus)]  # fmt: skip
    instrument()
    atheris.Setup([sys.argv[0], *flags], TARGETS[target])
    atheris.Fuzz()


def watch(target, seconds, corpus):
    """Fuzz in a child, since libFuzzer ends its process; pass its words on and sum them up."""
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


TARGETS = {"libsvm": libsvm, "csv": csv, "model": model}


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
