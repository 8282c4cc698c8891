"""The policy computes its step before the transaction that records it: others write meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from threading import Thread
from typing import Any

import numpy as np
import pytest
from chained_policies import Chained, create_chained
from recorded import told

from bestarm import AnytimeBAI, Experiment, Problem
from bestarm.errors import DamagedStoreError, InvalidInputError
from bestarm.live import Batch, close
from bestarm.live.ask import Ask
from bestarm.live.close import Step, apply
from bestarm.live.replay import PolicyReplayer
from bestarm.live.store.head import Stage
from bestarm.live.store.ledger import Snapshot
from bestarm.live.store.rows import as_data
from bestarm.live.tell import Tell
from bestarm.policies import Policy
from bestarm.records import Plan, Summary
from bestarm.testing.policy_contract import altered_plan

PROBLEM = Problem(np.eye(3), delta=0.01)
Pair = tuple[Experiment, Experiment]
HANG_TIMEOUT = 20.0  # seconds until a thread is thought to wait
SETTINGS: dict[str, Any] = {"policy": "anytime", "policy_options": {"bounds": (0, 1)}, "seed": 0}


class Meanwhile:
    """Does something, once, while a policy is told a summary."""

    def __init__(self, patch: pytest.MonkeyPatch, kind: type[Policy] = AnytimeBAI) -> None:
        self.do: Callable[[], object] | None = None
        self.calls = 0  # how many summaries policies were told
        update, amend = kind.update, kind.amend

        def updated(policy: Policy, summary: Summary) -> None:
            self._once()
            update(policy, summary)

        def amended(policy: Policy, summary: Summary, *, phase: int) -> None:
            self._once()
            amend(policy, summary, phase=phase)

        patch.setattr(kind, "update", updated)
        patch.setattr(kind, "amend", amended)

    @property
    def done(self) -> bool:
        return self.do is None

    def _once(self) -> None:
        self.calls += 1
        do, self.do = self.do, None
        if do is not None:
            do()


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    return Meanwhile(monkeypatch)


@pytest.fixture
def experiment(store_url: str) -> Iterator[Experiment]:
    with Experiment.create(store_url, "offer", PROBLEM, **SETTINGS) as made:
        yield made


@pytest.fixture
def pair(experiment: Experiment, store_url: str) -> Iterator[tuple[Experiment, Experiment]]:
    """An experiment, opened twice as by two processes."""
    with Experiment.open(store_url, "offer") as other:
        yield experiment, other


def sound(experiment: Experiment) -> bool:
    return experiment.verify().sound and not experiment.replay().remarks


def test_outcomes_that_arrive_while_a_phase_closes_are_reported_later(
    pair: Pair, meanwhile: Meanwhile
) -> None:
    """They were outstanding for the summary that closes it, and are not counted twice."""
    experiment, other = pair
    ids = experiment.ask(40).ids
    late = dict.fromkeys(ids[:3], 1.0)
    meanwhile.do = lambda: other.engine.write(_told(late))
    experiment.tell_many(dict.fromkeys(ids[3:], 0.5))
    assert meanwhile.done
    with experiment.read() as snapshot:
        assert snapshot.deferrals()[0].tolist() == list(ids[:3])
    for _ in range(3):
        batch = experiment.ask(60)
        experiment.tell_many(dict.fromkeys(batch.ids, 0.5))
    with experiment.read() as snapshot:
        assert snapshot.head.arrivals == 0
        assert (snapshot.deferrals()[1] >= 0).all()
    assert told(experiment).items() >= late.items()
    assert sound(experiment)


def _told(outcomes: dict[int, float]) -> Tell:
    """A call that takes no step."""
    return Tell(list(outcomes), list(outcomes.values()))


def test_an_ask_waits_only_for_steps_that_must_come_first(experiment: Experiment) -> None:
    """While a provisional plan closes nothing is assigned under it, or its summary would miss some;
    while late outcomes are to be reported, assignments may be made."""
    first, later = Ask(1), Ask(1, after_steps=False)

    def is_assigned(call: Ask) -> bool:
        (answer,) = experiment.engine.commit([call])
        return isinstance(answer, Batch)

    late, *ids = experiment.ask(40).ids
    experiment.engine.write(_told(dict.fromkeys(ids, 0.5)))
    with experiment.read() as snapshot:
        assert snapshot.head.stage is Stage.CLOSING
    assert not is_assigned(first)
    assert not is_assigned(later)
    experiment.engine.advance()
    experiment.engine.write(_told({late: 1.0}))
    with experiment.read() as snapshot:
        assert snapshot.head.stage is Stage.REPORTING
    assert not is_assigned(first)
    assert is_assigned(later)
    experiment.engine.advance()
    assert is_assigned(first)
    assert sound(experiment)


def test_a_step_that_another_process_took_is_not_taken_again(
    pair: Pair, meanwhile: Meanwhile
) -> None:
    experiment, other = pair
    first, *ids = experiment.ask(40).ids
    meanwhile.do = lambda: other.ask(1)  # which takes the step first
    experiment.tell_many(dict.fromkeys(ids, 0.5))
    assert meanwhile.done
    closed = [event for event in experiment.events() if event.kind == "closed"]
    assert len(closed) == 1
    meanwhile.do = lambda: other.ask(1)
    experiment.tell(first, 1.0)
    experiment.tell_many(dict.fromkeys(experiment.ask(60).ids, 0.5))
    assert sound(experiment)
    assert sound(other)


def state_of(experiment: Experiment) -> tuple[object, ...]:
    """What the policy knows, to the bit."""

    def read(policy: Policy, _: Snapshot) -> tuple[object, ...]:
        look, plan = policy.look(), policy.plan()
        assert plan is not None
        parts = () if look is None else (look.estimate, look.low, look.high, look.log_evidence)
        return str(policy.recommend()), as_data(plan), [each.tolist() for each in parts]

    return experiment.inspect(read)


def test_after_a_step_that_came_second_the_policy_is_not_told_everything_again(
    pair: Pair, store_url: str, meanwhile: Meanwhile
) -> None:
    """Else a process that is behind stays behind: the longer the experiment, the longer it takes.

    The summary that is recorded has an outcome that this process's summary does not have.
    """
    experiment, other = pair

    def come_first() -> None:
        other.tell(late, 1.0)
        assert other.status().phase == phase + 1

    for phase in range(1, 9):
        late, *ids = experiment.ask(60).ids
        told_before = meanwhile.calls
        meanwhile.do = come_first
        experiment.tell_many(dict.fromkeys(ids, 0.5))
        assert meanwhile.done
        assert experiment.status().phase == phase + 1
        state = state_of(experiment)
        assert meanwhile.calls - told_before <= 4  # by both processes
        with Experiment.open(store_url, "offer") as fresh:
            assert state == state_of(fresh) == state_of(other)
    assert sound(experiment)


def test_a_plan_that_came_second_is_replaced_by_the_one_on_record(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be made on another processor; the policy goes on from where it is."""
    made = list[Plan]()

    def prepared(snapshot: Snapshot, replayer: PolicyReplayer, *known: Any) -> Step:
        step = prepare(snapshot, replayer, *known)
        if step.plan is not None:
            if not made:
                with other.engine.ledger.transaction() as tx:
                    plan = replace(step.plan, plan=altered_plan(step.plan.plan))
                    first = replace(step, plan=plan)
                    apply(tx, first, other.options_at(tx), other.engine.stamp(tx))
            made.append(step.plan.plan)
        return step

    experiment, other = pair
    replayer, ids = experiment.engine._replayer, experiment.ask(40).ids
    prepare = close.prepare
    monkeypatch.setattr(close, "prepare", prepared)
    experiment.tell_many(dict.fromkeys(ids, 0.5))
    assert len(made) == 1
    assert experiment.engine._replayer is replayer
    assert state_of(experiment) == state_of(other)
    experiment.tell_many(dict.fromkeys(experiment.ask(60).ids, 0.5))
    assert len(made) == 2
    assert state_of(experiment) == state_of(other)
    assert experiment.verify().sound
    assert [remark.phase for remark in experiment.replay().remarks] == [2]


