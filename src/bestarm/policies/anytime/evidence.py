"""Evidence against each target, or between pairs of them: who is shown to be better than whom."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from bestarm.compiling import tiered
from bestarm.numerics.geometry import TIE, Array, ranked
from bestarm.policies.anytime.bets import BetResult, StakeGrid, log_average
from bestarm.policies.anytime.options import TargetCoordinates
from bestarm.policies.anytime.readout import Indices
from bestarm.records import Summary

_ALL_PAIRS = 4096  # up to this many contrasts between chosen and others a design sees all of them
_REPLAYED = 50_000  # contrasts of past batches to take in at once, beyond two batches a target
_KEPT = 32  # targets chosen before, besides four times those chosen: they may come back
WINDOW = 32  # batches with outcomes outstanding, at the end of each of which the wealth is read


class AnyBets(Protocol):
    """Bets on contrasts, fixed before a batch was drawn."""

    def settle(self, batch: Any) -> BetResult:
        """Settle the bets on a batch drawn under their frame."""
        ...

    def log_growth(self, batch: Any) -> Array:
        """By how much the log wealth of every contrast and stake grows with a batch's outcome."""
        ...


class AnyFrame(Protocol):
    """All that is fixed before a batch is drawn; the bets on any contrast follow from it."""

    leaders: tuple[int, int]

    def bets(self, contrasts: Array, *, margin: float = 0.0) -> AnyBets:
        """Bets that contrasts (rows, in coordinates) exceed −margin."""
        ...


class AnyBatch(Protocol):
    """The outcome of pulls that were drawn under a frame."""

    pending: bool

    @property
    def frame(self) -> AnyFrame:
        """What was fixed before."""
        ...

    @property
    def summary(self) -> Summary:
        """What came of it."""
        ...

    @property
    def exposure(self) -> float:
        """By how much the log wealth of a stake λ = 1 falls if the margin falls by 1."""
        ...

    @property
    def capped_exposure(self) -> float:
        """By how much it falls besides if the margin is negative and falls by 1.

        That of outstanding outcomes whose factor is at most 1, with a margin above 0 as well.
        """
        ...


def finalized(past: Sequence[AnyBatch]) -> int:
    """How many of the first batches to count in every prefix that is looked at.

    Those before the first with outcomes outstanding; but never more than the last few stay out, so
    that one outcome that nobody ever tells holds nothing up.
    """
    done = max(len(past) - WINDOW, 0)
    while done < len(past) and not past[done].pending:
        done += 1
    return done


class PlacedBets(NamedTuple):
    """Bets on a batch, and the targets whose they are."""

    targets: Indices
    bets: AnyBets


class Evidence(Protocol):
    """Evidence that grows batch by batch until a set of targets is shown to be the best."""

    @property
    def chosen(self) -> Indices:
        """The targets that look best, the best first."""
        ...

    @property
    def active(self) -> Indices:
        """The targets that are not shown to be out."""
        ...

    @property
    def leaders(self) -> tuple[int, int]:
        """The targets that look best and second best."""
        ...

    @property
    def decided(self) -> bool:
        """Whether `chosen` is shown to be right."""
        ...

    def is_shown_best(self, target: int) -> bool:
        """Whether no other target is better than this one by more than the tolerance."""
        ...

    def open_contrasts(self) -> Array:
        """The contrasts that want evidence: rows in coordinates."""
        ...

    def place_bets(self, frame: AnyFrame) -> PlacedBets | None:
        """Bets on a batch to be drawn under `frame`, to be given back to `settle`."""
        ...

    def settle(self, placed: PlacedBets | None, batch: AnyBatch) -> None:
        """Take what a batch made of bets that were placed before."""
        ...

    def amend(self, place: int, before: AnyBatch, after: AnyBatch) -> None:
        """Take batch number `place` once more, with outcomes that were outstanding `before`."""
        ...

    def rank(self, slope: Array, past: Sequence[AnyBatch]) -> None:
        """Take a new estimate of θ."""
        ...

    def add(self, capital: float) -> None:
        """Take in a target that was added, which starts with this log wealth."""
        ...

    def log_evidence(self) -> Array:
        """The log of the evidence against every target, which drops it at the level."""
        ...


