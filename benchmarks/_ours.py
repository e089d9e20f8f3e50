"""Our estimators in the benchmark: warm-up with compilation, fits, candidates, raw speed."""

import numpy as np
import scipy.sparse as sp

from _peers import VowpalWabbit, error_row, timed


def classifier(**options):
    from tunefree import PiSTOLClassifier

    return PiSTOLClassifier(random_state=0, **options)


def regressor(**options):
    from tunefree import PiSTOLRegressor

    return PiSTOLRegressor(random_state=0, **options)


def warm_up():
    """Compile (or load from the cache) the kernels of the tables; return the CPU seconds."""

    def fits():
        rng = np.random.default_rng(0)
        X = rng.normal(size=(200, 40))
        sparse = sp.csr_matrix(X * (rng.random(X.shape) < 0.1))
        # Rows with mostly zeros are learned as sparse rows; an outlier takes another path.
        outlier = sparse.toarray()
        outlier[0, 0] = 1e9
        for y in (X[:, 0] > 0, np.digitize(X[:, 0], [-0.5, 0.5])):
            for form in (X, sparse, outlier):
                classifier().fit(form, y)
            classifier().partial_fit(X, y, classes=np.unique(y))
        for options in ({}, {"loss": "absolute_error"}, {"shuffle": False}):
            regressor(**options).fit(X, X[:, 0])

    return timed(fits, repeats=1)[1]


def classification(data):
    """Return the row of our default and [(member, progressive error, test error), ...]."""
    model = classifier()
    row = error_row(model, data)
    return row, [
        (member["name"], member["progressive_error"], alone(member["name"], data))
        for member in model.leaderboard_
    ]


def alone(name, data):
    """Test error of one candidate of the portfolio that makes all passes alone."""
    from tunefree import PiSTOLClassifier

    class Member(PiSTOLClassifier):
        def _start(self, problem, members, *settings):
            one = tuple(member for member in members if member.name == name)
            return super()._start(problem, one, *settings)

    model = Member(random_state=0).fit(data.X_train, data.y_train)
    return float(np.mean(model.predict(data.X_test) != data.y_test))


def throughput_rows(data):
    """Yield (what, million non-zeros a second from scratch, the same for one pass more).

    "From scratch" counts building the empty model as well; "one pass more" is a quarter of the
    difference between five passes and one. Rows in the given order, one output, no intercept.
    """
    from tunefree.parts.losses import Logistic, SmoothedHinge
    from tunefree.pistol.linear import Diagonal, Isotropic
    from tunefree.rows.designs import CSR

    X = data.X_train
    targets = np.where(data.y_train == data.y_train.max(), 1.0, -1.0)[:, None]
    weights, design, tail = np.ones(len(targets)), CSR.from_scipy(X), CSR.from_scipy(X[:50])

    def passes(learner, count):
        state = learner.init(X.shape[1], 1)
        for _ in range(count):
            learner.scan(state, design, targets, weights)

    def product(count):
        theta = np.ones(X.shape[1])
        for _ in range(count):
            X @ theta

    def speeds(call):
        one, five = (timed(lambda c=c: call(c))[1] for c in (1, 5))
        return X.nnz / one / 1e6, 4 * X.nnz / (five - one) / 1e6

    yield "SciPy CSR X @ w", *speeds(product)
    learners = {
        "global, smoothed hinge": Isotropic(loss=SmoothedHinge()),
        "per coordinate, smoothed hinge": Diagonal(loss=SmoothedHinge()),
        "per coordinate, logistic": Diagonal(loss=Logistic()),
    }
    for name, learner in learners.items():
        learner.scan(learner.init(X.shape[1], 1), tail, targets[:50], weights[:50])
        yield name, *speeds(lambda count, learner=learner: passes(learner, count))
    rows = dict(VowpalWabbit(data, methods=("pistol",)).rows())
    if not rows:
        return
    one, five = rows["vw pistol"]["cpu"], rows["vw pistol x5"]["cpu"]
    yield "vw --pistol, logistic", X.nnz / one / 1e6, 4 * X.nnz / (five - one) / 1e6
