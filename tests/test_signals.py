"""A signal that comes while compiled code runs ends a simulation as it does anywhere else."""

from __future__ import annotations

import _thread
import io
import json
import operator
import os
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import data, run
from numba.core.registry import CPUDispatcher

from bestarm import LUCB, AnytimeBAI, environments
from bestarm.compiling import compiled
from bestarm.numerics.geometry import Array
from bestarm.planning import Effort, JobEffort, worker
from bestarm.planning import plan as planning_module
from bestarm.policies.anytime.group import AnytimeGroup
from bestarm.policies.means import lucb
from bestarm.simulation import simulate

METHOD = partial(LUCB, max_pulls=900)  # a run is one call of compiled code
PLANNING = "--gap", "0.9", "--policy", "anytime", "--runs", "5"
PLAN = {"source": [[1, 0], [0, 1]], "gap": 0.9, "policies": ["anytime"], "runs": 5}


class TimeUpError(Exception):
    pass


def time_is_up(*_: object) -> None:
    raise TimeUpError


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Those of a program in a terminal, with a time limit."""
    ours: dict[signal.Signals, Any]
    ours = {signal.SIGINT: signal.default_int_handler, signal.SIGALRM: time_is_up}
    before = {number: signal.signal(number, handler) for number, handler in ours.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def during(call: Any, number: signal.Signals, *arguments: Any) -> Any:
    """Call what is compiled with a signal that comes before it returns.

    Python handles signals between two steps of Python code, and here there are none: one function
    written in C calls both.
    """

    def call_interrupted(kernel: Any, *given: Any) -> Any:
        run = partial(CPUDispatcher.__call__, kernel, *given)
        return list(map(operator.call, (partial(_thread.interrupt_main, number), run)))[1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bestarm.compiling._call", call_interrupted)
        return call(*arguments)


class Interrupted:
    """Compiled code during one of whose calls a signal comes."""

    def __init__(self, run: Any, number: signal.Signals, *, call: int = 3) -> None:
        self.run, self.number, self.call, self.calls = run, number, call, 0

    def __call__(self, *arguments: Any) -> Any:
        self.calls += 1
        if self.calls == self.call:
            return during(self.run, self.number, *arguments)
        return self.run(*arguments)


def test_here_signals_come_while_compiled_code_runs() -> None:
    """Code that changes its argument has changed it by the time the signal is handled."""
    changed = np.zeros(1)
    add_one(changed)  # once before, to compile it
    with pytest.raises(KeyboardInterrupt):
        during(add_one, signal.SIGINT, changed)
    assert changed == 2


@compiled
def add_one(values: Array) -> None:
    values += 1


@compiled
def same(values: Array) -> Array:
    return values


@compiled
def two(values: Array) -> tuple[Array, Array]:
    return values + 1, values + 2


@compiled
def nested(values: Array) -> tuple[bool, tuple[Array, tuple[Array, float]]]:
    return True, (values + 1, (values, 2.0))


@pytest.mark.parametrize("function", [add_one, same, two, nested])
@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGALRM, TimeUpError)]
)
def test_compiled_code_raises_what_a_handler_raises(
    function: Any, number: signal.Signals, error: type[BaseException]
) -> None:
    values = np.zeros(2)
    function(values)  # once before, to compile it
    with pytest.raises(error) as raised:
        during(function, number, values)
    assert raised.value.__cause__ is None
    function(values)  # as ever


def test_other_errors_of_the_interpreter_stay_what_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise SystemError("out of order")

    monkeypatch.setattr("bestarm.compiling._call", fail)
    with pytest.raises(SystemError, match="out of order"):
        same(np.zeros(2))


def test_ctrl_c_in_a_compiled_run_gives_back_the_finished_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = environments.small_gap(declared_baseline=2)
    whole = simulate(METHOD, world, runs=5)
    monkeypatch.setattr(lucb, "advance", code := Interrupted(lucb.advance, signal.SIGINT))
    part = simulate(METHOD, world, runs=5)
    assert code.calls == 3
    assert part.interrupted
    assert part.runs < 5
    np.testing.assert_array_equal(part.pulls, whole.pulls[: part.runs])


def test_a_time_limit_in_a_compiled_run_raises_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lucb, "advance", Interrupted(lucb.advance, signal.SIGALRM))
    with pytest.raises(TimeUpError):
        simulate(METHOD, environments.small_gap(declared_baseline=2), runs=5)


class Ended:
    """Runs of the anytime rule side by side; a signal comes when the first has ended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.number = signal.SIGINT
        carry_out = AnytimeGroup._carry_out

        def carry_out_interrupted(group: AnytimeGroup, *given: Any) -> None:
            if not group.running.all():
                signal.raise_signal(self.number)
            carry_out(group, *given)

        monkeypatch.setattr(AnytimeGroup, "_carry_out", carry_out_interrupted)


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Ended:
    return Ended(monkeypatch)


