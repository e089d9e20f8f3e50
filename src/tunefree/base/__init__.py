"""What estimators share: checks, locks, progress, reading, targets, exposures, uncertainty."""
