"""LinGapE: pull what tells the leader from its most ambiguous rival."""

from __future__ import annotations

import math

from bestarm.checks import positive
from bestarm.field.kernels import compiled, dot, reward_at
from bestarm.field.linear_rule import (
    DETERMINANT,
    LEADER,
    LOG_DET,
    LOG_LOG,
    PULLS,
    REFRESHED,
    THRESHOLD,
    TIE,
    UNRESOLVED,
    LinearRule,
    Model,
    Rule,
    State,
    Threshold,
    difference,
    identified,
    learn,
    multiply,
    threshold_now,
)
from bestarm.field.pull_by_pull import Rewards
from bestarm.field.thresholds import lingape_threshold
from bestarm.problem import Problem, as_problem


class LinGapE(LinearRule):
    """Pull the arm that tells the leader best from the target that may be furthest ahead of it.

    Every arm is pulled once. Then, with least squares θ̂ on all pulls and a radius C_t, the rival of
    the leader i is the target j with the largest upper bound (z_j − z_i)·θ̂ + C_t ‖z_i − z_j‖, the
    norm under A⁻¹, and the next arm is the one that makes this norm smallest. (That is the paper's
    greedy choice; its bound on the number of pulls is for another one, which tracks a ratio.) It
    stops when the upper bound is not positive, which is when the statistic of the likelihood ratio
    exceeds C_t²/2.

    δ-correct for rewards x·θ + noise with σ-sub-Gaussian noise and **no** baseline, whatever is
    pulled: with `threshold="published"` if ‖θ‖ ≤ `norm`, with `"certified"` for every θ. Others
    who ran it mostly used `"experiments"`, with which nothing is proven.

    Args:
        problem: the problem; targets may be others than the source arms.
        sigma: the sub-Gaussian scale of the noise it assumes.
        norm: S, the bound on ‖θ‖ in the unit in which the longest arm has norm 1; 2 in its authors'
            code. Only the published threshold uses it.
        threshold: `"published"` (its theorem, with regularisation λ = 1), `"certified"` (no union
            over pairs, no regularisation: `bounds.certified_threshold`), or `"experiments"`,
            log((1 + log t)/δ).

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.field import LinGapE
        >>> LinGapE(Problem([[1, 0], [0, 1], [0.8, 0.6]])).plan().counts.tolist()
        [1, 0, 0]

    Reference: Xu, Honda and Sugiyama (2018).
    """

    _uses_arm_norms = True

    def __init__(
        self,
        problem: Problem,
        *,
        sigma: float = 1.0,
        norm: float = 2.0,
        threshold: Threshold = "published",
        max_pulls: int | None = None,
    ) -> None:
        self._norm, scale = positive(norm, "norm"), positive(sigma, "sigma")
        super().__init__(
            problem,
            threshold,
            published=lingape_threshold(
                as_problem(problem).delta, targets=problem.targets, norm=self._norm / scale
            ),
            sigma=sigma,
            ridge=1.0,
            max_pulls=max_pulls,
        )

    def _advance(self, rewards: Rewards, most: int) -> tuple[int, bool]:
        pulls, self._next_arm, stopped = advance(
            rewards, self._model, self._state, self._rule, self._next_arm, most
        )
        self._leader = int(self._state[8][LEADER])
        return pulls, stopped


@compiled
def advance(
    rewards: Rewards, model: Model, state: State, rule: Rule, arm: int, most: int
) -> tuple[int, int, bool]:
    """Make `most` pulls, or fewer if it stops: the pulls made, the next arm, whether it stopped."""
    for i in range(most):
        learn(model, state, arm, reward_at(rewards, i, arm))
        _update_threshold(model, state, rule)
        if identified(model, state, rule):
            return i + 1, arm, True
        arm = _next_arm(model, state)
    return most, arm, False


@compiled
def _update_threshold(model: Model, state: State, rule: Rule) -> None:
    """The threshold now, as far as it costs little: it also decides what to pull."""
    growth, factor, level, shift, prior = rule
    numbers, counters = state[7], state[8]
    if growth == DETERMINANT:  # A contains the prior
        grown = numbers[LOG_DET] - len(prior) * math.log(prior[0, 0])
        numbers[THRESHOLD] = factor * (math.sqrt(level + grown / 2) + shift) ** 2
    elif growth == LOG_LOG or counters[REFRESHED] == counters[PULLS]:
        numbers[THRESHOLD] = threshold_now(model, state, rule)


@compiled
def _next_arm(model: Model, state: State) -> int:
    """The arm after which the most ambiguous direction is known best (Algorithms 1 to 3)."""
    source, target = model[:2]
    _, _, inverse, _, scores, contrast_norms, arm_norms, numbers, counters = state
    leader = counters[LEADER]
    width = math.sqrt(2 * numbers[THRESHOLD])  # C_t
    rival, largest = counters[UNRESOLVED], -math.inf
    for b in range(len(scores)):
        if b != leader and counters[UNRESOLVED] < 0:
            bound = scores[b] - scores[leader] + width * math.sqrt(contrast_norms[b])
            if bound > largest:
                rival, largest = b, bound
    along = multiply(inverse, difference(target, leader, rival))
    # ‖y‖² under (A + x xᵀ)⁻¹ is ‖y‖² under A⁻¹ less (x·A⁻¹y)² / (1 + ‖x‖² under A⁻¹).
    best, most = 0, 0.0
    for a in range(len(arm_norms)):
        gain = dot(source[a], along) ** 2 / (1 + arm_norms[a])
        if gain > TIE * most:
            best, most = a, gain
    return best
