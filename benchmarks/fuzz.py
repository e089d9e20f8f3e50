"""Coverage-guided fuzzing of the readers and of the model loader, with a time budget.

python benchmarks/fuzz.py libsvm|csv|model [--seconds N] [--corpus DIR]

Needs atheris. Inputs that reach new code are kept in DIR (by default a temporary folder). Anything
but the documented errors, a hang of ten seconds or a number that is not finite stops the run with
exit code 77 and writes the input.
"""

import argparse
import hashlib
import os
import struct
import sys
import tempfile
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
    try:
        found = read([data[:7], data[7:]], format=format)
    except DataError:
        return
    entries = found.X.data if format == "libsvm" else found.X
    assert np.isfinite(entries).all() and found.X.shape[0] == len(found.y)


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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", choices=["libsvm", "csv", "model"])
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--corpus", type=Path)
    options = parser.parse_args()
    corpus = options.corpus or Path(tempfile.mkdtemp())
    corpus.mkdir(parents=True, exist_ok=True)
    for text in seeds(options.target):
        (corpus / hashlib.sha1(text).hexdigest()).write_bytes(text)
    flags = [f"-max_total_time={options.seconds}", "-timeout=10", "-max_len=4096",
             "-print_final_stats=1", str(corpus)]  # fmt: skip
    instrument()
    atheris.Setup([sys.argv[0], *flags], globals()[options.target])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
