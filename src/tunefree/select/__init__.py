"""Model selection: held-out predictions, progressive risk, successive halving, stacking, costs."""
