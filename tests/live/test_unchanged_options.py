"""An experiment whose options never change is what it was before they could, bit for bit."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from changing_policies import OPTIONS, Even
from clocks import Clock

from bestarm import Experiment, Problem
from bestarm.live.store.rows import as_data, canonical

PROBLEM = Problem(OPTIONS)
_DECIDED = ("seed", "lease", "phase", "pulls", "first", "end", "drawn", "plan", "summary", "rows")


def _carry_out(experiment: Experiment, clock: Clock) -> None:
    """Outcomes out of order, some late, some lost, by a rule."""
    held: list[int] = []
    for turn in range(40):
        clock.now += 1.0
        for assignment in experiment.ask(1 + turn % 4, request_id=f"turn {turn}"):
            if not assignment.experiment:
                continue  # it is over, and the winner is served
            if assignment.id % 5 == 3:
                held.append(assignment.id)
            elif assignment.id % 11 == 7:
                experiment.fail(assignment.id)
            else:
                experiment.tell(assignment.id, (assignment.id * 7 + assignment.arm) % 8)
        if turn % 3 == 2:
            experiment.tell_many([(number, number % 3) for number in held])
            held.clear()
    if not experiment.finished:
        experiment.pause()
        experiment.stop("enough")


def _digest(experiment: Experiment) -> str:
    """Of all rows, plans, summaries and events."""
    running = hashlib.sha256()

    def add(data: Any) -> None:
        running.update(canonical(data).encode())

    with experiment.read() as snapshot:
        for rows in snapshot.rows(0, snapshot.head.assigned):
            running.update(rows.tobytes())
        for plan in snapshot.plans():
            add([as_data(plan.plan), plan.first, plan.round])
        for each in snapshot.summaries():
            add([each.phase, each.first, each.end, each.late, as_data(each.summary), each.digest])
        for event in snapshot.events():
            known = [event.data.get(name) for name in _DECIDED]
            add([event.number, event.at, event.kind, known])
    return running.hexdigest()


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize(
    ("kind", "digest"),
    [
        ("provisional", "f196e0b459fd374f34990eea3185068b75707f3165819e9da113f9b830ffcbc0"),
        ("open", "da3c89a3a0ec587630d56baa9cf14e73f35e8b051090713d8307c6f801fb2820"),
        ("closed", "67169d7eb346f9126f901b9df1cc07644f7503c956c6b689c4bac2e0b73c0ca8"),
    ],
)
def test_an_experiment_that_never_changes_is_what_it_was(
    kind: str, digest: str, stored: bool, tmp_path: Any
) -> None:
    clock, settings = Clock(), dict[str, Any](seed=3, lease=6.0)
    if stored:
        experiment = Experiment.create(
            f"sqlite:///{tmp_path}/store.db",
            "offer",
            PROBLEM,
            policy="changing_policies:Even",
            policy_options={"kind": kind},
            clock=clock,
            **settings,
        )
    else:
        experiment = Experiment(Even(PROBLEM, kind=kind), clock=clock, **settings)
    with experiment:
        _carry_out(experiment, clock)
        assert _digest(experiment) == digest
