"""The laws every policy keeps, as a test that can be run on any method.

    from bestarm.testing import check_policy

    def test_my_method_keeps_the_contract():
        check_policy(MyMethod, Problem([[1, 0], [0, 1], [0.6, 0.8]]))

An engine, a store and a live experiment rely on these laws and on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from bestarm.errors import ProtocolError
from bestarm.geometry import Array
from bestarm.policies.policy import Method, Policy
from bestarm.problem import Problem
from bestarm.records import Plan, Recommendation, Summary

__all__ = ["LinearRewards", "Pull", "check_policy"]

Pull = Callable[[Plan, np.random.Generator], Summary]


class LinearRewards:
    """Carries out plans under rewards x·θ + small noise, no baseline, with a clear best target.

    The best target is the one farthest from the targets' mean; θ points at it and is scaled so
    that its lead over the next is 0.4 × the problem's scale: small enough for an elimination
    method to need a second phase, large enough for the noise (1 % of the lead) not to matter.

    Args:
        problem: what is to be simulated.
    """

    def __init__(self, problem: Problem) -> None:
        coordinates = problem.span.contrast_coordinates(problem.target - problem.target[0])
        centered = coordinates - coordinates.mean(axis=0)
        self.best = int(np.argmax(np.einsum("ij,ij->i", centered, centered)))
        theta = problem.span.dual @ centered[self.best]
        values = problem.target @ theta
        lead = values[self.best] - np.delete(values, self.best).max()
        self.means: Array = problem.source @ theta * (0.4 * problem.scale / lead)
        self.noise = 0.004 * problem.scale

    def __call__(self, plan: Plan, rng: np.random.Generator) -> Summary:
        """Draw the totals of a plan's pulls, exactly in law whatever their number."""
        counts = _counts(plan, rng)
        # Over n pulls the noise has Σ η = √n g and Σ η² = g² + χ²(n − 1), with g normal.
        normal = rng.standard_normal(len(counts)) * (counts > 0)
        spread = rng.chisquare(np.maximum(counts - 1, 1)) * (counts > 1)
        noise = self.noise * np.sqrt(counts) * normal
        return Summary(
            counts,
            counts * self.means + noise,
            counts * self.means**2 + 2 * self.means * noise + self.noise**2 * (normal**2 + spread),
        )


def check_policy(
    method: Method,
    problem: Problem,
    *,
    seed: int = 0,
    pull: Pull | None = None,
    max_plans: int = 10_000,
) -> None:
    """Run a method on a problem and raise AssertionError at the first law its policy breaks.

    Args:
        method: makes a policy: `method(problem, seed=seed)`.
        problem: an easy problem of the kind the method is for.
        seed: given to the method; also seeds the simulated rewards.
        pull: carries out a plan; `LinearRewards(problem)` when left out.
        max_plans: plans after which a run that has not stopped counts as one that never will.
    """
    clear = LinearRewards(problem)
    case = _Case(method, problem, seed, pull or clear, max_plans)
    run = case.run()
    for law in _LAWS:
        law(case, run)
    if pull is not None:
        run = _Case(method, problem, seed, clear, max_plans).run()
    _finds_a_clear_best(clear, run)


@dataclass(frozen=True)
class _Step:
    """A moment of a run: the open plan, what is recommended, and the summary that came next."""

    plan: Plan | None
    recommendation: Recommendation
    summary: Summary | None
    # Taken at once: policies may share arrays, and one writing over another's must show.
    planned: object
    recommended: object


@dataclass(frozen=True)
class _Case:
    method: Method
    problem: Problem
    seed: int
    pull: Pull
    max_plans: int

    def policy(self, problem: Problem | None = None) -> Policy:
        problem = problem or self.problem
        policy = self.method(problem, seed=self.seed)
        _require(isinstance(policy, Policy), "the method made something that is not a Policy")
        _require(policy.problem is problem, "policy.problem is not the problem given")
        return policy

    def run(self) -> list[_Step]:
        policy, rng = self.policy(), np.random.default_rng(self.seed)
        steps: list[_Step] = []
        for number in range(1, self.max_plans + 2):
            recommendation, plan = _recommend(policy), policy.plan()
            if plan is None:
                return [*steps, _step(None, recommendation, None)]
            # Before it is carried out: a pull needs a plan that fits.
            _the_plan_fits_the_problem(self, plan, number)
            summary = self.pull(plan, rng)
            steps.append(_step(plan, recommendation, summary))
            policy.update(summary)
        raise AssertionError(f"The policy did not stop within {self.max_plans} plans.")

    def replay(self, run: list[_Step]) -> Iterator[tuple[Policy, _Step]]:
        """A fresh policy, brought to each moment of a run by its summaries alone."""
        policy = self.policy()
        for step in run:
            yield policy, step
            if step.summary is not None:
                policy.update(step.summary)


