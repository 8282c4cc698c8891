"""Intervals that are valid at every moment at once: of contrasts, effects and average rates."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bestarm.bounds import ChangeShares, change_shares, control_shares, pairs_delta, rates_delta
from bestarm.checks import suggestion
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array
from bestarm.policies.anytime.bets import (
    EPSILON,
    MAX_LOSS,
    ROUNDINGS,
    SLACK,
    BatchOutcome,
    Frame,
    Scale,
    StakeGrid,
    Totals,
    bet_growth,
    bet_losses,
    bet_offset,
    farthest_fall,
    over_arms,
)
from bestarm.policies.anytime.evidence import (
    WINDOW,
    AnyBatch,
    AnyFrame,
    TargetCoordinates,
    finalized,
)
from bestarm.policies.policy import Rates
from bestarm.problem import Problem
from bestarm.recommendation import Effect

_HALVINGS = 60
# Stakes relative to the width of the range: pulls from a few to 10¹², variances 10⁶ apart.
_RATE_STAKES: Array = 0.5 ** np.arange(26.0)
_RUINED = -1e300  # the log wealth of a stake that has ended
_NO_CAPITAL = np.zeros(1)
_ROOM = 2**19  # numbers in the arrays of batches whose bets are settled at once


@dataclass(frozen=True, eq=False)
class Intervals:
    """How far the leader is ahead of every target.

    Attributes:
        leader: the index of the leader.
        estimate: estimated leader − target, in reward units, for each target.
        low: lower ends.
        high: upper ends.
        delta: the probability with which any of them, at any moment, may miss its contrast.
    """

    leader: int
    estimate: Array
    low: Array
    high: Array
    delta: float


def lead_intervals(
    targets: TargetCoordinates,
    leader: int,
    slope: Array,
    past: Sequence[AnyBatch],
    *,
    grid: StakeGrid,
    delta: float,
    margin: float | None,
    widest: float,
    shares: ChangeShares | None = None,
) -> Intervals:
    """How far the leader is ahead of every target; NaN of those that are retired.

    Args:
        targets: in coordinates.
        leader: its index.
        slope: θ̂.
        past: the batches so far.
        grid: the stakes.
        delta: δ.
        shares: what of δ is for targets that are added, if they may be.
        margin: how much worse than the best the leader may be, once that is decided. On the event
            that the decision is right, no lead is less than minus this, so lower ends are raised;
            with that event, they hold together but for a probability of 2δ.
        widest: the largest lead that can be: see `widest_lead`.
    """
    others = targets.present[targets.present != leader]
    initial = int((targets.additions == 0).sum())
    threshold, capital = -math.log(pairs_delta(delta, targets=initial)), np.zeros(2 * len(others))
    if shares is not None:
        added = np.maximum(targets.additions[others], targets.additions[leader]).tolist()
        each = [math.log(shares.interval(j, targets=initial)) for j in added]
        capital = np.tile(each, 2) + threshold
    better, worse = np.full(len(others), leader), others
    both = np.append(better, worse), np.append(worse, better)  # in one pass over the past
    ends = lower_ends(
        lambda place, _: targets.contrasts(place, *both),
        past,
        threshold=threshold,
        grid=grid,
        capital=capital,
    )
    low, high = np.where(np.isnan(targets.now[:, 0]), np.nan, np.zeros((2, len(targets))))
    low[others], high[others] = ends[: len(others)], -ends[len(others) :]
    if margin is not None:
        low[others] = np.maximum(low[others], -margin)
        high = np.maximum(high, low)
        delta = 2 * delta
    estimate = (targets.now[leader] - targets.now) @ slope
    estimate, low, high = np.clip((estimate, low, high), -widest, widest)
    return Intervals(leader, estimate, low, high, delta)


def lower_ends(
    contrasts: Callable[[int, AnyFrame], Array],
    past: Sequence[AnyBatch],
    *,
    threshold: float,
    grid: StakeGrid,
    capital: Array = _NO_CAPITAL,
    window: int = WINDOW,
) -> Array:
    """The largest v at which each contrast's e-process against y·θ ≤ v has reached exp(threshold).

    Betting against y·θ ≤ v instead of y·θ ≤ 0 changes the log wealth of a stake by −v Σ nλ, so one
    pass over the past serves all v, and the e-value falls in v. An outstanding outcome that may be
    lost has min(1, its least factor): with v < 0 that is at least what it is with v = 0.

    Args:
        contrasts: gives rows, in coordinates of the span, for each batch, by its number and from
            what was fixed before it. Rows that are NaN bet nothing on it.
        past: the batches so far.
        threshold: the log of the threshold, to which what rounding may add is added.
        grid: the stakes.
        capital: the log wealth that each contrast starts with.
        window: see `evidence.finalized`.
    """
    count = len(capital)
    wealth, exposure, capped = np.zeros((3, count, len(grid)))
    wealth += capital[:, None]
    ends: Array = np.full(count, -np.inf)
    done = 0
    for end in sorted({finalized(past, window), len(past)}):  # both hold: the better one counts
        while done < end:
            made = _together(past[done:end], 4 * count * len(grid))
            rows = [contrasts(done + i, batch.frame) for i, batch in enumerate(made)]
            grown, exposed, held = _settled(made, rows)
            wealth, exposure, capped = wealth + grown, exposure + exposed, capped + held
            done += len(made)
        if (seen := exposure.any(axis=1)).any():
            parts = wealth[seen], exposure[seen], capped[seen]
            ends[seen] = np.maximum(ends[seen], invert_wealth(*parts, threshold + SLACK, grid))
    return ends


def _together(past: Sequence[AnyBatch], size: int) -> Sequence[AnyBatch]:
    """The first of these batches whose bets can be settled at once, in arrays of this size each."""
    first = past[0]
    if not isinstance(first, BatchOutcome):
        return past[:1]
    size = max(size, 4 * first.frame.reader.contrasts.size)
    made = 1
    while made < min(len(past), _ROOM // size):
        frame = past[made].frame
        assert isinstance(frame, Frame)
        alike = frame.reader.contrasts.shape == first.frame.reader.contrasts.shape
        if not alike or (frame.belief is None) != (first.frame.belief is None):
            break
        made += 1
    return past[:made]


def _settled(past: Sequence[AnyBatch], rows: list[Array]) -> tuple[Array, Array, Array]:
    """By how much log wealth, Σ nλ and Σ nλ of capped outcomes grow over these batches."""
    contrasts = np.stack(rows)
    counted = ~np.isnan(contrasts[..., :1])
    contrasts = np.where(counted, contrasts, 0.0)
    if isinstance(past[0], BatchOutcome):
        alike = [each for each in past if isinstance(each, BatchOutcome)]
        totals = Totals.stacked([each.totals for each in alike])
        frame, capped = Frame.stacked([each.frame for each in alike]), past[0].may_be_lost
        stakes, growth = frame.settle(contrasts, totals, capped=capped)
    else:
        stakes, growth = past[0].frame.bets(contrasts[0]).settle(past[0])
    stakes, growth = counted * stakes, np.where(counted, growth, 0.0)
    exposures = np.array([(each.exposure, each.capped_exposure) for each in past])
    by_stake = [(part[:, None, None] * stakes).sum(axis=0) for part in exposures.T]
    return growth.sum(axis=0), by_stake[0], by_stake[1]


def invert_wealth(
    wealth: Array, exposure: Array, capped: Array, threshold: float, grid: StakeGrid
) -> Array:
    """The largest v at which the wealth less v · exposure and max(v, 0) · capped reaches it."""
    # One stake alone reaches the threshold at `low`; at `high` not even all together do.
    beyond = wealth + grid.log_shares - threshold
    alone = beyond / np.where(beyond > 0, exposure + capped, exposure)
    low = alone.max(axis=1)
    high = (alone + np.log(len(grid)) / exposure).max(axis=1)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        v = middle[:, None]
        reached = grid.log_value(wealth - v * exposure - np.maximum(v, 0.0) * capped) >= threshold
        low, high = np.where(reached, middle, low), np.where(reached, high, middle)
    return np.asarray(low)


# --- effects against a control -------------------------------------------------------------------


def complete_batches(past: Sequence[AnyBatch]) -> Sequence[AnyBatch]:
    """The batches that averages are about: those whose outcomes are in, or all before there are."""
    return past[: finalized(past)] or past


def mean_level(past: Sequence[AnyBatch], arms: Array, slope: Array) -> float:
    """The estimated reward at the origin of the coordinates, averaged over all outcomes so far."""
    total = sum(float(each.summary.rewards.sum()) + each.summary.forecast_sum for each in past)
    counts = np.sum([each.summary.counts for each in past], axis=0)
    pulls = float(counts.sum())
    return total / pulls - float((counts @ arms / pulls) @ slope) if pulls else math.nan


def find_control(problem: Problem, control: object, *, names: int) -> int:
    """The index of the target with this name, if the policy names one target."""
    labels = problem.target_labels
    if names > 1:
        raise InvalidInputError(
            "Effects against a control are of one named option, not of several.",
            field="control",
            value=control,
            remedy="Leave `top` or `control` out.",
        )
    if str(control) not in labels:
        raise InvalidInputError(
            f"There is no option {control!r}.",
            field="control",
            value=control,
            remedy=suggestion(str(control), labels) or f"The options are {', '.join(labels)}.",
        )
    return labels.index(str(control))


class ControlEffect:
    """Bounds on the lead of targets over the control, at every moment at once.

    Attributes:
        control: the index of the control.
        shares: what of δ is spent on what.

    Args:
        problem: the problem.
        control: the index of the control.
        arms: the source arms, in coordinates of their span.
        targets: the targets, in the same coordinates up to a shift.
        grid: the stakes.
        changes: whether targets may be added: a share is kept for their effects.
    """

    def __init__(
        self,
        problem: Problem,
        control: int,
        arms: Array,
        targets: TargetCoordinates,
        grid: StakeGrid,
        *,
        changes: bool = False,
    ) -> None:
        self.control, self._label = control, problem.target_labels[control]
        self.shares = control_shares(problem.delta, targets=problem.targets)
        self._problem, self._arms, self._targets = problem, arms, targets
        self._grid = grid
        self._changes = change_shares(1.0) if changes else None

    def change(self, problem: Problem, arms: Array) -> None:
        """Take the problem of the options that there are now, and its arms in coordinates."""
        self._problem, self._arms = problem, arms

    def effect(
        self,
        target: int,
        slope: Array,
        past: Sequence[AnyBatch],
        *,
        learned: int,
        margin: float | None,
        widest: float,
    ) -> Effect | None:
        """The lead of a target over the control; None without evidence on both ends of it.

        An option that was just added has none, though it may look best by its features.

        Args:
            target: the target.
            slope: θ̂.
            past: the batches so far.
            learned: how many of the first batches θ̂ rests on; they have at least one outcome.
            margin: how much worse than the best the target may be, by the decision; None if it is
                not decided.
            widest: the largest lead that can be: see `widest_lead`.
        """
        if target == self.control:
            return Effect(self.control, self._label, 0.0, 0.0, 0.0)
        both = np.array([target, self.control])
        low, high = lower_ends(
            lambda place, _: self._targets.contrasts(place, both, both[::-1]),
            past,
            threshold=-math.log(self._pair_share(target)),
            grid=self._grid,
            capital=np.zeros(2),
        )
        lower, upper = float(low), -float(high)
        if margin is not None:
            # By the decision, the target is at most `margin` worse than the best, and the best may
            # be the control. A retired option may have been better than both.
            behind = 0.0 if self._targets.retired else max(self.behind(past), 0.0)
            lower = max(lower, behind - margin)
        if not math.isfinite(upper - lower):
            return None
        lower, upper = np.clip((lower, max(upper, lower)), -widest, widest).tolist()
        contrast = self._targets.now[target] - self._targets.now[self.control]
        estimate = min(max(float(contrast @ slope), lower), upper)
        known = [
            each for i, each in enumerate(past[:learned]) if self._targets.uses_current_options(i)
        ]
        mean = self._mean_reward(slope, known)
        relative = estimate / mean if mean is not None and mean > 0 else None
        return Effect(self.control, self._label, estimate, lower, upper, relative)

    def _pair_share(self, target: int) -> float:
        """The share of δ for one bound on the lead of a target."""
        share, added = self.shares.pair, self._targets.additions
        if self._changes is None:
            return share
        if not added[target]:
            return share * self._changes.unchanged
        initial = int((added == 0).sum())
        return share * (initial - 1) * self._changes.addition(int(added[target]))

    def behind(self, past: Sequence[AnyBatch]) -> float:
        """A lower bound on how far the control is behind the best target, if none was retired.

        While max over o of (o − c)·θ ≤ m, bets against (o − c)·θ ≤ m are fair or worse whoever
        the opponents are, so no union over targets is needed. −∞ if there is no evidence yet.
        """
        threshold = -math.log(self.shares.behind)
        return float(
            lower_ends(self._against_leader, past, threshold=threshold, grid=self._grid)[0]
        )

    def _against_leader(self, place: int, frame: AnyFrame) -> Array:
        """The contrast of the leader of the time to the control; of the runner-up to itself."""
        leader, second = frame.leaders[0]
        opponent = second if leader == self.control else leader
        return self._targets.contrasts(place, [opponent], [self.control])

    def _mean_reward(self, slope: Array, past: Sequence[AnyBatch]) -> float | None:
        """The estimated mean reward of the control over these batches, if it can be pulled."""
        features = self._problem.target[self._problem.target_labels.index(self._label)]
        same = np.flatnonzero((self._problem.source == features).all(axis=1))
        if not len(same) or not past:
            return None
        level = mean_level(complete_batches(past), self._arms, slope)
        return level + float(self._arms[same[0]] @ slope)


# --- average rates -------------------------------------------------------------------------------


def targets_are_arms(problem: Problem) -> bool:
    """Whether every target is an arm: what others pay need not lie within the bounds of rewards."""
    arms = {row.tobytes() for row in problem.source + 0.0}  # −0.0 is 0.0
    return all(row.tobytes() in arms for row in problem.target + 0.0)


def widest_lead(problem: Problem, bounds: tuple[float, float] | None) -> float:
    """The largest lead of one target over another that rewards within the bounds allow for.

    What two arms pay in the same round lies within the bounds, and differs by their lead.
    """
    if bounds is None or not targets_are_arms(problem):
        return math.inf
    return bounds[1] - bounds[0]


def average_rates(
    problem: Problem,
    past: Sequence[BatchOutcome],
    *,
    arms: Array,
    targets: Array,
    slope: Array,
    scale: Scale,
    delta: float,
) -> Rates:
    """What each target would have paid on average, had it been pulled in every round.

    Before the arm of a round is drawn, let μ_k be what option k would pay in it, noise apart. One
    round estimates it without bias: with weights w(a), Σ p_a w(a) = 1 and Σ p_a w(a) x_a = x_k,

        E[ w(a) (r − c(a)) | past ] + Σ p_a w(a) c(a) = x_k·θ + ν = μ_k

    Every target is an arm here, so that μ_k lies where rewards do. For options that are plain names
    w(a) is 1/p_k for a = k and 0 otherwise: nothing is assumed of how μ_k moves, or that all
    options move alike. Stakes λ are the same in all rounds: then

        Π (1 + λz) exp(−λ(μ_k − Σ p_a w(a) c(a)))          (Lemma 4, with μ_k for v)

    is a supermartingale whose exponent holds the plain average of μ_k over the rounds, which is
    what the interval is about. A stake ends, and counts as nothing, before a batch that could ruin
    it.

    Args:
        problem: the problem.
        past: the batches so far.
        arms: the source arms, in coordinates of their span.
        targets: the targets, in the same coordinates, not shifted.
        slope: θ̂.
        scale: where rewards lie.
        delta: the probability with which any interval may miss its average.
    """
    done = past[: len(complete_batches(past))]
    ends = _rate_lower_ends(done, problem, arms, targets, scale, delta)
    lowest, highest = scale.low + scale.center, scale.high + scale.center
    low = np.clip(ends[: len(targets)], lowest, highest)
    high = np.maximum(np.clip(-ends[len(targets) :], lowest, highest), low)
    level = mean_level(done, arms, slope)
    estimate = np.clip(level + targets @ slope, low, high)
    rounds = sum(each.summary.pulls for each in done)
    return Rates(estimate, low, high, rounds, delta)


def _rate_weights(frame: Frame, arms: Array, targets: Array, *, drifts: bool) -> Array:
    """w(a) of each target, in every batch; (batches, targets, arms)."""
    if not drifts:
        return np.asarray(targets @ frame.reader.contrasts)
    mean = (frame.weights @ arms)[:, None]
    drawn = (frame.weights > 0)[:, None]
    return np.where(drawn, 1.0 + (targets - mean) @ frame.reader.contrasts, 0.0)


def _rate_lower_ends(
    past: Sequence[BatchOutcome],
    problem: Problem,
    arms: Array,
    targets: Array,
    scale: Scale,
    delta: float,
) -> Array:
    """Lower ends for the average of each target, then for the negative of each."""
    threshold = -math.log(rates_delta(delta, targets=problem.targets))
    stakes = _RATE_STAKES / (scale.high - scale.low + scale.noise)
    grid = StakeGrid(stakes, np.full(len(stakes), -math.log(len(stakes)) - 1e-12))
    count = 2 * len(targets)
    wealth, exposure = np.zeros((2, count, len(stakes)))
    room = max(1, _ROOM // (4 * count * max(len(stakes), len(arms))))
    for first in range(0, len(past), room):
        some = past[first : first + room]
        frame, totals = (
            Frame.stacked([b.frame for b in some]),
            Totals.stacked([b.totals for b in some]),
        )
        w = _rate_weights(frame, arms, targets, drifts=problem.drifts)
        w = np.concatenate([w, -w], axis=1)
        wealth += _rate_growth(w, frame, totals, stakes).sum(axis=0)
        for batch in some:
            wealth += stakes * _subtracted(batch, len(targets))[:, None]
            exposure += batch.summary.pulls * stakes
    if not exposure.any():
        return np.full(count, -np.inf)
    wealth = np.maximum(wealth, _RUINED)
    return invert_wealth(wealth, exposure, np.zeros_like(exposure), threshold + SLACK, grid)


def _subtracted(batch: BatchOutcome, targets: int) -> Array:
    """What was subtracted from rewards, at least; then its negative, at least."""
    known = batch.summary.forecast_sum + batch.frame.center * batch.summary.pulls
    ends = np.array([known, -known])
    return np.repeat(ends - EPSILON * ROUNDINGS * np.abs(ends), targets)


def _rate_growth(w: Array, frame: Frame, totals: Totals, stakes: Array) -> Array:
    """By how much the log wealth of every row and stake grows: see `bets.settle_bets`."""
    fall = farthest_fall(frame, w)
    alive = stakes * fall[..., None] <= MAX_LOSS
    placed, offset = np.where(alive, stakes, 0.0), bet_offset(frame, w)
    growth = bet_growth(frame, w, totals, placed, offset, fall)
    if totals.lost.any():
        # Not in the average. Neither the mean nor the offset exceeds the largest Σ p w r, so that
        # the factor is at most 1, and it holds whether the outcome comes or is lost.
        low, high = frame.low[:, None, None], frame.high[:, None, None]
        most = over_arms(np.maximum(w * low, w * high), frame.weights)
        largest = np.maximum(np.abs(frame.low), np.abs(frame.high))[:, None]
        relative = (w.shape[2] + ROUNDINGS) * EPSILON
        most += relative * largest * over_arms(np.abs(w), frame.weights)
        growth += bet_losses(frame, w, placed, offset - most, totals.lost)
    return np.where(alive, growth, 2 * _RUINED)
