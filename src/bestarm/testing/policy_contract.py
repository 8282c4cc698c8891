"""The rules that every policy keeps, as a test for any method.

    from bestarm.testing import check_policy

    def test_my_method_keeps_the_contract():
        check_policy(MyMethod, Problem([[1, 0], [0, 1], [0.6, 0.8]]))

The engine, the store and the live experiment rely on these rules and on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import Error as CopyError
from copy import deepcopy
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import lru_cache, partial
from typing import Any, NoReturn

import numpy as np

from bestarm.errors import ProtocolError
from bestarm.numerics.geometry import Array
from bestarm.policies.policy import Method, Policy, Traits
from bestarm.policies.registry import accepted, make_policy
from bestarm.problem import Problem
from bestarm.recommendation import FINAL, Phase, Recommendation
from bestarm.records import BlockPlan, Plan, Rounds, Summary

Pull = Callable[[Plan, np.random.Generator], Summary]

_MOST_SHOWN = 20  # summaries in a note


def check_policy(
    method: Method,
    problem: Problem,
    *,
    seed: int = 0,
    pull: Pull | None = None,
    max_plans: int = 10_000,
) -> None:
    """Run a method on a problem; raise AssertionError at the first rule that its policy breaks.

    A note on the error, or on one that the policy raises, has the lines that repeat it: the
    problem, the seed and the rewards that the policy had been told.

    Args:
        method: makes a policy from the problem, and from the seed if it takes one.
        problem: an easy problem of the kind that the method is for.
        seed: of the policy, if it draws anything itself, and of the simulated rewards.
        pull: carries out a plan; `LinearRewards(problem)` if left out.
        max_plans: the number of plans within which the policy must stop.
    """
    clear = LinearRewards(problem)
    case = _Case(method, problem, seed, pull or clear, max_plans)
    try:
        run = case.run()
        for rule in _RULES:
            rule(case, run)
        if pull is not None:
            case = replace(case, pull=clear)
            run = case.run()
        best, named = clear.best, run[-1].recommendation.target
        words = f"it named target {named} where {best} is far better than all others"
        _require(named == best, words)
    except Exception as error:
        error.add_note(_how_to_repeat(case))
        raise


@dataclass(frozen=True)
class _Step:
    """A moment of a run: the open plan, the recommendation, and the next summary."""

    plan: Plan | None
    recommendation: Recommendation
    summary: Summary | None
    # Taken at once: policies may share arrays, and overwriting a shared one must show.
    planned: object
    recommended: object


@dataclass(frozen=True)
class _Case:
    method: Method
    problem: Problem
    seed: int
    pull: Pull
    max_plans: int
    told: list[Summary] = field(default_factory=list)  # to the latest policy

    def policy(self, problem: Problem | None = None) -> Policy:
        problem = problem or self.problem
        self.told.clear()
        policy: Policy = make_policy(self.method, problem, seed=self.seed)
        _require(isinstance(policy, Policy), "the method made something that is not a Policy")
        _require(policy.problem is problem, "policy.problem is not the problem it was made for")
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
            self.told.append(summary)
            policy.update(summary)
        raise AssertionError(f"The policy did not stop within {self.max_plans} plans.")

    def replay(
        self, run: list[_Step], problem: Problem | None = None
    ) -> Iterator[tuple[Policy, _Step]]:
        """A new policy, brought to each moment of a run by its summaries alone."""
        policy = self.policy(problem)
        for step in run:
            yield policy, step
            if step.summary is not None:
                self.told.append(step.summary)
                policy.update(step.summary)


def _how_to_repeat(case: _Case) -> str:
    """The lines that bring a new policy to where the latest one was."""
    problem, told = case.problem, case.told
    target = None if problem.target is problem.source else problem.target.tolist()
    scales = f"delta={problem.delta!r}, noise={problem.noise!r}, baseline={problem.baseline!r}"
    seed = f", seed={case.seed}" if accepted(case.method, seed=case.seed) else ""
    lines = [
        "The same call of check_policy repeats it, rewards included. Alone:",
        f"problem = Problem({problem.source.tolist()}, {target}, {scales})",
        f"policy = method(problem{seed})",
    ]
    if any(isinstance(summary, Rounds) for summary in told):
        lines.append(f"# and {len(told)} summaries of rounds, as check_policy drew them")
    elif told:
        lines.append("for totals in [  # counts, sums and squares")
        for summary in told[:_MOST_SHOWN]:
            totals = (summary.counts, summary.sums, summary.squares)
            lines.append(f"    ({', '.join(str(part.tolist()) for part in totals)}),")
        if len(told) > _MOST_SHOWN:
            lines.append(f"    # and {len(told) - _MOST_SHOWN} more")
        lines += ["]:", "    policy.update(Summary(*totals))"]
    return "\n".join(lines)


def _step(plan: Plan | None, recommendation: Recommendation, summary: Summary | None) -> _Step:
    return _Step(plan, recommendation, summary, _fingerprint(plan), _fingerprint(recommendation))


def _the_plan_fits_the_problem(case: _Case, plan: object, number: int) -> None:
    arms = case.problem.arms
    if not isinstance(plan, Plan):  # only then: writing out the arrays of a plan takes long
        _break(f"plan {number} is {plan!r}, which is not a Plan")
    _require(plan.arms == arms, f"plan {number} is over {plan.arms} arms, not {arms}")
    _require(plan.phase == number, f"plan {number} has the phase number {plan.phase}")
    _require(plan.pulls >= 1, f"plan {number} asks for {plan.pulls} pulls")


def _same_summaries_give_the_same_run(case: _Case, run: list[_Step]) -> None:
    for policy, step in case.replay(run):
        _require_unchanged(policy, step, "a second policy was told the same summaries")


def _asking_changes_nothing(case: _Case, run: list[_Step]) -> None:
    for policy, step in case.replay(run):
        for _ in range(2):
            _overwrite_arrays(policy.plan())
            _overwrite_arrays(_recommend(policy))
            _require_unchanged(policy, step, "it was asked, and its answer was overwritten")


def _a_copy_goes_its_own_way(case: _Case, run: list[_Step]) -> None:
    """A live experiment copies its policy, if it can be copied, and tells the copy."""
    policy = case.policy()
    for step in run[:4]:  # the first few suffice
        _require_unchanged(policy, step, "it was copied, and the copy was told the same summaries")
        if step.summary is None:
            return
        try:
            copied = deepcopy(policy)
        except (TypeError, CopyError):
            return
        copied.update(step.summary)
        _require_unchanged(policy, step, "a copy of it was told a summary")
        policy = copied


def _wrong_summaries_are_refused(case: _Case, run: list[_Step]) -> None:
    one = (np.arange(case.problem.arms) == 0).astype(int)
    last = Summary(one, one, one)
    for policy, step in case.replay(run):
        wrong = [("a summary after its end", last)]
        if step.plan is not None and step.summary is not None:
            last = step.summary
            wrong = list(_wrong_summaries(step.plan, last))
        for fault, summary in wrong:
            _require_refused(partial(policy.update, summary), fault)
            _require_unchanged(policy, step, f"it refused {fault}")


def _recommendations_are_sound(case: _Case, run: list[_Step]) -> None:
    pulls = 0
    for step in run:
        it, moment = step.recommendation, f"after {pulls} pulls"
        valid = 0 <= it.target < case.problem.targets
        _require(valid, f"{moment} it recommends target {it.target}, which does not exist")
        label = case.problem.target_labels[it.target]
        _require(it.label == label, f"target {label!r} is labelled {it.label!r} {moment}")
        _require(it.pulls == pulls, f"the recommendation {moment} counts {it.pulls} pulls")
        measuring = it.reason == "measuring"
        early = it.final and step.plan and not measuring
        _require(not early, f"{moment} it is final while a plan is open")
        _require(
            it.final == (it.reason in FINAL),
            f"{moment} final is {it.final} and the reason {it.reason!r}",
        )
        _require(
            (it.reason == "running" or measuring) == (step.plan is not None),
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
    """Given the plans of a run, a new policy decides and continues as that run did.

    It adopts the first half of them, or all. What it does up to there is the same in both cases,
    and compared in the first.
    """
    expected, half = [_without_gaps(step.recommendation) for step in run], len(run) // 2
    for until, compared in ((half, 0), (len(run), half)):
        for number, (policy, step) in enumerate(case.replay(run)):
            if step.plan is not None and number < until:
                for _ in range(2):
                    _adopt(policy, replace(deepcopy(step.plan)))  # as a store would return it
            if number >= compared:
                planned = _fingerprint(policy.plan()) == step.planned
                if number < until and step.plan is not None:
                    _require(planned, "its plan is not the one that it adopted")
                after = f"after it adopted {min(number, until)} plans of the same run"
                _require(planned, f"its plan differs {after}")
                same = _without_gaps(_recommend(policy)) == expected[number]
                _require(same, f"its recommendation differs {after}")


def _plans_made_elsewhere_are_adopted(case: _Case, run: list[_Step]) -> None:
    """A plan that the policy would not have made is used unchanged, instead of its own."""
    for asked in (False, True):
        policy, rng = case.policy(), np.random.default_rng(case.seed)
        pulls = 0
        for step in run[:3]:
            plan = policy.plan() if asked else step.plan
            if plan is None or policy.recommend().reason != "running":
                break
            other = altered_plan(plan)
            _adopt(policy, other)
            same = _fingerprint(policy.plan()) == _fingerprint(other)
            _require(same, "its plan is not the one that it adopted")
            policy.update(case.pull(other, rng))
            pulls += other.pulls
            counted = _recommend(policy).pulls
            _require(
                counted == pulls,
                f"after {pulls} pulls of adopted plans, its recommendation counts {counted}",
            )


def _wrong_plans_are_not_adopted(case: _Case, run: list[_Step]) -> None:
    plans = [step.plan for step in run if step.plan is not None]
    for number, (policy, step) in enumerate(case.replay(run)):
        if step.plan is not None and number >= 3:
            continue  # the first few plans suffice
        wrong = [("a plan after its end", replace(plan, phase=number + 1)) for plan in plans[-1:]]
        if step.plan is not None:
            wrong = [
                ("a plan of another phase", replace(step.plan, phase=step.plan.phase + 1)),
                ("a plan over an arm too many", _widened_plan(step.plan)),
            ]
        for fault, plan in wrong:
            _require_refused(partial(policy.adopt, plan), fault)
            _require_unchanged(policy, step, f"it refused {fault}")


def _adopt(policy: Policy, plan: Plan) -> None:
    try:
        policy.adopt(plan)
    except Exception as error:
        raise AssertionError("adopt() must take every plan that fits; it raised.") from error


def _without_gaps(answer: Recommendation) -> object:
    """Its fingerprint without the certified gaps of designs, which plans on record lack."""
    kept = [name for name in _field_names(Phase) if name != "gap"]
    trace = [tuple([getattr(phase, name) for name in kept]) for phase in answer.trace]
    return (_fingerprint(replace(answer, trace=())), _fingerprint(trace))


def _labels_are_only_names(case: _Case, run: list[_Step]) -> None:
    problem = case.problem
    # Names that sort the other way round, so that nothing can depend on their order.
    renamed = Problem(
        problem.source,
        problem.target,
        delta=problem.delta,
        noise=problem.noise,
        baseline=problem.baseline,
        source_labels=[f"renamed {i:09d}" for i in reversed(range(problem.arms))],
        target_labels=[f"renamed {i:09d}" for i in reversed(range(problem.targets))],
    )
    for policy, step in case.replay(run, renamed):
        same = _fingerprint(policy.plan()) == step.planned
        same &= _recommend(policy).target == step.recommendation.target
        _require(same, "with other labels it makes other plans or recommends another target")


_PLAIN = frozenset({bool, float, int, str, type(None)})


def _traits_hold_throughout(case: _Case, run: list[_Step]) -> None:
    traits = case.policy().traits
    _require(isinstance(traits, Traits), f"its traits are {traits!r}, which is not a Traits")
    for policy, step in case.replay(run):
        _require(policy.traits == traits, f"its traits became {policy.traits!r} on the way")
        named = len(step.recommendation.chosen or (step.recommendation.target,))
        _require(named == traits.names, f"it names {named} targets and declares {traits.names}")
        look = policy.look()
        if look is not None:
            size = case.problem.targets
            parts = (look.estimate, look.low, look.high, look.log_evidence)
            sizes = {np.shape(part) for part in parts}
            _require(sizes == {(size,)}, f"a look has values of the shapes {sizes}, not {size}")
        shown = look is not None or traits.evidence_needed is None
        _require(shown, "it declares the evidence that it needs, and shows none in `look()`")


_RULES = (
    _recommendations_are_sound,
    _same_summaries_give_the_same_run,
    _asking_changes_nothing,
    _a_copy_goes_its_own_way,
    _wrong_summaries_are_refused,
    _recorded_plans_are_adopted,
    _plans_made_elsewhere_are_adopted,
    _wrong_plans_are_not_adopted,
    _labels_are_only_names,
    _traits_hold_throughout,
)


def _require(condition: bool, otherwise: str) -> None:
    # Not a bare assert: the contract must hold under `python -O` too.
    if not condition:
        _break(otherwise)


def _break(how: str) -> NoReturn:
    raise AssertionError(f"The policy breaks its contract: {how}.")


def _require_unchanged(policy: Policy, step: _Step, occasion: str) -> None:
    plan = _fingerprint(policy.plan())
    _require(plan == step.planned, f"its plan differs after {occasion}")
    recommendation = _fingerprint(_recommend(policy))
    _require(recommendation == step.recommended, f"its recommendation differs after {occasion}")


def _require_refused(call: Callable[[], None], what: str) -> None:
    try:
        call()
    except ProtocolError:
        return
    except Exception as error:
        kind = type(error).__name__
        raise AssertionError(
            f"The policy raised {kind} for {what}; it must raise ProtocolError."
        ) from error
    raise AssertionError(f"The policy accepted {what}; it must raise ProtocolError.")


def _recommend(policy: Policy) -> Recommendation:
    try:
        return policy.recommend()
    except Exception as error:
        raise AssertionError("recommend() must work at every moment; it raised.") from error


def _overwrite_arrays(value: object) -> None:
    """Write over every array of a value that can be written to."""
    if isinstance(value, np.ndarray):
        if value.flags.writeable:
            value[...] = 0
        return
    parts = _parts(value)
    if parts and not _PLAIN.issuperset(map(type, parts)):
        for part in parts:
            _overwrite_arrays(part)


def _fingerprint(value: object) -> object:
    """Something that is equal exactly when values agree to the last bit, NaN included."""
    if isinstance(value, np.ndarray):
        return (value.shape, value.dtype.str, value.tobytes())
    parts = _parts(value)
    if parts is None:
        return repr(value)
    if _PLAIN.issuperset(map(type, parts)):  # most are; the trace of a long run holds thousands
        return repr(parts)
    return tuple([repr(part) if type(part) in _PLAIN else _fingerprint(part) for part in parts])


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


# --- rewards, plans and summaries to test with ---------------------------------------------------


class LinearRewards:
    """Carries out plans under rewards x·θ + small noise, no baseline, with a clear best target.

    The best target is the one farthest from the mean of the targets; θ points at it and is scaled
    so that its lead over the next is 0.4 times the problem's scale: small enough for an elimination
    method to need a second phase, large enough for the noise (1 % of the lead) not to matter.

    Args:
        problem: the problem to simulate.
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
        """Draw the totals of a plan's pulls, with their exact distribution."""
        if isinstance(plan, BlockPlan):
            return self._rounds(plan, rng)
        counts = plan.counts
        if counts is None:
            assert plan.weights is not None
            counts, drawn = np.zeros(plan.arms, dtype=np.int64), np.flatnonzero(plan.weights)
            chances = plan.weights[drawn]
            counts[drawn] = rng.multinomial(plan.pulls, chances / chances.sum())
        # Over n pulls the noise has Σ η = √n g and Σ η² = g² + χ²(n − 1), with g normal.
        normal = rng.standard_normal(len(counts)) * (counts > 0)
        spread = rng.chisquare(np.maximum(counts - 1, 1)) * (counts > 1)
        noise = self.noise * np.sqrt(counts) * normal
        return Summary(
            counts,
            counts * self.means + noise,
            counts * self.means**2 + 2 * self.means * noise + self.noise**2 * (normal**2 + spread),
        )

    def _rounds(self, plan: BlockPlan, rng: np.random.Generator) -> Rounds:
        kinds = rng.choice(len(plan.blocks), size=plan.rounds, p=plan.block_weights)
        means = self.means[plan.blocks[kinds]]
        return Rounds.of(plan, kinds, means + self.noise * rng.standard_normal(means.shape))


