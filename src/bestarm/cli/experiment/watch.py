"""`bestarm experiment watch`: an experiment in the terminal, as it goes on."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

import typer

from bestarm.cli.command import command
from bestarm.cli.experiment.command import open_experiment
from bestarm.cli.output import console, printable, table
from bestarm.defaults import STORE
from bestarm.units import plural, rough

if TYPE_CHECKING:
    from rich.console import Console, Group

    from bestarm.live.watch.overview import Option, Overview, Watch

_POLL_INTERVAL = 0.5  # seconds between two looks at the counters
_REFRESH = 10.0  # seconds after which all is looked at again: time alone may make outcomes overdue
_STATUS = {"best": "best", "leads": "leads", "in": "possible", "out": "out"}


@command
def watch(
    name: str,
    *,
    once: bool = False,
    store: str = STORE,
    allow_module: list[str] | None = None,
) -> None:
    """Watch an experiment in the terminal until it is over, or until Ctrl-C.

    Where the output is not a terminal, a line is printed per change of the verdict, the state or
    the health.

    Args:
        once: Show it as it is now, and end.
    """
    with suppress(KeyboardInterrupt), open_experiment(store, name, allow_module) as experiment:
        from bestarm.live.watch.overview import Watch

        screen, looks = console(), Watch(experiment)
        if screen.is_terminal or once:
            _show(screen, looks, once=once)
        else:
            _print_changes(looks)


def _show(screen: Console, looks: Watch, *, once: bool) -> None:
    from rich.live import Live

    overview = looks.overview()
    if once:
        screen.print(render(overview))
        return
    with Live(render(overview), console=screen, auto_refresh=False) as live:
        while not overview.head.over:
            overview = _next(looks, overview)
            live.update(render(overview), refresh=True)


def _print_changes(looks: Watch) -> None:
    overview, before = looks.overview(), ""
    while True:
        parts = (overview.state, overview.verdict, _health(overview))
        if (facts := "; ".join(parts)) != before:
            told = plural(overview.head.outcomes, "outcome")
            at = time.strftime("%Y-%m-%d %H:%M:%S")
            typer.echo(printable(f"{at}  {told}  {overview.state}: {'  '.join(parts[1:])}"))
            before = facts
        if overview.head.over:
            return
        overview = _next(looks, overview)


def _next(looks: Watch, before: Overview) -> Overview:
    """The experiment once something is recorded, or after a while."""
    latest = time.monotonic() + _REFRESH
    while looks.experiment.revision == before.head.revision and time.monotonic() < latest:
        time.sleep(_POLL_INTERVAL)
    return looks.overview()


def render(overview: Overview) -> Group:
    """All that is shown: the verdict, the options, how it goes on, and its health."""
    from rich.console import Group
    from rich.text import Text

    grid = table("option", "status", "traffic", "behind the leader", "evidence")
    grid.columns[0].min_width, grid.columns[3].no_wrap = 8, False  # in a narrow terminal
    control = overview.spec.traits.control
    for option in overview.leaderboard:
        label = f"{option.label} (control)" if option.target == control else option.label
        grid.add_row(printable(label), *_cells(option, overview))
    head = overview.head
    going = [plural(head.outcomes, "outcome"), f"{head.outstanding:,} outstanding"]
    if head.losses:
        going.append(f"{head.losses:,} lost")
    if overview.pace is not None and not head.over:
        going.append(f"{rough(overview.pace, 'outcome')} per hour")
    if overview.forecast is not None and overview.forecast.expected is not None:
        going.append(f"about {rough(overview.forecast.expected)} more")
    return Group(
        Text(f"{printable(overview.name)}: {overview.state}", style="bold"),
        *(Text(printable(each)) for each in overview.sentences),
        Text(""),
        grid,
        Text(""),
        Text(", ".join(going)),
        Text(printable(_health(overview)), style=_colour(overview)),
    )


def _cells(option: Option, overview: Overview) -> list[str]:
    share = "–"
    if option.arm is not None and overview.used:
        share = f"{overview.allocation[option.arm].drawn / overview.used:.1%}".replace("%", " %")
    behind, unit = "–", overview.unit
    if option.behind is not None and option.status not in {"best", "leads"}:
        behind = unit.difference(option.behind, option.low, option.high)
        if option.low is not None and option.high is not None:
            behind += f" ({unit.interval(option.low, option.high, option.behind)})"
    against = "–" if option.evidence is None else f"{option.evidence:.0%}".replace("%", " %")
    if option.status in {"best", "leads"}:
        against = "–"
    return [_STATUS.get(option.status, option.status), share, behind, against]


def _health(overview: Overview) -> str:
    wrong = [check for check in overview.health if check.level != "ok"]
    if not overview.head.outcomes and not wrong:
        return "Health: nothing to check yet."
    if not wrong:
        return f"Health: all {len(overview.health)} checks are well."
    return "Health: " + " ".join(f"{each.level}: {each.finding}" for each in wrong)


def _colour(overview: Overview) -> str:
    from bestarm.live.values import worst

    return {"ok": "green", "warning": "yellow", "alarm": "red"}[worst(overview.health)]
