"""How the documentation is built:

`make docs`. Nothing is loaded from the network, neither here nor by the pages.
"""

from __future__ import annotations

import sys
from pathlib import Path

from hedgerow.version import __version__

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

project = "Hedgerow"
author = "The Hedgerow authors"
copyright = "the Hedgerow authors, Apache-2.0"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sources",
    "mathml",
    "chooser",
    "docstrings",
    "boxes",
]
exclude_patterns = ["_build", "_ext", "_static", "README.md", "made/notebooks"]
nitpicky = True
nitpick_ignore_regex = [(r"py:.*", r".*")]  # types of other libraries are documented elsewhere

myst_enable_extensions = ["dollarmath", "deflist", "colon_fence", "attrs_block"]
myst_heading_anchors = 4
myst_update_mathjax = False
html_math_renderer = "mathml"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = ["Guarantee"]
default_role = "code"
python_use_unqualified_type_names = True
add_module_names = False

html_theme = "furo"
html_title = f"Hedgerow {__version__}"
html_static_path = ["_static"]
html_css_files = ["hedgerow.css"]
html_js_files = [("copy.js", {"defer": "defer"})]
html_show_sourcelink = False
html_copy_source = False
templates_path = []
pygments_style = "friendly"
pygments_dark_style = "monokai"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b6e4f", "color-brand-content": "#0b6e4f"},
    "dark_css_variables": {"color-brand-primary": "#6fcfae", "color-brand-content": "#6fcfae"},
    "footer_icons": [],
}
