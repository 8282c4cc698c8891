"""Facts about an experiment as sentences, for people who do not know the method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bestarm.live.events import recommendation_data
from bestarm.live.guardrails import GuardrailRow
from bestarm.live.store.head import Head
from bestarm.live.values import held_up, in_rounds
from bestarm.live.watch.follower import Log
from bestarm.live.watch.story import ENDS, best, describe_all_tied, named, quoted, verb_of
from bestarm.policies.policy import Traits
from bestarm.problem import Problem
from bestarm.recommendation import Effect, Recommendation
from bestarm.units import Unit, all_of, count_options

_CONTRADICTED = "The outcomes contradict the declared scales, so nothing is proven."
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
    if not traits.decides:
        return "It assigns with fixed probabilities and names no winner: nothing is claimed."
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
) -> list[str]:
    """The state of an experiment in sentences, the first of which says what it comes to.

    The others are how far the winner leads, and which outcome holds up the decision, if one does.
    So many of its options were retired.
    """
    data = recommendation_data(recommendation)
    names = named(data, problem)
    if recommendation.final and recommendation.contradicted:
        return [f"{quoted(names)} {verb_of(names, 'lead')}.", _CONTRADICTED]
    if recommendation.final:
        return _decided(data, problem, traits, unit, retired, recommendation.effect)
    shown = recommendation.pulls and recommendation.leads
    leaders, left = names if shown else [], len(recommendation.active)
    options = count_options(problem.targets, retired)
    state = _undecided(head, options, left, leaders, recommendation.reason, traits)
    sentences = [state]
    if waits := held_up(*waits_for):
        sentences.append(f"{waits[0].upper()}{waits[1:]}.")
    if recommendation.contradicted:
        sentences.append(_CONTRADICTED)
    return sentences


def headline(log: Log, problem: Problem, traits: Traits) -> str:
    """The verdict, as far as counters and events tell it without the policy."""
    end, unit = log.end, Unit(percent=traits.bounds == (0, 1))  # outcomes are not read here
    if end is not None and end["final"]:
        return " ".join(_decided(end, problem, traits, unit, log.retired))
    # A rule that names several may take a dropped option back; so may any once one is retired.
    sure = traits.names_the_best and not log.retired
    left = problem.targets - len(log.eliminated) if sure else None
    if left == 1 and traits.precision is not None and end is None:
        [left_over] = set(range(problem.targets)).difference(log.eliminated)
        best_left = f"{quoted([problem.target_labels[left_over]])} is {best(1, traits, unit)}"
        return f"{best_left} of {problem.targets} options; its lead is being measured."
    leaders, reason = ([], "running") if end is None else ([end["label"]], end["reason"])
    options = count_options(problem.targets, log.retired)
    return _undecided(log.head, options, left, leaders, reason, traits)


def standing(recommendation: Recommendation, traits: Traits, *, proven: bool, unit: Unit) -> str:
    """What each of the named options is."""
    if not proven:
        return "named"
    count = max(1, len(recommendation.chosen))
    if recommendation.tied and count == 1 and not traits.margin:
        return "tied as the best"
    among = "" if count == 1 or traits.margin else "among "
    return f"{among}{best(count, traits, unit)}"


def _decided(
    data: Mapping[str, Any],
    problem: Problem,
    traits: Traits,
    unit: Unit,
    retired: int,
    effect: Effect | None = None,
) -> list[str]:
    names = named(data, problem)
    verb = "is" if len(names) == 1 else "are"
    if problem.targets - retired == 1:
        return [f"{quoted(names)} is the only option left: all others were retired."]
    options = count_options(problem.targets, retired)
    outcome = f"{best(len(names), traits, unit)} of {options}"
    made = in_rounds(data["pulls"], data["rounds"] or data["pulls"])
    if data["error_bound"] is None:
        return [
            f"{quoted(names)} {verb} named {outcome} after {made}; no error probability is proven."
        ]
    sure = f"at {percent(problem.delta)} after {made}"
    every = "tied" in data and data["pulls"] == data["rounds"] * problem.targets
    if every and traits.control is None:
        items = all_of(data["rounds"], "item")
        judged = f"{items} {'was' if data['rounds'] == 1 else 'were'} judged"
        sure = f"exactly: no option was ruled out before {judged}"
    if data.get("tied") and not traits.margin:
        return [f"{describe_all_tied(data, problem)}, {sure}."]
    if data["reason"] == "equivalent":
        more = f"by more than {unit.declared(traits.margin)}"
        return [f"No option is better than the control {quoted(names)} {more}, {sure}."]
    control = f"{quoted(names)}, the control," if effect else quoted(names)
    if effect is None or effect.control == data["target"]:
        return [f"{control} {verb} {outcome}, {sure}."]
    verdict = [f"{quoted(names)} {verb} {outcome}.", lead(effect, unit)]
    verdict.append(f"Both hold together, {sure}.")
    if data["reason"] == "measuring" and traits.precision is not None:
        known = unit.declared(traits.precision)
        verdict.append(f"The test goes on until the lead is known to ±{known}.")
    return verdict


def lead(effect: Effect, unit: Unit) -> str:
    """How far the named option is ahead of the control, in a sentence."""
    size = unit.lead(effect.estimate, effect.lower, effect.upper, effect.relative)
    return f"Its lead over the control {quoted([effect.label])} is {size}."


def _undecided(
    head: Head,
    options: str,
    left: int | None,
    leaders: Sequence[str],
    reason: str,
    traits: Traits,
) -> str:
    if head.state == "running" and not head.assigned:
        return f"Ready: {options} wait for their first assignment."
    if reason == "cycle":
        return f"{ENDS['cycle']}."
    if not traits.decides:
        state = {"stopped": "Stopped by hand", "paused": "Paused"}.get(head.state, "Running")
        state = ENDS.get(reason, "Ended") if head.state == "finished" else state
        highest = f"; {quoted(leaders)} has the highest mean" if leaders else ""
        verb = "were" if head.over else "are"
        return f"{state}: {options} {verb} assigned with fixed probabilities{highest}."
    parts = [f"{quoted(leaders)} {verb_of(leaders, 'lead')}"] if leaders else []
    if left is not None:
        still = "is" if left == 1 else "are"
        parts.append(f"{left} of {options} {still} still possible")
    rest = ", ".join(parts) or f"{options} are compared"
    if head.state == "finished":
        return f"{ENDS.get(reason, 'Ended')}, without a winner: {rest}."
    return f"{_STATES.get(head.state, 'No winner yet')}: {rest}."


_GUARDED = {
    "worse": "worse by more than the margin",
    "fine": "not worse by more than the margin",
    "unclear": "not known yet",
    "retired": "retired",
}


def guardrail_line(row: GuardrailRow) -> str:
    """How one option stands with one guardrail, in a line."""
    unit = row.unit
    interval = unit.interval(row.low, row.high, row.estimate)
    worse = f"worse by {unit.difference(row.estimate, row.low, row.high)} ({interval}), "
    worse += f"margin {unit.declared(row.guardrail.worse_by)}"
    return f"{row.guardrail.name}, {row.label}: {worse}: {_GUARDED[row.state]}"