# --- the best target -----------------------------------------------------------------------------


@tiered
def put_leaders_first(targets: Array, slope: Array, tie: float, order: Indices) -> None:
    """Swap the target of the largest z·θ̂ to the front of `order`, the second to its next place.

    Values that differ by less than `tie` times the largest count as equal: the first then leads.
    """
    values = np.empty(len(order))
    largest = 0.0
    for i in range(len(order)):
        values[i] = 0.0
        for j in range(len(slope)):
            values[i] += targets[order[i], j] * slope[j]
        largest = max(largest, abs(values[i]))
    for place in range(min(2, len(order))):
        best = place
        top = values[place]
        for i in range(place + 1, len(order)):
            top = max(top, values[i])
        top -= tie * largest
        while values[best] < top:
            best += 1
        target, value = order[best], values[best]
        for i in range(best, place, -1):
            order[i], values[i] = order[i - 1], values[i - 1]
        order[place], values[place] = target, value


@tiered
def update_e_values(log_wealth: Array, log_shares: Array, targets: Indices, values: Array) -> float:
    """Raise the values of these targets to their e-values; the largest of these."""
    most = -math.inf
    for target in targets:
        value = log_average(log_wealth[target], log_shares)
        values[target] = max(values[target], value)
        most = max(most, value)
    return most


@tiered
def opponent_contrasts(targets: Array, order: Indices) -> Array:
    """The contrast of each target's opponent to it: the leader, or the runner-up to the leader."""
    contrasts = np.empty((len(order), targets.shape[1]))
    for i in range(len(order)):
        opponent = order[0] if i else order[1]
        for j in range(targets.shape[1]):
            contrasts[i, j] = targets[opponent, j] - targets[order[i], j]
    return contrasts


@tiered
def leader_contrasts(targets: Array, order: Indices) -> Array:
    """The contrasts of the leader with the others."""
    rows = np.empty((len(order) - 1, targets.shape[1]))
    for i in range(len(rows)):
        for j in range(rows.shape[1]):
            rows[i, j] = targets[order[0], j] - targets[order[i + 1], j]
    return rows


@tiered
def surviving(values: Array, level: float, active: Indices) -> Indices:
    """The targets whose log e-value is below the level.

    If all have reached it, which is an error, the one with the least evidence against it stays.
    """
    best, count = active[0], 0
    for target in active:
        count += values[target] < level
        if values[target] < values[best]:
            best = target
    left = np.empty(max(count, 1), dtype=np.int64)
    left[0] = best
    count = 0
    for target in active:
        if values[target] < level:
            left[count] = target
            count += 1
    return left


@dataclass(frozen=True)
class _NoBets:
    """Of a batch that nothing was bet on, as those that measure an effect.

    Attributes:
        stakes: the number of stakes.
    """

    stakes: int

    def settle(self, batch: AnyBatch) -> BetResult:  # noqa: ARG002 - whatever came of it
        """No contrast."""
        return BetResult(*np.zeros((2, 0, self.stakes)))

    def log_growth(self, batch: AnyBatch) -> Array:
        """Of no contrast."""
        return self.settle(batch).growth


class _PendingBatch(NamedTuple):
    """A batch that is not finalized yet, with the bets on it and what it makes of them."""

    placed: PlacedBets
    batch: AnyBatch
    growth: Array


