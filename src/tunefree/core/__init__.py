"""What all stands on: compiled kernels, threads, tables of parts, parameters, warnings."""
