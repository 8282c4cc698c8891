"""Guesses from rounds: θ by regression within blocks, and how noisy rewards are there."""

from __future__ import annotations

import numpy as np

from bestarm.numerics.geometry import Array
from bestarm.policies.anytime.bets import Scale
from bestarm.policies.anytime.block_bets import BlockOutcome

_RIDGE = 1.0  # rounds of the first batch's design, with equal rewards
_MEMORY = 0.96  # what a batch before counts towards the variance to come


class BlockGuesses:
    """Estimates from the rounds so far. The rule is valid whatever they are.

    Attributes:
        rounds: the number of rounds learned from.
        slope: θ̂ in coordinates of the span.
        information: Σ A_B over the rounds, with a ridge.
        variance: the expected squared residual of a reward within its block.

    Args:
        coordinates: the source arms, in coordinates of their span.
        scale: where rewards lie.
    """

    def __init__(self, coordinates: Array, scale: Scale) -> None:
        rank = coordinates.shape[1]
        half = (scale.high - scale.low) / 2
        self._coordinates, self._least = coordinates, scale.noise**2 or half**2
        self.rounds = 0
        self.slope: Array = np.zeros(rank)
        self.information: Array = np.zeros((rank, rank))
        self._moment: Array = np.zeros(rank)
        self._squares = self._freedom = 0.0
        self.variance = half**2 + scale.noise**2

    def learn(self, batch: BlockOutcome) -> None:
        """Take in a batch's outcome."""
        if not batch.freedom:
            return
        if not self.rounds:
            sampling = batch.frame.sampling
            points = self._coordinates[sampling.arms]
            self.information = self.information + _RIDGE * (points.T @ sampling.laplacian @ points)
        self._squares *= _MEMORY
        self._freedom *= _MEMORY
        self._add(batch, 1)

    def relearn(self, before: BlockOutcome, after: BlockOutcome) -> None:
        """Put what a batch says now in the place of what it said before."""
        if not before.freedom:
            self.learn(after)
            return
        self._add(before, -1)
        self._add(after, 1)

    def _add(self, batch: BlockOutcome, sign: int) -> None:
        from bestarm.policies.anytime.block_kernels import learn  # noqa: PLC0415 - compiles

        arms = batch.frame.sampling.arms
        laplacian, sums = np.zeros((len(arms), len(arms))), np.zeros(len(arms))
        rounds = batch.members, batch.summary.table, batch.entered
        learn(*rounds, batch.residuals, (laplacian, sums))
        points = self._coordinates[arms]
        information = points.T @ laplacian @ points
        self.information = self.information + sign * information
        self._moment = self._moment + sign * (points.T @ sums + information @ batch.frame.slope)
        self.slope = np.asarray(np.linalg.solve(self.information, self._moment), dtype=float)
        self.rounds += sign * batch.summary.rounds
        self._squares = max(self._squares + sign * batch.squares, 0.0)
        self._freedom += sign * batch.freedom
        # Rewards that did not vary at all say no more than that they vary less than once in n.
        least = self._least / max(self.rounds, 1)
        self.variance = max(self._squares / self._freedom, least) if self._freedom > 0 else least