class BestTargetEvidence:
    """One e-process per target, against the hypothesis that it is the best.

    Before each batch every target bets that some opponent is better: the leader, or the runner-up
    against the leader itself. If z is the best, every opponent's contrast to it is at most zero,
    so its wealth is a supermartingale for any opponents, and Ville's inequality bounds
    the chance that it ever reaches 1/δ by δ. Only that wealth can cause an error.

    That holds over all prefixes of the batches, so whichever has the most to show may be read. A
    batch with outcomes outstanding counts them at their worst, which is less than its true wealth.
    Of the last batches, from the first that lacks an outcome on, every prefix is looked at.

    Args:
        targets: in coordinates.
        level: log(1/δ).
        grid: the stakes.
    """

    def __init__(self, targets: TargetCoordinates, *, level: float, grid: StakeGrid) -> None:
        self._targets, self._level, self._grid = targets, level, grid
        self._wealth: Array = np.zeros((len(targets), len(grid)))  # logs; of finalized batches
        self._pending: list[_PendingBatch] = []  # the batches after them
        self._finalized = 0
        self._amendable: dict[int, PlacedBets] = {}  # on finalized batches that lack outcomes
        self._values: Array = np.zeros(len(targets))
        self.active: Indices = np.arange(len(targets))
        self._order: Indices = self.active

    @property
    def arrays(self) -> tuple[Array, Array, float]:
        """For compiled runs: the log wealth, the log e-values and the level."""
        return self._wealth, self._values, self._level

    def continue_with(self, active: Indices, order: Indices) -> None:
        """Take the targets that a compiled run left, and their order."""
        self.active, self._order = active, order

    @property
    def chosen(self) -> Indices:
        """The leader."""
        return self._order[:1]

    @property
    def leaders(self) -> tuple[int, int]:
        """The leader and the runner-up, while there is one."""
        return int(self._order[0]), int(self._order[min(1, len(self._order) - 1)])

    @property
    def decided(self) -> bool:
        """Whether one target is left."""
        return len(self.active) == 1

    def is_shown_best(self, target: int) -> bool:
        """Whether this target is the last one left."""
        return self.decided and int(self._order[0]) == target

    def open_contrasts(self) -> Array:
        """The leader's contrasts to all others that are left."""
        return leader_contrasts(self._targets.now, self._order)

    def place_bets(self, frame: AnyFrame) -> PlacedBets:
        """Every target left against the leader, the leader against the runner-up."""
        contrasts = opponent_contrasts(self._targets.now, self._order)
        return PlacedBets(self._order, frame.bets(contrasts))

    def settle(self, placed: PlacedBets | None, batch: AnyBatch) -> None:
        """Add the growth to each wealth, and drop targets whose wealth has reached 1/δ."""
        if placed is None:  # it keeps its place among the batches all the same
            placed = PlacedBets(np.zeros(0, dtype=np.int64), _NoBets(len(self._grid)))
        self._pending.append(_PendingBatch(placed, batch, placed.bets.log_growth(batch)))
        self._update()

    def amend(self, place: int, before: AnyBatch, after: AnyBatch) -> None:
        """Put what a batch makes of the bets now in the place of what it made of them before."""
        at = place - self._finalized
        if at >= 0:
            placed = self._pending[at].placed
            self._pending[at] = _PendingBatch(placed, after, placed.bets.log_growth(after))
        else:
            targets, bets = self._amendable[place]
            self._wealth[targets] += bets.log_growth(after) - bets.log_growth(before)
            if not after.pending:
                del self._amendable[place]
        self._update()

    def _finalize(self) -> None:
        count = finalized([each.batch for each in self._pending])
        for place, (placed, batch, growth) in enumerate(self._pending[:count], self._finalized):
            self._wealth[placed.targets] += growth
            if batch.pending:
                self._amendable[place] = placed
        self._finalized += count
        del self._pending[:count]

    def _update(self) -> None:
        """Drop targets whose wealth has reached 1/δ after some prefix."""
        self._finalize()
        self._values[self.active] = -np.inf
        wealth = self._wealth.copy() if self._pending else self._wealth
        known = self._grid.log_shares, self.active, self._values
        most = update_e_values(wealth, *known)
        for placed, _, growth in self._pending:
            wealth[placed.targets] += growth
            most = max(most, update_e_values(wealth, *known))
        if most >= self._level:
            self.active = surviving(self._values, self._level, self.active)
            self._order = self._order[np.isin(self._order, self.active)]

    def rank(self, slope: Array, past: Sequence[AnyBatch]) -> None:  # noqa: ARG002 - no pair is replayed
        """Put the leader first and the runner-up second; the others follow in order of index."""
        self._order = self.active.copy()
        put_leaders_first(self._targets.now, slope, TIE, self._order)

    def add(self, capital: float) -> None:
        """The best of more targets is the best of those before: their wealth goes on."""
        added = len(self._values)
        self._wealth = np.vstack([self._wealth, np.full((1, len(self._grid)), capital)])
        self._values = np.append(self._values, capital)
        self.active, self._order = np.append(self.active, added), np.append(self._order, added)

    def log_evidence(self) -> Array:
        """The log of each target's e-value against its being the best, when last it bet.

        While outcomes are outstanding, the largest of the prefixes that are looked at.
        """
        return self._values


