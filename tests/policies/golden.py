"""Short runs of every policy, with every option, kept so that a change of arithmetic shows.

    python tests/policies/golden.py

records them again, and refuses where a policy does otherwise than before under the same `version`.

A kept run has the summaries the policy was told, so that nothing is drawn when it is played again.
Lengths, counts, leaders and drops must be the same. Numbers may differ as they do between
processors and builds of the solver, which is what a stored trial puts up with too.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
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
from bestarm.policies.index_rule import IndexRule
from bestarm.policies.policy import Policy
from bestarm.records import Plan, Summary

__all__ = ["CASES", "KEPT", "Case", "advice", "differences", "play", "record"]

KEPT = Path(__file__).parent / "assets" / "golden.json"
_COMMAND = "python tests/policies/golden.py"
_NEAR = 1e-6
_MOST = 10  # plans of a run

Run = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A policy, what it is made with, and how it is treated.

    Attributes:
        policy: its class.
        problem: one of `PROBLEMS`.
        options: besides problem and seed.
        losses: whether outcomes are missing, and some come late.
    """

    policy: Any
    problem: str
    options: dict[str, Any] = field(default_factory=dict)
    losses: bool = False

    def make(self) -> Policy:
        """The policy at the start."""
        policy: Policy = self.policy(PROBLEMS[self.problem], **{"seed": 0, **self.options})
        return policy


# Among designs that are equally good, as they are for arms at right angles, rounding chooses; so
# policies whose plans rest on exact designs of pairs are played on arms without that symmetry.
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
_SHARP = {"design": "centered", "stability": "actual"}
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
    "anytime, max_pulls": Case(AnytimeBAI, "plane", {"max_pulls": 1000}),
    "sp-bai": Case(SPBAI, "transductive"),
    "sp-bai, seed": Case(SPBAI, "transductive", {"seed": 3}),
    "sp-bai, constants": Case(SPBAI, "plane", _ROUGH),
    "sp-bai, anchor": Case(SPBAI, "plane", {"anchor": 1}),
    "sp-bai, actual": Case(SPBAI, "transductive", {"stability": "actual"}),
    "sp-bai, centered": Case(SPBAI, "transductive", {"design": "centered"}),
    "sp-bai, sharp": Case(SPBAI, "transductive", _SHARP),
    "sp-bai, sharp, max_pulls": Case(SPBAI, "plane", _SHARP | {"max_pulls": 2000}),
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
        SequentialHalving, "one-hot", {"budget": 700, "rounds": 1, "batches": 4}
    ),
    "halving, tol": Case(SequentialHalving, "plane", {"budget": 300, "batches": 1, "tol": 1e-2}),
    "deo": Case(DEO, "plane", {"budget": 500}),
    "deo, anchor": Case(DEO, "transductive", {"budget": 500, "anchor": 2, "tol": 1e-2}),
    "deo, centered": Case(DEO, "transductive", {"budget": 500, "design": "centered"}),
    "g-opt": Case(GOpt, "plane", {"gap": 0.5}),
    "g-opt, constants": Case(GOpt, "transductive", {"gap": 0.5} | _ROUGH),
    "g-opt, max_pulls": Case(GOpt, "one-hot", {"gap": 0.5, "max_pulls": 100}),
    "uniform": Case(Uniform, "one-hot", {"budget": 50}),
}


def play(case: Case, run: Run | None = None) -> Run:
    """What a policy plans and says, told what it was told in a run, or summaries drawn here.

    Against a run, it ends with the first plan for which the run has no summary.
    """
    policy, rng = case.make(), np.random.default_rng(23)
    kept = None if run is None else run["steps"]
    steps: list[Run] = []
    before: Plan | None = None
    while (plan := policy.plan()) is not None and len(steps) < _MOST:
        number, step = len(steps), {"plan": _planned(plan)}
        steps.append(step)
        late = case.losses and number % 4 == 3
        if kept is None:
            totals = _drawn(case, before if late and before else plan, rng, number)
        elif number < len(kept) and not list(_differ(kept[number]["plan"], step["plan"], "")):
            totals = kept[number]["told"]
        else:
            break
        summary = Summary(*(totals[key] for key in ("counts", "sums", "squares", "missing")))
        if late:
            policy.update(summary, late=True)  # type: ignore[call-arg]
        else:
            policy.update(summary)
            before = plan
        step["told"], step["said"] = totals, _said(policy)
    return {"version": case.policy.version, "steps": steps}


