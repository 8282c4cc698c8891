"""How the anytime rule allocates pulls, and what it guesses of rewards."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np

from bestarm import AnytimeBAI, Problem, Summary
from bestarm.design import centered_g
from bestarm.policies.anytime.bets import BatchOutcome, Sampling, Scale
from bestarm.policies.anytime.estimates import SCALARS, Estimates


def test_every_plan_keeps_a_share_of_the_design_for_all_arms() -> None:
    """Without it the weights of arms that seem not to matter, and with them all falls, are endless.

    Two arms are far behind and soon dropped: the design for what is open gives them nothing.
    """
    rng = np.random.default_rng(2)
    problem = Problem(np.eye(4))
    policy = AnytimeBAI(problem, bounds=(0, 1))
    design = centered_g(problem.source, tol=1e-6).weights
    last = design
    for _ in range(40):
        plan = policy.plan()
        assert plan is not None
        assert plan.weights is not None
        assert (plan.weights >= 0.02 * design * 0.9).all()  # designs are good to 5 %
        last = plan.weights
        counts = rng.multinomial(plan.pulls, last)
        yes = rng.binomial(counts, [0.55, 0.5, 0.05, 0.05]).astype(float)
        policy.update(Summary(counts, yes, yes))
    assert policy.recommend().active == (0, 1)
    assert last[2:].max() < 0.02


def test_guesses_lie_where_rewards_can() -> None:
    """What lies outside is never paid: the guess would only lengthen the falls to allow for."""
    estimates = Estimates(np.array([[-1.0], [0.1], [1.0]]), Scale(-2.0, 3.0))
    estimates.slope[:] = 100.0
    estimates.state.scalars[SCALARS.pulls] = 1
    assert estimates.rewards(50).tolist() == [-2.0, 3.0, 3.0]


def learned_spread(*rewards: list[float], level: float, batches: int = 1) -> list[float]:
    """What is expected of (r − c)² of each arm after batches of these, c being the level."""
    problem = Problem(np.eye(len(rewards)))
    estimates = Estimates(problem.span.coordinates(problem.source), Scale(0.0, 1.0))
    p = np.full(len(rewards), 1 / len(rewards))
    sampling = Sampling(estimates.coordinates, p, np.ones(len(rewards)))
    frame = SimpleNamespace(sampling=sampling, guess=np.full(len(rewards), level))
    off = [np.array(each) - level for each in rewards]
    counts = np.array([len(each) for each in rewards], dtype=float)
    first, second, third = (np.array([(each**k).sum() for each in off]) for k in (1, 2, 3))
    totals = SimpleNamespace(counts=counts, first=first, second=second, third=third)
    for _ in range(batches):
        estimates.learn(cast(BatchOutcome, SimpleNamespace(frame=frame, totals=totals)))
    return [float(each) for each in estimates.spread]


def test_an_arm_without_clicks_so_far_is_not_taken_for_a_quiet_one() -> None:
    """It would hardly be pulled, and if it is the best, stay unknown for long."""
    lucky, unlucky, usual = learned_spread(
        [1.0] * 4 + [0.0] * 96, [0.0] * 100, [1.0] * 2 + [0.0] * 98, level=0.02
    )
    assert unlucky > usual / 2 > lucky / 4


def test_an_arm_that_varies_little_is_soon_known_to() -> None:
    """Its own rewards, each small and none of them rare, tell it from arms with rare clicks."""
    clicks, coins = learned_spread(
        [1.0] * 8 + [0.0] * 392, [0.05, 0.0, 0.0, 0.05, 0.0] * 80, level=0.02
    )
    assert clicks > 0.01
    assert coins < 0.005


def test_arms_whose_rewards_vary_evenly_have_their_own_spread() -> None:
    wide, narrow = learned_spread([0.0, 1.0] * 50, [0.4, 0.6] * 50, level=0.5, batches=4)
    assert 0.2 < wide < 0.3
    assert 0.01 < narrow < 0.04
