"""Alarms and stalls as events of the log: each once, when it begins, whoever looks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bestarm.live.store.ledger import Snapshot
from bestarm.live.values import Check
from bestarm.live.watch.follower import Log

_STALLED_AFTER = 86_400.0  # seconds, or twice the lease or the window if that is longer


def news(
    log: Log, snapshot: Snapshot, checks: Sequence[Check], now: float
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The alarms that begin, the alarms that end, and a stall that begins: kinds of events and
    their data. The log is up to date with the snapshot. Once an experiment is over, nothing is new.
    """
    if snapshot.head.over:
        return
    alarms = {check.name: check for check in checks if check.level == "alarm"}
    for name in log.alarms - alarms.keys():
        yield "cleared", {"check": name}
    for name, check in alarms.items():
        if name not in log.alarms:
            yield "alarm", {"check": name, "finding": check.finding, "action": check.action}
    since = stalled_since(log, snapshot, now)
    if since is not None and log.stalled < since:
        yield "stalled", {"since": since, "outstanding": snapshot.head.outstanding}


def stalled_since(log: Log, snapshot: Snapshot, now: float) -> float | None:
    """When an outcome was told last, if the experiment runs and that is too long ago; else None.

    Too long is a day, or twice the lease or the window. Where outcomes have a window nobody need
    tell a zero, so assignments count as well. A pause does not count.
    """
    head = snapshot.head
    wait = max(_STALLED_AFTER, 2 * (head.time_limit or 0.0))
    since = max(head.last_told, log.resumed)
    if head.state != "running" or not head.assigned or now - since < wait:
        return None
    since = max(since, snapshot.asked_at(0 if head.window is None else head.assigned - 1))
    return since if now - since >= wait else None
