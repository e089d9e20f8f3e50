"""Where each public estimator is defined; its module is imported at first use."""

from importlib import import_module

ESTIMATORS = {
    "BoostedTreesClassifier": "tunefree.trees.classifier",
    "BoostedTreesRegressor": "tunefree.trees.regressor",
    "RidgePathRegressor": "tunefree.ridge_path.estimators",
    "ClassicalPerceptron": "tunefree.perceptron.estimators",
    "GLMClassifier": "tunefree.reflectron.glm.classifier",
    "GLMRegressor": "tunefree.reflectron.glm.regressor",
    "DynamicsReflectron": "tunefree.reflectron.dynamics",
    "KernelOptimisticPerceptron": "tunefree.perceptron.estimators",
    "KernelPiSTOLClassifier": "tunefree.pistol.kernel_classifier",
    "KernelPiSTOLRegressor": "tunefree.pistol.kernel_regressor",
    "KernelRidgeClassifier": "tunefree.kernel_ridge.estimators",
    "KernelRidgeRegressor": "tunefree.kernel_ridge.estimators",
    "OptimisticPerceptron": "tunefree.perceptron.estimators",
    "PiSTOLClassifier": "tunefree.pistol.classifier",
    "PiSTOLRegressor": "tunefree.pistol.regressor",
    "ReflectronClassifier": "tunefree.reflectron.classifier",
    "ReflectronRegressor": "tunefree.reflectron.reflectron",
    "SharedReflectron": "tunefree.reflectron.shared",
    "StreamClassifier": "tunefree.streams.classifier",
    "StreamRegressor": "tunefree.streams.regressor",
    "TablePreprocessor": "tunefree.rows.preprocessing",
    "TuneFreeClassifier": "tunefree.stack.classifier",
    "TuneFreeRegressor": "tunefree.stack.regressor",
}


def estimator_class(name):
    """The class of a public estimator.

    >>> estimator_class("PiSTOLClassifier").__module__
    'tunefree.pistol.classifier'
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


def lazy_names(package, others=()):
    """What gives a folder its public names at first use: `__getattr__`, `__dir__` and `__all__`.

    The names are those of the public estimators that `package` defines, and of `others`, a table
    {name: module}.

    >>> _, _, names = lazy_names("tunefree.perceptron")
    >>> names
    ['ClassicalPerceptron', 'KernelOptimisticPerceptron', 'OptimisticPerceptron']
    """
    homes = {name: home for name, home in ESTIMATORS.items() if home.startswith(f"{package}.")}
    homes |= dict(others)
    names = sorted(homes)

    def get(name: str):
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return get, lambda: names, names
