"""Precision: the verdict stands, and pulls go on until the effect is known that precisely."""

from __future__ import annotations

import numpy as np
import pytest

from bestarm import AnytimeBAI, Problem
from bestarm.environments import Semiparametric, baselines
from bestarm.errors import InvalidInputError
from bestarm.recommendation import Recommendation
from bestarm.testing import check_policy

THETA = np.array([0.5, 0.0, -0.3])
LABELS = ["new", "old", "other"]
WORLD, PAIRED = (
    Semiparametric(
        np.eye(3), THETA, baseline=baselines.sinusoid(), source_labels=LABELS, block=block
    )
    for block in (1, 2)
)


def run(seed: int = 0, **options: object) -> list[Recommendation]:
    policy = AnytimeBAI(WORLD.problem(0.1), mean_bound=1.0, **options)  # type: ignore[arg-type]
    world = PAIRED if options.get("block") == 2 else WORLD
    stream, seen = world.begin(np.random.default_rng(seed)), []
    while (plan := policy.plan()) is not None:
        policy.update(stream.pull(plan))
        seen.append(policy.recommend())
    return seen


@pytest.mark.parametrize("block", [1, 2])
@pytest.mark.parametrize("tolerance", [0.0, 0.05])
def test_it_goes_on_until_half_the_width_is_at_most_the_precision(
    block: int, tolerance: float
) -> None:
    plain = run(control="old", block=block, tolerance=tolerance)
    seen = run(control="old", block=block, tolerance=tolerance, precision=0.15)
    assert len(seen) > len(plain)
    for said, before in zip(seen, plain[:-1], strict=False):
        assert (said.reason, said.target, said.pulls) == ("running", before.target, before.pulls)
    measuring = seen[len(plain) - 1 : -1]
    assert {said.reason for said in measuring} == {"measuring"}
    assert seen[-1].reason == "identified"
    for said in [*measuring, seen[-1]]:
        assert (said.label, said.final, said.error_bound, said.active) == ("new", True, 0.1, (0,))
        assert said.effect is not None
        precise = said.effect.upper - said.effect.lower <= 0.3
        assert precise == (said is seen[-1])
        assert said.effect.lower <= THETA[0] - THETA[1] <= said.effect.upper


def test_most_pulls_go_to_the_two_that_are_compared() -> None:
    policy = AnytimeBAI(WORLD.problem(0.1), mean_bound=1.0, control="old", precision=0.1)
    stream = WORLD.begin(np.random.default_rng(0))
    while policy.recommend().reason != "measuring":
        plan = policy.plan()
        assert plan is not None
        policy.update(stream.pull(plan))
    for _ in range(30):  # a design is kept for a while
        plan = policy.plan()
        assert plan is not None
        policy.update(stream.pull(plan))
    last = policy.plan()
    assert last is not None
    assert last.weights is not None
    assert last.weights[2] < 0.05


def test_a_control_that_is_the_best_leaves_nothing_to_measure() -> None:
    last = run(control="new", precision=1e-6)[-1]
    assert (last.reason, last.label) == ("identified", "new")


def test_at_the_limit_of_pulls_the_verdict_stands() -> None:
    last = run(control="old", precision=1e-4, max_pulls=2000)[-1]
    assert (last.reason, last.final, last.error_bound) == ("identified", True, 0.1)
    assert last.pulls == 2000


def test_the_contract_holds_while_measuring() -> None:
    def make(problem: Problem, *, seed: int) -> AnytimeBAI:
        control = problem.target_labels[-1]
        return AnytimeBAI(
            problem, mean_bound=1.0, control=control, precision=0.4, max_pulls=3000, seed=seed
        )

    check_policy(make, WORLD.problem(0.1))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"precision": 0.1}, "no control"),
        ({"precision": 0.0, "control": "old"}, "precision"),
        (
            {"precision": 0.1, "control": "old", "items": 9, "block": 3, "bounds": (0, 1)},
            "item",
        ),
    ],
)
def test_a_precision_that_makes_no_sense_is_refused(options: dict[str, object], match: str) -> None:
    with pytest.raises(InvalidInputError, match=match) as error:
        AnytimeBAI(Problem(np.eye(3), source_labels=LABELS), **options)  # type: ignore[arg-type]
    assert error.value.field == "precision"