def _step(plan: Plan | None, recommendation: Recommendation, summary: Summary | None) -> _Step:
    return _Step(plan, recommendation, summary, _fingerprint(plan), _fingerprint(recommendation))


def _the_plan_fits_the_problem(case: _Case, plan: Plan, number: int) -> None:
    arms = case.problem.arms
    _require(isinstance(plan, Plan), f"plan {number} is {plan!r}, which is not a Plan")
    _require(plan.arms == arms, f"plan {number} is over {plan.arms} arms, not {arms}")
    _require(plan.phase == number, f"plan {number} has the phase number {plan.phase}")
    _require(plan.pulls >= 1, f"plan {number} asks for {plan.pulls} pulls")


def _same_summaries_give_the_same_run(case: _Case, run: list[_Step]) -> None:
    for policy, step in case.replay(run):
        _require_unchanged(policy, step, "a second policy was told the same summaries")


def _asking_changes_nothing(case: _Case, run: list[_Step]) -> None:
    for policy, step in case.replay(run):
        for _ in range(2):
            _scribble(policy.plan())
            _scribble(_recommend(policy))
            _require_unchanged(policy, step, "it was asked, and what it gave was written over")


def _wrong_summaries_are_refused(case: _Case, run: list[_Step]) -> None:
    for policy, step in case.replay(run):
        if step.plan is None or step.summary is None:
            continue
        for wrong, summary in _wrong(step.plan, step.summary):
            _require_refused(partial(policy.update, summary), f"a summary with {wrong}")
            _require_unchanged(policy, step, f"it refused a summary with {wrong}")


def _the_end_is_the_end(case: _Case, run: list[_Step]) -> None:
    one = (np.arange(case.problem.arms) == 0).astype(int)
    last = run[-2].summary if len(run) > 1 else None
    for policy, step in case.replay(run):
        if step.plan is None:
            summary = last or Summary(one, one, one)
            _require_refused(partial(policy.update, summary), "a summary after its end")
            _require_unchanged(policy, step, "it refused a summary after its end")


def _recommendations_are_sound(case: _Case, run: list[_Step]) -> None:
    pulls = 0
    for step in run:
        it, moment = step.recommendation, f"after {pulls} pulls"
        valid = 0 <= it.target < case.problem.targets
        _require(valid, f"{moment} it recommends target {it.target}, which does not exist")
        label = case.problem.target_labels[it.target]
        _require(it.label == label, f"target {label!r} is labelled {it.label!r} {moment}")
        _require(it.pulls == pulls, f"the recommendation {moment} speaks of {it.pulls}")
        _require(not (it.final and step.plan), f"{moment} it is final while a plan is open")
        _require(
            it.final == (it.reason == "identified"),
            f"{moment} final is {it.final} and the reason {it.reason!r}",
        )
        _require(
            (it.reason == "running") == (step.plan is not None),
            f"{moment} the reason is {it.reason!r} and a plan is {'open' if step.plan else 'not'}",
        )
        active = set(it.active) <= set(range(case.problem.targets)) and it.active
        _require(bool(active), f"the active targets {moment} are {it.active}")
        _check_proof(it, moment)
        pulls += step.plan.pulls if step.plan else 0


def _check_proof(it: Recommendation, moment: str) -> None:
    """A bound is claimed beforehand, and holds for a final answer that nothing contradicts."""
    claim = it.claims is None or 0 <= it.claims <= 1
    _require(claim, f"the error bound claimed {moment} is {it.claims}")
    holds = it.claims if it.final and not it.contradicted else None
    _require(
        it.error_bound == holds,
        f"the error bound {moment} is {it.error_bound}, where `claims` is {it.claims}, `final` "
        f"{it.final} and `contradicted` {it.contradicted}",
    )


