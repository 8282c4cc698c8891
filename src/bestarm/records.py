"""Plans and summaries: what a policy says to pull, and what came of it.

A round has one baseline. A `Plan` has rounds of one pull, and a `Summary` its totals per arm. A
`BlockPlan` has rounds of several pulls, and `Rounds` tell what came of each.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bestarm.checks import vector, whole, whole_numbers
from bestarm.errors import InvalidInputError, ProtocolError
from bestarm.numerics.geometry import Array
from bestarm.problem import as_weights

__all__ = [
    "BlockPlan",
    "Blocks",
    "Counts",
    "Plan",
    "Rounds",
    "Summary",
    "as_blocks",
    "round_robin",
]

#: An array of whole numbers.
Counts = NDArray[np.int64]
#: One block per row: its arms in ascending order.
Blocks = NDArray[np.int64]

MOST_PULLS = 2**53  # beyond this a count is no longer exact in floating point
_ROUNDING = 1e-9  # of a mean of forecasts, relative


@dataclass(frozen=True, eq=False)
class Plan:
    """What to pull next: `pulls` pulls, either drawn at random or fixed in number.

    Make one with `Plan.randomised` (each pull is drawn independently with probabilities
    `weights`) or `Plan.fixed` (arm i is pulled `counts[i]` times, in `round_robin` order). A closed
    plan has exactly these pulls. Under an open plan more may be drawn with the same probabilities
    while its last outcomes are awaited, and outcomes may be missing. An open plan that is
    provisional may also close while outcomes are outstanding; they follow as amendments.

    Attributes:
        phase: 1 for a policy's first plan, then 2, 3, …
        pulls: the number of pulls.
        weights: probabilities over source arms, or None for a fixed plan.
        counts: pulls per arm, or None for a randomised plan.
        open: whether it may be extended.
        most: the number of pulls up to which it may be extended, or None for any number.
        provisional: whether it may close while outcomes are outstanding.
        center: a number to subtract from every reward first, so that sums keep their digits.
        extremes: whether the policy has a use for each arm's least and largest reward, and for the
            sum of its cubes.
        forecasts: the interval that forecasts are clipped to, if they are subtracted from rewards;
            None if the policy leaves them to whoever draws.
    """

    phase: int
    pulls: int
    weights: Array | None = None
    counts: Counts | None = None
    open: bool = False
    most: int | None = None
    provisional: bool = False
    center: float = 0.0
    extremes: bool = False
    forecasts: tuple[float, float] | None = None

    @classmethod
    def randomised(
        cls,
        weights: object,
        pulls: int,
        *,
        phase: int,
        open: bool = False,  # noqa: A002 - the field's name
        most: int | None = None,
        provisional: bool = False,
        center: float = 0.0,
        extremes: bool = False,
        forecasts: tuple[float, float] | None = None,
    ) -> Plan:
        """Draw `pulls` arms independently with probabilities `weights`."""
        array = as_weights(weights, np.size(np.asarray(weights)))
        if not isinstance(pulls, (int, np.integer)) or not 1 <= pulls < MOST_PULLS:
            raise InvalidInputError(
                f"A plan of {pulls} pulls cannot be carried out.",
                field="pulls",
                value=pulls,
                remedy="Gaps this small need a cap: see `max_pulls` and `max_phases`.",
            )
        return cls(
            phase,
            int(pulls),
            weights=array,
            open=open,
            most=most,
            provisional=provisional,
            center=float(center),
            extremes=extremes,
            forecasts=None if forecasts is None else (float(forecasts[0]), float(forecasts[1])),
        )

    @classmethod
    def fixed(cls, counts: object, *, phase: int, center: float = 0.0) -> Plan:
        """Pull arm i exactly `counts[i]` times."""
        array = whole_numbers(counts)
        if array is None or (array < 0).any() or not 1 <= array.sum() < MOST_PULLS:
            raise InvalidInputError(
                "`counts` must be non-negative whole numbers that sum to at least 1, and to less "
                "than 2⁵³.",
                field="counts",
                value=counts,
            )
        array.flags.writeable = False
        return cls(phase, int(array.sum()), counts=array, center=float(center))

    @property
    def arms(self) -> int:
        """The number of source arms the plan is over."""
        part = self.counts if self.weights is None else self.weights
        return 0 if part is None else len(part)

    @property
    def size(self) -> int:
        """The number of pulls in a round: 1, unless it is a plan over blocks."""
        return 1

    @property
    def rounds(self) -> int:
        """The number of rounds."""
        return self.pulls

    @property
    def probabilities(self) -> Array:
        """The probability of each source arm to be pulled in a round; 1 under a fixed plan."""
        return np.ones(self.arms) if self.weights is None else self.weights

    @property
    def shares(self) -> Array:
        """The share of each source arm among the pulls."""
        return np.asarray(self.weights if self.counts is None else self.counts / self.pulls)

    def widened(self, arms: int) -> Plan:
        """The same plan over more arms: it pulls none of those that were added since."""
        if arms == self.arms:
            return self
        parts = {name: getattr(self, name) for name in ("weights", "counts")}
        return replace(self, **{name: _padded(part, arms) for name, part in parts.items()})

    def check(self, summary: Summary, *, beyond: bool = False) -> None:
        """Raise unless the summary can be the outcome of exactly this plan.

        With `beyond`, it is of further pulls under an open plan, or of one that was closed early:
        of any number.
        """
        if not isinstance(summary, Summary):
            raise InvalidInputError(
                f"`summary` must be a Summary; got {type(summary).__name__}.",
                field="summary",
                value=summary,
                remedy="Add up single pulls: Summary.from_pulls(arms, rewards, size=...).",
            )
        if len(summary.counts) != self.arms:
            raise _mismatch(
                f"The summary covers {len(summary.counts)} arms; the plan has {self.arms}.",
                len(summary.counts),
            )
        if summary.center not in (0.0, self.center):
            raise _mismatch(
                f"The summary has center {summary.center:g}; the plan asks for {self.center:g}.",
                summary.center,
                "Add up with center=plan.center, or without a center.",
            )
        if self.forecasts is not None and summary.pulls:
            low, high = self.forecasts
            mean = summary.forecast_sum / summary.pulls
            if not low - abs(low) * _ROUNDING <= mean <= high + abs(high) * _ROUNDING:
                raise _mismatch(
                    f"Forecasts with mean {mean:g} do not all lie between {low:g} and {high:g}.",
                    mean,
                    "Clip forecasts to plan.forecasts, and give their sum as `forecast_sum`.",
                )
        if not self.provisional and summary.pending_pulls:
            raise _mismatch(
                f"Outcomes of phase {self.phase} are outstanding; its plan waits for all of them.",
                summary.pending,
            )
        drawn = summary.drawn
        total = summary.pulls
        if self.open:
            total += summary.missing_pulls + summary.pending_pulls
        if not beyond and (total < self.pulls or (total > self.pulls and not self.open)):
            raise _mismatch(
                f"The summary holds {total} pulls; the plan of phase {self.phase} asks for "
                f"{self.pulls}{' or more' if self.open else ''}.",
                total,
                "A summary covers exactly one plan's pulls.",
            )
        if self.counts is not None:
            fits = (drawn <= self.counts).all() if beyond else np.array_equal(drawn, self.counts)
        else:
            fits = not drawn[self.weights == 0].any()
        if not fits:
            raise _mismatch(
                f"The counts of the summary do not fit the plan of phase {self.phase}.",
                summary.counts,
            )


def _padded(part: Any, arms: int) -> Any:
    """One number per arm, 0 for those that were added since."""
    return None if part is None else np.pad(part, (0, arms - len(part)))


def _counted(part: Counts, shape: tuple[int, ...]) -> Counts | None:
    """Counts of a summary; zeros where there are none."""
    return whole_numbers(part) if np.size(part) else np.zeros(shape, dtype=np.int64)


def _mismatch(message: str, value: object, remedy: str = "") -> ProtocolError:
    """What is raised for a summary that does not fit."""
    return ProtocolError(message, field="summary", value=value, remedy=remedy)


@dataclass(frozen=True, eq=False)
class Summary:
    """Per-arm totals over exactly one plan's pulls: all that a policy is told.

    Totals may be added up in any order: proven rules allow for the rounding of the worst order, a
    relative error of n·2⁻⁵³ in the sum of n sizes.

    Attributes:
        counts: pulls per arm whose outcome is known.
        sums: the sum of (reward − `center`) per arm.
        squares: the sum of (reward − `center`)² per arm.
        missing: pulls per arm whose outcome will never come; not in the other totals.
        pending: pulls per arm whose outcome is not known yet; not in the other totals.
        center: the number subtracted from every reward.
        least: the least (reward − `center`) per arm, 0 for arms without pulls; None if unknown.
        largest: the largest, likewise.
        forecast_sum: the sum of the forecasts that were subtracted from rewards before all else.
        cubes: the sum of (reward − `center`)³ per arm; None if unknown, as extremes are then.
    """

    counts: Counts
    sums: Array
    squares: Array
    missing: Counts = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    pending: Counts = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    center: float = 0.0
    least: Array | None = None
    largest: Array | None = None
    forecast_sum: float = 0.0
    cubes: Array | None = None

    def __post_init__(self) -> None:
        counts = whole_numbers(self.counts)
        shape = () if counts is None else counts.shape
        wholes = [counts, _counted(self.missing, shape), _counted(self.pending, shape)]
        further = [part for part in (self.least, self.largest, self.cubes) if part is not None]
        if len(further) not in (0, 3):
            raise InvalidInputError(
                "A summary has the least, the largest and the cubes of rewards, or none of them.",
                field="cubes",
            )
        totals = [np.asarray(part, dtype=float) for part in (self.sums, self.squares, *further)]
        if any(part is None or part.shape != shape for part in (*wholes, *totals)):
            raise InvalidInputError(
                "A summary has one count, one sum and one sum of squares per arm.",
                field="summary",
                value=[np.shape(part) for part in (self.counts, *totals)],
            )
        floats = np.array(totals)
        # One look at all counts and one at all totals: a simulation makes a summary per phase.
        fewest = np.minimum.reduce(
            [part for part in wholes if part is not None], axis=None, initial=0
        )
        finite = np.logical_and.reduce(np.isfinite(floats), axis=None)
        if fewest < 0 or not (finite and math.isfinite(self.center + self.forecast_sum)):
            raise InvalidInputError(
                "A summary holds a negative count or a total that is not finite.",
                field="summary",
                value=self.counts,
            )
        if further and (floats[2] > floats[3]).any():
            raise InvalidInputError(
                "The least reward of an arm exceeds its largest.",
                field="least",
                value=self.least,
            )
        floats.flags.writeable = False
        names = ("counts", "missing", "pending", "sums", "squares", "least", "largest", "cubes")
        for name, array in zip(names, (*wholes, *floats), strict=False):
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @classmethod
    def unchecked(cls, parts: dict[str, Any], *, center: float, forecast_sum: float = 0.0) -> Self:
        """A summary of arrays that a simulation has just made, without missing or pending pulls."""
        made = object.__new__(cls)
        none = np.zeros_like(parts["counts"])
        parts = parts | {"missing": none, "pending": none}
        for array in parts.values():
            array.flags.writeable = False
        made.__dict__.update(
            parts, center=center, forecast_sum=forecast_sum, missing_pulls=0, pending_pulls=0
        )
        return made

    @classmethod
    def from_pulls(
        cls, arms: object, rewards: object, *, size: int, center: float = 0.0
    ) -> Summary:
        """Add up single pulls: arm indices and their rewards, for `size` source arms.

        The plan's `center` is subtracted from every reward.
        """
        index = whole_numbers(arms)
        reward = vector(rewards, "rewards")
        outside = index is None or ((index < 0) | (index >= size)).any()
        if index is None or outside or index.shape != reward.shape:
            raise InvalidInputError(
                f"`arms` must hold one index from 0 to {size - 1} per reward.",
                field="arms",
                value=arms,
            )
        reward = reward - center
        counts = np.bincount(index, minlength=size)
        least, largest = np.full(size, np.inf), np.full(size, -np.inf)
        np.minimum.at(least, index, reward)
        np.maximum.at(largest, index, reward)
        return cls(
            counts,
            np.bincount(index, weights=reward, minlength=size).astype(float),
            np.bincount(index, weights=reward * reward, minlength=size).astype(float),
            center=float(center),
            least=np.where(counts, least, 0.0),
            largest=np.where(counts, largest, 0.0),
            cubes=np.bincount(index, weights=reward**3, minlength=size).astype(float),
        )

    @property
    def extremes(self) -> tuple[Array, Array, Array] | None:
        """The least, the largest and the cubes, if they are known."""
        if self.least is None or self.largest is None or self.cubes is None:
            return None
        return self.least, self.largest, self.cubes

    @property
    def rounds(self) -> int:
        """The number of rounds drawn: of pulls, unless they were drawn in blocks."""
        return self.pulls + self.missing_pulls + self.pending_pulls

    @cached_property
    def pulls(self) -> int:
        """The number of pulls with an outcome."""
        return int(self.counts.sum())

    @cached_property
    def missing_pulls(self) -> int:
        """The number of pulls whose outcome will never come."""
        return int(self.missing.sum())

    @cached_property
    def pending_pulls(self) -> int:
        """The number of pulls whose outcome is not known yet."""
        return int(self.pending.sum())

    @property
    def largest_mean(self) -> float:
        """The largest absolute mean reward of an arm; 0 without pulls."""
        return float(np.abs(self.rewards / np.maximum(self.counts, 1)).max(initial=0.0))

    @property
    def drawn(self) -> Counts:
        """Pulls per arm: with an outcome, missing and pending."""
        return np.asarray(self.counts + self.missing + self.pending)

    @property
    def rewards(self) -> Array:
        """The sum of the rewards per arm, less their forecasts, with the center added back."""
        return np.asarray(self.sums + self.center * self.counts)

    def widened(self, arms: int) -> Summary:
        """The same totals for more arms: there are no pulls of those that were added since."""
        if arms == len(self.counts):
            return self
        parts = {each.name: getattr(self, each.name) for each in fields(self)}
        one = {"center": self.center, "forecast_sum": self.forecast_sum}
        padded = {name: _padded(part, arms) for name, part in parts.items() if name not in one}
        return replace(self, **padded)

    @property
    def is_binary(self) -> bool:
        """Whether every reward is 0 or 1, if all lie between.

        Then r(1 − r) is never negative, and its sum is zero only if each is.
        """
        center, pulls = self.center, float(self.counts.sum())
        rest = pulls * center * (1 - center) + (1 - 2 * center) * self.sums.sum()
        return bool(abs(rest - self.squares.sum()) <= 1e-9 * pulls)

    def amended(self, later: Summary) -> Summary:
        """These totals after some pending pulls are settled.

        Raises:
            ProtocolError: more pulls of an arm are settled than were pending.
        """
        pending = self.pending - later.counts - later.missing
        if later.center != self.center or later.pending.any() or (pending < 0).any():
            raise _mismatch(
                "The amendment settles pulls that were not pending.",
                later.counts,
                "Amend a phase once with the outcome of each of its pending pulls.",
            )
        return Summary(
            self.counts + later.counts,
            self.sums + later.sums,
            self.squares + later.squares,
            self.missing + later.missing,
            pending,
            self.center,
            self._extreme(later, "least", np.minimum),
            self._extreme(later, "largest", np.maximum),
            self.forecast_sum + later.forecast_sum,
            None if self.cubes is None or later.cubes is None else self.cubes + later.cubes,
        )

    def _extreme(self, later: Summary, name: str, choose: np.ufunc) -> Array | None:
        """The extremes of both, where both have outcomes; those of one where it alone has."""
        before, after = getattr(self, name), getattr(later, name)
        if before is None or after is None:
            return None
        both = np.where(later.counts > 0, choose(before, after), before)
        return np.asarray(np.where(self.counts > 0, both, after))


def round_robin(counts: Counts, start: int = 0, end: int | None = None) -> NDArray[np.int64]:
    """The order in which a fixed plan is pulled: each remaining arm once per round, by index.

    Args:
        counts: the pulls of each arm, of which there may be more than fit into memory.
        start: the first pull to return.
        end: the first one after it not to return; if left out, all are returned.

    >>> import numpy as np
    >>> round_robin(np.array([1, 3, 2])).tolist()
    [0, 1, 2, 1, 2, 1]
    >>> round_robin(np.array([10**12, 3 * 10**12]), start=2 * 10**12 - 2, end=2 * 10**12 + 2)
    array([0, 1, 1, 1])
    """

    def pulls_before(end_round: int) -> int:
        return int(np.minimum(counts, end_round).sum())

    # The rounds that contain these pulls.
    rounds = range(int(counts.max(initial=0)) + 1)
    end = pulls_before(rounds[-1]) if end is None else end
    first = bisect_right(rounds, start, key=pulls_before) - 1
    last = bisect_left(rounds, end, key=pulls_before)
    left = np.clip(counts - first, 0, max(last - first, 0))

    arms = np.repeat(np.arange(len(counts)), left)
    starts = np.cumsum(left) - left
    number = np.arange(len(arms)) - np.repeat(starts, left)
    skipped = pulls_before(first)
    ordered = arms[np.lexsort((arms, number))]
    return np.asarray(ordered[start - skipped : max(end - skipped, 0)], dtype=np.int64)


@dataclass(frozen=True, eq=False, kw_only=True)
class BlockPlan(Plan):
    """What to pull next, in rounds: each round draws a block of different arms and pulls them all.

    The arms of a block share one baseline. Make one with `BlockPlan.drawn`. What holds of a
    randomised plan holds of it too: its `weights` are the shares of the arms among the pulls, and
    `pulls` is `rounds` times `size`. A block is drawn with `block_weights`, not by these shares.

    Attributes:
        blocks: the kinds of blocks: one per row, its arms in ascending order.
        block_weights: the probability of each kind.
    """

    blocks: Blocks
    block_weights: Array

    def __post_init__(self) -> None:
        arms = 0 if self.weights is None else len(self.weights)
        blocks = as_blocks(self.blocks, arms)
        if self.pulls < 1 or self.pulls % blocks.shape[1]:
            raise InvalidInputError(
                f"{self.pulls} pulls are not a whole number of blocks of {blocks.shape[1]} arms.",
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
            raise _mismatch(
                f"The plan of phase {self.phase} is over blocks, and totals do not tell rounds.",
                type(summary).__name__,
                "Give the rounds: Rounds.of(plan, kinds, rewards).",
            )
        super().check(summary, beyond=beyond)
        assert isinstance(summary, Rounds)
        same = summary.blocks is self.blocks or np.array_equal(summary.blocks, self.blocks)
        if not same or np.any(self.block_weights[summary.kinds] == 0):
            raise _mismatch(
                f"The blocks of the rounds do not fit the plan of phase {self.phase}.",
                summary.blocks.shape,
            )


@dataclass(frozen=True, eq=False, kw_only=True)
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

    blocks: Blocks
    kinds: Counts
    table: Array
    awaited: NDArray[np.bool_]

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
        missing = np.bincount(members[~told & ~waits], minlength=arms)
        pending = np.bincount(members[waits], minlength=arms)
        names = ("missing", "pending", "kinds", "table", "awaited")
        made = object.__new__(cls)
        made.__dict__.update(vars(totals), blocks=blocks)
        for name, part in zip(names, (missing, pending, drawn, rewards, waits), strict=True):
            part.flags.writeable = False
            made.__dict__[name] = part
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

    def amended(self, later: Summary) -> Rounds:
        """The same rounds, given once more after some outcomes that were awaited are settled.

        Raises:
            ProtocolError: they are not these rounds, or more than awaited outcomes differ.
        """
        if not isinstance(later, Rounds) or not np.array_equal(later.kinds, self.kinds):
            raise _mismatch("The amendment is not of the same rounds.", type(later).__name__)
        fixed = ~self.awaited
        same = np.array_equal(later.table[fixed], self.table[fixed], equal_nan=True)
        if later.center != self.center or not same or (later.awaited & fixed).any():
            raise _mismatch(
                "The amendment changes outcomes that were settled.",
                later.counts,
                "Give all rounds of the phase once more, with the outcomes that came since.",
            )
        return later


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
