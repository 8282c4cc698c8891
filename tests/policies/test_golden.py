"""Every policy decides what it decided: stored experiments are made again from plans and totals."""

from __future__ import annotations

import inspect
import json
import re
from types import ModuleType
from typing import Any

import golden
import numpy as np
import pytest
from golden import CASES, KEPT

from bestarm import AnytimeBAI, Problem, Summary
from bestarm.policies import bernstein, halving, rounds
from bestarm.policies.anytime import bets, sampler
from bestarm.policies.catalog import BUILT_IN, PolicyInfo

RUNS: dict[str, golden.Run] = json.loads(KEPT.read_text(encoding="utf-8"))
CLASSES = {case.policy.__name__: case.policy for case in CASES.values()}


@pytest.mark.parametrize("name", CASES)
def test_a_policy_decides_and_plans_as_it_did(name: str) -> None:
    """Weights may differ where designs are equally good; lengths and certified values may not."""
    case, run = CASES[name], RUNS[name]
    played = golden.play(case, run)
    found = golden.differences(case, run, played)
    assert not found, golden.advice(name, found)
    assert run["version"] == case.policy.version, golden.advice(name, ["its version is another"])
    found = golden.replanned(case, run, played)
    assert not found, f"{found}: if that is meant, record again: python tests/policies/golden.py"


def test_the_runs_kept_are_those_of_the_cases() -> None:
    assert RUNS.keys() == CASES.keys(), "Record again: python tests/policies/golden.py"


@pytest.mark.parametrize("name", CLASSES)
def test_every_policy_names_a_version_of_its_own_and_has_all_its_options_kept(name: str) -> None:
    policy = CLASSES[name]
    assert isinstance(vars(policy)["version"], int)
    options = inspect.signature(policy).parameters.keys() - {"problem", "seed"}
    kept = {option for case in CASES.values() if case.policy is policy for option in case.options}
    assert options <= kept


@pytest.mark.parametrize("info", BUILT_IN, ids=lambda info: info.name)
def test_a_policy_that_names_a_version_has_a_recorded_run(info: PolicyInfo) -> None:
    policy = info.method(Problem(np.eye(3)), **info.example)
    recorded = policy.traits.version is None or type(policy).__name__ in CLASSES
    assert recorded, f"Add a Case for {info.name} to CASES in tests/policies/golden.py, and run it."


@pytest.mark.parametrize(
    ("name", "module", "constant", "value"),
    [
        ("anytime", bets, "MAX_LOSS", 0.89),
        ("anytime, bounds", bets, "_ABOVE", 0.5),
        ("lucb, certified", rounds, "_RHO", 301),
        ("ae, certified", rounds, "_RHO", 301),
        ("bernstein", bernstein, "_REFERENCE", 30.1),
    ],
)
def test_a_small_change_of_arithmetic_shows(
    monkeypatch: pytest.MonkeyPatch, name: str, module: ModuleType, constant: str, value: Any
) -> None:
    monkeypatch.setattr(module, constant, value)
    assert golden.differences(CASES[name], RUNS[name])


@pytest.mark.parametrize(
    ("name", "module", "constant", "value"),
    [
        ("anytime", sampler, "BATCH_GROWTH", 0.06),
        ("anytime", sampler, "LEAST_PULLS", 9),
        ("anytime", sampler, "G_DESIGN_SHARE", 0.9),
        ("halving", halving, "_PILOT", 18),
    ],
)
def test_a_change_of_new_plans_shows_and_leaves_decisions_as_they_are(
    monkeypatch: pytest.MonkeyPatch, name: str, module: ModuleType, constant: str, value: Any
) -> None:
    monkeypatch.setattr(module, constant, value)
    assert golden.replanned(CASES[name], RUNS[name])
    assert not golden.differences(CASES[name], RUNS[name])


def test_what_changed_is_recorded_only_under_a_new_version(monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["anytime"]
    monkeypatch.setattr(golden, "CASES", {"anytime": case})
    kept = {"anytime": RUNS["anytime"]}
    assert golden.record(kept) == (kept, [])
    monkeypatch.setattr(bets, "MAX_LOSS", 0.8)
    runs, refused = golden.record(kept)
    assert not runs
    number = AnytimeBAI.version + 1
    assert f"AnytimeBAI.version = {number} and record again: python tests" in refused[0]
    assert re.search(r"plan \d, evidence: ", refused[0])
    monkeypatch.setattr(AnytimeBAI, "version", number)
    runs, refused = golden.record(kept)
    assert not refused
    assert runs["anytime"]["version"] == number
    assert not golden.differences(case, runs["anytime"])


def test_new_plans_are_recorded_without_a_new_version(monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["anytime"]
    monkeypatch.setattr(golden, "CASES", {"anytime": case})
    monkeypatch.setattr(sampler, "LEAST_PULLS", 12)
    runs, refused = golden.record({"anytime": RUNS["anytime"]})
    assert not refused
    assert runs["anytime"] != RUNS["anytime"]
    assert not golden.replanned(case, runs["anytime"])


def test_rounding_does_not_choose_how_the_anytime_rule_predicts() -> None:
    """After one batch, the mean so far and the last mean are the same, and so to the last bit.

    When they were not, the third batch was predicted by one or by the other as the processor would
    have it, and an experiment could not go on elsewhere.
    """
    rng = np.random.default_rng(0)
    problem = Problem(rng.normal(size=(6, 3)))
    for _ in range(20):
        policy = AnytimeBAI(problem)
        plan = policy.plan()
        assert plan is not None
        assert plan.weights is not None
        counts = rng.multinomial(37, plan.weights)
        sums = counts * rng.normal(size=6)
        policy.update(Summary(counts, sums, sums**2 + counts))
        estimates = policy._estimates
        assert len(set(estimates._predicted_levels(np.array([50.0]))[0].tolist())) == 1
