"""Runs of the anytime rule side by side, for simulations.

Designs, bets, evidence and estimates have the run as the first axis of every array; a live
experiment has one run. This file has only what simulations need besides: it draws arms and rewards,
and lets go of runs that have ended. Both come from a run's own streams, so that it is the same
however many stand beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bestarm.numerics.geometry import Array, Indices
from bestarm.numerics.grouping import group
from bestarm.policies.anytime.bets import Frame, RunsOutcome, Totals
from bestarm.policies.anytime.evidence import (
    BestTargetEvidence,
    EndedRun,
    Flags,
    LevelEvidence,
    TargetCoordinates,
)
from bestarm.policies.anytime.sampler import Config, IndependentSampler
from bestarm.policies.policy import GroupForecaster
from bestarm.presampled import PresampledRewards, RewardsAhead, within
from bestarm.recommendation import Recommendation
from bestarm.records import Counts

_STEPS = 2.0**40  # probabilities are rounded to this: sums with a run's number are then exact
_AHEAD = 2**12  # random numbers of a run that are drawn at a time


class AnytimeGroup:
    """Runs of one rule side by side.

    Attributes:
        running: which runs have not stopped.
        pulls: pulls so far.
        plans: plans so far.

    Args:
        config: what the rule is made from.
        seeds: of the arms that each run draws.
        floors: the least probability of arms, by label.
        threshold: the log of the e-value that drops a target.
        most: the pulls at which to stop, or None.
        recommend: what the rule recommends at the end of a run.
        forecaster: makes the forecasts that are subtracted from rewards, if any are.
    """

    def __init__(
        self,
        config: Config,
        seeds: Sequence[int],
        *,
        floors: Mapping[str, float],
        threshold: float,
        most: int | None,
        recommend: Callable[[EndedRun], Recommendation],
        forecaster: GroupForecaster | None = None,
    ) -> None:
        runs = len(seeds)
        self._config, self._most, self._recommend = config, most, recommend
        self.running = np.ones(runs, np.bool_)
        self.pulls, self.plans = np.zeros((2, runs), dtype=np.int64)
        self._ended: dict[int, EndedRun] = {}
        self._live = np.arange(runs)  # the runs that have not stopped
        # What follows has an entry for each of these.
        self._sampler = IndependentSampler(
            config, forecasts=forecaster is not None, floors=floors, runs=runs, warm=True
        )
        targets = TargetCoordinates(config.targets)
        self._evidence = BestTargetEvidence(
            targets, threshold=threshold, grid=config.grid, runs=runs
        )
        self._level_evidence = LevelEvidence(runs)
        self._contradicted = np.zeros(runs, np.bool_)
        self._forecaster = forecaster
        self._draws = _Draws(seeds)
        self._ahead = RewardsAhead(runs)
        self._planned: tuple[Frame, Counts] | None = None

    def run_presampled(self, runs: Indices, rewards: Sequence[PresampledRewards]) -> None:
        """Give these runs rewards of pulls to come, and carry out plans until one lacks some."""
        self._ahead.put(np.searchsorted(self._live, runs), rewards)
        while len(self._live):
            if self._planned is None:
                self._planned = self._plan()
            if (self._planned[1] > self._ahead.left).any():
                return
            self._carry_out(*self._planned)
            self._planned = None

    def wanted(self) -> dict[int, tuple[int, int]]:
        """For each run that lacks rewards: how many it used of the last ones, and needs next."""
        if self._planned is None:
            return {}
        sizes, ahead = self._planned[1], self._ahead
        lacking = np.flatnonzero(sizes > ahead.left)
        return {
            int(self._live[each]): (int(ahead.used[each]), int(sizes[each])) for each in lacking
        }

    def _plan(self) -> tuple[Frame, Counts]:
        """The next batch of every run that has not stopped, and its pulls."""
        sampler, evidence, pulls = self._sampler, self._evidence, self.pulls[self._live]
        weights, sizes = sampler.next_weights(evidence.pairs_of_runs()), sampler.sizes(pulls)
        if self._most is not None:
            sizes = np.minimum(sizes, self._most - pulls)
        frame = sampler.frame(
            weights, sizes, pulls=pulls, leaders=evidence.leading, forecasts=sampler.forecasts
        )
        return frame, sizes

    def _carry_out(self, frame: Frame, sizes: Counts) -> None:
        """Draw a batch of every run, bet, drop, learn."""
        config, evidence, live = self._config, self._evidence, self._live
        drawn, rewards = draw(frame.weights, sizes, self._draws, self._ahead)
        means = np.add.reduceat(rewards, np.cumsum(sizes) - sizes) / sizes
        rewards = self._minus_forecasts(rewards, drawn, sizes)
        sums, extremes = totals_by_arm(drawn, rewards - frame.center, frame.weights.shape)
        labels = config.problem.source_labels
        self._contradicted |= config.assumptions.contradicted_by(
            sums, extremes, low=frame.low, high=frame.high, shift=0.0, labels=labels
        )
        totals = Totals.about(frame.guess, sums, extremes)
        batch: Any = RunsOutcome(frame, totals)
        evidence.settle(evidence.place_bets(frame), batch)
        if frame.belief is not None:
            self._contradicted |= self._level_evidence.add(frame.settle_level(totals).growth)
        self.pulls[live] += sizes
        self.plans[live] += 1
        self._sampler.advance(frame, totals, means=means, drawn=self.pulls[live])
        evidence.rank(self._sampler.estimates.slope, ())
        over = evidence.left.sum(axis=1) == 1
        if self._most is not None:
            over |= self.pulls[live] >= self._most
        if over.any():
            self._end(over)

    def _minus_forecasts(self, rewards: Array, drawn: Indices, sizes: Counts) -> Array:
        """Rewards less what was forecast of each before its draw, if anything was."""
        ends = self._sampler.forecasts
        if self._forecaster is None or ends is None:
            return rewards
        problem = self._config.problem
        features = problem.source[drawn % problem.arms]
        forecasts = self._forecaster.follow_runs(sizes, features, rewards)
        low, high = (np.repeat(end, sizes) for end in ends)
        return rewards - np.clip(forecasts, low, high)

    def _end(self, over: Flags) -> None:
        """Note how runs ended, and go on without them."""
        evidence = self._evidence
        for place in np.flatnonzero(over):
            run = int(self._live[place])
            self._ended[run] = EndedRun(
                np.flatnonzero(evidence.left[place]),
                evidence.leading[place, :1],
                int(self.pulls[run]),
                int(self.plans[run]),
                bool(self._contradicted[place]),
            )
        self.running[self._live[over]] = False
        kept = np.flatnonzero(~over)
        self._live, self._contradicted = self._live[kept], self._contradicted[kept]
        for part in (self._sampler, evidence, self._level_evidence, self._draws, self._ahead):
            part.select(kept)
        if self._forecaster is not None:
            self._forecaster.select(kept)

    def recommend(self, run: int) -> Recommendation:
        """What the rule recommends at the end of a run."""
        return self._recommend(self._ended[run])


Sums = tuple[Array, Array, Array]


class _Draws:
    """Random numbers of runs, each from its own generator."""

    def __init__(self, seeds: Sequence[int]) -> None:
        self._generators = [np.random.Generator(np.random.SFC64(seed)) for seed in seeds]
        self._numbers = np.empty((len(seeds), _AHEAD))
        self._used = np.full(len(seeds), _AHEAD)
        self._rows: Indices = np.arange(len(seeds))  # of the runs that go on

    def select(self, kept: Indices) -> None:
        """Go on with these runs alone."""
        self._rows = self._rows[kept]

    def take(self, sizes: Counts) -> Array:
        """The next numbers of every run, in multiples of 1/_STEPS.

        Args:
            sizes: how many each run takes.
        """
        most, rows = int(sizes.max()), self._rows
        if most > self._numbers.shape[1]:
            self._widen(most)
        width = self._numbers.shape[1]
        for row in rows[self._used[rows] + sizes > width]:
            rest = self._numbers[row, self._used[row] :].copy()
            self._numbers[row, : len(rest)] = rest
            fresh = self._generators[row].random(width - len(rest))
            self._numbers[row, len(rest) :] = np.floor(fresh * _STEPS) / _STEPS
            self._used[row] = 0
        first = rows * width + self._used[rows]
        self._used[rows] += sizes
        return self._numbers.ravel()[np.repeat(first, sizes) + within(sizes)]

    def _widen(self, most: int) -> None:
        """Make room for so many numbers of a run, with those that are left at the end."""
        old = self._numbers
        self._numbers = np.empty((len(old), 2 * most))
        self._numbers[:, -old.shape[1] :] = old
        self._used += self._numbers.shape[1] - old.shape[1]


def draw(
    weights: Array, sizes: Counts, draws: _Draws, ahead: RewardsAhead
) -> tuple[Indices, Array]:
    """Draw arms of every run: their places in an array (runs, arms), and what they pay."""
    count, arms = weights.shape
    runs = np.repeat(np.arange(count), sizes)
    bounds = np.minimum(np.ceil(np.cumsum(weights, axis=1) * _STEPS) / _STEPS, 1.0)
    last = arms - 1 - (weights[:, ::-1] > 0).argmax(axis=1)  # takes what rounding leaves
    bounds[np.arange(arms) >= last[:, None]] = 1.0
    cells = (bounds + np.arange(count)[:, None]).ravel()
    # The cell of an arm; those of probability 0 are empty.
    drawn = np.searchsorted(cells, draws.take(sizes) + runs, side="right")
    return drawn, ahead.pull(drawn - runs * arms, sizes)


def totals_by_arm(drawn: Indices, x: Array, shape: tuple[int, int]) -> tuple[Sums, Sums]:
    """The totals of numbers that belong to arms, each by its place in an array (runs, arms).

    Returns:
        Counts, Σx and Σx², then the least and the largest x, and Σx³; each (runs, arms).
    """
    found = group(drawn, x, shape[0] * shape[1])
    none = found.counts == 0
    found.least[none] = found.largest[none] = 0.0
    first = found.counts.astype(float).reshape(shape), found.sums.reshape(shape)
    extremes = found.least.reshape(shape), found.largest.reshape(shape)
    return (*first, found.squares.reshape(shape)), (*extremes, found.cubes.reshape(shape))
