"""Pictures of the leaderboard: the methods of an instance, drift by drift."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from bestarm.field.benchmark import BenchmarkInstance
from bestarm.field.standings import Standing
from bestarm.studies.pictures import (
    COLOURS,
    INK,
    PAPER,
    QUIET,
    legend_entry,
    list_axes,
    set_pulls_axis,
)
from bestarm.studies.study import Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARKERS = {
    "none": (INK, "o"),
    "sine": (COLOURS["blue"], "s"),
    "walk": (COLOURS["green"], "^"),
    "jumps": (COLOURS["orange"], "D"),
    "adversary": (COLOURS["vermilion"], "v"),
    "within-0.1": (COLOURS["purple"], "P"),
    "within-0.05": (QUIET, "X"),
}


def standings_pictures(
    instance: BenchmarkInstance, standings: Sequence[Standing]
) -> Iterator[Picture]:
    """One instance under all drifts, a picture per goal; within `house_style()`."""
    for goal, title, caption in (
        (
            "confidence",
            "Pulls by drift",
            "Mean pulls with their 95 % intervals. Hollow marks are of methods that are wrong more "
            "often than δ.",
        ),
        ("budget", "Errors by drift", "Shares of wrong answers with their 95 % intervals."),
    ):
        chosen = [each for each in standings if each.competitor.goal == goal]
        if chosen:
            name = f"{instance.name}-{goal}"
            yield Picture(name, title, caption, draw_standings(instance, chosen))


def draw_standings(instance: BenchmarkInstance, standings: Sequence[Standing]) -> Figure:
    """One line per method, one mark per drift, of methods with the same goal."""
    methods = list(dict.fromkeys(each.competitor.name for each in standings))
    drifts = list(dict.fromkeys(each.condition.drift for each in standings))
    figure, axes = list_axes(f"{instance.name}: {instance.description}", methods)
    budget = standings[0].competitor.goal == "budget"
    reach = [1.0]
    for each in standings:
        colour, marker = _MARKERS[each.condition.drift]
        if budget:
            value, (low, high) = each.error_rate, each.error_interval
        else:
            value, low, high = each.pulls, each.pulls - each.half, each.pulls + each.half
        place = (len(drifts) - 1) / 2 - drifts.index(each.condition.drift)  # 0 in the middle
        height = 0.13 * place - methods.index(each.competitor.name)
        axes.plot([low, high], [height] * 2, color=colour, lw=1.2)
        fill = PAPER if each.breaks_delta else colour
        axes.plot([value], [height], marker, color=colour, ms=4.5, mfc=fill, mew=0.8)
        reach += [value, high]
    if budget:
        axes.set_xlim(left=0.0)
        axes.set_xlabel("wrong answers")
    else:
        least = min(each.pulls for each in standings)
        axes.set_xlim(max(least / 2, 0.5), 1.2 * max(reach))
        set_pulls_axis(axes)
    handles = [
        legend_entry(drift, color=_MARKERS[drift][0], marker=_MARKERS[drift][1], ms=4.5)
        for drift in drifts
    ]
    figure.legend(handles=handles, loc="outside lower left", ncols=len(drifts))
    return figure
