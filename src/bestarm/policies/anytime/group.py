"""Runs of the anytime rule side by side, for simulations.

Every step is the one that live experiments take, on arrays with an entry for each run. Arms and
rewards of a run come from its own streams, so that it is the same however many stand beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from bestarm.numerics.geometry import Array
from bestarm.policies.anytime.assumptions import LEVEL_NATS, contradictions
from bestarm.policies.anytime.bets import Frame, Totals
from bestarm.policies.anytime.evidence import LevelEvidence, drop, opponents, ranked_first
from bestarm.policies.anytime.readout import Indices
from bestarm.policies.anytime.sampler import Config, IndependentSampler
from bestarm.recommendation import Recommendation
from bestarm.records import Counts

if TYPE_CHECKING:
    from bestarm.presampled import PresampledRewards  # loads Numba

_STEPS = 2.0**40  # probabilities are rounded to this: sums with a run's number are then exact
_AHEAD = 2**12  # random numbers of a run that are drawn at a time


class Recommend(Protocol):
    """What a rule would recommend after a run that ended like this."""

    def __call__(
        self, *, left: Counts, leader: int, pulls: int, plans: int, stopped: str, contradicted: bool
    ) -> Recommendation:
        """The recommendation."""
        ...


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
        level: the log of the e-value that drops a target.
        most: the pulls at which to stop, or None.
        recommend: what the rule recommends at the end of a run.
    """

    def __init__(
        self,
        config: Config,
        seeds: Sequence[int],
        *,
        floors: Mapping[str, float],
        level: float,
        most: int | None,
        recommend: Recommend,
    ) -> None:
        runs, targets = len(seeds), len(config.targets)
        self._config, self._level, self._most, self._recommend = config, level, most, recommend
        self.running = np.ones(runs, np.bool_)
        self.pulls, self.plans = np.zeros((2, runs), dtype=np.int64)
        self._contradicted = np.zeros(runs, np.bool_)
        self._left = np.ones((runs, targets), np.bool_)
        self._leaders = np.tile([0, 1], (runs, 1))
        # Of the runs that have not stopped, in the order of `_places`:
        self._places = np.arange(runs)
        self._sampler = IndependentSampler(config, floors=floors, runs=runs, warm=True)
        self._wealth = np.zeros((runs, targets, len(config.grid)))
        self._level_evidence = LevelEvidence(runs)
        self._draws = _Draws(seeds)
        self._ahead = _Ahead(runs, len(config.arms))
        self._planned: tuple[Frame, Counts] | None = None

    def follow(self, runs: Counts, rewards: Sequence[PresampledRewards]) -> None:
        """Give these runs rewards of pulls to come, and carry out plans until one lacks some."""
        self._ahead.put(np.searchsorted(self._places, runs), rewards)
        while len(self._places):
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
            int(self._places[each]): (int(ahead.used[each]), int(sizes[each])) for each in lacking
        }

    def _plan(self) -> tuple[Frame, Counts]:
        """The next batch of every run that has not stopped, and its pulls."""
        sampler, pulls = self._sampler, self.pulls[self._places]
        leaders, left = self._leaders[self._places], self._left[self._places]
        others = np.where(left, np.arange(left.shape[1]), leaders[:, :1])
        pairs = np.stack([np.broadcast_to(leaders[:, :1], others.shape), others], axis=2)
        weights, sizes = sampler.next_weights(pairs), sampler.sizes(pulls)
        if self._most is not None:
            sizes = np.minimum(sizes, self._most - pulls)
        return sampler.frame(weights, sizes, pulls=pulls, leaders=leaders), sizes

    def _carry_out(self, frame: Frame, sizes: Counts) -> None:
        """Draw a batch of every run, bet, drop, learn."""
        config, places, runs = self._config, self._places, np.arange(len(self._places))
        sums, extremes = self._ahead.draw(frame.weights, sizes, self._draws, frame.center)
        self._judge(frame, sums, extremes)
        totals = Totals.about(frame.guess, sums, extremes)
        against = opponents(frame.leaders, len(config.targets))
        contrasts = config.targets[against] - config.targets
        growth = frame.settle(contrasts, totals).growth
        left = self._left[places]
        self._wealth += np.where(left[..., None], growth, 0.0)
        if frame.belief is not None:
            against_level = self._level_evidence.add(frame.settle_level(totals).growth)
            self._contradicted[places] |= against_level >= LEVEL_NATS
        left = drop(config.grid.log_value(self._wealth), self._level, left)
        self._sampler.advance(frame, totals)
        self.pulls[places] += sizes
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

    def _judge(self, frame: Frame, sums: Sums, extremes: Sums) -> None:
        """Note which runs' rewards contradict the assumptions; raise if they cannot be."""
        assumptions = self._config.assumptions
        ends = frame.low[:, None], frame.high[:, None]
        limits = assumptions.limits(*ends, 0.0, assumptions.scale.noise)
        impossible, outside = contradictions(sums, extremes, limits)
        wrong = impossible.any(axis=1) | outside.any(axis=1)
        labels = self._config.problem.source_labels
        for run in np.flatnonzero(wrong):
            self._contradicted[self._places[run]] |= assumptions.judge(
                impossible[run], outside[run], labels
            )

    def _go_on_with(self, kept: Counts) -> None:
        self._places, self._wealth = self._places[kept], self._wealth[kept]
        self._sampler.select(kept)
        self._level_evidence.wealth = self._level_evidence.wealth[kept]
        self._draws.select(kept)
        self._ahead.select(kept)

    def recommend(self, run: int) -> Recommendation:
        """What the rule recommends at the end of a run."""
        return self._recommend(
            left=np.flatnonzero(self._left[run]),
            leader=int(self._leaders[run, 0]),
            pulls=int(self.pulls[run]),
            plans=int(self.plans[run]),
            stopped="identified" if self._left[run].sum() == 1 else "max_pulls",
            contradicted=bool(self._contradicted[run]),
        )


