"""Choosing on evidence: progressive risk, portfolios, successive halving, blends."""
