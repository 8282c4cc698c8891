"""Write `llms.txt`, the list of pages for language models, from the tables of contents.

The format is that of https://llmstxt.org: a title, a summary in a quotation, then sections of
links.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

__all__ = ["llms_text", "write_llms"]

_NOTE = """Links lead to the sources of pages. The built documentation has every page in both forms:
`start.md` is the source of `start.html`."""


def llms_text(folder: Path) -> str:
    """The title and the summary of the landing page, and links to all pages under its captions."""
    index = (folder / "index.md").read_text(encoding="utf-8")
    [title] = re.findall(r"^# .*$", index, re.M)
    [summary] = re.findall(r"^> .*$", index, re.M)
    sections = re.findall(
        r"^```{toctree}\n:caption: (.*?)\n:hidden:\n\n(.*?)^```$", index, re.M | re.S
    )
    lists = [
        "\n".join([f"## {caption}", "", *(_link(folder, name) for name in names.split())])
        for caption, names in sections
    ]
    return "\n\n".join((title, summary, _NOTE, *lists)) + "\n"


def _link(folder: Path, name: str) -> str:
    page = folder / f"{name}.md"
    if page.exists():
        text = page.read_text(encoding="utf-8")
    else:
        page = page.with_suffix(".ipynb")
        cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
        text = "".join(cells[0]["source"])
    [heading, *_] = re.findall(r"^# (.*)$", text, re.M)
    return f"- [{heading}]({name}{page.suffix})"


def write_llms(folder: Path) -> None:
    """Write `llms.txt` beside the landing page."""
    (folder / "llms.txt").write_text(llms_text(folder), encoding="utf-8")
