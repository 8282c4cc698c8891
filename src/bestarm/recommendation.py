"""What a policy would name now, what is proven about it, and the phases that led to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bestarm.numerics.geometry import Array
from bestarm.tables import TextTable
from bestarm.units import plural

__all__ = ["FINAL", "Effect", "Phase", "Recommendation"]

#: The reasons of a final answer. While it is "measuring", pulls go on all the same.
FINAL = ("identified", "measuring", "equivalent", "exact")


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


@dataclass(frozen=True)
class Effect:
    """How much better the named target is than the control, in reward units.

    Attributes:
        control: the index of the control.
        label: its name.
        estimate: the estimated lead of the named target over it.
        lower: a lower bound on that lead.
        upper: an upper bound. Both hold at every moment at once, and together with the decision
            once it is final, but for a probability of `claims`.
        relative: the estimate relative to the control's mean reward, if that is positive.
    """

    control: int
    label: str
    estimate: float
    lower: float
    upper: float
    relative: float | None = None


@dataclass(frozen=True, eq=False)
class Recommendation:
    """The target that a policy would name now, and what is proven about it.

    Attributes:
        target: its index.
        label: its name.
        final: whether the policy finished its identification. A stop at a cap is not final.
        reason: `"identified"`, `"measuring"` (identified, and pulls go on until the effect is known
            as precisely as was asked for), `"equivalent"` (none is better than the control by more
            than the tolerance), `"exact"` (all items of a finite population are judged),
            `"running"`, or what stopped it short: `"max_pulls"`, `"max_phases"`,
            `"max_phase_pulls"`, `"budget"`, `"exhausted"` (all items are judged, but too many
            outcomes lack), `"cycle"` (no option beats all others), or `"stopped"` by hand.
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
        effect: how much better the target is than the control, if one was named.
        rounds: the rounds of these pulls, where a round has several; else None.
        tied: where all items of a finite population are judged, the targets whose means equal that
            of the last one named, itself included; empty if it is better than all others.
        leads: whether outcomes say that it leads. False while so many are outstanding that no
            estimate rests on them yet, or none is of it, unless features tell of it.
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
    effect: Effect | None = None
    rounds: int | None = None
    tied: tuple[int, ...] = ()
    leads: bool = True

    def __str__(self) -> str:
        left = len(self.active)
        remain = f"{plural(left, 'option')} {'remains' if left == 1 else 'remain'}"
        cause = _CAUSES.get(self.reason, f"stopped: {self.reason}")
        if not self.pulls:
            return f"no leader yet: no outcome counts so far ({cause}; {remain}; {self._proof})"
        if not (self.leads or self.final):
            return (
                f"no leader yet: the outcomes that would show one are not in ({cause}; {remain}; "
                f"{self._proof})"
            )
        state = f"leading, not identified ({cause}; {remain})"
        best = "identified as the best"
        if self.reason == "equivalent":
            best = "equivalent to the best, within the tolerance,"
        if self.tied:
            best = f"one of {len(self.tied)} that tie as the best"
        verdict = best if self.final else state
        made = plural(self.pulls, "assignment")
        if self.rounds is not None:
            made += f" in {plural(self.rounds, 'round')}"
        return f"{self.label}: {verdict} after {made} ({self._proof})"

    def _repr_html_(self) -> str:
        facts = {"option": self.label, "final": "yes" if self.final else "no"}
        facts |= {"reason": self.reason, "assignments": f"{self.pulls:,}"}
        facts |= {"still possible": f"{len(self.active):,}"}
        facts |= {"error bound": "–" if self.error_bound is None else f"{self.error_bound:g}"}
        if (effect := self.effect) is not None:
            lead = f"{effect.estimate:.3g} ({effect.lower:.3g} to {effect.upper:.3g})"
            facts[f"lead over {effect.label}"] = lead
        return TextTable.of([*facts], [[*facts.values()]], title=str(self)).to_html()

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


def describe_tie(chosen: Sequence[int], tied: Sequence[int], names: Sequence[str]) -> str:
    """Which targets tie, in words.

    Args:
        chosen: the targets that are named.
        tied: those of them that tie with others, and these others.
        names: the names of all targets.

    Example:
        >>> describe_tie([0], [0, 2], ["‘old’", "‘new’", "‘video’"])
        '‘old’ and ‘video’ tie as the best of 3 options'
    """
    *others, last = (names[target] for target in tied)
    tie = f"{', '.join(others)} and {last} tie"
    above = [names[target] for target in chosen if target not in tied]
    if above:
        lead = "leads" if len(above) == 1 else "lead"
        return f"{', '.join(above)} {lead} {len(names)} options and {tie} next"
    best = "the best" if len(chosen) == 1 else f"the {len(chosen)} best"
    return f"{tie} as {best} of {len(names)} options"


_CAUSES = {
    "running": "still running",
    "stopped": "stopped by hand",
    "max_pulls": "stopped at its limit of assignments",
    "max_phases": "stopped at its limit of phases",
    "max_phase_pulls": "stopped at its limit of assignments per phase",
    "budget": "its budget is spent",
    "exhausted": "all items are judged",
    "cycle": "no option beats all others",
}
