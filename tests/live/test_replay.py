"""Recorded plans are adopted by whoever opens, follows or replays them, and remarked on."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from chained_policies import Chained
from typer.testing import CliRunner

from bestarm import Plan, Problem
from bestarm.cli.app import app
from bestarm.design import memo, solver
from bestarm.errors import ReplayError
from bestarm.live import Experiment
from bestarm.live.store.ledger import Snapshot
from bestarm.live.watch.follower import Follower
from bestarm.policies import Policy
from bestarm.policies.anytime import sampler

PROBLEM = Problem([[1, 0], [0, 1], [0.6, 0.8], [-0.3, 0.5]], delta=0.05)
OPTIONS: dict[str, dict[str, object]] = {
    "anytime": {"bounds": [0, 1]},
    "sp-bai": {"anchor": 1, "max_phase_pulls": 200},
}


def go_on(experiment: Experiment, phases: int) -> None:
    last = experiment.phase + phases
    while experiment.phase < last and not experiment.finished:
        batch = experiment.ask(max(1, experiment.status().remaining))
        rewards = {each.id: float((each.id * 7919 % 97) / 97 < 0.5) for each in batch}
        experiment.tell_many(rewards)


def begin(url: str, policy: str = "anytime", phases: int = 4) -> None:
    options = OPTIONS.get(policy, {})
    with Experiment.create(
        url, "offer", PROBLEM, policy=policy, policy_options=options, seed=3
    ) as made:
        go_on(made, phases)


def plan_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if designs, shares and lengths came out otherwise here than where it was begun."""
    monkeypatch.setattr(sampler, "G_DESIGN_SHARE", 0.7)
    monkeypatch.setattr(sampler, "LEAST_PULLS", 11)
    sampler.g_design.cache_clear()


def test_an_experiment_goes_on_where_it_would_be_planned_otherwise(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(store_url)
    with Experiment.open(store_url, "offer") as experiment:
        assert experiment.replay().remarks == ()
        recommendation, phase = experiment.recommendation(), experiment.phase
    plan_otherwise(monkeypatch)
    with Experiment.open(store_url, "offer") as experiment:
        replayed = experiment.replay()
        assert [remark.phase for remark in replayed.remarks][:2] == [1, 2]
        assert replayed.remarks[0].planned == 66
        assert replayed.remarks[0].pulls == 12
        assert max(remark.difference for remark in replayed.remarks) > 0.01
        assert (
            str(replayed.recommendation) == str(recommendation) == str(experiment.recommendation())
        )
        go_on(experiment, 2)
        assert experiment.phase == phase + 2
        assert experiment.verify().sound
    monkeypatch.undo()
    with Experiment.open(store_url, "offer") as experiment:  # and back again
        remarks = experiment.replay().remarks
        assert {remark.phase for remark in remarks} <= {phase + 1, phase + 2}
        assert remarks
        go_on(experiment, 1)
        assert experiment.verify().sound


@pytest.mark.parametrize("policy", OPTIONS)
def test_opening_and_following_solve_no_design(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    begin(sqlite_url, policy, phases=2)
    with Experiment.open(sqlite_url, "offer") as experiment:
        recommendation = experiment.recommendation()

    def refuse(*_: object) -> None:
        raise AssertionError("a design was solved")

    for home, step in (
        (solver, "_minimise"),
        (sampler, "solve_designs"),
    ):
        monkeypatch.setattr(home, step, refuse)
    memo.forget()
    sampler.g_design.cache_clear()
    with Experiment.open(sqlite_url, "offer") as experiment:
        assert str(experiment.recommendation()) == str(recommendation)
        follower = Follower(experiment.stored_spec("watched"))
        follower.update(experiment)
        assert str(follower.recommendation) == str(recommendation)
        if not experiment.finished:
            experiment.tell_many({each.id: 0.5 for each in experiment.ask(3)})


def test_the_open_plan_is_adopted_where_no_summary_is_new(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes opened an experiment before its first phase; one of them plans otherwise."""
    with (
        Experiment.create(sqlite_url, "offer", PROBLEM, policy_options=OPTIONS["anytime"]) as one,
        Experiment.open(sqlite_url, "offer") as other,
    ):
        one.ask(1)
        plan_otherwise(monkeypatch)
        plan = other.inspect(lambda policy, _: policy.plan())
        recorded = other.inspect(lambda _, snapshot: snapshot.plan(1).plan)
        assert isinstance(plan, Plan)
        assert plan.pulls == recorded.pulls == 12
        assert np.array_equal(plan.weights, recorded.weights)  # type: ignore[arg-type]


def test_a_policy_that_refuses_what_is_on_record_says_so(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(sqlite_url, "chained_policies:Chained", phases=2)
    monkeypatch.setattr(Chained, "_stopped", lambda self: self.phase > 1)
    with (
        Experiment.open(sqlite_url, "offer", allow_modules=["chained_policies"]) as experiment,
        pytest.raises(Exception, match="refuses the plan of phase 2 on record") as caught,
    ):
        experiment.recommendation()
    assert type(caught.value).__name__ == "ReplayError"
    assert "verify" in str(caught.value)


def test_remarks_are_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ["--store", f"sqlite:///{tmp_path / 'store.db'}"]
    begin(store[1], phases=1)
    plan_otherwise(monkeypatch)
    shown = CliRunner().invoke(app, ["experiment", "replay", "offer", *store])
    assert shown.exit_code == 0
    assert "The replay agrees with the log." in shown.stdout
    assert "Remark: phase 1 of 12 assignments would be planned with 66" in shown.stdout
    data = CliRunner().invoke(app, ["experiment", "replay", "offer", *store, "--json"])
    found = json.loads(data.stdout)
    assert found["agrees"] is True
    assert found["remarks"][0]["phase"] == 1


def both(policy: Policy, snapshot: Snapshot) -> tuple[Plan | None, Plan]:
    """The plan of the policy, and the one on record."""
    return policy.plan(), snapshot.plan(snapshot.head.phase).plan


def test_nobody_goes_on_under_another_plan_than_the_one_on_record(tmp_path: Path) -> None:
    """Arms are drawn with the weights on record, so bets with others would prove nothing.

    A policy that would plan otherwise takes the plan on record, or refuses to go on.
    """
    path = tmp_path / "store.db"
    url, problem = f"sqlite:///{path}", Problem([[0.0], [0.4], [1.0]])
    with Experiment.create(
        url, "offer", problem, policy_options={"bounds": [0, 1]}, seed=1
    ) as experiment:
        batch = experiment.ask(100)
        experiment.tell_many({number: 0.5 * number % 1 for number in batch.ids})
        planned, recorded = experiment.inspect(both)
    assert planned is not None
    assert planned.weights is not None
    assert recorded.phase == planned.phase == 2
    np.testing.assert_array_equal(planned.weights, recorded.weights)
    other = [0.2, 0.5, 0.3]
    assert not np.allclose(planned.weights, other)
    with closing(sqlite3.connect(path)) as connection, connection:
        (text,) = connection.execute("SELECT plan FROM bestarm_plans WHERE phase = 2").fetchone()
        changed = json.dumps(json.loads(text) | {"weights": other})
        connection.execute("UPDATE bestarm_plans SET plan = ? WHERE phase = 2", (changed,))
    with Experiment.open(url, "offer") as experiment:
        try:
            planned, _ = experiment.inspect(both)
        except ReplayError:
            return
    assert planned is not None
    assert planned.weights is not None
    assert planned.weights.tolist() == other
