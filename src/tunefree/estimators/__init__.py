"""The scikit-learn face: estimators, each made of parts and a learner."""