# --- the declared baseline ------------------------------------------------------------------------


class LevelEvidence:
    """Two e-processes, against ν ≤ R and against ν ≥ −R: whether the baseline is as declared.

    Args:
        grid: the stakes.
    """

    def __init__(self, grid: StakeGrid) -> None:
        self._grid = grid
        self.wealth: Array = np.zeros((2, len(grid)))  # logs

    def add(self, growth: Array) -> float:
        """Take what a batch adds to the wealth; the larger of the two log e-values."""
        self.wealth += growth
        return float(self._grid.log_value(self.wealth).max())


# --- a set of targets, or a tolerance ------------------------------------------------------------


@dataclass(eq=False)
class _TargetPairs:
    """The pairs of one target with all others.

    Attributes:
        target: the target.
        rivals: those that it is not decided against.
        wealth: its log wealth against these.
        most: the largest log e-value so far, against all targets.
        batches: how many batches are in it.
    """

    target: int
    rivals: Indices
    wealth: Array
    most: Array
    batches: int = 0


class TopTargetsEvidence:
    """One e-process for each pair of a chosen target and another: for top m, or a tolerance ε.

    Wealth of the pair (o, z) bets against (o − z)·θ ≤ −ε. The m targets of the highest estimates
    are shown to be right once all their pairs with others have reached the level. Opponents do not
    change here, because a target that is truly among the best may truly have better opponents.
    The bets on any contrast were fixed, batch by batch, by what was known then. So the wealth of a
    pair is one and the same function of all batches whenever it is asked for: pairs that are needed
    are brought up to date from the past, those that are not wait. (A long past of many pairs is
    taken in bit by bit: the wealth of any prefix is evidence.) A pair that has reached the level is
    decided for good and bets no more, so that of many pairs few are left before long. Batches that
    lack outcomes count them at their worst: see `BestTargetEvidence`.

    Args:
        targets: in coordinates.
        level: the log of the wealth at which a pair is decided.
        top: m.
        tolerance: ε.
        grid: the stakes.
        control: a target whose pairs are kept up to date whether it is chosen or not, or None.
        capital: the log wealth that a pair starts with: of targets that were there from the start,
            of the first that was added, and so on.
    """

    def __init__(
        self,
        targets: TargetCoordinates,
        *,
        level: float,
        top: int,
        tolerance: float,
        grid: StakeGrid,
        control: int | None = None,
        capital: Sequence[float] = (0.0,),
    ) -> None:
        self._control = [] if control is None else [control]
        self._targets, self._level, self._grid = targets, level, grid
        self._top, self._tolerance = top, tolerance
        self._pairs: dict[int, _TargetPairs] = {}  # by target; the last chosen come last
        self._finalized = 0  # how many batches may be in them
        self._capital = list(capital)
        self._order: Indices = targets.present
        self._bring_up_to_date([])

    @property
    def chosen(self) -> Indices:
        """The m targets of the highest estimates."""
        return self._order[: self._top]

    @property
    def leaders(self) -> tuple[int, int]:
        """The two targets of the highest estimates, while there are two."""
        return int(self._order[0]), int(self._order[min(1, len(self._order) - 1)])

    def is_shown_best(self, target: int) -> bool:
        """Whether this target has beaten every other one, but for the tolerance."""
        pairs = self._pairs.get(target)
        others = self._order[self._order != target]
        return pairs is not None and bool((pairs.most[others] >= self._level).all())

    @property
    def _lacking(self) -> Array:
        """The missing evidence of each chosen target (row) against each other one (column)."""
        rows = np.array([self._pairs[int(o)].most for o in self.chosen])
        return np.asarray(self._level - rows[:, self._order[self._top :]])

    @property
    def active(self) -> Indices:
        """The chosen targets and those that not all of them have beaten."""
        out = (self._lacking <= 0).all(axis=0)
        return np.sort(np.concatenate([self.chosen, self._order[self._top :][~out]]))

    @property
    def decided(self) -> bool:
        """Whether every chosen target has beaten every other one."""
        return bool((self._lacking <= 0).all())

    def open_contrasts(self) -> Array:
        """Undecided pairs of chosen and others; only those along the border if they are many."""
        lacking = self._lacking
        undecided = lacking > 0
        if not undecided.any():
            return self._open_contrasts_of_control()
        if lacking.size > _ALL_PAIRS:
            border = np.zeros_like(undecided)
            border[-1, :] = border[:, 0] = True
            undecided = border & undecided if (border & undecided).any() else undecided
        inside, outside = np.nonzero(undecided)
        targets = self._targets.now
        return targets[self._order[inside]] - targets[self._order[self._top + outside]]

    def _open_contrasts_of_control(self) -> Array:
        """The undecided pairs of the control, where all others are decided."""
        [control] = self._control
        lacking = self._level - self._pairs[control].most
        rivals = self._order[(lacking[self._order] > 0) & (self._order != control)]
        rivals.sort()
        targets = self._targets.now
        return np.asarray(targets[control] - targets[rivals])

    def place_bets(self, frame: AnyFrame) -> None:
        """None that need to be kept: they follow from the frame."""

    def _growth(self, pairs: _TargetPairs, place: int, *batches: AnyBatch) -> list[Array]:
        """What each of these outcomes of batch number `place` adds to the log wealth of pairs.

        Nothing where a target of the pair was not among the options of the batch.
        """
        contrasts = self._targets.contrasts(place, pairs.target, pairs.rivals)
        known = ~np.isnan(contrasts[:, 0])
        growth = [np.zeros((len(known), len(self._grid))) for _ in batches]
        if known.any():
            bets = batches[0].frame.bets(contrasts[known], margin=self._tolerance)
            for part, batch in zip(growth, batches, strict=True):
                part[known] = bets.log_growth(batch)
        return growth

    def settle(self, placed: PlacedBets | None, batch: AnyBatch) -> None:
        """Nothing yet: `rank` takes the batch in with the rest of the past."""

    def amend(self, place: int, before: AnyBatch, after: AnyBatch) -> None:
        """Bring up to date what has taken the batch in; `rank` does the others."""
        for pairs in self._pairs.values():
            if place < pairs.batches:
                now, then = self._growth(pairs, place, after, before)
                pairs.wealth += now - then
                self._decide(pairs, self._grid.log_value(pairs.wealth))

    def _decide(self, pairs: _TargetPairs, values: Array) -> None:
        """Note evidence against the rivals, and let go of those that it suffices for."""
        most = np.maximum(pairs.most[pairs.rivals], values)
        pairs.most[pairs.rivals] = most
        left = most < self._level
        pairs.rivals, pairs.wealth = pairs.rivals[left], pairs.wealth[left]

    def _look_ahead(self, pairs: _TargetPairs, pending: Sequence[AnyBatch]) -> None:
        """Look at every prefix of batches that lack outcomes, without taking them in."""
        wealth = pairs.wealth.copy()
        values = self._grid.log_value(wealth)
        for place, batch in enumerate(pending, pairs.batches):
            wealth += self._growth(pairs, place, batch)[0]
            values = np.maximum(values, self._grid.log_value(wealth))
        self._decide(pairs, values)

    def rank(self, slope: Array, past: Sequence[AnyBatch]) -> None:
        """Order the targets by their estimates, and take in the batches that chosen ones lack."""
        present = self._targets.present
        self._order = present[ranked(self._targets.now[present] @ slope)]
        self._bring_up_to_date(past)

    def _bring_up_to_date(self, past: Sequence[AnyBatch]) -> None:
        room = _REPLAYED
        self._finalized = max(self._finalized, finalized(past))
        for target in dict.fromkeys([*self._control, *self.chosen.tolist()]):
            pairs = self._pairs.pop(target, None) or self._new_pairs(target)
            self._pairs[target] = pairs
            # One batch more than comes in, so that everybody catches up.
            soon = min(pairs.batches + 2, self._finalized)
            while pairs.batches < soon or (pairs.batches < self._finalized and room > 0):
                room -= len(pairs.rivals) * (pairs.batches >= soon)
                batch = past[pairs.batches]
                pairs.wealth += self._growth(pairs, pairs.batches, batch)[0]
                self._decide(pairs, self._grid.log_value(pairs.wealth))
                pairs.batches += 1
            if pairs.batches == self._finalized < len(past):
                self._look_ahead(pairs, past[pairs.batches :])
        for old in list(self._pairs)[: -(_KEPT + 4 * self._top)]:
            del self._pairs[old]

    def _new_pairs(self, target: int) -> _TargetPairs:
        additions, present = self._targets.additions, self._targets.present
        capital = np.array(self._capital)[np.maximum(additions[target], additions)]
        rivals = present[present != target]
        wealth = np.repeat(capital[rivals, None], len(self._grid), axis=1)
        return _TargetPairs(target, rivals, wealth, capital)

    def add(self, capital: float) -> None:
        """Pairs with the target that was added start with this."""
        added = len(self._targets) - 1
        self._capital.append(capital)
        self._order = np.append(self._order, added)
        for pairs in self._pairs.values():
            pairs.rivals, pairs.most = (
                np.append(pairs.rivals, added),
                np.append(pairs.most, capital),
            )
            pairs.wealth = np.vstack([pairs.wealth, np.full((1, len(self._grid)), capital)])

    def retire(self) -> None:
        """Leave out the pairs with a target that was retired."""
        present = self._targets.present
        self._order = self._order[np.isin(self._order, present)]
        self._pairs = {o: pairs for o, pairs in self._pairs.items() if o in present}
        for pairs in self._pairs.values():
            left = np.isin(pairs.rivals, present)
            pairs.rivals, pairs.wealth = pairs.rivals[left], pairs.wealth[left]

    def log_evidence(self) -> Array:
        """For each target, the least of the pairs that must put it in or out, as a log.

        Of each pair this is the largest log e-value so far, as a pair that has once reached the
        level is decided. A running maximum is not an e-value.
        """
        lacking = self._lacking
        evidence = np.zeros(len(self._targets))
        evidence[self._order[self._top :]] = self._level - lacking.max(axis=0)
        if lacking.size:
            evidence[self.chosen] = self._level - lacking.max(axis=1)
        return evidence


