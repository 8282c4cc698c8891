"""How arms are drawn: designs for the contrasts that want evidence, and single pulls from them.

`blocks` has rounds of several arms. The first axis of every array is the run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from bestarm.design import centered_g, linear_g
from bestarm.design.interior_point import interior_points
from bestarm.design.solver import ListedContrasts, minimise
from bestarm.errors import ProtocolError
from bestarm.numerics.geometry import Array, Indices, Span, lift, linear_span
from bestarm.policies.anytime.assumptions import (
    Assumptions,
    has_unrestricted_means,
)
from bestarm.policies.anytime.bets import BatchOutcome, Frame, Scale, StakeGrid, Totals
from bestarm.policies.anytime.certificates import Evidence
from bestarm.policies.anytime.estimates import Estimates
from bestarm.policies.anytime.readout import read, standard_errors, sums_of_weights
from bestarm.problem import Problem, as_weights
from bestarm.records import Counts, Plan, Summary

LEAST_PULLS = 2  # per dimension in a batch, twice as many in the first one
BATCH_GROWTH = 0.02  # relative to the pulls before; less where the baseline moves fast
REDESIGN = 1.2  # pulls or rounds, relative to those at the last design, at which to design anew
G_DESIGN_SHARE = 0.02  # it keeps every contrast, and the bound C, within reach
EVEN_SHARE = 0.04  # of pulls that options without features share evenly
LEAST_GAP_ERRORS = 2.0  # standard errors: gaps are not believed to be smaller than this
LEAST_WEIGHT = 1e-6
_FEW = 64  # arms and contrasts up to which the designs of many runs are solved side by side
_TOL = 0.02  # how far from its optimum a design may be: estimates are farther from the truth
_SINGULAR = 1e-13  # a scale of Σ_cov,p, relative to the largest, that is zero but for rounding
_WIDEST = 6.0  # deviations of a reward that a forecast may lie off the level
_FIRST, _WIDENING = 16.0, 1 / 150  # over the dimension: deviations at first, and per pull
_CLEAR = 3.0  # standard errors from which on a level counts as having left the middle


def span_of(problem: Problem, tilted: bool) -> Span:
    """The span whose coordinates are used: the arms' affine one, or their linear one."""
    return problem.span if problem.drifts and not tilted else linear_span(problem.source)


@lru_cache(maxsize=128)
def coordinates(problem: Problem, tilted: bool = False) -> tuple[Array, Array, Array]:
    """In coordinates of the span of the arms: these, their φ, and the targets up to a shift.

    Where a bound on the baseline is used, the origin is that of the features.
    """
    span = span_of(problem, tilted)
    arms = np.ascontiguousarray(span.coordinates(problem.source))
    features = np.ascontiguousarray(lift(arms)) if problem.drifts else arms
    targets = span.contrast_coordinates(problem.target - problem.target[0])
    return arms, features, np.ascontiguousarray(targets)


@dataclass(frozen=True, eq=False)
class Config:
    """What a sampler is made from.

    Attributes:
        problem: the problem.
        assumptions: where rewards lie.
        arms: the source arms, in coordinates of their span.
        features: φ of each: (1, x) if there is a baseline, else x.
        targets: the targets, in the same coordinates up to a shift; NaN where one is retired.
        grid: the stakes.
        margin: what is added to each contrast.
        worst_case: whether outcomes that never come enter at their worst.
        bound: R, if a bound on the baseline is used; else infinity.
    """

    problem: Problem
    assumptions: Assumptions
    arms: Array
    features: Array
    targets: Array
    grid: StakeGrid
    margin: float
    worst_case: bool
    bound: float = math.inf


class RunState(NamedTuple):
    """How far a run has come.

    Attributes:
        phase: the number of the next plan.
        pulls: the pulls drawn so far.
        rounds: the rounds drawn so far.
        most: the pulls that may still be drawn, or None for any number.
    """

    phase: int
    pulls: int
    rounds: int
    most: int | None


