"""Rows: matrices and designs, order, moments, scaling, units, levels, outliers, formulas."""
