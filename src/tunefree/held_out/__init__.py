"""What held-out rows show: predictions, shrinkage, limits, progressive risk, scores of stacks."""