def altered_plan(plan: Plan) -> Plan:
    """A plan for the same arms with twice the pulls and other probabilities.

    A plan of one pull, which is all that some policies can make, pulls another arm.
    """
    if isinstance(plan, BlockPlan):
        chances = plan.block_weights * (1 + np.arange(len(plan.blocks)) / len(plan.blocks))
        return replace(plan, pulls=2 * plan.pulls, block_weights=chances / chances.sum())
    if plan.weights is None and plan.pulls == 1:
        return replace(plan, counts=np.roll(np.array(plan.counts), 1))
    if plan.weights is None:
        return replace(plan, pulls=2 * plan.pulls, counts=2 * np.array(plan.counts))
    weights = plan.weights * (1 + np.arange(plan.arms) / plan.arms)
    return replace(plan, pulls=2 * plan.pulls, weights=weights / weights.sum())


def _widened_plan(plan: Plan) -> Plan:
    """The plan with one more arm, which is not pulled."""
    weights = None if plan.weights is None else np.append(plan.weights, 0.0)
    counts = None if plan.counts is None else np.append(plan.counts, 0)
    return replace(plan, weights=weights, counts=counts)


def _wrong_summaries(plan: Plan, summary: Summary) -> Iterator[tuple[str, Summary]]:
    """Summaries that cannot be the outcome of a plan, each with its fault."""
    if isinstance(plan, BlockPlan) and isinstance(summary, Rounds):
        yield from _wrong_rounds(plan, summary)
        return
    counts, sums, squares = summary.counts, summary.sums, summary.squares
    pulled = int(np.argmax(counts))
    one = (np.arange(plan.arms) == pulled).astype(int)
    if not plan.open:
        yield "a summary with one pull too many", Summary(counts + one, sums, squares)
    yield "a summary with one pull too few", Summary(counts - one, sums, squares)
    counted, summed, squared = (np.append(part, 0) for part in (counts, sums, squares))
    yield "a summary with an arm too many", Summary(counted, summed, squared)
    yield "a summary with an arm too few", Summary(counts[1:], sums[1:], squares[1:])
    # Pulls moved to an arm that the plan does not pull, or not that often.
    other = np.arange(plan.arms) == (pulled + 1) % plan.arms
    if plan.weights is not None:
        other = np.arange(plan.arms) == np.argmin(plan.weights)
    if plan.weights is None or plan.weights.min() == 0:
        yield (
            "a summary with a pull on another arm than planned",
            Summary(counts - one + other, sums, squares),
        )


def _wrong_rounds(plan: BlockPlan, rounds: Rounds) -> Iterator[tuple[str, Summary]]:
    yield "totals for rounds", Summary(rounds.counts, rounds.sums, rounds.squares)
    short = Rounds.of(plan, rounds.kinds[1:], rounds.table[1:])
    yield "one round too few", short
    wider = replace(plan, weights=np.zeros(plan.arms + 1))
    yield "rounds with an arm too many", Rounds.of(wider, rounds.kinds, rounds.table)
    blocks = plan.arms - 1 - plan.blocks[:, ::-1]
    if not np.array_equal(blocks, plan.blocks):
        mirrored = replace(plan, blocks=blocks)
        yield "rounds of other blocks", Rounds.of(mirrored, rounds.kinds, rounds.table)
