"""Write the reference pages from the code: modules, commands, routes and policies."""

from __future__ import annotations

from pathlib import Path

from generators.commands import command_page
from generators.llms import write_llms
from generators.modules import module_pages
from generators.policies import policy_page
from generators.routes import route_page

__all__ = ["reference_pages", "write_llms", "write_reference"]


def reference_pages() -> dict[str, str]:
    """The Markdown of every generated page, by its file name."""
    return {
        "commands.md": command_page(),
        "http-api.md": route_page(),
        "policies.md": policy_page(),
        **module_pages(),
    }


def write_reference(folder: Path) -> None:
    """Write the pages into a folder. A page that has not changed keeps its file."""
    folder.mkdir(exist_ok=True)
    pages = reference_pages()
    for old in folder.glob("*.md"):
        if old.name not in pages:
            old.unlink()
    for name, text in pages.items():
        page = folder / name
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")
