"""Test error of three geometries against the number of columns."""

from tunefree.experiments.reflectron_samples import errors, ordering
from tunefree.experiments.sparse_glm import compute, error_cells, medians  # noqa: F401

PAPER = "Boffi, Tu and Slotine 2021, Figure 1c"
TITLE = "Test error against columns, n = 1000 rows, one column in a hundred matters"
NOTES = """
As for Figure 1b: five draws, the automatic step, p and beta chosen on 500 held-out rows (quick:
n = 200, two draws). The paper prints no numbers; its ordering is that errors grow with d and that
p-norm and hypentropy are below the GLM-tron.
"""


def cells(quick):
    """Columns by algorithm by draw."""
    if quick:
        return error_cells(True, [(d, 200) for d in (500, 1000)])
    return error_cells(False, [(d, 1000) for d in (1000, 2000, 5000, 10_000)])


def table(results):
    """Medians, and whether the order is the paper's."""
    return ordering(results, "d")


def draw(figure, results):
    """Medians with their range."""
    errors(figure.subplots(), medians(results, "d"), "columns d", TITLE)
