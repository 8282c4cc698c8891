"""Compiled runs of the anytime rule on rewards known ahead."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from bestarm import AnytimeBAI, Problem
from bestarm.environments import Semiparametric, baselines
from bestarm.errors import InvalidInputError, ProtocolError
from bestarm.policies.anytime import compiled_run as compiled
from bestarm.presampled import PresampledRewards
from bestarm.records import Summary
from bestarm.simulation import run
from bestarm.simulation.engine import Simulation
from bestarm.simulation.run import run_policy

ARMS = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [-0.3, 0.5]])
RULES: dict[str, Any] = {
    "noise": partial(AnytimeBAI, seed=4),
    "bounds": partial(AnytimeBAI, bounds=(-9, 9), seed=4),
    "gap": partial(AnytimeBAI, expected_gap=0.5, max_pulls=700, seed=4),
}


def rewards(rounds: int, baseline: object) -> PresampledRewards:
    world = Semiparametric(ARMS, [1.0, 0.3], baseline=baseline)
    known: PresampledRewards | None = world.begin(np.random.default_rng(8)).presample(rounds)  # type: ignore[attr-defined]
    assert known is not None
    return known


def update_plan_by_plan(policy: AnytimeBAI, presampled: PresampledRewards, seed: int) -> int:
    """Carry out the plans of a policy on the pulls that it would draw itself; count them."""
    words = np.array(np.random.SFC64(seed).state["state"]["state"], dtype=np.uint64)
    start = plans = 0
    while (plan := policy.plan()) is not None and start + plan.pulls <= len(presampled.rows):
        assert policy._open is not None
        sampling = policy._open.frame.sampling
        law = len(ARMS), sampling.parts[1], *compiled.guide_draws(sampling.weights)
        sums, extremes = compiled.draw(presampled.parts, start, plan.pulls, law, words, plan.center)
        least, largest, cubes = extremes
        counts, first, squares = sums
        known = {"least": least, "largest": largest, "cubes": cubes}
        policy.update(Summary(counts, first, squares, center=plan.center, **known))
        start += plan.pulls
        plans += 1
    return plans


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("drifts", [True, False])
def test_a_run_that_is_followed_is_the_run_that_is_told(name: str, drifts: bool) -> None:
    problem = Problem(ARMS, delta=0.05, baseline=1.0 if drifts else 0.0)
    known = rewards(2000, baselines.sinusoid(offset=0.0) if drifts else 0.0)
    followed, usual = RULES[name](problem), RULES[name](problem)
    pulls, plans = followed.follow(known)
    assert plans == update_plan_by_plan(usual, known, 4) > 10
    assert (followed.evidence() == usual.evidence()).all()
    assert (followed._estimates.spread == usual._estimates.spread).all()
    one, other = followed.recommend(), usual.recommend()
    assert pulls == one.pulls == other.pulls
    assert (one.reason, one.active, one.target) == (other.reason, other.active, other.target)


def test_it_does_not_matter_how_many_rewards_are_known_at_a_time() -> None:
    problem, known = Problem(ARMS), rewards(480, 0.0)
    policies = [AnytimeBAI(problem, seed=4) for _ in range(2)]
    for policy, cuts in zip(policies, ([480], [100, 200, 480]), strict=True):
        start = 0
        for cut in cuts:
            part = known._replace(rows=known.rows[start:cut], common=known.common[start:cut])
            start += policy.follow(part)[0]
    one, other = policies
    assert one.recommend().pulls == other.recommend().pulls == 480
    assert (one.evidence() == other.evidence()).all()


def test_a_followed_run_has_no_intervals() -> None:
    policy = AnytimeBAI(Problem(ARMS))
    policy.follow(rewards(100, 0.0))
    with pytest.raises(ProtocolError, match="are not kept"):
        policy.intervals()


def test_rewards_outside_the_bounds_are_refused_when_followed() -> None:
    policy = AnytimeBAI(Problem(ARMS), bounds=(0, 0.5))
    with pytest.raises(InvalidInputError, match=r"between 0 and 0\.5"):
        policy.follow(rewards(100, 0.0))


def test_a_batch_longer_than_what_is_known_ahead_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_CHUNK", 3)  # it doubles until a batch fits
    world = Semiparametric(ARMS, [1.0, 0.9])
    work = Simulation(partial(AnytimeBAI, max_pulls=400), world, delta=0.1, seed=0)
    policy, stream, _ = work.begin(0)
    pulls, _, plans, over = run_policy(policy, stream)
    assert (pulls, over) == (policy.recommend().pulls, True)
    assert pulls / plans < 20


def test_rules_that_compiled_code_does_not_know_are_not_followed() -> None:
    problem = Problem(np.eye(4))
    options: list[dict[str, Any]] = [{"top": 2}, {"tolerance": 0.1}, {"block": 2}, {"control": "1"}]
    assert not any(AnytimeBAI(problem, **option).traits.follows for option in options)
    assert AnytimeBAI(problem).traits.follows
    assert not AnytimeBAI(Problem(np.eye(257))).traits.follows
