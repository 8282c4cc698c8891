"""A gate: is each option not worse than the control, by more than a tolerance?"""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple

import numpy as np

from bestarm.bounds import contrast_delta
from bestarm.checks import interval, not_negative, suggestion, whole
from bestarm.errors import InvalidInputError, ProtocolError
from bestarm.evaluation.evidence import MeanEvidence
from bestarm.numerics.geometry import Array
from bestarm.policies.policy import Policy, Traits, check_adoptable, has_stopped, same_plan
from bestarm.policies.stepwise import require_pullable_targets
from bestarm.problem import Problem, as_problem
from bestarm.recommendation import Recommendation
from bestarm.records import BlockPlan, Plan, Rounds, Summary

_GROWTH = 0.05  # the items of a plan, relative to those before it, …
_FIRST = 8  # … and at least
State = Literal["not worse", "worse", "undecided"]


class Verdict(NamedTuple):
    """What a gate says of one option.

    Attributes:
        option: its name.
        state: whether it is shown to be not worse than the control by more than the tolerance, or
            shown to be worse than the control.
        lead: its mean score less the control's, on the items judged for both.
        low: a lower bound on that over all items.
        high: an upper bound. Each bound holds at every moment, but for the gate's share of δ.
        items: how many items both were judged on.
    """

    option: str
    state: State
    lead: float
    low: float
    high: float
    items: int


