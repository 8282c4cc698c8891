"""The values that cross layers: Plan, Summary, Phase, Recommendation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bestarm.checks import vector
from bestarm.errors import InvalidInputError, ProtocolError
from bestarm.geometry import Array
from bestarm.problem import as_weights

__all__ = ["Counts", "Phase", "Plan", "Recommendation", "Summary", "round_robin"]

Counts = NDArray[np.int64]
_MOST_PULLS = 2**53  # beyond this a count is no longer exact in floating point


@dataclass(frozen=True, eq=False)
class Plan:
    """What to pull next: `pulls` pulls, either drawn at random or fixed in number.

    Make one with `Plan.randomised` (each pull is drawn independently with probabilities
    `weights`) or `Plan.fixed` (arm i is pulled `counts[i]` times, in `round_robin` order). A plan
    is closed, exactly these pulls, or open: then more may be drawn under the same probabilities
    while its last outcomes are awaited, and outcomes may be missing.

    Attributes:
        phase: 1 for a policy's first plan, then 2, 3, …
        pulls: the number of pulls.
        weights: probabilities over source arms, or None for a fixed plan.
        counts: pulls an arm, or None for a randomised plan.
        open: whether it may be extended.
        most: the most pulls to extend it to, or None for any number.
    """

    phase: int
    pulls: int
    weights: Array | None = None
    counts: Counts | None = None
    open: bool = False
    most: int | None = None

    @classmethod
    def randomised(
        cls,
        weights: object,
        pulls: int,
        *,
        phase: int,
        open: bool = False,  # noqa: A002 - the field's name
        most: int | None = None,
    ) -> Plan:
        """Draw `pulls` arms independently with probabilities `weights`."""
        array = as_weights(weights, np.size(np.asarray(weights)))
        if not isinstance(pulls, (int, np.integer)) or not 1 <= pulls < _MOST_PULLS:
            raise InvalidInputError(
                f"A plan of {pulls} pulls cannot be carried out.",
                field="pulls",
                value=pulls,
                remedy="Gaps this small need a cap: see `max_pulls` and `max_phases`.",
            )
        return cls(phase, int(pulls), weights=array, open=open, most=most)

    @classmethod
    def fixed(cls, counts: object, *, phase: int) -> Plan:
        """Pull arm i exactly `counts[i]` times."""
        array = _whole_numbers(counts)
        if array is None or (array < 0).any() or not 1 <= array.sum() < _MOST_PULLS:
            raise InvalidInputError(
                "`counts` must be whole numbers, none negative, with at least one pull in all.",
                field="counts",
                value=counts,
            )
        array.flags.writeable = False
        return cls(phase, int(array.sum()), counts=array)

    @property
    def arms(self) -> int:
        """The number of source arms the plan is over."""
        return sum(len(part) for part in (self.weights, self.counts) if part is not None)

    def check(self, summary: Summary, *, beyond: bool = False) -> None:
        """Raise unless the summary can be the outcome of exactly this plan.

        Args:
            summary: the totals.
            beyond: that they are of further pulls under an open plan, of which there may be any
                number.
        """
        if not isinstance(summary, Summary):
            raise InvalidInputError(
                f"`summary` must be a Summary; got {type(summary).__name__}.",
                field="summary",
                value=summary,
                remedy="Total up single pulls: Summary.from_pulls(arms, rewards, size=...).",
            )
        if len(summary.counts) != self.arms:
            raise ProtocolError(
                f"The summary covers {len(summary.counts)} arms; the plan has {self.arms}.",
                field="summary",
                value=len(summary.counts),
            )
        drawn = summary.counts + summary.missing
        total = int(drawn.sum() if self.open else summary.counts.sum())
        if not beyond and (total < self.pulls or (total > self.pulls and not self.open)):
            raise ProtocolError(
                f"The summary holds {total} pulls; the plan of phase {self.phase} asks for "
                f"{self.pulls}{' or more' if self.open else ''}.",
                field="summary",
                value=total,
                remedy="A summary covers exactly one plan's pulls.",
            )
        if self.counts is not None:
            fits = np.array_equal(drawn, self.counts)
        else:
            fits = not np.any(drawn[self.weights == 0])
        if not fits:
            raise ProtocolError(
                f"The summary's counts are not what the plan of phase {self.phase} asks for.",
                field="summary",
                value=summary.counts,
            )


def _whole_numbers(values: object) -> Counts | None:
    """A list of whole numbers as an array, or None if it is not one."""
    array = np.asarray(values)
    if not array.size:
        array = array.astype(np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu" or (array > _MOST_PULLS).any():
        return None
    return array.astype(np.int64)  # a copy: the caller's array stays the caller's


def _inside(index: Counts, size: int) -> bool:
    return bool(((index >= 0) & (index < size)).all())


def round_robin(counts: Counts) -> NDArray[np.int64]:
    """The order in which a fixed plan is pulled: arms in index order, once a round while any left.

    >>> import numpy as np
    >>> round_robin(np.array([1, 3, 2])).tolist()
    [0, 1, 2, 1, 2, 1]
    """
    arms = np.repeat(np.arange(len(counts)), counts)
    starts = np.cumsum(counts) - counts
    rounds = np.arange(len(arms)) - np.repeat(starts, counts)
    return np.asarray(arms[np.lexsort((arms, rounds))], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Summary:
    """Per-arm totals over exactly one plan's pulls: all that any policy ever sees.

    Attributes:
        counts: pulls an arm.
        sums: sum of rewards an arm.
        squares: sum of squared rewards an arm.
        missing: pulls an arm whose outcome will never come; they are in none of the others.
    """

    counts: Counts
    sums: Array
    squares: Array
    missing: Counts = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def __post_init__(self) -> None:
        counts = _whole_numbers(self.counts)
        missing = _whole_numbers(self.missing)
        if counts is not None and missing is not None and not missing.size:
            missing = np.zeros_like(counts)
        sums = np.array(self.sums, dtype=float)
        squares = np.array(self.squares, dtype=float)
        if (
            counts is None
            or missing is None
            or not counts.shape == sums.shape == squares.shape == missing.shape
        ):
            raise InvalidInputError(
                "A summary has one count, one sum and one sum of squares an arm.",
                field="summary",
                value=(np.shape(self.counts), sums.shape, squares.shape),
            )
        negative = (counts < 0).any() or (missing < 0).any()
        if negative or not (np.isfinite(sums).all() and np.isfinite(squares).all()):
            raise InvalidInputError(
                "A summary holds a negative count or a total that is not finite.",
                field="summary",
                value=counts,
            )
        for name, array in zip(
            ("counts", "sums", "squares", "missing"), (counts, sums, squares, missing), strict=True
        ):
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @classmethod
    def from_pulls(cls, arms: object, rewards: object, *, size: int) -> Summary:
        """Total up single pulls: arm indices and their rewards, for `size` source arms."""
        index = _whole_numbers(arms)
        reward = vector(rewards, "rewards")
        if index is None or index.shape != reward.shape or not _inside(index, size):
            raise InvalidInputError(
                f"`arms` and `rewards` must be as many indices from 0 to {size - 1} as numbers.",
                field="arms",
                value=arms,
            )
        return cls(
            np.bincount(index, minlength=size),
            np.bincount(index, weights=reward, minlength=size).astype(float),
            np.bincount(index, weights=reward * reward, minlength=size).astype(float),
        )

    @property
    def pulls(self) -> int:
        """The number of pulls summarised, without missing ones."""
        return int(self.counts.sum())

    @property
    def largest_mean(self) -> float:
        """The largest mean reward of an arm, whatever its sign; 0 where nothing was pulled."""
        return float(np.abs(self.sums / np.maximum(self.counts, 1)).max(initial=0.0))


@dataclass(frozen=True, eq=False)
class Phase:
    """What one plan of a policy was, and what came of it.

    Attributes:
        phase: its number, from 1.
        active: targets still in the running when it began.
        eliminated: targets dropped at its end.
        leader: the empirically best target at its end.
        contrasts: estimated leader − target, in reward units, for each of `active`.
        radii: the contrast from which on a target is dropped, for each of `active`.
        delta: the part of the error probability spent on it.
        pulls: its number of pulls.
        weights: the sampling distribution over source arms.
        value: the largest variance factor of an active contrast under `weights`.
        gap: the certified relative distance of the contrast design from its optimum; None where the
            plan was adopted from a record, which does not hold it.
        stability: the M that entered the phase length, or None where none did.
    """

    phase: int
    active: tuple[int, ...]
    eliminated: tuple[int, ...]
    leader: int
    contrasts: tuple[float, ...]
    radii: tuple[float, ...]
    delta: float
    pulls: int
    weights: Array
    value: float
    gap: float | None
    stability: float | None


@dataclass(frozen=True, eq=False)
class Recommendation:
    """The target a policy would name now, and how far that can be relied on.

    Attributes:
        target: its index.
        label: its name.
        final: whether the policy finished its identification. A stop at a cap is not final.
        reason: `"identified"`, `"running"`, or what stopped it short: `"max_pulls"`,
            `"max_phases"`, `"max_phase_pulls"`, `"budget"`.
        pulls: pulls used so far.
        error_bound: a proven bound on the probability that a final answer is wrong, or None
            where the constants are tuned and nothing is proven.
        active: targets not eliminated; a stop at `"max_phase_pulls"` may name another.
        trace: one record a finished phase.
        chosen: the targets named, the best first, where a policy may name several; else empty.
        assumptions: what the error bound rests on, one sentence each.
        statement: what may be said now, in words; empty where a policy has none to make.
    """

    target: int
    label: str
    final: bool
    reason: str
    pulls: int
    error_bound: float | None
    active: tuple[int, ...]
    trace: Sequence[Phase] = ()
    chosen: tuple[int, ...] = ()
    assumptions: tuple[str, ...] = ()
    statement: str = ""

    def __str__(self) -> str:
        if self.final:
            verdict = "identified as the best"
        else:
            cause = {"running": "still running"}.get(self.reason, f"stopped by {self.reason}")
            left = len(self.active)
            remain = "1 target remains" if left == 1 else f"{left} targets remain"
            verdict = f"leading, not identified ({cause}; {remain})"
        proof = (
            "no proven error bound" if self.error_bound is None else f"error ≤ {self.error_bound:g}"
        )
        return f"{self.label}: {verdict} after {self.pulls:,} pulls ({proof})"
