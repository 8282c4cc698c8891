"""The answers of the API, with an example of each."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field

from bestarm.defaults import DELTA
from bestarm.live import Assignment, Batch, Check, Experiment, ExperimentListing, Receipt, Status
from bestarm.live.store.contract import Event
from bestarm.recommendation import Effect
from bestarm.server.api.bodies import example


def describe_fields(schema: dict[str, Any]) -> None:
    """Move what docstrings say of attributes to the fields of an OpenAPI description."""
    for model in schema["components"]["schemas"].values():
        text, _, entries = model.get("description", "").partition("\n\nAttributes:\n")
        model["description"] = text
        for entry in re.split(r"\n(?=    \w)", entries) if entries else ():
            name, _, words = " ".join(entry.split()).partition(": ")
            model["properties"][name]["description"] = f"{words[:1].upper()}{words[1:]}"


_STATUS = {
    "phase": 3,
    "given": 40,
    "answered": 38,
    "outstanding": 2,
    "remaining": 60,
    "pulls": 240,
    "rounds": 240,
    "state": "running",
    "lost": 0,
    "late": 0,
    "early": 0,
    "needs_lease": False,
    "waits_for": None,
    "waits_since": None,
    "variance_left": None,
}
StatusOut = Annotated[Status, Field(examples=[_STATUS])]
ReceiptOut = Annotated[
    Receipt, Field(examples=[{"recorded": 2, "repeated": 0, "late": 0, "held": 0}])
]


class ListOut(
    BaseModel,
    json_schema_extra=example(
        experiments=[
            {
                "name": "checkout",
                "description": "Which checkout do more people finish?",
                "created": 1767225600.0,
                "status": _STATUS,
                "revision": "240-238-0-0-0-9",
            }
        ],
        next=None,
    ),
):
    """Experiments, oldest first."""

    experiments: list[ExperimentListing]
    next: str | None = Field(
        description="What to send as `after` for those that follow; null at the end."
    )


class AssignmentsOut(
    BaseModel,
    json_schema_extra=example(
        assignments=[
            {"id": 0, "arm": 2, "label": "express", "probability": 0.25, "phase": 1, "round": 0},
            {"id": 1, "arm": 0, "label": "one page", "probability": 0.5, "phase": 1, "round": 1},
        ],
        phase=1,
        waiting=0,
        state="running",
    ),
):
    """The assignments of one request: fewer than asked for while a phase waits for outcomes."""

    assignments: list[Assignment]
    phase: int
    waiting: int = Field(
        description="If fewer were made than asked for: how many outcomes must arrive first."
    )
    state: str = Field(description="Of the experiment: running, paused, stopped or finished.")

    @staticmethod
    def plain(batch: Batch) -> dict[str, Any]:
        """From the library's, as plain data, because a batch may be large."""
        parts = batch.arms, batch.probabilities, batch.rounds
        columns = zip(batch.ids, *(part.tolist() for part in parts), strict=True)
        labels, same = batch.labels, {"phase": batch.phase}
        return {
            "assignments": [
                {"id": id_, "arm": arm, "label": labels[arm], "probability": p, **same, "round": r}
                for id_, arm, p, r in columns
            ],
            "phase": batch.phase,
            "waiting": batch.waiting,
            "state": batch.state,
        }


class RecommendationOut(
    BaseModel,
    json_schema_extra=example(
        target=2,
        label="express",
        final=True,
        reason="identified",
        pulls=1210,
        rounds=None,
        claims=DELTA,
        error_bound=DELTA,
        contradicted=False,
        leads=True,
        active=[2],
        active_labels=["express"],
        chosen=[2],
        chosen_labels=["express"],
        assumptions=["Every reward lies between 0 and 1."],
        statement="'express' is the best of 3 options; its lead over 'one page', the control, is "
        "+5.4 points (2.1 to 8.9), +31 % relative. The probability that this rule ever says so "
        f"wrongly, at any of its looks, is at most {DELTA:g}.",
        effect={
            "control": 0,
            "label": "one page",
            "estimate": 0.054,
            "lower": 0.021,
            "upper": 0.089,
            "relative": 0.31,
        },
    ),
):
    """The option that the policy would name now, and how far that can be relied on.

    Attributes:
        target: its row in the target, or in the source.
        label: its name.
        final: whether the question is settled; a stop at a limit is not that.
        reason: `identified`; `measuring`: identified, and assignments go on until the effect is
            known as precisely as was asked for; `equivalent`: no option is better than the control
            by more than the tolerance; `exact`: all items are judged; `running`; or what stopped it
            short: `max_pulls`, `max_phases`, `max_phase_pulls`, `budget`, `exhausted`, or `stopped`
            by hand.
        pulls: how many assignments it rests on.
        rounds: how many rounds these were, where a round has several; else null.
        claims: the proven bound on the probability that a final answer is wrong, known before there
            is one; null where nothing is proven.
        error_bound: the same, once it is final and nothing contradicts the assumptions.
        contradicted: whether rewards contradict the assumptions: nothing is proven then.
        leads: whether outcomes say that it leads: not while too many are outstanding.
        active: options that are not ruled out.
        active_labels: their names.
        chosen: the options named; there may be several.
        chosen_labels: their names.
        assumptions: what the bound rests on.
        statement: what may be claimed now, in words.
        effect: the lead over the control, if one was named, with ends that hold at every moment at
            once, and together with a final answer.
    """

    target: int
    label: str
    final: bool
    reason: str
    pulls: int
    rounds: int | None
    claims: float | None
    error_bound: float | None
    contradicted: bool
    leads: bool
    active: list[int]
    active_labels: list[str]
    chosen: list[int]
    chosen_labels: list[str]
    assumptions: list[str]
    statement: str
    effect: Effect | None

    @classmethod
    def of(cls, experiment: Experiment) -> RecommendationOut:
        """An experiment's, with the names of the targets."""
        now, labels = experiment.recommendation(), experiment.problem.target_labels
        known: dict[str, Any] = {name: getattr(now, name, None) for name in cls.model_fields}
        for name in ("active", "chosen"):
            known[f"{name}_labels"] = [labels[target] for target in known[name]]
        return cls(**known)


class HealthOut(
    BaseModel,
    json_schema_extra=example(
        checks=[
            {
                "name": "assignments",
                "level": "ok",
                "finding": "Traffic split matches the plan (240 assignments).",
                "action": "",
            }
        ]
    ),
):
    """All of them."""

    checks: list[Check]


def without_seed(event: Event) -> Event:
    """An event as callers may see it: whoever knows the seed can foresee the draws."""
    data = {name: value for name, value in event.data.items() if name not in {"seed", "salt"}}
    return replace(event, data=data)


class EventsOut(
    BaseModel,
    json_schema_extra=example(
        events=[
            {
                "number": 4,
                "at": 1767225600.0,
                "kind": "paused",
                "data": {},
                "hash": "9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab",
            }
        ],
        next=5,
    ),
):
    """A part of the log, and where to go on reading."""

    events: list[Annotated[Event, AfterValidator(without_seed)]]
    next: int = Field(description="Send it as `after` to read on.")