Sums = tuple[Array, Array, Array]


class _Draws:
    """Random numbers of runs, each from its own generator."""

    def __init__(self, seeds: Sequence[int]) -> None:
        self._generators = [np.random.Generator(np.random.SFC64(seed)) for seed in seeds]
        self._numbers = np.empty((len(seeds), _AHEAD))
        self._used = np.full(len(seeds), _AHEAD)

    def select(self, kept: Counts) -> None:
        """Go on with these runs alone."""
        self._generators = [self._generators[run] for run in kept]
        self._numbers, self._used = self._numbers[kept], self._used[kept]

    def take(self, runs: Indices, sizes: Counts) -> Array:
        """The next numbers of every run, in multiples of 1/_STEPS.

        Args:
            runs: whose each number is: `sizes` of them for each run.
            sizes: how many each run takes.
        """
        most = int(sizes.max())
        if most > self._numbers.shape[1]:
            self._widen(most)
        width = self._numbers.shape[1]
        for run in np.flatnonzero(self._used + sizes > width):
            rest = self._numbers[run, self._used[run] :].copy()
            self._numbers[run, : len(rest)] = rest
            fresh = self._generators[run].random(width - len(rest))
            self._numbers[run, len(rest) :] = np.floor(fresh * _STEPS) / _STEPS
            self._used[run] = 0
        taken = self._numbers[runs, self._used[runs] + _within(sizes)]
        self._used = self._used + sizes
        return taken

    def _widen(self, most: int) -> None:
        """Make room for so many numbers of a run, with those that are left at the end."""
        old = self._numbers
        self._numbers = np.empty((len(old), 2 * most))
        self._numbers[:, -old.shape[1] :] = old
        self._used = self._used + self._numbers.shape[1] - old.shape[1]


def _within(sizes: Counts) -> Indices:
    """0, 1, … up to each size, one after the other."""
    ends = np.cumsum(sizes)
    return np.asarray(np.arange(ends[-1]) - np.repeat(ends - sizes, sizes))


