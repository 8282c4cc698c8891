"""Upper bounds of Bernoulli means, compiled: kept as lines, and solved for where lines do not tell.

The upper bound u of an arm with N pulls solves N d(mean, u) = β. As d is convex in u, u is concave
in β, and its tangent at any q in (mean, 1), where β₀ = N d(mean, q), is above it:

    u(β) ≤ q + slope (β − β₀),  slope = q (1 − q)/(N w),  w = q − mean.

It is not far above. With ℓ = β/N, (u − mean)² has the derivative 2u (1 − u) in ℓ, which changes by
at most 2|u − q| from q to u. So along a step T = slope (β − β₀) with |T| c ≤ 1/4, where
c = 2/w + 4/(q (1 − q)), the line is above u by at most c T².
"""

from __future__ import annotations

import math

from bestarm.compiling import compiled, inlined
from bestarm.numerics.geometry import Array
from bestarm.policies.means.divergences import upper_bound
from bestarm.policies.stepwise import Indices

# Rows of `lines`, one column per arm: the line at β = 0, its slope, β₀, c, and what rounding can
# do to a line or to a solution.
HEIGHT, SLOPE, START, CURVE, ROUNDING = range(5)

_ROUNDING = 2e-14  # in units of 1 + q (1 − q)/w, and more than was ever found
_QUARTER = 0.25


@compiled
def forget(lines: Array, arm: int) -> None:
    """The arm's line is at infinity: its bound must be solved for."""
    lines[HEIGHT, arm], lines[SLOPE, arm], lines[CURVE, arm] = math.inf, 0.0, math.inf


@compiled
def draw(lines: Array, arm: int, mean: float, n: int, q: float) -> None:
    """The arm's line is the tangent at q. It must be forgotten where q is not in (mean, 1)."""
    w = q - mean
    if not (w > 0 and q < 1):
        forget(lines, arm)
        return
    divergence = (1 - mean) * math.log((1 - mean) / (1 - q))
    if mean > 0:
        divergence += mean * math.log(mean / q)
    spread = q * (1 - q)
    lines[SLOPE, arm] = spread / (n * w)
    lines[START, arm] = n * divergence
    lines[CURVE, arm] = 2 / w + 4 / spread
    lines[ROUNDING, arm] = _ROUNDING * (1 + spread / w)
    lines[HEIGHT, arm] = q - lines[SLOPE, arm] * lines[START, arm] + lines[ROUNDING, arm]


@compiled
def lowest(lines: Array, arm: int, level: float) -> float:
    """What the arm's bound at β is at least, by its line; −∞ where the line does not tell."""
    step = lines[SLOPE, arm] * (level - lines[START, arm])
    if not abs(step) * lines[CURVE, arm] <= _QUARTER:
        return -math.inf
    height = lines[HEIGHT, arm] + lines[SLOPE, arm] * level
    return float(height - 2 * lines[ROUNDING, arm] - lines[CURVE, arm] * step * step)


@inlined
def solve_highest(
    lines: Array, upper: Array, means: Array, counts: Indices, level: float
) -> tuple[int, float]:
    """The first arm with the highest bound at β, and that bound.

    `upper` has what bounds are at most, −∞ for an arm that does not count. Where that is as high as
    the highest bound so far, the equation is solved, and the arm's line is drawn there.
    """
    best, highest = -1, -math.inf
    while True:
        arm = 0
        for a in range(1, len(upper)):
            if upper[a] > upper[arm]:
                arm = a
        if upper[arm] < highest or upper[arm] == -math.inf:
            return best, highest
        upper[arm] = -math.inf
        q = upper_bound(means[arm], level / counts[arm])
        draw(lines, arm, means[arm], counts[arm], q)
        if q > highest or (q == highest and arm < best):
            best, highest = arm, q
