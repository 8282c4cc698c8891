"""Facts about an experiment as sentences, for people who do not know the method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bestarm.live.events import recommendation_data
from bestarm.live.guardrails import GuardrailRow
from bestarm.live.store.head import Head
from bestarm.live.store.rows import Event
from bestarm.live.values import held_up, in_rounds, in_time, in_utc
from bestarm.live.watch.follower import Log
from bestarm.policies.policy import Traits
from bestarm.problem import Problem
from bestarm.recommendation import Effect, Recommendation, describe_tie
from bestarm.units import Unit, all_of, count_options, plural

_CONTRADICTED = "The outcomes contradict the declared scales, so nothing is proven."
_ENDS = {
    "max_pulls": "Ended at its limit of assignments",
    "max_phases": "Ended at its limit of phases",
    "max_phase_pulls": "Ended at its limit of assignments per phase",
    "budget": "Ended: its assignments are spent",
    "exhausted": "Ended: all items are judged, but outcomes lack",
}
_STATES = {"stopped": "Stopped by hand, without a winner", "paused": "Paused, no winner yet"}


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
        most = f"with probability {recommendation.claims:g} at most"
        return f"A wrong winner is named {most}{limit}, however often one looks."
    if traits.blind:
        return (
            "This policy ignores the baseline. Where the baseline moves, it can name a wrong "
            "winner however many outcomes there are; no error probability is proven."
        )
    if traits.budgeted:
        return (
            "It names the leader once its assignments are spent; no error probability is claimed."
        )
    tuned = f"The constants are tuned so that errors stay below {delta:g} in practice"
    return f"{tuned}; no error probability is proven."


def verdict(
    head: Head,
    recommendation: Recommendation,
    problem: Problem,
    traits: Traits,
    *,
    unit: Unit,
    retired: int = 0,
    waits_for: tuple[int | None, float | None] = (None, None),
) -> str:
    """The state of an experiment in one sentence, and which outcome holds it up, if one does.

    So many of its options were retired.
    """
    data = recommendation_data(recommendation)
    names = _named(data, problem)
    if recommendation.final and recommendation.contradicted:
        return f"{_list(names)} {_verb(names, 'lead')}. {_CONTRADICTED}"
    if recommendation.final:
        return _decided(data, problem, traits, unit, retired, recommendation.effect)
    shown = recommendation.pulls and recommendation.leads
    leaders, left = names if shown else [], len(recommendation.active)
    options = count_options(problem.targets, retired)
    state = _undecided(head, options, left=left, leaders=leaders, reason=recommendation.reason)
    sentences = [state]
    if waits := held_up(*waits_for):
        sentences.append(f"{waits[0].upper()}{waits[1:]}.")
    if recommendation.contradicted:
        sentences.append(_CONTRADICTED)
    return " ".join(sentences)


def headline(log: Log, problem: Problem, traits: Traits) -> str:
    """The verdict, as far as counters and events tell it without the policy."""
    end, unit = log.end, Unit(percent=traits.bounds == (0, 1))  # outcomes are not read here
    if end is not None and end["final"]:
        return _decided(end, problem, traits, unit, log.retired)
    # A rule that names several may take a dropped option back; so may any once one is retired.
    sure = traits.names_the_best and not log.retired
    left = problem.targets - len(log.eliminated) if sure else None
    if left == 1 and traits.precision is not None and end is None:
        [best] = set(range(problem.targets)).difference(log.eliminated)
        named = f"{_list([problem.target_labels[best]])} is {_best(1, traits, unit)}"
        return f"{named} of {problem.targets} options; its lead is being measured."
    leaders, reason = ([], "running") if end is None else ([end["label"]], end["reason"])
    options = count_options(problem.targets, log.retired)
    return _undecided(log.head, options, left=left, leaders=leaders, reason=reason)


def standing(recommendation: Recommendation, traits: Traits, *, proven: bool, unit: Unit) -> str:
    """What each of the named options is."""
    if not proven:
        return "named"
    count = max(1, len(recommendation.chosen))
    if recommendation.tied and count == 1 and not traits.margin:
        return "tied as the best"
    among = "" if count == 1 or traits.margin else "among "
    return f"{among}{_best(count, traits, unit)}"


def _best(count: int, traits: Traits, unit: Unit) -> str:
    best = "the best" if count == 1 else f"the {count} best"
    return f"within {unit.declared(traits.margin)} of {best}" if traits.margin else best


def _named(data: Mapping[str, Any], problem: Problem) -> list[str]:
    return [problem.target_labels[target] for target in data["chosen"] or [data["target"]]]


def _decided(
    data: Mapping[str, Any],
    problem: Problem,
    traits: Traits,
    unit: Unit,
    retired: int,
    effect: Effect | None = None,
) -> str:
    names = _named(data, problem)
    verb = "is" if len(names) == 1 else "are"
    if problem.targets - retired == 1:
        return f"{_list(names)} is the only option left: all others were retired."
    options = count_options(problem.targets, retired)
    best = f"{_best(len(names), traits, unit)} of {options}"
    made = in_rounds(data["pulls"], data["rounds"] or data["pulls"])
    if data["error_bound"] is None:
        return f"{_list(names)} {verb} named {best} after {made}; no error probability is proven."
    sure = f"at {percent(problem.delta)} after {made}"
    every = "tied" in data and data["pulls"] == data["rounds"] * problem.targets
    if every and traits.control is None:
        items = all_of(data["rounds"], "item")
        judged = f"{items} {'was' if data['rounds'] == 1 else 'were'} judged"
        sure = f"exactly: no option was ruled out before {judged}"
    if data.get("tied") and not traits.margin:
        return f"{_tie(data, problem)}, {sure}."
    if data["reason"] == "equivalent":
        more = f"by more than {unit.declared(traits.margin)}"
        return f"No option is better than the control {_list(names)} {more}, {sure}."
    control = f"{_list(names)}, the control," if effect else _list(names)
    if effect is None or effect.control == data["target"]:
        return f"{control} {verb} {best}, {sure}."
    verdict = f"{_list(names)} {verb} {best}. {lead(effect, unit)} Both hold together, {sure}."
    if data["reason"] == "measuring" and traits.precision is not None:
        verdict += (
            f" The test goes on until the lead is known to ±{unit.declared(traits.precision)}."
        )
    return verdict


def _tie(data: Mapping[str, Any], problem: Problem) -> str:
    quoted = [_list([label]) for label in problem.target_labels]
    return describe_tie(data["chosen"], data["tied"], quoted)


def lead(effect: Effect, unit: Unit) -> str:
    """How far the named option is ahead of the control, in a sentence."""
    size = unit.lead(effect.estimate, effect.lower, effect.upper, effect.relative)
    return f"Its lead over the control {_list([effect.label])} is {size}."


def _undecided(
    head: Head, options: str, *, left: int | None, leaders: Sequence[str], reason: str
) -> str:
    parts = [f"{_list(leaders)} {_verb(leaders, 'lead')}"] if leaders else []
    if left is not None:
        still = "is" if left == 1 else "are"
        parts.append(f"{left} of {options} {still} still possible")
    rest = ", ".join(parts) or f"{options} are compared"
    if head.state == "finished":
        return f"{_ENDS.get(reason, 'Ended')}, without a winner: {rest}."
    return f"{_STATES.get(head.state, 'No winner yet')}: {rest}."


def _verb(names: Sequence[str], verb: str) -> str:
    return f"{verb}s" if len(names) == 1 else verb


def _list(names: Sequence[str]) -> str:
    quoted = [f"‘{name}’" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def _remark(kind: str, data: Mapping[str, Any]) -> str:
    """A note, or what a server noticed."""
    if kind == "noted":
        return str(data["text"])
    if kind == "stalled":
        since, awaited = in_utc(data["since"]), plural(data["outstanding"], "outcome")
        return f"Stalled: nothing was told since {since}; {awaited} outstanding."
    check = data["check"]
    return f"Alarm ({check}): {data['finding']}" if kind == "alarm" else f"Alarm ended ({check})."


_PLAIN = {
    "paused": "Paused: no assignments are made.",
    "archived": "Archived: lists leave it out.",
    "restored": "Shown in lists again.",
}
_GUARDED = {
    "worse": "worse by more than the margin",
    "fine": "not worse by more than the margin",
    "unclear": "not known yet",
    "retired": "retired",
}


def guardrail_line(row: GuardrailRow) -> str:
    """How one option stands with one guardrail, in a line."""
    worse = f"worse by {row.low:.3g} to {row.high:.3g} (margin {row.guardrail.worse_by:g})"
    return f"{row.guardrail.name}, {row.label}: {worse}: {_GUARDED[row.state]}"


def _changed(kind: str, data: Mapping[str, Any]) -> str:
    """A change of the options, or of the lease."""
    if kind == "changed":
        lease = data["lease"]
        return f"Outcomes may now take {'any time' if lease is None else in_time(lease)}."
    option = f"Option {_list([data['label']])} {kind}"
    if kind == "added":
        return f"{option}."
    by = "" if data["made_by"] == "hand" else f" by {data['made_by']}"
    return f"{option}{by}: {data['reason'].rstrip('.')}."


def _ended(data: Mapping[str, Any], problem: Problem) -> str:
    """The end of an experiment by its policy."""
    names = _named(data, problem)
    if not data["final"]:
        return f"{_ENDS.get(data['reason'], 'Ended')}; {_list(names)} led at the end."
    if data["reason"] == "equivalent":
        return f"Finished: no option is much better than the control {_list(names)}."
    if data.get("tied"):
        return f"Finished: {_tie(data, problem)}."
    return f"Finished: {_list(names)} {'is' if len(names) == 1 else 'are'} named."


_COUNTED = {
    "late": "{outcome} came too late to be used.",
    "failed": "{outcome} given up.",
    "erased": "A unit with {assignment} was erased.",
    "unavailable": "{unit} not available.",
}


def describe(event: Event, problem: Problem, *, open_plans: bool) -> str:
    """An event in words. Under open plans more may be drawn than the plan asks for."""
    data, kind = event.data, event.kind
    phase = f"Phase {data.get('phase')}"
    text = _PLAIN.get(kind, f"{kind.capitalize()}.")
    match kind:
        case "created" if data.get("window") is not None:
            after = f"{in_time(data['window'])} after their assignment"
            text = f"Created. Outcomes count {after}, as {data['otherwise']:g} where none is told."
        case "planned":
            more = " or more" if open_plans else ""
            text = f"{phase} planned: {plural(data['pulls'], 'assignment')}{more}."
        case "closed":
            text = f"{phase} evaluated: {plural(data['drawn'], 'assignment')}."
        case "answered":
            text = f"{phase}: {plural(data['drawn'], 'outcome')} added that came later."
        case "eliminated":
            text = f"{_list(data['labels'])} dropped by the outcomes of {phase.lower()}."
        case "guardrail":
            text = f"{_list([data['label']])} is worse than the control in {data['guardrail']} by "
            text += f"more than {data['worse_by']:g}."
        case "finished":
            text = _ended(data, problem)
        case "added" | "retired" | "changed":
            text = _changed(kind, data)
        case "late" | "failed" | "erased" | "unavailable":
            ids = data.get("ids", ())  # below 0 where nothing was drawn
            count = data.get("count", sum(max(end, 0) - max(first, 0) for first, end in ids))
            given = {noun: plural(count, noun) for noun in ("assignment", "outcome", "unit")}
            text = _COUNTED[kind].format(**given)
        case "noted" | "alarm" | "cleared" | "stalled":
            text = _remark(kind, data)
        case "stopped":
            text = f"Stopped by hand{f': {reason}' if (reason := data.get('reason')) else '.'}"
    return text
