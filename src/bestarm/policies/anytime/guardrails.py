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

from copy import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bestarm.bounds import guardrail_share
from bestarm.numerics.geometry import Array
from bestarm.policies.anytime.bets import SLACK, BatchOutcome, Frame, Scale, StakeGrid
from bestarm.policies.anytime.intervals import invert_wealth
from bestarm.policies.anytime.readout import Reader
from bestarm.policies.guardrail import Guardrail
from bestarm.records import Counts, Plan, Summary

_LATE, _OLD_LATE = 1 / 20, 1 / 4  # values outstanding of a batch, and of an old one, to learn from
_LIKELY = 0.04  # the stake to centre on, in units of signal to noise
_MEMORY = 0.8  # what a batch counts for in guesses, relative to the one after it
_FORGOTTEN = 0.02  # what counts for less is left out
_PRIOR = 20.0  # values at the mean of all options that an option's guess begins with
_SIDES = np.array([1.0, -1.0])  # bets on "worse by more than m", and on "worse by less"


@dataclass(frozen=True, eq=False)
class GuardrailLook:
    """How much worse than the control each option is, by all values so far; 0 of the control.

    Attributes:
        low: lower ends: for all options, at all looks, they hold but for a probability of α.
        high: upper ends, of which the same holds.
        worse: whether the option was shown to be worse by more than the margin.
        fine: whether it was shown not to be.
        values: how many values are in.
        outstanding: of how many assignments none is.
    """

    low: Array
    high: Array
    worse: NDArray[np.bool_]
    fine: NDArray[np.bool_]
    values: int
    outstanding: int


