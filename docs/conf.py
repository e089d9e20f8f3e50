"""Sphinx settings; the API pages are written from the package's own tables."""

import inspect
import os
import sys
from importlib import import_module, resources
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
os.environ.setdefault("MPLBACKEND", "Agg")

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
    "sphinx_gallery.gen_gallery",
]
myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3
autosummary_generate = True
toc_object_entries_show_parents = "hide"
autodoc_default_options = {"members": True, "inherited-members": False}
autodoc_typehints = "none"  # docstrings say more: shapes
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
exclude_patterns = ["_build", "figures/README*", "results"]
suppress_warnings = ["config.cache"]

# Formulas are drawn without a network, too, by one file of those that the package brings.
_mathjax = resources.files("sphinx-mathjax-offline") / "static" / "mathjax" / "tex-svg.js"
html_static_path, mathjax_path = [str(_mathjax), "style.css"], _mathjax.name
html_css_files = ["style.css"]
html_theme = "pydata_sphinx_theme"
html_title = "tunefree"
# Pages without pages below them have nothing to show in a sidebar.
html_sidebars = dict.fromkeys(
    ["index", "inside", "mathematics", "parts", "performance", "reliability", "reproduce", "scale",
     "selection", "start", "which"], []
)  # fmt: skip
html_theme_options = {
    "navigation_with_keys": False,
    "header_links_before_dropdown": 4,
    "secondary_sidebar_items": ["page-toc"],  # no column for a link to the source
}
templates_path = ["_templates"]

sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["auto_examples"],
    "filename_pattern": r"plot_",
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "show_memory": False,
}

# Every part is in the table that ends its module; the pages follow the tables.
TABLES = {
    "losses": "LOSSES",
    "links": "LINKS",
    "families": "FAMILIES",
    "potentials": "POTENTIALS",
    "constraints": "CONSTRAINTS",
    "averaging": "AVERAGES",
    "kernels": "KERNELS",
}


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


def _page(title, names, module, text=""):
    lines = [title, "=" * len(title), "", text, "", f".. currentmodule:: {module}", ""]
    lines += [".. autosummary::", "   :toctree: generated", "   :nosignatures:", ""]
    return "\n".join([*lines, *(f"   {name}" for name in names), ""])


def write_reference(app):
    """Write docs/api: one page a kind of thing, from the public names and the tables of parts."""
    folder = HERE / "api"
    folder.mkdir(exist_ok=True)
    public = [n for n in tunefree.__all__ if not n.startswith("__")]
    bare = [b for n in public for b in _bare(n, getattr(tunefree, n))]
    pages = {"estimators": _page("Estimators and functions", public, "tunefree")}
    for name, table in TABLES.items():
        module = import_module(f"tunefree.{name}")
        parts = [v if inspect.isclass(v) else type(v) for v in vars(module)[table].values()]
        listed = list(dict.fromkeys(part.__name__ for part in parts))
        listed += [n for n in _public(module) if n not in listed]
        bare += [b for n in listed for b in _bare(f"{name}.{n}", vars(module)[n])]
        text = (module.__doc__ or "").split("\n\n")[0]
        pages[name] = _page(f"tunefree.{name}", listed, f"tunefree.{name}", text)
    for name in ("bounds", "datasets", "dask"):
        module = import_module(f"tunefree.{name}")
        listed = getattr(module, "__all__", None) or sorted(_public(module))
        bare += [b for n in listed for b in _bare(f"{name}.{n}", getattr(module, n))]
        text = (module.__doc__ or "").split("\n\n")[0]
        pages[name] = _page(f"tunefree.{name}", listed, f"tunefree.{name}", text)
    if bare:
        raise RuntimeError(f"public names without a docstring of their own: {', '.join(bare)}")
    for name, text in pages.items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    toc = "API reference\n=============\n\n.. toctree::\n\n" + "".join(f"   {n}\n" for n in pages)
    index = folder / "index.rst"
    if not index.exists() or index.read_text() != toc:
        index.write_text(toc)


def setup(app):
    """Write the reference before Sphinx looks for sources."""
    write_reference(app)
