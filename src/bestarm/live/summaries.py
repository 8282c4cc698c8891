"""Summaries of assignments: their totals per arm, added up in order of id."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from bestarm.live.store.rows import Ids, Rows
from bestarm.numerics.geometry import Array
from bestarm.records import BlockPlan, Plan, Rounds, Summary

_NO_ROUNDS = np.empty(0, dtype=np.int64), np.empty(0), np.empty(0, dtype=bool)


class RunningTotals:
    """Adds answers up, one row after the other, in pieces of any size, and computes their digest.

    In order of id: floating-point sums would otherwise depend on the order of arrival. Under a
    closed plan lost assignments are left out, as others were drawn in their place. Where answers
    have forecasts, these are subtracted, and what was told is added up beside. Under a plan over
    blocks the answers are of whole rounds, and are kept as they are.
    """

    def __init__(self, plan: Plan, arms: int) -> None:
        self._plan, self._arms = plan, arms
        self._missing, self._pending = np.zeros((2, arms), dtype=np.int64)
        self._net = _Totals(arms)
        self._plain: _Totals | None = None
        self._forecast_sum = 0.0
        self._rounds: list[tuple[Ids, Array, NDArray[np.bool_]]] | None = None
        if isinstance(plan, BlockPlan):
            self._rounds = []
            self._kinds = {row.tobytes(): kind for kind, row in enumerate(plan.blocks)}
        self._running = hashlib.sha256()

    def add(self, answers: Rows, pending: NDArray[np.bool_] | None = None) -> None:
        """Add answers: a reward that is NaN was lost, unless it is pending.

        Pending are those that are outstanding, or were when they were first added up.
        """
        if pending is None:
            pending = np.zeros(len(answers), dtype=bool)
        elif pending.any():
            answers = answers.copy()
            for name in ("reward", "told", "lost"):
                answers[name][pending] = np.nan
        self._running.update(answers.tobytes())
        arms, rewards = answers["arm"], answers["reward"]
        if self._rounds is not None:
            self._rounds.append((arms, rewards, pending))
            return
        without = np.isnan(rewards)
        self._missing += np.bincount(arms[without & ~pending], minlength=self._arms)
        self._pending += np.bincount(arms[pending], minlength=self._arms)
        arm, reward = arms[~without], rewards[~without]
        forecasts = answers["forecast"][~without]
        if not np.isnan(forecasts).all():
            self._plain = self._plain or _Totals(self._arms)
            self._plain.add(arm, reward - self._plan.center)
            forecasts = np.nan_to_num(forecasts)  # one that was removed: the digest shows it
            reward = reward - forecasts
            self._forecast_sum = float(np.cumsum(np.append(self._forecast_sum, forecasts))[-1])
        self._net.add(arm, reward - self._plan.center)

    def summary(self) -> Summary:
        """The totals, less forecasts; or the rounds."""
        plan = self._plan
        if not isinstance(plan, BlockPlan):
            return self._summary(self._net, self._forecast_sum)
        # The arms of a round come in the order of their assignments.
        parts = zip(*self._rounds or [_NO_ROUNDS], strict=True)
        joined = [np.concatenate(part) for part in parts]
        # A damaged record may lack rows, and hold any arms: its digest shows it.
        end = len(joined[0]) // plan.size * plan.size
        arms, rewards, pending = (part[:end].reshape(-1, plan.size) for part in joined)
        order = np.argsort(arms, axis=1)
        drawn = np.take_along_axis(arms, order, axis=1)
        kinds = np.array([self._kinds.get(row.tobytes(), 0) for row in drawn], dtype=np.int64)
        table, awaited = (np.take_along_axis(part, order, axis=1) for part in (rewards, pending))
        return Rounds.of(plan, kinds, table, awaited)

    def plain(self) -> Summary | None:
        """The totals of rewards as they were told, where there are forecasts."""
        return None if self._plain is None else self._summary(self._plain, 0.0)

    def _summary(self, totals: _Totals, forecast_sum: float) -> Summary:
        missing = self._missing if self._plan.open else np.zeros(0, dtype=np.int64)
        sums, squares, cubes = totals.powers.copy()
        counted = totals.counts, sums, squares, missing, self._pending
        seen = totals.counts > 0
        least, largest = np.where(seen, totals.least, 0.0), np.where(seen, totals.largest, 0.0)
        return Summary(*counted, self._plan.center, least, largest, forecast_sum, cubes)

    def digest(self) -> str:
        """The digest of the answers."""
        return self._running.hexdigest()


class _Totals:
    """Totals per arm; pieces add up as one row after the other would."""

    def __init__(self, arms: int) -> None:
        self.counts = np.zeros(arms, dtype=np.int64)
        self.powers = np.zeros((3, arms))  # sums of rewards, of their squares and of their cubes
        self.least, self.largest = np.full(arms, np.inf), np.full(arms, -np.inf)

    def add(self, arm: Ids, reward: Array) -> None:
        self.counts += np.bincount(arm, minlength=len(self.counts))
        np.minimum.at(self.least, arm, reward)
        np.maximum.at(self.largest, arm, reward)
        square = reward * reward
        arm = np.concatenate([np.arange(len(self.counts)), arm])  # the totals so far go first
        for sums, power in zip(self.powers, (reward, square, square * reward), strict=True):
            sums[:] = np.bincount(arm, np.concatenate([sums, power]))


def total(
    pieces: Iterable[Rows], plan: Plan, *, first: int = 0, pending: Ids | None = None
) -> tuple[Summary, str, Summary | None]:
    """The summary of assignments, the digest of their answers, which come in order of id, and the
    totals without forecasts.

    Those of the ids in `pending` are outstanding; ids count from `first` without a gap.
    """
    totals = RunningTotals(plan, plan.arms)
    for answers in pieces:
        end = first + len(answers)
        totals.add(answers, None if pending is None else np.isin(np.arange(first, end), pending))
        first = end
    return totals.summary(), totals.digest(), totals.plain()


def spread_of(summary: Summary) -> float:
    """The squared deviations of rewards from the mean of their arm, added up."""
    squares = summary.squares - summary.sums**2 / np.maximum(summary.counts, 1)
    return float(np.maximum(squares, 0.0).sum())
