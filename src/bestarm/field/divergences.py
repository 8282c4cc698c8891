"""The divergence of Bernoulli laws, d(p, q), and what rules compute from it, compiled."""

from __future__ import annotations

import math

from bestarm.field.kernels import compiled

_STEPS = 100  # Newton's steps at most; about five are made


@compiled
def bernoulli(p: float, q: float) -> float:
    """d(p, q) = p log(p/q) + (1 − p) log((1 − p)/(1 − q)), exact also where p and q are close."""
    total = 0.0
    if p > 0:
        total += p * math.log1p((p - q) / q) if q > 0 else math.inf
    if p < 1:
        total += (1 - p) * math.log1p((q - p) / (1 - q)) if q < 1 else math.inf
    return max(total, 0.0)


@compiled
def entropy(p: float) -> float:
    """p log p + (1 − p) log(1 − p), the part of d(p, q) that does not depend on q."""
    total = p * math.log(p) if p > 0 else 0.0
    return total + (1 - p) * math.log1p(-p) if p < 1 else total


@compiled
def upper_bound(p: float, level: float) -> float:
    """The largest q with d(p, q) ≤ level.

    d is convex in q, so Newton's steps from above the root stay above it. Two such points are
    p + √(level/2), by Pinsker's inequality, and 1 − exp(−(level − entropy)/(1 − p)).
    """
    if p >= 1:
        return 1.0
    own = entropy(p)
    q = 1 - math.exp(-(level - own) / (1 - p))
    q = min(q, p + math.sqrt(level / 2))
    if q >= 1 or p <= 0:  # for p = 0 the second point is the root
        return q
    for _ in range(_STEPS):
        excess = own - p * math.log(q) - (1 - p) * math.log1p(-q) - level
        step = excess * q * (1 - q) / (q - p)
        q -= step
        if step <= 1e-14 * q or q <= p:
            break
    return max(q, p)


@compiled
def transport(p: float, q: float, n: float, m: float) -> float:
    """n d(p, c) + m d(q, c) with c = (n p + m q)/(n + m): the evidence that two means differ."""
    middle = (n * p + m * q) / (n + m)
    return n * bernoulli(p, middle) + m * bernoulli(q, middle)