def _drawn(case: Case, plan: Plan, rng: np.random.Generator, number: int) -> Run:
    """Totals of a plan's pulls, in few digits; the first of an open plan are many more."""
    problem = PROBLEMS[case.problem]
    pulls = plan.pulls
    if plan.open and number == 0:
        pulls = 30 * pulls
    counts = plan.counts
    if counts is None:
        assert plan.weights is not None
        counts = rng.multinomial(pulls, plan.weights)
    spread = 0.2 if plan.open else 1.0
    means = spread * np.linspace(0.8, -0.2, problem.arms) + 0.1 * rng.normal(size=problem.arms)
    missing = np.zeros(problem.arms, dtype=np.int64)
    if case.losses and number:
        missing = np.minimum(counts, rng.integers(3, size=problem.arms))
    counts = counts - missing
    return {
        "counts": counts.tolist(),
        "sums": (counts * means).round(3).tolist(),
        "squares": (counts * (means**2 + 0.2)).round(3).tolist(),
        "missing": missing.tolist(),
    }


def _planned(plan: Plan) -> Run:
    weights = None if plan.weights is None else plan.weights.tolist()
    counts = None if plan.counts is None else plan.counts.tolist()
    return {
        "phase": plan.phase,
        "pulls": plan.pulls,
        "open": plan.open,
        "most": plan.most,
        "weights": _short(weights),
        "counts": counts,
    }


def _said(policy: Policy) -> Run:
    said = policy.recommend()
    found: Run = {
        "target": said.target,
        "chosen": list(said.chosen),
        "active": list(said.active),
        "final": said.final,
        "reason": said.reason,
        "pulls": said.pulls,
        "error_bound": said.error_bound,
    }
    if said.trace:
        last = said.trace[-1]
        found |= {"contrasts": _short(last.contrasts), "radii": _short(last.radii)}
        found |= {"value": _short(last.value), "delta": _short(last.delta)}
    inside = {name: getattr(policy, name, None) for name in ("_ranking", "_variation")}
    if isinstance(policy, IndexRule):
        inside["_radii"] = policy._radii()
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


def differences(case: Case, run: Run) -> list[str]:
    """Where a policy first does otherwise than in a run that was kept, in words."""
    for number, (kept, now) in enumerate(zip_longest(run["steps"], play(case, run)["steps"])):
        if kept is None or now is None:
            return [f"it {'goes on' if kept is None else 'stops'} after plan {number}"]
        found = list(_differ(kept, now, f"plan {number + 1}"))
        if found:
            return found[:3]
    return []


def _differ(kept: Any, now: Any, where: str) -> Iterator[str]:
    if isinstance(kept, dict) and isinstance(now, dict):
        for key in kept.keys() & now.keys():  # what was said is not known where plans differ
            yield from _differ(kept[key], now[key], f"{where}, {key}")
    elif isinstance(kept, list) and isinstance(now, list) and len(kept) == len(now):
        for one, other in zip(kept, now, strict=True):
            yield from _differ(one, other, where)
    elif isinstance(kept, float) and isinstance(now, float):
        if not math.isclose(kept, now, rel_tol=_NEAR, abs_tol=_NEAR / 10):
            yield f"{where}: {kept:g} before, {now:g} now"
    elif kept != now:
        yield f"{where}: {kept} before, {now} now"


def advice(name: str, found: list[str]) -> str:
    """What to do where a policy does otherwise than it did."""
    case = CASES[name]
    number, policy = case.policy.version, case.policy.__name__
    return (
        f"{policy} does otherwise than it did ({name}; {'; '.join(found)}). Trials begun with it "
        f"could not go on. If that is meant, set {policy}.version = {number + 1} and record "
        f"again: {_COMMAND}"
    )


def record(kept: dict[str, Run]) -> tuple[dict[str, Run], list[str]]:
    """Runs to keep from now on, and what forbids it: changes that no version tells of."""
    runs, refused = {}, []
    for name, case in CASES.items():
        old, version = kept.get(name), case.policy.version
        found = None if old is None else differences(case, old)
        if old is not None and not found:
            runs[name] = old | {"version": version}  # the digits that do not matter stay as well
        elif old is None or version > old["version"]:
            runs[name] = play(case)
        else:
            refused.append(advice(name, found or []))
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