# --- designs -------------------------------------------------------------------------------------


@lru_cache(maxsize=128)
def g_design(problem: Problem) -> Array:
    """The G-design of a problem: centered, unless there is no baseline."""
    design = centered_g if problem.drifts else linear_g
    weights = design(problem.source, tol=_TOL).weights
    weights = np.where(weights < LEAST_WEIGHT, 0.0, weights)
    weights = weights / weights.sum()
    weights.flags.writeable = False
    return np.asarray(weights)


def shares_of_names(pairs: Indices, gaps: Array, spread: Array) -> Array:
    """The allocation for options without features, of which one leads.

    It makes the evidence against all others grow alike, nearly: with gaps Δ_a and deviations s_a,
    p_a ∝ s_a²/Δ_a² and, for the leader, p ∝ s √(Σ (p_a/s_a)²); a share is spread evenly.

    Args:
        pairs: the leader with the others, by arm; of each run, (runs, others, 2).
        gaps: of the others to the leader; +∞ for those that count for nothing; (runs, others).
        spread: s²; (runs, arms).
    """
    runs = np.arange(len(gaps))[:, None]
    leader, others = pairs[:, 0, 0], pairs[:, :, 1]
    wanted = spread[runs, others] / (gaps * gaps)
    weights = np.zeros_like(spread)
    np.add.at(weights, (runs, others), wanted)
    own = spread[runs[:, 0], leader]
    weights[runs[:, 0], leader] = np.sqrt(own * (wanted / (gaps * gaps)).sum(axis=1))
    weights /= weights.sum(axis=1, keepdims=True)
    return np.asarray((1 - EVEN_SHARE) * weights + EVEN_SHARE / weights.shape[1])


class Solved(NamedTuple):
    """Designs, from which similar problems are solved quickly.

    Attributes:
        weights: (runs, arms).
        multipliers: of the contrasts; 0 where they are not known; (runs, contrasts).
    """

    weights: Array
    multipliers: Array


def least_variance_weights(
    features: Array, spread: Array, rows: Array, start: Solved | None = None
) -> Solved:
    """The designs that minimise the largest ‖y‖² of each run's contrasts.

    Arms whose rewards vary more count for less: their features are divided by their deviation.

    Args:
        features: φ of all source arms: x, or (1, x) if there is a baseline; (arms, φ).
        spread: the expected (r − c(a))² of each; (runs, arms).
        rows: the contrasts; rows of zeros do not count; (runs, contrasts, φ).
        start: those of similar problems.
    """
    scaled = features * np.sqrt(spread.mean(axis=1, keepdims=True) / spread)[..., None]
    rows = rows / np.abs(rows).max(axis=(1, 2), keepdims=True)
    weights, multipliers = np.zeros_like(spread), np.zeros(rows.shape[:2])
    left = np.ones(len(spread), np.bool_)
    if max(len(features), rows.shape[1]) <= _FEW:
        begin = []
        if start is not None:
            unknown = ~start.multipliers.any(axis=1, keepdims=True)
            begin = [start.weights, np.where(unknown, 1.0, start.multipliers)]
        found = interior_points(scaled, rows, _TOL, *begin)
        left = ~(found.gap <= _TOL)
        weights[~left], multipliers[~left] = found.masses[~left], found.multipliers[~left]
    for run in np.flatnonzero(left):
        counted = rows[run][rows[run].any(axis=1)]
        weights[run] = minimise(scaled[run], ListedContrasts(counted), _TOL).weights
    return Solved(weights / weights.sum(axis=1, keepdims=True), multipliers)


def needs_no_solver(config: Config, pairs: Indices) -> bool:
    """Whether options have no features, and one of them leads all pairs of each run."""
    names = has_unrestricted_means(config.problem) and config.bound == math.inf
    return names and bool((pairs[..., 0] == pairs[:, :1, 0]).all())


