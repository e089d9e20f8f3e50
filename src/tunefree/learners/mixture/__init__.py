"""Mixtures over implicit learners for streams that drift."""
