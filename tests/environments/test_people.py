"""The micro-randomised world: what is known before the draw foretells the baseline."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from bestarm import AnytimeBAI, Plan, simulate
from bestarm.environments import MicroRandomised
from bestarm.environments.environment import AdjustableStream, Pulls
from bestarm.numerics.geometry import Array

EFFECTS = [0.3, 0.1, 0.0]


def pulls_of(world: MicroRandomised, size: int) -> Pulls:
    stream = world.begin(np.random.default_rng(2))
    assert isinstance(stream, AdjustableStream)
    kept: list[Pulls] = []

    def watch(pulls: Pulls, plan: Plan) -> Array:
        kept.append(pulls._replace(arms=pulls.arms.copy()))
        return np.zeros(len(pulls.arms))

    stream.pull_adjusted(Plan.randomised([0.5, 0.3, 0.2], size, phase=1), watch)
    parts = list(zip(*kept, strict=True))
    return Pulls(*(np.concatenate(part) for part in parts))


def test_rewards_are_effect_level_wave_and_noise() -> None:
    """20 000 pulls: estimates of a regression are within 0.06 of the truth (8 deviations)."""
    world = MicroRandomised(EFFECTS, measurement=0.0, per_day=150)
    pulls = pulls_of(world, 20_000)
    assert pulls.covariates is not None
    assert pulls.times is not None
    day = 2 * np.pi * pulls.times / 86_400
    columns = np.column_stack([np.eye(3)[pulls.arms], pulls.covariates, np.sin(day), np.cos(day)])
    found, *_ = np.linalg.lstsq(columns, pulls.rewards, rcond=None)
    np.testing.assert_allclose(found, [*EFFECTS, 1.0, 1.0, 0.0], atol=0.06)
    rest = pulls.rewards - columns @ found
    assert rest.std() == pytest.approx(1.0, abs=0.05)
    assert np.diff(pulls.times) == pytest.approx(86_400 / 150)


def test_baselines_lie_within_what_is_declared() -> None:
    world = MicroRandomised(EFFECTS, level=2.0, rhythm=0.5, noise=0.0)
    pulls = pulls_of(world, 5000)
    assert world.problem(0.1).baseline == 6.5
    assert np.abs(pulls.rewards - np.array(EFFECTS)[pulls.arms]).max() <= 6.5


def test_a_forecaster_that_is_told_saves_pulls() -> None:
    """Noise 1 of a variance of 2.5: what is predicted is most of the rest. 6 runs each."""
    world = MicroRandomised(EFFECTS, level=1.5, measurement=0.3, rhythm=1.0)
    rule = partial(AnytimeBAI, mean_bound=0.5)
    plain, adjusted = (
        simulate(rule, world, runs=6, delta=0.1, forecaster=f) for f in (None, "default")
    )
    assert adjusted.correct.all()
    assert adjusted.mean_pulls < 0.75 * plain.mean_pulls
