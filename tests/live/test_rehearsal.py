"""What a policy loads as it is first needed, it loads while others can write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bestarm import AnytimeBAI, Experiment, Problem
from bestarm.live import rehearsal
from bestarm.records import Summary

PROBLEM = Problem(np.eye(3), delta=0.01)
SETTINGS: dict[str, Any] = {"policy": "anytime", "options": {"bounds": (0, 1)}, "seed": 0}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """What the policies of the test were told, and whether somebody wrote meanwhile."""
    monkeypatch.setattr(rehearsal, "_done", set())
    found: list[tuple[str, bool]] = []
    update, amend = AnytimeBAI.update, AnytimeBAI.amend

    def noted_update(policy: AnytimeBAI, summary: Summary) -> None:
        found.append(("update", any(map(writes, stores))))
        update(policy, summary)

    def noted_amend(policy: AnytimeBAI, summary: Summary, *, phase: int) -> None:
        found.append(("amend", any(map(writes, stores))))
        amend(policy, summary, phase=phase)

    monkeypatch.setattr(AnytimeBAI, "update", noted_update)
    monkeypatch.setattr(AnytimeBAI, "amend", noted_amend)
    stores.clear()
    return found


stores: list[Any] = []


def writes(store: Any) -> bool:
    return bool(store._pool.turn._lock.locked())


def begin(url: str, name: str) -> Experiment:
    experiment = Experiment.create(url, name, PROBLEM, **SETTINGS)
    ledger: Any = experiment._ledger
    stores.append(ledger.store)
    return experiment


def close_phases(experiment: Experiment) -> None:
    """Two phases, and an outcome of the first that comes after it closed."""
    first, *rest = experiment.ask(40).ids
    experiment.tell_many(dict.fromkeys(rest, 0.5))
    experiment.tell_many(dict.fromkeys(experiment.ask(60).ids, 0.5))
    experiment.tell(first, 1.0)


def test_the_first_step_of_a_kind_is_done_once_before_its_transaction(
    sqlite_url: str, calls: list[tuple[str, bool]]
) -> None:
    with begin(sqlite_url, "first") as experiment:
        close_phases(experiment)
        kinds = {kind: [writing for told, writing in calls if told == kind] for kind, _ in calls}
        assert kinds.keys() == {"update", "amend"}
        for told in kinds.values():
            assert not told[0]
            assert any(told)
        assert experiment.verify().sound
        assert not experiment.replay().remarks
    calls.clear()
    with begin(sqlite_url, "second") as experiment:
        close_phases(experiment)
        assert all(writing for _, writing in calls)


def test_a_step_that_fails_beforehand_fails_in_its_transaction(
    sqlite_url: str, calls: list[tuple[str, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        calls.append(("update", any(map(writes, stores))))
        raise ArithmeticError

    with begin(sqlite_url, "first") as experiment:
        ids = experiment.ask(40).ids
        with monkeypatch.context() as patch:
            patch.setattr(AnytimeBAI, "update", fail)
            with pytest.raises(ArithmeticError):
                experiment.tell_many(dict.fromkeys(ids, 0.5))
        assert calls == [("update", False), ("update", True)]
        assert experiment.status().phase == 1
        experiment.advance()
        assert experiment.status().phase == 2


def test_policies_of_others_are_left_alone(
    sqlite_url: str, calls: list[tuple[str, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SETTINGS, "policy", "bestarm.policies:AnytimeBAI")
    with begin(sqlite_url, "own") as experiment:
        close_phases(experiment)
        assert all(writing for _, writing in calls)
