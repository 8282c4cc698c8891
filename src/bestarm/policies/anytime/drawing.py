"""How the anytime rule draws: single pulls here, blocks in `block_drawing`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from bestarm.numerics.geometry import Array
from bestarm.policies.anytime.allocation import Allocation, Key, Stage, spread_out
from bestarm.policies.anytime.assumptions import Assumptions, check_options_of
from bestarm.policies.anytime.batches import AnyBatch, AnyFrame
from bestarm.policies.anytime.bets import BatchOutcome, Frame, Scale, StakeGrid
from bestarm.policies.anytime.clipping import ForecastInterval
from bestarm.policies.anytime.contests import Contest
from bestarm.policies.anytime.guesses import Guesses
from bestarm.problem import Problem, as_weights
from bestarm.records import Plan, Summary

LEAST = 4  # pulls a dimension in a batch: there is little to learn from fewer
GROWTH = 0.02  # a batch, relative to what was drawn before; less where the baseline moves fast


@dataclass(frozen=True, eq=False)
class Setting:
    """What a way of drawing is made from.

    Attributes:
        problem: the problem.
        assumptions: where rewards lie.
        arms: the source arms, in coordinates of their span.
        features: φ of each: (1, x) if there is a baseline, else x.
        targets: the targets, in the same coordinates up to a shift.
        grid: the stakes.
        margin: what is added to each contrast.
        worst_case: whether outcomes that never come enter at their worst.
    """

    problem: Problem
    assumptions: Assumptions
    arms: Array
    features: Array
    targets: Array
    grid: StakeGrid
    margin: float
    worst_case: bool


class Course(NamedTuple):
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


class Estimates(Protocol):
    """Guesses of θ."""

    @property
    def slope(self) -> Array:
        """θ̂ in coordinates of the span."""
        ...


class Drawing(Protocol):
    """A way of drawing: its plans, what is fixed with them, and what is learned from outcomes."""

    @property
    def guesses(self) -> Estimates:
        """What is known so far."""
        ...

    def smallest(self, contest: Contest) -> int:
        """The pulls of the smallest plan there can be now."""
        ...

    def plan(self, contest: Contest, course: Course) -> Plan:
        """The next plan."""
        ...

    def check(self, plan: Plan) -> None:
        """Raise unless a recorded plan is of this way of drawing."""
        ...

    def prepare(self, plan: Plan, contest: Contest, course: Course) -> tuple[AnyFrame, Any]:
        """What is fixed with a plan, and a stage to be given back to `keep`."""
        ...

    def keep(self, stage: Any) -> None:
        """Note how the batch was drawn that was just told."""
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

    def note(self, before: Any | None, after: Any) -> None:
        """Note what bets rest on: a batch, or what it is now instead of what it was before."""
        ...

    def learn(self, place: int, batch: Any, drawn: int) -> None:
        """Learn from batch number `place`; `drawn` is the number of all pulls so far."""
        ...

    def relearn(self, place: int, before: Any, after: Any, summary: Summary) -> None:
        """Take in outcomes that were outstanding when their batch was learned from."""
        ...


def _within(scale: Scale, guess: Array) -> Array:
    """Guesses of rewards, where they can lie."""
    return np.minimum(np.maximum(guess, scale.low), scale.high)


def key_of(contest: Contest) -> Key:
    """A key that changes when other contrasts are open."""
    return tuple(contest.chosen.tolist()), len(contest.active)


class Singles:
    """One pull a round: every arm is drawn by itself.

    Args:
        setting: what it is made from.
        forecasts: whether a forecast is subtracted from every reward.
    """

    def __init__(self, setting: Setting, *, forecasts: bool) -> None:
        self._setting, self._forecasts = setting, forecasts
        self._scale, problem = setting.assumptions.scale, setting.problem
        self._provisional = setting.assumptions.bounds is not None
        dimensions = setting.arms.shape[1]
        self._interval = ForecastInterval(self._scale, dimensions) if forecasts else None
        scale = replace(self._scale, center=0.0) if forecasts else self._scale
        self.guesses = Guesses(setting.arms, scale, intercept=problem.drifts)
        self._allocation = Allocation(problem, setting.arms, setting.features)
        self.keep = self._allocation.keep
        self._predicted: dict[int, Frame] = {}  # of batches learned from that lack outcomes

    @property
    def stage(self) -> Stage | None:
        """How the last batch was drawn; None before the first."""
        return self._allocation.stage_in_force

    @property
    def fixed(self) -> tuple[Any, ...]:
        """For compiled runs: arms, their features, targets, the G-design, where rewards lie."""
        guesses, setting = self.guesses, self._setting
        spread = np.array(spread_out(setting.problem))  # it cannot be changed, arrays here can
        features = self._allocation.features
        return guesses.coordinates, features, setting.targets, spread, guesses.known

    def smallest(self, contest: Contest) -> int:  # noqa: ARG002 - it is always the same
        """One pull."""
        return 1

    def plan(self, contest: Contest, course: Course) -> Plan:
        """The next batch."""
        weights = self._allocation.weights(
            self.guesses,
            wanted=contest.wanted,
            margin=self._setting.margin,
            key=key_of(contest),
        )
        if course.before is None or weights is not course.before.weights:
            weights = as_weights(weights, len(weights))
        return Plan(
            course.phase,
            self._next_size(course),
            weights=weights,
            open=True,
            most=course.most,
            provisional=self._provisional,
            center=0.0 if self._forecasts else self._scale.center,
            extremes=True,
            forecasts=None if self._interval is None else self._interval.ends,
        )

    def check(self, plan: Plan) -> None:
        """Raise unless a recorded plan is of a rule with these options."""
        check_options_of(
            plan, provisional=self._provisional, forecasts=self._forecasts, blocks=False
        )

    def prepare(self, plan: Plan, contest: Contest, course: Course) -> tuple[Frame, Any]:
        """Fix all that bets on a plan rest on, from the past and the plan alone."""
        stage = self._allocation.stage(plan, self.guesses, key_of(contest))
        scale = self._scale.less(plan.forecasts)
        frame = Frame(
            stage.sampling,
            guess=_within(scale, self.guesses.rewards(plan.pulls)),
            spread=self.guesses.spread,
            scale=scale,
            size=plan.pulls,
            pulls=course.pulls,
            grid=self._setting.grid,
            leaders=contest.leaders,
        )
        return frame, stage

    def contradicted_by(self, frame: Frame, summary: Summary) -> bool:
        """Whether no rewards within the scale have these totals, but for rare noise."""
        labels = self._setting.problem.source_labels
        return self._setting.assumptions.contradicted_by(summary, labels, frame.scale)

    def outcome(self, frame: Frame, summary: Summary) -> BatchOutcome:
        """What came of a plan."""
        return BatchOutcome(frame, summary, self._setting.worst_case)

    def amended(self, before: BatchOutcome, summary: Summary) -> BatchOutcome:
        """What came of it once outcomes that were outstanding are settled."""
        return self.outcome(before.frame, before.summary.amended(summary))

    def note(self, before: BatchOutcome | None, after: BatchOutcome) -> None:
        """Nothing: bets rest on guesses alone."""

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
        self.guesses.learn(batch, pending)
        if self._interval is not None:
            mean = (float(summary.rewards.sum()) + summary.forecast_sum) / summary.pulls
            variance = float(self.guesses.spread.mean())
            self._interval.learn(mean, summary.pulls, drawn=drawn, variance=variance)

    def _predict(self, batch: BatchOutcome) -> Frame:
        """The frame of a batch with what is predicted for it now: its own, unless it came late.

        Without bounds it is always its own: a batch comes in whole, in the order of draws.
        """
        frame, summary = batch.frame, batch.summary
        if not self._provisional:
            return frame
        guess = self.guesses.rewards(frame.size)
        if batch.pending and not self.guesses.pulls:  # for the first its own mean does as well
            guess[:] = float(summary.rewards.sum()) / summary.pulls - frame.scale.center
        guess = _within(frame.scale, guess)
        return frame if np.array_equal(guess, frame.expected) else frame.with_guess(guess)

    def relearn(
        self,
        place: int,
        before: BatchOutcome,  # noqa: ARG002
        after: BatchOutcome,
        summary: Summary,
    ) -> None:
        """Take in outcomes that were outstanding; those that are lost stay as predicted."""
        frame = self._predicted.get(place)
        if frame is not None and summary.pulls:
            self.guesses.correct(BatchOutcome(frame, summary))
        if not after.pending:
            self._predicted.pop(place, None)

    def _next_size(self, course: Course) -> int:
        size = int(min(GROWTH * course.pulls, self.guesses.longest()))
        size = max(size, LEAST * int(self._setting.arms.shape[1] + self._setting.problem.drifts))
        # With nothing left to draw the plan stands for the wait for what is outstanding.
        return size if course.most is None else max(1, min(size, course.most))
