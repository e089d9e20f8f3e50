"""Files that are malformed, truncated or have a flipped bit, and the results of loaders."""

import os
import pickle
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import joblib
import numpy as np
from sklearn.datasets import load_svmlight_file

from tunefree import PiSTOLClassifier, load_model, save_model
from tunefree.files import DataError, read

MALFORMED = [
    b"1 1:1\n1 -3:1\n", b"1 a:1\n", b"1 1.5:1\n", b"1 +1:1\n", b"1 :1\n",
    b"1 99999999999999999999:1\n", b"1 1:1 " + b"9" * 500 + b":1\n", b"1 1:1\n-1 2\n", b"1 1:1 7",
    b"1 1:2:3\n", b"1 1: 2:1\n", b"1 1:", b"1 1:1\n\n# c\n1 1:x\n", b"1 1:nan\n", b"1 12:-inf\n",
    b"1 1:1e999\n", b"1 1:1e\n", b"1 1:0x1\n", b"1 1:1_0\n", b"1 1:1,5\n", b"1 1:1 2:1 1:3\n",
    b"1 1:1\ncat 1:1\n", b"  nan 1:1\n", b"1e400 1:1\n", b"1,2 1:1\n", b"1 1:1\n\x00\xff\x00\n",
    "1 1:1\n".encode("utf-16"),
]  # fmt: skip


def attempt(work, seconds=3.0):
    """Run work() in a child: its result, or how the child ended.

    Peers train in children, too: their threads would not survive a fork.
    """
    inlet, outlet = os.pipe()
    child = os.fork()
    if child == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(null, stream)
        try:
            answer = ("result", work())
        except BaseException as problem:
            answer = ("error", type(problem).__name__)
        os.write(outlet, pickle.dumps(answer))
        os._exit(0)
    os.close(outlet)
    end = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(inlet)
            return "hang", None
        time.sleep(0.002)
    with os.fdopen(inlet, "rb") as pipe:
        answer = pipe.read()
    return pickle.loads(answer) if answer and status == 0 else ("crash", None)


def malformed():
    """How many malformed files are refused with a position, and those of scikit-learn."""
    ours = theirs = placed = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bad.libsvm"
        for text in MALFORMED:
            path.write_bytes(text)
            try:
                read(path)
            except DataError as problem:
                ours += problem.line is not None and problem.column is not None
            try:
                load_svmlight_file(str(path))
            except (ValueError, OverflowError) as problem:
                theirs += 1
                placed += "line" in str(problem)
    n = len(MALFORMED)
    return (f"{ours} of {n} refused with file:line:column",
            f"scikit-learn: {theirs} of {n} refused, {placed} with a line")  # fmt: skip


def random_files(n):
    """Random files that both libraries read: how many differ."""
    rng, differ = random.Random(0), 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.libsvm"
        for _ in range(n):
            lines = []
            for _ in range(rng.randrange(1, 6)):
                columns = sorted(rng.sample(range(1, 50), rng.randrange(0, 6)))
                cells = [f"{j}:{rng.choice([rng.gauss(0, 1), rng.randrange(99), 1e-300])!r}"
                         for j in columns]  # fmt: skip
                lines.append(" ".join([f"{rng.choice([1, -1, 2.5])}", *cells]))
            path.write_text(rng.choice(["\n", "\r\n"]).join(lines) + rng.choice(["", "\n"]))
            ours = read(path, n_features=50, zero_based=False)
            X, y = load_svmlight_file(str(path), n_features=50, zero_based=False)
            differ += bool((ours.X != X).nnz or not np.array_equal(ours.y, y))
    return f"{n - differ} of {n} equal", "the reference"


