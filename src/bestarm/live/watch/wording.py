"""What may be said of a trial, in sentences for people who do not know the method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bestarm.live.store.contract import Event, Head
from bestarm.live.values import held_up, plural
from bestarm.live.watch.follower import Glance
from bestarm.problem import Problem
from bestarm.records import Recommendation

__all__ = [
    "constants",
    "contradiction",
    "from_log",
    "happened",
    "percent",
    "sole_best",
    "standing",
    "verdict",
]

_ENDED = {
    "max_pulls": "Ended at its limit of pulls",
    "max_phases": "Ended at its limit of phases",
    "max_phase_pulls": "Ended at its limit of pulls a phase",
    "budget": "Its budget is spent",
}


def percent(delta: float) -> str:
    """1 − δ as people say it.

    >>> percent(0.05)
    '95 %'
    """
    return f"{100 * (1 - delta):.10g} %"


def constants(said: Recommendation, delta: float, *, blind: bool, budget: bool = False) -> str:
    """How far the error probability can be relied on.

    Args:
        said: by the policy.
        delta: the error probability allowed.
        blind: that the policy takes no account of the baseline.
        budget: that it goes by a number of pulls, and not by δ.
    """
    if said.contradicted:
        return "Outcomes contradict what was declared of them, so nothing is proven any more."
    if said.claims is not None:
        still = ", as long as nothing drifts" if blind else ""
        return (
            f"A wrong winner is named with probability {said.claims:g} at most{still}, however "
            "often one looks."
        )
    if blind:
        return (
            "This policy does not take the baseline out. Where the baseline moves, it can name a "
            "wrong winner however many pulls there are; no error probability is proven."
        )
    if budget:
        return "It names what leads once its pulls are spent; no error probability is claimed."
    return (
        f"The constants are tuned so that errors stay below {delta:g} in practice; no error "
        "probability is proven."
    )


def verdict(
    head: Head,
    said: Recommendation,
    problem: Problem,
    options: Mapping[str, Any],
    waits_for: int | None = None,
    waits_since: float | None = None,
) -> str:
    """The state of a trial in one sentence, and which outcome holds it up, if one does."""
    names = [problem.target_labels[target] for target in said.chosen or (said.target,)]
    if not said.final:
        leader = _listed(names) if said.pulls else None
        text = _undecided(head, problem, left=len(said.active), leader=leader, why=said.reason)
        if waits_for is not None and waits_since is not None:
            wait = held_up(waits_for, waits_since)
            text += f" {wait[0].upper()}{wait[1:]}."
        if said.contradicted:
            text += " Outcomes contradict what was declared of them: nothing is proven."
        return text
    if said.contradicted:
        return (
            f"{_listed(names)} {'leads' if len(names) == 1 else 'lead'}, but outcomes contradict "
            "what was declared of them: nothing is proven."
        )
    return _decided(names, problem, options, proven=said.error_bound is not None, pulls=said.pulls)


def contradiction(said: Recommendation) -> str:
    """What is said of rewards that the assumptions all but rule out."""
    return said.statement or "Rewards contradict what was declared of them: nothing is proven."


def sole_best(said: Recommendation, options: Mapping[str, Any], *, proven: bool) -> bool:
    """Whether the one that is named is shown to be the best, and not only close to it."""
    return proven and len(said.chosen) <= 1 and not options.get("tolerance")


def standing(said: Recommendation, options: Mapping[str, Any], *, proven: bool) -> str:
    """What one of those that are named is."""
    if not proven:
        return "named"
    count = max(1, len(said.chosen))
    among = "" if count == 1 or options.get("tolerance") else "among "
    return f"{among}{_best(count, options)}"


def _best(count: int, options: Mapping[str, Any]) -> str:
    best = "the best" if count == 1 else f"the {count} best"
    return f"within {options['tolerance']:g} of {best}" if options.get("tolerance") else best


def from_log(glance: Glance, problem: Problem, options: Mapping[str, Any]) -> str:
    """The same, as far as it can be told without the policy."""
    head, ended = glance.head, glance.ended
    if ended is not None and ended["final"]:
        names = [problem.target_labels[t] for t in ended["chosen"] or [ended["target"]]]
        proven = ended["error_bound"] is not None
        return _decided(names, problem, options, proven=proven, pulls=ended["pulls"])
    # Where several are named, one that was dropped may come back.
    several = options.get("top", 1) != 1 or options.get("tolerance")
    left = None if several else problem.targets - len(glance.eliminated)
    why = "running" if ended is None else ended["reason"]
    leader = None if ended is None else _listed([ended["label"]])
    return _undecided(head, problem, left=left, leader=leader, why=why)


def _decided(
    names: Sequence[str],
    problem: Problem,
    options: Mapping[str, Any],
    *,
    proven: bool,
    pulls: int,
) -> str:
    best = _best(len(names), options)
    verb = "is" if len(names) == 1 else "are"
    after = f"after {plural_many(pulls, 'pull')}"
    if proven:
        sure = percent(problem.delta)
        return f"{_listed(names)} {verb} {best} of {problem.targets} options, at {sure} {after}."
    return (
        f"{_listed(names)} {verb} named {best} of {problem.targets} options {after}; no error "
        "probability is proven."
    )


def _undecided(
    head: Head, problem: Problem, *, left: int | None, leader: str | None, why: str
) -> str:
    remain = ""
    if left is not None:
        verb = "remains" if left == 1 else "remain"
        remain = f"{left} of {problem.targets} options {verb}; "
    sure = percent(problem.delta)
    if head.state == "finished":
        leads = "" if leader is None else f"{leader} leads, "
        return f"{_ENDED.get(why, 'Ended')}: {leads}{remain}no winner at {sure}."
    if head.state == "stopped":
        return f"Stopped by hand in phase {head.phase}: {remain}no winner at {sure}."
    start = f"Paused in phase {head.phase}" if head.state == "paused" else f"Phase {head.phase}"
    return f"{start}: {remain}no winner at {sure} yet."


def _listed(names: Sequence[str]) -> str:
    shown = [f"‘{name}’" for name in names]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def plural_many(count: int, noun: str) -> str:
    """A number of things, thousands apart."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def happened(event: Event, problem: Problem, *, open_plans: bool) -> str:
    """An event of a trial on this problem, in words.

    Args:
        event: what happened.
        problem: the trial's.
        open_plans: whether more may be drawn under a plan than it asks for.
    """
    data = event.data
    phase = data.get("phase")
    if event.kind == "planned":
        more = " or more" if open_plans else ""
        return f"Phase {phase} planned: {plural_many(data['pulls'], 'pull')}{more}."
    if event.kind in {"closed", "answered"}:
        many = plural_many(data.get("drawn", data["end"] - data["first"]), "pull")
        late = " that came after it was closed" if event.kind == "answered" else ""
        return f"Phase {phase} told to the policy: {many}{late}."
    if event.kind == "eliminated":
        return f"{_listed(data['labels'])} dropped in phase {phase}."
    if event.kind == "finished":
        names = [problem.target_labels[each] for each in data["chosen"]] or [data["label"]]
        named = "is named" if len(names) == 1 else "are named"
        ends = named if data["final"] else "led at the end"
        return f"Finished: {_listed(names)} {ends} ({data['reason'].replace('_', ' ')})."
    if event.kind == "changed":
        lease = "any time" if data["lease"] is None else plural(round(data["lease"]), "second")
        return f"Outcomes may now take {lease}."
    words = {
        "created": "Created.",
        "paused": "Paused: nothing is given out.",
        "resumed": "Resumed.",
        "stopped": "Stopped by hand.",
    }.get(event.kind, f"{event.kind.capitalize()}.")
    if event.kind in {"late", "failed"}:
        words = _too_late(event)
    reason = data.get("reason")
    return f"{words[:-1]}: {reason}" if event.kind == "stopped" and reason else words


def _too_late(event: Event) -> str:
    many = plural_many(sum(end - first for first, end in event.data["ids"]), "outcome")
    return f"{many} {'came too late to be used' if event.kind == 'late' else 'given up'}."
