"""Randomisation with the probabilities of a protocol: nothing adapts, and nothing is decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np

from bestarm.checks import choice, interval, positive
from bestarm.errors import InvalidInputError, ProtocolError
from bestarm.numerics.geometry import Array, first_largest
from bestarm.policies.policy import Traits, has_stopped
from bestarm.policies.stepwise import StepwisePolicy
from bestarm.problem import Problem, as_weights
from bestarm.records import Plan, Summary

_LEAST, _GROWTH = 50, 10  # pulls of a plan: so many, and later a tenth of those before it


class Fixed(StepwisePolicy):
    """Every pull is drawn with the same probabilities, whatever the outcomes are.

    It names the arm with the largest mean so far and claims nothing. Plans only divide the record:
    a live experiment never waits between two of them.

    Args:
        problem: the problem; its targets must be its source arms.
        probabilities: the probability of every option by name, each above 0; or `"equal"`.
        max_pulls: stop at exactly this many pulls, once the outcome of each is in or lost; if left
            out, it goes on until it is stopped.
        bounds: the lowest and the highest reward; others are refused.
        control: the name of the option that others are compared with.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.policies import Fixed
        >>> protocol = {"no message": 0.6, "message": 0.4}
        >>> Fixed(Problem(list(protocol)), probabilities=protocol).plan().weights.tolist()
        [0.6, 0.4]
    """

    version: ClassVar[int] = 1
    _budgeted = True
    _transductive = False

    def __init__(
        self,
        problem: Problem,
        *,
        probabilities: Mapping[str, float] | Literal["equal"],
        max_pulls: int | None = None,
        bounds: tuple[float, float] | None = None,
        control: str | None = None,
    ) -> None:
        super().__init__(problem, max_pulls=max_pulls)
        self._probabilities = _read_probabilities(probabilities, problem)
        self._bounds = None if bounds is None else interval(bounds, "bounds")
        if control is not None:
            choice(control, problem.target_labels, "control")
        self._control = None if control is None else problem.target_labels.index(control)
        self._counts, self._sums = np.zeros((2, problem.arms))
        self._outstanding: dict[int, tuple[Plan, Summary]] = {}  # by phase

    @property
    def traits(self) -> Traits:
        """What the policy declares about itself."""
        return replace(super().traits, control=self._control, decides=False)

    def _make_plan(self) -> Plan:
        most = None if self._max_pulls is None else self._pulls_left()
        pulls = max(_LEAST, self._pulls // _GROWTH)
        if most is not None:
            # With nothing left to draw the plan stands for the wait for outstanding outcomes.
            pulls = max(1, min(pulls, most))
        phase = self._plans + 1
        return Plan.randomised(
            self._probabilities, pulls, phase=phase, open=True, most=most, provisional=True
        )

    def _check_adopted(self, plan: Plan) -> None:
        if type(plan) is not Plan or not plan.provisional:
            raise ProtocolError(
                f"The plan of phase {plan.phase} is not of a fixed randomisation.",
                field="plan",
                value=plan.phase,
                remedy="Adopt a plan that this policy made earlier.",
            )

    def update(self, summary: Summary) -> None:
        """Take the outcomes of the plan; some may be outstanding."""
        plan = self.plan()
        if plan is None:
            raise has_stopped()
        plan.check(summary)
        self._plans += 1
        self._pulls += int(summary.drawn.sum())
        self._rounds = self._pulls
        self._open = None
        if summary.pending_pulls:
            self._outstanding[plan.phase] = plan, summary
        self._observe(plan, summary)

    def amend(self, summary: Summary, *, phase: int) -> None:
        """Take outcomes that were outstanding when the plan of their phase ended."""
        plan, before = self._outstanding.get(phase, (None, None))
        if plan is None or before is None:
            return super().amend(summary, phase=phase)
        plan.check(summary, beyond=True)
        after = before.amended(summary)
        self._outstanding[phase] = plan, after
        if not after.pending_pulls:
            del self._outstanding[phase]
        self._observe(plan, summary)
        return None

    def _observe(self, plan: Plan, summary: Summary) -> None:  # noqa: ARG002
        """Add outcomes; stop if all pulls are made and none of their outcomes is outstanding."""
        self._counts += summary.counts
        self._sums += summary.rewards
        self._note_answered(summary.counts)
        pulled = np.flatnonzero(self._counts)
        if len(pulled):
            self._leader = int(pulled[first_largest(self._sums[pulled] / self._counts[pulled])])
        if self._pulls_left() <= 0 and not self._outstanding:
            self._stopped, self._open = "max_pulls", None


def _read_probabilities(given: object, problem: Problem) -> Array:
    """The probability of every arm."""
    labels = problem.source_labels
    if given == "equal":
        return as_weights(np.full(problem.arms, 1 / problem.arms), problem.arms)
    if not isinstance(given, Mapping) or set(given) != set(labels):
        raise InvalidInputError(
            f"`probabilities` must have one for each of {', '.join(labels)}; got {given!r}.",
            field="probabilities",
            value=given,
            remedy='Name every option, like {"no message": 0.6, "message": 0.4}, or write "equal".',
        )
    shares = [positive(given[label], "probabilities") for label in labels]
    return as_weights(shares, problem.arms, "probabilities")