# --- after the decision --------------------------------------------------------------------------


class EffectMeasurement:
    """After the decision: pulls go on for one contrast, and nothing is decided any more.

    Args:
        before: the evidence that decided; kept.
        target: the target that it named.
        control: the target that its lead is measured against.
        targets: in coordinates of the affine span.
    """

    def __init__(self, before: Evidence, target: int, control: int, targets: Array) -> None:
        self.before = before
        self.chosen: Indices = np.array([target])
        self.active: Indices = np.sort([target, control])
        self.leaders = target, control
        self.decided = True
        self._contrast: Array = (targets[target] - targets[control])[None]
        self._evidence = before.log_evidence().copy()

    def is_shown_best(self, target: int) -> bool:
        """Whether it is the one that was named."""
        return target == self.leaders[0]

    def open_contrasts(self) -> Array:
        """The lead over the control."""
        return self._contrast

    def place_bets(self, frame: AnyFrame) -> None:
        """None: the decision is made."""

    def settle(self, placed: PlacedBets | None, batch: AnyBatch) -> None:
        """For the evidence before, which goes on if the options change."""
        self.before.settle(placed, batch)

    def amend(self, place: int, before: AnyBatch, after: AnyBatch) -> None:
        """For the evidence before."""
        self.before.amend(place, before, after)

    def rank(self, slope: Array, past: Sequence[AnyBatch]) -> None:
        """Nothing: the decision is made."""

    def add(self, capital: float) -> None:
        """Nothing: with another target the evidence before goes on."""

    def log_evidence(self) -> Array:
        """The log of every target's e-value, when the decision was made."""
        return self._evidence
