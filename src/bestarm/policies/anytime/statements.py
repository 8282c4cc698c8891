"""What the anytime rule says in words."""

from __future__ import annotations

from bestarm.problem import Problem
from bestarm.recommendation import FINAL, Recommendation


def statement(
    said: Recommendation,
    problem: Problem,
    outcomes: int,
    tolerance: float,
    items: int | None,
) -> str:
    """The conclusion so far.

    Args:
        said: what is recommended.
        problem: the problem.
        outcomes: how many outcomes are in.
        tolerance: how much worse than the best a named target may be.
        items: the number of items there are, if they are finite.
    """
    if said.contradicted:
        return (
            "Rewards contradict the declared scales, so nothing is proven. Declare a larger "
            "`noise`, `baseline` or `mean_bound`."
        )
    targets, count = problem.targets, len(said.chosen)
    names = ", ".join(repr(problem.target_labels[i]) for i in said.chosen)
    if not outcomes:
        return f"Not decided: no outcome of the {targets} options is in yet."
    if said.reason not in FINAL and not said.leads:
        return (
            f"Not decided after {outcomes} outcomes: too many others are outstanding to say which "
            f"option leads, {len(said.active)} of {targets} options are left."
        )
    if said.reason not in FINAL:
        leads = "lead" if count > 1 else "leads"
        return (
            f"Not decided after {outcomes} outcomes: {names} {leads}, {len(said.active)} of "
            f"{targets} options are left."
        )
    if said.reason == "equivalent":
        claim = f"No option is better than {names}, the control, by more than {tolerance:g}"
    elif tolerance:
        who = f"Each of {names}" if count > 1 else names
        whom = f"{_ordinal(count)} best" if count > 1 else "best"
        claim = f"{who} is at most {tolerance:g} worse than the {whom} of {targets} options"
    elif said.tied:
        claim = _tie(said, problem)
    elif count > 1:
        claim = f"{names} are the {count} best of {targets} options"
    else:
        claim = f"{names} is the best of {targets} options"
    if said.reason == "exact":
        claim += f" over all {items} items, each of which was judged"
    effect = said.effect
    if effect is not None and effect.control != said.target:
        claim += (
            f", and its lead over {effect.label!r}, the control, lies between {effect.lower:.4g} "
            f"and {effect.upper:.4g}"
        )
    return (
        f"{claim}. The probability that this rule ever says so wrongly, at any of its looks, is at "
        f"most {problem.delta:g}."
    )


def _tie(said: Recommendation, problem: Problem) -> str:
    *others, last = (repr(problem.target_labels[i]) for i in said.tied)
    tie = f"{', '.join(others)} and {last} tie"
    count, above = len(said.chosen), [i for i in said.chosen if i not in said.tied]
    if count == 1:
        return f"{tie} as the best of {problem.targets} options"
    if not above:
        return f"{tie} as the {count} best of {problem.targets} options"
    names = ", ".join(repr(problem.target_labels[i]) for i in above)
    return f"{names} lead{'s' if len(above) == 1 else ''} {problem.targets} options and {tie} next"


def _ordinal(number: int) -> str:
    teen = number % 100 in (11, 12, 13)
    return f"{number}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"
