"""Sphinx configuration: `make docs`."""

import sys
from importlib.metadata import version as _version
from pathlib import Path

_HERE = Path(__file__).parent
sys.path.insert(0, str(_HERE))

from generators import write_reference  # noqa: E402

write_reference(_HERE / "reference")

project = "bestarm"
version = release = _version("bestarm")
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
smartquotes = False  # two hyphens of an option stay two hyphens
default_role = "code"  # docstrings write names between single backticks
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
napoleon_use_ivar = True
python_use_unqualified_type_names = True
maximum_signature_line_length = 90
html_theme = "furo"
html_title = f"bestarm {release}"


def _escape_bars(_app, _what, _name, _object, _options, lines):
    """Keep `|x|` in docstrings an absolute value: reStructuredText would substitute it."""
    for number, line in enumerate(lines):
        parts = line.split("`")
        parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
        lines[number] = "`".join(parts)


def setup(app):
    """Connect the handler above."""
    app.connect("autodoc-process-docstring", _escape_bars)
