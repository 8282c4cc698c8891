"""The contract passes correct policies, and fails a copy broken in one place, for every law."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import numpy as np
import pytest
from broken_policies import BROKEN, Broken, TakesAnyArm
from halving_policies import PROBLEM, FixedHalving, Halving
from hypothesis import given, settings
from hypothesis import strategies as st

from bestarm.problem import Problem
from bestarm.records import Plan, Summary
from bestarm.testing import LinearRewards, check_policy


@pytest.mark.parametrize("method", [Halving, FixedHalving, partial(Halving, pulls=1000, phases=1)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_correct_policy_passes(method: Any, seed: int) -> None:
    check_policy(method, PROBLEM, seed=seed)
    check_policy(method, Problem(np.eye(5), noise=2.0), seed=seed)
    check_policy(method, Problem(1e6 + np.array([[0.0], [1e-3], [2e-3]])), seed=seed)


def test_a_policy_with_nothing_to_do_passes() -> None:
    class Knows(Halving):
        def __init__(self, problem: Problem, *, seed: int) -> None:
            super().__init__(problem, seed=seed)
            self.active = [LinearRewards(problem).best]

    check_policy(Knows, PROBLEM)


def test_pulls_can_be_supplied() -> None:
    plans = []
    rewards = LinearRewards(PROBLEM)

    def pull(plan: Plan, rng: np.random.Generator) -> Summary:
        plans.append(plan)
        return rewards(plan, rng)

    check_policy(Halving, PROBLEM, pull=pull)
    assert [plan.phase for plan in plans] == [1, 2] * 3  # twice more, under plans made elsewhere


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.law)
def test_a_broken_policy_fails_for_the_right_reason(broken: Broken) -> None:
    with pytest.raises(AssertionError) as caught:
        check_policy(broken.policy, PROBLEM, max_plans=40)
    assert broken.words in str(caught.value)
    assert str(caught.value).endswith(".")


def test_errors_come_with_the_lines_that_repeat_them() -> None:
    class Failing(Halving):
        def update(self, summary: Summary) -> None:
            if self.recommend().pulls:  # in its second phase
                raise ArithmeticError(f"no luck with {summary.sums.tolist()}")
            super().update(summary)

    for method, kind in ((BROKEN[1].policy, AssertionError), (Failing, ArithmeticError)):
        with pytest.raises(kind) as caught:
            check_policy(method, PROBLEM, seed=3, max_plans=40)
        (note,) = caught.value.__notes__
        names: dict[str, Any] = {"Problem": Problem, "Summary": Summary, "method": method}
        lines = note.splitlines()[1:]
        assert lines[1] == "policy = method(problem, seed=3)"
        if kind is AssertionError:
            exec("\n".join(lines[:2]), names)
            assert np.array_equal(names["problem"].source, PROBLEM.source)
        else:
            with pytest.raises(ArithmeticError, match=re.escape(str(caught.value))):
                exec("\n".join(lines), names)


def test_fixed_counts_must_be_kept_to_the_arm() -> None:
    class TakesAnyFixedArm(TakesAnyArm):
        planned = "fixed"

    with pytest.raises(AssertionError, match="another arm than planned"):
        check_policy(TakesAnyFixedArm, PROBLEM)


def test_linear_rewards_have_the_law_they_claim() -> None:
    """Fixed seed; each of the bounds is 4.5 standard errors wide: false alarm < 10⁻⁴ in all."""
    rewards = LinearRewards(PROBLEM)
    rng, repeats, n = np.random.default_rng(0), 4000, 6
    plan = Plan.fixed([n, 0, 1, 2], phase=1)
    draws = [rewards(plan, rng) for _ in range(repeats)]
    sums = np.array([d.sums for d in draws])
    within = np.array([d.squares[0] - d.sums[0] ** 2 / n for d in draws]) / rewards.noise**2
    spread = np.sqrt(n) * rewards.noise
    assert abs(sums[:, 0].mean() - n * rewards.means[0]) < 4.5 * spread / np.sqrt(repeats)
    assert abs(sums[:, 0].var() / spread**2 - 1) < 4.5 * np.sqrt(2 / repeats)
    assert abs(within.mean() - (n - 1)) < 4.5 * np.sqrt(2 * (n - 1) / repeats)
    assert (sums[:, 1] == 0).all()
    single = np.array([[d.sums[2], d.squares[2]] for d in draws])
    np.testing.assert_allclose(single[:, 1], single[:, 0] ** 2)


@given(
    features=st.lists(
        st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=3, max_size=12, unique=True
    )
)
@settings(max_examples=50, deadline=None)
def test_linear_rewards_have_a_clear_best(features: list[tuple[int, int]]) -> None:
    problem = Problem(features)
    rewards = LinearRewards(problem)
    lead = rewards.means[rewards.best] - np.delete(rewards.means, rewards.best).max()
    assert lead == pytest.approx(0.4 * problem.scale)
