"""`bestarm design`: weights over arms, and their certificate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bestarm.cli.options import AsJson, Source, Target, decimal
from bestarm.cli.reporting import console, print_json, printable, reported
from bestarm.errors import InvalidInputError

if TYPE_CHECKING:
    from bestarm.design import Design

__all__ = ["design"]

_DUST = 1e-4  # weights below are summed up in one row


class Criterion(StrEnum):
    """The designs that can be asked for."""

    CENTERED_XY = "centered-xy"
    CENTERED_G = "centered-g"
    LINEAR_XY = "linear-xy"
    LINEAR_G = "linear-g"
    DEO = "deo"
    XOR = "xor"


_MEANING = {
    "centered-xy": "largest variance factor of a contrast of targets, whatever the baseline",
    "centered-g": "largest variance factor of an arm against the mean, whatever the baseline",
    "linear-xy": "largest variance factor of a contrast of targets, without a baseline",
    "linear-g": "largest variance factor of an arm, without a baseline",
    "deo": "largest variance factor of an arm against the anchor, whatever the baseline",
    "xor": "largest variance factor of a contrast of targets, whatever the baseline",
}
_ANCHORED = (Criterion.DEO, Criterion.XOR)
_FOR_CONTRASTS = (Criterion.CENTERED_XY, Criterion.LINEAR_XY, Criterion.XOR)


@reported
def design(
    source: Source,
    target: Target = None,
    criterion: Annotated[
        Criterion, typer.Option(help="What the design is to make small.")
    ] = Criterion.CENTERED_XY,
    anchor: Annotated[
        str | None,
        typer.Option(help="Label or index of the anchor, for deo and xor; the first arm if none."),
    ] = None,
    tol: Annotated[float, typer.Option(parser=decimal, help="The relative gap to certify.")] = 1e-3,
    json: AsJson = False,
    out: Annotated[
        Path | None, typer.Option(metavar="WEIGHTS.csv", help="Write all weights to this file.")
    ] = None,
) -> None:
    """How to spread pulls over arms, with a proof of how good that is."""
    from bestarm import design as designs
    from bestarm.cli.features import read_table, write_table

    arms = read_table(source)
    options: dict[str, float] = {"tol": tol}
    if criterion in _ANCHORED:
        options["anchor"] = 0 if anchor is None else _find(anchor, arms.names)
    elif anchor is not None:
        raise _unused("anchor", criterion, "deo and xor")
    solvers: dict[Criterion, Callable[..., Design]] = {
        Criterion.CENTERED_XY: designs.centered_xy,
        Criterion.CENTERED_G: designs.centered_g,
        Criterion.LINEAR_XY: designs.linear_xy,
        Criterion.LINEAR_G: designs.linear_g,
        Criterion.DEO: designs.deo,
        Criterion.XOR: designs.xor,
    }
    solve = solvers[criterion]
    if criterion in _FOR_CONTRASTS:
        targets = arms if target is None else read_table(target)
        result = solve(arms.features, targets.features, **options)
    elif target is not None:
        raise _unused("target", criterion, "centered-xy, linear-xy and xor")
    else:
        result = solve(arms.features, **options)
    weights = list(zip(arms.names, result.weights.tolist(), strict=True))
    if out is not None:
        write_table(out, ("label", "weight"), weights)
    if json:
        _print_json(criterion, result, weights, arms.names)
    else:
        _print_words(criterion, result, weights, arms.names)
        if out is not None:
            console().print(f"All {len(weights)} weights are in {out}.", soft_wrap=True)


def _find(anchor: str, names: Sequence[str]) -> int:
    if names.count(anchor) == 1:
        return names.index(anchor)
    if anchor.isdecimal() and int(anchor) < len(names) and anchor not in names:
        return int(anchor)
    what = "names several source arms" if anchor in names else "is not a source arm"
    raise InvalidInputError(
        f"`anchor` {anchor!r} {what}.",
        field="anchor",
        value=anchor,
        remedy=f"Give a label that is unique, or an index from 0 to {len(names) - 1}.",
    )


def _unused(option: str, criterion: str, takers: str) -> InvalidInputError:
    return InvalidInputError(
        f"`{option}` does not apply to the criterion {criterion}.",
        field=option,
        value=criterion,
        remedy=f"Leave it out, or choose one of {takers}.",
    )


def _print_json(
    criterion: str, result: Design, weights: Sequence[tuple[str, float]], names: Sequence[str]
) -> None:
    from bestarm.design import AnchoredDesign

    report: dict[str, object] = {
        "criterion": criterion,
        "value": result.value,
        "lower_bound": result.lower_bound,
        "gap": result.gap,
        "iterations": result.iterations,
    }
    if isinstance(result, AnchoredDesign):
        report["anchor"] = names[result.anchor]
    report["weights"] = [{"label": label, "weight": weight} for label, weight in weights]
    print_json(report)


def _print_words(
    criterion: str, result: Design, weights: Sequence[tuple[str, float]], names: Sequence[str]
) -> None:
    from rich.table import Table as RichTable

    from bestarm.design import AnchoredDesign

    screen = console()
    screen.print(f"{criterion}: {_MEANING[criterion]}")
    screen.print(f"  value        {result.value:.6g}")
    if isinstance(result, AnchoredDesign):
        screen.print(f"  lower bound  {result.lower_bound:.6g}  (the benchmark: shifted, linear)")
        screen.print(f"  ratio        {1 + result.gap:.4g}  (never above 4)")
        screen.print(f"  anchor       {names[result.anchor]}", soft_wrap=True)
    else:
        screen.print(f"  lower bound  {result.lower_bound:.6g}  (no design is better than this)")
        screen.print(f"  gap          {result.gap:.2e}  (certified)")
    table = RichTable("arm", box=None, pad_edge=False, header_style="bold")
    table.add_column("weight", justify="right")
    heavy = sorted((row for row in weights if row[1] >= _DUST), key=lambda row: -row[1])
    for label, weight in heavy:
        table.add_row(printable(label), f"{weight:.4f}")
    dust = [weight for _, weight in weights if weight < _DUST]
    if dust:
        kind = "arm" if len(dust) == 1 else "arms"
        table.add_row(f"{len(dust)} {kind} below {_DUST:g}", f"{sum(dust):.4f}")
    screen.print()
    screen.print(table)
