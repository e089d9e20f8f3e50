"""Torch arrays against NumPy arrays: the largest difference of predictions, and seconds of fits.

SCIPY_ARRAY_API=1 python benchmarks/arrays.py [--device cpu] [--rows 6000]

Above 8,000 rows kernel sums of NumPy rows are computed in single precision, with corrections in
double, and those of other arrays in double: --rows 12000 shows the difference. Torch is not a
dependency of the library: pip install torch --index-url https://download.pytorch.org/whl/cpu (or a
build for your GPU).
"""

import argparse
import time

import numpy as np
import torch
from sklearn import config_context

import tunefree
from _tables import table

CASES = (
    ("RidgePathRegressor", {}),
    ("ReflectronRegressor", {"link": "identity", "potential": "euclidean", "max_iter": 100}),
    ("ReflectronClassifier", {"max_iter": 100}),
    ("PiSTOLClassifier", {}),
    ("KernelRidgeRegressor", {"n_landmarks": 700}),
    ("KernelRidgeRegressor", {"n_landmarks": 700, "kernel": "laplacian"}),
    ("KernelRidgeClassifier", {"n_landmarks": 700}),
)


def seconds(function, *arguments):
    start = time.process_time()
    return function(*arguments), time.process_time() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rows", type=int, default=6000)
    options = parser.parse_args()
    rng, rows = np.random.default_rng(0), []
    A = rng.normal(size=(options.rows, 50))
    b = np.sin(2.0 * A[:, 0]) + A[:, 1] + 0.1 * rng.normal(size=len(A))
    for name, setting in CASES:
        classify = "Classifier" in name
        method = "decision_function" if classify else "predict"
        for dtype in (np.float64, np.float32):
            X, y = A.astype(dtype), (b > 0).astype(int) if classify else b.astype(dtype)
            make = getattr(tunefree, name)
            local, alone = seconds(make(random_state=0, **setting).fit, X, y)
            # Single precision of NumPy shows the size of a kernel's coefficients.
            expected = getattr(local, method)(X.astype(float))
            there = [torch.asarray(a, device=options.device) for a in (X, y)]
            with config_context(array_api_dispatch=True):
                model, spent = seconds(make(random_state=0, **setting).fit, *there)
                found = getattr(model, method)(there[0]).cpu().numpy()
            gap = np.abs(found - expected).max() / np.abs(expected).max()
            rows.append(
                (name, ", ".join(map(str, setting.values())), X.dtype.name, f"{alone:.1f}",
                 f"{spent:.1f}", f"{gap:.1e}")
            )  # fmt: skip
    print(f"\nTorch {torch.__version__} on {options.device}, {options.rows} rows x 50")
    head = "estimator", "setting", "type", "NumPy: CPU s", "torch: CPU s", "largest difference"
    table("Predictions of models fitted on torch arrays, relative to the largest", head, rows)


if __name__ == "__main__":
    main()
