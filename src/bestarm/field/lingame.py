"""LinGame and LinGame-C: the allocation is learned in a game against the closest alternative."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from bestarm.checks import positive
from bestarm.field.kernels import compiled, dot, invert, quadratic_form, reward_at
from bestarm.field.linear_model import coordinates
from bestarm.field.linear_rule import (
    LEADER,
    PULLS,
    LinearRule,
    Model,
    Rule,
    State,
    Threshold,
    difference,
    identified,
    information,
    learn,
    multiply,
)
from bestarm.field.pull_by_pull import Rewards
from bestarm.field.thresholds import lingame_threshold
from bestarm.numerics.geometry import Array
from bestarm.problem import Problem, as_problem

# Per learner its cumulative losses and its mixability gap Δ; the sum of all weights; the pulls of
# every pair of answer and arm, for a learner over pairs.
Game = tuple[Array, Array, Array, Array]

_FIRST_GAP = 0.01  # of AdaHedge, before the first loss: as in the authors' code
_FAINT = 1e-9  # of an even allocation, added to one that may leave out a direction


class LinGame(LinearRule):
    """Learn the optimal allocation while pulling, in a game against the closest alternative.

    Every arm is pulled once. Then, in every round, a learner (AdaHedge) proposes weights of arms;
    nature answers with the parameter λ closest to the estimate under these weights, at which
    another target is best; and the learner is told for every arm the largest plausible gain
    ½ (x·(θ̂ − λ))². The arm pulled is the one whose pulls are furthest behind the sum of all
    weights. Each possible answer has a learner of its own. It stops when the statistic of the
    likelihood ratio exceeds a threshold, and the expected number of pulls is asymptotically the
    smallest possible as δ → 0.

    δ-correct for rewards x·θ + noise with σ-sub-Gaussian noise and **no** baseline, whatever is
    pulled: with `threshold="published"` if ‖θ‖ ≤ `norm`, with `"certified"` for every θ. The
    authors' figures are made with `"experiments"`, with which nothing is proven. The bound on the
    number of pulls is for a regularisation larger than their code's λ = 1, which is used here.

    Args:
        problem: the problem; targets may be others than the source arms.
        sigma: the sub-Gaussian scale of the noise it assumes.
        norm: M, the bound on ‖θ‖ in the unit in which the longest arm has norm 1.
            Only the published threshold uses it.
        threshold: `"published"` (its theorem), `"certified"` (with the actual determinant and
            without regularisation: `bounds.certified_threshold`), or `"experiments"`,
            log((1 + log t)/δ).

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.field import LinGame
        >>> LinGame(Problem([[1, 0], [0, 1], [0.8, 0.6]])).plan().counts.tolist()
        [1, 0, 0]

    Reference: Degenne, Ménard, Shang and Valko (2020).
    """

    _uses_arm_norms = True
    _pairs: ClassVar[bool] = False  # whether one learner chooses answers too

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
        source, _ = coordinates(as_problem(problem))
        super().__init__(
            problem,
            threshold,
            published=lingame_threshold(
                problem.delta, rank=source.shape[1], norm=self._norm / scale
            ),
            sigma=sigma,
            ridge=1.0,
            max_pulls=max_pulls,
        )
        learners = 1 if self._pairs else problem.targets
        actions = problem.targets * problem.arms if self._pairs else problem.arms
        self._game = (
            np.zeros((learners, actions)),
            np.full(learners, _FIRST_GAP),
            np.ones(actions),
            np.ones(actions if self._pairs else 0),
        )

    def _advance(self, rewards: Rewards, most: int) -> tuple[int, bool]:
        pulls, self._next_arm, stopped = advance(
            rewards, self._model, self._state, self._rule, self._game, self._next_arm, most
        )
        self._leader = int(self._state[8][LEADER])
        return pulls, stopped


class LinGameC(LinGame):
    """LinGame with one learner, over pairs of an answer and an arm: the convexified game.

    Nature answers for every answer; for those that are not the leader's, with the estimate
    itself. Work and memory per pull grow with targets × arms. Everything else, the options too, is
    as in `LinGame`.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.field import LinGameC
        >>> LinGameC(Problem([[1, 0], [0, 1], [0.8, 0.6]])).plan().counts.tolist()
        [1, 0, 0]

    Reference: Degenne, Ménard, Shang and Valko (2020).
    """

    _pairs = True


@compiled
def advance(
    rewards: Rewards, model: Model, state: State, rule: Rule, game: Game, arm: int, most: int
) -> tuple[int, int, bool]:
    """Make `most` pulls, or fewer if it stops: the pulls made, the next arm, whether it stopped."""
    for i in range(most):
        above = learn(model, state, arm, reward_at(rewards, i, arm))
        if above and identified(model, state, rule):
            return i + 1, arm, True
        arm = _play_pairs(model, state, game) if len(game[3]) > 0 else _play(model, state, game)
    return most, arm, False


@compiled
def _play(model: Model, state: State, game: Game) -> int:
    """One round of LinGame (Algorithm 2), with one learner per answer; gives the arm to pull."""
    losses, gaps, total, _ = game
    counts, leader = state[0], state[8][LEADER]
    weights = _hedge_weights(losses[leader], gaps[leader])
    gains = _best_response(model, state, weights, 0)
    for a in range(len(weights)):
        gains[a] = _optimistic_gain(state, a, gains[a])
    gaps[leader] += _update_losses(losses[leader], gaps[leader], weights, gains)
    best = 0
    for a in range(len(weights)):  # C-tracking
        total[a] += weights[a]
        if counts[a] - total[a] < counts[best] - total[best]:
            best = a
    return best


@compiled
def _play_pairs(model: Model, state: State, game: Game) -> int:
    """One round of LinGame-C (Algorithm 1), with one learner over pairs of answer and arm.

    The alternative to an answer that is not the leader's is the estimate itself.
    """
    losses, gaps, total, counts = game
    arms, leader = len(state[0]), state[8][LEADER]
    weights = _hedge_weights(losses[0], gaps[0])
    values = _best_response(model, state, weights, leader * arms)
    gains = np.zeros(len(weights))
    for a in range(arms):
        apart = _optimistic_gain(state, a, 0.0)
        for pair in range(a, len(weights), arms):
            gains[pair] = apart
        gains[leader * arms + a] = _optimistic_gain(state, a, values[a])
    gaps[0] += _update_losses(losses[0], gaps[0], weights, gains)
    best = 0
    for pair in range(len(weights)):  # C-tracking
        total[pair] += weights[pair]
        if counts[pair] - total[pair] < counts[best] - total[best]:
            best = pair
    counts[best] += 1
    return best % arms


@compiled
def _hedge_weights(losses: Array, gap: float) -> Array:
    """AdaHedge's weights, in proportion to exp(−η L) with η = log(actions)/Δ."""
    rate, least, total = math.log(len(losses)) / gap, math.inf, 0.0
    for k in range(len(losses)):  # NumPy's minimum takes long to compile
        least = min(least, losses[k])
    weights = np.zeros(len(losses))
    for k in range(len(losses)):
        weights[k] = math.exp(-rate * (losses[k] - least))
        total += weights[k]
    for k in range(len(losses)):
        weights[k] /= total
    return weights


