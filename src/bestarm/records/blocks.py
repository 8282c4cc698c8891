"""Rounds of several pulls: a plan over blocks of different arms, and what came of its rounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bestarm.checks import whole, whole_numbers
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array
from bestarm.problem import as_weights
from bestarm.records.single import MOST_PULLS, Counts, Plan, Summary, misfit

__all__ = ["BlockPlan", "Blocks", "Rounds", "as_blocks"]

#: One block per row: its arms in ascending order.
Blocks = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class BlockPlan(Plan):
    """What to pull next, in rounds: each round draws a block of different arms and pulls them all.

    The arms of a block share one baseline. Make one with `BlockPlan.drawn`. Whatever is said of a
    randomised plan holds of it: its `weights` are the shares of the arms among the pulls, and
    `pulls` is `rounds` times `size`. A block is drawn with `block_weights`, not by these shares.

    Attributes:
        blocks: the kinds of blocks: one per row, its arms in ascending order.
        block_weights: the probability of each kind.
    """

    blocks: Blocks = field(default_factory=lambda: np.zeros((0, 1), dtype=np.int64))
    block_weights: Array = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        arms = 0 if self.weights is None else len(self.weights)
        blocks = as_blocks(self.blocks, arms)
        if self.pulls < 1 or self.pulls % blocks.shape[1]:
            raise InvalidInputError(
                f"{self.pulls} pulls are no whole number of blocks of {blocks.shape[1]} arms.",
                field="pulls",
                value=self.pulls,
            )
        chances = as_weights(self.block_weights, len(blocks), "block_weights")
        mass = np.repeat(chances / blocks.shape[1], blocks.shape[1])
        shares = np.bincount(blocks.ravel(), weights=mass, minlength=arms)
        for name, part in (("blocks", blocks), ("block_weights", chances), ("weights", shares)):
            part.flags.writeable = False
            object.__setattr__(self, name, part)

    @classmethod
    def drawn(
        cls, blocks: object, weights: object, rounds: int, *, arms: int, phase: int, **rest: Any
    ) -> BlockPlan:
        """Draw `rounds` blocks independently, each with its probability.

        Args:
            blocks: the kinds of blocks: one per row, its arms in ascending order.
            weights: the probability of each kind.
            rounds: the number of rounds.
            arms: the number of source arms.
            phase: 1 for a policy's first plan, then 2, 3, …
            rest: further attributes of a plan.
        """
        kinds, chances = np.array(blocks), np.array(weights)
        size = kinds.shape[1] if kinds.ndim == 2 else 1
        pulls = whole(rounds, "rounds", least=1, below=MOST_PULLS // arms) * size
        shares = np.zeros(arms)
        return cls(phase, pulls, weights=shares, blocks=kinds, block_weights=chances, **rest)

    @property
    def size(self) -> int:
        """The number of arms in a block."""
        return int(self.blocks.shape[1])

    @property
    def rounds(self) -> int:
        """The number of rounds."""
        return self.pulls // self.size

    @property
    def probabilities(self) -> Array:
        """The probability of each source arm to be in a round's block."""
        mass = np.repeat(self.block_weights, self.size)
        return np.bincount(self.blocks.ravel(), mass, minlength=self.arms).astype(float)

    def check(self, summary: Summary, *, beyond: bool = False) -> None:
        """Raise unless the rounds can be the outcome of exactly this plan.

        With `beyond`, they are further rounds under an open plan, of any number; or, of a
        provisional plan, all its rounds once more.
        """
        if isinstance(summary, Summary) and not isinstance(summary, Rounds):
            raise misfit(
                f"The plan of phase {self.phase} is over blocks, and totals do not tell rounds.",
                type(summary).__name__,
                "Give the rounds: Rounds.of(plan, kinds, rewards).",
            )
        super().check(summary, beyond=beyond)
        assert isinstance(summary, Rounds)
        same = summary.blocks is self.blocks or np.array_equal(summary.blocks, self.blocks)
        if not same or np.any(self.block_weights[summary.kinds] == 0):
            raise misfit(
                f"The blocks of the rounds do not fit the plan of phase {self.phase}.",
                summary.blocks.shape,
            )


