"""Rounds of one pull: Plan and Summary."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bestarm.checks import vector, whole_numbers
from bestarm.errors import InvalidInputError, ProtocolError
from bestarm.numerics.geometry import Array
from bestarm.problem import as_weights

__all__ = ["MOST_PULLS", "Counts", "Plan", "Summary", "misfit"]

#: An array of whole numbers.
Counts = NDArray[np.int64]
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
                "`counts` must be non-negative whole numbers with at least one pull.",
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

    def check(self, summary: Summary, *, beyond: bool = False) -> None:
        """Raise unless the summary can be the outcome of exactly this plan.

        With `beyond`, it is of further pulls under an open plan, of any number.
        """
        if not isinstance(summary, Summary):
            raise InvalidInputError(
                f"`summary` must be a Summary; got {type(summary).__name__}.",
                field="summary",
                value=summary,
                remedy="Add up single pulls: Summary.from_pulls(arms, rewards, size=...).",
            )
        if len(summary.counts) != self.arms:
            raise misfit(
                f"The summary covers {len(summary.counts)} arms; the plan has {self.arms}.",
                len(summary.counts),
            )
        if summary.center not in (0.0, self.center):
            raise misfit(
                f"The summary has center {summary.center:g}; the plan asks for {self.center:g}.",
                summary.center,
                "Add up with center=plan.center, or without a center.",
            )
        if self.forecasts is not None and summary.pulls:
            low, high = self.forecasts
            mean = summary.forecast_sum / summary.pulls
            if not low - abs(low) * _ROUNDING <= mean <= high + abs(high) * _ROUNDING:
                raise misfit(
                    f"Forecasts with mean {mean:g} do not all lie between {low:g} and {high:g}.",
                    mean,
                    "Clip forecasts to plan.forecasts, and give their sum as `forecast_sum`.",
                )
        if not self.provisional and summary.awaited_pulls:
            raise misfit(
                f"Outcomes of phase {self.phase} are outstanding; its plan waits for all of them.",
                summary.pending,
            )
        drawn = summary.drawn
        total = summary.pulls
        if self.open:
            total += summary.lost_pulls + summary.awaited_pulls
        if not beyond and (total < self.pulls or (total > self.pulls and not self.open)):
            raise misfit(
                f"The summary holds {total} pulls; the plan of phase {self.phase} asks for "
                f"{self.pulls}{' or more' if self.open else ''}.",
                total,
                "A summary covers exactly one plan's pulls.",
            )
        if self.counts is not None:
            fits = np.array_equal(drawn, self.counts)
        else:
            fits = not drawn[self.weights == 0].any()
        if not fits:
            raise misfit(
                f"The counts of the summary do not fit the plan of phase {self.phase}.",
                summary.counts,
            )


def _counted(part: Counts, shape: tuple[int, ...]) -> Counts | None:
    """Counts of a summary; zeros where there are none."""
    return whole_numbers(part) if np.size(part) else np.zeros(shape, dtype=np.int64)


def misfit(message: str, value: object, remedy: str = "") -> ProtocolError:
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
    def unchecked(cls, totals: dict[str, Any], *, center: float, forecast_sum: float) -> Summary:
        """A summary of arrays that a simulation has just made, without missing or pending pulls."""
        made = object.__new__(cls)
        none = np.zeros_like(totals["counts"])
        parts = totals | {"missing": none, "pending": none}
        for array in parts.values():
            array.flags.writeable = False
        made.__dict__.update(
            parts, center=center, forecast_sum=forecast_sum, lost_pulls=0, awaited_pulls=0
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
    def totals(self) -> tuple[tuple[Counts, Array, Array], tuple[Array, ...], bool]:
        """For kernels: (counts, Σx, Σx²), (least, largest, Σx³), and whether the latter are known.

        Where they are not, sums stand in their place. All are copies: a kernel would be compiled
        again for arrays that cannot be written.
        """
        first = self.counts.copy(), self.sums.copy(), self.squares.copy()
        if self.least is None or self.largest is None or self.cubes is None:
            return first, (first[1],) * 3, False
        return first, (self.least.copy(), self.largest.copy(), self.cubes.copy()), True

    @property
    def rounds(self) -> int:
        """The number of rounds drawn: of pulls, unless they were drawn in blocks."""
        return self.pulls + self.lost_pulls + self.awaited_pulls

    @cached_property
    def pulls(self) -> int:
        """The number of pulls with an outcome."""
        return int(self.counts.sum())

    @cached_property
    def lost_pulls(self) -> int:
        """The number of pulls whose outcome will never come."""
        return int(self.missing.sum())

    @cached_property
    def awaited_pulls(self) -> int:
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
            raise misfit(
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
