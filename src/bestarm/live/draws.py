"""Assignments, and the draw of an arm: a function of the seed, the id and the weights alone.

Draws are counter-based, so number i can be recomputed years later from (seed, i) alone, and does
not depend on how many assignments were asked for at a time.
"""

from __future__ import annotations

import hashlib
import secrets

import numpy as np

from bestarm.checks import whole
from bestarm.live.store.ledger import Snapshot
from bestarm.live.store.rows import Ids, PlanRecord
from bestarm.numerics.geometry import Array
from bestarm.problem import as_weights
from bestarm.records import BlockPlan, Blocks, round_robin

MOST = 10_000_000  # assignments at a time: more would keep others waiting for minutes
_IN_ORDER = 2**12  # pulls of a fixed plan whose order is made at a time, unless more are asked for
_BLOCK = 2**16  # counters drawn at a time: bounds the memory of a very large request


def read_seed(seed: int | None) -> int:
    """The seed; if it is None, a random one of 128 bits, which nobody can find by trying."""
    return secrets.randbits(128) if seed is None else whole(seed, "seed", least=0)


def seed_data(seed: int) -> int | str:
    """A seed as JSON has it: as a text where programs that read it would round the number."""
    return seed if seed < 2**53 else str(seed)


def uniforms(seed: int, *, start: int, count: int, word: int = 0) -> Array:
    """Numbers `start`, `start` + 1, … of the seed's stream, uniform on [0, 1) with 53 bits.

    Number i is a word of Philox-4×64 at counter i, keyed by a SHA-256 digest of the seed. The first
    word is for the arm or the block, the second for the order of the arms of a block.
    """
    # Hashed under a name of its own: a simulation seeded with the same number must not share the
    # stream, or its noise would be tied to the arms drawn.
    digest = hashlib.sha256(f"bestarm.live.draw {seed}".encode()).digest()
    key, result = int.from_bytes(digest[:16], "little"), np.empty(count)
    for begin in range(0, count, _BLOCK):
        part = result[begin : begin + _BLOCK]
        words = np.random.Philox(key=key, counter=start + begin).random_raw(4 * len(part))
        part[:] = (words[word::4] >> np.uint64(11)) * 2.0**-53
    return result


def choose(weights: Array, uniform: Array) -> Ids:
    """The arm at each quantile `uniform` in [0, 1) of the distribution `weights`."""
    cumulative = np.cumsum(weights)
    # Dividing makes the last positive arm end at exactly 1, above every quantile; "right" passes
    # over arms of no weight, even at quantile 0.
    arms = np.searchsorted(cumulative / cumulative[-1], uniform, side="right")
    return np.asarray(arms, dtype=np.int64)


def draw(seed: int, number: int, weights: object) -> int:
    """The arm of assignment `number` under `weights`: what an audit recomputes.

    >>> [draw(0, number, [0.5, 0.0, 0.5]) for number in range(5)]
    [2, 0, 2, 0, 0]
    """
    whole(seed, "seed", least=0)
    whole(number, "number", least=0, below=2**63)
    distribution = as_weights(weights, np.size(np.asarray(weights)))
    return int(choose(distribution, uniforms(seed, start=number, count=1))[0])


def draw_block(seed: int, number: int, blocks: object, weights: object) -> list[int]:
    """The arms of the round whose first assignment is `number`, in the order of its assignments.

    The block is drawn as an arm is. Each of its assignments has a second number, and the least of
    these gets the block's first arm, the next one the second, and so on.

    >>> [draw_block(0, number, [[0, 1], [1, 2]], [0.5, 0.5]) for number in (0, 2, 4)]
    [[2, 1], [2, 1], [1, 0]]
    """
    whole(seed, "seed", least=0)
    whole(number, "number", least=0, below=2**62)
    kinds = np.atleast_2d(np.array(blocks, dtype=np.int64))
    return list(map(int, _block_arms(kinds, as_weights(weights, len(kinds)), seed, number, 1)))


def _block_arms(blocks: Blocks, weights: Array, seed: int, start: int, rounds: int) -> Ids:
    """The arms of rounds, one after the other, from id `start` on."""
    size = blocks.shape[1]
    first = uniforms(seed, start=start, count=rounds * size)[::size]
    order = uniforms(seed, start=start, count=rounds * size, word=1).reshape(rounds, size)
    arms = np.empty((rounds, size), dtype=np.int64)
    places = np.argsort(order, axis=1, kind="stable")
    np.put_along_axis(arms, places, blocks[choose(weights, first)], axis=1)
    return arms.ravel()


def first_members(seed: int, *, start: int, rounds: int, size: int) -> Ids:
    """Which member of its block the first assignment of each round tries, from id `start` on."""
    order = uniforms(seed, start=start, count=rounds * size, word=1).reshape(rounds, size)
    return np.asarray((order[:, 1:] < order[:, :1]).sum(axis=1), dtype=np.int64)


class PlanDraws:
    """Draws the arms of one plan's assignments.

    Under a plan over blocks every round draws a block, and its arms come in random order. A fixed
    plan is pulled in order, and then its lost assignments again, in the order of loss.
    """

    def __init__(self, record: PlanRecord, seed: int) -> None:
        self.plan, self._first, self._seed = record.plan, record.first, seed
        self._chances, self._round = record.plan.probabilities, record.round
        self._order: Ids = np.empty(0, dtype=np.int64)  # of some pulls of a fixed plan …
        self._order_start = 0  # … from this one on

    def arms(self, snapshot: Snapshot, start: int, size: int) -> tuple[Ids, Array]:
        """The arms of `size` assignments from id `start` on, and their probabilities.

        The arrays are shorter where a fixed plan has no more.
        """
        plan, weights = self.plan, self.plan.weights
        if isinstance(plan, BlockPlan):
            before = (start - self._first) % plan.size  # of the same round
            rounds = -(-(before + size) // plan.size)
            drawn = plan.blocks, plan.block_weights
            arms = _block_arms(*drawn, self._seed, start - before, rounds)[before : before + size]
            return arms, self._chances[arms]
        if weights is not None:
            arms = choose(weights, uniforms(self._seed, start=start, count=size))
            return arms, weights[arms]
        place = start - self._first
        arms = self._in_order(place, size)
        if len(arms) < size:
            again = max(0, place - self.plan.pulls)
            lost = snapshot.lost_arms(self.plan.phase, again, size - len(arms))
            arms = np.concatenate([arms, lost])
        return arms.copy(), np.ones(len(arms))

    def _in_order(self, place: int, size: int) -> Ids:
        """The arms of a fixed plan's pulls from a place on: fewer where it ends.

        The order is made for a few thousand pulls at a time, as a plan may have any number.
        """
        counts, end = self.plan.counts, min(place + size, self.plan.pulls)
        assert counts is not None
        if place >= end:
            return np.empty(0, dtype=np.int64)
        if not self._order_start <= place < end <= self._order_start + len(self._order):
            self._order_start = place
            self._order = round_robin(counts, place, max(end, place + _IN_ORDER))
        return self._order[place - self._order_start :][: end - place]

    def rounds(self, ids: Ids) -> Ids:
        """The rounds of assignments."""
        return np.asarray(self._round + (ids - self._first) // self.plan.size)


class Draws:
    """The draws of an experiment under its open plan, which is read once."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._open: PlanDraws | None = None

    def of_open_plan(self, snapshot: Snapshot) -> PlanDraws:
        """The draws of the plan that is open."""
        phase = snapshot.head.phase
        if self._open is None or self._open.plan.phase != phase:
            self._open = PlanDraws(snapshot.plan(phase), self._seed)
        return self._open
