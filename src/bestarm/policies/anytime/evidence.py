"""Evidence against each target: who is shown not to be the best.

`certificates` has evidence that a target, or a set of m, is good enough.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bestarm.bounds import ChangeShares
from bestarm.numerics.geometry import TIE, Array, Indices
from bestarm.policies.anytime.bets import LEVEL_GRID, BatchOutcome, Bets, Frame, StakeGrid
from bestarm.policies.anytime.block_bets import BlockBets, BlockFrame, BlockOutcome

WINDOW = 32  # batches with outcomes outstanding, at the end of each of which the wealth is read

_LEVEL_NATS = 10.0  # nats of evidence that contradict the declared bound on the baseline

Flags = NDArray[np.bool_]


AnyFrame = Frame | BlockFrame
AnyBatch = BatchOutcome | BlockOutcome


def finalized(past: Sequence[AnyBatch], window: int = WINDOW) -> int:
    """How many of the first batches to count in every prefix that is looked at.

    Those before the first with outcomes outstanding; but never more than the last few stay out, so
    that one outcome that nobody ever tells holds nothing up.
    """
    done = max(len(past) - window, 0)
    while done < len(past) and not past[done].pending:
        done += 1
    return done


def opponents(leaders: Indices, targets: Indices) -> Indices:
    """Whom each target bets to be behind: the leader, or the leader the runner-up."""
    leader, second = leaders[:, :1], leaders[:, 1:]
    return np.asarray(np.where(targets == leader, second, leader))


# --- batches that lack outcomes ------------------------------------------------------------------


class PlacedBets(NamedTuple):
    """Bets on a batch.

    Attributes:
        bets: one per row, or per row of each run.
        targets: whose they are, by their places in the wealth; those without a bet are left out.
        opponent: against whom each was.
        counted: with several runs, which rows of each run count; (runs, rows).
    """

    bets: Bets | BlockBets | None = None
    targets: Indices = np.zeros(0, dtype=np.int64)
    opponent: Indices = np.zeros(0, dtype=np.int64)
    counted: Flags | None = None

    def growth(self, batch: Any) -> Array:
        """What a batch, of the frame of the bets, adds to the log wealth of each and of stakes."""
        if self.bets is None:
            return np.zeros((0, 0))
        growth = self.bets.log_growth(batch)
        return growth if self.counted is None else growth[self.counted]


class Account:
    """The log wealth of bets, of which the last batches may lack outcomes.

    A batch with outcomes outstanding counts them at their worst, which is less than its true
    wealth. The bound on an e-process holds over all prefixes of the batches, so whichever has the
    most to show may be read: of the last batches, from the first that lacks an outcome on, every
    prefix is looked at.

    Attributes:
        first: the number of the first batch that it has bets on.

    Args:
        shape: of the wealth: opponents (or 1, if they are not told apart), targets and stakes.
        first: the number of the first batch.
        window: how many of the last batches, at most, to look at every prefix of.
    """

    def __init__(
        self, shape: tuple[int, int, int], first: int = 0, *, window: int = WINDOW
    ) -> None:
        self._wealth, self._window = np.zeros(shape), window  # of finalized batches
        self._pending: list[tuple[PlacedBets, AnyBatch, Array]] = []  # the batches after them
        self._finalized = self.first = first
        self._amendable: dict[int, PlacedBets] = {}  # on finalized batches that lack outcomes

    def _add(self, wealth: Array, placed: PlacedBets, growth: Array) -> None:
        if len(placed.targets):
            rows = placed.opponent if len(wealth) > 1 else 0
            wealth[rows, placed.targets] += growth

    def copy(self) -> Account:
        """Another that goes on from the same batches."""
        made = copy(self)
        made._wealth, made._pending = self._wealth.copy(), list(self._pending)
        made._amendable = dict(self._amendable)
        return made

    @property
    def batches(self) -> int:
        """The number of the next batch."""
        return self._finalized + len(self._pending)

    def settle(self, placed: PlacedBets, batch: AnyBatch) -> None:
        """Take the next batch."""
        self._pending.append((placed, batch, placed.growth(batch)))
        self._finalize()

    def amend(self, place: int, before: AnyBatch, after: AnyBatch) -> None:
        """Put what a batch makes of the bets now in the place of what it made of them before."""
        at = place - self._finalized
        if at >= 0:
            placed = self._pending[at][0]
            self._pending[at] = placed, after, placed.growth(after)
            self._finalize()
        elif place >= self.first:
            placed = self._amendable[place]
            if len(placed.targets):
                self._add(self._wealth, placed, placed.growth(after) - placed.growth(before))
            if not after.pending:
                del self._amendable[place]

    def _finalize(self) -> None:
        """Take in the batches up to the first that lacks outcomes."""
        count = finalized([each for _, each, _ in self._pending], self._window)
        for number, (bets, each, growth) in enumerate(self._pending[:count], self._finalized):
            self._add(self._wealth, bets, growth)
            if each.pending:
                self._amendable[number] = bets
        self._finalized += count
        del self._pending[:count]

    def prefixes(self) -> Iterator[Array]:
        """The wealth after each prefix of the batches that is looked at; changed in between."""
        yield self._wealth
        if self._pending:
            wealth = self._wealth.copy()
            for placed, _, growth in self._pending:
                self._add(wealth, placed, growth)
                yield wealth

    def select(self, kept: Indices, runs: int) -> None:
        """Go on with some of so many runs, whose targets stand one run after the other."""
        opponents, targets, stakes = self._wealth.shape
        apart = self._wealth.reshape(opponents, runs, targets // runs, stakes)[:, kept]
        self._wealth = apart.reshape(opponents, -1, stakes)

    def enlarge(self) -> None:
        """Make room for one more target."""
        opponents = int(len(self._wealth) > 1)
        self._wealth = np.pad(self._wealth, ((0, opponents), (0, 1), (0, 0)))


# --- targets --------------------------------------------------------------------------------------


class TargetCoordinates:
    """The targets in coordinates of the span of the arms, which change with the options.

    Attributes:
        now: one row per target; NaN where it is retired.
        additions: for each target, 0 if it was there from the start, or j if it was added j-th.
        retired: whether any target was.

    Args:
        now: one row per target.
    """

    def __init__(self, now: Array) -> None:
        self.now = now
        self.additions: Indices = np.zeros(len(now), dtype=np.int64)
        self.retired = False
        self._of_batches: list[Array] = []  # from the first change on

    def __len__(self) -> int:
        return len(self.now)

    @property
    def present(self) -> Indices:
        """The targets that are not retired."""
        return np.flatnonzero(~np.isnan(self.now[:, 0]))

    def change(self, now: Array, batches: int) -> None:
        """Take new coordinates after so many batches: with one target more, or one retired."""
        if not self._of_batches:
            self._of_batches = [self.now] * batches
        if len(now) > len(self.now):
            self.additions = np.append(self.additions, self.additions.max() + 1)
        else:
            self.retired = True
        self.now = now

    def record(self, coordinates: Array) -> None:
        """Note the coordinates of the next batch, which may be one of an earlier era."""
        if self._of_batches or coordinates is not self.now:
            self._of_batches.append(coordinates)

    def uses_current_options(self, batch: int) -> bool:
        """Whether this batch, by its number, was drawn among the options that there are now."""
        return not self._of_batches or self._of_batches[batch] is self.now

    def contrasts(self, place: int, better: Any, worse: Any) -> Array:
        """The contrasts of targets to others, in coordinates of batch number `place`.

        Rows are NaN where one of the two was not among the options.
        """
        if self.uses_current_options(place):
            return np.asarray(self.now[better] - self.now[worse])
        table = self._of_batches[place]
        known = np.full((len(self.now), table.shape[1]), np.nan)
        known[: len(table)] = table
        return np.asarray(known[better] - known[worse])


# --- the best target -----------------------------------------------------------------------------


class BestTargetEvidence:
    """One e-process per target, against the hypothesis that it is the best.

    Before each batch every target bets that some opponent is better: the leader, or the runner-up
    against the leader itself. If z is the best, every opponent's contrast to it is at most zero,
    so its wealth is a supermartingale for any opponents, and Ville's inequality bounds
    the chance that it ever reaches 1/δ by δ. Only that wealth can cause an error.

    Where options may change, wealth is kept by opponent, because what was bet against one that was
    retired counts for 1 at most from then on, unless it was ruled out before ("Changes").

    A live experiment has one run; only then may outcomes be late, or options change.

    Attributes:
        left: which targets are left; (runs, targets).
        leading: those that look best and second best; where one is left, it comes twice; (runs, 2).

    Args:
        targets: in coordinates.
        threshold: log(1/δ).
        grid: the stakes.
        shares: what of δ is for options that are added and retired, if they may be.
        runs: the number of runs side by side.
    """

    def __init__(
        self,
        targets: TargetCoordinates,
        *,
        threshold: float,
        grid: StakeGrid,
        shares: ChangeShares | None = None,
        runs: int = 1,
    ) -> None:
        count = len(targets)
        self._targets, self._threshold, self._grid, self._shares = targets, threshold, grid, shares
        self._account = Account((count if shares else 1, runs * count, len(grid)))
        self.left: Flags = np.ones((runs, count), np.bool_)
        self.leading: Indices = np.tile([0, min(1, count - 1)], (runs, 1))
        self._values: Array = np.zeros((runs, count))
        self._capital: Array = np.zeros(count)  # log wealth that a target starts with
        self._counted: list[int] = []  # retired while not ruled out

    def select(self, kept: Indices) -> None:
        """Go on with these runs alone."""
        self._account.select(kept, len(self.left))
        self.left, self.leading = self.left[kept], self.leading[kept]
        self._values = self._values[kept]

    @property
    def chosen(self) -> Indices:
        """The leader."""
        return self.leading[0, :1]

    @property
    def active(self) -> Indices:
        """The targets that are left."""
        return np.flatnonzero(self.left[0])

    @property
    def leaders(self) -> tuple[int, int]:
        """The leader and the runner-up, while there is one."""
        leader, second = self.leading[0].tolist()
        return leader, second

    @property
    def decided(self) -> bool:
        """Whether one target is left."""
        return int(self.left[0].sum()) == 1

    def open_pairs(self) -> Indices:
        """The leader with all others that are left."""
        leader, _ = self.leaders
        others = self.active[self.active != leader]
        return np.stack([np.full(len(others), leader), others], axis=1)

    def pairs_of_runs(self) -> Indices:
        """The leader of each run with every target, or with itself where that is not left;
        (runs, targets, 2)."""
        leaders = np.broadcast_to(self.leading[:, :1], self.left.shape)
        others = np.where(self.left, np.arange(leaders.shape[1]), leaders)
        return np.stack([leaders, others], axis=2)

    def place_bets(self, frame: AnyFrame) -> list[PlacedBets]:
        """Every target left against the leader, the leader against the runner-up."""
        left = self.left.sum(axis=1)
        if left.max() == 1:
            return [PlacedBets()]
        # As many targets as are left in any run: where fewer are, others stand beside them.
        mine = np.argsort(~self.left, axis=1, kind="stable")[:, : left.max()]
        counted = np.take_along_axis(self.left, mine, axis=1)
        against = opponents(self.leading, mine)
        contrasts = self._targets.now[against] - self._targets.now[mine]
        if len(left) == 1:
            return [PlacedBets(frame.bets(contrasts[0]), mine[0], against[0])]
        places = mine + self.left.shape[1] * np.arange(len(left))[:, None]
        return [PlacedBets(frame.bets(contrasts), places[counted], against[counted], counted)]

    def settle(self, placed: Sequence[PlacedBets], batch: AnyBatch) -> None:
        """Add the growth to each wealth, and drop targets whose wealth has reached 1/δ."""
        self._account.settle(placed[0], batch)
        self._update()

    def amend(self, place: int, before: AnyBatch, after: AnyBatch) -> None:
        """Put what a batch makes of the bets now in the place of what it made of them before."""
        self._account.amend(place, before, after)
        self._update()

    def _log_values(self) -> Array:
        """The log e-value against every target, after the prefix that shows most."""
        most = np.full(self._values.shape, -np.inf)
        for wealth in self._account.prefixes():
            parts = wealth
            if self._counted:
                parts = wealth.copy()
                parts[self._counted] = np.minimum(parts[self._counted], 0.0)
            values = self._grid.log_value(parts.sum(axis=0))
            most = np.maximum(most, values.reshape(most.shape))
        return np.asarray(most + self._capital)

    def _update(self) -> None:
        """Drop targets whose wealth has reached 1/δ after some prefix."""
        self._values = np.where(self.left, self._log_values(), self._values)
        self._drop(self._values)

    def _drop(self, values: Array) -> None:
        """Keep those whose log e-value is below the threshold.

        If all have reached it, which is an error, the one with the least evidence against it stays.
        """
        kept = np.asarray(self.left & (values < self._threshold))
        least = np.where(self.left, values, np.inf).argmin(axis=1)
        kept[np.arange(len(kept)), least] |= ~kept.any(axis=1)
        self.left = kept

    def rank(self, slope: Array, past: Sequence[AnyBatch]) -> None:  # noqa: ARG002 - no pair is replayed
        """Find the leaders and the runners-up.

        Values that differ by less than `TIE` times the largest count as equal: the first then
        leads.

        Args:
            slope: θ̂, of one run or (runs, rank).
            past: the batches so far.
        """
        values = np.atleast_2d(slope) @ np.nan_to_num(self._targets.now).T
        shown, runs = np.where(self.left, values, -np.inf), np.arange(len(values))
        slack = TIE * np.where(self.left, np.abs(values), 0.0).max(axis=1)
        self.leading = np.empty((len(values), 2), dtype=np.int64)
        for place in range(2):
            first = (shown >= (shown.max(axis=1) - slack)[:, None]).argmax(axis=1)
            self.leading[:, place], shown[runs, first] = first, -np.inf
        alone = self.left.sum(axis=1) == 1
        self.leading[alone, 1] = self.leading[alone, 0]

    def add(self) -> None:
        """The best of more targets is the best of those before: their wealth goes on."""
        assert self._shares is not None
        self._account.enlarge()
        share = self._shares.addition(int(self._targets.additions[-1]))
        self._capital = np.append(self._capital, math.log(share / self._shares.unchanged))
        self._values = np.append(self._values, self._capital[None, -1:], axis=1)
        self.left = np.append(self.left, [[True]], axis=1)

    def retire(self, target: int) -> None:
        """Go on without a target.

        If it was ruled out, nothing changes. If not, what was bet against it counts for 1 at most,
        a smaller share of δ is left, and targets that were ruled out may come back; those of them
        that were retired before are then counted like this one.
        """
        assert self._shares is not None
        start = self._targets.additions == 0
        while self.left[0, target]:
            self.left[0, target] = False
            self._counted.append(target)
            share = self._shares.retired(len(self._counted))
            self._capital[start] = math.log(share / self._shares.unchanged)
            values, present = self._log_values(), ~np.isnan(self._targets.now[:, 0])
            self._values = np.where(present, values, self._values)
            self.left = present[None]
            self._drop(np.where(present, values, np.inf))
            back = (values[0] < self._threshold) & ~present
            back[self._counted] = False
            if not back.any():
                break
            target = int(back.argmax())
            self.left[0, target] = True

    def log_evidence(self) -> Array:
        """The log of each target's e-value against its being the best, when last it bet.

        While outcomes are outstanding, the largest of the prefixes that are looked at.
        """
        return np.asarray(self._values[0])


# --- the declared baseline ------------------------------------------------------------------------


class LevelEvidence:
    """Two e-processes, against ν ≤ R and against ν ≥ −R: whether the baseline is as declared.

    Args:
        runs: the number of runs.
    """

    def __init__(self, runs: int = 1) -> None:
        self.wealth: Array = np.zeros((runs, 2, len(LEVEL_GRID)))  # logs

    def select(self, kept: Indices) -> None:
        """Go on with these runs alone."""
        self.wealth = self.wealth[kept]

    def add(self, growth: Array) -> Flags:
        """Take what a batch adds to the wealth; return in which runs the declaration is wrong."""
        self.wealth = self.wealth + growth
        return np.asarray(LEVEL_GRID.log_value(self.wealth).max(axis=1) >= _LEVEL_NATS)


# --- after the decision --------------------------------------------------------------------------


class EffectMeasurement:
    """After the decision: pulls go on for one contrast, and nothing is decided any more.

    Args:
        before: the evidence that decided; kept.
        target: the target that it named.
        control: the target that its lead is measured against.
    """

    decided = True

    def __init__(self, before: BestTargetEvidence, target: int, control: int) -> None:
        self.before = before
        self.chosen: Indices = np.array([target])
        self.active: Indices = np.sort([target, control])
        self.leaders = target, control
        self._evidence = before.log_evidence().copy()

    def open_pairs(self) -> Indices:
        """The lead over the control."""
        return np.array([self.leaders])

    def place_bets(self, frame: AnyFrame) -> list[PlacedBets]:  # noqa: ARG002
        """None: the decision is made."""
        return [PlacedBets()]

    def settle(self, placed: Sequence[PlacedBets], batch: AnyBatch) -> None:
        """For the evidence before, which goes on if the options change."""
        self.before.settle(placed, batch)

    def amend(self, place: int, before: AnyBatch, after: AnyBatch) -> None:
        """For the evidence before."""
        self.before.amend(place, before, after)

    def rank(self, slope: Array, past: Sequence[AnyBatch]) -> None:
        """Nothing: the decision is made."""

    def log_evidence(self) -> Array:
        """The log of every target's e-value, when the decision was made."""
        return self._evidence


class EndedRun(NamedTuple):
    """How a run of a group ended.

    Attributes:
        active: the targets that were left.
        chosen: the one that looked best.
        pulls: pulls in all.
        plans: plans in all.
        contradicted: whether its rewards contradicted the assumptions.
    """

    active: Indices
    chosen: Indices
    pulls: int
    plans: int
    contradicted: bool
