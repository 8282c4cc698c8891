"""The base of most policies: a plan, its outcome, and then the next plan or a reason to stop."""

from __future__ import annotations

import sys
from abc import abstractmethod
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from bestarm.checks import whole
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array, Indices
from bestarm.policies.policy import Policy, Traits, check_adoptable, has_stopped, same_plan
from bestarm.problem import Problem, as_problem
from bestarm.recommendation import FINAL, Phase, Recommendation
from bestarm.records import Plan, Summary

NO_DRIFT = "The mean reward of an option, given the past, never changes: nothing drifts."


class StepwisePolicy(Policy):
    """A policy that is told the whole of each plan, and then goes on or stops.

    Subclasses make a plan (`_make_plan`) and observe its outcome (`_observe`). They keep the
    targets that are left in `_active`, the one that they would name in `_leader`, and, if they have
    any, their phases in `_trace`.

    Args:
        problem: the problem.
        max_pulls: stop at this many pulls, without an answer.
        budget: stop at this many pulls, because that is all there are.
    """

    version: ClassVar[int | None] = None  # what these declare: see `Traits`
    _blind: ClassVar[bool] = False
    _runs_presampled: ClassVar[bool] = False
    _budgeted: bool = False
    _bounds: tuple[float, float] | None = None
    _kind: ClassVar[Literal["randomised", "fixed"]] = "randomised"  # of its plans
    _transductive: ClassVar[bool] = True  # whether targets may be others than the source arms

    def __init__(
        self, problem: Problem, *, max_pulls: int | None = None, budget: int | None = None
    ) -> None:
        self.problem = as_problem(problem)
        if not self._transductive:
            require_pullable_targets(problem, type(self).__name__)
        self._max_pulls = None if max_pulls is None else whole(max_pulls, "max_pulls", least=1)
        self._budget = None if budget is None else whole(budget, "budget", least=1)
        self._budgeted = self._budgeted or budget is not None
        self._active: Indices = np.arange(problem.targets)
        self._leader = 0
        self._answered = set[int]()  # arms with an outcome
        self._trace: list[Phase] = []
        self._plans = self._pulls = self._rounds = 0
        self._open: Plan | None = None
        self._gap: float | None = None  # of the open plan's design: how far it is from its optimum
        self._stopped: str | None = None

    @property
    def traits(self) -> Traits:
        """What the policy declares about itself."""
        return Traits(
            version=self.version,
            blind=self._blind,
            bounds=self._bounds,
            max_pulls=self._max_pulls,
            budgeted=self._budgeted,
            runs_presampled=self._runs_presampled,
        )

    def has_stopped(self) -> bool:
        """Whether there is nothing more to plan."""
        return self._stopped is not None

    def plan(self) -> Plan | None:
        """The next plan, or None once the policy has stopped."""
        if self._stopped is None and self._open is None:
            self._open = self._make_plan()
        return self._open

    def adopt(self, plan: Plan) -> None:
        """Make a recorded plan the current one: its pulls, drawn with its probabilities."""
        phase = None if self._stopped is not None else self._plans + 1
        check_adoptable(plan, self.problem, phase=phase, kind=self._kind)
        if self._open is None or not same_plan(self._open, plan):
            self._check_adopted(plan)
            self._open, self._gap = plan, None  # a plan on record does not contain its gap

    def update(self, summary: Summary) -> None:
        """Take the outcome of the plan, and go on or stop."""
        plan = self.plan()
        if plan is None:
            raise has_stopped()
        plan.check(summary)
        reason = self._observe(plan, summary)
        self._note_answered(summary.counts)
        self._end_plans(1, plan.pulls, plan.rounds, reason)

    def _end_plans(self, plans: int, pulls: int, rounds: int, reason: str | None) -> None:
        """Count what was pulled; stop for this reason, or where no pull is left."""
        self._plans += plans
        self._pulls += pulls
        self._rounds += rounds
        self._open = None
        if reason is None and self._pulls_left() <= 0:
            spent = self._budget is not None and self._pulls >= self._budget
            reason = "budget" if spent else "max_pulls"
        self._stopped = reason

    def recommend(self) -> Recommendation:
        """The target that leads; final only if it was identified."""
        final = self._stopped in FINAL
        assumptions = self._assumptions()
        claims = self.problem.delta if assumptions else None
        return Recommendation(
            target=self._leader,
            label=self.problem.target_labels[self._leader],
            final=final,
            reason=self._stopped or "running",
            pulls=self._pulls,
            error_bound=claims if final else None,
            active=tuple(self._active.tolist()),
            trace=tuple(self._trace),
            assumptions=assumptions,
            claims=claims,
            rounds=None if self._rounds == self._pulls else self._rounds,
            leads=not self.problem.unstructured or self._leader in self._answered,
        )

    def _note_answered(self, counts: Indices) -> None:
        """Note which arms have an outcome: a plain name without one does not lead."""
        self._answered.update(np.flatnonzero(counts).tolist())

    def _end_phase(
        self,
        plan: Plan,
        dropped: NDArray[np.bool_],
        *,
        contrasts: Array,
        radii: Array,
        delta: float,
        weights: Array,
        value: float,
        stability: float | None = None,
    ) -> None:
        """Keep the trace of a phase that `_leader` leads (see `Phase`), and drop active targets."""
        self._trace.append(
            Phase(
                phase=plan.phase,
                active=tuple(self._active.tolist()),
                eliminated=tuple(self._active[dropped].tolist()),
                leader=self._leader,
                contrasts=tuple(contrasts.tolist()),
                radii=tuple(radii.tolist()),
                delta=delta,
                pulls=plan.pulls,
                weights=weights,
                value=value,
                gap=self._gap,
                stability=stability,
            )
        )
        self._active = self._active[~dropped]

    def _pulls_left(self) -> int:
        """How many pulls the cap and the budget leave."""
        caps = [cap for cap in (self._max_pulls, self._budget) if cap is not None]
        return min(caps, default=sys.maxsize) - self._pulls

    @abstractmethod
    def _make_plan(self) -> Plan:
        """The next plan. Must not change what the policy knows."""

    def _check_adopted(self, plan: Plan) -> None:
        """Raise ProtocolError if a recorded plan cannot be the next one for reasons of its own."""

    @abstractmethod
    def _observe(self, plan: Plan, summary: Summary) -> str | None:
        """Learn from the outcome of a plan; the reason to stop, or None to go on.

        The plan's pulls are not in `_pulls` yet. Whatever is refused is refused before anything
        changes.
        """

    def _assumptions(self) -> tuple[str, ...]:
        """What a proven error probability rests on; empty if none is proven."""
        return ()


def sub_gaussian_assumptions(sigma: float) -> tuple[str, ...]:
    """What proofs for rewards around fixed arm means rest on."""
    return (
        f"Rewards are {sigma:g}-sub-Gaussian around their option's mean, given the past.",
        NO_DRIFT,
    )


def require_pullable_targets(problem: Problem, method: str) -> None:
    """Raise unless the targets are the source arms themselves, in their order."""
    as_problem(problem)
    if not problem.compares_arms:
        raise InvalidInputError(
            f"{method} chooses among the arms it pulls, and these targets are not the source.",
            field="target",
            value=problem.target.shape,
            remedy="Leave `target` out, or use SPBAI without a preset, which takes any targets.",
        )
