"""What is documented as a default is the one in force, wherever it is written."""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import refused, run
from generators.commands import commands
from generators.modules import public_modules
from pydantic import BaseModel

import bestarm
from bestarm import AnytimeBAI, Problem
from bestarm.defaults import DELTA
from bestarm.live import Experiment
from bestarm.server.api import plan, schemas
from bestarm.server.pages.panels import render
from bestarm.studies import PublishedTable

ROOT = Path(__file__).parent.parent


def public() -> Iterator[tuple[str, Any]]:
    for module in public_modules():
        home = importlib.import_module(module)
        for name in home.__all__:
            thing = getattr(home, name)
            if callable(thing):
                yield f"{module}.{name}", thing
            for part, method in vars(thing).items() if inspect.isclass(thing) else ():
                if not part.startswith("_") and isinstance(method, classmethod):
                    yield f"{module}.{name}.{part}", getattr(thing, part)


def test_every_delta_of_the_library_has_the_one_default() -> None:
    found = {}
    for name, thing in public():
        try:
            parameters = inspect.signature(thing).parameters
        except ValueError:
            continue
        if "delta" in parameters:
            found[name] = parameters["delta"].default
    assert found["bestarm.problem.Problem"] == found["bestarm.simulation.simulate"] == DELTA
    assert found.pop("bestarm.studies.PublishedTable") == 0.1  # the paper's, of all tables but one
    assert set(found.values()) <= {inspect.Parameter.empty, DELTA}
    assert Problem([[1, 0], [0, 1]]).delta == DELTA
    assert PublishedTable("key", "title", "protocol", ()).delta == 0.1


def test_options_that_are_left_out_are_what_their_help_says(tmp_path: Path) -> None:
    """Of `experiment create`, whose own defaults are None: those of what it makes count."""
    (command,) = (each for name, each in commands() if name == "bestarm experiment create")
    helps = {parameter.name: getattr(parameter, "help", "") for parameter in command.params}
    arms, store = tmp_path / "arms.csv", f"sqlite:///{tmp_path / 'made.db'}"
    arms.write_text("old\nnew\n")
    seeds = set()
    for name in ("one", "two"):
        scale = ("--baseline", "1") if name == "one" else ("--noise", "1")
        out, _ = run("experiment", "create", name, str(arms), *scale, "--store", store)
        with Experiment.open(store, name) as made:
            assert (made.problem.noise, made.problem.baseline) == (1, 1)
            problem, seed, lease = made.problem, made.seed, made.lease
            document = made.spec
        assert f"seed {seed}" in out
        assert f"δ {DELTA:g}" in out
        seeds.add(seed)
    assert document is not None
    for option, real in (
        ("delta", problem.delta),
        ("noise", problem.noise),
        ("baseline", problem.baseline),
    ):
        assert f"; {real:g} if left out" in helps[option], option
    assert helps["policy"].startswith(f"{document.policy} if left out")
    assert lease is None
    assert "for ever if left out" in helps["lease"]
    assert len(seeds) == 2
    assert "a random one, which is printed, if left out" in helps["seed"]


def all_bodies() -> Iterator[type[BaseModel]]:
    for home in (schemas, plan):
        for thing in vars(home).values():
            if inspect.isclass(thing) and issubclass(thing, BaseModel) and thing is not BaseModel:
                yield thing


def test_examples_of_the_api_are_what_it_takes_and_gives() -> None:
    examples = 0
    for body in all_bodies():
        delta = body.model_fields.get("delta")
        if delta is not None and not delta.is_required():
            assert delta.default == DELTA
        for example in body.model_json_schema().get("examples", []):
            body.model_validate_json(json.dumps(example))
            assert example.get("delta", DELTA) == DELTA
            examples += 1
    assert examples >= 12


def example(body: type[BaseModel]) -> dict[str, Any]:
    (found,) = body.model_json_schema()["examples"]
    return dict(found)


def test_examples_of_the_api_could_be_real() -> None:
    made = example(schemas.CreateBody)
    problem = Problem(made["options"], delta=made["delta"])
    shown = example(schemas.RecommendationOut)
    control = shown["effect"]["label"]
    policy = AnytimeBAI(problem, bounds=tuple(made["bounds"]), control=control)
    experiment = Experiment(policy, seed=0, lease=made["lease"])
    while not experiment.finished:
        given = experiment.ask(100)
        experiment.tell_many([(each.id, each.label == "express") for each in given])
    answer = schemas.RecommendationOut.of(experiment)
    assert set(shown["assumptions"]) <= set(answer.assumptions)
    others = {"pulls", "assumptions", "statement", "effect"}
    same = {name: value for name, value in shown.items() if name not in others}
    assert {name: getattr(answer, name) for name in same} == same
    assert answer.effect is not None
    assert vars(answer.effect).keys() == shown["effect"].keys()
    measured = r"\S+ points \(\S+ to \S+\)(, \S+ % relative)?"
    alike = [re.sub(measured, "", each) for each in (answer.statement, shown["statement"])]
    assert alike[0] == alike[1] != shown["statement"]
    names = {check.name for check in experiment.health()}
    assert {check["name"] for check in example(schemas.HealthOut)["checks"]} <= names


def test_forms_begin_with_the_default() -> None:
    part = {"pages": 1, "search": "", "first": 0, "total": 0, "page": 1}
    for template, values in (
        ("experiments.html", {"rows": "", "empty": True, "policies": [], "part": part, "tag": ""}),
        ("plan.html", {"seconds": 30.0, "policies": [], "drifts": []}),
    ):
        page = render(template, signed_in=False, **values)
        assert f'name="delta" inputmode="decimal" value="{DELTA:g}"' in page
        assert f"{DELTA:g} asks for a winner at {100 * (1 - DELTA):g} %." in page


def test_pages_of_the_documentation_name_the_default() -> None:
    assert f"where they are left out δ is {DELTA:g}" in (ROOT / "docs" / "http.md").read_text()
    assert bestarm.Problem(["old", "new"]).delta == DELTA


@pytest.mark.parametrize("command", ["check", "plan", "experiment create"])
def test_a_confidence_given_as_delta_is_pointed_out(tmp_path: Path, command: str) -> None:
    arms = tmp_path / "arms.csv"
    arms.write_text("old\nnew\n")
    words = [*command.split(), *(["t"] if "create" in command else []), str(arms)]
    words += ["--gap", "0.1"] if command == "plan" else []
    assert "Did you mean 0.05?" in refused(*words, "--delta", "0.95")
