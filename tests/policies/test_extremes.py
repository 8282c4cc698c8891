"""Each arm's least and largest reward make evidence sharper, and never more than is true."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bestarm import AnytimeBAI, Problem, Summary
from bestarm.environments import Ratings, Semiparametric, baselines
from bestarm.environments.baselines import Baseline
from bestarm.errors import InvalidInputError, ProtocolError
from bestarm.numerics.geometry import Array
from bestarm.policies.anytime.bets import BatchOutcome, Bets, Frame, Sampling, Scale
from bestarm.records import Plan


def random_bets(rng: np.random.Generator, noise: float) -> tuple[Bets, Array]:
    """Bets on three contrasts of five arms in two dimensions, with any guesses."""
    coordinates = rng.normal(size=(5, 2))
    weights = rng.dirichlet(np.ones(5))
    frame = Frame(
        Sampling(coordinates, weights, rng.uniform(0.05, 0.3, 5)),
        guess=rng.uniform(0, 1, 5),
        spread=rng.uniform(0.05, 0.3, 5),
        scale=Scale(0.0, 1.0, noise),
        size=80,
        pulls=100,
    )
    return frame.bets(rng.normal(size=(3, 2))), weights


@pytest.mark.parametrize("noise", [0.0, 0.5])
@pytest.mark.parametrize("seed", range(40))
def test_evidence_from_totals_is_at_most_that_of_single_pulls(seed: int, noise: float) -> None:
    """Lemma 2, pull by pull: Σ log(1 + λz), which totals do not tell; z < −C as in Lemma 3."""
    rng = np.random.default_rng(seed)
    bets, weights = random_bets(rng, noise)
    arms = rng.choice(5, 80, p=weights)
    rewards = rng.beta(0.3, 0.3, 80) + noise * rng.normal(size=80)
    summary = Summary.from_pulls(arms, rewards, size=5)
    frame = bets.frame
    stakes, growth = bets.settle(BatchOutcome(frame, summary))
    z = bets.w[:, arms] * (rewards - frame.guess[arms])
    fall = np.maximum(bets.w * frame.terms.below, -bets.w * frame.terms.above).max(axis=1)
    offset = bets.w @ (frame.sampling.weights * frame.guess)
    offset -= frame.tail * np.abs(bets.w) @ frame.sampling.weights
    for i in range(3):
        for s, stake in enumerate(stakes[i]):
            cost = (-np.log1p(-stake * fall[i]) - stake * fall[i]) / fall[i] ** 2
            inside = np.log1p(stake * np.maximum(z[i], -fall[i]))
            exact = np.where(z[i] >= -fall[i], inside, stake * z[i] - cost * z[i] ** 2).sum()
            assert growth[i, s] <= exact + 80 * stake * offset[i] + 1e-9


@pytest.mark.parametrize("seed", range(10))
def test_extremes_only_sharpen_evidence(seed: int) -> None:
    rng = np.random.default_rng(seed)
    bets, weights = random_bets(rng, 0.0)
    arms = rng.choice(5, 80, p=weights)
    summary = Summary.from_pulls(arms, rng.beta(2, 2, 80), size=5)
    blunt = replace(summary, least=None, largest=None, cubes=None)
    sharp, before = (bets.log_growth(BatchOutcome(bets.frame, s)) for s in (summary, blunt))
    assert (sharp >= before - 1e-12).all()
    assert (sharp > before).any()


def test_amended_extremes_are_those_of_all_outcomes() -> None:
    first = replace(
        Summary.from_pulls([0, 0, 1], [0.2, 0.9, 0.5], size=4), pending=np.array([1, 0, 2, 0])
    )
    later = Summary.from_pulls([0, 2, 2], [0.1, -0.3, 0.7], size=4)
    whole = first.amended(later)
    assert whole.least is not None
    assert whole.largest is not None
    assert whole.least.tolist() == [0.1, 0.5, -0.3, 0.0]
    assert whole.largest.tolist() == [0.9, 0.5, 0.7, 0.0]
    assert first.amended(replace(later, least=None, largest=None, cubes=None)).least is None


def test_extremes_must_have_an_order() -> None:
    one = np.ones(1)
    with pytest.raises(InvalidInputError, match="least"):
        Summary(np.array([2]), one, one, least=one, largest=0 * one, cubes=one)


MOVING: dict[str, Baseline | float] = {
    "constant": 1.0,
    "sinusoid": baselines.sinusoid(),
    "switches": baselines.switches((-2.0, 2.0), period=50),
    "adversary": baselines.adversary(2.0),
}


@pytest.mark.parametrize("name", [*MOVING, "ratings", "each user once"])
def test_streams_tell_extremes_where_a_plan_asks_for_them(name: str) -> None:
    rng = np.random.default_rng(3)
    if name in MOVING:
        world: Semiparametric | Ratings = Semiparametric(
            np.eye(3), [0.5, 0.2, 0.0], baseline=MOVING[name], noise=0.5
        )
    else:
        table = rng.integers(-3, 4, (500, 3)) + np.array([0.5, 0.2, 0.0])
        world = Ratings(table, replacement=name == "ratings")
    stream = world.begin(rng)
    for phase in range(1, 4):
        plan = Plan.randomised([0.5, 0.3, 0.2], 60, phase=phase, center=0.25, extremes=True)
        summary = stream.pull(plan)
        assert summary.least is not None
        assert summary.largest is not None
        means = summary.sums / summary.counts
        assert (summary.least < means).all()
        assert (means < summary.largest).all()
        # Σ(x − least)(largest − x) ≥ 0, and equality would need rewards at the two ends alone.
        ends = summary.least + summary.largest
        inside = ends * summary.sums - summary.counts * summary.least * summary.largest
        assert (inside > summary.squares - 1e-9).all()


def told(**changes: object) -> Summary:
    """Eight pulls of two arms, four of 0.25 and four of 0.75, with something changed."""
    rewards = np.array([0.25, 0.75] * 4)
    summary = Summary.from_pulls([0, 0, 1, 1] * 2, rewards, size=2)
    return replace(summary, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        {"squares": np.array([0.2, 1.25])},  # about the mean of the arm, not about the center
        {"squares": np.array([-1.0, 1.25])},
        {"least": np.array([0.6, 0.25])},  # the mean is 0.5
        {"largest": np.array([0.75, 0.4])},
    ],
    ids=["squares about the mean", "negative squares", "least above the mean", "largest below it"],
)
def test_totals_that_no_rewards_have_are_refused(changes: dict[str, Array]) -> None:
    """Such totals would make evidence out of nothing: two equal arms had a winner in 20 of 20."""
    policy = AnytimeBAI(Problem(np.eye(2)), bounds=(0, 1))
    before = policy.plan()
    with pytest.raises(InvalidInputError, match="contradict each other"):
        policy.update(told(**changes))
    assert policy.plan() is before
    policy.update(told())


def test_extremes_outside_the_bounds_are_refused() -> None:
    policy = AnytimeBAI(Problem(np.eye(2)), bounds=(0, 1))
    with pytest.raises(InvalidInputError, match="cannot all lie between 0 and 1"):
        policy.update(told(largest=np.array([0.75, 1.4])))
    with pytest.raises(InvalidInputError, match="cannot all lie between 0 and 1"):
        policy.update(told(least=np.array([0.25, -0.1])))


def test_a_refused_amendment_changes_nothing() -> None:
    policy = AnytimeBAI(Problem(np.eye(2)), bounds=(0, 1))
    plan = policy.plan()
    assert plan is not None
    rewards = np.full(plan.pulls, 0.5)
    arms = np.arange(plan.pulls) % 2
    first = Summary.from_pulls(arms, rewards, size=2)
    policy.update(replace(first, pending=np.array([1, 0])))
    before = policy.recommend()
    for wrong in (np.array([0, 1]), np.array([2, 0])):
        with pytest.raises(ProtocolError):
            policy.amend(Summary(wrong, 0.5 * wrong, 0.25 * wrong), phase=1)
    assert policy.recommend().statement == before.statement


@pytest.mark.parametrize(
    ("options", "change"),
    [
        ({"mean_bound": 1.0}, {"provisional": True}),
        ({"bounds": (0, 1)}, {"provisional": False}),
        ({"bounds": (0, 1)}, {"forecasts": (0.2, 0.4)}),
    ],
)
def test_plans_of_a_rule_with_other_options_are_not_adopted(
    options: dict[str, Any], change: dict[str, Any]
) -> None:
    policy = AnytimeBAI(Problem(np.eye(2)), **options)
    plan = policy.plan()
    assert plan is not None
    with pytest.raises(ProtocolError, match="other options"):
        policy.adopt(replace(plan, **change))