@compiled
def _update_losses(losses: Array, gap: float, weights: Array, gains: Array) -> float:
    """Take the losses −gains; what Δ grows by: the expected loss less the mix loss."""
    rate, most = math.log(len(losses)) / gap, -math.inf
    for k in range(len(gains)):
        most = max(most, gains[k])
    mix, expected = 0.0, 0.0
    for k in range(len(losses)):
        losses[k] -= gains[k]
        mix += weights[k] * math.exp(rate * (gains[k] - most))
        expected += weights[k] * gains[k]
    best = most + math.log(mix) / rate if mix > 0 else most
    return float(max(0.0, best - expected))


@compiled
def _best_response(model: Model, state: State, weights: Array, start: int) -> Array:
    """x·(θ̂ − λ) of every arm x, for the alternative λ that is closest under weights from `start`.

    With V = Σ w x xᵀ and y = z_leader − z, the closest λ at which z is as good as the leader has
    θ̂ − λ = V⁻¹y (y·θ̂) / ‖y‖² and a distance of (y·θ̂)² / (2 ‖y‖²), both norms under V⁻¹.
    """
    source, target = model[:2]
    scores, leader = state[4], state[8][LEADER]
    size, arms = 0.0, len(source)
    for a in range(arms):
        size += weights[start + a]
    share = np.zeros(arms)
    for a in range(arms):
        share[a] = weights[start + a] / max(size, 1e-300) + _FAINT / arms
    inverse = np.zeros((source.shape[1], source.shape[1]))
    invert(information(source, share, 0.0), inverse)
    nearest, least, length = -1, math.inf, 1.0
    for b in range(len(scores)):
        if b != leader:
            norm = quadratic_form(inverse, difference(target, leader, b))
            lead = scores[leader] - scores[b]
            if lead * lead / norm < least:
                nearest, least, length = b, lead * lead / norm, norm
    along = multiply(inverse, difference(target, leader, nearest))
    slope = (scores[leader] - scores[nearest]) / length
    values = np.zeros(arms)
    for a in range(arms):
        values[a] = slope * dot(source[a], along)
    return values


@compiled
def _optimistic_gain(state: State, arm: int, value: float) -> float:
    """½ (|x·(θ̂ − λ)| + √(2 log t ‖x‖² under A⁻¹))², at most log t: the largest plausible gain."""
    width = math.log(state[8][PULLS])
    largest = abs(value) + math.sqrt(2 * width * state[6][arm])
    return min(0.5 * largest * largest, width)
