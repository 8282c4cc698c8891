"""Runs in worlds whose baseline reacts to the rewards."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bestarm.environments import kernels
from bestarm.environments.environment import Pulls
from bestarm.environments.streams import BLOCK, DealtStream
from bestarm.numerics.geometry import Array
from bestarm.presampled import AdversaryState, PresampledRewards
from bestarm.records import Plan, Summary


class ReactingStream(DealtStream):
    """A run against the adaptive adversary of `baselines.adversary`: one pull at a time."""

    def __init__(
        self, means: Array, *, bound: float, noise: float, rng: np.random.Generator
    ) -> None:
        super().__init__(means, noise=noise, rng=rng)
        self._bound = bound
        self._past = AdversaryState.empty(len(means))

    def presample(self, rounds: int) -> PresampledRewards | None:
        """Rewards of the next rounds, but for the adversary's baseline, which is added to them."""
        return self._shared(np.zeros(rounds))._replace(bound=self._bound, past=self._past)

    def _carry_out(self, plan: Plan) -> Summary:
        return self._add_up(plan)

    def _single_pulls(self, plan: Plan) -> Iterator[Pulls]:
        deal = self._deal(plan)
        for start in range(0, plan.pulls, BLOCK):
            arms = self._arms[: min(plan.pulls - start, BLOCK)]
            deal(arms)
            rewards = self._noisy(np.zeros(len(arms)))
            kernels.react(arms, self._means, self._bound, tuple(self._past), rewards)
            yield Pulls(arms, rewards)
