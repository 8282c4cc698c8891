"""After the end: `ask` serves the winner. Nothing of that is recorded, nor of its outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bestarm.live.store.contract import Head, Snapshot
from bestarm.live.units import AskedRounds
from bestarm.live.values import Batch, Known
from bestarm.problem import Problem

_PAGE = 1000  # events read at a time, from the last on


def last_recommendation(snapshot: Snapshot) -> dict[str, Any] | None:
    """What the event that ended an experiment says that its policy recommended.

    By it every process serves the same, whatever the policy would say now. None before the end, and
    where the policy could not say it: one of another version, or stopped by an older bestarm.
    """
    head = snapshot.head
    if not head.over:
        return None
    pages = reversed(range(0, head.events, _PAGE))
    events = (event for start in pages for event in snapshot.events(start, start + _PAGE))
    data = next(event.data for event in events if event.kind == head.state)
    return data if head.state == "finished" else data.get("recommendation")


def served_target(end: Mapping[str, Any], control: int | None) -> int:
    """The target that is served: the best if one was shown, or else the control if there is one."""
    return int(end["target"] if is_shown(end) or control is None else control)


def is_shown(end: Mapping[str, Any]) -> bool:
    """Whether the option that was recommended at the end was shown to be the best."""
    return bool(end["final"]) and end["error_bound"] is not None


def serve(head: Head, problem: Problem, target: int, count: int, asked: AskedRounds) -> Batch:
    """Assignments of a target after the end: not of the experiment, and not recorded."""
    count = count if asked.available else 0
    known = [Known(key.unit, key.decision_point or None) for key in asked.keys or ()]
    label, features = problem.target_labels[target], problem.target[target]
    same = np.flatnonzero((problem.source == features).all(axis=1)).tolist()
    named = [arm for arm in same if problem.source_labels[arm] == label] or same
    labels = problem.source_labels
    arm, labels = (named[0], labels) if named else (-1, (*labels, label))
    parts = np.full(count, arm), np.ones(count), head.rounds + np.arange(count)
    for part in parts:
        part.flags.writeable = False
    columns = (None,) * count, *parts, labels, head.phase, 0, head.state
    return Batch(*columns, known=known or None, experiment=False)