def solve_designs(
    config: Config, pairs: Indices, estimates: Estimates, start: Solved, *, warm: bool
) -> Solved:
    """Probabilities of arms for the contrasts that want evidence.

    The design minimises max over y of ‖y‖² / gap_y² under Σ_cov,p⁻¹, from estimates so far. A
    contrast with variance factor ‖y‖² gathers evidence at a rate of gap² / (2 s² ‖y‖²) per pull, so
    under this design the slowest of them gathers it as quickly as can be. How much each lacks is
    left out: where luck held evidence back, gaps are not smaller.

    With a bound on the baseline, contrasts have the sums that are best under the last design.

    Args:
        config: what the sampler is made from.
        pairs: the target to be ahead, and the other; twice the same one counts for nothing;
            (runs, pairs, 2).
        estimates: what is known.
        start: the last designs.
        warm: whether to begin with these: fewer steps, and other last digits.
    """
    targets, spread, margin = config.targets, estimates.spread, np.asarray(config.margin)
    rows = targets[pairs[..., 0]] - targets[pairs[..., 1]]
    slope, information = estimates.slope, estimates.information
    if (belief := estimates.belief) is not None:
        reader = read(config.arms, start.weights, spread)
        sums = sums_of_weights(rows, config.margin, reader, belief, LEAST_GAP_ERRORS)
        rows, margin = lift(rows, sums), config.margin - np.abs(sums) * config.bound
        slope, information = lift(slope, belief.level), estimates.lifted_information
    # Gaps are not believed to be smaller than a multiple of their standard errors.
    variance = spread.mean(axis=1)[:, None, None]
    errors = standard_errors(rows, np.linalg.inv(information) * variance)
    gaps = np.matmul(rows, slope[..., None])[..., 0] + margin
    gaps = np.maximum(gaps, LEAST_GAP_ERRORS * errors)
    gaps = np.where(pairs[..., 0] == pairs[..., 1], np.inf, gaps)
    if needs_no_solver(config, pairs):
        arm_of = np.cumsum(~np.isnan(targets[:, 0])) - 1
        weights = shares_of_names(arm_of[pairs], gaps, spread)
        return Solved(weights, np.zeros(gaps.shape))
    rows = rows / gaps[..., None]
    if config.features.shape[1] > rows.shape[2]:
        rows = lift(rows, 0.0)
    found = least_variance_weights(config.features, spread, rows, start if warm else None)
    # A share of the G-design, and no arms of less than the least probability.
    weights = (1 - G_DESIGN_SHARE) * found.weights + G_DESIGN_SHARE * g_design(config.problem)
    weights = np.where(weights < LEAST_WEIGHT, 0.0, weights)
    return Solved(weights / weights.sum(axis=1, keepdims=True), found.multipliers)


# --- forecasts -----------------------------------------------------------------------------------


class ForecastInterval:
    """Where forecasts of the next batch may lie: near the level of rewards, wider as a run goes on.

    The width adds to C, the farthest that z can fall, and so lowers the largest stake. That matters
    in short runs in many dimensions, where stakes are large; long runs hardly notice it. The middle
    stays where it is as long as the level is near: an interval that moved with every batch would
    move the rewards less their forecasts as well.

    Args:
        scale: where rewards lie.
        dimensions: the dimension of the arms' span.
        runs: the number of runs.
    """

    def __init__(self, scale: Scale, dimensions: int, runs: int = 1) -> None:
        self._scale, self._dimensions = scale, dimensions
        self._middle, self._reach = np.full(runs, scale.middle + scale.center), np.zeros(runs)

    def select(self, kept: Indices) -> None:
        """Go on with these runs alone."""
        self._middle, self._reach = self._middle[kept], self._reach[kept]

    def learn(self, mean: Array, pulls: Array | Counts, *, drawn: Counts, variance: Array) -> None:
        """Take in a batch: its mean reward and its pulls; all pulls so far; and the variance of a
        reward less its forecast, as far as is known. Each is (runs,)."""
        deviation = np.sqrt(variance)
        reach = np.minimum((_FIRST + _WIDENING * drawn) / self._dimensions, _WIDEST)
        self._reach = deviation * reach
        clear = self._reach / 2 + _CLEAR * deviation / np.sqrt(pulls)
        self._middle = np.where(np.abs(mean - self._middle) > clear, mean, self._middle)

    @property
    def ends(self) -> tuple[Array, Array]:
        """Its ends; both are the middle of the range before the first batch."""
        return self._scale.near(self._middle, self._reach)


