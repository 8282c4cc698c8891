"""Runs over people who are drawn at moments of a day."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bestarm.environments.environment import Pulls
from bestarm.environments.people import Crowd
from bestarm.environments.streams import BLOCK, DealtStream
from bestarm.numerics.geometry import Array
from bestarm.records import Plan, Summary

_DAY = 86_400.0  # seconds


class PeopleStream(DealtStream):
    """A run in which every pull draws a person, whose questionnaire is known beforehand."""

    def __init__(
        self, means: Array, crowd: Crowd, *, noise: float, rng: np.random.Generator
    ) -> None:
        super().__init__(means, noise=noise, rng=rng)
        self._crowd = crowd

    def _single_pulls(self, plan: Plan) -> Iterator[Pulls]:
        deal, crowd = self._deal(plan), self._crowd
        for start in range(0, plan.pulls, BLOCK):
            arms = self._arms[: min(plan.pulls - start, BLOCK)]
            deal(arms)
            days = (self._rounds + start + np.arange(len(arms))) / crowd.per_day
            who = self._baseline_rng.integers(len(crowd.levels), size=len(arms))
            baseline = crowd.levels[who] + crowd.rhythm * np.sin(2 * np.pi * days)
            rewards = self._noisy(self._means[arms] + baseline)
            yield Pulls(arms, rewards, crowd.measured[who], _DAY * days)

    def _carry_out(self, plan: Plan) -> Summary:
        return self._add_up(plan)