@dataclass(frozen=True, eq=False)
class Rounds(Summary):
    """The outcome of a plan over blocks: its rounds in the order of their draws.

    Make them with `Rounds.of`. The totals per arm are those of all pulls, as in any summary.

    Attributes:
        blocks: the kinds of blocks that the plan drew from.
        kinds: which of them each round drew.
        table: the rewards, one row per round in the order of its block's arms; NaN where there is
            no outcome.
        awaited: where an outcome is not known yet; elsewhere a NaN is one that will never come.
    """

    blocks: Blocks = field(default_factory=lambda: np.zeros((0, 1), dtype=np.int64))
    kinds: Counts = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    table: Array = field(default_factory=lambda: np.zeros((0, 1)))
    awaited: NDArray[np.bool_] = field(default_factory=lambda: np.zeros((0, 1), dtype=np.bool_))

    @classmethod
    def of(cls, plan: BlockPlan, kinds: object, rewards: object, awaited: object = None) -> Rounds:
        """The rounds of a plan.

        Args:
            plan: the plan.
            kinds: which of the plan's blocks each round drew.
            rewards: one row per round, in the order of its block's arms; NaN for no outcome.
            awaited: where an outcome may still come, in the shape of `rewards`; nowhere by default.
        """
        return cls.read(plan.blocks, kinds, rewards, awaited, arms=plan.arms, center=plan.center)

    @classmethod
    def read(
        cls,
        blocks: Blocks,
        kinds: object,
        table: object,
        awaited: object = None,
        *,
        arms: int,
        center: float,
    ) -> Rounds:
        """The rounds of a plan with these blocks of so many arms: see `of`, and `Rounds.data`."""
        drawn, rewards = whole_numbers(kinds), np.array(table, dtype=float, order="C")
        if drawn is None or ((drawn < 0) | (drawn >= len(blocks))).any():
            raise InvalidInputError(
                f"`kinds` must hold numbers of blocks, from 0 to {len(blocks) - 1}.",
                field="kinds",
                value=kinds,
            )
        shape = (len(drawn), blocks.shape[1])
        waits = np.zeros(shape, np.bool_) if awaited is None else np.array(awaited, np.bool_)
        told = ~np.isnan(rewards)
        if rewards.shape != shape or waits.shape != shape or np.isinf(rewards).any():
            raise InvalidInputError(
                f"`rewards` must hold {shape[1]} numbers for each of {shape[0]} rounds.",
                field="rewards",
                value=rewards.shape,
            )
        if (told & waits).any():
            raise InvalidInputError("An outcome that is told is not awaited.", field="awaited")
        members = blocks[drawn]
        totals = Summary.from_pulls(members[told], rewards[told], size=arms, center=center)
        parts = {name: getattr(totals, name) for name in _TOTALS}
        lost = ~told & ~waits
        parts["missing"] = np.bincount(members[lost], minlength=arms)
        parts["pending"] = np.bincount(members[waits], minlength=arms)
        return cls._made(blocks, center, parts | {"kinds": drawn, "table": rewards}, waits)

    @classmethod
    def complete(
        cls, plan: BlockPlan, kinds: Counts, table: Array, totals: dict[str, Any]
    ) -> Rounds:
        """Rounds that a simulation has just made, all told, with their totals; unchecked."""
        none = np.zeros(plan.arms, dtype=np.int64)
        parts = totals | {"missing": none, "pending": none}
        parts |= {"kinds": kinds, "table": table}
        return cls._made(plan.blocks, plan.center, parts, np.zeros(table.shape, np.bool_))

    @classmethod
    def _made(
        cls, blocks: Blocks, center: float, parts: dict[str, Any], awaited: NDArray[np.bool_]
    ) -> Rounds:
        made = object.__new__(cls)
        parts = parts | {"awaited": awaited}
        for array in parts.values():
            array.flags.writeable = False
        made.__dict__.update(parts, blocks=blocks, center=center, forecast_sum=0.0)
        return made

    @property
    def data(self) -> dict[str, Any]:
        """As plain data, from which `read` makes it again; None where there is no outcome."""
        table = self.table.astype(object)
        table[np.isnan(self.table)] = None
        return {
            "blocks": self.blocks.tolist(),
            "kinds": self.kinds.tolist(),
            "table": table.tolist(),
            "awaited": self.awaited.tolist(),
            "arms": len(self.counts),
            "center": self.center,
        }

    @property
    def rounds(self) -> int:
        """The number of rounds drawn."""
        return len(self.kinds)

    def within(self) -> tuple[Array, Array]:
        """L and s with Σ (x − x̄)(x − x̄)ᵀ = XᵀLX and Σ (x − x̄) r = Xᵀs, for arms in the rows of X.

        Sums are over all outcomes, each about the mean x̄ of its round: what a round shares cancels,
        and a round that lost arms is the smaller one that it became.
        """
        arms, members, told = len(self.counts), self.blocks[self.kinds], ~np.isnan(self.table)
        number = np.maximum(told.sum(axis=1, keepdims=True), 1)
        rewards = np.where(told, self.table, 0.0)
        rewards = rewards - rewards.sum(axis=1, keepdims=True) / number
        sums = np.bincount(members[told], rewards[told], minlength=arms).astype(float)
        laplacian = np.diag(self.counts.astype(float))
        for column in range(members.shape[1]):
            pairs = members[:, column, None] * arms + members
            shares = told[:, column, None] * told / number
            found = np.bincount(pairs.ravel(), shares.ravel(), minlength=arms * arms)
            laplacian -= found.reshape(arms, arms)
        return laplacian, sums

    def amended(self, later: Summary) -> Rounds:
        """The same rounds, given once more after some outcomes that were awaited are settled.

        Raises:
            ProtocolError: they are not these rounds, or more than awaited outcomes differ.
        """
        if not isinstance(later, Rounds) or not np.array_equal(later.kinds, self.kinds):
            raise misfit("The amendment is not of the same rounds.", type(later).__name__)
        fixed = ~self.awaited
        same = np.array_equal(later.table[fixed], self.table[fixed], equal_nan=True)
        if later.center != self.center or not same or (later.awaited & fixed).any():
            raise misfit(
                "The amendment changes outcomes that were settled.",
                later.counts,
                "Give all rounds of the phase once more, with the outcomes that came since.",
            )
        return later


_TOTALS = ("counts", "sums", "squares", "least", "largest", "cubes")


def as_blocks(blocks: object, arms: int) -> Blocks:
    """Validate blocks: rows of different arms in ascending order, no row twice."""
    table = np.array(blocks)
    kinds = table.ndim == 2 and table.dtype.kind in "iu" and table.size > 0
    inside = kinds and bool((table >= 0).all() and (table < arms).all())
    if not inside or (np.diff(table.astype(np.int64), axis=1) <= 0).any():
        raise InvalidInputError(
            f"`blocks` must hold rows of different arms in ascending order, from 0 to {arms - 1}.",
            field="blocks",
            value=table.tolist()[:3],
        )
    ordered = table[np.lexsort(table.T)]  # np.unique takes a hundred times as long for a few rows
    if (ordered[1:] == ordered[:-1]).all(axis=1).any():
        raise InvalidInputError("`blocks` holds a block twice.", field="blocks")
    return table.astype(np.int64)
