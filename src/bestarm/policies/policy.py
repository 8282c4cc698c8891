"""The protocol every method follows: a small state machine that plans, is told totals, recommends.

A plan that was carried out is a fact. Nothing of a policy is pickled: to recover one, a fresh one
adopts every plan on record and is told its summary. Designs are solved for new plans only.

What a policy can do beyond that, and what its verdict means, it declares in `Traits`. No other
layer knows the name of a policy or of one of its options.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from bestarm.errors import InvalidInputError, ProtocolError
from bestarm.numerics.geometry import Array
from bestarm.presampled import PresampledRewards
from bestarm.problem import Problem
from bestarm.recommendation import Recommendation
from bestarm.records import Plan, Summary


@dataclass(frozen=True)
class Traits:
    """What a policy declares about itself.

    Attributes:
        version: the version of its arithmetic, raised with every change after which it would decide
            otherwise, told the same summaries of the same plans. (A change of new plans alone needs
            no new version, because plans on record are adopted.) A stored experiment goes on with
            the version that began it. None for a policy without versions.
        blind: whether it ignores the baseline, and can therefore be misled by it.
        bounds: the interval outside of which it refuses rewards; None if it takes all.
        mean_bound: the bound on |x·θ| that its claim rests on; None for the problem's scale.
        names: how many targets it names.
        margin: how much worse than the best of the others a named target may be, in reward units.
        evidence_needed: the log of the evidence at which it drops a target; None if it gathers no
            evidence.
        precision: how narrow it makes the interval of its effect before it stops: half its width,
            in reward units; None if it stops once it is sure.
        max_pulls: the number of pulls at which it stops in any case, or None.
        budgeted: whether it stops when its pulls are spent, and not when it is sure.
        decides: whether it ever names a winner; a fixed randomisation only collects outcomes.
        runs_presampled: whether `run_presampled` makes rounds.
        side_by_side: whether `group` makes many runs at a time.
        changes: whether options may be added and retired while it runs. Such a policy takes a
            summary of fewer pulls than its plan asked for.
        control: the target that effects are measured against, or None.
    """

    version: int | None = None
    blind: bool = False
    bounds: tuple[float, float] | None = None
    mean_bound: float | None = None
    names: int = 1
    margin: float = 0.0
    evidence_needed: float | None = None
    precision: float | None = None
    max_pulls: int | None = None
    budgeted: bool = False
    decides: bool = True
    runs_presampled: bool = False
    side_by_side: bool = False
    changes: bool = False
    control: int | None = None

    @property
    def names_the_best(self) -> bool:
        """Whether it names one target as the best, neither several nor one within a margin."""
        return self.names == 1 and not self.margin


@dataclass(frozen=True, eq=False)
class Look:
    """What a policy knows about every target between two plans.

    Attributes:
        leader: the target that it would name now.
        estimate: estimated leader − target, one value per target.
        low: the lower end of an interval for it that holds at every moment at once.
        high: the upper end.
        log_evidence: the log of the evidence against each target, as `evidence_needed` measures it.
    """

    leader: int
    estimate: Array
    low: Array
    high: Array
    log_evidence: Array


@dataclass(frozen=True, eq=False)
class Rates:
    """What every target would have paid on average in the rounds whose outcome is in.

    Attributes:
        estimate: the estimated average of each target. Differences are the estimated contrasts.
        low: the lower end of an interval for it.
        high: the upper end.
        rounds: how many rounds the averages are over: those whose outcome is in, up to the first
            batch that lacks some; lost ones are not among them.
        delta: the probability with which any of the intervals, at any moment, misses its average.
        binary: whether every reward so far is 0 or 1, so that these are rates of success.
    """

    estimate: Array
    low: Array
    high: Array
    rounds: int
    delta: float
    binary: bool = False


@runtime_checkable
class Policy(Protocol):
    """What an engine, a store or a route may ask of a method; none of them knows which it is.

    Derive a policy from this class. `problem`, `plan`, `adopt`, `update` and `recommend` are its
    own; all others have defaults, for policies without these abilities.
    """

    problem: Problem  # that the policy was made for

    @property
    def traits(self) -> Traits:
        """What the policy declares about itself."""
        return Traits()

    def plan(self) -> Plan | None:
        """The next plan, or None once the policy has stopped. Asking twice gives the same plan."""
        ...

    def adopt(self, plan: Plan) -> None:
        """Make a recorded plan the current one: it was made earlier, maybe on another machine.

        Its weights or counts and its pulls are taken as they are, and everything that depends on
        them uses exactly these. No design is solved. A plan that this policy made but was not told
        of yet is replaced; adopting the current plan again changes nothing.

        Raises ProtocolError, and changes nothing, if the policy has stopped or the plan cannot be
        its next one: see `check_adoptable`.
        """
        ...

    def update(self, summary: Summary) -> None:
        """Take the outcome of exactly the current plan.

        Raises ProtocolError, and changes nothing, if no plan is open or the summary does not fit.
        """
        ...

    def recommend(self) -> Recommendation:
        """The target the policy would name now; `final` says whether it has identified it."""
        ...

    def amend(self, summary: Summary, *, phase: int) -> None:  # noqa: ARG002
        """Take further outcomes of pulls that were drawn under the plan of an earlier phase.

        Only policies that make open plans are asked to. If that plan was provisional, the outcomes
        are of pulls that its summary had as `pending`; if not, of pulls beyond those in its
        summary, and the phase is the previous one, or one before it if options were added or
        retired since. The current plan may be out, and stays as it is.

        Raises ProtocolError, and changes nothing, if no outcome of that phase is awaited.
        """
        raise ProtocolError(
            f"No outcome of phase {phase} is awaited: {type(self).__name__} makes no open plans.",
            field="phase",
            value=phase,
            remedy="Tell a policy that makes closed plans the whole plan at once.",
        )

    def add(self, problem: Problem) -> None:  # noqa: ARG002
        """Go on with a problem that has one more option: the last of its arms and targets.

        Called when no plan is open. All options stay numbered as they are.

        Raises ProtocolError, and changes nothing, unless `traits.changes`.
        """
        raise cannot_change(self)

    def retire(self, target: int) -> None:  # noqa: ARG002
        """Go on without an option, for good: it has no probability in later plans.

        Called when no plan is open, even if the last summary named it. All options stay numbered as
        they are. Outcomes of its earlier pulls may follow.

        Raises ProtocolError, and changes nothing, unless `traits.changes`.
        """
        raise cannot_change(self)

    def look(self) -> Look | None:
        """What the policy knows about every target now; None if it says so per phase only."""
        return None

    def rates(self) -> Rates | None:
        """What every target pays on average; None before outcomes, or if it does not say."""
        return None

    def has_stopped(self) -> bool:
        """Whether there is nothing more to plan."""
        return self.plan() is None

    def run_presampled(self, presampled: PresampledRewards) -> tuple[int, int]:  # noqa: ARG002
        """Make whole plans at once, on rewards that were drawn before the arms are chosen.

        Simulations use it if `traits.runs_presampled`. The policy looks only at pulls that it uses,
        each once and in their order.

        Returns:
            The numbers of pulls made and of plans they stand for. (0, 0), with nothing changed,
            asks for the next plan to be carried out as usual.
        """
        return 0, 0

    def like(self) -> Hashable:
        """What runs have in common that `group` makes side by side: by default problem and traits.

        Options that do not show in these must be added: an `Oracle` may bind others in each world.
        """
        return type(self), self.problem, self.traits

    def group(
        self,
        seeds: Sequence[int],  # noqa: ARG002
        forecaster: GroupForecaster | None = None,  # noqa: ARG002
    ) -> Group:
        """Runs of this policy side by side, each with the seed of what it draws itself.

        Simulations use it if `traits.side_by_side`.

        Args:
            seeds: one per run.
            forecaster: makes the forecasts that are subtracted from rewards, if any are.

        Raises:
            ProtocolError: it makes one run at a time.
        """
        raise ProtocolError(
            f"{type(self).__name__} makes one run at a time.",
            field="group",
            remedy="Ask only policies whose `traits.side_by_side` is true.",
        )


class GroupForecaster(Protocol):
    """Forecasts of runs side by side."""

    def follow_runs(
        self, sizes: NDArray[np.int64], features: Array, rewards: Array, /
    ) -> NDArray[np.float64]:
        """The forecasts of the next draws of every run, each from the outcomes before it.

        Args:
            sizes: how many draws each run has. What follows is of one run after the other.
            features: of the arms that are drawn, one row per draw.
            rewards: one per draw.
        """
        ...

    def select(self, kept: NDArray[np.int64], /) -> None:
        """Go on with these runs alone."""
        ...


class Group(Protocol):
    """Runs of one policy side by side, for simulations: arrays have one entry per run.

    Attributes:
        running: which runs have not stopped.
        pulls: pulls so far.
        plans: plans so far.
    """

    running: NDArray[np.bool_]
    pulls: NDArray[np.int64]
    plans: NDArray[np.int64]

    def run_presampled(self, runs: NDArray[np.int64], rewards: Sequence[PresampledRewards]) -> None:
        """Give these runs rewards of pulls to come, in the place of what was left of others.

        Then all runs carry out plans, until each has stopped or has fewer rewards than its next
        plan asks for.
        """
        ...

    def wanted(self) -> dict[int, tuple[int, int]]:
        """For each run that lacks rewards: how many it used of the last ones, and needs next."""
        ...

    def recommend(self, run: int) -> Recommendation:
        """What the policy of a run recommends."""
        ...


class Method(Protocol):
    """Makes a policy from a problem: a policy class, or a `functools.partial` of one.

    Some options have one meaning wherever a constructor takes them: `seed`, for what the policy
    draws itself; `max_pulls`, the pulls at which to stop in any case, and never with a final
    answer; `budget`, the pulls to make; `bounds`, between which all rewards lie; `mean_bound`,
    which no |x·θ| exceeds; `block`, the pulls per round. Simulations offer them: see
    `registry.accepted`. Live experiments ask for `changes`, whether options may be added and
    retired, unless the policy refuses it by that field, and show `floors`, the least probability of
    options by name.
    """

    def __call__(self, problem: Problem, /, *args: Any, **options: Any) -> Policy:
        """Make a policy."""
        ...


def has_stopped() -> ProtocolError:
    """What a policy raises when it is told an outcome after its last plan."""
    return ProtocolError(
        "The policy has stopped and takes no more outcomes.",
        field="summary",
        remedy="Read `recommend()`.",
    )


def cannot_change(policy: Policy) -> ProtocolError:
    """What a policy raises whose options are not added or retired."""
    return ProtocolError(
        f"{type(policy).__name__} was not made for options that are added or retired.",
        field="changes",
        remedy="Use a policy whose `traits.changes` is true, as AnytimeBAI(…, changes=True).",
    )


def check_adoptable(
    plan: Plan,
    problem: Problem,
    *,
    phase: int | None,
    kind: Literal["randomised", "fixed"] | None = None,
) -> Plan:
    """Give a recorded plan back, or raise if it cannot be a policy's next one.

    Args:
        plan: the plan on record.
        problem: the policy's problem.
        phase: the number of the policy's next plan; None if the policy has stopped.
        kind: the kind of plan that the policy makes; None where it makes both.
    """
    if not isinstance(plan, Plan):
        raise InvalidInputError(
            f"`plan` must be a Plan; got {type(plan).__name__}.",
            field="plan",
            value=plan,
            remedy="Adopt a plan that this policy made earlier.",
        )
    faults = (
        (
            phase is None,
            f"The policy has stopped and cannot adopt the plan of phase {plan.phase}.",
            "Read `recommend()`.",
        ),
        (
            plan.phase != phase,
            f"The next plan is that of phase {phase}; got one of phase {plan.phase}.",
            "Adopt recorded plans in their order, each followed by its summary.",
        ),
        (
            plan.arms != problem.arms,
            f"The plan is over {plan.arms} arms; the problem has {problem.arms}.",
            "Adopt a plan that was made for this problem.",
        ),
        (
            kind is not None and (plan.weights is None) != (kind == "fixed"),
            f"The policy makes {kind} plans; the plan of phase {phase} is of the other kind.",
            "Adopt a plan that the same policy made.",
        ),
    )
    for wrong, message, remedy in faults:
        if wrong:
            raise ProtocolError(message, field="plan", value=plan.phase, remedy=remedy)
    return plan


def same_plan(one: Plan, other: Plan) -> bool:
    """Whether two plans agree in everything, to the last bit."""
    return type(one) is type(other) and all(
        np.array_equal(getattr(one, part.name), getattr(other, part.name)) for part in fields(one)
    )
