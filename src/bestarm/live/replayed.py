"""A trial gone through once more: does its policy do again what it did?"""

from __future__ import annotations

from bestarm.errors import ProtocolError, ReplayError
from bestarm.live import trial
from bestarm.live.ledger import Event, Reading
from bestarm.live.replay import after, check_plan, tell
from bestarm.policies.policy import Policy
from bestarm.records import Recommendation

__all__ = ["replay"]


def replay(books: Reading, policy: Policy) -> Recommendation:
    """Tell a fresh policy all that was told before, and what it says then.

    Raises:
        ReplayError: it plans, drops or recommends otherwise than is on record.
    """
    kinds = {"closed", "answered", "eliminated", "finished"}
    events = (event for event in books.events() if event.kind in kinds)
    event = next(events, None)
    phase = 1
    for entry in books.entries():
        if event is None or event.kind not in {"closed", "answered"}:
            raise _disagree(f"The log does not know of summary {entry.number}")
        event = next(events, None)
        before = set(policy.recommend().active)
        try:
            check_plan(policy.plan(), books.opened(phase).plan)
            tell(policy, entry.summary, phase=entry.phase, late=entry.late)
        except ProtocolError as error:
            raise _disagree(
                f"The policy refuses summary {entry.number}: {error.message.rstrip('.')}"
            ) from error
        phase = after(phase, entry)
        gone = sorted(before - set(policy.recommend().active))
        said: object = []
        if event is not None and event.kind == "eliminated":
            said, event = event.data.get("targets"), next(events, None)
        if gone != said:
            raise _disagree(f"Summary {entry.number} drops targets {gone}, in the log {said}")
    head = books.head
    if head.planned:
        check_plan(policy.plan(), books.opened(head.phase).plan)
    recommendation = policy.recommend()
    if head.state == "finished" or event is not None:
        _check_end(event, policy, recommendation)
    return recommendation


def _check_end(event: Event | None, policy: Policy, said: Recommendation) -> None:
    if event is None or event.kind != "finished":
        raise _disagree("The log does not tell of the end, or of more than is on record")
    if policy.plan() is not None:
        raise _disagree("The policy goes on where it stopped in the log")
    found = {name: event.data.get(name) for name in trial.finished_data(said)}
    if found != trial.finished_data(said):
        raise _disagree(f"The policy ends with {said.label!r} ({said.reason}), in the log {found}")


def _disagree(what: str) -> ReplayError:
    return ReplayError(
        f"Replayed, the trial does not go as it went. {what}.",
        field="replay",
        remedy="Run `bestarm experiment verify`: if the record is sound, use the version of "
        "bestarm that began the trial.",
    )
