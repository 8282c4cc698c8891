"""The values that cross layers: Plan, Summary, Phase, Recommendation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isfinite

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
    while its last outcomes are awaited, and outcomes may be missing. An open plan that is
    provisional may also close while outcomes are outstanding; they follow as amendments.

    Attributes:
        phase: 1 for a policy's first plan, then 2, 3, …
        pulls: the number of pulls.
        weights: probabilities over source arms, or None for a fixed plan.
        counts: pulls an arm, or None for a randomised plan.
        open: whether it may be extended.
        most: the most pulls to extend it to, or None for any number.
        provisional: whether it may close while outcomes are outstanding.
        center: what to take off every reward before it is added up, so that sums of rewards far
            from zero keep their digits.
    """

    phase: int
    pulls: int
    weights: Array | None = None
    counts: Counts | None = None
    open: bool = False
    most: int | None = None
    provisional: bool = False
    center: float = 0.0

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
        return cls(
            phase,
            int(pulls),
            weights=array,
            open=open,
            most=most,
            provisional=provisional,
            center=float(center),
        )

    @classmethod
    def fixed(cls, counts: object, *, phase: int, center: float = 0.0) -> Plan:
        """Pull arm i exactly `counts[i]` times."""
        array = _whole_numbers(counts)
        if array is None or (array < 0).any() or not 1 <= array.sum() < _MOST_PULLS:
            raise InvalidInputError(
                "`counts` must be whole numbers, none negative, with at least one pull in all.",
                field="counts",
                value=counts,
            )
        array.flags.writeable = False
        return cls(phase, int(array.sum()), counts=array, center=float(center))

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
        if summary.center not in (0.0, self.center):
            raise ProtocolError(
                f"The summary is about {summary.center:g}; the plan asks for totals about "
                f"{self.center:g}.",
                field="summary",
                value=summary.center,
                remedy="Total up with center=plan.center, or without a center.",
            )
        if summary.pending.any() and not self.provisional:
            raise ProtocolError(
                f"Outcomes of phase {self.phase} are outstanding; its plan waits for all of them.",
                field="summary",
                value=summary.pending,
            )
        drawn = summary.counts + summary.missing + summary.pending
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

    Totals may be added up in any order: the rules that are proven allow for the rounding of the
    worst one, a relative error of n·2⁻⁵³ in the sum of n sizes.

    Attributes:
        counts: pulls per arm whose outcome is known.
        sums: sum of rewards per arm, each less `center`.
        squares: sum of their squares, each less `center` first.
        missing: pulls per arm whose outcome will never come; they are in none of the others.
        pending: pulls per arm whose outcome is not known yet; they are in none of the others.
        center: what was taken off every reward.
    """

    counts: Counts
    sums: Array
    squares: Array
    missing: Counts = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    pending: Counts = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    center: float = 0.0

    def __post_init__(self) -> None:
        counts, missing, pending = (
            _whole_numbers(part) for part in (self.counts, self.missing, self.pending)
        )
        if counts is not None:
            missing, pending = (
                np.zeros_like(counts) if part is not None and not part.size else part
                for part in (missing, pending)
            )
        sums = np.array(self.sums, dtype=float)
        squares = np.array(self.squares, dtype=float)
        if (
            counts is None
            or missing is None
            or pending is None
            or not counts.shape == sums.shape == squares.shape == missing.shape == pending.shape
        ):
            raise InvalidInputError(
                "A summary has one count, one sum and one sum of squares per arm.",
                field="summary",
                value=(np.shape(self.counts), sums.shape, squares.shape),
            )
        negative = any((part < 0).any() for part in (counts, missing, pending))
        finite = np.isfinite(sums).all() and np.isfinite(squares).all() and isfinite(self.center)
        if negative or not finite:
            raise InvalidInputError(
                "A summary holds a negative count or a total that is not finite.",
                field="summary",
                value=counts,
            )
        arrays = {"counts": counts, "sums": sums, "squares": squares}
        for name, array in (arrays | {"missing": missing, "pending": pending}).items():
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @classmethod
    def from_pulls(
        cls, arms: object, rewards: object, *, size: int, center: float = 0.0
    ) -> Summary:
        """Total up single pulls: arm indices and their rewards, for `size` source arms.

        Args:
            arms: the index of each pull's arm.
            rewards: what each pull paid.
            size: the number of source arms.
            center: what to take off every reward first: the plan's `center`.
        """
        index = _whole_numbers(arms)
        reward = vector(rewards, "rewards")
        if index is None or index.shape != reward.shape or not _inside(index, size):
            raise InvalidInputError(
                f"`arms` and `rewards` must be as many indices from 0 to {size - 1} as numbers.",
                field="arms",
                value=arms,
            )
        reward = reward - center
        return cls(
            np.bincount(index, minlength=size),
            np.bincount(index, weights=reward, minlength=size).astype(float),
            np.bincount(index, weights=reward * reward, minlength=size).astype(float),
            center=float(center),
        )

    @property
    def pulls(self) -> int:
        """The number of pulls with an outcome."""
        return int(self.counts.sum())

    @property
    def largest_mean(self) -> float:
        """The largest mean reward of an arm, whatever its sign; 0 where nothing was pulled."""
        return float(np.abs(self.rewards / np.maximum(self.counts, 1)).max(initial=0.0))

    @property
    def drawn(self) -> Counts:
        """Pulls per arm, whatever became of them."""
        return np.asarray(self.counts + self.missing + self.pending)

    @property
    def rewards(self) -> Array:
        """The sum of the rewards themselves per arm, with the center put back."""
        return np.asarray(self.sums + self.center * self.counts)

    def amended(self, later: Summary) -> Summary:
        """These totals once pulls that were pending are settled.

        Raises:
            ProtocolError: more pulls of an arm are settled than were pending.
        """
        pending = self.pending - later.counts - later.missing
        if later.center != self.center or later.pending.any() or (pending < 0).any():
            raise ProtocolError(
                "The amendment settles pulls that were not pending.",
                field="summary",
                value=later.counts,
                remedy="Amend a phase with outcomes of its own pending pulls, each once.",
            )
        return Summary(
            self.counts + later.counts,
            self.sums + later.sums,
            self.squares + later.squares,
            self.missing + later.missing,
            pending,
            self.center,
        )


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
            `"max_phases"`, `"max_phase_pulls"`, `"budget"`, or `"stopped"` by its owner.
        pulls: pulls used so far.
        error_bound: a proven bound on the probability that this answer is wrong: `claims`, once it
            is final and nothing contradicts the assumptions; else None.
        active: targets not eliminated; a stop at `"max_phase_pulls"` may name another.
        trace: one record a finished phase.
        chosen: the targets named, the best first, where a policy may name several; else empty.
        assumptions: what the error bound rests on, one sentence each.
        statement: what may be said now, in words; empty where a policy has none to make.
        claims: the proven bound on the probability that a final answer of this policy is wrong,
            known before there is one; None where the constants are tuned and nothing is proven.
        contradicted: whether rewards were seen that the assumptions all but rule out. Then nothing
            is proven any more.
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
    claims: float | None = None
    contradicted: bool = False

    def __str__(self) -> str:
        left = len(self.active)
        remain = "1 target remains" if left == 1 else f"{left} targets remain"
        state = f"{_cause(self.reason)}; {remain}"
        if not self.pulls:
            return f"no leader yet: no outcome counts so far ({state}; {self._proof})"
        verdict = "identified as the best" if self.final else f"leading, not identified ({state})"
        pulls = "1 pull" if self.pulls == 1 else f"{self.pulls:,} pulls"
        return f"{self.label}: {verdict} after {pulls} ({self._proof})"

    @property
    def _proof(self) -> str:
        if self.contradicted:
            return "rewards contradict the assumptions: no error bound holds"
        if self.error_bound is not None:
            return f"error ≤ {self.error_bound:g}"
        if self.claims is None:
            return "no proven error bound"
        if self.reason == "running":
            return f"once identified: error ≤ {self.claims:g}"
        return "nothing is proven of an answer short of the end"


_CAUSES = {
    "running": "still running",
    "stopped": "stopped by hand",
    "max_pulls": "stopped at its limit of pulls",
    "max_phases": "stopped at its limit of phases",
    "max_phase_pulls": "stopped at its limit of pulls per phase",
    "budget": "its budget is spent",
}


def _cause(reason: str) -> str:
    return _CAUSES.get(reason, f"stopped: {reason}")
