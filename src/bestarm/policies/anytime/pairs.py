"""Evidence between pairs of targets, for the set of the m best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bestarm.numerics.geometry import Array, Indices, ranked
from bestarm.policies.anytime.bets import StakeGrid
from bestarm.policies.anytime.evidence import AnyBatch, AnyFrame, Placed, finalized
from bestarm.policies.anytime.options import TargetCoordinates

_ALL_PAIRS = 4096  # up to this many contrasts between chosen and others a design sees all of them
_REPLAYED = 50_000  # contrasts of past batches to take in at once, beyond two batches a target
_KEPT = 32  # targets chosen before, besides four times those chosen: they may come back


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
    """One e-process for each pair of a chosen target and another.

    Wealth of the pair (o, z) bets against (o − z)·θ ≤ −ε. The m targets of the highest estimates
    are shown to be right once all their pairs with others have reached the threshold. Opponents do
    not change here, because a target that is truly among the best may truly have better opponents.
    The bets on any contrast were fixed, batch by batch, by what was known then. So the wealth of a
    pair is one and the same function of all batches whenever it is asked for: pairs that are needed
    are brought up to date from the past, those that are not wait. (A long past of many pairs is
    taken in bit by bit: the wealth of any prefix is evidence.) A pair that has reached the
    threshold is decided for good and bets no more, so that of many pairs few are left before long.
    Batches that lack outcomes count them at their worst: see `evidence.Account`.

    Args:
        targets: in coordinates.
        threshold: the log of the wealth at which a pair is decided.
        top: m.
        tolerance: ε.
        grid: the stakes.
    """

    def __init__(
        self,
        targets: TargetCoordinates,
        *,
        threshold: float,
        top: int,
        tolerance: float,
        grid: StakeGrid,
    ) -> None:
        self._targets, self._threshold, self._grid = targets, threshold, grid
        self._top, self._tolerance = top, tolerance
        self._pairs: dict[int, _TargetPairs] = {}  # by target; the last chosen come last
        self._finalized = 0  # how many batches may be in them
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

    @property
    def _lacking(self) -> Array:
        """The missing evidence of each chosen target (row) against each other one (column)."""
        rows = np.array([self._pairs[int(o)].most for o in self.chosen])
        return np.asarray(self._threshold - rows[:, self._order[self._top :]])

    @property
    def active(self) -> Indices:
        """The chosen targets and those that not all of them have beaten."""
        out = (self._lacking <= 0).all(axis=0)
        return np.sort(np.concatenate([self.chosen, self._order[self._top :][~out]]))

    @property
    def decided(self) -> bool:
        """Whether every chosen target has beaten every other one."""
        return bool((self._lacking <= 0).all())

    def open_pairs(self) -> Indices:
        """Undecided pairs of chosen and others; only those along the border if they are many."""
        lacking = self._lacking
        undecided = lacking > 0
        if lacking.size > _ALL_PAIRS:
            border = np.zeros_like(undecided)
            border[-1, :] = border[:, 0] = True
            undecided = border & undecided if (border & undecided).any() else undecided
        inside, outside = np.nonzero(undecided)
        return np.stack([self._order[inside], self._order[self._top + outside]], axis=1)

    def place_bets(self, frame: AnyFrame) -> Placed:  # noqa: ARG002
        """None that need to be kept: they follow from the frame."""
        return Placed()

    def _growth(self, pairs: _TargetPairs, batch: AnyBatch) -> Array:
        """What the outcome of a batch adds to the log wealth of pairs."""
        contrasts = self._targets.now[pairs.target] - self._targets.now[pairs.rivals]
        return batch.frame.bets(contrasts, margin=self._tolerance).log_growth(batch)

    def settle(self, placed: Placed, batch: AnyBatch) -> None:
        """Nothing yet: `rank` takes the batch in with the rest of the past."""

    def amend(self, place: int, before: AnyBatch, after: AnyBatch) -> None:
        """Bring up to date what has taken the batch in; `rank` does the others."""
        for pairs in self._pairs.values():
            if place < pairs.batches and len(pairs.rivals):
                pairs.wealth += self._growth(pairs, after) - self._growth(pairs, before)
                self._decide(pairs, self._grid.log_value(pairs.wealth))

    def _decide(self, pairs: _TargetPairs, values: Array) -> None:
        """Note evidence against the rivals, and let go of those that it suffices for."""
        most = np.maximum(pairs.most[pairs.rivals], values)
        pairs.most[pairs.rivals] = most
        left = most < self._threshold
        pairs.rivals, pairs.wealth = pairs.rivals[left], pairs.wealth[left]

    def _look_ahead(self, pairs: _TargetPairs, pending: Sequence[AnyBatch]) -> None:
        """Look at every prefix of batches that lack outcomes, without taking them in."""
        wealth = pairs.wealth.copy()
        values = self._grid.log_value(wealth)
        for batch in pending:
            wealth += self._growth(pairs, batch)
            values = np.maximum(values, self._grid.log_value(wealth))
        self._decide(pairs, values)

    def rank(self, slope: Array, past: Sequence[AnyBatch]) -> None:
        """Order the targets by their estimates, and take in the batches that chosen ones lack."""
        self._order = ranked(self._targets.now @ slope)
        self._bring_up_to_date(past)

    def _bring_up_to_date(self, past: Sequence[AnyBatch]) -> None:
        room = _REPLAYED
        self._finalized = max(self._finalized, finalized(past))
        for target in self.chosen.tolist():
            pairs = self._pairs.pop(target, None) or self._new_pairs(target)
            self._pairs[target] = pairs
            # One batch more than comes in, so that everybody catches up.
            soon = min(pairs.batches + 2, self._finalized)
            while pairs.batches < soon or (pairs.batches < self._finalized and room > 0):
                room -= len(pairs.rivals) * (pairs.batches >= soon)
                if len(pairs.rivals):
                    pairs.wealth += self._growth(pairs, past[pairs.batches])
                    self._decide(pairs, self._grid.log_value(pairs.wealth))
                pairs.batches += 1
            if pairs.batches == self._finalized < len(past) and len(pairs.rivals):
                self._look_ahead(pairs, past[pairs.batches :])
        for old in list(self._pairs)[: -(_KEPT + 4 * self._top)]:
            del self._pairs[old]

    def _new_pairs(self, target: int) -> _TargetPairs:
        targets = np.arange(len(self._targets))
        rivals = targets[targets != target]
        wealth = np.zeros((len(rivals), len(self._grid)))
        return _TargetPairs(target, rivals, wealth, np.zeros(len(targets)))

    def log_evidence(self) -> Array:
        """For each target, the least of the pairs that must put it in or out, as a log.

        Of each pair this is the largest log e-value so far, as a pair that has once reached the
        threshold is decided. A running maximum is not an e-value.
        """
        lacking = self._lacking
        evidence = np.zeros(len(self._targets))
        evidence[self._order[self._top :]] = self._threshold - lacking.max(axis=0)
        if lacking.size:
            evidence[self.chosen] = self._threshold - lacking.max(axis=1)
        return evidence
