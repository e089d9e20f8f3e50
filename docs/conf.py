"""Sphinx settings; the API pages are written from the package's own tables."""

import inspect
import os
import re
import sys
from importlib import import_module, resources
from operator import attrgetter
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
os.environ.setdefault("MPLBACKEND", "Agg")

from sklearn.base import BaseEstimator  # noqa: E402

import tunefree  # noqa: E402

project = "tunefree"
author = "The tunefree developers"
copyright = f"2026, {author}"
release = version = tunefree.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
autosummary_generate = True
autosummary_context = {"grouped": lambda module, name: _grouped(module, name)}
toc_object_entries_show_parents = "hide"
autodoc_default_options = {"members": True}  # of estimators in groups: see _templates
autodoc_typehints = "none"  # docstrings have more: shapes
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
exclude_patterns = ["_build", "figures/README*", "results"]
# Inherited docstrings of scikit-learn refer to its own pages.
suppress_warnings = ["config.cache", "ref.ref"]

# Formulas are rendered offline, by one of the files of the package.
_mathjax = resources.files("sphinx-mathjax-offline") / "static" / "mathjax" / "tex-svg.js"
html_static_path, mathjax_path = [str(_mathjax), "style.css", "breaks.js"], _mathjax.name
html_css_files, html_js_files = ["style.css"], ["breaks.js"]
html_theme = "pydata_sphinx_theme"
html_title = "tunefree"
html_context = {"default_mode": "auto"}
# Pages without subpages need no sidebar.
_SINGLE = """field glossary index installation performance reliability stable
start tour troubleshooting"""
html_sidebars = dict.fromkeys(_SINGLE.split(), [])
html_theme_options = {
    "navigation_with_keys": False,
    "header_links_before_dropdown": 7,
    "secondary_sidebar_items": ["page-toc"],  # no column for a link to the source
}
templates_path = ["_templates"]

sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["auto_examples"],
    "filename_pattern": r"plot_",
    "ignore_pattern": r"scale_",  # takes minutes, and has no picture
    "abort_on_example_error": True,
    "capture_repr": (),
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,
    "within_subsection_order": "FileNameSortKey",
}

# The public names by what they are for; every name is in one group.
GROUPS = {
    "Automatic model selection": [
        "TuneFreeClassifier", "TuneFreeRegressor", "TablePreprocessor", "DataWarning",
    ],
    "Linear models": [
        "PiSTOLClassifier", "PiSTOLRegressor", "RidgePathRegressor", "sgd_ridge_path",
    ],
    "Generalized linear models: counts, amounts, shares, quantiles": [
        "GLMRegressor", "GLMClassifier", "ReflectronRegressor", "ReflectronClassifier",
    ],
    "Boosted trees": ["BoostedTreesClassifier", "BoostedTreesRegressor"],
    "Kernel methods": [
        "KernelRidgeClassifier", "KernelRidgeRegressor", "KernelPiSTOLClassifier",
        "KernelPiSTOLRegressor",
    ],
    "Dynamical systems and flows": [
        "reflectron.DynamicsReflectron", "reflectron.SharedReflectron", "reflectron.flow",
    ],
    "Streams with drift": ["StreamClassifier", "StreamRegressor"],
    "Perceptrons: separation and margins": [
        "OptimisticPerceptron", "perceptron.ClassicalPerceptron",
        "perceptron.KernelOptimisticPerceptron",
    ],
    "Files, sources, checkpoints": [
        "save_model", "load_model", "describe_model", "open_source", "Checkpoint",
    ],
    "Plots": [f"plots.{n}" for n in tunefree.plots.__all__],
}  # fmt: skip

# Every part is in the table that ends its module; the pages follow the tables.
TABLES = {
    "parts.losses": "LOSSES",
    "parts.links": "LINKS",
    "parts.families": "FAMILIES",
    "reflectron.potentials": "POTENTIALS",
    "reflectron.constraints": "CONSTRAINTS",
    "parts.averaging": "AVERAGES",
    "kernels": "KERNELS",
}

# Methods and attributes of estimators by what they are for; the first group that matches has it.
SURE = r"(mean_)?interval\w*|set|set_one|venn_abers"
MEMBERS = {
    "Fit": r"fit|partial_fit|fit_source|fit_transform|learn_one|to_local",
    "Predict": rf"predict(_(?!({SURE})$)\w*)?|decision_function|transform|simulate|score",
    "Uncertainty": rf"predict_({SURE})|\w*(risk|error)\w*|excess",
    "Explain": r"explain|interactions|column_drift|drift_|\w*(importances|relevances)_"
    r"|(dual_)?coefs?(_names)?_|intercepts?_",
    "Statistics": r"summary|coef_interval|anova|compare_lr_test|influence|\w*residuals"
    r"|regret_bound",
    "More": r"\w+",
}
# scikit-learn's own, and the export's.
ROUTING = re.compile(r"set_\w+|get_params|get_metadata_routing|onnx\w*")


def _grouped(module, name):
    """{group: (kind of directive, name) of its members} of an estimator; of other classes {}."""
    made = getattr(import_module(module), name)
    if not issubclass(made, BaseEstimator):
        return {}
    groups = {title: [] for title in MEMBERS}
    for member in dir(made):
        value = inspect.getattr_static(made, member)
        kind = "property" if isinstance(value, property) else "method"
        told = kind == "property" or callable(getattr(made, member))
        if member.startswith("_") or not told or ROUTING.fullmatch(member):
            continue
        title = next(t for t, pattern in MEMBERS.items() if re.fullmatch(pattern, member))
        taken_back = title == "Fit" and kind == "property"  # it only raises, on clusters
        if inspect.getdoc(getattr(made, member)) and not taken_back:
            groups[title].append((kind, member))
    return {title: found for title, found in groups.items() if found}


