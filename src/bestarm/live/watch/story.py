"""The log of an experiment as a story: what matters in sentences, what is routine as counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bestarm.live.store.rows import Event
from bestarm.live.values import in_time, in_utc
from bestarm.policies.policy import Traits
from bestarm.problem import Problem
from bestarm.recommendation import describe_tie
from bestarm.units import Unit, plural

#: How an experiment ended without a winner, by the reason on record.
ENDS = {
    "max_pulls": "Ended at its limit of assignments",
    "max_phases": "Ended at its limit of phases",
    "max_phase_pulls": "Ended at its limit of assignments per phase",
    "budget": "Ended: its assignments are spent",
    "exhausted": "Ended: all items are judged, but outcomes lack",
    "cycle": "Ended: no option beats all others",
}

# What happens all the time, with the words for how many there were.
_ROUTINE = {
    "planned": "{} planned",
    "closed": "{} evaluated",
    "answered": "{} added after their phase",
    "late": "{} came too late to be used",
    "failed": "{} given up",
    "unavailable": "{} not available",
}
_COUNTED = {"planned": "phase", "closed": "phase", "unavailable": "unit"}

_SECRET = {"seed", "salt", "document"}  # the document has the seed, and its digest the salt


def without_seed(event: Event) -> Event:
    """An event as callers and pages may show it: whoever knows the seed can foresee the draws."""
    data = {name: value for name, value in event.data.items() if name not in _SECRET}
    return replace(event, data=data)


def is_routine(event: Event) -> bool:
    """Whether an event of this kind happens all the time, so that a story only counts it."""
    return event.kind in _ROUTINE


def count_routine(event: Event) -> int:
    """How many phases, outcomes or units a routine event is about."""
    data = event.data
    if event.kind == "answered":
        return int(data["drawn"])
    ids = data.get("ids", ((0, 1),))  # below 0 where nothing was drawn
    return int(data.get("count", sum(max(end, 0) - max(first, 0) for first, end in ids)))


def routine_words(counts: Mapping[str, int]) -> str:
    """How often routine events happened, by kind, in one sentence; empty if none did.

    >>> routine_words({"planned": 3, "closed": 2, "late": 1})
    '3 phases planned, 2 phases evaluated, 1 outcome came too late to be used.'
    """
    parts = [
        words.format(plural(counts[kind], _COUNTED.get(kind, "outcome")))
        for kind, words in _ROUTINE.items()
        if counts.get(kind)
    ]
    return f"{', '.join(parts)}." if parts else ""


_PLAIN = {
    "paused": "Paused: no assignments are made.",
    "resumed": "Resumed.",
    "archived": "Archived: lists leave it out.",
    "restored": "Shown in lists again.",
}


def _remark(kind: str, data: Mapping[str, Any]) -> str:
    """A note, or what a server noticed."""
    if kind == "noted":
        return str(data["text"])
    if kind == "stalled":
        since, awaited = in_utc(data["since"]), plural(data["outstanding"], "outcome")
        return f"Stalled: nothing was told since {since}; {awaited} outstanding."
    check = data["check"]
    return f"Alarm ({check}): {data['finding']}" if kind == "alarm" else f"Alarm ended ({check})."


def _changed(kind: str, data: Mapping[str, Any]) -> str:
    """A change of the options, of the lease, or of the description."""
    if kind == "described":
        return f"Described as: {data['description']}" if data["description"] else "Not described."
    if kind == "changed":
        lease = data["lease"]
        return f"Outcomes may now take {'any time' if lease is None else in_time(lease)}."
    option = f"{quoted([data['label']])} was {kind}"
    if kind == "added":
        return f"{option}."
    if data["made_by"] != "hand":  # the event before says why
        return f"{option} by the {data['made_by']}."
    return f"{option}: {data['reason'].rstrip('.')}."


def _ended(data: Mapping[str, Any], problem: Problem, traits: Traits, unit: Unit) -> str:
    """The end of an experiment by its policy."""
    names = named(data, problem)
    if data["reason"] == "cycle" or not traits.decides:
        return f"{ENDS.get(data['reason'], 'Ended')}."
    if not data["final"]:
        return f"{ENDS.get(data['reason'], 'Ended')}; {quoted(names)} led at the end."
    if data["reason"] == "equivalent":
        return f"Decided: no option is much better than the control {quoted(names)}."
    if data.get("tied"):
        return f"Decided: {describe_all_tied(data, problem)}."
    verb = "is" if len(names) == 1 else "are"
    if data["error_bound"] is None:
        return f"Decided: {quoted(names)} {verb} named."
    return f"Decided: {quoted(names)} {verb} {best(len(names), traits, unit)}."


def describe(event: Event, problem: Problem, traits: Traits, unit: Unit) -> str:
    """An event that is not routine, in words."""
    data, kind = event.data, event.kind
    text = _PLAIN.get(kind, f"{kind.capitalize()}.")
    match kind:
        case "created" if data.get("window") is not None:
            after = f"{in_time(data['window'])} after their assignment"
            text = f"Created. Outcomes count {after}, as {data['otherwise']:g} where none is told."
        case "eliminated":
            verb = "is" if len(data["labels"]) == 1 else "are"
            text = f"{quoted(data['labels'])} {verb} ruled out."
        case "guardrail":
            text = f"{quoted([data['label']])} is worse than the control in {data['guardrail']} by "
            text += f"more than {data['worse_by']:g}."
        case "finished":
            text = _ended(data, problem, traits, unit)
        case "erased":
            assignments = sum(max(end, 0) - max(first, 0) for first, end in data["ids"])
            text = f"A unit with {plural(assignments, 'assignment')} was erased."
        case "added" | "retired" | "changed" | "described":
            text = _changed(kind, data)
        case "noted" | "alarm" | "cleared" | "stalled":
            text = _remark(kind, data)
        case "stopped":
            text = f"Stopped by hand{f': {reason}' if (reason := data.get('reason')) else '.'}"
    return text


# --- names in sentences ---------------------------------------------------------------------------


def best(count: int, traits: Traits, unit: Unit) -> str:
    """What so many named options are."""
    best = "the best" if count == 1 else f"the {count} best"
    return f"within {unit.declared(traits.margin)} of {best}" if traits.margin else best


def named(data: Mapping[str, Any], problem: Problem) -> list[str]:
    """The options that a recommendation names."""
    return [problem.target_labels[target] for target in data["chosen"] or [data["target"]]]


def describe_all_tied(data: Mapping[str, Any], problem: Problem) -> str:
    """That options are tied as the best, in words."""
    names = [quoted([label]) for label in problem.target_labels]
    return describe_tie(data["chosen"], data["tied"], names)


def verb_of(names: Sequence[str], verb: str) -> str:
    """A verb in the form that so many names ask for."""
    return f"{verb}s" if len(names) == 1 else verb


def quoted(names: Sequence[str]) -> str:
    """Names in quotation marks, with commas and an "and" between them."""
    marked = [f"‘{name}’" for name in names]
    return marked[0] if len(marked) == 1 else f"{', '.join(marked[:-1])} and {marked[-1]}"
