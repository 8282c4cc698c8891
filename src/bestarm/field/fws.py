"""Frank–Wolfe sampling: one step towards the optimal allocation per pull."""

from __future__ import annotations

import math

import numpy as np

from bestarm.field.kernels import compiled, dot, invert, quadratic_form, reward_at, sherman_morrison
from bestarm.field.linear_rule import (
    LEADER,
    PULLS,
    REFRESH,
    TIE,
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
from bestarm.field.thresholds import counts_threshold
from bestarm.numerics.geometry import Array, Indices
from bestarm.problem import Problem, as_problem

# t·x(t), the sum of the steps so far; the inverse of its information; the pulls at which it was
# last computed from the sum.
Allocation = tuple[Array, Array, Array]

_ZERO = 1e-12  # relative to the largest payoff of a matrix game
_MOST_PIVOTS = 10_000  # Bland's rule never cycles on paper


class FrankWolfeSampling(LinearRule):
    """Make one step of Frank–Wolfe towards the optimal allocation per pull, and track it.

    Every arm is pulled once. Then the allocation x moves towards the arm that helps most against
    the closest alternative to the estimate; if several alternatives are nearly as close (within
    r = t^(−9/10)/K), towards the mixture of arms that helps most against all of them, the solution
    of a small matrix game. When ⌊t/K⌋ is a square, the step goes to all arms evenly. The arm
    pulled is the one with the largest ratio of its share in x to its share of the pulls. It stops
    when the statistic of the likelihood ratio exceeds a threshold, and the expected number of
    pulls is asymptotically the smallest possible as δ → 0.

    δ-correct for rewards x·θ + noise with σ-sub-Gaussian noise and **no** baseline, with the
    thresholds `"published"` and `"certified"`. The published one bounds the means of all K arms at
    once, features or not, so it grows with K. The authors' figures are made with `"experiments"`,
    with which nothing is proven.

    Args:
        problem: the problem; targets may be others than the source arms.
        sigma: the sub-Gaussian scale of the noise it assumes.
        threshold: `"published"` (of Kaufmann and Koolen, in its form for Gaussian arms:
            `bounds.counts_threshold`), `"certified"` (from the dimension instead of K:
            `bounds.certified_threshold`), or `"experiments"`, log((1 + log t)/δ).

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.field import FrankWolfeSampling
        >>> FrankWolfeSampling(Problem([[1, 0], [0, 1], [0.8, 0.6]])).plan().counts.tolist()
        [1, 0, 0]

    Reference: Wang, Tzeng and Proutière (2021).
    """

    def __init__(
        self,
        problem: Problem,
        *,
        sigma: float = 1.0,
        threshold: Threshold = "published",
        max_pulls: int | None = None,
    ) -> None:
        super().__init__(
            problem,
            threshold,
            published=counts_threshold(as_problem(problem).delta, arms=problem.arms),
            sigma=sigma,
            max_pulls=max_pulls,
        )
        rank = self._model[0].shape[1]
        self._allocation = (np.ones(problem.arms), np.zeros((rank, rank)), np.array([-np.inf]))

    def _advance(self, rewards: Rewards, most: int) -> tuple[int, bool]:
        pulls, self._next_arm, stopped = advance(
            rewards,
            self._model,
            self._state,
            self._rule,
            self._allocation,
            self._next_arm,
            most,
        )
        self._leader = int(self._state[8][LEADER])
        return pulls, stopped


@compiled
def advance(
    rewards: Rewards,
    model: Model,
    state: State,
    rule: Rule,
    allocation: Allocation,
    arm: int,
    most: int,
) -> tuple[int, int, bool]:
    """Make `most` pulls, or fewer if it stops: the pulls made, the next arm, whether it stopped."""
    for i in range(most):
        above = learn(model, state, arm, reward_at(rewards, i, arm))
        if above and identified(model, state, rule):
            return i + 1, arm, True
        arm = _next_arm(model, state, allocation)
    return most, arm, False


@compiled
def _next_arm(model: Model, state: State, allocation: Allocation) -> int:
    """One step of Frank–Wolfe; the next arm has the largest x_a(t) / ω_a (Algorithm 1)."""
    counts, pulls = state[0], state[8][PULLS]
    total, inverse, exact = allocation
    arms = len(counts)
    block = pulls // arms
    if round(math.sqrt(block)) ** 2 == block or _tied(state):
        for a in range(arms):  # forced exploration: an even step
            total[a] += 1 / arms
        exact[0] = -math.inf
    else:
        if pulls - exact[0] >= REFRESH:
            invert(information(model[0], total, 0.0), inverse)
            exact[0] = pulls
        _frank_wolfe_step(model, state, allocation)
    best = 0
    for a in range(arms):
        if total[a] * counts[best] > TIE * total[best] * counts[a]:
            best = a
    return best


@compiled
def _tied(state: State) -> bool:
    scores, leader = state[4], state[8][LEADER]
    alike = 0
    for b in range(len(scores)):
        alike += scores[b] == scores[leader]
    return alike > 1


@compiled
def _alternatives(
    target: Array, state: State, inverse: Array, radius: float
) -> tuple[Array, Indices, int]:
    """f of every target, those within a radius of the least, and their number."""
    scores, leader, pulls = state[4], state[8][LEADER], state[8][PULLS]
    values, least = np.zeros(len(scores)), math.inf
    for b in range(len(scores)):
        if b != leader:
            lead = scores[leader] - scores[b]
            norm = quadratic_form(inverse, difference(target, leader, b))
            values[b] = lead * lead / (2 * norm * pulls)
            least = min(least, values[b])
    near, close = np.zeros(len(scores), dtype=np.int64), 0
    for b in range(len(scores)):
        if b != leader and values[b] < least + radius:
            near[close] = b
            close += 1
    return values, near, close


@compiled
def _frank_wolfe_step(model: Model, state: State, allocation: Allocation) -> None:
    """Move towards the arms that help most against all alternatives within r of the closest.

    With y = z_leader − z, f_z(x) = (y·θ̂)² / (2 ‖y‖² under V(x)⁻¹) and, by Proposition 1, its
    gradient is ½ (a·V(x)⁻¹y · y·θ̂ / ‖y‖²)² in arm a. The step z maximises the least
    ⟨z − x, ∇f⟩ over the alternatives with f < F + r, where r = t^(−9/10)/K: a matrix game.
    """
    source, target = model[:2]
    scores, leader, pulls = state[4], state[8][LEADER], state[8][PULLS]
    total, inverse, exact = allocation
    arms = len(total)
    values, near, close = _alternatives(target, state, inverse, pulls**-0.9 / arms)
    gradients = np.zeros((arms, close))
    for j in range(close):
        contrast = difference(target, leader, near[j])
        along = multiply(inverse, contrast)
        slope = (scores[leader] - scores[near[j]]) / quadratic_form(inverse, contrast)
        for a in range(arms):
            gradients[a, j] = 0.5 * (dot(source[a], along) * slope) ** 2
    if close == 1:
        best = 0
        for a in range(arms):
            if gradients[a, 0] > TIE * gradients[best, 0]:
                best = a
        total[best] += 1
        sherman_morrison(inverse, source[best], np.empty(len(inverse)))
        return
    for j in range(close):  # ⟨x, ∇f⟩ = f
        for a in range(arms):
            gradients[a, j] -= values[near[j]]
    step = solve_game(gradients)
    for a in range(arms):
        total[a] += step[a]
    exact[0] = -math.inf


@compiled
def solve_game(payoffs: Array) -> Array:
    """The weights of rows that make the least expected payoff over columns as large as possible.

    Payoffs shifted to lie between 1 and 2 have a positive value v. The column player's programme,
    max Σ q subject to M q ≤ 1 and q ≥ 0, starts from q = 0; at the optimum Σ q = 1/v, and the
    prices of its rows are the row player's weights, divided by v. Rows enter by the rule of Bland.
    """
    rows, columns = payoffs.shape
    low, high = math.inf, -math.inf
    for i in range(rows):  # NumPy's extremes take long to compile
        for j in range(columns):
            low, high = min(low, payoffs[i, j]), max(high, payoffs[i, j])
    table = np.zeros((rows + 1, columns + 1))
    inside = np.zeros(rows, dtype=np.int64)  # what each row holds: columns first, then slacks
    outside = np.zeros(columns, dtype=np.int64)
    for j in range(columns):
        table[rows, j] = -1
        outside[j] = j
        for i in range(rows):
            table[i, j] = (payoffs[i, j] - low) / max(high - low, 1e-300) + 1
    for i in range(rows):
        table[i, columns] = 1
        inside[i] = columns + i
    for _ in range(_MOST_PIVOTS):
        enter = -1
        for j in range(columns):
            if table[rows, j] < -_ZERO and (enter < 0 or outside[j] < outside[enter]):
                enter = j
        if enter < 0:
            break
        leave = _leaving_row(table, inside, enter)
        _pivot(table, leave, enter)
        inside[leave], outside[enter] = outside[enter], inside[leave]
    weights, total = np.zeros(rows), 0.0
    for j in range(columns):
        if outside[j] >= columns:
            weights[outside[j] - columns] = max(table[rows, j], 0.0)
            total += weights[outside[j] - columns]
    for i in range(rows):
        weights[i] /= total
    return weights


@compiled
def _leaving_row(table: Array, inside: Indices, enter: int) -> int:
    """The row that limits the entering column first; of equals, the one that holds the first."""
    rows, columns = table.shape[0] - 1, table.shape[1] - 1
    leave = -1
    for i in range(rows):
        if table[i, enter] <= _ZERO:
            continue
        if leave < 0:
            leave = i
            continue
        here = table[i, columns] * table[leave, enter]
        best = table[leave, columns] * table[i, enter]
        if here < best or (here == best and inside[i] < inside[leave]):
            leave = i
    return leave


@compiled
def _pivot(table: Array, row: int, column: int) -> None:
    """Exchange a variable inside with one outside, in the condensed table."""
    pivot = table[row, column]
    for i in range(table.shape[0]):
        if i != row:
            factor = table[i, column] / pivot
            for j in range(table.shape[1]):
                if j != column:
                    table[i, j] -= factor * table[row, j]
            table[i, column] = -factor
    for j in range(table.shape[1]):
        if j != column:
            table[row, j] /= pivot
    table[row, column] = 1 / pivot
