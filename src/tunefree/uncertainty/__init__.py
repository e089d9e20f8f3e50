"""How sure: intervals, sets, probabilities, risks and coefficients, from rows already left out."""
