"""The documentation is complete and true: every name is in it, every link and block works."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import typer.core

import bestarm
from bestarm.cli.app import app

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
REFERENCE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
INTERNAL = {"__main__", "checks", "cli", "files"}
MODULES = sorted(
    {m.name for m in pkgutil.iter_modules(bestarm.__path__)} - INTERNAL | {"environments.baselines"}
)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=name_of)
def test_python_blocks_run_in_order(page: Path, tmp_path: Path) -> None:
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks(page)), encoding="utf-8")
    # A process of its own, as a reader would run it.
    result = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
        timeout=300,
        check=False,
        cwd=tmp_path,
    )
    assert result.returncode == 0, result.stderr


def test_the_readme_has_the_two_commands_and_a_short_example() -> None:
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    assert re.search(r"^    make demo\b", text, re.M)
    assert re.search(r"^    make test\b", text, re.M)
    example = [line for line in blocks(readme)[0].splitlines() if line.strip()]
    assert len(example) < 10
    assert all(
        name in "\n".join(example) for name in ("Problem(", "Experiment(", "AnytimeBAI(", "tell")
    )


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_relative_links_resolve(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        if "://" in link:
            continue
        goal = page.parent / path if path else page
        assert goal.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.*)$", goal.read_text(encoding="utf-8"), re.M)
            assert anchor in {_anchor(heading) for heading in headings}, link


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower().replace(".", "-")).replace(" ", "-")


def section(title: str) -> str:
    """The text under a heading of the reference, up to the next one of its rank."""
    rank = re.search(rf"^(#+) {re.escape(title)}$", REFERENCE, re.M)
    assert rank is not None, f"docs/reference.md has no heading {title}"
    rest = REFERENCE[rank.end() :]
    following = re.search(rf"^#{{1,{len(rank[1])}}} ", rest, re.M)
    return rest[: following.start()] if following else rest


def entry(module: str, name: str) -> tuple[str | None, str]:
    """What is between parentheses after a name in its list, and the whole entry."""
    for item in re.split(r"^- ", section(f"`{module}`"), flags=re.M)[1:]:
        head = re.match(rf"`{re.escape(name)}(?:\(([^)]*)\))?`", item)
        if head is not None:
            return head[1], item
    raise AssertionError(f"docs/reference.md does not document {module}.{name}")


def test_the_first_section_names_everything_public() -> None:
    named = set(re.findall(r"`(\w+)`", section("`bestarm`")))
    assert set(bestarm.__all__) <= named


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_documented_with_its_parameters(module: str) -> None:
    home = importlib.import_module(f"bestarm.{module}")
    for name in home.__all__:
        given, text = entry(f"bestarm.{module}", name)
        thing = getattr(home, name)
        if dataclasses.is_dataclass(thing):
            fields = {field.name for field in dataclasses.fields(thing) if field.init}
            missing = fields - set(re.findall(r"`(\w+)`", text))
            assert not missing, f"{name} in docs/reference.md lacks {missing}"
        elif given is not None or inspect.isfunction(thing):
            parameters = list(inspect.signature(thing).parameters)
            assert given is not None, f"{name} in docs/reference.md lacks its parameters"
            assert re.findall(r"\w+", given) == parameters, name


def commands(group: typer.core.TyperGroup, before: str) -> Iterator[tuple[str, Any]]:
    """Every command by its full name, those of groups within included."""
    for name, command in group.commands.items():
        if isinstance(command, typer.core.TyperGroup):
            yield from commands(command, f"{before} {name}")
        else:
            yield f"{before} {name}", command


def options_under(heading: str) -> list[str]:
    return re.findall(r"^- `(--[\w-]+)`", section(f"`{heading}`"), re.M)


def test_every_option_is_documented() -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    assert len(group.commands) > 5
    assert "`bestarm --version`" in section("Command line")
    for name, command in commands(group, "bestarm"):
        heading = re.search(rf"^### `({name}(?: .*)?)`$", REFERENCE, re.M)
        assert heading is not None, f"docs/reference.md has no heading for {name}"
        documented = options_under(heading[1])
        if name.startswith("bestarm experiment "):
            documented += options_under("bestarm experiment")  # what all of them take
        options = [o for p in command.params for o in p.opts if o.startswith("--")]
        assert sorted(documented) == sorted(options), name


def test_no_page_is_forgotten() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    listed = re.search(r"^```{toctree}\n(.*?)^```$", index, re.M | re.S)
    assert listed is not None
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")} - {"index"}
    assert pages <= set(listed[1].split())


def test_the_picture_is_small() -> None:
    assert (ROOT / "docs" / "phases.png").stat().st_size < 150_000
