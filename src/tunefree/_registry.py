"""Where each public estimator is defined; its module is imported at first use."""

from importlib import import_module

ESTIMATORS = {
    "BoostedTreesClassifier": "tunefree.estimators.trees",
    "BoostedTreesRegressor": "tunefree.estimators.trees",
    "RidgePathRegressor": "tunefree.estimators.ridge",
    "ClassicalPerceptron": "tunefree.estimators.perceptron",
    "GLMClassifier": "tunefree.estimators.reflectron.glm",
    "GLMRegressor": "tunefree.estimators.reflectron.glm",
    "DynamicsReflectron": "tunefree.estimators.reflectron.dynamics",
    "KernelOptimisticPerceptron": "tunefree.estimators.perceptron",
    "KernelPiSTOLClassifier": "tunefree.estimators.kernel.pistol",
    "KernelPiSTOLRegressor": "tunefree.estimators.kernel.pistol",
    "KernelRidgeClassifier": "tunefree.estimators.kernel.ridge",
    "KernelRidgeRegressor": "tunefree.estimators.kernel.ridge",
    "OptimisticPerceptron": "tunefree.estimators.perceptron",
    "PiSTOLClassifier": "tunefree.estimators.pistol",
    "PiSTOLRegressor": "tunefree.estimators.pistol",
    "ReflectronClassifier": "tunefree.estimators.reflectron.classifier",
    "ReflectronRegressor": "tunefree.estimators.reflectron.reflectron",
    "SharedReflectron": "tunefree.estimators.reflectron.shared",
    "StreamClassifier": "tunefree.estimators.stream",
    "StreamRegressor": "tunefree.estimators.stream",
    "TablePreprocessor": "tunefree.preprocessing",
    "TuneFreeClassifier": "tunefree.estimators.auto",
    "TuneFreeRegressor": "tunefree.estimators.auto",
}


def estimator_class(name):
    """The class of a public estimator.

    >>> estimator_class("PiSTOLClassifier").__module__
    'tunefree.estimators.pistol'
    """
    return getattr(import_module(ESTIMATORS[name]), name)


def is_public(cls):
    """Whether a class is a public estimator; imports nothing.

    >>> is_public(estimator_class("PiSTOLClassifier")), is_public(dict)
    (True, False)
    """
    return ESTIMATORS.get(cls.__name__) == cls.__module__


def estimator_classes():
    """Every public estimator: {name: class}."""
    return {name: estimator_class(name) for name in ESTIMATORS}
