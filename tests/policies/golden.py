"""Short runs of every policy, with every option, kept so that a change of arithmetic shows.

    python tests/policies/golden.py

records them again, and refuses where a policy decides otherwise than before under the same
`version`.

A kept run has plans and summaries, so that nothing is drawn or designed when it is played again:
the policy adopts each plan and is told its summary, as a stored experiment's is. What it says then,
leaders, drops, evidence and estimates, must be the same on every processor, but for last digits.

What it would have planned itself is kept as well, by what must not change of a plan: its length and
its value, which designs certify to a tolerance. Another length or value needs no new version, since
experiments under way keep the plans they have; it is recorded again.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from bestarm import (
    DEO,
    LUCB,
    RAGE,
    SBE,
    SPBAI,
    ActionElimination,
    AnytimeBAI,
    BernsteinElimination,
    GOpt,
    Problem,
    SequentialHalving,
    Uniform,
)
from bestarm.numerics.geometry import centered_diameter
from bestarm.policies import Fixed
from bestarm.policies.policy import Policy
from bestarm.policies.rounds import RoundRule
from bestarm.records import BlockPlan, Plan, Rounds, Summary

__all__ = [
    "CASES",
    "KEPT",
    "Case",
    "advice",
    "change_options",
    "differences",
    "play",
    "read_plan",
    "record",
    "replanned",
]

KEPT = Path(__file__).parent / "assets" / "golden.json"
_COMMAND = "python tests/policies/golden.py"
_NEAR = 1e-6
_NEAR_PULLS = 0.02  # of the length of a plan: where it hangs on a design's value, that has a gap
_DIGITS = 4  # of the probabilities in plans that are kept
_MOST = 10  # plans of a run

Run = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A policy, what it is made with, and how it is treated.

    Attributes:
        policy: its class.
        problem: one of `PROBLEMS`.
        options: besides the problem.
        losses: whether outcomes are missing, and some come late.
    """

    policy: Any
    problem: str
    options: dict[str, Any] = field(default_factory=dict)
    losses: bool = False

    @property
    def tolerance(self) -> float:
        """To which relative gap its designs are certified."""
        return 0.05 if self.policy is AnytimeBAI else float(self.options.get("tol", 1e-3))

    def make(self) -> Policy:
        """The policy at the start."""
        policy: Policy = self.policy(PROBLEMS[self.problem], **self.options)
        return policy


_rng = np.random.default_rng(17)
PROBLEMS = {
    "one-hot": Problem(np.eye(4), delta=0.1),
    "plane": Problem([[1, 0], [0, 1], [0.6, 0.8], [-0.3, 0.5]], delta=0.05, noise=0.5),
    "transductive": Problem(
        _rng.normal(size=(6, 3)).round(2),
        _rng.normal(size=(5, 3)).round(2),
        delta=0.1,
        baseline=0.3,
    ),
}
_ROUGH = {"r1": 0.2, "r2": 0.5, "tol": 1e-2}
_RANGE = {"bounds": (-2, 3)}
_CERTIFIED = {"sigma": 0.2, "radius": "certified"}

