"""Who is shown to be better than whom: evidence against each target, or between pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bestarm.numerics.geometry import TIE, Array, ranked
from bestarm.policies.anytime.batches import AnyBatch, AnyBets, AnyFrame
from bestarm.policies.anytime.bets import StakeGrid, folded

Indices = NDArray[np.int64]
Stakes = list[tuple[Indices, Any]]  # bets, and whose they are

_ALL_PAIRS = 4096  # up to this many contrasts between chosen and others a design sees all of them
_REPLAYED = 50_000  # contrasts of past batches to take in at once, beyond two batches a target
_KEPT = 32  # targets chosen before, besides four times those chosen: they may come back
LEAST_NEED = 0.5  # nats: a contrast that lacks little may still lack it for a while


class OpenContrasts(NamedTuple):
    """Contrasts that want evidence: rows in coordinates, and how much each wants, in nats."""

    rows: Array
    needs: Array


class Contest(Protocol):
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

    def settles_for(self, target: int) -> bool:
        """Whether no other target is better than this one by more than the tolerance."""
        ...

    def wanted(self) -> OpenContrasts:
        """The contrasts that want evidence."""
        ...

    def stake(self, frame: AnyFrame) -> Stakes:
        """AnyBets on a batch to be drawn under `frame`, to be given back to `settle`."""
        ...

    def settle(self, stakes: Stakes, batch: AnyBatch) -> None:
        """Take what a batch made of the bets of an earlier `stake`."""
        ...

    def amend(self, place: int, before: AnyBatch, after: AnyBatch) -> None:
        """Take batch number `place` once more, with outcomes that were outstanding `before`."""
        ...

    def rank(self, slope: Array, past: Sequence[AnyBatch]) -> None:
        """Take a new estimate of θ."""
        ...

    def log_evidence(self) -> Array:
        """The log of the evidence against every target, which drops it at the level."""
        ...


class _Loose(NamedTuple):
    """A batch that is not folded yet, with the bets on it and what it makes of them."""

    stakes: Stakes
    batch: AnyBatch
    growth: Array


class BestOf:
    """One e-process a target, against the hypothesis that it is the best.

    Before each batch every target bets that some opponent is better: the leader, or the runner-up
    against the leader itself. If z is the best, every opponent's contrast to it is at most zero,
    so its wealth is a supermartingale for any opponents, and Ville's inequality bounds
    the chance that it ever reaches 1/δ by δ. Only that wealth can cause an error.

    That holds over all prefixes of the batches, so whichever has the most to show may be read. A
    batch with outcomes outstanding counts them at their worst, which is less than its true wealth.
    Of the last batches, from the first that lacks an outcome on, every prefix is looked at.

    Args:
        targets: in coordinates of the affine span.
        level: log(1/δ).
        grid: the stakes.
    """

    def __init__(self, targets: Array, *, level: float, grid: StakeGrid) -> None:
        self._targets, self._level, self._grid = targets, level, grid
        self._wealth: Array = np.zeros((len(targets), len(grid)))  # logs; of folded batches
        self._loose: list[_Loose] = []  # the batches after them
        self._folded = 0
        self._amendable: dict[int, Stakes] = {}  # bets on folded batches that lack outcomes
        self._value: Array = np.zeros(len(targets))
        self.active: Indices = np.arange(len(targets))
        self._order: Indices = self.active

    @property
    def arrays(self) -> tuple[Array, Array, float]:
        """For compiled runs: the log wealth, the log e-values and the level."""
        return self._wealth, self._value, self._level

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

    def settles_for(self, target: int) -> bool:
        """Whether this target is the last one left."""
        return self.decided and int(self._order[0]) == target

    def wanted(self) -> OpenContrasts:
        """The leader's contrasts to all others that are left."""
        leader, others = self._order[0], self._order[1:]
        needs = np.maximum(self._level - self._value[others], LEAST_NEED)
        return OpenContrasts(self._targets[leader] - self._targets[others], needs)

    def stake(self, frame: AnyFrame) -> Stakes:
        """Every target left against the leader, the leader against the runner-up."""
        opponents = np.full(len(self._order), self._order[0])
        opponents[0] = self._order[1]
        return [(self._order, frame.bets(self._targets[opponents] - self._targets[self._order]))]

    def settle(self, stakes: Stakes, batch: AnyBatch) -> None:
        """Add the growth to each wealth, and drop targets whose wealth has reached 1/δ."""
        self._loose.append(_Loose(stakes, batch, self._growth(stakes, batch)))
        self._look()

    def amend(self, place: int, before: AnyBatch, after: AnyBatch) -> None:
        """Put what a batch makes of the bets now in the place of what it made of them before."""
        if place >= self._folded:
            stakes = self._loose[place - self._folded].stakes
            loose = _Loose(stakes, after, self._growth(stakes, after))
            self._loose[place - self._folded] = loose
        else:
            stakes = self._amendable[place]
            [(targets, _)] = stakes
            self._wealth[targets] += self._growth(stakes, after) - self._growth(stakes, before)
            if not after.pending:
                del self._amendable[place]
        self._look()

    @staticmethod
    def _growth(stakes: Stakes, batch: AnyBatch) -> Array:
        [(_, bets)] = stakes
        return np.asarray(bets.log_growth(batch))

    def _fold(self) -> None:
        count = folded([loose.batch for loose in self._loose])
        for place, loose in enumerate(self._loose[:count], start=self._folded):
            [(targets, _)] = loose.stakes
            self._wealth[targets] += loose.growth
            if loose.batch.pending:
                self._amendable[place] = loose.stakes
        self._folded += count
        del self._loose[:count]

    def _look(self) -> None:
        """Drop targets whose wealth has reached 1/δ after some prefix."""
        from bestarm.policies.anytime.kernels import look  # noqa: PLC0415 - compiles

        self._fold()
        self._value[self.active] = -np.inf
        wealth = self._wealth.copy() if self._loose else self._wealth
        most = look(wealth, self._grid.log_shares, self.active, self._value)
        for loose in self._loose:
            [(targets, _)] = loose.stakes
            wealth[targets] += loose.growth
            most = max(most, look(wealth, self._grid.log_shares, self.active, self._value))
        if most < self._level:
            return
        value = self._value[self.active]
        reached = value >= self._level
        if reached.all():  # in error, then; keep the one with the least against it
            reached[np.argmin(value)] = False
        self.active = self.active[~reached]
        self._order = self._order[np.isin(self._order, self.active)]

    def rank(self, slope: Array, past: Sequence[AnyBatch]) -> None:  # noqa: ARG002 - no pair is replayed
        """Put the leader first and the runner-up second; the others follow in order of index."""
        from bestarm.policies.anytime.kernels import lead  # noqa: PLC0415 - compiles

        self._order = self.active.copy()
        lead(self._targets, slope, TIE, self._order)

    def log_evidence(self) -> Array:
        """The log of each target's e-value against its being the best, when last it bet.

        While outcomes are outstanding, the largest of the prefixes that are looked at.
        """
        return self._value


