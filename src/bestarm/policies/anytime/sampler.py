"""How arms are drawn: designs for the contrasts that want evidence, and single pulls from them.

`blocks` has rounds of several arms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from bestarm.compiling import tiered
from bestarm.design import centered_g, linear_g
from bestarm.design.kernels import interior_point
from bestarm.design.solver import SMALL_POOL, ListedContrasts, minimise
from bestarm.errors import ProtocolError
from bestarm.numerics.geometry import Array, Span, lift, linear_span
from bestarm.numerics.linalg import cholesky, forward_solve
from bestarm.policies.anytime.assumptions import Assumptions, check_plan_options
from bestarm.policies.anytime.bets import BatchOutcome, Frame, Scale, StakeGrid
from bestarm.policies.anytime.estimates import (
    BOUND,
    LEVEL,
    Estimates,
    batch_size,
    beliefs,
    lifted_information,
)
from bestarm.policies.anytime.evidence import AnyBatch, AnyFrame, Evidence
from bestarm.policies.anytime.readout import (
    Parts,
    Sampling,
    apply_readout,
    believed_gaps,
    least_variance_readout,
    tilts,
    total,
)
from bestarm.problem import Problem, as_weights
from bestarm.records import Plan, Summary

LEAST_PULLS = 2  # per dimension in a batch, twice as many in the first one
BATCH_GROWTH = 0.01  # relative to the pulls before; less where the baseline moves fast
G_DESIGN_SHARE = 0.02  # it keeps every contrast, and the bound C, within reach
LEAST_GAP_ERRORS = 2.0  # standard errors: gaps are not believed to be smaller than this
LEAST_WEIGHT = 1e-6
TILT_STEPS = 3
_REDESIGN = 2.0  # pulls or rounds, relative to those at the last design, at which to design anew, …
_REDESIGN_CHANGED = 1.2  # … and if other contrasts are open than then
_TOL = 0.05  # how far from its optimum a design may be: estimates are farther from the truth
_SINGULAR = 1e-13  # a scale of Σ_cov,p, relative to the largest, that is zero but for rounding
_WIDEST = 6.0  # deviations of a reward that a forecast may lie off the level
_FIRST, _WIDENING = 16.0, 1 / 150  # over the dimension: deviations at first, and per pull
_CLEAR = 3.0  # standard errors from which on a level counts as having left the middle

Key = tuple[tuple[int, ...], int]  # the targets chosen, and how many are left


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


@lru_cache(maxsize=128)
def target_coordinates(problem: Problem, tilted: bool = False) -> Array:
    """The targets in the coordinates of `coordinates`, not shifted."""
    span = span_of(problem, tilted)
    return np.ascontiguousarray(span.coordinates(problem.target))


@lru_cache(maxsize=128)
def contrast_metric(problem: Problem, tilted: bool = False) -> Array:
    """Q of `contrast_sizes`, in the coordinates of `coordinates` (docs/anytime.md, "Stakes").

    The square of a contrast's size is the mean over features of its square over twice their
    variance among the targets, so that it is 1 on average over pairs of targets.
    """
    variance = (problem.target - problem.target[0]).var(axis=0, ddof=1)
    varies = (variance > 0) & ~problem.span.constant
    units = np.sqrt(2 * varies.sum() * variance[varies])
    rows = span_of(problem, tilted).basis[varies] / units[:, None]
    return np.ascontiguousarray(rows.T @ rows)


@dataclass(frozen=True, eq=False)
class Config:
    """What a sampler is made from.

    Attributes:
        problem: the problem.
        assumptions: where rewards lie.
        arms: the source arms, in coordinates of their span.
        features: φ of each: (1, x) if there is a baseline, else x.
        targets: the targets, in the same coordinates up to a shift.
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
        before: the plan before, or None.
    """

    phase: int
    pulls: int
    rounds: int
    most: int | None
    before: Plan | None


class SlopeEstimates(Protocol):
    """Estimates of θ."""

    @property
    def slope(self) -> Array:
        """θ̂ in coordinates of the span."""
        ...


class Sampler(Protocol):
    """Draws batches: its plans, what is fixed with them, and what is learned from outcomes."""

    @property
    def estimates(self) -> SlopeEstimates:
        """What is known so far."""
        ...

    def smallest(self, evidence: Evidence) -> int:
        """The pulls of the smallest plan there can be now."""
        ...

    def plan(self, evidence: Evidence, run: RunState) -> Plan:
        """The next plan."""
        ...

    def check(self, plan: Plan) -> None:
        """Raise unless a recorded plan is of a rule with these options."""
        ...

    def prepare(self, plan: Plan, evidence: Evidence, run: RunState) -> tuple[AnyFrame, Stage]:
        """Fix all that bets on a plan rest on, from the past and the plan alone.

        The stage is to be given back to `keep` once the batch is in.
        """
        ...

    def keep(self, stage: Stage) -> None:
        """Note how the last batch was drawn."""
        ...

    def contradicted_by(self, frame: Any, summary: Summary) -> bool:
        """Whether rewards contradict the assumptions; raise if they cannot be."""
        ...

    def outcome(self, frame: Any, summary: Summary) -> AnyBatch:
        """What came of a plan."""
        ...

    def amended(self, before: Any, summary: Summary) -> AnyBatch:
        """What came of it once outcomes that were outstanding are settled; nothing is learned."""
        ...

    def record(self, before: Any | None, after: Any) -> None:
        """Record what bets rest on: a batch, or what it is now instead of what it was before."""
        ...

    def learn(self, place: int, batch: Any, drawn: int) -> None:
        """Learn from batch number `place`; `drawn` is the number of all pulls so far."""
        ...

    def relearn(self, place: int, before: Any, after: Any, summary: Summary) -> None:
        """Take in outcomes that were outstanding when their batch was learned from."""
        ...


class Stage(NamedTuple):
    """The design that batches are drawn from until there is a new one.

    Attributes:
        sampling: how arms or blocks are drawn.
        key: which contrasts were open when it was designed.
        made_at: how many pulls or rounds there were then.
    """

    sampling: Any
    key: Key
    made_at: int


def contrast_key(evidence: Evidence) -> Key:
    """A key that changes when other contrasts are open."""
    return tuple(evidence.chosen.tolist()), len(evidence.active)


@tiered
def keeps_design(made_at: float, same: bool, now: float) -> bool:
    """Whether a design made at so many pulls or rounds still serves; `same` contrasts are open."""
    return now < (_REDESIGN if same else _REDESIGN_CHANGED) * made_at


def still_serves(stage: Stage, key: Key, now: int) -> bool:
    """Whether it is not time for a new design yet."""
    return keeps_design(float(stage.made_at), stage.key == key, float(now))


@tiered
def design_problem(
    features: Array, spread: Array, rows: Array, known: Parts
) -> tuple[Array, Array]:
    """Features and contrasts whose largest variance factor is to be minimised.

    The design minimises max over y of ‖y‖² / gap_y² under Σ_cov,p⁻¹, from estimates so far.
    A contrast with variance factor ‖y‖² gathers evidence at a rate of gap² / (2 s² ‖y‖²) per pull,
    so under this design the slowest of them gathers it as quickly as can be. How much each lacks is
    left out: where luck held evidence back, gaps are not smaller. Arms whose rewards vary more
    count for less: their features are divided by their deviation.

    Args:
        features: φ of all source arms: x, or (1, x) if there is a baseline.
        spread: the expected (r − c(a))² of each.
        rows: the open contrasts in coordinates.
        known: Σ n Σ_cov over the batches, θ̂, what is added to each contrast's estimate, below
            how many standard errors it is not believed, and R; with a finite R, information, θ̂ and
            rows are lifted, with the level first.
    """
    information, slope, margin, sure, bound = known
    (count, rank), lifted = rows.shape, features.shape[1] - rows.shape[1]
    typical = total(spread) / len(spread)
    upper = information.copy()
    cholesky(upper)
    whitened = forward_solve(upper, rows)
    posed = np.zeros((count, rank + lifted))
    size = 0.0
    for y in range(count):
        error = gap = 0.0
        for j in range(rank):
            error += whitened[j, y] * whitened[j, y]
            gap += rows[y, j] * slope[j]
        if bound < math.inf:
            gap -= abs(rows[y, 0]) * bound
        gap = max(gap + margin, sure * math.sqrt(typical * error))
        for j in range(rank):
            posed[y, lifted + j] = rows[y, j] * (1 / gap)
            size = max(size, abs(posed[y, lifted + j]))
    for y in range(count):
        for j in range(rank):
            posed[y, lifted + j] /= size
    scaled = np.empty(features.shape)
    for a in range(len(features)):
        factor = math.sqrt(typical / spread[a])
        for j in range(features.shape[1]):
            scaled[a, j] = features[a, j] * factor
    return scaled, posed


@tiered
def solve_design(features: Array, rows: Array) -> tuple[bool, Array]:
    """Whether the design for few arms and contrasts could be certified, and its weights."""
    q, _, _, gap = interior_point(
        features, rows, (np.ones(len(features)), np.ones(len(rows))), _TOL
    )
    scale = total(q)
    for a in range(len(q)):
        q[a] /= scale
    return gap <= _TOL, q


@tiered
def pose_design(
    arms: Array, features: Array, start: Array, state: Parts, known: Parts, contrasts: Parts
) -> tuple[Array, Array]:
    """What `design_problem` makes of the estimates so far.

    With a bound R on the baseline, the sums s of the contrasts' weights are the best ones under the
    design `start`; with the design for these sums they can be improved again.

    Args:
        arms: in coordinates.
        features: φ of each.
        start: a design.
        state: the parts of an `EstimatorState`.
        known: `Estimates.known`.
        contrasts: the open contrasts, and the margin.
    """
    rows, margin = contrasts
    slope, information, spread, bound = state[1], state[2], state[9], known[BOUND]
    if bound == math.inf:
        learned = information, slope, margin, LEAST_GAP_ERRORS, bound
        return design_problem(features, spread, rows, learned)
    (count, rank), level = rows.shape, state[0][LEVEL]
    belief, tilted = np.empty(rank + 1), np.empty((count, rank + 1))
    drawn, shares, _, _, readout, _ = least_variance_readout(arms, start, spread, True)
    varied = np.empty(len(drawn))
    for i in range(len(drawn)):
        varied[i] = shares[i] * spread[drawn[i]]
    gaps, _ = believed_gaps(rows, margin, beliefs(state, known), LEAST_GAP_ERRORS)
    sums = tilts(apply_readout(rows, readout), readout[rank], varied, gaps, level, bound)
    belief[0] = level
    for j in range(rank):
        belief[j + 1] = slope[j]
    for y in range(count):
        tilted[y, 0] = sums[y]
        for j in range(rank):
            tilted[y, j + 1] = rows[y, j]
    learned = lifted_information(state, known), belief, margin, LEAST_GAP_ERRORS, bound
    return design_problem(features, spread, tilted, learned)


@tiered
def has_sums(posed: Array) -> bool:
    """Whether the weights of a contrast sum to other than 0, so that the design depends on them."""
    found = False
    for y in range(len(posed)):
        found = found or posed[y, 0] != 0
    return found


@tiered
def mix_designs(weights: Array, g_design: Array, share: float, least: float) -> Array:
    """A design with a share of the G-design, without arms of less than the least probability."""
    mixture = np.empty(len(weights))
    for a in range(len(weights)):
        mixture[a] = (1 - share) * weights[a] + share * g_design[a]
        if mixture[a] < least:
            mixture[a] = 0.0
    whole = total(mixture)
    for a in range(len(weights)):
        mixture[a] /= whole
    return mixture


@lru_cache(maxsize=128)
def g_design(problem: Problem) -> Array:
    """The G-design of a problem: centered, unless there is no baseline."""
    design = centered_g if problem.drifts else linear_g
    weights = design(problem.source, tol=_TOL).weights
    weights = np.where(weights < LEAST_WEIGHT, 0.0, weights)
    weights = weights / weights.sum()
    weights.flags.writeable = False
    return np.asarray(weights)


def _within(scale: Scale, guess: Array) -> Array:
    """Guesses of rewards, where they can lie."""
    return np.minimum(np.maximum(guess, scale.low), scale.high)


class ForecastInterval:
    """Where forecasts of the next batch may lie: near the level of rewards, wider as a run goes on.

    The width adds to C, the farthest that z can fall, and so lowers the largest stake. That matters
    in short runs in many dimensions, where stakes are large; long runs hardly notice it. The middle
    stays where it is as long as the level is near: an interval that moved with every batch would
    move the rewards less their forecasts as well.

    Args:
        scale: where rewards lie.
        dimensions: the dimension of the arms' span.
    """

    def __init__(self, scale: Scale, dimensions: int) -> None:
        self._scale, self._dimensions = scale, dimensions
        self._middle, self._reach = scale.middle + scale.center, 0.0

    def learn(self, mean: float, pulls: int, *, drawn: int, variance: float) -> None:
        """Take in a batch: its mean reward and its pulls; all pulls so far; and the variance of a
        reward less its forecast, as far as is known."""
        deviation = math.sqrt(variance)
        reach = min((_FIRST + _WIDENING * drawn) / self._dimensions, _WIDEST)
        self._reach = deviation * reach
        if abs(mean - self._middle) > self._reach / 2 + _CLEAR * deviation / math.sqrt(pulls):
            self._middle = mean

    @property
    def ends(self) -> tuple[float, float]:
        """Its ends; both are the middle of the range before the first batch."""
        return self._scale.near(self._middle, self._reach)


class IndependentSampler:
    """One pull per round: every arm is drawn by itself.

    Attributes:
        metric: what contrasts are measured by, for stakes.

    Args:
        config: what it is made from.
        forecasts: whether a forecast is subtracted from every reward.
        floors: the least probability of arms, by label.
    """

    def __init__(
        self, config: Config, *, forecasts: bool, floors: Mapping[str, float] | None = None
    ) -> None:
        self._config, self._forecasts = config, forecasts
        labels = config.problem.source_labels
        self._floors = np.array([(floors or {}).get(label, 0.0) for label in labels])
        self._scale, self._intercept = config.assumptions.scale, config.problem.drifts
        self._provisional = config.assumptions.bounds is not None
        rank = config.arms.shape[1]
        self._least = LEAST_PULLS * int(rank + self._intercept)
        self._interval = ForecastInterval(self._scale, rank) if forecasts else None
        scale = replace(self._scale, center=0.0) if forecasts else self._scale
        self.estimates = Estimates(
            config.arms, scale, intercept=self._intercept, bound=config.bound
        )
        self.metric = contrast_metric(config.problem, config.bound < math.inf)
        self.stage: Stage | None = None  # how the last batch was drawn
        self._predicted: dict[int, Frame] = {}  # of batches learned from that lack outcomes

    @property
    def fixed(self) -> tuple[Any, ...]:
        """For compiled runs: arms, their features, targets, the G-design, where rewards lie."""
        config, estimates = self._config, self.estimates
        design = np.array(g_design(config.problem))  # it cannot be changed, arrays here can
        return estimates.coordinates, config.features, config.targets, design, estimates.known

    def smallest(self, evidence: Evidence) -> int:  # noqa: ARG002 - it is always the same
        """One pull."""
        return 1

    def plan(self, evidence: Evidence, run: RunState) -> Plan:
        """The next batch, from the last design or a new one."""
        stage, pulls = self.stage, self.estimates.pulls
        if stage is not None and still_serves(stage, contrast_key(evidence), pulls):
            weights = stage.sampling.probabilities
        else:
            weights = self._floors + (1 - self._floors.sum()) * self._design(evidence)
        if run.before is None or weights is not run.before.weights:
            weights = as_weights(weights, len(weights))
        scalars = self.estimates.state.scalars
        size = batch_size(scalars, float(run.pulls), BATCH_GROWTH, self._least)
        if run.most is not None:
            # With nothing left to draw the plan stands for the wait for what is outstanding.
            size = max(1, min(size, run.most))
        return Plan(
            run.phase,
            size,
            weights=weights,
            open=True,
            most=run.most,
            provisional=self._provisional,
            center=0.0 if self._forecasts else self._scale.center,
            extremes=True,
            forecasts=None if self._interval is None else self._interval.ends,
        )

    def _design(self, evidence: Evidence) -> Array:
        """The probabilities for the open contrasts; the G-design while nothing is known."""
        config, estimates = self._config, self.estimates
        if not estimates.pulls:
            return g_design(config.problem)
        # Copies: for arrays that cannot be changed it would be compiled once more.
        explored = g_design(config.problem).copy()
        assert self.stage is not None  # that of the batches that were learned from
        design: Array = self.stage.sampling.probabilities.copy()
        contrasts = evidence.open_contrasts(), config.margin
        known, state = estimates.known, tuple(estimates.state)
        for _ in range(1 if config.bound == math.inf else TILT_STEPS):
            features, rows = pose_design(
                config.arms, config.features, design, state, known, contrasts
            )
            few = max(len(features), len(rows)) <= SMALL_POOL
            certified, weights = solve_design(features, rows) if few else (False, np.empty(0))
            if not certified:
                weights = minimise(features, ListedContrasts(rows), _TOL).weights.copy()
            design = mix_designs(weights, explored, G_DESIGN_SHARE, LEAST_WEIGHT)
            if not has_sums(rows):
                break
        return design

    def check(self, plan: Plan) -> None:
        """Raise unless a recorded plan is of a rule with these options."""
        check_plan_options(
            plan, provisional=self._provisional, forecasts=self._forecasts, blocks=False
        )

    def prepare(self, plan: Plan, evidence: Evidence, run: RunState) -> tuple[Frame, Stage]:
        """Fix all that bets on a plan rest on, from the past and the plan alone."""
        stage = self._stage_of(plan, contrast_key(evidence))
        scale = self._scale.minus_forecasts(plan.forecasts)
        frame = Frame(
            stage.sampling,
            guess=_within(scale, self.estimates.rewards(plan.pulls)),
            spread=self.estimates.spread,
            scale=scale,
            size=plan.pulls,
            pulls=run.pulls,
            grid=self._config.grid,
            leaders=evidence.leaders,
            belief=self.estimates.belief,
            metric=self.metric,
        )
        return frame, stage

    def _stage_of(self, plan: Plan, key: Key) -> Stage:
        """How the batch of a plan is drawn, wherever its probabilities were computed.

        Contrasts are read off a batch as they were off the last one if it has the same
        probabilities, and by the spread known now if it does not: so this follows from the plans
        and summaries on record.
        """
        last, weights, pulls = self.stage, plan.weights, self.estimates.pulls
        assert weights is not None
        if last is not None:
            before = last.sampling.probabilities
            if weights is before or np.array_equal(weights, before):
                return last if still_serves(last, key, pulls) else Stage(last.sampling, key, pulls)
        coordinates = self._config.arms
        arms = coordinates - (weights @ coordinates if self._intercept else 0.0)
        scales = np.linalg.eigvalsh(arms.T @ (weights[:, None] * arms))
        if scales[0] <= _SINGULAR * scales[-1]:
            raise ProtocolError(
                f"The arms that the plan of phase {plan.phase} draws do not inform about all "
                "contrasts.",
                field="plan",
                value=plan.phase,
                remedy="Adopt a plan that this policy made for this problem.",
            )
        spread = self.estimates.spread
        return Stage(Sampling(coordinates, weights, spread, intercept=self._intercept), key, pulls)

    def keep(self, stage: Stage) -> None:
        """Note how the last batch was drawn."""
        self.stage = stage

    def contradicted_by(self, frame: Frame, summary: Summary) -> bool:
        """Whether no rewards within the scale have these totals, but for rare noise."""
        labels = self._config.problem.source_labels
        return self._config.assumptions.contradicted_by(summary, labels, frame.scale)

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
            pending = summary.pending[frame.sampling.arms]
            self._predicted[place] = frame
        self.estimates.learn(batch, pending)
        if self._interval is not None:
            mean = (float(summary.rewards.sum()) + summary.forecast_sum) / summary.pulls
            variance = float(self.estimates.spread.mean())
            self._interval.learn(mean, summary.pulls, drawn=drawn, variance=variance)

    def _predict(self, batch: BatchOutcome) -> Frame:
        """The frame of a batch with what is predicted for it now: its own, unless it came late.

        Without bounds it is always its own: a batch comes in whole, in the order of draws.
        """
        frame, summary = batch.frame, batch.summary
        if not self._provisional:
            return frame
        guess = self.estimates.rewards(frame.size)
        if batch.pending and not self.estimates.pulls:  # for the first its own mean does as well
            guess[:] = float(summary.rewards.sum()) / summary.pulls - frame.scale.center
        guess = _within(frame.scale, guess)
        return frame if np.array_equal(guess, frame.expected) else frame.with_guess(guess)

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
            self.estimates.correct(BatchOutcome(frame, summary))
        if not after.pending:
            self._predicted.pop(place, None)