def _public(module):
    """Names that a module defines itself, without a leading underscore."""
    for name, value in vars(module).items():
        own = getattr(value, "__module__", None) == module.__name__
        if own and not name.startswith("_") and (inspect.isclass(value) or callable(value)):
            yield name


def _bare(name, value):
    """Public names under `name` whose own docstring is missing, methods included."""
    # A named tuple without a docstring gets its signature as one; a class inherits none.
    text = value.__doc__ or ""
    if not text.strip() or (inspect.isclass(value) and text.startswith(f"{value.__name__}(")):
        yield name
    if inspect.isclass(value):
        for method, body in vars(value).items():
            ours = getattr(body, "__module__", "").startswith("tunefree")
            if inspect.isfunction(body) and ours and not method.startswith("_"):
                if not inspect.getdoc(getattr(value, method)):
                    yield f"{name}.{method}"


def _listed(names, module):
    lines = [f".. currentmodule:: {module}", "", ".. autosummary::", "   :toctree: generated"]
    return [*lines, "   :nosignatures:", "", *(f"   {name}" for name in names), ""]


def _page(title, names, module, text=""):
    return "\n".join([title, "=" * len(title), "", text, "", *_listed(names, module)])


def write_reference(app):
    """Write docs/api: one page per kind of part, from the public names and the tables of parts."""
    folder = HERE / "api"
    folder.mkdir(exist_ok=True)
    public = [n for n in tunefree.__all__ if not n.startswith("__")]
    public += [f"plots.{n}" for n in tunefree.plots.__all__]
    public += [n for n in sum(GROUPS.values(), []) if "." in n and not n.startswith("plots.")]
    bare = [b for n in public for b in _bare(n, attrgetter(n)(tunefree))]
    if sorted(sum(GROUPS.values(), [])) != sorted(public):
        raise RuntimeError(f"no group, or two: {set(sum(GROUPS.values(), [])) ^ set(public)}")
    pages = {}
    for name, table in TABLES.items():
        module = import_module(f"tunefree.{name}")
        parts = [v if inspect.isclass(v) else type(v) for v in vars(module)[table].values()]
        listed = list(dict.fromkeys(part.__name__ for part in parts))
        listed += [n for n in _public(module) if n not in listed]
        bare += [b for n in listed for b in _bare(f"{name}.{n}", vars(module)[n])]
        text = (module.__doc__ or "").split("\n\n")[0]
        pages[name] = _page(f"tunefree.{name}", listed, f"tunefree.{name}", text)
    for name in ("onnx", "bounds", "dask"):
        module = import_module(f"tunefree.{name}")
        listed = getattr(module, "__all__", None) or sorted(_public(module))
        bare += [b for n in listed for b in _bare(f"{name}.{n}", getattr(module, n))]
        text = (module.__doc__ or "").split("\n\n")[0]
        pages[name] = _page(f"tunefree.{name}", listed, f"tunefree.{name}", text)
    if bare:
        raise RuntimeError(f"public names without a docstring of their own: {', '.join(bare)}")
    toc = ["API reference", "=============", "", ".. toctree::", "   :hidden:", ""]
    toc += [f"   {name}" for name in ("cli", *pages)]
    toc += ["", "See also the :doc:`command line <cli>`.", ""]
    for title, names in GROUPS.items():
        toc += [title, "-" * len(title), "", *_listed(names, "tunefree")]
    toc += ["Parts and modules", "-----------------", "", ".. list-table::", "   :widths: 1 3", ""]
    for name in pages:
        first = (import_module(f"tunefree.{name}").__doc__ or "").split("\n")[0]
        toc += [f"   * - :doc:`tunefree.{name} <{name}>`", f"     - {first}"]
    files = {f"{name}.rst": text for name, text in pages.items()}
    for name, text in (files | {"index.rst": "\n".join([*toc, ""]), "cli.md": _commands()}).items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def _commands():
    """The command line's own help, as Markdown."""
    import typer
    from typer.cli import get_docs_for_click
    from typer.main import get_command

    from tunefree.cli import app

    command = get_command(app)
    text = get_docs_for_click(
        obj=command, ctx=typer.Context(command, info_name="tunefree"), name="tunefree"
    )
    text = re.sub(r"\*\*Commands\*\*:.*?(?=\n## )", "", text, flags=re.DOTALL)  # cut short
    return text.replace("# `tunefree`", "# Command line", 1)


def link_names(app, docname, source):
    """Link public names in the text of the pages: `TuneFreeClassifier`."""
    made = docname.startswith(("api/", "auto_examples/"))
    if made or not str(app.env.doc2path(docname)).endswith("md"):
        return
    names = "|".join(name for group in GROUPS.values() for name in group)
    parts = re.split(r"(^```.*?^```|^#.*?$)", source[0], flags=re.MULTILINE | re.DOTALL)
    link = re.compile(rf"(?<![\[`}}])`({names})`(?!`)")
    parts[::2] = [link.sub(r"{py:obj}`~tunefree.\1`", part) for part in parts[::2]]
    source[0] = "".join(parts)


def setup(app):
    """Write the reference before Sphinx looks for sources."""
    write_reference(app)
    app.connect("source-read", link_names)
