"""What a release says about itself agrees: versions, names, Pythons, licences."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Any

import bestarm

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_all_name_the_same_version() -> None:
    assert metadata.version("bestarmid") == bestarm.__version__
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.*)$", citation, re.M) == [bestarm.__version__]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)$", changelog, re.M)[:2] == ["Unreleased", bestarm.__version__]


def test_the_distribution_has_the_command_and_types() -> None:
    scripts = metadata.distribution("bestarmid").entry_points.select(group="console_scripts")
    assert [(each.name, each.value) for each in scripts] == [("bestarm", "bestarm.cli:main")]
    assert Path(bestarm.__file__).with_name("py.typed").exists()


def test_the_oldest_python_is_the_one_that_is_required() -> None:
    classifiers: list[str] = PROJECT["project"]["classifiers"]
    pythons = [each.removeprefix("Programming Language :: Python :: ") for each in classifiers]
    oldest = min((each for each in pythons if each.startswith("3.")), key=lambda v: int(v[2:]))
    assert PROJECT["project"]["requires-python"] == f">={oldest}"
    assert PROJECT["tool"]["mypy"]["python_version"] == oldest


def test_every_dependency_is_pinned() -> None:
    pins = {_name(line) for line in (ROOT / "constraints.txt").read_text().splitlines()[1:]}
    extras: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
    core = [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"]]
    for requirement in chain(core, *extras.values()):
        assert _name(requirement) in pins | {"bestarmid"}, requirement


def _name(requirement: str) -> str:
    (name,) = re.findall(r"^[\w.-]+", requirement)
    return re.sub(r"[-_.]+", "-", name).lower()
