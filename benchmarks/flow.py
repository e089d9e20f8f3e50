"""The flow: integrators compared on the data of the 2020 paper, and the shape of the solutions.

    python benchmarks/flow.py [--data DIR] [--only synthetic,shares,digits]

DIR holds MNIST's training images and labels as IDX files. Times are those of the paper: its
potential ||.||_q^2 has no 1/2 and its rate is 1 / (q - 1), so that its T is our T / (2 (q - 1)),
and for ||.||_q^q our T / (q - 1). The paper states neither its horizon nor the size of the start of
its natural flow.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from papers.datasets import load_mnist_sample, make_cosine_glm
from papers.stiff import SOLVERS, implicit
from tunefree.parts.links import Logit
from tunefree.reflectron import flow
from tunefree.reflectron.flow_integrators import Flow, Sample
from tunefree.reflectron.potentials import PNorm, Power
from tunefree.rows.designs import Dense

ALL = ("DOP853", "LSODA", "RK45", "BDF", "Radau")
Q = 1.1


def agreement(title, horizon, X, y, X_val, y_val, blocks=False, **options):
    """Follow one flow by five integrators and print how far their risks are apart.

    With `blocks` the implicit ones use the structure of the Jacobian.
    """
    field = Flow(
        Sample(Dense(X), y, np.ones(len(X))), Logit(), options["potential"],
        natural=options.get("natural", False),
    )  # fmt: skip
    times = np.linspace(0.0, horizon, 41)
    print(f"\n{title}")
    risks, paths = [], []
    for method in ALL:
        start = time.process_time()
        path = flow(
            X, y, horizon=horizon, X_val=X_val, y_val=y_val,
            method=implicit(SOLVERS[method], field) if blocks and method in SOLVERS else method,
            **options,
        )  # fmt: skip
        seconds = time.process_time() - start
        risks.append([path.risk_at(times), path.risk_at(times, held=True)])
        paths.append(path)
        apart = np.abs(np.subtract(risks[-1], risks[0])).max(axis=1)
        print(f"  {method:<7} {path.n_evaluations:6d} evaluations  from {ALL[0]}: train "
              f"{apart[0]:.1e}, test {apart[1]:.1e}  ({seconds:.1f} s)", flush=True)  # fmt: skip
    spread = np.ptp(risks, axis=0).max(axis=1)
    print(
        f"  all five: train {spread[0]:.1e} (target 2e-6), test {spread[1]:.1e} "
        f"(target 2e-5); risks at the end {risks[0][0][-1]:.4f}, {risks[0][1][-1]:.4f}"
    )
    return paths[0]


def synthetic(_):
    """Figure 4B, and the same for the natural gradient."""
    for seed in range(3):
        X, X_val, y, y_val, _ = make_cosine_glm(random_state=seed)
        data = (X, y, X_val, y_val)
        agreement(f"B.3, seed {seed}: ||.||_1.1^2, mirror flow, T = 100", 500.0, *data,
                  potential=PNorm(Q))  # fmt: skip
    agreement("B.3, seed 2: ||.||_1.1^1.1, natural-gradient flow, T = 1", 10.0, *data,
              potential=Power(Q), natural=True, random_state=0)  # fmt: skip


def digits_of(folder):
    """The sample, targets one-hot."""
    X, X_val, y, y_val = load_mnist_sample(
        Path(folder, "mnist-train-images-idx3-ubyte.gz"),
        Path(folder, "mnist-train-labels-idx1-ubyte.gz"),
        random_state=0,
    )
    return X, np.eye(10)[y], X_val, np.eye(10)[y_val]


def shares(folder):
    """Figures 2 and 3C: the share of parameters below 1e-3, and that of the paper."""
    X, y, X_val, y_val = digits_of(folder)
    print("\nMNIST 5000 / 10000: share of |theta| < 1e-3 (paper), test accuracy")
    # In the order of the paper's shares; (potential, natural, time per T, Ts, the paper's share)
    cases = (
        ("q = 1.1, mirror", PNorm(Q), False, 5.0, (100.0, 200.0), 73.51),
        ("natural gradient, start 1e-3", Power(Q), True, 10.0, (2.0, 5.0), 54.11),
        ("q = 2 (GLM-tron)", PNorm(2.0), False, 0.5, (5.0, 100.0), 12.27),
    )
    for name, potential, natural, scale, ends, paper in cases:
        start = time.process_time()
        options = {"atol": 1e-9} if natural else {}
        path = flow(X, y, potential=potential, natural=natural, horizon=scale * ends[-1],
                    random_state=0, **options)  # fmt: skip
        for end in ends:
            theta, _ = path.at(scale * end)
            share = 100.0 * np.mean(np.abs(theta) < 1e-3)
            accuracy = np.mean((X_val @ theta.T).argmax(axis=1) == y_val.argmax(axis=1))
            print(f"  {name:<29} T = {end:5.0f}: {share:5.2f} % (paper {paper} %), accuracy "
                  f"{accuracy:.3f}")  # fmt: skip
        print(f"    {path.n_evaluations} evaluations, {time.process_time() - start:.0f} s",
              flush=True)  # fmt: skip


def digits(folder):
    """Panels 1C and 3D."""
    data = digits_of(folder)
    agreement("MNIST (1C): ||.||_1.1^2, mirror flow, T = 20", 100.0, *data,
              blocks=True, potential=PNorm(Q))  # fmt: skip
    agreement("MNIST (3D): ||.||_1.1^1.1, natural-gradient flow, T = 0.2", 2.0, *data,
              blocks=True, potential=Power(Q), natural=True, random_state=0)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="../shared/data", help="folder with MNIST's files")
    parser.add_argument("--only", default="synthetic,shares,digits")
    options = parser.parse_args()
    for name in options.only.split(","):
        {"synthetic": synthetic, "shares": shares, "digits": digits}[name](options.data)


if __name__ == "__main__":
    main()
