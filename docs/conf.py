"""Sphinx configuration: `make docs`."""

from importlib.metadata import version as _version

project = "bestarm"
version = release = _version("bestarm")
extensions = ["myst_parser"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_theme = "alabaster"
html_theme_options = {
    "description": "The best of several options, while the baseline drifts",
    "page_width": "1000px",
}
