"""The draw of an arm: a function of the seed, the assignment's id and the weights, nothing else.

Draws are counter-based, so number i can be recomputed years later from (seed, i) alone, and does
not depend on how many assignments were asked for at a time.
"""

from __future__ import annotations

import hashlib
import secrets

import numpy as np

from bestarm.checks import whole
from bestarm.geometry import Array
from bestarm.live.store.contract import Ids, PlanRecord, Reading
from bestarm.problem import as_weights
from bestarm.records import Plan, round_robin

__all__ = ["choose", "draw", "draw_arms", "order_of", "read_seed", "uniforms"]

_BLOCK = 2**16  # counters drawn at a time: bounds the memory of a very large request


def read_seed(seed: int | None) -> int:
    """The seed, or if it is None a random one that nobody can foresee.

    A random seed is below 2^53, so that every reader of JSON keeps it exactly.
    """
    return secrets.randbits(53) if seed is None else whole(seed, "seed", least=0)


def _key(seed: int) -> int:
    # Hashed under a name of its own: a simulation seeded with the same number must not share the
    # stream, or its noise would be tied to the arms drawn.
    digest = hashlib.sha256(f"bestarm.live.draw {seed}".encode()).digest()
    return int.from_bytes(digest[:16], "little")


def uniforms(seed: int, *, start: int, count: int) -> Array:
    """Numbers `start`, `start` + 1, … of the seed's stream, uniform on [0, 1) with 53 bits.

    Number i is the first word of Philox-4×64 at counter i, keyed by a SHA-256 digest of the seed.
    """
    key = _key(seed)
    result = np.empty(count)
    for begin in range(0, count, _BLOCK):
        part = result[begin : begin + _BLOCK]
        words = np.random.Philox(key=key, counter=start + begin).random_raw(4 * len(part))
        part[:] = (words[::4] >> np.uint64(11)) * 2.0**-53
    return result


def choose(weights: Array, uniform: Array) -> Ids:
    """The arm at each quantile `uniform` in [0, 1) of the distribution `weights`."""
    cumulative = np.cumsum(weights)
    # Dividing makes the last positive arm end at exactly 1, above every quantile; "right" passes
    # over arms of no weight, even at quantile 0.
    return np.asarray(
        np.searchsorted(cumulative / cumulative[-1], uniform, side="right"), dtype=np.int64
    )


def draw(seed: int, number: int, weights: object) -> int:
    """The arm of assignment `number` under `weights`: what an audit recomputes.

    >>> [draw(0, number, [0.5, 0.0, 0.5]) for number in range(5)]
    [2, 0, 2, 0, 0]
    """
    whole(seed, "seed", least=0)
    whole(number, "number", least=0, below=2**63)
    distribution = as_weights(weights, np.size(np.asarray(weights)))
    return int(choose(distribution, uniforms(seed, start=number, count=1))[0])


def order_of(plan: Plan, *, most: int | None = None) -> Ids | None:
    """The order in which a fixed plan is pulled, as far as its first `most` pulls; None if the arms
    are drawn at random."""
    if plan.counts is None:
        return None
    return round_robin(plan.counts if most is None else np.minimum(plan.counts, most))[:most]


def draw_arms(
    books: Reading, record: PlanRecord, order: Ids | None, *, seed: int, start: int, size: int
) -> tuple[Ids, Array]:
    """The arms of `size` assignments of a phase from id `start` on, and their probabilities.

    A fixed plan is pulled in order, and then its lost assignments again, in the order of loss: the
    arrays are shorter where there are no more.

    Args:
        books: knows the losses.
        record: the plan of the phase.
        order: of a fixed plan.
        seed: of the draws.
        start: the first id.
        size: the number of assignments.
    """
    weights = record.plan.weights
    if weights is not None:
        arms = choose(weights, uniforms(seed, start=start, count=size))
        return arms, weights[arms]
    assert order is not None
    place = start - record.first
    arms = order[place : place + size]
    if len(arms) < size:
        again = max(0, place - record.plan.pulls)
        lost = books.lost_arms(record.plan.phase, again, size - len(arms))
        arms = np.concatenate([arms, lost])
    return arms.copy(), np.ones(len(arms))
