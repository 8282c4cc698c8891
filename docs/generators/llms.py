"""Write `llms.txt`, the list of pages for language models, from the landing page.

The format is that of https://llmstxt.org: a title, a summary in a quotation, then sections of links
with a note each.
"""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["llms_text", "write_llms"]

_NOTE = """Links lead to the sources of pages. The built documentation has every page in both forms:
`start.md` is the source of `start.html`."""


def llms_text(index: str) -> str:
    """The title, the summary and the lists of the landing page."""
    [title] = re.findall(r"^# .*$", index, re.M)
    [summary] = re.findall(r"^> .*$", index, re.M)
    pages = re.sub(r"^```{toctree}\n.*?^```$", "", index, flags=re.M | re.S)
    lists = pages[pages.index("\n## ") :].strip()
    return "\n\n".join((title, summary, _NOTE, lists)) + "\n"


def write_llms(folder: Path) -> None:
    """Write `llms.txt` beside the landing page."""
    text = llms_text((folder / "index.md").read_text(encoding="utf-8"))
    (folder / "llms.txt").write_text(text, encoding="utf-8")
