"""Certificates: evidence that no other target is better than one by more than a tolerance.

With a tolerance the leader may be named by its certificate; to name the m best, all m have one
against those that are left out. Guardrails use them, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np

from bestarm.numerics.geometry import Array, Indices, ranked
from bestarm.policies.anytime.bets import SLACK, StakeGrid
from bestarm.policies.anytime.evidence import (
    WINDOW,
    Account,
    AnyBatch,
    AnyFrame,
    BestTargetEvidence,
    EffectMeasurement,
    Flags,
    PlacedBets,
    TargetCoordinates,
)

_ALL_PAIRS = 4096  # up to this many contrasts between chosen and others a design sees all of them
_REPLAYED = 50_000  # contrasts of past batches to take in at once, beyond two batches a target
_KEPT = 32  # targets chosen before, besides four times those chosen: they may come back


class Certificate:
    """Wealth that bets, for each of several contrasts, that it exceeds −margin.

    Each contrast is shown for good once its e-value has reached the threshold after any prefix of
    the batches.

    Attributes:
        most: the largest log e-value of each contrast so far.

    Args:
        count: the number of contrasts.
        threshold: the log e-value that shows one.
        margin: ε.
        grid: the stakes.
        first: the number of the first batch to bet on.
        window: see `Account`.
    """

    def __init__(
        self,
        count: int,
        *,
        threshold: float | Array,
        margin: float,
        grid: StakeGrid,
        first: int = 0,
        window: int = WINDOW,
    ) -> None:
        self._threshold, self._margin, self._grid = threshold, margin, grid
        self.account = Account((1, count, len(grid)), first, window=window)
        self.most: Array = np.zeros(count)

    @property
    def shown(self) -> Flags:
        """Which contrasts are shown to exceed −margin."""
        return np.asarray(self.most >= self._threshold)

    def bet(self, frame: AnyFrame, rows: Indices, contrasts: Array) -> PlacedBets:
        """Bets on some of the contrasts, by number and in coordinates."""
        bets = frame.bets(contrasts, margin=self._margin) if len(rows) else None
        return PlacedBets(bets, rows, rows)

    def update(self) -> None:
        """Note what is shown after some prefix."""
        for wealth in self.account.prefixes():
            self.most = np.maximum(self.most, self._grid.log_value(wealth[0]))

    def enlarge(self, threshold: float | Array) -> None:
        """Make room for one contrast more; with thresholds of all."""
        self._threshold = threshold
        self.account.enlarge()
        self.most = np.append(self.most, 0.0)

    def copy(self) -> Certificate:
        """Another that goes on from the same batches."""
        made = copy(self)
        made.account = self.account.copy()
        return made


class _TargetCertificate(Certificate):
    """The certificate of a target, the candidate: a contrast to each target, by its number."""

    def __init__(self, candidate: int, targets: TargetCoordinates, **given: Any) -> None:
        super().__init__(len(targets), **given)
        self.candidate, self._targets = candidate, targets

    def lacks(self, left: Indices) -> Indices:
        """The targets, of these, that it does not yet hold against."""
        return np.asarray(left[(left != self.candidate) & ~self.shown[left]])

    def place_bets(self, frame: AnyFrame, left: Indices) -> PlacedBets:
        """Bets that it is ahead of the targets left, but for the margin."""
        rivals = self.lacks(left)
        contrasts = self._targets.now[self.candidate] - self._targets.now[rivals]
        return self.bet(frame, rivals, contrasts)


# --- one target ----------------------------------------------------------------------------------


class GoodEnoughEvidence(BestTargetEvidence):
    """The best target, or one that is at most ε worse than the best of those left.

    Targets are dropped as by `BestTargetEvidence`, with a share of δ: the best is never dropped but
    for that. The j-th target to lead gets the share 1/(j(j + 1)) of the rest for its certificate. A
    wrong one is shown only if the wealth of the best against it has reached its threshold: a bet
    that is fair or worse from the moment when the candidate began. No union over targets is needed.

    Args:
        targets: in coordinates.
        threshold: see `BestTargetEvidence`.
        grid: the stakes.
        tolerance: ε.
        share: of δ, for certificates of targets that lead.
        control: a target with a certificate from the start, and its share, or None.
    """

    def __init__(
        self,
        targets: TargetCoordinates,
        *,
        threshold: float,
        grid: StakeGrid,
        tolerance: float,
        share: float,
        control: tuple[int, float] | None = None,
    ) -> None:
        super().__init__(targets, threshold=threshold, grid=grid)
        self._tolerance, self._share = tolerance, share
        self._batches = 0
        self._control = None if control is None else self._certificate(*control)
        self._led: list[_TargetCertificate] = []  # of targets that led, in their order

    def _certificate(self, candidate: int, share: float) -> _TargetCertificate:
        return _TargetCertificate(
            candidate,
            self._targets,
            threshold=-math.log(share) + SLACK,
            margin=self._tolerance,
            grid=self._grid,
            first=self._batches,
        )

    @property
    def _certificates(self) -> list[_TargetCertificate]:
        return [*([self._control] if self._control else []), *self._led]

    def _holds(self, certificate: _TargetCertificate) -> bool:
        return not len(certificate.lacks(self.active))

    @property
    def _good_enough(self) -> int | None:
        """A target that is still left and shown to be good enough: the leader, if it is."""
        left, leader = self.active, self.leaders[0]
        found = [each.candidate for each in self._led if self._holds(each)]
        found = [each for each in found if each in left]
        return leader if leader in found else found[0] if found else None

    @property
    def shows_the_best(self) -> bool:
        """Whether it is decided because one target is left."""
        return super().decided

    @property
    def control_is_good_enough(self) -> bool:
        """Whether no target left is better than the control by more than the tolerance."""
        return self._control is not None and self._holds(self._control)

    @property
    def chosen(self) -> Indices:
        """The leader, or a former one that is shown to be good enough."""
        found = None if self.shows_the_best else self._good_enough
        return super().chosen if found is None else np.array([found])

    @property
    def decided(self) -> bool:
        """Whether one target is left, or one is good enough."""
        return self.shows_the_best or self._good_enough is not None

    def open_pairs(self) -> Indices:
        """The leader with the others, but those that it is shown to be good enough beside."""
        pairs, leader = super().open_pairs(), self.leaders[0]
        for each in self._led:
            if each.candidate == leader and not self._holds(each):
                pairs = pairs[~each.shown[pairs[:, 1]]]
        return pairs

    def place_bets(self, frame: AnyFrame) -> list[PlacedBets]:
        """Of each target left that it is not the best; of each candidate that it is good enough."""
        left = self.active
        certificates = [each.place_bets(frame, left) for each in self._certificates]
        return super().place_bets(frame) + certificates

    def settle(self, placed: Sequence[PlacedBets], batch: AnyBatch) -> None:
        """Add the growth to each wealth."""
        super().settle(placed, batch)
        self._batches += 1
        certificates = self._certificates  # some may have begun after the bets were placed
        none = [PlacedBets()] * (len(certificates) + 1 - len(placed))
        for each, bets in zip(certificates, [*placed[1:], *none], strict=True):
            each.account.settle(bets, batch)
            each.update()

    def amend(self, place: int, before: AnyBatch, after: AnyBatch) -> None:
        """Put what a batch makes of the bets now in the place of what it made of them before."""
        super().amend(place, before, after)
        for each in self._certificates:
            each.account.amend(place, before, after)
            each.update()

    def rank(self, slope: Array, past: Sequence[AnyBatch]) -> None:
        """Find the leader, and begin its certificate if it leads for the first time."""
        super().rank(slope, past)
        leader, led = self.leaders[0], len(self._led)
        if past and all(each.candidate != leader for each in self._led):
            share = self._share / ((led + 1) * (led + 2))
            self._led.append(self._certificate(leader, share))


# --- several targets -----------------------------------------------------------------------------


class TopTargetsEvidence:
    """The set of the m best: each target of it has a certificate against each one outside.

    Wealth of the pair (o, z) bets against (o − z)·θ ≤ −ε. The m targets of the highest estimates
    are shown to be right once all their pairs with others have reached the threshold. Opponents do
    not change here, because a target that is truly among the best may truly have better opponents.
    The bets on any contrast were fixed, batch by batch, by what was known then. So the wealth of a
    pair is one and the same function of all batches whenever it is asked for: pairs that are needed
    are brought up to date from the past, those that are not wait. (A long past of many pairs is
    taken in bit by bit: the wealth of any prefix is evidence.) A pair that has reached the
    threshold is decided for good and bets no more, so that of many pairs few are left before long.

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
        self._certificates: dict[int, _TargetCertificate] = {}  # the last chosen come last
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
        rows = np.array([self._certificates[int(o)].most for o in self.chosen])
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

    def place_bets(self, frame: AnyFrame) -> list[PlacedBets]:  # noqa: ARG002
        """None that need to be kept: they follow from the frame."""
        return []

    def settle(self, placed: Sequence[PlacedBets], batch: AnyBatch) -> None:
        """Nothing yet: `rank` takes the batch in with the rest of the past."""

    def amend(self, place: int, before: AnyBatch, after: AnyBatch) -> None:
        """Bring up to date what has taken the batch in; `rank` does the others."""
        for each in self._certificates.values():
            if place < each.account.batches:
                each.account.amend(place, before, after)
                each.update()

    def rank(self, slope: Array, past: Sequence[AnyBatch]) -> None:
        """Order the targets by their estimates, and take in the batches that chosen ones lack."""
        self._order = ranked(self._targets.now @ slope)
        self._bring_up_to_date(past)

    def _bring_up_to_date(self, past: Sequence[AnyBatch]) -> None:
        room, everyone = _REPLAYED, np.arange(len(self._targets))
        for target in self.chosen.tolist():
            each = self._certificates.pop(target, None) or _TargetCertificate(
                target,
                self._targets,
                threshold=self._threshold,
                margin=self._tolerance,
                grid=self._grid,
            )
            self._certificates[target] = each
            # One batch more than comes in, so that everybody catches up.
            soon = min(each.account.batches + 2, len(past))
            while (place := each.account.batches) < soon or (place < len(past) and room > 0):
                placed = each.place_bets(past[place].frame, everyone)
                room -= len(placed.targets) * (place >= soon)
                each.account.settle(placed, past[place])
                each.update()
        for old in list(self._certificates)[: -(_KEPT + 4 * self._top)]:
            del self._certificates[old]

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


Evidence = BestTargetEvidence | TopTargetsEvidence | EffectMeasurement
