"""Linear PiSTOL as scikit-learn has it."""
