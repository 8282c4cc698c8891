"""Regret: the gaps of the arms pulled, added up."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from bestarm import Problem
from bestarm.environments import Semiparametric
from bestarm.environments.fixed import FixedWorld
from bestarm.errors import InvalidInputError
from bestarm.policies import LUCB, Uniform
from bestarm.simulation import regret


def test_regret_adds_up_the_gaps_of_pulled_arms() -> None:
    world = Semiparametric(np.eye(3), [1.0, 0.6, 0.0], baseline=np.sin)
    found = regret(partial(Uniform, budget=300), world, runs=2, seed=0)
    np.testing.assert_allclose(found, 100 * 0.4 + 100 * 1.0)


def test_a_rule_that_follows_is_counted_as_well() -> None:
    world = Semiparametric(np.eye(2), [0.5, 0.0])
    found = regret(partial(LUCB, sigma=5.0, max_pulls=200), world, runs=3)
    np.testing.assert_allclose(found, 100 * 0.5)  # both arms in every round, up to the cap


def test_regret_needs_a_world_with_known_means() -> None:
    class Unknown(FixedWorld):
        def begin(self, rng: np.random.Generator) -> None:
            """No run is made."""

    world = Unknown("unknown", Problem(np.eye(2)), np.array([0.0, 1.0]), rounding=0.0, field="x")

    with pytest.raises(InvalidInputError, match="means"):
        regret(partial(Uniform, budget=3), world, runs=1)  # type: ignore[arg-type]
