"""Guardrails: a second outcome of the same assignments, watched for options that do harm.

A guardrail g (a refund, a delay) is told of the assignments that rewards are told of, so its arms
are drawn with the same probabilities. Each option's wealth bets that the option is worse than the
control by more than a margin m. With p the probabilities of a batch, a an option and c the control,

    w = ±1/p_a on a, ∓1/p_c on c, 0 elsewhere,        z = w (g − guess)

reads "how much worse" off one assignment, whatever g's baseline, and with no model of how options
differ: what each shows may move as it likes. The bets are those of Lemma 4, with m for v. An
option is found worse when its wealth has reached 1/α′ after some prefix of the batches; α′ is its
share of α. Plans are never made here: those on record are adopted. docs/anytime.md has the proof.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bestarm.bounds import guardrail_share
from bestarm.numerics.geometry import Array, Indices
from bestarm.policies.anytime.bets import SLACK, BatchOutcome, Frame, Scale, StakeGrid
from bestarm.policies.anytime.certificates import Certificate
from bestarm.policies.anytime.evidence import AnyFrame, PlacedBets
from bestarm.policies.anytime.intervals import lower_ends
from bestarm.policies.anytime.readout import Reader
from bestarm.policies.guardrail import Guardrail
from bestarm.records import Counts, Plan, Summary

_LATE, _OLD_LATE = 1 / 20, 1 / 4  # values outstanding of a batch, and of an old one, to learn from
_LIKELY = 0.04  # the stake to centre on, in units of signal to noise
_MEMORY = 0.8  # what a batch counts for in guesses, relative to the one after it
_FORGOTTEN = 0.02  # what counts for less is left out
_PRIOR = 20.0  # values at the mean of all options that an option's guess begins with


@dataclass(frozen=True, eq=False)
class GuardrailLook:
    """How much worse than the control each option is, by all values so far; 0 of the control.

    Attributes:
        estimate: how much worse it was, from batches of which nearly all values are in; NaN where
            none is.
        low: lower ends: for all options, at all looks, they hold but for a probability of α.
        high: upper ends, of which the same holds.
        worse: whether the option was shown to be worse by more than the margin.
        fine: whether it was shown not to be.
        values: how many values are in.
        outstanding: of how many assignments none is.
        binary: whether all values are 0 or 1.
    """

    estimate: Array
    low: Array
    high: Array
    worse: NDArray[np.bool_]
    fine: NDArray[np.bool_]
    values: int
    outstanding: int
    binary: bool


class GuardrailEvidence:
    """The evidence of one guardrail against every option.

    Per plan on record, in order: `open` fixes the bets on its batch from the values told by then,
    `close` counts its pulls, all of them outstanding, and `amend` takes values as they are told. An
    outstanding value counts as the one that accuses least, for ever if it is never told.

    Args:
        guardrail: what is promised.
        options: how many options there are at the start; each is an arm of its own.
        control: the number of the control.
        changes: whether options may be added, which takes a tenth of α.
    """

    def __init__(self, guardrail: Guardrail, *, options: int, control: int, changes: bool) -> None:
        self.guardrail, self._control = guardrail, control
        self._first, self._changes = options, changes
        low, high = guardrail.bounds
        half, margin, grid = (high - low) / 2, guardrail.worse_by, StakeGrid.around(_LIKELY)
        self._scale = Scale(-half, half, center=guardrail.center)
        self._sign = 1.0 if guardrail.worse == "higher" else -1.0
        self._options, self._grid = options, grid
        self._open: tuple[Frame, PlacedBets, PlacedBets] | None = None  # a batch and its bets
        self._batches: list[BatchOutcome] = []
        # Of each option, that it is worse than the control by more than the margin, or by less;
        # after every batch from the first on that lacks a value.
        self._worse, self._fine = (
            Certificate(options, threshold=self.levels, margin=each, grid=grid, window=sys.maxsize)
            for each in (-margin, margin)
        )

    def copy(self) -> GuardrailEvidence:
        """Another that goes on from the same batches."""
        made = copy(self)
        made._batches = list(self._batches)
        made._worse, made._fine = self._worse.copy(), self._fine.copy()
        return made

    def open(self, plan: Plan) -> None:
        """Fix the bets on the batch of a plan, from the values so far."""
        assert plan.weights is not None
        assert self._open is None
        self._update()  # so that copies need not do it again
        chances = np.array(plan.weights)
        while self._options < len(chances):
            self._options += 1
            for each in (self._worse, self._fine):
                each.enlarge(self.levels)
        # w = y @ readings (Lemma 1): nothing but names is known of the options.
        readings = np.diag(np.where(chances > 0, 1 / np.where(chances > 0, chances, 1.0), 0.0))
        none = np.zeros((1, len(chances)))
        guess, spread = self._guess(len(chances))
        frame = Frame.under(
            self._scale,
            chances[None],
            guess=guess[None],
            spread=spread[None],
            sizes=np.array([plan.pulls]),
            pulls=np.zeros(1),
            reader=Reader(readings[None], none, none[:, None]),
            grid=self._grid,
            leaders=np.zeros((1, 2), dtype=np.int64),
        )
        rows, leads = self._leads(frame)
        bets = self._worse.bet(frame, rows, leads), self._fine.bet(frame, rows, -leads)
        self._open = frame, *bets

    def _leads(self, frame: Frame) -> tuple[Indices, Array]:
        """The options drawn beside the control, and by how much each is worse, as contrasts."""
        [chances] = frame.weights
        rows = np.flatnonzero(chances if chances[self._control] > 0 else 0 * chances)
        rows = rows[rows != self._control]
        leads = np.zeros((len(rows), len(chances)))
        leads[np.arange(len(rows)), rows] = self._sign
        leads[:, self._control] = -self._sign
        return rows, leads

    def _guess(self, options: int) -> tuple[Array, Array]:
        """What each option is expected to show, and (g − guess)², from the last batches.

        Batches of which too many values are outstanding are passed over: what is told early may be
        selected by its value. The spread is that of all options together: one that had no rare
        value yet would seem to have none.
        """
        counts, sums, squares = np.zeros((3, options))
        weight = 1.0
        for summary in self._known():
            known = slice(len(summary.counts))
            counts[known] += weight * summary.counts
            sums[known] += weight * summary.sums
            squares[known] += weight * summary.squares
            weight *= _MEMORY
            if weight < _FORGOTTEN:
                break
        half, pulls = self._scale.high, float(counts.sum())
        if not pulls:
            return np.zeros(options), np.full(options, half * half)
        guess = (sums + _PRIOR * sums.sum() / pulls) / (counts + _PRIOR)
        guess = np.clip(guess, -half, half)
        square = float((squares - guess * (2 * sums - guess * counts)).sum()) / pulls
        return guess, np.full(options, max(square, half * half / (pulls + 1)))

    def _known(self) -> Iterator[Summary]:
        """The summaries of batches of which nearly all values are in, the last first."""
        drawn = sum(each.summary.rounds for each in self._batches)
        end = drawn
        for batch in reversed(self._batches):
            summary = batch.summary
            allowed = _LATE if 2 * end > drawn else _OLD_LATE
            end -= summary.rounds
            if summary.pulls and summary.pending_pulls <= allowed * summary.rounds:
                yield summary

    def _estimate(self) -> Array:
        """How much worse than the control each option was: the mean difference within a batch,
        over all batches, which a drift from batch to batch does not touch."""
        total, weights = np.zeros((2, self._options))
        for summary in self._known():
            counts, control = summary.counts, self._control
            if not counts[control]:
                continue
            both = np.flatnonzero(counts)
            weight = counts[both] * counts[control] / (counts[both] + counts[control])
            means = summary.sums[both] / counts[both]
            weights[both] += weight
            total[both] += weight * (means - summary.sums[control] / counts[control])
        known = weights > 0
        return np.where(known, self._sign * total / np.where(known, weights, 1.0), np.nan)

    def close(self, drawn: Counts) -> None:
        """Count the pulls of the open batch, per arm: all of them are outstanding."""
        assert self._open is not None
        (frame, worse, fine), self._open = self._open, None
        none = np.zeros((6, len(drawn)))
        counts, sums, squares, least, largest, cubes = none
        summary = Summary(
            counts.astype(np.int64),
            sums,
            squares,
            pending=drawn,
            center=self._scale.center,
            least=least,
            largest=largest,
            cubes=cubes,
        )
        batch = BatchOutcome(frame, summary, worst_case=True)
        self._batches.append(batch)
        self._worse.account.settle(worse, batch)
        self._fine.account.settle(fine, batch)

    def amend(self, phase: int, arms: Counts, values: Array) -> None:
        """Take values of pulls of a phase that were outstanding, and the arms that were pulled."""
        before = self._batches[phase - 1]
        size, center = len(before.summary.counts), self._scale.center
        later = Summary.from_pulls(arms, values, size=size, center=center)
        after = BatchOutcome(before.frame, before.summary.amended(later), worst_case=True)
        self._batches[phase - 1] = after
        for each in (self._worse, self._fine):
            each.account.amend(phase - 1, before, after)

    @property
    def levels(self) -> Array:
        """The log of the wealth at which each option is found worse: log(1/α′)."""
        added = np.maximum(np.arange(self._options) - self._first + 1, 0)
        alpha, options = self.guardrail.alpha, self._first - 1
        shares = [
            guardrail_share(alpha, options=options, changes=self._changes, added=each)
            for each in added.tolist()
        ]
        return np.asarray(SLACK - np.log(shares))

    def _update(self) -> None:
        for each in (self._worse, self._fine):
            each.update()

    def log_evidence(self) -> Array:
        """The log of each option's wealth at the margin, after the prefix that shows most."""
        self._worse.update()
        return self._worse.most.copy()

    def look(self) -> GuardrailLook:
        """What the values so far show."""
        self._update()
        levels, control, margin = self.levels, self._control, self.guardrail.worse_by
        worse, fine = self._worse.shown, self._fine.shown
        capital = np.tile(levels.max() - levels, 2)  # one level for all
        ends = lower_ends(
            lambda _, frame: self._both_ways(frame),
            self._batches,
            threshold=float(levels.max()),
            grid=self._grid,
            capital=capital,
            window=sys.maxsize,
        )
        # What was shown once is shown for good.
        low = np.maximum(ends[: self._options], np.where(worse, margin, -np.inf))
        high = np.minimum(-ends[self._options :], np.where(fine, margin, np.inf))
        widest = self._scale.high - self._scale.low
        low, high = np.clip((low, np.maximum(high, low)), -widest, widest)
        low[control] = high[control] = 0.0
        values = sum(each.summary.pulls for each in self._batches)
        outstanding = sum(each.summary.pending_pulls for each in self._batches)
        squares = sum(float(each.summary.squares.sum()) for each in self._batches)
        low_end, high_end = self.guardrail.bounds
        # Only values at an end of the bounds are that far from their middle.
        binary = (low_end, high_end) == (0.0, 1.0) and math.isclose(squares, values / 4)
        estimate = np.clip(self._estimate(), low, high)
        return GuardrailLook(estimate, low, high, worse, fine, values, outstanding, binary)

    def _both_ways(self, frame: AnyFrame) -> Array:
        """By how much each option is worse, then by how much it is better; NaN of those without
        bets."""
        assert isinstance(frame, Frame)
        rows, leads = self._leads(frame)
        table = np.full((2, self._options, leads.shape[1]), np.nan)
        table[0, rows], table[1, rows] = leads, -leads
        return table.reshape(-1, leads.shape[1])