class Gate(Policy):
    """Judge the control and the options that are open, on items in random order.

    An option passes once its mean over all items is shown to exceed the control's mean less the
    tolerance, and fails once it is shown to be below the control's mean, whichever comes first.
    No option can be wrong in both ways, so each way may use all of the option's share of δ, which
    is δ/(H − 1). When all items are judged the means are known: an option that is worse by no more
    than the tolerance passes.

    Args:
        problem: the problem; its targets must be its source arms, and its features are not used.
        bounds: the lowest and the highest score; one outside is refused.
        items: the number of items.
        control: the name of the control.
        tolerance: how much worse than the control an option may be.
        seed: accepted like every policy's; nothing is drawn.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.evaluation.gate import Gate
        >>> gate = Gate(Problem(["main", "new"]), bounds=(0, 1), items=9, control="main")
        >>> gate.verdicts[0].state
        'undecided'
    """

    version: ClassVar[int] = 1

    def __init__(
        self,
        problem: Problem,
        *,
        bounds: tuple[float, float],
        items: int,
        control: str,
        tolerance: float = 0.0,
        seed: int = 0,  # noqa: ARG002
    ) -> None:
        self.problem = as_problem(problem)
        require_pullable_targets(problem, "A gate")
        self._low, self._high = self._bounds = interval(bounds, "bounds")
        self._plans = self._pulls = self._rounds = 0
        self._open: Plan | None = None
        self._stopped: str | None = None
        self._items = whole(items, "items", least=1)
        self._tolerance = not_negative(tolerance, "tolerance")
        labels = problem.source_labels
        if control not in labels:
            raise InvalidInputError(
                f"There is no option {control!r}.",
                field="control",
                value=control,
                remedy=suggestion(str(control), labels) or f"Options are {', '.join(labels)}.",
            )
        self._control = self._leader = labels.index(control)
        self._candidates = np.delete(np.arange(problem.arms), self._control)
        reach = self._high - self._low
        # Of the lead of each option, and of what the control leads by.
        self._leads, self._lags = (
            MeanEvidence(problem.arms - 1, items=self._items, reach=reach) for _ in range(2)
        )
        self._states: list[State] = ["undecided"] * (problem.arms - 1)
        self._judged, self._differences = np.zeros((2, problem.arms - 1))

    @property
    def traits(self) -> Traits:
        """What the policy declares about itself."""
        return Traits(
            version=self.version,
            bounds=self._bounds,
            margin=self._tolerance,
            control=self._control,
        )

    @property
    def share(self) -> float:
        """The probability with which an option may ever be let through, or stopped, wrongly."""
        return contrast_delta(self.problem.delta, active=self.problem.arms)

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """What is known of every option but the control."""
        lows, highs = self._leads.lower(share=self.share), -self._lags.lower(share=self.share)
        means = self._differences / np.maximum(self._judged, 1.0)
        return tuple(
            Verdict(
                self.problem.source_labels[option],
                self._states[row],
                float(np.clip(means[row], lows[row], highs[row])),
                float(lows[row]),
                float(highs[row]),
                int(self._leads.seen[row]),
            )
            for row, option in enumerate(self._candidates.tolist())
        )

    @property
    def _open_rows(self) -> list[int]:
        return [row for row, state in enumerate(self._states) if state == "undecided"]

    @property
    def _block(self) -> list[int]:
        return sorted([*self._candidates[self._open_rows].tolist(), self._control])

    def plan(self) -> Plan | None:
        """The next items, for the control and the options that are not decided."""
        if self._stopped is None and self._open is None:
            self._open = self._make_plan()
        return self._open

    def _make_plan(self) -> Plan:
        block = self._block
        rounds = min(max(_FIRST, int(_GROWTH * self._rounds)), self._items - self._rounds)
        return BlockPlan.drawn(
            [block],
            [1.0],
            rounds,
            arms=self.problem.arms,
            phase=self._plans + 1,
            open=True,
            most=rounds * len(block),  # no more: the next plan begins where this one ends
        )

    def update(self, summary: Summary) -> None:
        """Take the outcome of the plan, and go on or stop."""
        plan = self.plan()
        if plan is None:
            raise has_stopped()
        plan.check(summary)
        self._take_in(summary)
        self._plans += 1
        self._open = None

    def adopt(self, plan: Plan) -> None:
        """Make a recorded plan the current one."""
        phase = None if self._stopped is not None else self._plans + 1
        check_adoptable(plan, self.problem, phase=phase, kind="randomised")
        if self._open is not None and same_plan(self._open, plan):
            return
        fits = isinstance(plan, BlockPlan) and np.array_equal(plan.blocks, [self._block])
        if not fits or plan.rounds > self._items - self._rounds:
            raise ProtocolError(
                f"The plan of phase {plan.phase} is not one of this gate.",
                field="plan",
                value=plan.phase,
                remedy="Adopt a plan that this policy made, with the same `items`.",
            )
        self._open = plan

    def _take_in(self, summary: Summary) -> None:
        """Bet on the lead of every option that is open, and decide."""
        assert isinstance(summary, Rounds)
        outside = (summary.table < self._low) | (summary.table > self._high)
        for _, column in np.argwhere(outside)[:1]:
            label = self.problem.source_labels[int(summary.blocks[0][column])]
            raise InvalidInputError(
                f"{label!r} has a score outside the bounds ({self._low:g}, {self._high:g}).",
                field="summary",
                value=summary,
                remedy="Give `bounds` that no score can exceed.",
            )
        scores = np.full((len(summary.table), self.problem.arms), np.nan)
        scores[:, summary.blocks[0]] = summary.table
        is_open = np.array([state == "undecided" for state in self._states], dtype=float)
        for evidence, sign in ((self._leads, 1.0), (self._lags, -1.0)):
            for leads in self._least_leads(scores, sign):
                evidence.add(leads[:, None], is_open[:, None])
        both = scores[:, self._candidates] - scores[:, [self._control]]
        self._judged += (~np.isnan(both)).sum(axis=0)
        self._differences += np.nansum(both, axis=0)
        self._rounds += len(scores)
        self._pulls += scores.size - int(np.isnan(scores).sum())
        self._decide(last=self._rounds == self._items)
        means = self._differences / np.maximum(self._judged, 1.0)
        means[[state == "worse" for state in self._states]] = -np.inf
        best = int(np.argmax(means))
        self._leader = int(self._candidates[best]) if means[best] > 0 else self._control
        if not self._open_rows:
            self._stopped = "exact" if self._rounds == self._items else "identified"
        elif self._rounds == self._items:
            self._stopped = "exhausted"

    def _least_leads(self, scores: Array, sign: float) -> Array:
        """The least that each lead, or each lag, can be, item by item."""
        worst, best = (self._low, self._high) if sign > 0 else (self._high, self._low)
        own = scores[:, self._candidates]
        own = np.where(np.isnan(own), worst, own)
        control = scores[:, [self._control]]
        return np.asarray(sign * (own - np.where(np.isnan(control), best, control)))

    def _decide(self, *, last: bool) -> None:
        passes = self._leads.shows(-self._tolerance, share=self.share)
        fails = self._lags.shows(0.0, share=self.share)
        slack = 1e-9 * (self._high - self._low)
        for row in self._open_rows:
            if last and self._judged[row] == self._items:
                behind = -self._differences[row] / self._items
                self._states[row] = "worse" if behind > self._tolerance + slack else "not worse"
            elif passes[row]:
                self._states[row] = "not worse"
            elif fails[row]:
                self._states[row] = "worse"

    def recommend(self) -> Recommendation:
        """The best of the options that are not worse, or the control; final once all are decided.

        Its statement is what the gate says.
        """
        decided = not self._open_rows
        failed = [self._candidates[row] for row, s in enumerate(self._states) if s == "worse"]
        claims = self.problem.delta
        return Recommendation(
            target=self._leader,
            label=self.problem.target_labels[self._leader],
            final=decided,
            reason=self._stopped or "running",
            pulls=self._pulls,
            error_bound=claims if decided else None,
            active=tuple(np.setdiff1d(np.arange(self.problem.arms), failed).tolist()),
            assumptions=self._assumptions(),
            statement=gate_statement(
                self.verdicts, self.problem.target_labels[self._control], self._tolerance, claims
            ),
            claims=claims,
            rounds=self._rounds,
            leads=bool(self._rounds),
        )

    def _assumptions(self) -> tuple[str, ...]:
        return (
            f"Every score lies between {self._low:g} and {self._high:g}.",
            f"The {self._items} items come in random order, each once.",
        )


def gate_statement(
    verdicts: tuple[Verdict, ...], control: str, tolerance: float, delta: float
) -> str:
    """What a gate says, in words."""
    more = f", by more than {tolerance:g}" if tolerance else ""
    words = {
        "not worse": f"not worse than {control!r}, the control{more}",
        "worse": f"worse than {control!r}, the control",
        "undecided": f"not decided against {control!r}, the control",
    }
    parts = []
    for state, word in words.items():
        names = [repr(each.option) for each in verdicts if each.state == state]
        if names:
            listed = ", ".join(names[:-1]) + (" and " if names[1:] else "") + names[-1]
            parts.append(f"{listed} {'is' if len(names) == 1 else 'are'} {word}.")
    if any(each.state != "undecided" for each in verdicts):
        parts.append(
            "The probability that this gate ever lets an option through that is worse by that "
            f"much, or stops one that is not worse, is at most {delta:g}."
            if tolerance
            else "The probability that this gate ever lets a worse option through, or stops one "
            f"that is not worse, is at most {delta:g}."
        )
    return " ".join(parts)
