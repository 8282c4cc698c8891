"""Where to pull next: the design for the contrasts that still want evidence."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from bestarm.design import centered_g, linear_g
from bestarm.design.solver import SMALL_POOL, ListedContrasts, minimise
from bestarm.errors import ProtocolError
from bestarm.numerics.geometry import Array
from bestarm.policies.anytime.contests import OpenContrasts
from bestarm.policies.anytime.guesses import Guesses
from bestarm.policies.anytime.sampling import Sampling
from bestarm.problem import Problem
from bestarm.records import Plan

SHARE = 0.02  # of the G-design: it keeps every contrast, and the bound C, within reach
SURE = 2.0  # standard errors: gaps are not believed to be smaller than this
AGAIN = 2.0  # pulls or rounds, relative to those at the last design, after which to design anew, …
SOON = 1.2  # … and if other contrasts are open than then
TOL = 0.05  # how far from its optimum a design may be: estimates are farther from the truth
LEAST_WEIGHT = 1e-6
_SINGULAR = 1e-13  # a scale of Σ_cov,p, relative to the largest, that is zero but for rounding


Key = tuple[tuple[int, ...], int]


class Stage(NamedTuple):
    """How arms are drawn from one design to the next.

    Attributes:
        sampling: how they are drawn.
        key: which contrasts were open when it was designed: the targets chosen, and how many were
            left.
        pulls: how many pulls there were then.
    """

    sampling: Sampling
    key: Key
    pulls: int


class Allocation:
    """Minimises max over y of need_y ‖y‖² / gap_y² under Σ_cov,p⁻¹, from estimates so far.

    A contrast with variance factor ‖y‖² gathers evidence at a rate of gap² / (2 s² ‖y‖²) a pull, so
    this is the design under which the last of them has what it needs soonest. Arms whose rewards
    vary more count for less: their features are divided by their deviation.

    Attributes:
        features: φ of every source arm.
        stage_in_force: how the last batch was drawn; None before the first.

    Args:
        problem: the problem.
        coordinates: its source arms, in coordinates of their span.
        features: φ of each: (1, x) if there is a baseline, else x.
    """

    def __init__(self, problem: Problem, coordinates: Array, features: Array) -> None:
        self._problem = problem
        self._intercept = problem.drifts
        self._coordinates = coordinates
        self.features = features
        self.stage_in_force: Stage | None = None

    def weights(
        self, guesses: Guesses, *, wanted: Callable[[], OpenContrasts], margin: float, key: Key
    ) -> Array:
        """The probabilities to draw the next batch with: the last design's, or a new one's.

        Args:
            guesses: what is known so far.
            wanted: gives the open contrasts, each believed to be positive; asked where they matter.
            margin: what is added to each one's estimate.
            key: it changes when other contrasts are open.
        """
        if self.stage_in_force is not None and not self._due(guesses, key):
            return self.stage_in_force.sampling.probabilities
        if not guesses.pulls:
            return spread_out(self._problem)
        return self._design(guesses, wanted(), margin)

    def _due(self, guesses: Guesses, key: Key) -> bool:
        """Whether it is time to design anew."""
        if self.stage_in_force is None:
            return True
        ratio = AGAIN if self.stage_in_force.key == key else SOON
        return guesses.pulls >= ratio * self.stage_in_force.pulls

    def stage(self, plan: Plan, guesses: Guesses, key: Key) -> Stage:
        """How the batch of a plan is drawn, wherever its probabilities were computed.

        Contrasts are read off a batch as they were off the last one if it has the same
        probabilities, and by the spread known now if it does not: so this follows from the plans
        and summaries on record. Nothing is changed before `keep`.
        """
        last, weights = self.stage_in_force, plan.weights
        assert weights is not None
        same = last is not None and (
            weights is last.sampling.probabilities
            or np.array_equal(weights, last.sampling.probabilities)
        )
        if last is not None and same and not self._due(guesses, key):
            return last
        if last is not None and same:
            return Stage(last.sampling, key, guesses.pulls)
        sampling = Sampling(self._coordinates, weights, guesses.spread, intercept=self._intercept)
        arms = self._coordinates - (weights @ self._coordinates if self._intercept else 0.0)
        scales = np.linalg.eigvalsh(arms.T @ (weights[:, None] * arms))
        if scales[0] <= _SINGULAR * scales[-1]:
            raise ProtocolError(
                f"The arms that the plan of phase {plan.phase} draws do not inform about all "
                "contrasts.",
                field="plan",
                value=plan.phase,
                remedy="Adopt a plan that this policy made for this problem.",
            )
        return Stage(sampling, key, guesses.pulls)

    def keep(self, stage: Stage) -> None:
        """Note how the batch was drawn that was just told."""
        self.stage_in_force = stage

    def _design(self, guesses: Guesses, wanted: OpenContrasts, margin: float) -> Array:
        from bestarm.policies.anytime import allocating  # noqa: PLC0415 - compiles

        known = guesses.information, guesses.slope, margin, SURE
        posed = allocating.pose(self.features, guesses.spread, *wanted, known)
        few = max(map(len, posed)) <= SMALL_POOL
        certified, weights = allocating.minimised(*posed) if few else (False, np.empty(0))
        if not certified:
            features, rows = posed
            weights = minimise(features, ListedContrasts(rows), TOL).weights.copy()
        # Copies: for arrays that cannot be changed it would be compiled once more.
        plain = spread_out(self._problem).copy()
        return allocating.mixed(weights, plain, SHARE, LEAST_WEIGHT)


@lru_cache(maxsize=128)
def spread_out(problem: Problem) -> Array:
    """The G-design of a problem: centered, unless there is no baseline."""
    design = centered_g if problem.drifts else linear_g
    weights = design(problem.source, tol=TOL).weights
    weights = np.where(weights < LEAST_WEIGHT, 0.0, weights)
    weights = weights / weights.sum()
    weights.flags.writeable = False
    return np.asarray(weights)
