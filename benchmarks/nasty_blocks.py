"""Rounds that are built to mislead: noise, baselines, losses and delays for `benchmarks.blocks`.

The first arm is the best by a hair, and nothing else tells arms apart, so that a rule that errs as
often as it may errs here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bestarm import AnytimeBAI, Problem
from bestarm.numerics.geometry import Array
from bestarm.records import BlockPlan, Rounds

HAIR = 1e-4  # by which the best is better, or by more than a tolerance
ROUNDS = 150  # a run ends undecided after so many
LEVEL = 1e6  # of baselines
_LATE = 2  # plans until outcomes come that are late
NOISE = 0.5  # the scale of the noise

Arms = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Draw(NamedTuple):
    """The rounds of a plan, before their rewards are made.

    Attributes:
        arms: of each round.
        ahead: by how much each arm was better than its blocks on average so far.
        rng: what rewards are drawn with.
    """

    arms: Arms
    ahead: Array
    rng: np.random.Generator

    def signs(self, columns: int | None = None) -> Array:
        """Fair signs: for every arm of every round, or for so many columns."""
        shape = len(self.arms), columns or self.arms.shape[1]
        return np.asarray(2.0 * self.rng.integers(2, size=shape) - 1.0)


Noise = Callable[[Draw], Array]  # η of every reward, together with the baseline of its round
Lack = Callable[[Draw, Array], Flags]  # which outcomes lack


def alike(draw: Draw) -> Array:
    """Noise that nine of ten arms of a round share."""
    shared = draw.rng.random(draw.arms.shape) < 0.9
    return NOISE * np.where(shared, draw.signs(1), draw.signs())


def opposite(draw: Draw) -> Array:
    """Noise of opposite signs."""
    ranks = draw.rng.permuted(np.argsort(draw.arms, axis=1), axis=1)
    return np.asarray(0.499 * draw.signs(1) * (1 - 2 * (ranks % 2)))


def coins(draw: Draw) -> Array:
    """Independent noise, as large as it can be."""
    return 0.499 * draw.signs()


def rare(draw: Draw) -> Array:
    """The first arm pays all that it pays rarely; the third too, and others always the same."""
    paid = np.where(draw.rng.random(draw.arms.shape) < 0.03, 0.95, -0.95 * 3 / 97)
    return np.where(draw.arms % 2 == 0, paid, 0.0) - 0.46


def unequal(draw: Draw) -> Array:
    """Noise that falls off from arm to arm: that of the best is the largest."""
    return NOISE * 0.2**draw.arms * draw.signs()


def by_block(draw: Draw) -> Array:
    """Noise that is large in blocks with the first arm alone."""
    return np.where((draw.arms == 0).any(axis=1, keepdims=True), NOISE, 0.02) * draw.signs()


def reacting(draw: Draw) -> Array:
    """A baseline of ±10⁶ and more, by the arms of the block: low for those with the first."""
    level = np.where(draw.arms[:, :1] == 0, -LEVEL, LEVEL)
    return np.asarray(coins(draw) + level * (1 + draw.arms.sum(axis=1, keepdims=True)))


def spiteful(draw: Draw) -> Array:
    """A baseline of 10⁶ against whichever arm leads so far, from round to round."""
    led = (draw.arms == np.argmax(draw.ahead)).any(axis=1, keepdims=True)
    return coins(draw) + np.where(led, -LEVEL, LEVEL)


def seeing(draw: Draw) -> Array:
    """A baseline of 10⁶ that sees the noise of the round, and is against its largest."""
    noise = coins(draw)
    return np.asarray(noise - LEVEL * np.sign(noise[:, :1]) - 1000 * noise.max(axis=1)[:, None])


def of_the_first(draw: Draw, table: Array) -> Flags:
    """High rewards of the first arm, and low ones of others, lack in three of ten rounds."""
    high = np.where(draw.arms == 0, table > 0.5, table < 0.5)
    return np.asarray(high & (draw.rng.random(table.shape) < 0.3))


def at_random(draw: Draw, table: Array) -> Flags:
    """Outcomes lack whatever they are; in some rounds often, in others never."""
    often = 0.6 * draw.rng.integers(2, size=(len(table), 1))
    return np.asarray(draw.rng.random(table.shape) < often)


class Kind(NamedTuple):
    """A kind of nasty rounds.

    Attributes:
        noise: η + ν of every reward.
        bounded: whether the rule is told that rewards lie in [0, 1], or the scale of their noise.
        lack: which outcomes lack, if any do.
        late: whether those that lack come later, but for one in ten.
        options: of the rule.
        peeks: whether of two blocks the one is kept in which the first arm does worse: broken.
    """

    noise: Noise
    bounded: bool = False
    lack: Lack | None = None
    late: bool = False
    options: Mapping[str, Any] = {}
    peeks: bool = False

    @property
    def lead(self) -> float:
        """By how much the best are better than the others."""
        return HAIR + float(self.options.get("tolerance", 0.0))

    def means(self, features: Array) -> Array:
        """The means of arms: linear in their features, the first of them the best."""
        top = self.options.get("top", 1)
        values = features @ features[:top].sum(axis=0)
        order = np.sort(values)[::-1]
        return np.asarray(values * self.lead / (order[top - 1] - order[top]))


class Game:
    """One run of the rule on nasty rounds.

    Args:
        kind: the kind of rounds.
        problem: the problem; its noise is 0.5.
        block: how many of the arms a round has.
        rng: what all is drawn with.
    """

    def __init__(self, kind: Kind, problem: Problem, block: int, rng: np.random.Generator) -> None:
        self.kind, self.rng, self.means = kind, rng, kind.means(problem.source)
        limits: dict[str, Any] = {"mean_bound": float(np.abs(self.means).max())}
        if kind.bounded:
            limits = {"bounds": (0.0, 1.0)}
        self.policy = AnytimeBAI(
            problem,
            **(limits | dict(kind.options)),
            block=block,
            max_pulls=ROUNDS * block,
        )
        self._sums, self._counts = np.zeros(problem.arms), np.ones(problem.arms)
        self._open: dict[int, tuple[BlockPlan, Arms, Array, Flags]] = {}

    def play(self) -> tuple[bool, bool]:
        """Whether the rule ended with an answer, and whether it dropped one of the best.

        An answer is wrong only if it did; a run that ends undecided may have done so too.
        """
        while (plan := self.policy.plan()) is not None:
            assert isinstance(plan, BlockPlan)
            if plan.most is not None and plan.most < plan.pulls:  # it waits for what is late
                self._settle(plan.phase)
                continue
            self._pull(plan)
            self._settle(plan.phase - _LATE)
        recommendation = self.policy.recommend()
        least = np.sort(self.means)[-len(recommendation.chosen)] - HAIR / 2
        return recommendation.final, not set(np.flatnonzero(self.means > least)) <= set(
            recommendation.active
        )

    def _draw(self, plan: BlockPlan) -> tuple[Arms, Draw, Array]:
        """Which block each round has, and its rewards."""
        ends = np.cumsum(plan.block_weights)[:-1]
        kinds = np.searchsorted(ends, self.rng.random(plan.rounds), side="right")
        draw = Draw(plan.blocks[kinds], self._sums / self._counts, self.rng)
        middle = 0.5 if self.kind.bounded else 0.0
        return kinds, draw, middle + self.means[draw.arms] + self.kind.noise(draw)

    def _pull(self, plan: BlockPlan) -> None:
        kinds, draw, table = self._draw(plan)
        if self.kind.peeks:
            others, other, rivals = self._draw(plan)
            worse = _first(other.arms, rivals) < _first(draw.arms, table)
            kinds = np.where(worse, others, kinds)
            table = np.where(worse[:, None], rivals, table)
            draw = draw._replace(arms=plan.blocks[kinds])
        np.add.at(self._sums, draw.arms, table - table.mean(axis=1, keepdims=True))
        np.add.at(self._counts, draw.arms, 1.0)
        if self.kind.lack is None:
            self.policy.update(Rounds.of(plan, kinds, table))
            return
        lacking = self.kind.lack(draw, table)
        waits = lacking if self.kind.late else np.zeros_like(lacking)
        self.policy.update(Rounds.of(plan, kinds, np.where(lacking, np.nan, table), waits))
        if waits.any():
            lost = waits & (draw.arms == 0) & (self.rng.random(waits.shape) < 0.1)
            self._open[plan.phase] = plan, kinds, np.where(lost, np.nan, table), waits

    def _settle(self, phase: int) -> None:
        """Tell what was late, of plans up to a phase."""
        for late in [number for number in self._open if number <= phase]:
            plan, kinds, table, _ = self._open.pop(late)
            if self.policy.plan() is not None:
                self.policy.amend(Rounds.of(plan, kinds, table), phase=late)


def _first(arms: Arms, table: Array) -> Array:
    """The rewards of the first arm less the mean of its block; 0 in blocks without it."""
    ahead = table - table.mean(axis=1, keepdims=True)
    return np.asarray(np.where(arms == 0, ahead, 0.0).sum(axis=1))


def judge(table: Array, problem: Problem, rng: np.random.Generator) -> tuple[bool, bool]:
    """Judge the items of a table in random order; as `Game.play`."""
    items, arms = table.shape
    policy = AnytimeBAI(problem, bounds=(0, 1), block=arms, items=items)
    rows, done = table[rng.permutation(items)], 0
    while (plan := policy.plan()) is not None:
        assert isinstance(plan, BlockPlan)
        told = rows[done : done + plan.rounds][:, plan.blocks[0]]
        policy.update(Rounds.of(plan, [0] * plan.rounds, told))
        done += plan.rounds
    recommendation, means = policy.recommend(), table.mean(axis=0)
    return recommendation.final, recommendation.final and bool(
        means[recommendation.target] < means.max() - 1e-9
    )


KINDS: dict[str, Kind] = {
    "noise that is nearly the same for all": Kind(alike),
    "noise of opposite signs": Kind(opposite, bounded=True),
    "rewards that are rare and large": Kind(rare, bounded=True),
    "unequal variances, the best the noisiest": Kind(unequal),
    "noise that depends on the block": Kind(by_block),
    "a baseline of 10⁶ by the arms of the block": Kind(reacting),
    "a baseline of 10⁶ against the leader": Kind(spiteful),
    "a baseline of 10⁶ that sees the noise": Kind(seeing),
    "a lead just above the tolerance": Kind(coins, options={"tolerance": 0.1}),
    "the two best, by a hair": Kind(opposite, bounded=True, options={"top": 2}),
    "losses by arm and reward, at their worst": Kind(
        coins, bounded=True, lack=of_the_first, options={"missing": "worst-case"}
    ),
    "losses at random": Kind(opposite, bounded=True, lack=at_random),
    "outcomes late or lost by arm and reward": Kind(
        coins, bounded=True, lack=of_the_first, late=True
    ),
}

#: Few items that decide, ties but for one item, and rewards that are rare.
ITEMS: dict[str, Array] = {
    "one item says it all": np.array([[1.0, 0.0], *[[0.4, 0.42]] * 45]),
    "ties but for one item": np.array([*[[1.0, 0.0], [0.0, 1.0]] * 30, [0.51, 0.5]]),
    "rare": np.array([*[[0.0, 0.0]] * 90, *[[1.0, 0.0], [0.0, 1.0]] * 4, [0.2, 0.0]]),
    "four alike": np.vstack([*[np.eye(4)] * 15, 0.1 * np.eye(4)[:1]]),
    "three items against all others": np.array([*[[1.0, 0.0, 0.0]] * 3, *[[0.4, 0.45, 0.45]] * 57]),
}