CASES = {
    "anytime": Case(AnytimeBAI, "transductive"),
    "anytime, mean_bound": Case(AnytimeBAI, "plane", {"mean_bound": 2.0}, losses=True),
    "anytime, bounds": Case(AnytimeBAI, "one-hot", _RANGE),
    "anytime, top": Case(AnytimeBAI, "one-hot", _RANGE | {"top": 2}),
    "anytime, tolerance": Case(AnytimeBAI, "plane", _RANGE | {"tolerance": 0.02}),
    "anytime, top and tolerance": Case(
        AnytimeBAI, "transductive", {"top": 2, "tolerance": 0.01}, losses=True
    ),
    "anytime, worst case": Case(
        AnytimeBAI, "one-hot", _RANGE | {"missing": "worst-case"}, losses=True
    ),
    "anytime, control": Case(AnytimeBAI, "one-hot", _RANGE | {"control": "1", "tolerance": 0.05}),
    "anytime, precision": Case(AnytimeBAI, "one-hot", _RANGE | {"control": "1", "precision": 0.2}),
    "anytime, block": Case(AnytimeBAI, "one-hot", _RANGE | {"block": 2}),
    "anytime, items": Case(AnytimeBAI, "one-hot", _RANGE | {"block": 4, "items": 900}),
    "anytime, forecasts": Case(AnytimeBAI, "plane", _RANGE | {"forecasts": True}),
    "anytime, level": Case(AnytimeBAI, "plane", _RANGE | {"level": 0.3}),
    "anytime, changes": Case(AnytimeBAI, "one-hot", _RANGE | {"changes": True}, losses=True),
    "anytime, floors": Case(AnytimeBAI, "plane", {"floors": {"1": 0.2}}),
    "anytime, max_pulls": Case(AnytimeBAI, "plane", {"max_pulls": 1000}),
    "sp-bai": Case(SPBAI, "transductive"),
    "sp-bai, seed": Case(SPBAI, "transductive", {"seed": 3}),
    "sp-bai, constants": Case(SPBAI, "plane", _ROUGH),
    "sp-bai, anchor": Case(SPBAI, "plane", {"anchor": 1}),
    "sp-bai, max_pulls": Case(SPBAI, "plane", {"max_pulls": 20_000}),
    "sp-bai, replication": Case(SPBAI, "plane", {"preset": "replication"}),
    "sp-bai, max_phase_pulls": Case(SPBAI, "plane", {"max_phase_pulls": 1500}),
    "sp-bai, max_phases": Case(SPBAI, "plane", {"max_phases": 1}),
    "sbe": Case(SBE, "plane"),
    "sbe, constants": Case(SBE, "one-hot", _ROUGH),
    "sbe, caps": Case(SBE, "plane", {"max_phases": 5, "max_phase_pulls": 2000}),
    "sbe, max_phases": Case(SBE, "one-hot", {"max_phases": 1}),
    "sbe, max_pulls": Case(SBE, "one-hot", {"max_pulls": 5000}),
    "rage": Case(RAGE, "plane", {"sigma": 0.5}),
    "rage, caps": Case(RAGE, "plane", {"max_phases": 1, "max_phase_pulls": 500, "tol": 1e-2}),
    "rage, max_pulls": Case(RAGE, "transductive", {"max_pulls": 30_000}),
    "lucb": Case(LUCB, "one-hot", {"sigma": 0.2}),
    "lucb, certified": Case(LUCB, "one-hot", _CERTIFIED | {"max_pulls": 19}),
    "ae": Case(ActionElimination, "one-hot", {"sigma": 0.1}),
    "ae, certified": Case(ActionElimination, "one-hot", _CERTIFIED | {"max_pulls": 29}),
    "bernstein": Case(BernsteinElimination, "one-hot", _RANGE | {"growth": 1.5}),
    "bernstein, max_pulls": Case(BernsteinElimination, "plane", _RANGE | {"max_pulls": 30}),
    "halving": Case(SequentialHalving, "transductive", {"budget": 500}),
    "halving, rounds": Case(
        SequentialHalving, "one-hot", {"budget": 700, "stages": 1, "batches": 4}
    ),
    "halving, tol": Case(SequentialHalving, "plane", {"budget": 300, "batches": 1, "tol": 1e-2}),
    "deo": Case(DEO, "plane", {"budget": 500}),
    "deo, anchor": Case(DEO, "transductive", {"budget": 500, "anchor": 2, "tol": 1e-2}),
    "deo, centered": Case(DEO, "transductive", {"budget": 500, "design": "centered"}),
    "fixed": Case(
        Fixed,
        "one-hot",
        {"probabilities": "equal", "max_pulls": 3000, "control": "1", "bounds": (-30, 30)},
        losses=True,
    ),
    "g-opt": Case(GOpt, "plane", {"gap": 0.5}),
    "g-opt, constants": Case(GOpt, "transductive", {"gap": 0.5} | _ROUGH),
    "g-opt, max_pulls": Case(GOpt, "one-hot", {"gap": 0.5, "max_pulls": 100}),
    "uniform": Case(Uniform, "one-hot", {"budget": 50}),
}