# --- single pulls --------------------------------------------------------------------------------


class IndependentSampler:
    """One pull per round: every arm is drawn by itself.

    Attributes:
        estimates: what is known so far.
        weights: the probabilities that the last batch was drawn with; zeros before the first.

    Args:
        config: what it is made from.
        forecasts: whether a forecast is subtracted from every reward.
        floors: the least probability of arms, by label.
        runs: the number of runs.
        warm: whether designs begin with the last ones. (They then depend on how often they were
            computed, which a live experiment that is opened again does not remember.)
    """

    def __init__(
        self,
        config: Config,
        *,
        forecasts: bool = False,
        floors: Mapping[str, float] | None = None,
        runs: int = 1,
        warm: bool = False,
    ) -> None:
        self._config, self._forecasts = config, forecasts
        labels = config.problem.source_labels
        self._floors = np.array([(floors or {}).get(label, 0.0) for label in labels])
        self._scale, self._intercept = config.assumptions.scale, config.problem.drifts
        self._provisional = config.assumptions.bounds is not None
        rank = config.arms.shape[1]
        self._least = LEAST_PULLS * int(rank + self._intercept)
        self._interval = ForecastInterval(self._scale, rank, runs) if forecasts else None
        scale = replace(self._scale, center=0.0) if forecasts else self._scale
        self.estimates = Estimates(
            config.arms, scale, intercept=self._intercept, bound=config.bound, runs=runs
        )
        self.weights: Array = np.zeros((runs, len(config.arms)))
        self._made_at = np.zeros(runs)  # the pulls at which they were designed
        self._warm, self._multipliers = warm, np.zeros((runs, len(config.targets)))
        self._predicted: dict[int, Frame] = {}  # of batches learned from that lack outcomes

    def select(self, kept: Indices) -> None:
        """Go on with these runs alone."""
        self.estimates.select(kept)
        self.weights, self._made_at = self.weights[kept], self._made_at[kept]
        self._multipliers = self._multipliers[kept]
        if self._interval is not None:
            self._interval.select(kept)

    def next_weights(self, pairs: Indices) -> Array:
        """The probabilities for pairs of targets that want evidence: the last ones, or new ones.

        Args:
            pairs: of each run; see `solve_designs`.
        """
        known, drawn = self.estimates.pulls > 0, self.weights.any(axis=1)
        due = self.estimates.pulls >= REDESIGN * self._made_at
        due |= ~drawn | needs_no_solver(self._config, pairs)
        weights = self.weights.copy()
        weights[due & ~(known & drawn)] = self._with_floors(g_design(self._config.problem))
        if (anew := due & known & drawn).any():
            estimates = self.estimates if anew.all() else self.estimates.of(anew)
            runs, others = np.flatnonzero(anew)[:, None], pairs[anew, :, 1]
            start = Solved(self.weights[anew], self._multipliers[runs, others])
            found = solve_designs(self._config, pairs[anew], estimates, start, warm=self._warm)
            weights[anew] = self._with_floors(found.weights)
            if self._warm:
                self._multipliers[anew] = 0.0
                self._multipliers[runs, others] = found.multipliers
        return weights

    def _with_floors(self, design: Array) -> Array:
        if not self._floors.any():
            return design
        return np.asarray(self._floors + (1 - self._floors.sum()) * design)

    def sizes(self, pulls: Counts) -> Counts:
        """The pulls of the next batch of each run."""
        return self.estimates.batch_size(pulls, BATCH_GROWTH, self._least)

    def frame(
        self,
        weights: Array,
        sizes: Counts,
        *,
        pulls: Counts,
        leaders: Indices,
        forecasts: tuple[Array, Array] | None = None,
    ) -> Frame:
        """All that bets on batches rest on, which draw these many pulls with these probabilities.

        Args:
            weights: (runs, arms).
            sizes: (runs,).
            pulls: the pulls drawn before; (runs,).
            leaders: the targets that look best and second best; (runs, 2).
            forecasts: where forecasts lie, if they are subtracted; each end (runs,).
        """
        config, estimates = self._config, self.estimates
        spread = estimates.spread
        return Frame.under(
            self._scale,
            weights,
            guess=estimates.rewards(sizes),
            spread=spread,
            sizes=sizes,
            pulls=pulls,
            reader=read(config.arms, weights, spread, intercept=self._intercept),
            grid=config.grid,
            leaders=leaders,
            belief=estimates.belief,
            forecasts=forecasts,
        )

    @property
    def forecasts(self) -> tuple[Array, Array] | None:
        """Where forecasts of the next batch may lie, each end (runs,); None without forecasts."""
        return None if self._interval is None else self._interval.ends

    @property
    def learned(self) -> Array:
        """The pulls that estimates rest on; (runs,)."""
        return self.estimates.pulls

    def keep(self, frame: Frame, learned: Array) -> None:
        """Note how the last batches were drawn, and what was learned from when they were planned.

        So when a design is made anew follows from the plans and summaries on record.
        """
        same = (self.weights == frame.weights).all(axis=1)
        self._made_at = np.where(same, self._made_at, learned)
        self.weights = frame.weights

    def advance(self, frame: Frame, totals: Totals, *, means: Array, drawn: Counts) -> None:
        """Learn from a batch of every run.

        Args:
            frame: that of the batch.
            totals: what came of it.
            means: the mean reward, before forecasts are subtracted; (runs,).
            drawn: all pulls so far; (runs,).
        """
        self.keep(frame, self.learned)
        self._take_in(frame, totals, means=means, pulls=frame.sizes, drawn=drawn)

    def _take_in(
        self,
        frame: Frame,
        totals: Totals,
        *,
        means: Array,
        pulls: Array | Counts,
        drawn: Counts,
        pending: Counts | None = None,
    ) -> None:
        self.estimates.learn(frame, totals, pending)
        if self._interval is not None:
            variance = self.estimates.spread.mean(axis=1)
            self._interval.learn(means, pulls, drawn=drawn, variance=variance)

    # --- one run, whose outcomes may be late ---

    def smallest(self, evidence: Evidence) -> int:  # noqa: ARG002 - it is always the same
        """One pull."""
        return 1

    def plan(self, evidence: Evidence, run: RunState) -> Plan:
        """The next batch, from the last design or a new one."""
        [weights] = self.next_weights(evidence.open_pairs()[None])
        if not np.array_equal(weights, self.weights[0]):
            weights = as_weights(weights, len(weights))
        weights.flags.writeable = False
        size = int(self.sizes(np.array([run.pulls]))[0])
        if run.most is not None:
            # With nothing left to draw the plan stands for the wait for what is outstanding.
            size = max(1, min(size, run.most))
        ends = self.forecasts
        return Plan(
            run.phase,
            size,
            weights=weights,
            open=True,
            most=run.most,
            provisional=self._provisional,
            center=0.0 if self._forecasts else self._scale.center,
            extremes=True,
            forecasts=None if ends is None else (float(ends[0][0]), float(ends[1][0])),
        )

    def prepare(self, plan: Plan, evidence: Evidence, run: RunState) -> Frame:
        """Fix all that bets on a plan rest on, wherever its probabilities were computed."""
        assert plan.weights is not None
        self._check_informs(plan)
        ends = None
        if plan.forecasts is not None:
            ends = np.array(plan.forecasts[:1]), np.array(plan.forecasts[1:])
        return self.frame(
            np.array(plan.weights)[None],
            np.array([plan.pulls]),
            pulls=np.array([run.pulls]),
            leaders=np.array([evidence.leaders]),
            forecasts=ends,
        )

    def _check_informs(self, plan: Plan) -> None:
        """Raise unless a plan's arms inform about all contrasts."""
        weights, points = plan.weights, self._config.arms
        assert weights is not None
        if np.array_equal(weights, self.weights[0]):
            return
        arms = points - (weights @ points if self._intercept else 0.0)
        scales = np.linalg.eigvalsh(arms.T @ (weights[:, None] * arms))
        if scales[0] <= _SINGULAR * scales[-1]:
            raise ProtocolError(
                f"The arms that the plan of phase {plan.phase} draws do not inform about all "
                "contrasts.",
                field="plan",
                value=plan.phase,
                remedy="Adopt a plan that this policy made for this problem.",
            )

    def contradicted_by(self, frame: Frame, summary: Summary) -> bool:
        """Whether no rewards within the scale have these totals, but for rare noise."""
        counts, sums, squares = summary.counts[None], summary.sums[None], summary.squares[None]
        [found] = self._config.assumptions.contradicted_by(
            (counts, sums, squares),
            summary.extremes,
            low=frame.low,
            high=frame.high,
            shift=summary.center - frame.center,
            labels=self._config.problem.source_labels,
        )
        return bool(found)

    def outcome(self, frame: Frame, summary: Summary) -> BatchOutcome:
        """What came of a plan."""
        return BatchOutcome(frame, summary, self._config.worst_case)

    def amended(self, before: BatchOutcome, summary: Summary) -> BatchOutcome:
        """What came of it once outcomes that were outstanding are settled."""
        return self.outcome(before.frame, before.summary.amended(summary))

    def record(self, before: BatchOutcome | None, after: BatchOutcome) -> None:
        """Nothing: bets rest on estimates alone."""

    def learn(self, place: int, batch: BatchOutcome, drawn: int) -> None:
        """Learn from a batch as if it were the last one drawn; what is outstanding as predicted."""
        summary = batch.summary
        if not summary.pulls:
            return
        frame = self._predict(batch)
        if frame is not batch.frame:
            batch = BatchOutcome(frame, summary)
        pending = None
        if batch.pending:
            pending = summary.pending[None]
            self._predicted[place] = frame
        pulls = np.array([summary.pulls])
        means = (summary.rewards.sum() + summary.forecast_sum) / pulls
        self._take_in(
            frame, batch.totals, means=means, pulls=pulls, drawn=np.array([drawn]), pending=pending
        )

    def _predict(self, batch: BatchOutcome) -> Frame:
        """The frame of a batch with what is predicted for it now: its own, unless it came late.

        Without bounds it is always its own: a batch comes in whole, in the order of draws.
        """
        frame, summary = batch.frame, batch.summary
        if not self._provisional:
            return frame
        guess = self.estimates.rewards(frame.sizes)
        if batch.pending and not self.estimates.pulls[0]:  # the first's own mean does as well
            guess[:] = float(summary.rewards.sum()) / summary.pulls - frame.center
        guess = np.clip(guess, frame.low[:, None], frame.high[:, None])
        return frame if np.array_equal(guess, frame.guess) else frame.with_guess(guess)

    def relearn(
        self,
        place: int,
        before: BatchOutcome,  # noqa: ARG002 - the outcomes that came are enough
        after: BatchOutcome,
        summary: Summary,
    ) -> None:
        """Take in outcomes that were outstanding; those that are lost stay as predicted."""
        frame = self._predicted.get(place)
        if frame is not None and summary.pulls:
            self.estimates.correct(frame, BatchOutcome(frame, summary).totals)
        if not after.pending:
            self._predicted.pop(place, None)
