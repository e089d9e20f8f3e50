"""TuneFreeClassifier and TuneFreeRegressor: learners of learners."""
