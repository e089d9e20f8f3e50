"""Every public estimator gives the stored record's predictions and attributes: see `record.py`."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import record  # noqa: E402

from tunefree._registry import ESTIMATORS  # noqa: E402

STORED = json.loads(record.STORED.read_text())
HERE = record.environment()
# Where another processor or another NumPy adds in another order, only the stored numbers' size is
# compared, and a choice may fall on the other side of a tie: predictions alone then.
SAME = STORED.pop("environment") == HERE


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*record.SETTINGS, *record.BASELINES, "dask", "parts"])
def test_the_record_is_kept(name):
    found = record.record(name if name in ("dask", "parts") else f"{name}/")
    stored = {k: v for k, v in STORED.items() if k in found or k.startswith(f"{name}/")}
    assert stored and found
    if SAME:
        short = {k: {p: d[:3] for p, d in v.items()} for k, v in found.items()}
        assert list(record.differences(stored, short, 1e-10)) == []
    else:
        kept = [{k: {"predict": v["predict"]} for k, v in r.items() if "predict" in v
                 and len(v["predict"]) > 1} for r in (stored, found)]  # fmt: skip
        assert list(record.differences(*kept, 1e-2)) == []


def test_every_public_estimator_is_in_the_record():
    assert set(ESTIMATORS) == set(record.SETTINGS)
