"""The values that cross layers: Plan, Summary, Phase, Recommendation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bestarm.checks import vector, whole_numbers
from bestarm.errors import InvalidInputError, ProtocolError
from bestarm.geometry import Array
from bestarm.problem import as_weights

__all__ = ["Counts", "Phase", "Plan", "Recommendation", "Summary", "round_robin"]

#: An array of whole numbers.
Counts = NDArray[np.int64]
_MOST_PULLS = 2**53  # beyond this a count is no longer exact in floating point


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
        array = whole_numbers(counts)
        if array is None or (array < 0).any() or not 1 <= array.sum() < _MOST_PULLS:
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
        return sum(len(part) for part in (self.weights, self.counts) if part is not None)

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
            raise _misfit(
                f"The summary covers {len(summary.counts)} arms; the plan has {self.arms}.",
                len(summary.counts),
            )
        if summary.center not in (0.0, self.center):
            raise _misfit(
                f"The summary has center {summary.center:g}; the plan asks for {self.center:g}.",
                summary.center,
                "Add up with center=plan.center, or without a center.",
            )
        if summary.pending.any() and not self.provisional:
            raise _misfit(
                f"Outcomes of phase {self.phase} are outstanding; its plan waits for all of them.",
                summary.pending,
            )
        drawn = summary.drawn
        total = int(drawn.sum() if self.open else summary.counts.sum())
        if not beyond and (total < self.pulls or (total > self.pulls and not self.open)):
            raise _misfit(
                f"The summary holds {total} pulls; the plan of phase {self.phase} asks for "
                f"{self.pulls}{' or more' if self.open else ''}.",
                total,
                "A summary covers exactly one plan's pulls.",
            )
        if self.counts is not None:
            fits = np.array_equal(drawn, self.counts)
        else:
            fits = not np.any(drawn[self.weights == 0])
        if not fits:
            raise _misfit(
                f"The counts of the summary do not fit the plan of phase {self.phase}.",
                summary.counts,
            )


def _misfit(message: str, value: object, remedy: str = "") -> ProtocolError:
    return ProtocolError(message, field="summary", value=value, remedy=remedy)


def round_robin(counts: Counts) -> NDArray[np.int64]:
    """The order in which a fixed plan is pulled: each remaining arm once per round, by index.

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
    """

    counts: Counts
    sums: Array
    squares: Array
    missing: Counts = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    pending: Counts = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    center: float = 0.0

    def __post_init__(self) -> None:
        counts, missing, pending = (
            whole_numbers(part) for part in (self.counts, self.missing, self.pending)
        )
        if counts is not None:
            missing, pending = (
                np.zeros_like(counts) if part is not None and not part.size else part
                for part in (missing, pending)
            )
        sums, squares = (np.array(part, dtype=float) for part in (self.sums, self.squares))
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
        finite = all(np.isfinite(part).all() for part in (sums, squares, self.center))
        if negative or not finite:
            raise InvalidInputError(
                "A summary holds a negative count or a total that is not finite.",
                field="summary",
                value=counts,
            )
        names = ("counts", "sums", "squares", "missing", "pending")
        for name, array in zip(names, (counts, sums, squares, missing, pending), strict=True):
            array.flags.writeable = False
            object.__setattr__(self, name, array)

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
        """The largest absolute mean reward of an arm; 0 without pulls."""
        return float(np.abs(self.rewards / np.maximum(self.counts, 1)).max(initial=0.0))

    @property
    def drawn(self) -> Counts:
        """Pulls per arm: with an outcome, missing and pending."""
        return np.asarray(self.counts + self.missing + self.pending)

    @property
    def rewards(self) -> Array:
        """The sum of the rewards per arm, with the center added back."""
        return np.asarray(self.sums + self.center * self.counts)

    def amended(self, later: Summary) -> Summary:
        """These totals after some pending pulls are settled.

        Raises:
            ProtocolError: more pulls of an arm are settled than were pending.
        """
        pending = self.pending - later.counts - later.missing
        if later.center != self.center or later.pending.any() or (pending < 0).any():
            raise _misfit(
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
        )


@dataclass(frozen=True, eq=False)
class Phase:
    """One finished plan of a policy, and its result.

    Attributes:
        phase: its number, from 1.
        active: targets that were active when it began.
        eliminated: targets dropped at its end.
        leader: the empirically best target at its end.
        contrasts: estimated leader − target, in reward units, for each of `active`.
        radii: the contrast at which a target is dropped, for each of `active`.
        delta: the share of the error probability used by it.
        pulls: its number of pulls.
        weights: the sampling distribution over source arms.
        value: the largest variance factor of an active contrast under `weights`.
        gap: the certified relative distance of the contrast design from its optimum; None if the
            plan was adopted from a record, which does not contain it.
        stability: the M that entered the phase length, or None if none did.
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
    """The target that a policy would name now, and what is proven about it.

    Attributes:
        target: its index.
        label: its name.
        final: whether the policy finished its identification. A stop at a cap is not final.
        reason: `"identified"`, `"running"`, or what stopped it short: `"max_pulls"`,
            `"max_phases"`, `"max_phase_pulls"`, `"budget"`, or `"stopped"` by hand.
        pulls: pulls used so far.
        error_bound: a proven bound on the probability that this answer is wrong: `claims`, once it
            is final and nothing contradicts the assumptions; else None.
        active: targets not eliminated; a stop at `"max_phase_pulls"` may name another.
        trace: one record per finished phase.
        chosen: the named targets, the best first, if the policy may name several; else empty.
        assumptions: the assumptions of the error bound, one sentence each.
        statement: the conclusion in words; empty if the policy makes none.
        claims: the proven bound on the probability that a final answer of this policy is wrong,
            known from the start; None if nothing is proven.
        contradicted: whether the rewards contradict the assumptions. Nothing is proven then.
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
        several = f"{len(self.active)} options remain"
        remain = "1 option remains" if len(self.active) == 1 else several
        cause = _CAUSES.get(self.reason, f"stopped: {self.reason}")
        if not self.pulls:
            return f"no leader yet: no outcome counts so far ({cause}; {remain}; {self._proof})"
        state = f"leading, not identified ({cause}; {remain})"
        verdict = "identified as the best" if self.final else state
        outcomes = "1 outcome" if self.pulls == 1 else f"{self.pulls:,} outcomes"
        return f"{self.label}: {verdict} after {outcomes} ({self._proof})"

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
        return "an answer before the end has no proven error bound"


_CAUSES = {
    "running": "still running",
    "stopped": "stopped by hand",
    "max_pulls": "stopped at its limit of outcomes",
    "max_phases": "stopped at its limit of phases",
    "max_phase_pulls": "stopped at its limit of outcomes per phase",
    "budget": "its budget is spent",
}
