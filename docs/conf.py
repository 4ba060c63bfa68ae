"""The documentation's settings. Build it with `make docs`; nothing is fetched from elsewhere."""

from docutils.nodes import SkipNode
from docutils.utils.math import latex2mathml

import sodalite

project = "Sodalite"
author = "The Sodalite developers"
copyright = author
version = release = sodalite.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "evidence_runs.rst", "study_table.rst"]
templates_path = ["_templates"]
default_role = "py:obj"

autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # types and shapes stand in the text
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "within_subsection_order": "ExampleTitleSortKey",
    "matplotlib_animations": True,
    "remove_config_comments": True,
    "reference_url": {"sodalite": None},
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
}

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["front.css"]
html_title = f"Sodalite {release}"
html_math_renderer = "mathml"


def mathml(as_block):
    """Browsers show MathML by themselves, so the pages need no script from another host."""

    def visit(translator, node):
        formula = latex2mathml.tex2mathml(node.astext(), as_block=as_block)
        translator.body.append(f'<div class="formula">{formula}</div>' if as_block else formula)
        raise SkipNode

    return visit, None


def setup(app):
    app.add_html_math_renderer("mathml", mathml(as_block=False), mathml(as_block=True))
