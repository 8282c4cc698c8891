"""How the anytime rule allocates pulls, and what it guesses of rewards."""

from __future__ import annotations

import numpy as np

from bestarm import AnytimeBAI, Problem, Summary
from bestarm.design import centered_g
from bestarm.policies.anytime.bets import Scale
from bestarm.policies.anytime.guesses import AT, Guesses


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
    guesses = Guesses(np.array([[-1.0], [0.1], [1.0]]), Scale(-2.0, 3.0))
    guesses.slope[:] = 100.0
    guesses.memory.numbers[AT.pulls] = 1
    assert guesses.rewards(50).tolist() == [-2.0, 3.0, 3.0]
