"""The built documentation shows what people look for. Skipped where it has not been built."""

import html
import re
from pathlib import Path

import pytest

BUILT = Path(__file__).parents[2] / "docs/_build/html/api/generated"
NAMES = """TuneFreeClassifier.fit TuneFreeClassifier.predict_proba TuneFreeClassifier.predict_set
TuneFreeClassifier.predict_venn_abers TuneFreeClassifier.explain TuneFreeClassifier.interactions
TuneFreeClassifier.column_drift TuneFreeRegressor.predict_interval TuneFreeRegressor.fit_source
TuneFreeRegressor.feature_importances_ TuneFreeRegressor.coef_ GLMRegressor.summary
GLMRegressor.coef_interval GLMRegressor.anova GLMRegressor.residuals GLMRegressor.influence
GLMClassifier.compare_lr_test GLMClassifier.predict_proba BoostedTreesRegressor.explain
StreamClassifier.learn_one StreamClassifier.predict_one StreamRegressor.predict_interval
PiSTOLClassifier.partial_fit KernelRidgeRegressor.score""".split()
GROUPS = ("Fit", "Predict", "Uncertainty", "Explain", "Statistics", "More")


def _page(name):
    path = BUILT / f"tunefree.{name}.html"
    if not path.exists():
        pytest.skip(f"the documentation is not built: no {path.name}")
    return path.read_text(encoding="utf-8")


def _signatures(page):
    """The text of every signature, in one line each."""
    for signature in re.findall(r'<dt class="sig[^>]*>(.*?)</dt>', page, re.DOTALL):
        yield " ".join(html.unescape(re.sub("<[^>]+>", "", signature)).split())


@pytest.mark.parametrize("name", NAMES)
def test_a_method_is_on_the_page_of_its_class(name):
    page = _page(name.partition(".")[0])
    assert f'id="tunefree.{name}"' in page
    assert f'href="#tunefree.{name}"' in page


@pytest.mark.parametrize("name", sorted({name.partition(".")[0] for name in NAMES}))
def test_signatures_are_short_and_methods_are_grouped(name):
    page = _page(name)
    signatures = list(_signatures(page))
    assert signatures
    assert [s for s in signatures if "Union[" in s or "_typing" in s or len(s) > 600] == []
    headings = re.findall(r"<h2>(.*?)<", page)
    assert headings == [group for group in GROUPS if group in headings]
    assert headings[:2] == ["Fit", "Predict"]
