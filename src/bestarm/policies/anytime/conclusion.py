"""The conclusion of the anytime rule in words."""

from __future__ import annotations

from bestarm.problem import Problem
from bestarm.recommendation import FINAL, Recommendation, describe_tie
from bestarm.units import Unit, all_of, count_options, plural


def conclusion(
    recommendation: Recommendation,
    problem: Problem,
    retired: int,
    outcomes: int,
    tolerance: float,
    items: int | None,
    out: int,
    unit: Unit,
) -> str:
    """The conclusion so far.

    Args:
        recommendation: what is recommended.
        problem: the problem.
        retired: how many of its options are retired.
        outcomes: how many outcomes are in.
        tolerance: how much worse than the best a named target may be.
        items: the number of items there are, if they are finite.
        out: the number of options that are ruled out.
        unit: how rewards are written.
    """
    if recommendation.contradicted:
        return (
            "Rewards contradict the declared scales, so nothing is proven. Declare a larger "
            "`noise`, `baseline` or `mean_bound`, or with `bounds` another `level`."
        )
    count = len(recommendation.chosen)
    names = ", ".join(repr(problem.target_labels[i]) for i in recommendation.chosen)
    options = count_options(problem.targets, retired)
    if recommendation.reason not in FINAL:
        return f"Not decided{_undecided(recommendation, names, outcomes, options)}"
    within = unit.declared(tolerance)
    if recommendation.reason == "equivalent":
        claim = f"No option is better than {names}, the control, by more than {within}"
    elif tolerance:
        who = f"Each of {names}" if count > 1 else names
        whom = f"{_ordinal(count)} best" if count > 1 else "best"
        claim = f"{who} is at most {within} worse than the {whom} of {options}"
    elif recommendation.tied:
        quoted = [repr(label) for label in problem.target_labels]
        claim = describe_tie(recommendation.chosen, recommendation.tied, quoted)
    elif count > 1:
        claim = f"{names} are the {count} best of {options}"
    elif problem.targets - retired == 1:
        return f"{names} is the only option left: all others are retired."
    else:
        claim = f"{names} is the best of {options}"
    if recommendation.reason == "exact":
        assert items is not None
        claim += f" over {all_of(items, 'item')}"
    effect = recommendation.effect
    if effect is not None and effect.control != recommendation.target:
        lead = unit.lead(effect.estimate, effect.lower, effect.upper, effect.relative)
        claim += f"; its lead over {effect.label!r}, the control, is {lead}"
    if recommendation.reason == "exact":
        them = "it was" if items == 1 else "all of them were"
        claim += f". {_ruled_out(out)} before {them} judged"
        if not out and effect is None:
            return f"{claim}, so this is exact."
    return (
        f"{claim}. The probability that this rule ever says so wrongly, at any of its looks, is at "
        f"most {problem.delta:g}."
    )


def _undecided(recommendation: Recommendation, names: str, outcomes: int, options: str) -> str:
    if not outcomes:
        return f": no outcome of the {options} counts yet."
    leads = f"{names} {'lead' if len(recommendation.chosen) > 1 else 'leads'}"
    if not recommendation.leads:
        leads = "those that would show which option leads are not in"
    active = len(recommendation.active)
    left = f"{active} of {options} {'is' if active == 1 else 'are'} left"
    return f" after {plural(outcomes, 'outcome')}: {leads}, {left}."


def _ruled_out(options: int) -> str:
    if not options:
        return "No option was ruled out"
    return f"{plural(options, 'option')} {'was' if options == 1 else 'were'} ruled out"


def _ordinal(number: int) -> str:
    teen = number % 100 in (11, 12, 13)
    return f"{number}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"