def hostile():
    """Files that would run code or allocate memory, with valid checksums if they have any."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from test_persistence import hostile_files

    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 10))
    with tempfile.TemporaryDirectory() as folder:
        path, canary = Path(folder) / "model", Path(folder) / "canary"
        save_model(PiSTOLClassifier(random_state=0).fit(X, X[:, 0] > 0), path)
        files, loaded = list(hostile_files(path, canary)), 0
        peers = {"pickle.load": 0, "joblib.load": 0}
        for content in files:
            path.write_bytes(content)
            loaded, _ = _refused(path, loaded, 0.0)
        ran = canary.exists()
        for name in peers:
            for content in files:
                canary.unlink(missing_ok=True)
                path.write_bytes(content)
                attempt(lambda name=name: _unpickled(name, path))
                peers[name] += canary.exists()
    return (f"{loaded} of {len(files)} load, {'some' if ran else 'none'} executed anything",
            ", ".join(f"{name} executes {count}" for name, count in peers.items()))  # fmt: skip


def _unpickled(name, path):
    if name == "joblib.load":
        return bool(joblib.load(path))
    return bool(pickle.loads(path.read_bytes()))


def damage(content, n):
    """Truncations and bit flips of a file, half of each."""
    rng = random.Random(1)
    for _ in range(n // 2):
        yield "cut", content[: rng.randrange(1, len(content))]
    for _ in range(n // 2):
        place, bit = divmod(rng.randrange(8 * len(content)), 8)
        yield "flip", content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]


def our_model(flips):
    """All truncations and many bit flips of a model file: how many load; the slowest refusal."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 10))
    model = PiSTOLClassifier(random_state=0).fit(X, X[:, 0] > 0)
    loaded, slowest = 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        save_model(model, path)
        content = path.read_bytes()
        pieces = [piece for kind, piece in damage(content, 2 * flips) if kind == "flip"]
        for piece in pieces:
            path.write_bytes(piece)
            loaded, slowest = _refused(path, loaded, slowest)
        path.write_bytes(content)
        for length in range(len(content) - 1, -1, -1):
            os.truncate(path, length)
            loaded, slowest = _refused(path, loaded, slowest)
    return (f"{loaded} of {len(content)} truncations and {len(pieces)} flips load; "
            f"{1e3 * slowest:.0f} ms at most")  # fmt: skip


def _refused(path, loaded, slowest):
    start = time.process_time()
    try:
        load_model(path)
        loaded += 1
    except ValueError:
        pass
    return loaded, max(slowest, time.process_time() - start)


def damaged(flips, cuts):
    """Damaged model files, ours and theirs."""
    return our_model(flips), their_models(cuts)


def their_models(n):
    """The same, fewer, for LIBSVM, LIBLINEAR and Vowpal Wabbit, each in a child process."""
    return "; ".join(filter(None, (_libsvm(n), _liblinear(n), _vw(n))))


def _survey(name, content, load, n):
    """Count the outcomes for damaged files; `load` gives predictions."""
    counts = dict.fromkeys(("refused", "same", "different predictions", "crash", "hang"), 0)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model")
        Path(path).write_bytes(content)
        kind, truth = attempt(lambda: load(path))
        if kind != "result":
            return f"{name}: not measured, its sound model gave {kind} {truth}"
        for _, piece in damage(content, n):
            Path(path).write_bytes(piece)
            kind, answer = attempt(lambda: load(path))
            if kind == "result" and answer is not None:
                counts["same" if answer == truth else "different predictions"] += 1
            elif kind in ("crash", "hang"):
                counts[kind] += 1
            else:
                counts["refused"] += 1
    return f"{name}: " + ", ".join(f"{v} {k}" for k, v in counts.items() if v)


def _rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    return X.tolist(), [1 if x > 0 else -1 for x in X[:, 0]]


def _libsvm(n):
    try:
        from libsvm import svmutil
    except ImportError:
        return None
    X, y = _rows()
    with tempfile.NamedTemporaryFile() as file:
        attempt(lambda: svmutil.svm_save_model(file.name, svmutil.svm_train(y, X, "-q")))
        content = Path(file.name).read_bytes()

    def load(path):
        model = svmutil.svm_load_model(path)
        return None if model is None else svmutil.svm_predict(y, X, model, "-q")[0]

    return _survey("LIBSVM", content, load, n)


def _liblinear(n):
    try:
        from liblinear import liblinearutil
    except ImportError:
        return None
    X, y = _rows()
    with tempfile.NamedTemporaryFile() as file:
        attempt(lambda: liblinearutil.save_model(file.name, liblinearutil.train(y, X, "-q")))
        content = Path(file.name).read_bytes()

    def load(path):
        model = liblinearutil.load_model(path)
        return None if model is None else liblinearutil.predict(y, X, model, "-q")[0]

    return _survey("LIBLINEAR", content, load, n)


def _vw(n):
    try:
        import vowpalwabbit
    except ImportError:
        return None
    X, y = _rows()
    rows = [" ".join([f"{t} |"] + [f"{j}:{v}" for j, v in enumerate(r)])
            for r, t in zip(X, y, strict=True)]  # fmt: skip
    with tempfile.NamedTemporaryFile() as file:

        def train():
            workspace = vowpalwabbit.Workspace(f"--quiet --loss_function logistic -f {file.name}")
            for row in rows * 5:
                workspace.learn(row)
            workspace.finish()

        attempt(train)
        content = Path(file.name).read_bytes()

    def load(path):
        workspace = vowpalwabbit.Workspace(f"--quiet -t -i {path}")
        return [workspace.predict(row.split("|")[0] * 0 + "|" + row.split("|")[1]) > 0
                for row in rows]  # fmt: skip

    return _survey("VW", content, load, n)
