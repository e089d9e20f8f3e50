"""Rows and columns of data: units, levels, order, outliers."""
