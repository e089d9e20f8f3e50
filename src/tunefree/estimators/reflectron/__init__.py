"""The Reflectron as scikit-learn has it."""