def change_options(policy: Policy, number: int) -> None:
    """After two of the steps an option is retired, or added, where the policy allows for it."""
    if policy.traits.changes and number == 4:
        policy.retire(1)
    if policy.traits.changes and number == 7:
        policy.add(policy.problem.with_option("added"))


def play(case: Case, run: Run | None = None) -> Run:
    """What a policy says, given the plans and summaries of a run, or some made here.

    It adopts plans in few digits, never its own to the last bit, so that they can be kept and read.
    It ends where the run has no more plans.
    """
    policy, rng = case.make(), np.random.default_rng(23)
    kept = None if run is None else run["steps"]
    steps: list[Run] = []
    before: Plan | None = None
    later: Run = {}
    while (made := policy.plan()) is not None and len(steps) < _MOST:
        number = len(steps)
        if kept is not None and number == len(kept):
            steps.append({})  # it goes on where it stopped
            break
        plan = _in_few_digits(made) if kept is None else read_plan(kept[number]["plan"])
        policy.adopt(plan)
        late = before is not None and case.losses and number % 4 == 3
        if kept is not None:
            totals = kept[number]["told"]
        elif late:
            totals = later
        else:
            totals = _drawn(case, plan, rng, number)
            later = _drawn(case, plan, rng, number)
            if plan.provisional and case.losses and number % 4 == 2:  # these come at the next step
                pending = zip(later["counts"], later["missing"], strict=True)
                totals["pending"] = [here + lost for here, lost in pending]
        summary = read_summary(totals, plan)
        if late and before is not None:
            policy.amend(summary, phase=before.phase)
        else:
            policy.update(summary)
            before = plan
        steps.append(
            {
                "plan": _written(plan),
                "made": {"pulls": made.pulls, "value": _short(_value(case, made))},
                "told": totals,
                "said": _decisions(policy),
            }
        )
        change_options(policy, number)
    return {"version": case.policy.version, "steps": steps}


def read_summary(totals: Run, plan: Plan) -> Summary:
    """Totals, or rounds, that were kept."""
    if isinstance(plan, BlockPlan):
        return Rounds.of(plan, totals["kinds"], totals["table"])
    arrays: Run = {key: np.array(value) for key, value in totals.items() if key != "foreseen"}
    return Summary(**arrays, forecast_sum=totals.get("foreseen", 0.0))


def _in_few_digits(plan: Plan) -> Plan:
    """A plan with probabilities that are short to write, of the same arms."""
    weights = plan.block_weights if isinstance(plan, BlockPlan) else plan.weights
    if weights is None:
        return plan
    parts = np.maximum(np.round(weights * 10**_DIGITS), weights > 0).astype(int)
    parts[np.argmax(parts)] += 10**_DIGITS - parts.sum()
    if isinstance(plan, BlockPlan):
        return replace(plan, block_weights=parts / 10**_DIGITS)
    forecasts = plan.forecasts
    if forecasts is not None:
        forecasts = round(forecasts[0], 3), round(forecasts[1], 3)
    return replace(plan, weights=parts / 10**_DIGITS, forecasts=forecasts)


def _written(plan: Plan) -> Run:
    values = {part.name: getattr(plan, part.name) for part in fields(plan)}
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in values.items()
    }


def read_plan(written: Run) -> Plan:
    """A plan that was kept."""
    values: Run = {
        name: np.array(value) if isinstance(value, list) else value
        for name, value in written.items()
    }
    if values.get("forecasts") is not None:
        values["forecasts"] = tuple(values["forecasts"].tolist())
    return BlockPlan(**values) if "blocks" in values else Plan(**values)


