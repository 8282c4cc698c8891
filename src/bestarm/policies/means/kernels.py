"""Rounds of the index rules, compiled, for long simulations.

Each loop does what `update` does after every round, in the same order, on rewards that are known
ahead.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numba import uint64 as _uint64

from bestarm.compiling import compiled
from bestarm.numerics.geometry import Array
from bestarm.policies.stepwise import Indices
from bestarm.presampled import reward_at

_AHEAD = 32  # a width is used until an arm has 1/32 more pulls, …
_SAFE = 1 - 1e-9  # … and then reduced by what rounding can do
_TABULATED = 2**16  # pulls of an arm up to which radii are kept: half a megabyte

Parts = tuple[
    Any, ...
]  # of `PresampledRewards`, as `radius` is of a `Radius`: plain, see `compiling`
uint64: Any = _uint64  # indices of arms: no test for negative ones in the inner loops


@compiled
def _radius(n: int, radius: tuple[float, ...]) -> float:
    """The radius of one arm after n pulls: `bounds.lil_radius` or `bounds.mixture_radius`."""
    scale, level, turn = radius
    if turn == 0:  # 2σ(1 + √ε) √((1 + ε) log(log((1 + ε)n + 2) / (δ/K)) / (2n)), ε = 0.01
        return scale * math.sqrt(1.01 * math.log(math.log(1.01 * n + 2) / level) / (2 * n))
    # σ √((1 + ρ/n) (2 log(1/(2δ′c)) + log(1 + n/ρ)) / n)
    return scale * math.sqrt((1 + turn / n) * (level + math.log1p(n / turn)) / n)


@compiled
def _tabulate(radius: tuple[float, ...], radii: Array) -> None:
    for n in range(1, len(radii)):
        radii[n] = _radius(n, radius)


@lru_cache(maxsize=32)
def first_radii(radius: tuple[float, ...]) -> Array:
    """The radii after 1, 2, … pulls, which are the same in all runs; the first is of none."""
    radii = np.full(_TABULATED, np.inf)
    _tabulate(radius, radii)
    return radii


@compiled
def separate(
    presampled: Parts,
    due: Indices,
    counts: Indices,
    sums: Array,
    radius: tuple[float, ...],
    first: Array,
    most: int,
) -> tuple[int, int, bool]:
    """LUCB until the rewards run out, `most` pulls are made, or two bounds separate.

    `first` is from `first_radii`. Returns the pulls used, the number of whole rounds made, and
    whether the bounds separate; `due`, `counts` and `sums` are updated in place.
    """
    rows = presampled[1]
    arms = uint64(len(counts))
    means, radii = np.empty(arms), np.empty(arms)
    for a in range(arms):
        means[a] = sums[a] / counts[a]
        radii[a] = _radius(counts[a], radius)
    end = min(len(rows), most)
    used = rounds = 0
    while used + 2 <= end:
        for place in range(2):  # in index order, as a fixed plan is pulled
            arm = uint64(min(due[0], due[1]) if place == 0 else max(due[0], due[1]))
            sums[arm] += reward_at(presampled, used, arm)
            counts[arm] += 1
            n = counts[arm]
            means[arm] = sums[arm] / n
            radii[arm] = first[uint64(n)] if n < len(first) else _radius(n, radius)
            used += 1
        rounds += 1
        leader = uint64(0)
        for a in range(arms):
            if means[a] > means[leader]:
                leader = a
        challenger, highest = leader, -np.inf
        for a in range(arms):
            upper = means[a] + radii[a]
            if a != leader and (challenger == leader or upper > highest):
                challenger, highest = a, upper
        due[0], due[1] = leader, challenger
        # Stop once the lower bound of the leader exceeds the upper bound of the challenger.
        if means[leader] - radii[leader] > highest:
            return used, rounds, True
    return used, rounds, False


@compiled
def eliminate(
    presampled: Parts,
    active: Indices,
    counts: Indices,
    sums: Array,
    radius: tuple[float, ...],
    caution: float,
    most: int,
) -> tuple[int, int, int]:
    """Action elimination until the rewards run out, `most` pulls are made, or one arm is left.

    All active arms must have been pulled equally often. Returns the pulls used, the number of whole
    rounds made, and the number of arms left, which are at the front of `active`.
    """
    end = min(len(presampled[1]), most)
    left, used, rounds = len(active), 0, 0
    pulls = counts[active[0]]
    until, close = 0, 0.0
    while left > 1 and used + left <= end:
        most_paid, least_paid = -np.inf, np.inf
        for j in range(left):
            arm = uint64(active[j])
            total = sums[arm] + reward_at(presampled, used + j, arm)
            sums[arm] = total
            most_paid = total if total > most_paid else most_paid
            least_paid = total if total < least_paid else least_paid
        used += left
        rounds += 1
        pulls += 1
        # The extreme means, to the last bit: rounding keeps the order of quotients.
        high, low = most_paid / pulls, least_paid / pulls
        if pulls <= until and high - low < close:
            continue  # nobody is so far behind: the width need not be known
        width = caution * _radius(pulls, radius)
        if pulls > until:  # radii fall from each number of pulls to the next, for δ ≤ ½
            until = pulls + pulls // _AHEAD
            close = _SAFE * 2 * caution * _radius(until, radius)
        bar = high - width
        kept = 0
        for j in range(left):
            arm = uint64(active[j])
            counts[arm] = pulls
            if bar < sums[arm] / pulls + width:
                active[kept] = arm
                kept += 1
        left = kept
    for j in range(left):
        counts[active[j]] = pulls
    return used, rounds, left