def _recorded_plans_are_adopted(case: _Case, run: list[_Step]) -> None:
    """Handed the plans it made, a fresh policy does what it did, and goes on as it went on."""
    for until in {len(run), len(run) // 2}:
        policy = case.policy()
        for number, step in enumerate(run):
            if step.plan is not None and number < until:
                for _ in range(2):
                    _adopt(policy, _copied(step.plan))
                planned = _fingerprint(policy.plan())
                _require(planned == step.planned, "it does not plan what it adopted")
            after = f"after it adopted {min(number, until)} plans of the same run"
            same = _fingerprint(policy.plan()) == step.planned
            _require(same, f"its plan is another {after}")
            said = _fingerprint(_without_gaps(_recommend(policy)))
            same = said == _fingerprint(_without_gaps(step.recommendation))
            _require(same, f"its recommendation is another {after}")
            if step.summary is not None:
                policy.update(step.summary)


def _plans_made_elsewhere_are_adopted(case: _Case, run: list[_Step]) -> None:
    """A plan that the policy would not have made is used as it is, in place of its own."""
    for asked in (False, True):
        policy, rng = case.policy(), np.random.default_rng(case.seed)
        pulls = 0
        for step in run[:3]:
            plan = policy.plan() if asked else step.plan
            if plan is None or policy.recommend().reason != "running":
                break
            other = _other(plan)
            _adopt(policy, other)
            same = _fingerprint(policy.plan()) == _fingerprint(other)
            _require(same, "it does not plan what it adopted")
            policy.update(case.pull(other, rng))
            pulls += other.pulls
            said = _recommend(policy).pulls
            _require(said == pulls, f"told {pulls} pulls of adopted plans, it speaks of {said}")


def _wrong_plans_are_not_adopted(case: _Case, run: list[_Step]) -> None:
    plans = [step.plan for step in run if step.plan is not None]
    for number, (policy, step) in enumerate(case.replay(run)):
        if step.plan is not None and number >= 3:
            continue  # of many plans, the first few show it
        if step.plan is None:
            wrong = [
                ("a plan after its end", replace(plan, phase=len(plans) + 1)) for plan in plans
            ]
            wrong = wrong[-1:]
        else:
            wrong = [
                ("a plan of another phase", replace(step.plan, phase=step.plan.phase + 1)),
                ("a plan over an arm too many", _wider(step.plan)),
            ]
        for what, plan in wrong:
            _require_refused(partial(policy.adopt, plan), what)
            _require_unchanged(policy, step, f"it refused {what}")


def _adopt(policy: Policy, plan: Plan) -> None:
    try:
        policy.adopt(plan)
    except Exception as error:
        raise AssertionError("adopt() must take every plan that fits; it raised.") from error


def _copied(plan: Plan) -> Plan:
    """The plan as a store would give it back: equal, in arrays of its own."""
    weights = None if plan.weights is None else np.array(plan.weights)
    counts = None if plan.counts is None else np.array(plan.counts)
    return replace(plan, weights=weights, counts=counts)


def _other(plan: Plan) -> Plan:
    """A plan for the same arms, of twice the pulls and with other probabilities."""
    if plan.weights is None:
        return replace(plan, pulls=2 * plan.pulls, counts=2 * np.array(plan.counts))
    weights = plan.weights * (1 + np.arange(plan.arms) / plan.arms)
    return replace(plan, pulls=2 * plan.pulls, weights=weights / weights.sum())


def _wider(plan: Plan) -> Plan:
    weights = None if plan.weights is None else np.append(plan.weights, 0.0)
    counts = None if plan.counts is None else np.append(plan.counts, 0)
    return replace(plan, weights=weights, counts=counts)


def _without_gaps(said: Recommendation) -> Recommendation:
    """Without the certified gaps of designs, which a record of plans does not hold."""
    return replace(said, trace=tuple(replace(phase, gap=None) for phase in said.trace))


def _labels_are_only_names(case: _Case, run: list[_Step]) -> None:
    problem = case.problem
    # Names that sort the other way round, so that nothing can hang on their order.
    renamed = Problem(
        problem.source,
        problem.target,
        delta=problem.delta,
        noise=problem.noise,
        baseline=problem.baseline,
        source_labels=[f"renamed {i:09d}" for i in reversed(range(problem.arms))],
        target_labels=[f"renamed {i:09d}" for i in reversed(range(problem.targets))],
    )
    policy = case.policy(renamed)
    for step in run:
        same = _fingerprint(policy.plan()) == step.planned
        same &= _recommend(policy).target == step.recommendation.target
        _require(same, "with other labels it makes other plans or recommends another target")
        if step.summary is not None:
            policy.update(step.summary)


_PLAIN = frozenset({bool, float, int, str, type(None)})

_LAWS = (
    _recommendations_are_sound,
    _same_summaries_give_the_same_run,
    _asking_changes_nothing,
    _wrong_summaries_are_refused,
    _recorded_plans_are_adopted,
    _plans_made_elsewhere_are_adopted,
    _wrong_plans_are_not_adopted,
    _the_end_is_the_end,
    _labels_are_only_names,
)


def _finds_a_clear_best(rewards: LinearRewards, run: list[_Step]) -> None:
    best, named = rewards.best, run[-1].recommendation.target
    _require(named == best, f"it named target {named} where {best} is far better than all others")


def _require(condition: bool, otherwise: str) -> None:
    # Not a bare assert: the contract must hold under `python -O` too.
    if not condition:
        raise AssertionError(f"The policy breaks its contract: {otherwise}.")


def _require_unchanged(policy: Policy, step: _Step, occasion: str) -> None:
    plan = _fingerprint(policy.plan())
    _require(plan == step.planned, f"its plan is another after {occasion}")
    recommendation = _fingerprint(_recommend(policy))
    _require(recommendation == step.recommended, f"its recommendation is another after {occasion}")


def _require_refused(call: Callable[[], None], what: str) -> None:
    try:
        call()
    except ProtocolError:
        return
    except Exception as error:
        kind = type(error).__name__
        raise AssertionError(f"The policy met {what} with {kind}, not ProtocolError.") from error
    raise AssertionError(f"The policy accepted {what}; it must raise ProtocolError.")


def _recommend(policy: Policy) -> Recommendation:
    try:
        return policy.recommend()
    except Exception as error:
        raise AssertionError("recommend() must work at every moment; it raised.") from error


def _counts(plan: Plan, rng: np.random.Generator) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    if plan.weights is None:
        return np.array(plan.counts, dtype=np.int64)
    counts = np.zeros(plan.arms, dtype=np.int64)
    # Over the support alone: rounding must not send a pull to an arm of no weight.
    support = np.flatnonzero(plan.weights)
    weights = plan.weights[support]
    counts[support] = rng.multinomial(plan.pulls, weights / weights.sum())
    return counts


def _wrong(plan: Plan, summary: Summary) -> Iterator[tuple[str, Summary]]:
    """Summaries that cannot be the outcome of a plan, each with what is wrong with it."""
    counts, sums, squares = summary.counts, summary.sums, summary.squares
    pulled = int(np.argmax(counts))
    one = (np.arange(plan.arms) == pulled).astype(int)
    if not plan.open:
        yield "one pull too many", Summary(counts + one, sums, squares)
    yield "one pull too few", Summary(counts - one, sums, squares)
    counted, summed, squared = (np.append(part, 0) for part in (counts, sums, squares))
    yield "an arm too many", Summary(counted, summed, squared)
    yield "an arm too few", Summary(counts[1:], sums[1:], squares[1:])
    # Pulls moved to an arm that the plan does not pull, or not that often.
    other = np.arange(plan.arms) == (pulled + 1) % plan.arms
    if plan.weights is not None:
        other = np.arange(plan.arms) == np.argmin(plan.weights)
    if plan.weights is None or plan.weights.min() == 0:
        yield "a pull on another arm than planned", Summary(counts - one + other, sums, squares)


def _scribble(value: object) -> None:
    """Write over every array of a value that can be written to."""
    if isinstance(value, np.ndarray):
        if value.flags.writeable:
            value[...] = 0
        return
    parts = _parts(value)
    if parts and not _PLAIN.issuperset(map(type, parts)):
        for part in parts:
            _scribble(part)


def _fingerprint(value: object) -> object:
    """Something that is equal exactly when values agree to the last bit, NaN included."""
    if isinstance(value, np.ndarray):
        return (value.shape, value.dtype.str, value.tobytes())
    parts = _parts(value)
    if parts is None:
        return repr(value)
    if _PLAIN.issuperset(map(type, parts)):  # most are; the trace of a long run holds thousands
        return repr(parts)
    return tuple(map(_fingerprint, parts))


def _parts(value: object) -> tuple[object, ...] | None:
    """What a value is made of, or None if that is nothing but itself."""
    if isinstance(value, (tuple, list)):
        return tuple(value)
    kind: Any = type(value)
    names = _field_names(kind)
    return tuple([getattr(value, name) for name in names]) if names else None


@lru_cache(maxsize=64)
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()
