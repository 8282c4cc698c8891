"""A micro-randomised world: people with levels of their own, and a rhythm of the day."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from bestarm.checks import not_negative, positive, vector, whole
from bestarm.environments.environment import FixedWorld, Pulls, Stream
from bestarm.environments.streams import BaseStream
from bestarm.problem import Problem
from bestarm.records import Plan

_FARTHEST = 3.0  # deviations: levels beyond are cut off, so that a bound on the baseline is known
_DAY = 86_400.0  # seconds


class MicroRandomised(FixedWorld):
    """Decisions during the day of many people: option a pays its effect, a level and noise.

    At each decision one of the people is drawn. The baseline is that person's level plus a wave
    with the period of a day. Before the draw two things are known: the moment, and the outcome of a
    questionnaire, a noisy measure of the person's level. A policy is told neither; a forecaster is.

    Args:
        effects: what each option pays beyond the baseline.
        people: how many there are.
        level: the standard deviation of their levels.
        measurement: the standard deviation of the error of the questionnaire.
        rhythm: the amplitude of the wave.
        per_day: decisions per day.
        noise: the standard deviation of the noise.
        labels: one name per option.
        seed: of the people, who are the same in every run.
        name: its name in results and tables.

    Example:
        >>> from bestarm.environments import MicroRandomised
        >>> MicroRandomised([0.2, 0.0]).problem(0.1).baseline
        4.0
    """

    def __init__(
        self,
        effects: object,
        *,
        people: int = 500,
        level: float = 1.0,
        measurement: float = 0.5,
        rhythm: float = 1.0,
        per_day: float = 200.0,
        noise: float = 1.0,
        labels: Sequence[object] | None = None,
        seed: int = 0,
        name: str = "micro-randomised",
    ) -> None:
        self._means = vector(effects, "effects")
        self._means.flags.writeable = False
        self._noise = not_negative(noise, "noise")
        spread, self._rhythm = not_negative(level, "level"), not_negative(rhythm, "rhythm")
        self._per_day = positive(per_day, "per_day")
        rng = np.random.default_rng(whole(seed, "seed", least=0))
        size = whole(people, "people", least=1)
        self._levels = spread * np.clip(rng.standard_normal(size), -_FARTHEST, _FARTHEST)
        error = not_negative(measurement, "measurement") * rng.standard_normal(size)
        self._measured = (self._levels + error)[:, None]
        bound = _FARTHEST * spread + self._rhythm
        features = np.eye(len(self._means))
        template = Problem(features, noise=self._noise, baseline=bound, source_labels=labels)
        means = self._means
        super().__init__(name, template, means, means=means, rounding=0.0, field="effects")

    def begin(self, rng: np.random.Generator) -> Stream:
        """Start a run at midnight of the first day."""
        return _PeopleStream(self, rng)


class _PeopleStream(BaseStream):
    """A run in which every pull draws a person, whose questionnaire is known beforehand."""

    def __init__(self, world: MicroRandomised, rng: np.random.Generator) -> None:
        super().__init__(world._means, noise=world._noise, rng=rng)
        self._world = world

    def _single_pulls(self, plan: Plan) -> Iterator[Pulls]:
        world = self._world
        start = self._rounds
        for arms in self._arms_in_order(plan):
            days = (start + np.arange(len(arms))) / world._per_day
            start += len(arms)
            person = self._baseline_rng.integers(len(world._levels), size=len(arms))
            baseline = world._levels[person] + world._rhythm * np.sin(2 * np.pi * days)
            rewards = self._add_noise(self._means[arms] + baseline)
            yield Pulls(arms, rewards, world._measured[person], _DAY * days)