class Measuring:
    """After the decision: pulls go on for one contrast, and nothing is decided any more.

    Args:
        before: the contest that decided.
        target: the target that it named.
        control: the target that its lead is measured against.
        targets: in coordinates of the affine span.
    """

    def __init__(self, before: Contest, target: int, control: int, targets: Array) -> None:
        self.chosen: Indices = np.array([target])
        self.active: Indices = np.sort([target, control])
        self.leaders = target, control
        self.decided = True
        self._contrast = (targets[target] - targets[control])[None]
        self._evidence = before.log_evidence().copy()

    def settles_for(self, target: int) -> bool:
        """Whether it is the one that was named."""
        return target == self.leaders[0]

    def wanted(self) -> OpenContrasts:
        """The lead over the control."""
        return OpenContrasts(self._contrast, np.ones(1))

    def stake(self, frame: AnyFrame) -> Stakes:  # noqa: ARG002 - the decision is made
        """None."""
        return []

    def settle(self, stakes: Stakes, batch: AnyBatch) -> None:
        """Nothing: the decision is made."""

    def amend(self, place: int, before: AnyBatch, after: AnyBatch) -> None:
        """Nothing: the decision is made."""

    def rank(self, slope: Array, past: Sequence[AnyBatch]) -> None:
        """Nothing: the decision is made."""

    def log_evidence(self) -> Array:
        """The log of every target's e-value, when the decision was made."""
        return self._evidence


