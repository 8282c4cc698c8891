"""LUCB: pull the leader and its closest challenger until their bounds separate."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from copy import copy
from dataclasses import replace
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bestarm.numerics.geometry import Array, Indices
from bestarm.policies.policy import Group, GroupForecaster, Traits
from bestarm.policies.rounds import RoundRule
from bestarm.presampled import PresampledRewards, RewardsAhead
from bestarm.recommendation import Recommendation


class LUCB(RoundRule):
    """Each round pulls the arm with the best mean and the other arm with the highest upper bound.

    With `radius="certified"` and a σ that is true, δ-correct for rewards that are σ-sub-Gaussian
    around fixed arm means, given the past. For bounded rewards, `bounds.sub_gaussian_scale` gives
    such a σ. A baseline that drifts or reacts breaks the guarantee, because arms are pulled at
    different times; one that is independent from round to round is noise, which σ must cover.
    The published radius (`"lil"`) is smaller than its theorem allows: with it nothing is proven.

    Args:
        problem: the problem; its targets must be its source arms, and its features are not used.
        sigma: the sub-Gaussian scale it assumes.
        radius: `"lil"` as published, or `"certified"`, with a proof at the level of δ.
        max_pulls: stop at this many pulls; such a stop is never final.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.policies import LUCB
        >>> LUCB(Problem(["a", "b", "c"]), sigma=0.5).plan().counts.tolist()
        [1, 1, 1]

    Reference: Kalyanakrishnan et al. (2012); Jamieson and Nowak (2014), with its lil radius.
    """

    version: ClassVar[int] = 1

    @property
    def traits(self) -> Traits:
        """What the policy declares about itself."""
        return replace(super().traits, side_by_side=True)

    def like(self) -> Hashable:
        """Features do not matter: runs of different problems may stand side by side."""
        return LUCB, self.problem.arms, self._radius, self._max_pulls

    def group(
        self,
        seeds: Sequence[int],
        forecaster: GroupForecaster | None = None,  # noqa: ARG002
    ) -> Group:
        """Runs of this policy side by side."""
        return _LUCBGroup(self, len(seeds))

    def _decide(self) -> None:
        means, radii = self._sums / self._counts, self._radius.after(self._counts)
        pairs, separated = leader_and_challenger(means[None], radii[None])
        self._round = pairs[0]
        if separated[0]:
            self._active = self._round[:1].copy()

    def _recommend_of(self, end: _RunEnd, *, plans: int) -> Recommendation:
        """What this rule would recommend after a run of a group that ended like this."""
        rule, pulls = copy(self), int(end.counts.sum())
        rule._counts, rule._sums, rule._answered = end.counts, end.sums, set()
        rule._note_answered(end.counts)
        reason = rule._reason()
        if end.identified:
            rule._active, reason = np.array([rule._leader]), "identified"
        rule._end_plans(plans, pulls, pulls, reason)
        return rule.recommend()


def leader_and_challenger(means: Array, radii: Array) -> tuple[Indices, NDArray[np.bool_]]:
    """The leader and its challenger in each run, and whether their bounds separate.

    Means and radii are (runs, arms).
    """
    runs = np.arange(len(means))
    leaders, upper = means.argmax(axis=1), means + radii
    upper[runs, leaders] = -np.inf
    challengers = upper.argmax(axis=1)
    lower = means[runs, leaders] - radii[runs, leaders]
    # Stop once the lower bound of the leader exceeds the upper bound of the challenger.
    return np.stack([leaders, challengers], axis=1), lower > upper[runs, challengers]


class _RunEnd(NamedTuple):
    """What a run ended with.

    Attributes:
        counts: pulls per arm.
        sums: the sum of their rewards.
        identified: whether bounds separated.
    """

    counts: Indices
    sums: Array
    identified: bool


class _LUCBGroup:
    """Runs of LUCB side by side. All that have not stopped are in the same round.

    Attributes:
        running: which runs have not stopped.
        pulls: pulls so far.
        plans: plans so far.
    """

    def __init__(self, rule: LUCB, runs: int) -> None:
        self._rule, arms = rule, rule.problem.arms
        self._most, self._radius = rule._max_pulls, rule._radius
        self.running = np.ones(runs, np.bool_)
        self.pulls, self.plans = np.zeros((2, runs), dtype=np.int64)
        self._ends: dict[int, _RunEnd] = {}
        self._live = np.arange(runs)  # the runs that have not stopped
        self._pulls_each = self._rounds_each = 0  # of these, which have made the same number
        # What follows has an entry for each of these.
        self._counts = np.zeros((runs, arms), dtype=np.int64)
        self._sums, self._means, self._radii = np.zeros((3, runs, arms))
        self._next = np.tile(np.arange(arms), (runs, 1))  # the arms to pull
        self._ahead = RewardsAhead(runs)

    def run_presampled(self, runs: Indices, rewards: Sequence[PresampledRewards]) -> None:
        """Give these runs rewards of pulls to come, and make rounds until one lacks some."""
        self._ahead.put(np.searchsorted(self._live, runs), rewards)
        while len(self._live) and self._ahead.left.min() >= self._next_size():
            self._make_round()

    def wanted(self) -> dict[int, tuple[int, int]]:
        """For each run that lacks rewards: how many it used of the last ones, and needs next."""
        size, ahead = self._next_size(), self._ahead
        lacking = np.flatnonzero(ahead.left < size)
        return {int(self._live[each]): (int(ahead.used[each]), size) for each in lacking}

    def _next_size(self) -> int:
        """The pulls of the next round, which the cap may cut short."""
        whole: int = self._next.shape[1]
        return whole if self._most is None else min(whole, self._most - self._pulls_each)

    def _make_round(self) -> None:
        size, whole = self._next_size(), self._next.shape[1]
        arms = np.sort(self._next[:, :size], axis=1)  # as a fixed plan is pulled
        # Places in arrays of (runs, arms) laid out flat: found in half the time of pairs.
        at = np.arange(len(arms))[:, None] * self._counts.shape[1] + arms
        counts, sums = (part.reshape(-1) for part in (self._counts, self._sums))
        pulls, paid = counts[at] + 1, sums[at] + self._ahead.pull_equally(arms)
        counts[at], sums[at] = pulls, paid
        self._pulls_each += size
        self._rounds_each += 1
        identified = np.zeros(len(arms), np.bool_)
        if size == whole:
            self._means.reshape(-1)[at] = paid / pulls
            self._radii.reshape(-1)[at] = self._radius.after(pulls)
            self._next, identified = leader_and_challenger(self._means, self._radii)
        if self._pulls_each == self._most:
            self._end(np.ones(len(arms), np.bool_), identified)
        elif identified.any():
            self._end(identified, identified)

    def _end(self, over: NDArray[np.bool_], identified: NDArray[np.bool_]) -> None:
        """Note how runs ended, and go on without them."""
        for run in np.flatnonzero(over):
            end = _RunEnd(self._counts[run].copy(), self._sums[run].copy(), bool(identified[run]))
            self._ends[int(self._live[run])] = end
        ended, kept = self._live[over], np.flatnonzero(~over)
        self.running[ended] = False
        self.pulls[ended], self.plans[ended] = self._pulls_each, self._rounds_each
        self._live, self._next, self._counts = (
            part[kept] for part in (self._live, self._next, self._counts)
        )
        self._sums, self._means, self._radii = (
            part[kept] for part in (self._sums, self._means, self._radii)
        )
        self._ahead.select(kept)

    def recommend(self, run: int) -> Recommendation:
        """What the rule recommends at the end of a run."""
        return self._rule._recommend_of(self._ends[run], plans=int(self.plans[run]))
