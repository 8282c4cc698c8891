"""Runs of the anytime rule side by side, for simulations.

Every step is the one that live experiments take, on arrays with an entry for each run. Arms and
rewards of a run come from its own streams, so that it is the same however many stand beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from bestarm.numerics.geometry import Array, Indices
from bestarm.numerics.grouping import group
from bestarm.policies.anytime.assumptions import LEVEL_NATS, contradictions
from bestarm.policies.anytime.bets import Frame, Totals
from bestarm.policies.anytime.evidence import (
    EndedRun,
    Flags,
    LevelEvidence,
    drop,
    opponents,
    ranked_first,
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
        runs, targets = len(seeds), len(config.targets)
        self._config, self._threshold, self._most, self._recommend = (
            config,
            threshold,
            most,
            recommend,
        )
        self.running = np.ones(runs, np.bool_)
        self.pulls, self.plans = np.zeros((2, runs), dtype=np.int64)
        self._contradicted = np.zeros(runs, np.bool_)
        self._left = np.ones((runs, targets), np.bool_)
        self._leaders = np.tile([0, 1], (runs, 1))
        self._live = np.arange(runs)  # the runs that have not stopped
        # What follows has an entry for each of these.
        self._forecaster = forecaster
        self._sampler = IndependentSampler(
            config, forecasts=forecaster is not None, floors=floors, runs=runs, warm=True
        )
        self._wealth = np.zeros((runs, targets, len(config.grid)))
        self._level_evidence = LevelEvidence(runs)
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
        sampler, pulls = self._sampler, self.pulls[self._live]
        leaders, left = self._leaders[self._live], self._left[self._live]
        others = np.where(left, np.arange(left.shape[1]), leaders[:, :1])
        pairs = np.stack([np.broadcast_to(leaders[:, :1], others.shape), others], axis=2)
        weights, sizes = sampler.next_weights(pairs), sampler.sizes(pulls)
        if self._most is not None:
            sizes = np.minimum(sizes, self._most - pulls)
        ends = sampler.forecasts
        frame = sampler.frame(weights, sizes, pulls=pulls, leaders=leaders, forecasts=ends)
        return frame, sizes

    def _rivals(self) -> tuple[Indices, Flags]:
        """The targets that are left in each run, as many as are left in any, and which those are.

        Runs with fewer have others beside them, which do not count.
        """
        left = self._left[self._live]
        targets = np.argsort(~left, axis=1, kind="stable")[:, : int(left.sum(axis=1).max())]
        return targets, np.take_along_axis(left, targets, axis=1)

    def _carry_out(self, frame: Frame, sizes: Counts) -> None:
        """Draw a batch of every run, bet, drop, learn."""
        config, places, runs = self._config, self._live, np.arange(len(self._live))
        shape = frame.weights.shape
        drawn, rewards = draw(frame.weights, sizes, self._draws, self._ahead)
        means = np.add.reduceat(rewards, np.cumsum(sizes) - sizes) / sizes
        rewards = self._minus_forecasts(rewards, drawn, sizes)
        sums, extremes = added_up(drawn, rewards - frame.center, shape)
        self._judge(frame, sums, extremes)
        totals = Totals.about(frame.guess, sums, extremes)
        targets, counted = self._rivals()
        contrasts = config.targets[opponents(frame.leaders, targets)] - config.targets[targets]
        growth = frame.settle(contrasts, totals).growth
        self._wealth[runs[:, None], targets] += np.where(counted[..., None], growth, 0.0)
        if frame.belief is not None:
            against_level = self._level_evidence.add(frame.settle_level(totals).growth)
            self._contradicted[places] |= against_level >= LEVEL_NATS
        left = drop(config.grid.log_value(self._wealth), self._threshold, self._left[places])
        self.pulls[places] += sizes
        self._sampler.advance(frame, totals, means=means, drawn=self.pulls[places])
        self.plans[places] += 1
        self._left[places] = left
        values = self._sampler.estimates.slope @ config.targets.T
        self._leaders[places] = ranked_first(values, left)
        over = left.sum(axis=1) == 1
        if self._most is not None:
            over |= self.pulls[places] >= self._most
        if over.any():
            self._go_on_with(runs[~over])
        self.running[places[over]] = False

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

    def _judge(self, frame: Frame, sums: Sums, extremes: Sums) -> None:
        """Note which runs' rewards contradict the assumptions; raise if they cannot be."""
        assumptions = self._config.assumptions
        ends = frame.low[:, None], frame.high[:, None]
        limits = assumptions.limits(*ends, 0.0, assumptions.scale.noise)
        impossible, outside = contradictions(sums, extremes, limits)
        wrong = impossible.any(axis=1) | outside.any(axis=1)
        labels = self._config.problem.source_labels
        for run in np.flatnonzero(wrong):
            self._contradicted[self._live[run]] |= assumptions.judge(
                impossible[run], outside[run], labels
            )

    def _go_on_with(self, kept: Indices) -> None:
        self._live, self._wealth = self._live[kept], self._wealth[kept]
        self._sampler.select(kept)
        self._level_evidence.wealth = self._level_evidence.wealth[kept]
        self._draws.select(kept)
        self._ahead.select(kept)
        if self._forecaster is not None:
            self._forecaster.select(kept)

    def recommend(self, run: int) -> Recommendation:
        """What the rule recommends at the end of a run."""
        left, leaders = np.flatnonzero(self._left[run]), self._leaders[run, :1]
        counts = int(self.pulls[run]), int(self.plans[run])
        return self._recommend(EndedRun(left, leaders, *counts, bool(self._contradicted[run])))


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


def added_up(drawn: Indices, x: Array, shape: tuple[int, int]) -> tuple[Sums, Sums]:
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
