"""An experiment goes on anywhere: begun under one kernel family of this machine, under another.

Two families that round differently are enough to show what hangs on rounding; the benchmark
`benchmarks.kernels` takes all. One is this process's own, and a process does all work of the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.kernels import (
    FEATURES,
    POLICIES,
    Family,
    ThisProcess,
    Worker,
    different,
    goes_on,
    workers,
)

# Where a plan hangs on a design the features matter, elsewhere one kind will do.
DESIGNED = ("anytime", "sp-bai", "halving")
CASES = [(policy, kind) for policy in DESIGNED for kind in FEATURES]
CASES += [(policy, "one-hot") for policy in POLICIES if policy not in DESIGNED]


@pytest.fixture(scope="module")
def other() -> Iterator[Worker]:
    with workers(1, unlike=ThisProcess().arithmetic()) as started:
        assert started, "no kernel family of this machine was found: add it to the candidates"
        yield started[0]


@pytest.fixture(scope="module")
def those(other: Worker) -> list[Family]:
    return [ThisProcess(), other]


@pytest.mark.parametrize(("policy", "kind"), CASES)
def test_an_experiment_goes_on_under_every_other_family(
    those: list[Family], tmp_path: Path, policy: str, kind: str
) -> None:
    """Begun by one, gone on with by each other in turn, then replayed and verified by all."""
    # Who begins goes round with the cases; `python -m benchmarks.kernels` has every one begin each.
    turn = CASES.index((policy, kind)) % len(those)
    order = [*those[turn:], *those[:turn]]
    large = kind != "factorial"
    assert goes_on(policy, kind, tmp_path / "store.db", order, large=large) == "goes on"


def test_designs_are_the_same_under_every_family(those: list[Family], tmp_path: Path) -> None:
    """Ties are broken by index, and every value is certified by every other's lower bound."""
    assert different(tmp_path, those, large=False) == {}


def test_policies_decide_and_plan_the_same_under_another_family(other: Worker) -> None:
    """The tests of policies ask the same of the family of this machine."""
    folder = str(Path(__file__).parents[1] / "policies")
    assert other.do("call", folder=folder, module="golden", function="all_differences") == []


def test_simulations_are_the_same_under_another_family(
    other: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(Path(__file__).parents[1] / "simulation")
    monkeypatch.syspath_prepend(folder)
    import seeded_runs  # noqa: PLC0415

    assert other.do("call", folder=folder, module="seeded_runs", function="pulls") == (
        seeded_runs.pulls()
    )