@pytest.mark.usefixtures("interrupted")
def test_ctrl_c_while_runs_stand_side_by_side_gives_back_those_that_have_ended() -> None:
    world = environments.small_gap(declared_baseline=2)
    part = simulate(partial(AnytimeBAI, mean_bound=2), world, runs=5)
    assert part.interrupted
    assert 0 < part.runs < 5


@pytest.fixture
def unestimated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first runs of a plan are those that count."""
    job = JobEffort("anytime", "sine", 0.9, 100.0, 0.01)
    estimate = Effort(5, (job,))
    monkeypatch.setattr(planning_module, "estimate_effort", lambda *_, **__: estimate)


@pytest.mark.usefixtures("interrupted")
def test_a_comparison_keeps_the_finished_runs() -> None:
    found = data("compare", "--method", "anytime:mean_bound=2", "--runs", "5", code=130)
    (row,) = found["methods"]
    assert 0 < row["runs"] < 5


@pytest.mark.usefixtures("interrupted")
def test_a_leaderboard_keeps_the_finished_runs(tmp_path: Path) -> None:
    columns = "--only", "anytime", "--instance", "six-means", "--drift", "none", "--runs", "5"
    options = (*columns, "--workers", "1", "--out", str(tmp_path / "board"))
    message = run("leaderboard", *options, code=130)[1]
    assert "interrupted; finished runs are kept." in message
    (journal,) = (tmp_path / "board" / "journal").iterdir()
    _, *runs = journal.read_text().splitlines()
    assert 0 < len(runs) < 5


@pytest.fixture
def options(tmp_path: Path) -> str:
    (tmp_path / "options.csv").write_text("old,1,0\nnew,0,1\n", encoding="utf-8")
    return str(tmp_path / "options.csv")


@pytest.mark.usefixtures("interrupted", "unestimated")
def test_a_plan_keeps_the_finished_runs(options: str) -> None:
    (forecast,) = data("plan", options, *PLANNING, code=130)["forecasts"]
    assert 0 < forecast["runs"] < 5


def test_a_plan_says_so_if_nothing_was_simulated(
    options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def estimate(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(planning_module, "estimate_effort", estimate)
    message = run("plan", options, *PLANNING, code=130)[1]
    assert "interrupted before any experiment had been simulated." in message


def test_a_plan_for_the_server_keeps_the_finished_runs(
    interrupted: Ended,
    unestimated: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def alarm(_seconds: float) -> None:
        signal.signal(signal.SIGALRM, signal.default_int_handler)  # as `_alarm` does

    request = json.dumps(PLAN | {"delta": 0.05, "seed": 0, "seconds": 600})
    interrupted.number = signal.SIGALRM
    monkeypatch.setattr(worker, "_alarm", alarm)
    monkeypatch.setattr(os, "nice", lambda _: None)
    monkeypatch.setattr(sys, "stdin", io.StringIO(request))
    worker.main()
    *_, last = capsys.readouterr().out.splitlines()
    plan = json.loads(last)["plan"]
    assert plan["interrupted"] is True
    assert 0 < plan["forecasts"][0]["runs"] < 5