def _value(case: Case, plan: Plan) -> float:
    """The largest variance factor of a contrast under a plan, and with it how good the plan is."""
    problem = PROBLEMS[case.problem]
    weights = plan.counts if plan.weights is None else plan.weights
    assert weights is not None
    if case.options.get("changes"):  # of the arms that are drawn
        weights = weights[weights > 0]
        problem = Problem(np.eye(len(weights)))
    return centered_diameter(problem.source, weights / weights.sum(), problem.target)


def _drawn(case: Case, plan: Plan, rng: np.random.Generator, number: int) -> Run:
    """Totals of a plan's pulls, in few digits; the first of an open plan are many more."""
    pulls = plan.pulls
    if plan.open and number == 0:
        pulls = 30 * pulls
    if isinstance(plan, BlockPlan):
        return _drawn_rounds(plan, pulls // plan.size, rng)
    counts = plan.counts
    if counts is None:
        assert plan.weights is not None
        counts = rng.multinomial(pulls, plan.weights)
    spread = 0.2 if plan.open else 1.0
    means = spread * np.linspace(0.8, -0.2, plan.arms) + 0.1 * rng.normal(size=plan.arms)
    missing = np.zeros(plan.arms, dtype=np.int64)
    if case.losses and number:
        missing = np.minimum(counts, rng.integers(3, size=plan.arms))
    counts = counts - missing
    more: Run = {}
    if plan.extremes:
        seen = counts > 0
        more["least"] = np.where(seen, means - 1.0, 0.0).round(3).tolist()
        more["largest"] = np.where(seen, means + 1.1, 0.0).round(3).tolist()
        more["cubes"] = (counts * (means**3 + 0.6 * means + 0.02)).round(3).tolist()
    if plan.forecasts is not None:
        more["foreseen"] = round(float(counts.sum()) * sum(plan.forecasts) / 2, 3)
    return more | {
        "counts": counts.tolist(),
        "sums": (counts * means).round(3).tolist(),
        "squares": (counts * (means**2 + 0.2)).round(3).tolist(),
        "missing": missing.tolist(),
    }


def _drawn_rounds(plan: BlockPlan, rounds: int, rng: np.random.Generator) -> Run:
    """Rounds of a plan, in few digits, with a baseline that reacts to the block."""
    kinds = rng.choice(len(plan.blocks), size=rounds, p=plan.block_weights)
    means = np.linspace(0.6, -0.1, plan.arms)[plan.blocks[kinds]] + 0.5 * (kinds[:, None] % 2)
    table = means + rng.uniform(-1.0, 1.0, size=means.shape)
    return {"kinds": kinds.tolist(), "table": table.round(2).tolist()}


def _decisions(policy: Policy) -> Run:
    recommendation = policy.recommend()
    found: Run = {
        "target": recommendation.target,
        "chosen": list(recommendation.chosen),
        "active": list(recommendation.active),
        "final": recommendation.final,
        "reason": recommendation.reason,
        "pulls": recommendation.pulls,
        "error_bound": recommendation.error_bound,
    }
    if recommendation.trace:
        last = recommendation.trace[-1]
        found |= {"contrasts": _short(last.contrasts), "radii": _short(last.radii)}
        found |= {"value": _short(last.value), "delta": _short(last.delta)}
        found |= {"stability": _short(last.stability)}
    inside = {name: getattr(policy, name, None) for name in ("_ranking", "_variation")}
    if isinstance(policy, RoundRule):
        inside["_radii"] = policy._radius.after(policy._counts)
    if isinstance(policy, BernsteinElimination):
        inside["_evidence"] = policy._evidence()
    found |= {name[1:]: _short(value) for name, value in inside.items() if value is not None}
    if isinstance(policy, AnytimeBAI):
        ends = policy.intervals()
        found["evidence"] = _short(np.log(policy.evidence()))
        found |= {name: _short(getattr(ends, name)) for name in ("estimate", "low", "high")}
    return found


def _short(value: Any) -> Any:
    """Numbers with ten digits; those that are infinite as texts."""
    if value is None:
        return None
    if np.ndim(value):
        return [_short(each) for each in value]
    return float(f"{value:.10g}") if math.isfinite(value) else str(float(value))


def differences(case: Case, run: Run, played: Run | None = None) -> list[str]:
    """Where a policy first decides otherwise than in a run that was kept, in words.

    Args:
        case: the policy.
        run: the run that was kept.
        played: what came of playing it again, if that was done already.
    """
    steps = (played or play(case, run))["steps"]
    for number, (kept, now) in enumerate(zip_longest(run["steps"], steps)):
        if not kept or not now:
            return [f"it {'goes on' if kept is None else 'stops'} after plan {number}"]
        found = list(_differ(kept["said"], now["said"], f"plan {number + 1}", _NEAR))
        if found:
            return found[:3]
    return []


def replanned(case: Case, run: Run, played: Run | None = None) -> list[str]:
    """Where a policy first plans otherwise than in a run that was kept, in words."""
    steps = (played or play(case, run))["steps"]
    for number, (kept, now) in enumerate(zip(run["steps"], steps, strict=False)):
        if not now:
            break
        before, after = kept["made"], now["made"]
        near = 2.1 * case.tolerance  # two designs may each be off by it
        found = list(_differ(before["value"], after["value"], f"plan {number + 1}, value", near))
        if abs(before["pulls"] - after["pulls"]) > 1 + _NEAR_PULLS * before["pulls"]:
            found.append(f"plan {number + 1}: {before['pulls']} pulls, now {after['pulls']}")
        if found:
            return found
    return []


def _differ(kept: Any, now: Any, where: str, near: float) -> Iterator[str]:
    if isinstance(kept, dict) and isinstance(now, dict) and kept.keys() == now.keys():
        for key in kept:
            yield from _differ(kept[key], now[key], f"{where}, {key}", near)
    elif isinstance(kept, list) and isinstance(now, list) and len(kept) == len(now):
        for one, other in zip(kept, now, strict=True):
            yield from _differ(one, other, where, near)
    elif isinstance(kept, float) and isinstance(now, float):
        if not math.isclose(kept, now, rel_tol=near, abs_tol=_NEAR / 10):
            yield f"{where}: {kept:g} before, {now:g} now"
    elif kept != now:
        yield f"{where}: {kept} before, {now} now"


def advice(name: str, found: list[str]) -> str:
    """What to do where a policy decides otherwise than it did."""
    case = CASES[name]
    number, policy = case.policy.version, case.policy.__name__
    return (
        f"{policy} decides otherwise than it did ({name}; {'; '.join(found)}). Experiments begun "
        f"with it could not go on. If that is meant, set {policy}.version = {number + 1} and "
        f"record again: {_COMMAND}"
    )


def all_differences() -> list[str]:
    """All that any policy decides or plans otherwise than in the runs that were kept, in words."""
    found = []
    for name, run in json.loads(KEPT.read_text(encoding="utf-8")).items():
        case = CASES[name]
        played = play(case, run)
        both = differences(case, run, played) + replanned(case, run, played)
        found += [f"{name}: {each}" for each in both]
    return found


def record(kept: dict[str, Run]) -> tuple[dict[str, Run], list[str]]:
    """Runs to keep from now on, and what forbids it: changes that no version tells of."""
    runs, refused = {}, []
    for name, case in CASES.items():
        old, version = kept.get(name), case.policy.version
        found = [] if old is None else differences(case, old)
        if found and old is not None and version <= old["version"]:
            refused.append(advice(name, found))
        elif old is None or found or replanned(case, old):
            runs[name] = play(case)
        else:
            runs[name] = old | {"version": version}  # the digits that do not matter stay as well
    return runs, refused


def main() -> int:
    """Write the runs down, unless one of them changed unannounced."""
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    runs, refused = record(kept)
    if refused:
        print("\n".join(refused), file=sys.stderr)
        return 1
    lines = (
        f"{json.dumps(name)}: {json.dumps(run, separators=(',', ':'))}"
        for name, run in runs.items()
    )
    KEPT.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
