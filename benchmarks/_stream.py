"""A stream in time order, prequentially: every block of 100 rows is predicted, then learned.

The data drift and labels repeat, so "the same as the last label" is a hard baseline if each label
is known before the next row ("each row"); with labels after each block it is a weak one.
"""

import numpy as np
from sklearn.linear_model import SGDClassifier
from sklearn.preprocessing import StandardScaler

from _peers import lines, timed, vowpalwabbit

BLOCK = 100


def rows(data, ours):
    """Yield (method, row) for ``ours``, an unfitted estimator, and its peers."""
    yield "tunefree", prequential(Incremental(ours), data)
    yield "SGD raw", prequential(Incremental(SGDClassifier(random_state=0)), data)
    running = Incremental(SGDClassifier(random_state=0), StandardScaler())
    yield "SGD", prequential(running, data)
    for method in ("pistol", "coin") if vowpalwabbit else ():
        yield f"vw {method}", prequential(Wabbit(method), data)
    yield "last label", prequential(LastLabel(), data)
    y = data.y_train
    yield "last label, each row", {"error": float(np.mean(y[BLOCK:] != y[BLOCK - 1 : -1]))}


def prequential(model, data):
    X, y = data.X_train, data.y_train
    classes = np.unique(y)

    def walk():
        wrong = 0
        model.start(X, y, classes)
        for start in range(0, len(y), BLOCK):
            block = slice(start, start + BLOCK)
            if start:
                wrong += np.count_nonzero(model.predict(block) != y[block])
            model.learn(block)
        return float(wrong / (len(y) - BLOCK))

    wrong, cpu = timed(walk, repeats=1)
    return {"error": wrong, "cpu": cpu}


class Incremental:
    """A scikit-learn estimator through ``partial_fit``, after a running scaler if given."""

    def __init__(self, model, scaler=None):
        self.model, self.scaler = model, scaler

    def start(self, X, y, classes):
        self.X, self.y, self.classes = X, y, classes

    def scaled(self, block):
        return self.X[block] if self.scaler is None else self.scaler.transform(self.X[block])

    def predict(self, block):
        return self.model.predict(self.scaled(block))

    def learn(self, block):
        if self.scaler is not None:
            self.scaler.partial_fit(self.X[block])
        self.model.partial_fit(self.scaled(block), self.y[block], classes=self.classes)


class LastLabel:
    """Repeats the last label of the previous block."""

    def start(self, X, y, classes):
        self.y = y

    def predict(self, block):
        return self.y[block.start - 1]

    def learn(self, block):
        pass


class Wabbit:
    """Vowpal Wabbit, one example at a time through its binding (most of its CPU is the calls)."""

    def __init__(self, method):
        self.method = method

    def start(self, X, y, classes):
        options = ["--quiet", f"--{self.method}", "--loss_function", "logistic"]
        self.workspace = vowpalwabbit.Workspace(arg_list=options)
        self.classes = classes
        self.lines = list(lines(X, 2 * (y == classes[1]) - 1))

    def predict(self, block):
        unlabelled = (line[line.index("|") :] for line in self.lines[block])
        scores = np.array([self.workspace.predict(line) for line in unlabelled])
        return self.classes[(scores > 0).astype(int)]

    def learn(self, block):
        for line in self.lines[block]:
            self.workspace.learn(line)
