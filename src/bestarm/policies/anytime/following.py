"""Whole runs of the anytime rule for simulations: the state of a run, handed to compiled code."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from bestarm.design.solver import SMALL_POOL
from bestarm.numerics.geometry import Array
from bestarm.policies.anytime.allocation import Stage
from bestarm.policies.anytime.bets import RARE
from bestarm.policies.anytime.contests import BestOf, Contest
from bestarm.policies.anytime.drawing import Drawing, Setting, Singles
from bestarm.policies.anytime.sampling import Sampling
from bestarm.presampled import PresampledRewards

_LONGEST = 2**18  # pulls; beyond, plans are so long that it does not matter who carries them out
_NO_CAP = 2**62


class Followed(NamedTuple):
    """What came of following: pulls, plans, and what `kernels.contradiction` said last."""

    pulls: int
    plans: int
    odd: int


class Follower:
    """Follows runs of a rule on the arrays that the rule keeps.

    Args:
        setting: what the rule is made from.
        contest: of its targets.
        way: draws its pulls.
    """

    def __init__(self, setting: Setting, contest: BestOf, way: Singles) -> None:
        self._setting, self._contest, self._way = setting, contest, way
        self._fixed: tuple[Any, ...] = ()
        self._words = np.empty(0, dtype=np.uint64)

    @classmethod
    def of(cls, setting: Setting, contest: Contest, way: Drawing) -> Follower | None:
        """One for a rule with these parts, or None if its runs cannot be followed.

        Compiled code knows single pulls, the best target, and designs that are solved at one go.
        """
        few = max(len(setting.arms), len(setting.targets)) <= SMALL_POOL
        if few and isinstance(contest, BestOf) and isinstance(way, Singles):
            return cls(setting, contest, way)
        return None

    def _begin(self, seed: int) -> None:
        setting = self._setting
        scale, grid = setting.assumptions.scale, setting.grid
        stakes = grid.signals, grid.gaps, grid.log_shares
        limits = setting.assumptions.limits(scale, scale.center)
        self._fixed = *self._way.fixed, stakes, scale.noise, _reaches(), limits
        self._words = np.array(np.random.SFC64(seed).state["state"]["state"], dtype=np.uint64)

    def follow(
        self, presampled: PresampledRewards, pulls: int, *, most: int | None, seed: int
    ) -> Followed:
        """Carry out plans as far as rewards known ahead allow.

        Args:
            presampled: the rewards.
            pulls: the pulls drawn so far.
            most: the pulls at which to stop, or None.
            seed: arms are drawn from it.
        """
        from bestarm.policies.anytime.running import Course, run  # noqa: PLC0415 - compiles

        if not self._fixed:
            self._begin(seed)
        at, contest, (stage, stage_numbers) = Course(), self._contest, self._stage()
        course = np.array([pulls, 0, _NO_CAP if most is None else most, *stage_numbers, -1])
        memory, arrays = tuple(self._way.guesses.memory), contest.arrays
        active, order, stage = run(
            presampled.all_parts,
            self._fixed,
            memory,
            arrays,
            contest.active,
            stage,
            course,
            self._words,
        )
        done = course.tolist()
        if done[at.plans]:
            contest.continue_with(active, order)
            key = (done[at.stage_leader],), done[at.stage_active]
            self._way.keep(Stage(Sampling.of(stage), key, done[at.stage_pulls]))
        return Followed(done[at.pulls] - pulls, done[at.plans], done[at.odd])

    def _stage(self) -> tuple[tuple[Any, ...], tuple[int, int, int]]:
        """The stage in force for compiled code, with its pulls, leader and number of targets."""
        from bestarm.policies.anytime.running import guide_draws  # noqa: PLC0415 - compiles

        stage = self._way.stage
        if stage is None:
            return _no_stage(self._fixed[0].shape[1]), (-1, 0, 0)
        (leader,), active = stage.key
        sampling = stage.sampling
        _, *parts = sampling.parts
        probabilities = np.array(sampling.probabilities)  # plans cannot be changed, arrays here can
        drawing = guide_draws(sampling.weights)
        return (probabilities, *parts, *drawing), (stage.pulls, leader, active)


@lru_cache(maxsize=16)
def _no_stage(rank: int) -> tuple[Any, ...]:
    """Empty arrays of the types of a stage."""
    none, indices = np.empty(0), np.empty(0, dtype=np.int64)
    tables = np.empty((0, rank)), np.empty((rank, rank)), np.empty((rank, 0))
    return none, indices, none, *tables, np.empty(0, dtype=np.uint64), indices


@lru_cache(maxsize=1)
def _reaches() -> Array:
    """k of `Scale.reach` after 0, 1, … pulls."""
    return np.asarray(-ndtri(RARE / np.sqrt(np.arange(1.0, _LONGEST + 1))))
