"""Copies of a correct policy, each broken in one place."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
from halving_policies import Halving

from bestarm.errors import ProtocolError
from bestarm.numerics.geometry import Array
from bestarm.policies import Traits
from bestarm.problem import Problem
from bestarm.recommendation import Recommendation
from bestarm.records import Plan, Summary

__all__ = ["BROKEN", "Broken", "TakesAnyArm"]


@dataclass(frozen=True)
class Broken:
    """A law, a policy that breaks it and the words the contract finds for that."""

    law: str
    policy: type[Halving]
    words: str


BROKEN: list[Broken] = []


def breaks(law: str, *, words: str) -> Callable[[type[Halving]], type[Halving]]:
    def register(policy: type[Halving]) -> type[Halving]:
        BROKEN.append(Broken(law, policy, words))
        return policy

    return register


@breaks("is a policy", words="not a Policy")
class NotAPolicy(Halving):
    def __new__(cls, *_: object, **__: object) -> Any:
        return object()


@breaks("plan() gives plans", words="not a Plan")
class PlansNumbers(Halving):
    def plan(self) -> Any:
        return super().plan() and 100


@breaks("plan() twice is the same plan", words="plan differs")
class PlansAnew(Halving):
    def __init__(self, problem: Problem, *, seed: int) -> None:
        super().__init__(problem, seed=seed)
        self.asked = count(1)

    def weights(self) -> Array:
        weights = super().weights() + next(self.asked) * np.spacing(1.0)
        return np.asarray(weights / weights.sum())


@breaks("plans share no array with the policy", words="plan differs")
class LendsItsArrays(Halving):
    def __init__(self, problem: Problem, *, seed: int) -> None:
        super().__init__(problem, seed=seed)
        self.own = super().weights()

    def plan(self) -> Plan | None:
        plan = super().plan()
        return plan and Plan(plan.phase, plan.pulls, weights=self.own)


@breaks("recommendations share no array with the policy", words="recommendation differs")
class LendsItsTrace(Halving):
    def recommend(self) -> Recommendation:
        return replace(super().recommend(), trace=tuple(self.trace))


@breaks("policies share no array with each other", words="recommendation differs")
class SharesItsWeights(Halving):
    shared: dict[int, Array] = {}  # noqa: RUF012

    def recommend(self) -> Recommendation:
        trace = [
            replace(phase, weights=self.shared.setdefault(phase.phase, phase.weights))
            for phase in self.trace
        ]
        return replace(super().recommend(), trace=tuple(trace))


@breaks("plans are over the source arms", words="over 3 arms, not 4")
class PlansOverTargets(Halving):
    def plan(self) -> Plan | None:
        plan = super().plan()
        return plan and Plan.randomised(np.full(3, 1 / 3), plan.pulls, phase=plan.phase)

    def check(self, summary: Summary) -> None:
        pass

    def values(self, summary: Summary) -> Array:
        return np.arange(self.problem.targets, dtype=float)


@breaks("phases are numbered from 1", words="phase number 0")
class CountsFromZero(Halving):
    def plan(self) -> Plan | None:
        plan = super().plan()
        return plan and replace(plan, phase=plan.phase - 1)


@breaks("traits are declared as Traits", words="not a Traits")
class DeclaresWords(Halving):
    traits = "proven"  # type: ignore[assignment]


@breaks("traits never change", words="its traits became")
class ChangesItsMind(Halving):
    @property
    def traits(self) -> Traits:
        return Traits(blind=self.recommend().pulls > 0)


@breaks("it names as many targets as it declares", words="declares 2")
class DeclaresTwo(Halving):
    @property
    def traits(self) -> Traits:
        return Traits(names=2)


@breaks("evidence that is needed can be seen", words="shows none")
class ShowsNoEvidence(Halving):
    @property
    def traits(self) -> Traits:
        return Traits(evidence_needed=3.0)


@breaks("an adopted plan is the next one", words="plan is not the one that it adopted")
class PlansForItself(Halving):
    def adopt(self, plan: Plan) -> None:
        super().adopt(plan)
        self.adopted = None


@breaks(
    "a plan of one's own gives way to one on record", words="plan is not the one that it adopted"
)
class InsistsOnItsPlan(Halving):
    def __init__(self, problem: Problem, *, seed: int) -> None:
        super().__init__(problem, seed=seed)
        self.asked = False

    def plan(self) -> Plan | None:
        self.asked |= self.adopted is None
        return super().plan()

    def adopt(self, plan: Plan) -> None:
        super().adopt(plan)
        if self.asked:
            self.adopted = None
            self.asked = False


@breaks("adopting is no other way to go on", words="its plan differs after it adopted 1 plans")
class CountsItsOwnPlans(Halving):
    def adopt(self, plan: Plan) -> None:
        super().adopt(plan)
        self.rotation += 1


@breaks("an adopted plan's pulls are counted", words="its recommendation counts")
class CountsAsPlanned(Halving):
    def update(self, summary: Summary) -> None:
        before = self.pulls
        super().update(summary)
        self.pulls = before + self.size


@breaks("a plan of another phase is not adopted", words="accepted a plan of another phase")
class AdoptsAnyPhase(Halving):
    def adopt(self, plan: Plan) -> None:
        super().adopt(plan if self.stopped() else replace(plan, phase=len(self.trace) + 1))


@breaks("a plan over other arms is not adopted", words="accepted a plan over an arm too many")
class AdoptsAnyArms(Halving):
    def adopt(self, plan: Plan) -> None:
        if plan.arms > self.problem.arms and plan.phase == len(self.trace) + 1:
            self.adopted = plan
        else:
            super().adopt(plan)


@breaks("nothing is adopted after the end", words="accepted a plan after its end")
class AdoptsAfterTheEnd(Halving):
    def adopt(self, plan: Plan) -> None:
        if not self.stopped():
            super().adopt(plan)


@breaks("a plan that fits is adopted", words="adopt() must take every plan that fits")
class AdoptsNothing(Halving):
    def adopt(self, plan: Plan) -> None:
        raise ProtocolError("No.", field="plan")


@breaks("the policy knows its problem", words="not the problem it was made for")
class CopiesTheProblem(Halving):
    def __init__(self, problem: Problem, *, seed: int) -> None:
        super().__init__(problem, seed=seed)
        self.problem = Problem(problem.source, problem.target, target_labels=problem.target_labels)


@breaks("the run stops", words="did not stop within 40 plans")
class NeverStops(Halving):
    def stopped(self) -> str | None:
        return None


@breaks("summaries alone make the run", words="told the same summaries")
class HasHiddenRandomness(Halving):
    made = count()

    def __init__(self, problem: Problem, *, seed: int) -> None:
        super().__init__(problem, seed=seed + next(self.made))


@breaks("asking for a recommendation changes nothing", words="differs")
class CountsQuestions(Halving):
    def recommend(self) -> Recommendation:
        self.rotation += 1
        return super().recommend()


@breaks("recommend() works before the first update", words="at every moment")
class NeedsData(Halving):
    def recommend(self) -> Recommendation:
        self.trace[-1]
        return super().recommend()


class LooseHalving(Halving):
    """Accepts totals that do not fit, as the breaks below do in one way each."""

    def check(self, summary: Summary) -> None:
        try:
            super().check(summary)
        except ProtocolError as error:
            if not self.lets_pass(error, summary):
                raise

    def lets_pass(self, error: ProtocolError, summary: Summary) -> bool:
        raise NotImplementedError


@breaks("a summary of the wrong size is refused", words="one pull too many")
class TakesAnyTotal(LooseHalving):
    def lets_pass(self, error: ProtocolError, summary: Summary) -> bool:
        return "asks for" in str(error) and "holds" in str(error)


@breaks("a short summary is refused", words="one pull too few")
class TakesLess(LooseHalving):
    def lets_pass(self, error: ProtocolError, summary: Summary) -> bool:
        return "holds" in str(error) and summary.pulls < self.size


@breaks("a summary over other arms is refused with ProtocolError", words="raised ValueError")
class TakesAnyArms(Halving):
    def check(self, summary: Summary) -> None:
        if len(summary.counts) > self.problem.arms:
            raise ValueError("boolean index did not match")
        super().check(summary)


@breaks("a summary with pulls on arms of no weight is refused", words="another arm than planned")
class TakesAnyArm(LooseHalving):
    def lets_pass(self, error: ProtocolError, summary: Summary) -> bool:
        return "do not fit the plan" in str(error)


@breaks("a refused summary changes nothing", words="after it refused a summary")
class CountsBeforeChecking(Halving):
    def update(self, summary: Summary) -> None:
        self.pulls += summary.pulls
        super().update(summary)
        self.pulls -= summary.pulls


@breaks("nothing is accepted after the end", words="accepted a summary after its end")
class GoesOn(LooseHalving):
    def lets_pass(self, error: ProtocolError, summary: Summary) -> bool:
        return self.stopped() is not None


@breaks("no plan after the end", words="final while a plan is open")
class PlansAfterTheEnd(Halving):
    def plan(self) -> Plan | None:
        if self.stopped() and len(self.trace) < self.phases:
            return Plan.randomised(self.weights(), self.size, phase=len(self.trace) + 1)
        return super().plan()


class Misreports(Halving):
    change: dict[str, object]

    def recommend(self) -> Recommendation:
        return replace(super().recommend(), **self.change)  # type: ignore[arg-type]


MISREPORTS: list[tuple[str, str, dict[str, object]]] = [  # law, words, what is misreported
    ("the target exists", "target 9, which does not exist", {"target": 9}),
    ("the label is the target's", "is labelled 'me'", {"label": "me"}),
    ("pulls are those of the plans", "counts 7 pulls", {"pulls": 7}),
    ("final only at the end", "final while a plan is open", {"final": True}),
    (
        "identified means final",
        "final is False and the reason 'identified'",
        {"final": False},
    ),
    (
        "equivalent means final",
        "final is False and the reason 'equivalent'",
        {"final": False, "reason": "equivalent"},
    ),
    (
        "running means a plan is open",
        "reason is 'max_pulls'",
        {"final": False, "reason": "max_pulls"},
    ),
    ("some target is active", "active targets", {"active": ()}),
    ("an error bound is a probability", "error bound", {"claims": 1.5, "error_bound": 1.5}),
    ("an error bound is claimed beforehand", "`claims` is None", {"error_bound": 0.05}),
    ("a claim holds once it is final", "error bound after", {"claims": 0.05}),
    (
        "nothing is proven of contradicted rewards",
        "`contradicted` True",
        {"claims": 0.05, "error_bound": 0.05, "contradicted": True},
    ),
]
for law, words, change in MISREPORTS:
    BROKEN.append(Broken(law, type("Misreports", (Misreports,), {"change": change}), words))


@breaks("labels are only names", words="with other labels")
class ReadsLabels(Halving):
    def weights(self) -> Array:
        weights = super().weights()
        return weights if self.problem.source_labels[0] == "0" else weights[::-1]


@breaks("a clear best is found", words="is far better")
class FindsTheWorst(Halving):
    def values(self, summary: Summary) -> Array:
        return -super().values(summary)


@breaks("a copy goes its own way", words="it was copied")
class CountsInTheOriginal(Halving):
    def __init__(self, problem: Problem, *, seed: int) -> None:
        super().__init__(problem, seed=seed)
        self.count: Callable[[], int] = lambda: self.pulls  # a copy calls the same function

    def recommend(self) -> Recommendation:
        return replace(super().recommend(), pulls=self.count())


@breaks("a copy leaves the original alone", words="a copy of it was told")
class SharesItsTrace(Halving):
    def __deepcopy__(self, _: object) -> SharesItsTrace:
        return copy(self)
