"""Facts about an experiment as sentences, for people who do not know the method."""

from __future__ import annotations

from collections.abc import Sequence

from bestarm.live.store.contract import Event, Head
from bestarm.live.values import held_up, plural
from bestarm.live.watch.follower import Log
from bestarm.policies.policy import Traits
from bestarm.problem import Problem
from bestarm.records import Recommendation

__all__ = [
    "describe",
    "headline",
    "percent",
    "reliability",
    "standing",
    "verdict",
]

_CONTRADICTED = "The outcomes contradict the declared scales, so nothing is proven."
_ENDS = {
    "max_pulls": "Ended at its limit of pulls",
    "max_phases": "Ended at its limit of phases",
    "max_phase_pulls": "Ended at its limit of pulls per phase",
    "budget": "Ended: its pulls are spent",
}


def percent(delta: float) -> str:
    """1 − δ as people say it.

    >>> percent(0.05)
    '95 %'
    """
    return f"{100 * (1 - delta):.10g} %"


def reliability(recommendation: Recommendation, traits: Traits, delta: float) -> str:
    """How far the error probability can be relied on."""
    if recommendation.contradicted:
        return _CONTRADICTED
    if recommendation.claims is not None:
        limit = ", as long as nothing drifts" if traits.blind else ""
        return (
            f"A wrong winner is named with probability {recommendation.claims:g} at most{limit}, "
            "however often one looks."
        )
    if traits.blind:
        return (
            "This policy ignores the baseline. Where the baseline moves, it can name a wrong "
            "winner however many pulls there are; no error probability is proven."
        )
    if traits.budgeted:
        return "It names the leader once its pulls are spent; no error probability is claimed."
    return (
        f"The constants are tuned so that errors stay below {delta:g} in practice; no error "
        "probability is proven."
    )


def verdict(
    head: Head,
    recommendation: Recommendation,
    problem: Problem,
    traits: Traits,
    *,
    waits_for: tuple[int | None, float | None] = (None, None),
) -> str:
    """The state of an experiment in one sentence, and which outcome holds it up, if one does."""
    targets = recommendation.chosen or (recommendation.target,)
    names = [problem.target_labels[target] for target in targets]
    if recommendation.final and recommendation.contradicted:
        return f"{_list(names)} {_verb(names, 'lead')}. {_CONTRADICTED}"
    if recommendation.final:
        proven = recommendation.error_bound is not None
        return _decided(names, problem, traits, proven=proven, pulls=recommendation.pulls)
    text = _undecided(
        head,
        problem,
        left=len(recommendation.active),
        leaders=names if recommendation.pulls else [],
        reason=recommendation.reason,
    )
    number, since = waits_for
    if number is not None and since is not None:
        wait = held_up(number, since)
        text += f" {wait[0].upper()}{wait[1:]}."
    return f"{text} {_CONTRADICTED}" if recommendation.contradicted else text


def headline(log: Log, problem: Problem, traits: Traits) -> str:
    """The verdict, as far as counters and events tell it without the policy."""
    head, end = log.head, log.end
    if end is not None and end["final"]:
        names = [problem.target_labels[target] for target in end["chosen"] or [end["target"]]]
        proven = end["error_bound"] is not None
        return _decided(names, problem, traits, proven=proven, pulls=end["pulls"])
    # A rule that names several may take a dropped option back.
    left = problem.targets - len(log.eliminated) if traits.names_the_best else None
    leaders = [] if end is None else [end["label"]]
    reason = "running" if end is None else end["reason"]
    return _undecided(head, problem, left=left, leaders=leaders, reason=reason)


def standing(recommendation: Recommendation, traits: Traits, *, proven: bool) -> str:
    """What each of the named options is."""
    if not proven:
        return "named"
    count = max(1, len(recommendation.chosen))
    among = "" if count == 1 or traits.margin else "among "
    return f"{among}{_best(count, traits)}"


def _best(count: int, traits: Traits) -> str:
    best = "the best" if count == 1 else f"the {count} best"
    return f"within {traits.margin:g} of {best}" if traits.margin else best


def _decided(
    names: Sequence[str], problem: Problem, traits: Traits, *, proven: bool, pulls: int
) -> str:
    best, verb = _best(len(names), traits), "is" if len(names) == 1 else "are"
    among = f"of {problem.targets} options"
    if proven:
        sure = percent(problem.delta)
        return (
            f"{_list(names)} {verb} {best} {among}, at {sure} after {count(pulls, 'assignment')}."
        )
    return (
        f"{_list(names)} {verb} named {best} {among} after {count(pulls, 'assignment')}; no error "
        "probability is proven."
    )


def _undecided(
    head: Head, problem: Problem, *, left: int | None, leaders: Sequence[str], reason: str
) -> str:
    parts = []
    if leaders:
        parts.append(f"{_list(leaders)} {_verb(leaders, 'lead')}")
    if left is not None:
        still = "is" if left == 1 else "are"
        parts.append(f"{left} of {problem.targets} options {still} still possible")
    rest = ", ".join(parts) or f"{problem.targets} options are compared"
    if head.state == "finished":
        return f"{_ENDS.get(reason, 'Ended')}, without a winner: {rest}."
    start = {"stopped": "Stopped by hand, without a winner", "paused": "Paused, no winner yet"}
    return f"{start.get(head.state, 'No winner yet')}: {rest}."


def _verb(names: Sequence[str], verb: str) -> str:
    return f"{verb}s" if len(names) == 1 else verb


def _list(names: Sequence[str]) -> str:
    quoted = [f"‘{name}’" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def count(number: int, noun: str) -> str:
    """A number of things, with thousands apart."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def describe(event: Event, problem: Problem, *, open_plans: bool) -> str:  # noqa: PLR0911
    """An event of an experiment, in words.

    Args:
        event: the event.
        problem: the experiment's problem.
        open_plans: whether more may be drawn under a plan than it asks for.
    """
    data = event.data
    phase = data.get("phase")
    match event.kind:
        case "planned":
            more = " or more" if open_plans else ""
            return f"Phase {phase} planned: {count(data['pulls'], 'assignment')}{more}."
        case "closed":
            return f"Phase {phase} evaluated: {count(data['drawn'], 'assignment')}."
        case "answered":
            return f"Phase {phase}: {count(data['drawn'], 'outcome')} added that came later."
        case "eliminated":
            return f"{_list(data['labels'])} dropped in phase {phase}."
        case "finished":
            names = [problem.target_labels[each] for each in data["chosen"]] or [data["label"]]
            named = "is named" if len(names) == 1 else "are named"
            end = named if data["final"] else "led at the end"
            return f"Finished: {_list(names)} {end} ({data['reason'].replace('_', ' ')})."
        case "changed" if data["lease"] is None:
            return "Outcomes may now take any time."
        case "changed":
            return f"Outcomes may now take {plural(round(data['lease']), 'second')}."
        case "late":
            return f"{count(_size(event), 'outcome')} came too late to be used."
        case "failed":
            return f"{count(_size(event), 'outcome')} given up."
        case "paused":
            return "Paused: no assignments are made."
        case "stopped":
            return (
                f"Stopped by hand: {data['reason']}" if data.get("reason") else "Stopped by hand."
            )
    return f"{event.kind.capitalize()}."


def _size(event: Event) -> int:
    return sum(end - first for first, end in event.data["ids"])
