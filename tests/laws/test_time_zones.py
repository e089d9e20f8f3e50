"""Dates in another zone than in the fit are named, in whatever container and as text."""

import warnings
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from test_same_table import made

from tunefree import DataWarning
from tunefree.rows.columns import are_other_zones

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

N = 60
RNG = np.random.default_rng(0)
ROME = ZoneInfo("Europe/Rome")
INSTANTS = [
    datetime(2023, 10, 1, tzinfo=UTC) + timedelta(hours=int(h)) for h in RNG.integers(0, 1500, N)
]
Y = np.array([moment.astimezone(ROME).hour for moment in INSTANTS]) + 0.1 * RNG.normal(size=N)


def _typed(times, zone):
    return pa.array(times, pa.timestamp("us", zone))


CONTAINERS = {
    "pandas": lambda times, zone: pd.DataFrame({"t": pd.to_datetime(times)}),
    "objects": lambda times, zone: pd.DataFrame({"t": pd.Series(times, dtype=object)}),
    "Arrow in pandas": lambda times, zone: pd.DataFrame(
        {"t": pd.Series(_typed(times, zone), dtype=pd.ArrowDtype(pa.timestamp("us", zone)))}
    ),
    "polars": lambda times, zone: pl.from_arrow(pa.table({"t": _typed(times, zone)})),
    "Arrow": lambda times, zone: pa.table({"t": _typed(times, zone)}),
    "dicts": lambda times, zone: [{"t": time} for time in times],
    "text": lambda times, zone: pd.DataFrame({"t": [time.isoformat() for time in times]}),
    "text with a blank": lambda times, zone: pa.table({"t": [str(time) for time in times]}),
}
ZONES = {"UTC": UTC, "Europe/Rome": ROME, "Asia/Tokyo": ZoneInfo("Asia/Tokyo")}


def tables(name):
    """The same instants in a zone, in every container."""
    times = [moment.astimezone(ZONES[name]) for moment in INSTANTS]
    return {kind: make(times, name) for kind, make in CONTAINERS.items()}


def zones_named(model, table):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.predict(table)
    found = [w for w in caught if "Dates in another time zone: column 't'" in str(w.message)]
    assert all(w.category is DataWarning for w in found)
    return len(found)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("name", ["BoostedTreesRegressor", "TuneFreeRegressor"])
def test_dates_in_another_zone_are_named(name, zone):
    kinds = RNG.choice([*CONTAINERS], 3, replace=False)
    for kind in kinds:
        model = made(name).fit(tables(zone)[kind], Y)
        for other in ZONES:
            for new, table in tables(other).items():
                assert zones_named(model, table) == (other != zone), (kind, other, new)


@pytest.mark.filterwarnings("ignore")
def test_dates_without_a_zone_are_in_any():
    model = made("BoostedTreesRegressor").fit(tables("Europe/Rome")["pandas"], Y)
    local = [moment.astimezone(ROME).replace(tzinfo=None) for moment in INSTANTS]
    expected = model.predict(tables("Europe/Rome")["text"])
    for times in (local, [str(time) for time in local]):
        new = pd.DataFrame({"t": times})
        assert not zones_named(model, new)
        np.testing.assert_array_equal(model.predict(new), expected)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["objects", "dicts", "text"])
def test_all_rows_decide_on_the_zones(kind):
    """A few offsets among others, at whatever place."""
    times = [moment.astimezone(UTC) for moment in INSTANTS]
    model = made("BoostedTreesRegressor").fit(tables("UTC")["pandas"], Y)
    times[41] = times[41].astimezone(timezone(timedelta(hours=-5)))
    assert zones_named(model, CONTAINERS[kind](times, None)) == 1


def test_zones_have_several_names():
    for one in ("Z", "UTC", "+00:00", "+0000", "Etc/UTC", "GMT"):
        for other in ("Z", "UTC", "-00:00", "+00"):
            assert not are_other_zones(one, other)
        assert are_other_zones(one, "+01:00") and are_other_zones("Europe/Rome", one)
    assert not are_other_zones("+01:00[Europe/Rome]", "Europe/Rome")
    assert not are_other_zones("UTC+02:00", "+0200")
