"""Estimators with the interface of scikit-learn, each made of parts and a learner."""
