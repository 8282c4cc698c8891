"""Every policy obeys the same laws, on every kind of problem."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from bestarm import (
    LUCB,
    RAGE,
    SBE,
    SPBAI,
    ActionElimination,
    AnytimeBAI,
    BernsteinElimination,
    GOpt,
    PairedTests,
    Problem,
    SequentialHalving,
)
from bestarm.errors import InvalidInputError
from bestarm.policies import Method
from bestarm.policies.registry import policies
from bestarm.testing import check_policy

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
    "xor, actual": partial(SPBAI, stability="actual"),
    "centered, paper": partial(SPBAI, design="centered"),
    "centered, actual": partial(SPBAI, design="centered", stability="actual"),
    "fixed anchor": partial(SPBAI, anchor=1),
    "capped pulls": partial(SPBAI, design="centered", stability="actual", max_pulls=700),
    "blocks of two": partial(AnytimeBAI, block=2),
    "blocks, bounded and capped": partial(
        AnytimeBAI, block=2, bounds=(-50, 50), missing="worst-case", max_pulls=301
    ),
    "blocks and a tolerance": partial(AnytimeBAI, block=3, tolerance=0.05),
    "capped phases": partial(SPBAI, max_phases=1),
    "replication": partial(SPBAI, preset="replication"),
    "replication, capped phase": partial(SPBAI, preset="replication", max_phase_pulls=2000),
    "capped phase": partial(
        SPBAI, design="centered", stability="actual", max_pulls=10**6, max_phase_pulls=1000
    ),
    "capped phase of SBE": partial(SBE, max_phases=10, max_phase_pulls=5000),
    "capped phases of RAGE": partial(RAGE, max_phases=10, max_phase_pulls=500),
    "capped RAGE": partial(RAGE, max_pulls=3),
    "capped SBE": partial(SBE, max_pulls=50),
    "capped LUCB": partial(LUCB, sigma=0.3, max_pulls=9),
    "capped AE": partial(ActionElimination, sigma=0.3, max_pulls=9),
    "capped G-Opt": partial(GOpt, gap=0.5, max_pulls=20),
    "halving, short of pulls": partial(SequentialHalving, budget=40, batches=1),
    "one stage": partial(SequentialHalving, budget=500, stages=1),
    "certified LUCB": partial(LUCB, sigma=0.1, radius="certified"),
    "certified AE": partial(ActionElimination, sigma=0.1, radius="certified"),
    "capped Bernstein": partial(BernsteinElimination, bounds=(-30, 30), max_pulls=50),
    "few items": partial(PairedTests, bounds=(-30, 30), items=40),
    "halving, blocks": partial(SequentialHalving, budget=500, block=2),
}
PULLS_ITS_TARGETS = {
    "replication",
    "replication, capped phase",
    *(name for name, info in policies().items() if not info.transductive),
    "capped SBE",
    "capped phase of SBE",
    "capped LUCB",
    "capped AE",
    "certified LUCB",
    "certified AE",
    "capped Bernstein",
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
# What an option changes shows on these; scales and other shapes are for the policies as they are.
ENOUGH = ("plain", "transductive", "rank-deficient")
CASES = [(name, kind) for name in METHODS for kind in (PROBLEMS if name in policies() else ENOUGH)]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_every_policy_obeys_the_contract(name: str, kind: str) -> None:
    problem = PROBLEMS[kind]
    if name in PULLS_ITS_TARGETS and problem.source is not problem.target:
        with pytest.raises(InvalidInputError, match="chooses among the arms it pulls"):
            METHODS[name](problem, seed=0)
    else:
        check_policy(METHODS[name], problem)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("summary", [None, [1, 2, 3, 4], {"counts": [1, 2, 3, 4]}])
def test_what_is_no_summary_is_refused_and_changes_nothing(name: str, summary: object) -> None:
    policy = METHODS[name](PROBLEMS["one-hot"], seed=0)
    before = policy.plan()
    assert before is not None
    with pytest.raises(InvalidInputError, match="must be a Summary"):
        policy.update(summary)  # type: ignore[arg-type]
    after = policy.plan()
    assert after is not None
    assert (after.phase, after.pulls) == (before.phase, before.pulls)
