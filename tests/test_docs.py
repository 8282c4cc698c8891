"""The documentation is complete and true: every name is in it, every link and block works."""

from __future__ import annotations

import importlib
import inspect
import io
import json
import os
import pkgutil
import re
import runpy
import shlex
import sys
import tomllib
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from commands import run
from generators import reference_pages
from generators.commands import commands
from generators.llms import llms_text
from generators.measured import Measured, tables_of, version_of_rule
from generators.modules import public_modules
from generators.routes import description, roles
from workers_started import processes

import bestarm
from bestarm.policies import anytime

ROOT = Path(__file__).parent.parent
INSTALLED_BY = cache(packages_distributions)  # it reads every file list there is
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=name_of)
def test_python_blocks_run_in_order_and_print_what_the_page_says(
    page: Path, tmp_path: Path
) -> None:
    script = tmp_path / "page.py"
    script.write_text(script_of(page), encoding="utf-8")
    shown = tmp_path / "shown"
    run_in_a_process(run_script, script, shown=shown)
    assert outputs_that_differ(page, shown.read_text(encoding="utf-8")) == []


def script_of(page: Path) -> str:
    """The blocks of a page, with a mark in the output after each."""
    return "".join(f"{block}\nprint({mark(i)!r})\n" for i, block in enumerate(blocks(page)))


def mark(block: int) -> str:
    return f"@@ end of block {block} @@"


def outputs_that_differ(page: Path, shown: str) -> list[str]:
    """What blocks print, where a block of output that follows on the page says otherwise."""
    found = []
    text = page.read_text(encoding="utf-8")
    fences = re.finditer(r"^```python\n.*?^```\n(?:\n```output\n(.*?)^```$)?", text, re.M | re.S)
    for i, fence in enumerate(fences):
        printed, _, shown = shown.partition(mark(i) + "\n")
        if fence[1] is not None and printed.rstrip() != fence[1].rstrip():
            found.append(printed)
    return found


def test_an_output_that_was_changed_by_hand_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    shown = f"3\n{mark(0)}\n4\n{mark(1)}\n"
    for number, differing in ((4, []), (5, ["4\n"])):
        page.write_text(
            "```python\nprint(3)\n```\n\ntext\n\n"
            f"```python\nprint(4)\n```\n\n```output\n{number}\n```\n",
            encoding="utf-8",
        )
        assert outputs_that_differ(page, shown) == differing


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_measured_tables_are_as_they_were_measured_and_of_today(page: Path) -> None:
    tables = tables_of(page.read_text(encoding="utf-8"))
    assert [problem for table in tables for problem in table.problems()] == []
    for table in tables:
        program = re.match(r"python -m benchmarks\.(\w+)|bestarm (\w+)", table.command)
        assert program, table.command
        assert not program[1] or (ROOT / "benchmarks" / f"{program[1]}.py").exists(), table.command


def test_a_table_that_was_changed_by_hand_is_found() -> None:
    table = Measured("python -m benchmarks.field", "| 1 |\n", version_of_rule(), "48ca792a")
    page = f"before\n{table}\nafter"
    (found,) = tables_of(page)
    assert found.problems() == []
    (changed,) = tables_of(page.replace("| 1 |", "| 2 |"))
    assert "not as it was measured" in changed.problems()[0]
    (earlier,) = tables_of(str(replace(table, rule="7")))
    assert "version 7" in earlier.problems()[0]


def run_in_a_process(target: Callable[..., None], *args: Path, shown: Path) -> None:
    """As a reader would run it, but for what is imported already."""
    process = processes.Process(target=show_in_a_file, args=(shown, target, *args))
    process.start()
    process.join(300)
    process.kill()
    assert process.exitcode == 0, shown.read_text(encoding="utf-8")


def show_in_a_file(shown: Path, target: Callable[..., None], *args: Path) -> None:
    """Call a function; its output goes into a file, and so does an error, but not its log."""
    with shown.open("w", encoding="utf-8", buffering=1) as output:
        sys.stdout, sys.stderr = output, io.StringIO()
        try:
            target(*args)
        except BaseException:
            traceback.print_exc(file=output)
            raise


def run_script(script: Path) -> None:
    """Run a script in its folder, with warnings as errors."""
    os.chdir(script.parent)
    sys.path.insert(0, str(script.parent))
    with warnings.catch_warnings(action="error"):
        runpy.run_path(str(script), run_name="__main__")