class _Wealth:
    """Log wealth of bets on both sides of each option's margin, read after every batch.

    Arrays have one entry per side, option and stake, but `value` one per side and option.

    Attributes:
        wealth: of bets against y·θ ≤ 0, y being "option is worse", or its negative.
        exposure: Σ nλ: by how much it falls if one bets against y·θ ≤ 1 instead.
        value: the largest log e-value at the margin after any batch so far.
        best: wealth and exposure after that batch.
    """

    def __init__(self, options: int, margin: float, grid: StakeGrid) -> None:
        self._margins, self._grid = margin * _SIDES[:, None, None], grid
        self.wealth, self.exposure = np.zeros((2, 2, options, len(grid)))
        self.value: Array = np.zeros((2, options))
        self.best = self.wealth, self.exposure

    def enlarge(self, options: int) -> None:
        """Make room for options that were added."""
        more = options - self.value.shape[1]
        wide = ((0, 0), (0, more), (0, 0))
        self.wealth, self.exposure = np.pad(self.wealth, wide), np.pad(self.exposure, wide)
        self.best = np.pad(self.best[0], wide), np.pad(self.best[1], wide)
        self.value = np.pad(self.value, wide[:2])

    def add(self, exposure: Array, growth: Array) -> None:
        """Take what a batch makes of the bets, and note the e-value if it is the largest."""
        options = exposure.shape[1]
        self.wealth, self.exposure = self.wealth.copy(), self.exposure.copy()
        self.wealth[:, :options] += growth
        self.exposure[:, :options] += exposure
        # Against y·θ ≤ m (Lemma 4 with m for v): every pull has the margin once.
        at_margin = self.wealth - self._margins * self.exposure
        value = self._grid.log_value(at_margin)
        better = (value > self.value)[..., None]
        pairs = zip((self.wealth, self.exposure), self.best, strict=True)
        self.best = tuple(np.where(better, new, old) for new, old in pairs)  # type: ignore[assignment]
        self.value = np.maximum(value, self.value)

    def lower_ends(self, levels: Array) -> Array:
        """The largest v at which the wealth against y·θ ≤ v has its level, now or at its best."""
        ends = np.full(self.value.size, -np.inf)
        raised = levels.max() - np.tile(levels, 2)[:, None]  # one level for all
        for wealth, exposure in ((self.wealth, self.exposure), self.best):
            rows, weights = (part.reshape(-1, len(self._grid)) for part in (wealth, exposure))
            known = weights.any(axis=1)
            if known.any():
                parts = (rows + raised)[known], weights[known], np.zeros_like(weights[known])
                found = invert_wealth(*parts, float(levels.max()), self._grid)
                ends[known] = np.maximum(ends[known], found)
        return ends.reshape(self.value.shape)


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
        half, self._grid = (high - low) / 2, StakeGrid.around(_LIKELY)
        self._scale = Scale(-half, half, center=guardrail.center)
        self._sign = 1.0 if guardrail.worse == "higher" else -1.0
        self._options = options
        self._frame: Frame | None = None  # of the open batch
        self._batches: list[BatchOutcome] = []
        self._settled: dict[int, tuple[Array, Array]] = {}  # exposure and growth, by place
        # Of the batches up to the first that lacks a value.
        self._complete, self._wealth = 0, _Wealth(options, guardrail.worse_by, self._grid)

    def copy(self) -> GuardrailEvidence:
        """Another that goes on from the same batches."""
        made = copy(self)
        made._batches, made._settled = list(self._batches), dict(self._settled)
        made._wealth = copy(self._wealth)
        return made

    def open(self, plan: Plan) -> None:
        """Fix the bets on the batch of a plan, from the values so far."""
        assert plan.weights is not None
        assert self._frame is None
        self._read()  # so that copies need not do it again
        chances = np.array(plan.weights)
        if len(chances) > self._options:
            self._options = len(chances)
            self._wealth.enlarge(self._options)
        # w = y @ readings (Lemma 1): nothing but names is known of the options.
        readings = np.diag(np.where(chances > 0, 1 / np.where(chances > 0, chances, 1.0), 0.0))
        none = np.zeros((1, len(chances)))
        guess, spread = self._guess(len(chances))
        self._frame = Frame.under(
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

    def _guess(self, options: int) -> tuple[Array, Array]:
        """What each option is expected to show, and (g − guess)², from the last batches.

        Batches of which too many values are outstanding are passed over: what is told early may be
        selected by its value. The spread is that of all options together: one that had no rare
        value yet would seem to have none.
        """
        counts, sums, squares = np.zeros((3, options))
        drawn = sum(each.summary.rounds for each in self._batches)
        end, weight = drawn, 1.0
        for batch in reversed(self._batches):
            summary = batch.summary
            allowed = _LATE if 2 * end > drawn else _OLD_LATE
            end -= summary.rounds
            if summary.pulls and summary.pending_pulls <= allowed * summary.rounds:
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

    def close(self, drawn: Counts) -> None:
        """Count the pulls of the open batch, per arm: all of them are outstanding."""
        assert self._frame is not None
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
        self._batches.append(BatchOutcome(self._frame, summary, worst_case=True))
        self._frame = None

    def amend(self, phase: int, arms: Counts, values: Array) -> None:
        """Take values of pulls of a phase that were outstanding, and the arms that were pulled."""
        before = self._batches[phase - 1]
        size, center = len(before.summary.counts), self._scale.center
        later = Summary.from_pulls(arms, values, size=size, center=center)
        after = before.summary.amended(later)
        self._batches[phase - 1] = BatchOutcome(before.frame, after, worst_case=True)
        self._settled.pop(phase - 1, None)

    def _settle(self, place: int) -> tuple[Array, Array]:
        """What a batch makes of the bets: Σ nλ, and the growth of the log wealth (Lemma 4)."""
        if place in self._settled:
            return self._settled[place]
        batch = self._batches[place]
        [chances] = batch.frame.weights
        exposure, growth = np.zeros((2, 2, len(chances), len(self._grid)))
        rows = np.flatnonzero(chances)
        rows = rows[rows != self._control]
        if chances[self._control] > 0 and len(rows) and batch.pulls:
            contrasts = np.zeros((len(rows), len(chances)))
            contrasts[np.arange(len(rows)), rows] = self._sign
            contrasts[:, self._control] = -self._sign
            both = np.concatenate([contrasts, -contrasts])
            stakes, growing = batch.frame.bets(both).settle(batch)
            shape = 2, len(rows), len(self._grid)
            exposure[:, rows] = batch.exposure * stakes.reshape(shape)
            growth[:, rows] = growing.reshape(shape)
        self._settled[place] = exposure, growth
        return exposure, growth

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

    def _read(self) -> _Wealth:
        """The wealth after every prefix of the batches so far."""
        place = self._complete
        while place < len(self._batches) and not self._batches[place].pending:
            self._wealth.add(*self._settle(place))
            del self._settled[place]  # it never changes again
            place += 1
        self._complete, wealth = place, copy(self._wealth)
        for later in range(place, len(self._batches)):
            wealth.add(*self._settle(later))
        return wealth

    def log_evidence(self) -> Array:
        """The log of each option's wealth at the margin, after the prefix that shows most."""
        return np.asarray(self._read().value[0])

    def look(self) -> GuardrailLook:
        """What the values so far show."""
        wealth, levels, control = self._read(), self.levels, self._control
        widest = self._scale.high - self._scale.low
        low, high = np.clip(wealth.lower_ends(levels) * _SIDES[:, None], -widest, widest)
        high = np.maximum(high, low)
        low[control] = high[control] = 0.0
        worse, fine = wealth.value >= levels
        values = sum(each.summary.pulls for each in self._batches)
        outstanding = sum(each.summary.pending_pulls for each in self._batches)
        return GuardrailLook(low, high, worse, fine, values, outstanding)
