"""PiSTOL: rules, and the recursion in a linear space and in a feature space."""
