"""Sphinx configuration: `make docs`."""

import shutil
import sys
from pathlib import Path

_HERE = Path(__file__).parent
sys.path.insert(0, str(_HERE))

from generators import write_llms, write_reference  # noqa: E402

from bestarm import __version__  # noqa: E402

write_reference(_HERE / "reference")
write_llms(_HERE)

project = "bestarm"
version = release = __version__
extensions = [
    "myst_nb",  # Markdown, and notebooks with the outputs they have
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
myst_heading_anchors = 3
exclude_patterns = ["_build", "**.ipynb_checkpoints"]
nb_execution_mode = "off"  # `make notebooks` executes them
smartquotes = False  # two hyphens of an option stay two hyphens
default_role = "code"  # docstrings write names between single backticks
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
napoleon_use_ivar = True
python_use_unqualified_type_names = True
maximum_signature_line_length = 90
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["notebooks.css"]
html_title = f"bestarm {release}"
html_show_copyright = False
html_extra_path = ["llms.txt"]


def _escape_bars(_app, _what, _name, _object, _options, lines):
    """Keep `|x|` in docstrings an absolute value: reStructuredText would substitute it."""
    for number, line in enumerate(lines):
        parts = line.split("`")
        parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
        lines[number] = "`".join(parts)


def _serve_sources(app, _error):
    """Put the source of every page beside its HTML, notebooks too: `llms.txt` links to it."""
    for name in app.env.found_docs:
        source = Path(app.env.doc2path(name))
        shutil.copy(source, Path(app.outdir) / f"{name}{source.suffix}")


def setup(app):
    """Connect the handlers above."""
    app.connect("autodoc-process-docstring", _escape_bars)
    app.connect("build-finished", _serve_sources)