class _Ahead:
    """Rewards of pulls to come.

    Attributes:
        left: how many there are for each run.
        used: how many of the last ones given each run has used.
    """

    def __init__(self, runs: int, arms: int) -> None:
        self._arms = arms
        self.left, self.used = np.zeros((2, runs), dtype=np.int64)
        self._rewards: list[PresampledRewards | None] = [None] * runs
        self._common, self._rows = np.zeros((runs, 0)), np.zeros((runs, 0), dtype=np.int64)
        self._tables: Array | None = None  # one of all runs, or one for each
        self._adversary: _Adversaries | None = None

    def put(self, places: Indices, rewards: Sequence[PresampledRewards]) -> None:
        """Replace the rewards of some runs."""
        longest = max((len(each.common) for each in rewards), default=0)
        if longest > self._common.shape[1]:
            wider = ((0, 0), (0, longest - self._common.shape[1]))
            self._common, self._rows = np.pad(self._common, wider), np.pad(self._rows, wider)
        for place, given in zip(places.tolist(), rewards, strict=True):
            count = len(given.common)
            self._rewards[place] = given
            self._common[place, :count], self._rows[place, :count] = given.common, given.rows
            self.left[place], self.used[place] = count, 0
            if given.bound > 0 and self._adversary is None:
                self._adversary = _Adversaries(given.bound, len(self.left), self._arms)
        self._tables = None

    def select(self, kept: Counts) -> None:
        """Go on with these runs alone."""
        self._rewards = [self._rewards[run] for run in kept]
        self.left, self.used = self.left[kept], self.used[kept]
        self._common, self._rows = self._common[kept], self._rows[kept]
        self._tables = None
        if self._adversary is not None:
            self._adversary.select(kept)

    def _of_arms(self, runs: Indices, rows: Indices, arms: Indices) -> Array:
        """What arms pay, but for what is common to all."""
        tables = [each.table for each in self._rewards if each is not None]
        if self._tables is None:
            same = all(table is tables[0] or table.base is tables[0].base for table in tables)
            shapes = {table.shape for table in tables}
            same = same and len(shapes) == 1
            if not same and len(shapes) == 1:
                same = all(np.array_equal(table, tables[0]) for table in tables[1:])
            if same:
                self._tables = tables[0][None]
            elif len(shapes) == 1:
                self._tables = np.stack(tables)
            else:
                most = max(len(table) for table in tables)
                wide = [np.pad(table, ((0, most - len(table)), (0, 0))) for table in tables]
                self._tables = np.stack(wide)
        where = runs if len(self._tables) > 1 else 0
        return np.asarray(self._tables[where, rows, arms])

    def draw(
        self, weights: Array, sizes: Counts, draws: _Draws, center: float
    ) -> tuple[Sums, Sums]:
        """Draw arms, and add up what they pay, less a center.

        Returns:
            Counts, Σx and Σx², then the least and the largest x, and Σx³; each (runs, arms).
        """
        count, arms = weights.shape
        runs = np.repeat(np.arange(count), sizes)
        bounds = np.minimum(np.ceil(np.cumsum(weights, axis=1) * _STEPS) / _STEPS, 1.0)
        last = arms - 1 - (weights[:, ::-1] > 0).argmax(axis=1)  # takes what rounding leaves
        bounds[np.arange(arms) >= last[:, None]] = 1.0
        cells = (bounds + np.arange(count)[:, None]).ravel()
        drawn = np.searchsorted(cells, draws.take(runs, sizes) + runs, side="right")
        # The cell of an arm; those of probability 0 are empty.
        chosen = drawn - runs * arms
        at = self.used[runs] + _within(sizes)
        rewards = self._of_arms(runs, self._rows[runs, at], chosen) + self._common[runs, at]
        if self._adversary is not None:
            rewards = self._adversary.respond(chosen, rewards, sizes)
        self.used, self.left = self.used + sizes, self.left - sizes
        return _added_up(drawn, rewards - center, weights.shape)


def _added_up(cells: Indices, x: Array, shape: tuple[int, int]) -> tuple[Sums, Sums]:
    """The totals of numbers that belong to cells."""
    room = shape[0] * shape[1]
    order = np.argsort(cells.astype(np.uint16 if room < 2**16 else np.int64), kind="stable")
    counts = np.bincount(cells, minlength=room)
    some = np.flatnonzero(counts)
    heads = (np.cumsum(counts) - counts)[some]
    sums, squares, cubes, least, largest = np.zeros((5, room))
    x = x[order]
    power = x.copy()
    for part in (sums, squares, cubes):
        part[some] = np.add.reduceat(power, heads)
        power *= x
    least[some], largest[some] = np.minimum.reduceat(x, heads), np.maximum.reduceat(x, heads)
    first = counts.astype(float).reshape(shape), sums.reshape(shape), squares.reshape(shape)
    return first, (least.reshape(shape), largest.reshape(shape), cubes.reshape(shape))


class _Adversaries:
    """The adversary of `baselines.adversary` in every run: see `presampled.respond`."""

    def __init__(self, bound: float, runs: int, arms: int) -> None:
        self._bound = bound
        self._pulled = np.zeros((runs, arms))
        self._average = np.full((runs, arms), -np.inf)
        self._successor = np.full((runs, arms), -1)
        self._last = np.full(runs, -1)

    def select(self, kept: Counts) -> None:
        """Go on with these runs alone."""
        self._pulled, self._average = self._pulled[kept], self._average[kept]
        self._successor, self._last = self._successor[kept], self._last[kept]

    def respond(self, arms: Indices, rewards: Array, sizes: Counts) -> Array:
        """Rewards with the baseline that it chooses pull by pull, from the pulls before."""
        rewards, heads = rewards.copy(), np.cumsum(sizes) - sizes
        for step in range(int(sizes.max())):
            runs = np.flatnonzero(sizes > step)
            at = heads[runs] + step
            arm, last = arms[at], self._last[runs]
            predicted = np.where(last >= 0, self._successor[runs, last], -1)
            leader = self._average[runs].argmax(axis=1)
            rewards[at] += np.where(predicted == leader, -self._bound, self._bound)
            self._pulled[runs, arm] += 1
            pulled, before = self._pulled[runs, arm], self._average[runs, arm]
            before = np.where(pulled == 1, rewards[at], before)
            self._average[runs, arm] = before + (rewards[at] - before) / pulled
            known = last >= 0
            self._successor[runs[known], last[known]] = arm[known]
            self._last[runs] = arm
        return rewards