def test_a_policy_that_cannot_be_copied_is_made_again(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile = Meanwhile(monkeypatch, Chained)
    with (
        create_chained(store_url, kind="open", seed=0) as experiment,
        Experiment.open(store_url, "offer", allow_modules=["chained_policies"]) as other,
    ):
        with pytest.raises(TypeError):
            deepcopy(experiment.inspect(lambda policy, _: policy))
        for _ in range(3):
            ids = experiment.ask(10).ids
            meanwhile.do = other.engine.advance
            experiment.tell_many(dict.fromkeys(ids, 0.5))
            assert meanwhile.done
            assert state_of(experiment) == state_of(other)
        assert sound(experiment)


def test_an_experiment_that_is_stopped_while_a_phase_closes_stays_stopped(
    pair: Pair, meanwhile: Meanwhile
) -> None:
    experiment, other = pair
    ids = experiment.ask(40).ids
    meanwhile.do = other.stop
    experiment.tell_many(dict.fromkeys(ids, 0.5))
    assert experiment.state == "stopped"
    assert [event.kind for event in experiment.events()] == ["created", "planned", "stopped"]
    assert experiment.recommendation().pulls == 0
    assert sound(experiment)


@pytest.mark.parametrize(
    "call",
    [
        lambda experiment: experiment.tell(0, 1.0),
        lambda experiment: experiment.fail(0),
        Experiment.expire,
        Experiment.pause,
        Experiment.stop,
    ],
)
def test_no_other_thread_waits_for_a_step(
    experiment: Experiment, meanwhile: Meanwhile, call: Callable[[Experiment], object]
) -> None:
    """What they leave to the thread that takes it is done when that returns."""
    ended: list[bool] = []

    def call_in_thread() -> None:
        thread = Thread(target=call, args=[experiment])
        thread.start()
        thread.join(HANG_TIMEOUT)
        ended.append(not thread.is_alive())

    ids = experiment.ask(40).ids
    meanwhile.do = call_in_thread
    experiment.tell_many(dict.fromkeys(ids[1:], 0.5))
    assert ended == [True]
    with experiment.read() as snapshot:
        assert not snapshot.head.stage.is_pending
    assert sound(experiment)


def test_a_step_that_fails_is_taken_by_the_next_call(
    experiment: Experiment, meanwhile: Meanwhile
) -> None:
    def fail() -> None:
        raise ArithmeticError

    ids = experiment.ask(40).ids
    meanwhile.do = fail
    with pytest.raises(ArithmeticError):
        experiment.tell_many(dict.fromkeys(ids, 0.5))
    assert experiment.status().phase == 1
    assert told(experiment) == dict.fromkeys(ids, 0.5)
    assert experiment.tell(ids[0], 0.5).repeated
    assert experiment.status().phase == 2
    assert sound(experiment)


@pytest.mark.parametrize("call", ["ask", "tell_many", "fail_many", "pause", "stop"])
def test_a_precondition_that_fails_leaves_nothing(experiment: Experiment, call: str) -> None:
    def refuse(snapshot: Snapshot) -> None:
        seen.append(snapshot.head.assigned)
        raise InvalidInputError("No.", field="caller")

    arguments: dict[str, Any] = {"ask": [3], "tell_many": [{0: 0.5}], "fail_many": [[0]]}
    seen: list[int] = []
    experiment.ask(2)
    before = experiment.revision
    with pytest.raises(InvalidInputError, match="No"):
        getattr(experiment, call)(*arguments.get(call, []), precondition=refuse)
    assert seen == [2]
    assert experiment.revision == before
    getattr(experiment, call)(*arguments.get(call, []), precondition=seen.append)
    assert experiment.revision != before


def test_a_step_without_anything_on_record_is_an_error_and_no_endless_loop(
    experiment: Experiment,
) -> None:
    experiment.ask(5)
    with experiment.engine.ledger.transaction() as tx:
        tx.head.arrivals = 50  # as a damaged record may say
    with pytest.raises(DamagedStoreError, match="none is on record"):
        experiment.ask(1)
