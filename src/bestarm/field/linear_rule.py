"""The base of linear rules that decide after every pull: least squares and a threshold.

The compiled functions take what is known of a problem (`Model`), what pulls change (`State`) and
the threshold (`Rule`) as plain tuples, which `LinearRule` makes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np

from bestarm.checks import choice, positive
from bestarm.field.kernels import (
    add_weighted_gram,
    compiled,
    dot,
    invert,
    log_determinant,
    quadratic_form,
    sherman_morrison,
    weighted_sum,
)
from bestarm.field.linear_model import coordinates, linear_assumptions
from bestarm.field.pull_by_pull import PullByPull
from bestarm.field.thresholds import LinearThreshold, certified_threshold, linear_experiments
from bestarm.numerics.geometry import Array, Indices
from bestarm.problem import Problem, as_problem

Threshold = Literal["published", "certified", "experiments"]

# Arms; targets; λ, where A = λI + Σ x xᵀ; σ.
Model = tuple[Array, Array, float, float]
# Pulls and sum of rewards of each arm; A⁻¹ and θ̂, in units of σ; z·θ̂ and ‖z_leader − z‖² of each
# target z, ‖x‖² of each arm x if the rule uses it, with norms under A⁻¹; numbers; counters.
State = tuple[Indices, Array, Array, Array, Array, Array, Array, Array, Indices]
Rule = tuple[int, float, float, float, Array]  # growth, factor, level, shift, Λ: `LinearThreshold`

LOG_DET, THRESHOLD = 0, 1  # the numbers: log det A, and the threshold when last computed
# The counters: the last is the target that kept a certified rule from stopping, or −1.
PULLS, LEADER, REFRESHED, UNRESOLVED = 0, 1, 2, 3
LOG_LOG, LOG, DETERMINANT, TRACE, COUNTS, CERTIFIED = 0, 1, 2, 3, 4, 5  # how a threshold grows
_GROWTHS = ("log-log", "log", "determinant", "trace", "counts", "certified")

TIE = 1 + 1e-9  # what is larger by less counts as equal; the first of equals is taken
REFRESH = 256  # pulls from one exact computation to the next; between them, rounding adds up
_LOST = 1e10  # of A_kk (A⁻¹)_kk: from here on A⁻¹ and θ̂ have less than about five digits


class LinearRule(PullByPull):
    """A rule on least squares that stops once the leader is far enough ahead of every target.

    It works in the span of the source: features that the source does not vary in do not matter.
    Without regularisation it never stops while one feature is, over the pulls, a combination of
    others but for a part in 100,000: rounding would decide.

    Args:
        problem: the problem; targets may be others than the source arms.
        threshold: what the statistic is compared with: `"published"` or one of the others.
        published: the threshold of the rule's paper.
        others: other thresholds by name; `"certified"` and, without a proof, `"experiments"` if
            left out.
        sigma: the sub-Gaussian scale of the noise it assumes.
        ridge: λ, where A = λI + Σ x xᵀ; 0 with the certified threshold.
        opening: arms to pull once before anything is decided; None for all, in order.
    """

    _uses_arm_norms: ClassVar[bool] = False
    _norm: float | None = None  # the bound on ‖θ‖ that the published threshold rests on

    def __init__(
        self,
        problem: Problem,
        threshold: str,
        *,
        published: LinearThreshold,
        others: Mapping[str, LinearThreshold] | None = None,
        sigma: float,
        ridge: float = 0.0,
        opening: Indices | None = None,
        max_pulls: int | None = None,
    ) -> None:
        source, target = coordinates(as_problem(problem))
        arms, rank = source.shape
        opening = np.arange(arms) if opening is None else opening
        super().__init__(problem, max_pulls=max_pulls, opening=opening)
        if others is None:
            experiments = linear_experiments(problem.delta)
            others = {"certified": certified_threshold(problem.delta), "experiments": experiments}
        thresholds = {"published": published, **others}
        choice(threshold, thresholds, "threshold")
        self._threshold, self._sigma = threshold, positive(sigma, "sigma")
        ridge = 0.0 if threshold == "certified" else ridge
        self._model: Model = (source, target, ridge, self._sigma)
        self._state: State = (
            self._counts,
            self._sums,
            np.zeros((rank, rank)),
            np.zeros(rank),
            np.zeros(len(target)),
            np.zeros(len(target)),
            np.zeros(arms if self._uses_arm_norms else 0),
            np.array([0.0, -1.0]),
            np.zeros(4, dtype=np.int64),
        )
        self._rule = _rule(thresholds[threshold], source)

    def _assumptions(self) -> tuple[str, ...]:
        if self._threshold == "experiments":
            return ()
        known = linear_assumptions(self._sigma)
        if self._norm is None or self._threshold != "published":
            return known
        return (
            *known,
            f"The coefficients of the features have norm {self._norm:g} or less, in a unit in "
            "which the longest option has norm 1.",
        )


def _rule(threshold: LinearThreshold, source: Array) -> Rule:
    """The threshold as compiled functions take it, with Λ as a matrix."""
    even = source.T @ source / len(source)
    shape = even if threshold.growth == "certified" else np.eye(source.shape[1])
    return (
        _GROWTHS.index(threshold.growth),
        threshold.factor,
        threshold.level,
        threshold.shift,
        threshold.prior * shape,
    )


@compiled
def learn(model: Model, state: State, arm: int, reward: float) -> bool:
    """Learn from one pull; whether Z(t) exceeds the last threshold, so that it may be `identified`.

    With v = A⁻¹x and s = 1 + x·v, a pull of x changes A⁻¹ by −v vᵀ/s, θ̂ by (r − x·θ̂) v/s, and
    log det A by log s. Every so often all of it is computed anew from counts and sums, so rounding
    errors do not grow with the pulls.
    """
    source, target, _, sigma = model
    counts, sums, inverse, theta, scores, contrast_norms, arm_norms, numbers, counters = state
    counts[arm] += 1
    sums[arm] += reward
    counters[PULLS] += 1
    if counters[REFRESHED] == 0 or counters[PULLS] - counters[REFRESHED] >= REFRESH:
        counters[PULLS] = 0
        for n in counts:  # with those of the opening
            counters[PULLS] += n
        refresh(model, state)
        return bool(_statistic(state) > numbers[THRESHOLD])
    v = np.empty(len(theta))
    scale = sherman_morrison(inverse, source[arm], v)
    error = (reward / sigma - dot(source[arm], theta)) / scale
    numbers[LOG_DET] += math.log(scale)
    for k in range(len(theta)):
        theta[k] += v[k] * error
    for a in range(len(arm_norms)):
        along = dot(source[a], v)
        arm_norms[a] -= along * along / scale
    leader = counters[LEADER]
    at_leader, best = dot(target[leader], v), 0
    for b in range(len(scores)):
        along = dot(target[b], v)
        scores[b] += along * error
        contrast_norms[b] -= (along - at_leader) ** 2 / scale
        if scores[b] > scores[best]:
            best = b
    if best != leader:
        _compare_with(best, target, inverse, contrast_norms)
        counters[LEADER] = best
    return bool(_statistic(state) > numbers[THRESHOLD])


@compiled
def refresh(model: Model, state: State) -> None:
    """Compute A⁻¹, θ̂ and everything that follows from them from counts and sums.

    log det A is −∞ where rounding has left too little of A⁻¹: where one feature is, over the pulls,
    a combination of others but for a part in 100,000.
    """
    source, target, ridge, sigma = model
    counts, sums, inverse, theta, scores, contrast_norms, arm_norms, numbers, counters = state
    rank = len(theta)
    design, sizes, moment = information(source, counts, ridge), np.empty(rank), np.empty(rank)
    for k in range(rank):
        sizes[k] = design[k, k]
    numbers[LOG_DET] = invert(design, inverse)
    for k in range(rank):
        if not sizes[k] * inverse[k, k] < _LOST:
            numbers[LOG_DET] = -math.inf
    weighted_sum(source, sums, moment)
    weighted_sum(inverse, moment, theta)
    for k in range(rank):
        theta[k] /= sigma
    best = 0
    for b in range(len(scores)):
        scores[b] = dot(target[b], theta)
        if scores[b] > scores[best]:
            best = b
    _compare_with(best, target, inverse, contrast_norms)
    for a in range(len(arm_norms)):
        arm_norms[a] = quadratic_form(inverse, source[a])
    counters[LEADER], counters[REFRESHED] = best, counters[PULLS]


@compiled
def information(source: Array, weights: Array | Indices, ridge: float) -> Array:
    """ridge·I + Σ w x xᵀ."""
    rank = source.shape[1]
    design = np.zeros((rank, rank))
    for k in range(rank):
        design[k, k] = ridge
    add_weighted_gram(source, weights, design)
    return design


@compiled
def difference(rows: Array, first: int, second: int) -> Array:
    """One row less another."""
    found = np.empty(rows.shape[1])
    for k in range(rows.shape[1]):
        found[k] = rows[first, k] - rows[second, k]
    return found


@compiled
def multiply(symmetric: Array, vector: Array) -> Array:
    """M v for a symmetric M."""
    product = np.empty(len(vector))
    weighted_sum(symmetric, vector, product)
    return product


@compiled
def _compare_with(leader: int, target: Array, inverse: Array, contrast_norms: Array) -> None:
    """‖z_leader − z‖² under A⁻¹ for every target."""
    for b in range(len(contrast_norms)):
        contrast_norms[b] = quadratic_form(inverse, difference(target, leader, b))


@compiled
def _statistic(state: State) -> float:
    """Z(t) = min over z of ((z_leader − z)·θ̂)² / (2 ‖z_leader − z‖² under A⁻¹).

    0 where rounding has left no number: that is no evidence.
    """
    scores, contrast_norms, leader = state[4], state[5], state[8][LEADER]
    least = math.inf
    for b in range(len(scores)):
        if b != leader:
            lead = scores[leader] - scores[b]
            ratio = lead * lead / (2 * contrast_norms[b])
            if not ratio > 0:
                return 0.0
            least = min(least, ratio)
    return least


@compiled
def identified(model: Model, state: State, rule: Rule) -> bool:
    """Whether the leader is identified: whether Z(t) exceeds the threshold.

    A threshold never falls, so while Z(t) is below its last value nothing more is computed. Nothing
    is identified while rounding decides what A⁻¹ is.
    """
    numbers, counters = state[7], state[8]
    counters[UNRESOLVED] = -1
    if not _statistic(state) > numbers[THRESHOLD]:
        return False
    refresh(model, state)
    if numbers[LOG_DET] == -math.inf:
        return False
    numbers[THRESHOLD] = threshold_now(model, state, rule)
    if not _statistic(state) > numbers[THRESHOLD]:
        return False
    if rule[0] == CERTIFIED:
        counters[UNRESOLVED] = _unresolved(model, state, rule[4], numbers[THRESHOLD])
    return bool(counters[UNRESOLVED] < 0)


@compiled
def threshold_now(model: Model, state: State, rule: Rule) -> float:
    """β(t, δ) = factor · (√(level + growth/2) + shift)²: see `bounds.LinearThreshold`."""
    growth, factor, level, shift, prior = rule
    counts, counters = state[0], state[8]
    pulls, rank = counters[PULLS], model[0].shape[1]
    grown = 0.0
    if growth == LOG_LOG:
        grown = 2 * math.log(1 + math.log(pulls))
    elif growth == LOG:
        grown = math.log(pulls)
    elif growth == TRACE:
        grown = rank * math.log(1 + pulls * prior[0, 0])
    elif growth == COUNTS:
        for n in counts:
            grown += 4 * math.log(4 + math.log(n))
    else:
        joint = prior.copy()
        add_weighted_gram(model[0], counts, joint)
        grown = log_determinant(joint) - log_determinant(prior.copy())
    return factor * (math.sqrt(level + grown / 2) + shift) ** 2


@compiled
def _unresolved(model: Model, state: State, prior: Array, threshold: float) -> int:
    """The target that most θ in the confidence set prefer to the leader; −1 if there is none.

    The set is {θ : ‖Σ x (r − x·θ)‖² under (A + Λ)⁻¹ ≤ 2 β}, an ellipsoid around θ̂ in which
    y·(θ − θ̂) is at most √(2 β (‖y‖² under A⁻¹ + ‖A⁻¹y‖² under Λ)).
    """
    target, inverse, scores, contrast_norms = model[1], state[2], state[4], state[5]
    leader, worst, least = state[8][LEADER], -1, 2 * threshold
    for b in range(len(scores)):
        if b != leader:
            lead = scores[leader] - scores[b]
            along = multiply(inverse, difference(target, leader, b))
            norm = contrast_norms[b] + quadratic_form(prior, along)
            if lead * lead <= least * norm:
                worst, least = b, lead * lead / norm
    return worst
