"""The anytime policy: what it takes, what it refuses, and what it says."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np
import pytest
from anytime_runs import clicks, play

import bestarm.policies.anytime.sampler as sampler_module
from bestarm import AnytimeBAI, Plan, Problem, Summary
from bestarm.errors import InvalidInputError, ProtocolError
from bestarm.policies import Method
from bestarm.testing import check_policy

HOW: tuple[Literal["ignorable", "worst-case"], ...] = ("ignorable", "worst-case")

# --- the protocol ----------------------------------------------------------------------------

PLAIN = Problem([[1, 0], [0, 1], [0.6, 0.8]])
TRANSDUCTIVE = Problem([[0.0], [1.0], [2.0]], [[0.5], [3.0]])
# On which problem does not matter for what they change: `test_contract.py` has the rule on all.
VARIANTS: dict[str, tuple[Method, Problem]] = {
    "capped": (partial(AnytimeBAI, max_pulls=200), TRANSDUCTIVE),
    "tolerance": (partial(AnytimeBAI, tolerance=0.1), PLAIN),
    "wide": (partial(AnytimeBAI, mean_bound=20.0), PLAIN),
    "bounded": (partial(AnytimeBAI, bounds=(-20, 20), missing="worst-case"), TRANSDUCTIVE),
    "bounded, tolerance": (
        partial(AnytimeBAI, bounds=(-50, 50), tolerance=0.05, max_pulls=500),
        TRANSDUCTIVE,
    ),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_obeys_the_contract(name: str) -> None:
    check_policy(*VARIANTS[name])


def test_plans_are_open_and_batches_grow() -> None:
    policy = AnytimeBAI(Problem(np.eye(2)), bounds=(0, 1))
    rng = np.random.default_rng(0)
    sizes = []
    for _ in range(120):
        plan = policy.plan()
        assert plan is not None
        assert plan.open
        sizes.append(plan.pulls)
        policy.update(clicks((0.5, 0.5), rng)(plan))
    assert sizes == sorted(sizes)
    assert sizes[-1] > 2 * sizes[0]


def test_the_cap_is_kept_to_the_pull() -> None:
    policy = AnytimeBAI(Problem(np.eye(2)), bounds=(0, 1), max_pulls=100)
    play(policy, clicks((0.5, 0.5), np.random.default_rng(1)))
    answer = policy.recommend()
    assert (answer.pulls, answer.reason, answer.final) == (100, "max_pulls", False)


# --- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"bounds": (1, 0)}, "bounds"),
        ({"bounds": 5}, "bounds"),
        ({"bounds": (0, float("nan"))}, "bounds"),
        ({"bounds": (-1e200, 1e200)}, "bounds"),
        ({"bounds": (0, 1e-200)}, "bounds"),
        ({"mean_bound": 1e200}, "mean_bound"),
        ({"bounds": (0, 1), "mean_bound": 1.0}, "mean_bound"),
        ({"mean_bound": -1.0}, "mean_bound"),
        ({"top": 0}, "top"),
        ({"top": 3}, "top"),
        ({"tolerance": -0.1}, "tolerance"),
        ({"missing": "never"}, "missing"),
        ({"missing": "worst-case"}, "missing"),
        ({"max_pulls": 0}, "max_pulls"),
        ({"seed": -1}, "seed"),
    ],
)
def test_arguments_are_refused_in_a_sentence(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInputError) as error:
        AnytimeBAI(Problem(np.eye(3)), **options)
    assert error.value.field == field


def test_rewards_outside_their_bounds_are_refused_and_change_nothing() -> None:
    policy = AnytimeBAI(Problem(np.eye(2), source_labels=["tea", "coffee"]), bounds=(0, 1))
    plan = policy.plan()
    assert plan is not None
    half = np.array([plan.pulls // 2, plan.pulls - plan.pulls // 2])
    for sums, squares in (
        (half * 1.2, half * 1.44),  # a mean above the bound
        (half * 0.5, half * 0.6),  # a mean inside, from rewards that are not
        (-0.1 * half, half * 0.01),
    ):
        with pytest.raises(InvalidInputError, match="cannot all lie between 0 and 1"):
            policy.update(Summary(half, sums, squares))
    assert policy.plan() is plan
    policy.update(Summary(half, half * 0.5, half * 0.5))  # all at the bounds: the most there can be


def test_bounds_far_from_zero_are_checked_as_closely_as_rounding_allows() -> None:
    """From 1e8 to 1e8 + 1: a hundredth of the range outside is seen, and rounding is let pass."""
    low = 1e8
    policy = AnytimeBAI(Problem(np.eye(2)), bounds=(low, low + 1))
    plan = policy.plan()
    assert plan is not None
    half = np.array([plan.pulls // 2, plan.pulls - plan.pulls // 2])
    for mean in (low - 0.01, low + 1.01):
        with pytest.raises(InvalidInputError, match="cannot all lie between"):
            policy.update(Summary(half, half * mean, half * mean**2))
    arms = np.repeat([0, 1], half)
    rng = np.random.default_rng(0)
    for _ in range(45):
        plan = policy.plan()
        assert plan is not None
        arms = rng.integers(0, 2, 10 * plan.pulls)
        at_the_end = rng.choice([low, low + 1], len(arms), p=[0.01, 0.99])
        policy.update(Summary.from_pulls(arms, at_the_end, size=2))


@pytest.mark.parametrize("bounds", [(0.0, 0.1), (-0.3, 0.7), (1e3, 1e3 + 0.1)])
def test_rewards_at_their_bounds_are_taken_however_they_round(bounds: tuple[float, float]) -> None:
    for end in bounds:
        for pulls in (24, 1000, 100_000):
            policy = AnytimeBAI(Problem(np.eye(2)), bounds=bounds)
            arms = np.arange(pulls) % 2
            policy.update(Summary.from_pulls(arms, np.full(pulls, end), size=2))


def test_means_beyond_what_was_declared_end_the_claim() -> None:
    problem = Problem(np.eye(2), noise=1.0, baseline=0.0)
    policy = AnytimeBAI(problem, mean_bound=1.0)
    assert policy.recommend().error_bound is None  # nothing is claimed yet
    assert "nothing is proven" not in policy.recommend().statement
    plan = policy.plan()
    assert plan is not None
    half = np.array([plan.pulls // 2, plan.pulls - plan.pulls // 2])
    policy.update(Summary(half, half * 50.0, half * 2500.0))
    answer = policy.recommend()
    assert answer.error_bound is None
    assert "nothing is proven" in answer.statement


# --- what it says ----------------------------------------------------------------------------


def test_the_recommendation_speaks() -> None:
    problem = Problem(np.eye(3), delta=0.05, source_labels=["tea", "coffee", "water"])
    policy = AnytimeBAI(problem, bounds=(0, 1))
    before = policy.recommend()
    assert before.statement.startswith("Not decided: no outcome")
    play(policy, clicks((0.9, 0.1, 0.1), np.random.default_rng(2)))
    answer = policy.recommend()
    assert answer.final
    assert answer.chosen == answer.active == (0,)
    assert answer.error_bound == 0.05
    assert answer.statement.startswith("'tea' is the best of 3 options.")
    assert "at most 0.05" in answer.statement
    assert any("between 0 and 1" in sentence for sentence in answer.assumptions)


def test_evidence_is_what_drops_targets() -> None:
    problem = Problem(np.eye(3), delta=0.05)
    policy = AnytimeBAI(problem, bounds=(0, 1))
    np.testing.assert_allclose(policy.evidence(), 1.0)
    play(policy, clicks((0.9, 0.1, 0.1), np.random.default_rng(2)))
    values = policy.evidence()
    assert values[0] < 20 <= values[1:].min()


def test_a_missing_outcome_counts_as_drawn() -> None:
    problem = Problem(np.eye(2))
    pulls = 3
    policies = (AnytimeBAI(problem, bounds=(0, 1), missing=m) for m in HOW)
    for policy in policies:
        plan = policy.plan()
        assert plan is not None
        counts = np.array([plan.pulls - pulls - 2, 2])
        lost = np.array([0, pulls])
        before = policy.recommend()
        assert "leads" not in before.statement
        policy.update(Summary(counts, 0.5 * counts, 0.4 * counts, lost))
        said = policy.recommend()
        assert said.pulls == plan.pulls
        # What is taken at its worst rests on nothing more; what is passed over does.
        more = [each for each in said.assumptions if each not in before.assumptions]
        assert len(more) == (policy._worst_case is False)
        assert all("never came (3 so far)" in each for each in more)


def test_where_all_is_lost_nothing_is_known() -> None:
    for missing in HOW:
        policy = AnytimeBAI(Problem(np.eye(2)), bounds=(0, 1), missing=missing)
        plan = policy.plan()
        assert plan is not None
        nothing = np.zeros(2)
        lost = np.array([plan.pulls - 3, 3])
        policy.update(Summary(nothing.astype(int), nothing, nothing, lost))
        found = policy.intervals()
        other = 1 - found.leader
        assert found.low[other] <= 0 <= found.high[other]
        assert policy.evidence().max() <= 1


def test_losses_at_worst_cost_evidence() -> None:
    """The same experiment, one outcome in four lost: 'worst-case' knows less than 'ignorable'."""
    log_values = {}
    for missing in HOW:
        policy = AnytimeBAI(Problem(np.eye(2)), bounds=(0, 1), missing=missing)
        rng = np.random.default_rng(3)

        def pull(plan: Plan, rng: np.random.Generator = rng) -> Summary:
            full = clicks((0.6, 0.4), rng)(plan)
            lost = (full.counts + 3) // 4
            kept = full.counts - lost
            return Summary(
                kept, full.sums * kept / full.counts, full.sums * kept / full.counts, lost
            )

        play(policy, pull, plans=1)
        log_values[missing] = np.log(policy.evidence()[1])
    assert log_values["worst-case"] < log_values["ignorable"]


# --- open plans ------------------------------------------------------------------------------


def test_pulls_beyond_the_plan_count_whenever_they_come() -> None:
    """Told at once with their plan, or late while the next one is out: the same wealth."""
    problem = Problem(np.eye(2))
    rng = np.random.default_rng(4)
    at_once, later = (AnytimeBAI(problem, mean_bound=1) for _ in range(2))
    plan = at_once.plan()
    assert plan is not None
    asked, beyond = (
        clicks((0.7, 0.4), rng)(Plan.randomised(plan.weights, n, phase=1)) for n in (plan.pulls, 9)
    )
    both = Summary(
        asked.counts + beyond.counts, asked.sums + beyond.sums, asked.squares + beyond.squares
    )
    with pytest.raises(ProtocolError, match="No outcome of phase 1 is awaited"):
        later.amend(beyond, phase=1)
    at_once.update(both)
    later.update(asked)
    second = later.plan()
    later.amend(beyond, phase=1)
    assert later.plan() is second  # it is out already
    # Two totals bound the wealth of the same pulls a little better than one does.
    np.testing.assert_allclose(later.evidence(), at_once.evidence(), rtol=1e-3)
    assert later.recommend().pulls == at_once.recommend().pulls == plan.pulls + 9


def test_late_pulls_must_be_of_the_plan_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler_module, "LEAST_WEIGHT", 0.05)  # none is left for the middle arm
    policy = AnytimeBAI(Problem([[0.0], [0.1], [1.0]], [[0.0], [1.0]]), mean_bound=1)
    for _ in range(2):
        plan = policy.plan()
        assert plan is not None
        assert plan.weights is not None
        assert plan.weights[1] == 0
        counts = np.array([plan.pulls - 5, 0, 5])
        policy.update(Summary(counts, 0.5 * counts, 0.4 * counts))

    def zeros(*counts: int, lost: tuple[int, ...] = ()) -> Summary:
        none = np.zeros(len(counts))
        return Summary(np.array(counts), none, none, np.array(lost, dtype=np.int64))

    with pytest.raises(ProtocolError, match="covers 2 arms"):
        policy.amend(zeros(1, 1), phase=2)
    for drawn in (zeros(0, 1, 0), zeros(0, 0, 0, lost=(0, 1, 0))):
        with pytest.raises(ProtocolError, match="do not fit the plan"):
            policy.amend(drawn, phase=2)
    before = policy.recommend().pulls
    policy.amend(zeros(0, 0, 0), phase=2)
    policy.amend(zeros(1, 0, 2), phase=2)
    assert policy.recommend().pulls == before + 3