def test_the_readme_has_the_two_commands_and_a_short_example() -> None:
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    assert re.search(r"^    make demo\b", text, re.M)
    assert re.search(r"^    make test\b", text, re.M)
    example = [line for line in blocks(readme)[0].splitlines() if line.strip()]
    assert len(example) < 10
    assert all(word in "\n".join(example) for word in ('Experiment(["old", "new"', "ask(", "tell("))


@pytest.mark.parametrize("name", ["README.md", "docs/start.md"])
def test_commands_of_a_first_experiment_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / name).read_text(encoding="utf-8")
    lines = re.findall(r"^    bestarm (experiment .*?)(?: +#.*)?$", text, re.M)
    assert [line.split()[1] for line in lines] == ["create", "ask", "tell"]
    for line in lines:
        run(*shlex.split(line))


@pytest.fixture(scope="module")
def headings() -> dict[Path, list[str]]:
    """The headings of every page, generated ones included."""
    texts = {page: page.read_text(encoding="utf-8") for page in PAGES}
    generated = ROOT / "docs" / "reference"
    texts |= {generated / name: text for name, text in reference_pages().items()}
    return {page: re.findall(r"^#+ (.*)$", text, re.M) for page, text in texts.items()}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_relative_links_resolve(page: Path, headings: dict[Path, list[str]]) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        if "://" in link:
            continue
        goal = page.parent / path if path else page
        assert goal in headings or goal.exists(), link
        if anchor:
            assert anchor in {_anchor(heading) for heading in headings[goal]}, link


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_no_page_is_forgotten() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    in_sidebar = {
        name
        for tree in re.findall(r"^```{toctree}\n(.*?)^```$", index, re.M | re.S)
        for name in tree.split()
    }
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")} - {"index"}
    assert pages <= in_sidebar


def test_llms_txt_lists_all_pages_of_the_landing_page() -> None:
    listed = (ROOT / "docs" / "llms.txt").read_text(encoding="utf-8")
    assert listed == llms_text(ROOT / "docs"), "`make docs` writes docs/llms.txt again"


def test_every_picture_says_which_command_draws_it() -> None:
    checked = 0
    for page in (ROOT / "docs").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        for picture in re.findall(r"!\[.*?\]\((\S+)\)", text):
            assert re.search(rf"(--picture docs/{picture}|--out docs)\b", text), picture
            checked += 1
    assert checked >= 7


def test_commands_in_the_pages_exist() -> None:
    """Such as `python -m benchmarks.planning`, or `bestarm experiment ask`."""
    known, checked = {name for name, _ in commands()}, 0
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for module in re.findall(r"python -m (benchmarks\.\w+)", text):
            assert (ROOT / f"{module.replace('.', '/')}.py").exists(), f"{page.name}: {module}"
            checked += 1
        for name in re.findall(
            r"(?:^ {4}|`)(bestarm (?:(?:experiment|token) )?[a-z][a-z-]*)", text, re.M
        ):
            assert name in known, f"{page.name}: {name}"
            checked += 1
    assert checked > 150


