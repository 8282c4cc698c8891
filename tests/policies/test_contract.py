"""Every policy obeys the same laws, on every kind of problem."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
import pytest
from plans import next_counts, run

from bestarm import (
    LUCB,
    RAGE,
    SBE,
    SPBAI,
    ActionElimination,
    AnytimeBAI,
    GOpt,
    PairedTests,
    Problem,
    SequentialHalving,
)
from bestarm.errors import InvalidInputError
from bestarm.policies import Method
from bestarm.policies.registry import options_of, policies
from bestarm.presampled import PresampledRewards
from bestarm.records import BlockPlan, Rounds, Summary
from bestarm.testing import LinearRewards, check_policy

# Fewer plans than their examples make, each of which is checked in the same way.
SHORT: dict[str, dict[str, Any]] = {
    "sequential-halving": {"budget": 5000, "batches": 4},
    **{name: {"sigma": 0.1} for name in ("ae", "alba", "fws", "lazy-tas")},
    "lucb": {"sigma": 0.2},
    **{name: {"bounds": (-1.5, 1.5)} for name in ("bernstein", "paired-tests")},
    **{name: {"sigma": 0.1, "norm": 0.5} for name in ("lingape", "lingame", "lingame-c")},
    "lil-ucb": {"sigma": 0.02},
    **{name: {"budget": 20} for name in ("bayes-gap", "p1", "action-centered", "bose", "kim-paik")},
}
METHODS: dict[str, Method] = {
    **{name: partial(info.method, **info.example) for name, info in policies().items()},
    **{name: partial(policies()[name].method, **options) for name, options in SHORT.items()},
    "fixed anchor": partial(SPBAI, anchor=1),
    "capped pulls": partial(SPBAI, max_pulls=700),
    "blocks of two": partial(AnytimeBAI, block=2),
    "blocks, bounded and capped": partial(
        AnytimeBAI, block=2, bounds=(-50, 50), missing="worst-case", max_pulls=301
    ),
    "blocks and a tolerance": partial(AnytimeBAI, block=3, tolerance=0.05),
    "capped phases": partial(SPBAI, max_phases=1),
    "replication": partial(SPBAI, preset="replication"),
    "replication, capped phase": partial(SPBAI, preset="replication", max_phase_pulls=2000),
    "capped phase": partial(SPBAI, max_pulls=10**6, max_phase_pulls=1000),
    "capped phase of SBE": partial(SBE, max_phases=10, max_phase_pulls=5000),
    "capped phases of RAGE": partial(RAGE, max_phases=10, max_phase_pulls=500),
    "capped RAGE": partial(RAGE, max_pulls=3),
    "capped SBE": partial(SBE, max_pulls=50),
    "capped G-Opt": partial(GOpt, gap=0.5, max_pulls=20),
    "halving, short of pulls": partial(SequentialHalving, budget=40, batches=1),
    "one stage": partial(SequentialHalving, budget=500, stages=1),
    "certified LUCB": partial(LUCB, sigma=0.1, radius="certified"),
    "certified AE": partial(ActionElimination, sigma=0.1, radius="certified"),
    "few items": partial(PairedTests, bounds=(-30, 30), items=40),
}
PULLS_ITS_TARGETS = {
    "replication",
    "replication, capped phase",
    *(name for name, info in policies().items() if not info.transductive),
    "capped SBE",
    "capped phase of SBE",
    "certified LUCB",
    "certified AE",
    "few items",
}


def _problems() -> dict[str, Problem]:
    rng = np.random.default_rng(5)
    arms = rng.normal(size=(7, 3))
    flat = arms @ rng.normal(size=(3, 6))  # rank 3 in 6 features
    return {
        "plain": Problem([[1, 0], [0, 1], [0.6, 0.8]]),
        "one-hot": Problem(np.eye(4)),
        "transductive": Problem(arms, rng.normal(size=(5, 3))),
        "rank-deficient": Problem(flat, delta=0.05),
        "tiny features": Problem(1e-6 * arms),
        "huge features": Problem(1e6 * arms, noise=3.0, baseline=0.0),
        "two of each": Problem([[0.0], [1.0]]),
    }


PROBLEMS = _problems()
# What an option changes shows on these, and so do mistakes in methods of others; scales and further
# shapes are for the policies as they are.
ENOUGH = ("plain", "transductive", "rank-deficient")


def _kinds(name: str) -> Iterable[str]:
    ours = name in policies() and not policies()[name].import_path.startswith("bestarm.field")
    return PROBLEMS if ours else ENOUGH


CASES = [(name, kind) for name in METHODS for kind in _kinds(name)]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_every_policy_obeys_the_contract(name: str, kind: str) -> None:
    problem = PROBLEMS[kind]
    if name in PULLS_ITS_TARGETS and problem.source is not problem.target:
        with pytest.raises(InvalidInputError, match="chooses among the arms it pulls"):
            METHODS[name](problem)
    else:
        check_policy(METHODS[name], problem)


@pytest.mark.parametrize("name", METHODS)
def test_what_is_no_summary_is_refused_and_changes_nothing(name: str) -> None:
    policy = METHODS[name](PROBLEMS["one-hot"])
    before = policy.plan()
    assert before is not None
    for summary in (None, [1, 2, 3, 4], {"counts": [1, 2, 3, 4]}):
        with pytest.raises(InvalidInputError, match="must be a Summary"):
            policy.update(summary)  # type: ignore[arg-type]
    after = policy.plan()
    assert after is not None
    assert (after.phase, after.pulls) == (before.phase, before.pulls)


@pytest.mark.parametrize("name", policies())
def test_a_plain_name_without_an_outcome_does_not_lead(name: str) -> None:
    """Whoever has low outcomes may be behind it all the same. Of plans all pulls are of one arm."""
    policy, told = METHODS[name](PROBLEMS["one-hot"]), np.zeros(4)
    for _ in range(5):
        if (plan := policy.plan()) is None:
            break
        if isinstance(plan, BlockPlan):
            kinds = np.zeros(plan.rounds, dtype=int)
            summary: Summary = Rounds.of(plan, kinds, np.zeros((plan.rounds, plan.size)))
        else:
            counts = plan.counts
            if counts is None:
                assert plan.weights is not None
                counts = plan.pulls * np.eye(4, dtype=int)[np.flatnonzero(plan.weights)[-1]]
            arms = np.repeat(np.arange(4), counts)
            rewards = np.linspace(-1.4, -1.0, len(arms))
            summary = Summary.from_pulls(arms, rewards, size=4, center=plan.center)
        policy.update(summary)
        told += summary.counts
        answer = policy.recommend()
        assert told[answer.target] or not answer.leads


# Examples without a scale of the noise, so that runs are not short.
LONG: dict[str, Any] = {
    name: partial(info.method, **{key: info.example[key] for key in info.example if key != "sigma"})
    for name, info in policies().items()
}


@pytest.mark.parametrize(
    "name", [name for name in LONG if "max_pulls" in options_of(LONG[name]) and name != "g-opt"]
)
@pytest.mark.parametrize("cap", [4, 50])
def test_a_cap_is_kept_and_is_never_final(name: str, cap: int) -> None:
    """All arms pay alike. Whole rounds may leave some of the pulls."""
    policy = LONG[name](PROBLEMS["one-hot"], max_pulls=cap)
    while (plan := policy.plan()) is not None:
        if isinstance(plan, BlockPlan):
            kinds = np.zeros(plan.rounds, dtype=int)
            policy.update(Rounds.of(plan, kinds, np.zeros((plan.rounds, plan.size))))
            continue
        counts = plan.counts
        if counts is None:
            counts = np.random.default_rng(0).multinomial(plan.pulls, plan.weights)
        policy.update(Summary(counts, np.zeros(4), counts.astype(float)))
    answer = policy.recommend()
    assert (answer.final, answer.reason, answer.error_bound) == (False, "max_pulls", None)
    assert cap - 4 < answer.pulls <= cap
    assert len(answer.active) == 4
    assert policy.traits.max_pulls == cap


_LINEAR = ("lingape", "lazy-tas", "lingame", "lingame-c", "fws")
_THRESHOLDS = {
    "certified": (*_LINEAR, "track-and-stop"),
    "experiments": (*_LINEAR, "lil-ucb", "kl-lucb", "eb-tci"),
    "small": ("xy-static", "kl-lucb"),
}
PRESAMPLED: dict[str, Any] = {
    **{
        name: LONG[name]
        for name in LONG
        if getattr(policies()[name].factory, "_runs_presampled", False)
    },
    **{
        f"{name}, {threshold}": partial(LONG[name], threshold=threshold)
        for threshold, names in _THRESHOLDS.items()
        for name in names
    },
    **{
        f"{name}, bounds": partial(LONG[name], bounds=(-9, 9))
        for name in ("kl-lucb", "track-and-stop")
    },
}


@pytest.mark.parametrize("name", PRESAMPLED)
def test_many_pulls_at_once_are_the_planned_pulls(name: str) -> None:
    """To the last bit, over exact computations and between them."""
    on_means = name.split(",", maxsplit=1)[0] in PULLS_ITS_TARGETS
    for kind in ("one-hot",) if on_means else ("transductive", "rank-deficient"):
        problem, rng = PROBLEMS[kind], np.random.default_rng(6)
        table = LinearRewards(problem).means + rng.normal(size=(300, problem.arms))
        table.flags.writeable = False
        rewards = PresampledRewards(table, np.arange(300), np.zeros(300))
        one, many = (PRESAMPLED[name](problem) for _ in range(2))
        assert vars(run(one, rewards)) == vars(run(many, rewards, block=97))
        assert np.array_equal(many._counts, one._counts)
        assert np.array_equal(many._sums, one._sums)
        assert many.plan() is None or np.array_equal(next_counts(many), next_counts(one))