class TopOf:
    """One e-process for each pair of a chosen target and another: for top m, or a tolerance ε.

    Wealth of the pair (o, z) bets against (o − z)·θ ≤ −ε. The m targets of the highest estimates
    are shown to be right once all their pairs with others have reached the level. Opponents do not
    change here, because a target that is truly among the best may truly have better opponents.
    The bets on any contrast were fixed, batch by batch, by what was known then. So the wealth of a
    pair is one and the same function of all batches whenever it is asked for: pairs that are needed
    are brought up to date from the past, those that are not wait. (A long past of many pairs is
    taken in bit by bit: the wealth of any prefix is evidence.) A pair that has reached the level is
    decided for good and bets no more, so that of many pairs few are left before long. Batches that
    lack outcomes count them at their worst: see `BestOf`.

    Args:
        targets: in coordinates of the affine span.
        level: the log of the wealth at which a pair is decided.
        top: m.
        tolerance: ε.
        grid: the stakes.
        control: a target whose pairs are kept up to date whether it is chosen or not, or None.
    """

    def __init__(
        self,
        targets: Array,
        *,
        level: float,
        top: int,
        tolerance: float,
        grid: StakeGrid,
        control: int | None = None,
    ) -> None:
        self._control = [] if control is None else [control]
        self._targets, self._level, self._grid = targets, level, grid
        self._top, self._tolerance = top, tolerance
        self._open: dict[int, Indices] = {}  # those that each chosen target is not decided against
        self._wealth: dict[int, Array] = {}  # of each chosen target against these
        self._most: dict[int, Array] = {}  # the largest log e-value so far, against all
        self._seen: dict[int, int] = {}  # how many batches are in it; the last chosen come last
        self._folded = 0  # how many batches may be
        self._order: Indices = np.arange(len(targets))
        self._bring_up_to_date([])

    @property
    def chosen(self) -> Indices:
        """The m targets of the highest estimates."""
        return self._order[: self._top]

    @property
    def leaders(self) -> tuple[int, int]:
        """The two targets of the highest estimates."""
        return int(self._order[0]), int(self._order[1])

    def settles_for(self, target: int) -> bool:
        """Whether this target has beaten every other one, but for the tolerance."""
        most = self._most.get(target)
        return most is not None and bool((np.delete(most, target) >= self._level).all())

    @property
    def _lacking(self) -> Array:
        """The missing evidence of each chosen target (row) against each other one (column)."""
        rows = np.array([self._most[int(o)] for o in self.chosen])
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

    def wanted(self) -> OpenContrasts:
        """Undecided pairs of chosen and others; only those along the border if they are many."""
        lacking = self._lacking
        undecided = lacking > 0
        if not undecided.any():
            return self._wanted_of_control()
        if lacking.size > _ALL_PAIRS:
            border = np.zeros_like(undecided)
            border[-1, :] = border[:, 0] = True
            undecided = border & undecided if (border & undecided).any() else undecided
        inside, outside = np.nonzero(undecided)
        rows = self._targets[self._order[inside]] - self._targets[self._order[self._top + outside]]
        return OpenContrasts(rows, np.maximum(lacking[inside, outside], LEAST_NEED))

    def _wanted_of_control(self) -> OpenContrasts:
        """The undecided pairs of the control, where all others are decided."""
        [control] = self._control
        needs = self._level - self._most[control]
        needs[control] = 0.0
        rivals = np.flatnonzero(needs > 0)
        return OpenContrasts(
            self._targets[control] - self._targets[rivals], np.maximum(needs[rivals], LEAST_NEED)
        )

    def stake(self, frame: AnyFrame) -> Stakes:  # noqa: ARG002 - they follow from the frame
        """None that need to be kept."""
        return []

    def _bets(self, frame: AnyFrame, target: int) -> AnyBets:
        contrasts = self._targets[target] - self._targets[self._open[target]]
        return frame.bets(contrasts, margin=self._tolerance)

    def settle(self, stakes: Stakes, batch: AnyBatch) -> None:
        """Nothing yet: `rank` takes the batch in with the rest of the past."""

    def amend(self, place: int, before: AnyBatch, after: AnyBatch) -> None:
        """Bring up to date what has taken the batch in; `rank` does the others."""
        for target, seen in self._seen.items():
            if place < seen:
                bets = self._bets(after.frame, target)
                self._wealth[target] += bets.log_growth(after) - bets.log_growth(before)
                self._decide(target, self._grid.log_value(self._wealth[target]))

    def _add(self, target: int, batch: AnyBatch) -> None:
        self._wealth[target] += self._bets(batch.frame, target).log_growth(batch)
        self._decide(target, self._grid.log_value(self._wealth[target]))

    def _decide(self, target: int, values: Array) -> None:
        """Note evidence against the rivals, and let go of those that it suffices for."""
        rivals = self._open[target]
        most = np.maximum(self._most[target][rivals], values)
        self._most[target][rivals] = most
        left = most < self._level
        self._open[target], self._wealth[target] = rivals[left], self._wealth[target][left]

    def _look_ahead(self, target: int, loose: Sequence[AnyBatch]) -> None:
        """Look at every prefix of batches that lack outcomes, without taking them in."""
        wealth = self._wealth[target].copy()
        values = self._grid.log_value(wealth)
        for batch in loose:
            wealth += self._bets(batch.frame, target).log_growth(batch)
            values = np.maximum(values, self._grid.log_value(wealth))
        self._decide(target, values)

    def rank(self, slope: Array, past: Sequence[AnyBatch]) -> None:
        """Order the targets by their estimates, and take in what the chosen ones have not seen."""
        self._order = ranked(self._targets @ slope)
        self._bring_up_to_date(past)

    def _bring_up_to_date(self, past: Sequence[AnyBatch]) -> None:
        everybody = np.arange(len(self._targets))
        room = _REPLAYED
        self._folded = max(self._folded, folded(past))
        for target in dict.fromkeys([*self._control, *self.chosen.tolist()]):
            if target not in self._seen:
                self._open[target] = np.delete(everybody, target)
                self._wealth[target] = np.zeros((len(everybody) - 1, len(self._grid)))
                self._most[target] = np.zeros(len(everybody))
            seen = self._seen.pop(target, 0)
            soon = min(seen + 2, self._folded)  # one more than comes in: everybody catches up
            while seen < soon or (seen < self._folded and room > 0):
                room -= len(self._open[target]) * (seen >= soon)
                self._add(target, past[seen])
                seen += 1
            self._seen[target] = seen
            if seen == self._folded < len(past):
                self._look_ahead(target, past[seen:])
        for old in list(self._seen)[: -(_KEPT + 4 * self._top)]:
            del self._open[old], self._wealth[old], self._most[old], self._seen[old]

    def log_evidence(self) -> Array:
        """For each target, the least of the pairs that must put it in or out, as a log.

        Of each pair this is the largest log e-value so far, as a pair that has once reached the
        level is decided. A running maximum is not an e-value.
        """
        lacking = self._lacking
        evidence = np.empty(len(self._targets))
        evidence[self._order[self._top :]] = self._level - lacking.max(axis=0)
        evidence[self.chosen] = self._level - lacking.max(axis=1)
        return evidence