def imported_from_elsewhere(code: str) -> set[str]:
    """The distributions of imported modules that neither bestarm nor an extra for users brings."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], project["name"]]
    wanted += [each for name in extras for each in extras[name] if name not in ("dev", "docs")]
    brought = {re.split(r"[^\w.-]", each)[0].lower() for each in wanted}
    homes = INSTALLED_BY()
    modules = re.findall(r"^ *(?:import|from) (\w+)", code, re.M)
    return {home.lower() for each in modules for home in homes.get(each, ())} - brought


def test_pages_say_what_else_to_install_for_their_code() -> None:
    found = set()
    for page in [*PAGES, *(ROOT / "docs" / "notebooks").glob("*.ipynb")]:
        text = page.read_text(encoding="utf-8")
        code = "\n".join(blocks(page))
        if page.suffix == ".ipynb":
            cells = json.loads(text)["cells"]
            code = "\n".join(
                "".join(each["source"]) for each in cells if each["cell_type"] == "code"
            )
        for name in imported_from_elsewhere(code):
            assert f"pip install {name}" in text, name_of(page)
            found.add(name)
    assert found == {"distributed"}


def public() -> Iterator[tuple[str, Any]]:
    """Everything public with its full name: names of modules, and methods of classes of ours."""
    for module in ["bestarm", *public_modules()]:
        home = importlib.import_module(module)
        for name in home.__all__:
            thing = getattr(home, name)
            yield f"{module}.{name}", thing
            if not inspect.isclass(thing):
                continue
            for part, method in inspect.getmembers(thing):
                if not part.startswith("_") and _is_ours(method):
                    yield f"{module}.{name}.{part}", method


def _is_ours(method: Any) -> bool:
    function = method.fget if isinstance(method, property) else method
    home = getattr(function, "__module__", None)
    return inspect.isroutine(function) and str(home).startswith("bestarm")


def test_pages_name_extras_that_exist() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = set(tomllib.load(file)["project"]["optional-dependencies"])
    for page in PAGES:
        if page.name == "CHANGELOG.md":  # which tells of those that are gone
            continue
        for named in re.findall(r"bestarmid\[([\w,]+)\]", page.read_text(encoding="utf-8")):
            assert set(named.split(",")) <= extras, (page.name, named)


def test_every_public_name_has_a_docstring() -> None:
    found = dict(public())
    assert len(found) > 250
    # An alias of a type is explained by a comment `#:` in its module, which autodoc shows.
    assert not [
        name
        for name, thing in found.items()
        if (inspect.isroutine(thing) or isinstance(thing, (type, property)))
        and not inspect.getdoc(thing)
    ]


def test_docstrings_name_parameters_that_exist() -> None:
    checked = 0
    for name, thing in public():
        section = re.search(r"^Args:\n(.*?)(?=^\S|\Z)", inspect.getdoc(thing) or "", re.M | re.S)
        if section is None or not callable(thing):
            continue
        listed = re.findall(r"^ {4}(\*{0,2}\w[*\w, ]*):", section[1], re.M)
        named = {each.strip(" *") for entry in listed for each in entry.split(",")}
        assert named <= set(inspect.signature(thing).parameters), name
        checked += len(named)
    assert checked > 100


def test_names_of_the_code_in_the_pages_exist() -> None:
    """Such as `bounds.phase_delta` or `policies.anytime.bets.settle_bets`."""
    packages = {module.name for module in pkgutil.iter_modules(bestarm.__path__)}
    packages.remove("problem")  # in the pages, `problem.noise` is an attribute of a problem
    # The proof of the anytime rule names its modules without their package.
    rule = {module.name for module in pkgutil.iter_modules(anytime.__path__)}
    checked = 0
    for page in PAGES:
        for name in re.findall(r"`(?:bestarm\.)?([a-z_]+(?:\.\w+)+)\b", page.read_text("utf-8")):
            home, full = name.split(".")[0], name
            if page.name == "anytime.md" and home in rule:
                full = f"policies.anytime.{name}"
            elif home not in packages or name.endswith((".py", ".md")):
                continue
            assert _find(full) is not None, f"{page.name}: {name}"
            checked += 1
    assert checked > 60


def _find(name: str) -> Any:
    thing: Any = bestarm
    for part in name.split("."):
        if inspect.ismodule(thing) and not hasattr(thing, part):
            importlib.import_module(f"{thing.__name__}.{part}")
        thing = getattr(thing, part)
    return thing


def test_every_command_and_option_has_a_help_text() -> None:
    found, page = list(commands()), reference_pages()["commands.md"]
    assert len(found) > 25
    for name, command in found:
        assert command.help, name
        assert not [each.name for each in command.params if not each.help], name
        assert f"## `{name}`" in page, name


def test_every_route_names_its_role_and_what_it_does() -> None:
    needed, paths = roles(), description()["paths"]
    assert len(paths) > 12
    for path, methods in paths.items():
        for method, operation in methods.items():
            assert operation["summary"], path
            assert operation["description"], path
            assert needed[method, path] in {"view", "tell", "manage"}
            parameters = operation.get("parameters", [])
            assert all(each.get("description") for each in parameters), path


PICTURES = sorted((ROOT / "docs").glob("*.png"))


@pytest.mark.parametrize("picture", PICTURES, ids=name_of)
def test_every_picture_is_shown_and_named_where_it_is_drawn(picture: Path) -> None:
    """By the command of a benchmark, or by a block of the page that shows it."""
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    programs = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "benchmarks").glob("*.py")
    )
    assert re.search(rf"!\[[^\]]+\]\((docs/)?{picture.name}\)", pages)
    drawn = rf"python -m benchmarks\.\w+ [^\n|]*--picture docs/{picture.name}"
    assert re.search(drawn, pages + programs) or f'"{picture.name}")' in pages
    assert picture.stat().st_size < 250_000
