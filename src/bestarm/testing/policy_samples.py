"""Rewards, plans and summaries with which the contract of policies is tested."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from bestarm.numerics.geometry import Array
from bestarm.problem import Problem
from bestarm.records import BlockPlan, Plan, Rounds, Summary

Pull = Callable[[Plan, np.random.Generator], Summary]


class LinearRewards:
    """Carries out plans under rewards x·θ + small noise, no baseline, with a clear best target.

    The best target is the one farthest from the mean of the targets; θ points at it and is scaled
    so that its lead over the next is 0.4 times the problem's scale: small enough for an elimination
    method to need a second phase, large enough for the noise (1 % of the lead) not to matter.

    Args:
        problem: the problem to simulate.
    """

    def __init__(self, problem: Problem) -> None:
        coordinates = problem.span.contrast_coordinates(problem.target - problem.target[0])
        centered = coordinates - coordinates.mean(axis=0)
        self.best = int(np.argmax(np.einsum("ij,ij->i", centered, centered)))
        theta = problem.span.dual @ centered[self.best]
        values = problem.target @ theta
        lead = values[self.best] - np.delete(values, self.best).max()
        self.means: Array = problem.source @ theta * (0.4 * problem.scale / lead)
        self.noise = 0.004 * problem.scale

    def __call__(self, plan: Plan, rng: np.random.Generator) -> Summary:
        """Draw the totals of a plan's pulls, with their exact distribution."""
        if isinstance(plan, BlockPlan):
            return self._rounds(plan, rng)
        counts = plan.counts
        if counts is None:
            assert plan.weights is not None
            counts, drawn = np.zeros(plan.arms, dtype=np.int64), np.flatnonzero(plan.weights)
            chances = plan.weights[drawn]
            counts[drawn] = rng.multinomial(plan.pulls, chances / chances.sum())
        # Over n pulls the noise has Σ η = √n g and Σ η² = g² + χ²(n − 1), with g normal.
        normal = rng.standard_normal(len(counts)) * (counts > 0)
        spread = rng.chisquare(np.maximum(counts - 1, 1)) * (counts > 1)
        noise = self.noise * np.sqrt(counts) * normal
        return Summary(
            counts,
            counts * self.means + noise,
            counts * self.means**2 + 2 * self.means * noise + self.noise**2 * (normal**2 + spread),
        )

    def _rounds(self, plan: BlockPlan, rng: np.random.Generator) -> Rounds:
        kinds = rng.choice(len(plan.blocks), size=plan.rounds, p=plan.block_weights)
        means = self.means[plan.blocks[kinds]]
        return Rounds.of(plan, kinds, means + self.noise * rng.standard_normal(means.shape))


def copied_plan(plan: Plan) -> Plan:
    """The plan as a store would return it: equal, in new arrays."""
    if isinstance(plan, BlockPlan):
        blocks, chances = np.array(plan.blocks), np.array(plan.block_weights)
        return replace(plan, blocks=blocks, block_weights=chances)
    weights = None if plan.weights is None else np.array(plan.weights)
    counts = None if plan.counts is None else np.array(plan.counts)
    return replace(plan, weights=weights, counts=counts)


def altered_plan(plan: Plan) -> Plan:
    """A plan for the same arms with twice the pulls and other probabilities.

    A plan of one pull, which is all that some policies can make, pulls another arm.
    """
    if isinstance(plan, BlockPlan):
        chances = plan.block_weights * (1 + np.arange(len(plan.blocks)) / len(plan.blocks))
        return replace(plan, pulls=2 * plan.pulls, block_weights=chances / chances.sum())
    if plan.weights is None and plan.pulls == 1:
        return replace(plan, counts=np.roll(np.array(plan.counts), 1))
    if plan.weights is None:
        return replace(plan, pulls=2 * plan.pulls, counts=2 * np.array(plan.counts))
    weights = plan.weights * (1 + np.arange(plan.arms) / plan.arms)
    return replace(plan, pulls=2 * plan.pulls, weights=weights / weights.sum())


def widened_plan(plan: Plan) -> Plan:
    """The plan with one more arm, which is not pulled."""
    weights = None if plan.weights is None else np.append(plan.weights, 0.0)
    counts = None if plan.counts is None else np.append(plan.counts, 0)
    return replace(plan, weights=weights, counts=counts)


def wrong_summaries(plan: Plan, summary: Summary) -> Iterator[tuple[str, Summary]]:
    """Summaries that cannot be the outcome of a plan, each with its fault."""
    if isinstance(plan, BlockPlan) and isinstance(summary, Rounds):
        yield from _wrong_rounds(plan, summary)
        return
    counts, sums, squares = summary.counts, summary.sums, summary.squares
    pulled = int(np.argmax(counts))
    one = (np.arange(plan.arms) == pulled).astype(int)
    if not plan.open:
        yield "a summary with one pull too many", Summary(counts + one, sums, squares)
    yield "a summary with one pull too few", Summary(counts - one, sums, squares)
    counted, summed, squared = (np.append(part, 0) for part in (counts, sums, squares))
    yield "a summary with an arm too many", Summary(counted, summed, squared)
    yield "a summary with an arm too few", Summary(counts[1:], sums[1:], squares[1:])
    # Pulls moved to an arm that the plan does not pull, or not that often.
    other = np.arange(plan.arms) == (pulled + 1) % plan.arms
    if plan.weights is not None:
        other = np.arange(plan.arms) == np.argmin(plan.weights)
    if plan.weights is None or plan.weights.min() == 0:
        yield (
            "a summary with a pull on another arm than planned",
            Summary(counts - one + other, sums, squares),
        )


def _wrong_rounds(plan: BlockPlan, rounds: Rounds) -> Iterator[tuple[str, Summary]]:
    yield "totals for rounds", Summary(rounds.counts, rounds.sums, rounds.squares)
    short = Rounds.of(plan, rounds.kinds[1:], rounds.table[1:])
    yield "one round too few", short
    wider = replace(plan, weights=np.zeros(plan.arms + 1))
    yield "rounds with an arm too many", Rounds.of(wider, rounds.kinds, rounds.table)
    blocks = plan.arms - 1 - plan.blocks[:, ::-1]
    if not np.array_equal(blocks, plan.blocks):
        mirrored = replace(plan, blocks=blocks)
        yield "rounds of other blocks", Rounds.of(mirrored, rounds.kinds, rounds.table)
