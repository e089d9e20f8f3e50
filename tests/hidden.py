"""Settings of mirror descent that are no parameters of the class under test."""


def with_settings(cls, **settings):
    """An estimator with parameters, and with settings such as folds and patience."""
    estimator = cls()
    vars(estimator).update(settings)
    return estimator
