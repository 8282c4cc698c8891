"""`bestarm design`: weights over arms, and their certificate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from bestarm.cli.command import command
from bestarm.cli.output import console, count, print_json, printable, table
from bestarm.errors import InvalidInputError

if TYPE_CHECKING:
    from bestarm.design import Design

_NEGLIGIBLE = 1e-4  # weights below are summed up in one row


Criterion = Literal["centered-xy", "centered-g", "linear-xy", "linear-g", "deo", "xor"]
_MEANING: dict[Criterion, str] = {
    "centered-xy": "a contrast of targets, whatever the baseline",
    "centered-g": "an arm against the mean, whatever the baseline",
    "linear-xy": "a contrast of targets, without a baseline",
    "linear-g": "an arm, without a baseline",
    "deo": "an arm against the anchor, whatever the baseline",
    "xor": "a contrast of targets, whatever the baseline",
}


@command
def design(
    source: Path,
    *,
    target: Path | None = None,
    criterion: Criterion = "centered-xy",
    anchor: str | None = None,
    tol: float = 1e-3,
    json: bool = False,
    out: Path | None = None,
) -> None:
    """How to spread pulls over arms, with a proof of how good that is.

    Args:
        criterion: What the design is to make small.
        anchor: Label or index of the anchor, for deo and xor; the first arm if none.
        tol: The relative gap to certify.
        out (WEIGHTS.csv): Write all weights to this file.
    """
    from bestarm import design as designs
    from bestarm.cli.features import read_table, write_table

    solve: Callable[..., Design] = getattr(designs, criterion.replace("-", "_"))
    taken = signature(solve).parameters
    for option, value in (("anchor", anchor), ("target", target)):
        if value is not None and option not in taken:
            raise InvalidInputError(
                f"`{option}` does not apply to the criterion {criterion}.",
                field=option,
                value=criterion,
                remedy="Leave it out, or choose another criterion.",
            )
    arms = read_table(source)
    targets = arms if target is None else read_table(target)
    options = {"target": targets.features, "anchor": _find(anchor, arms.names), "tol": tol}
    result = solve(arms.features, **{key: options[key] for key in options if key in taken})
    weights = list(zip(arms.names, result.weights.tolist(), strict=True))
    if out is not None:
        write_table(out, ("label", "weight"), weights)
    center = arms.names[result.anchor] if isinstance(result, designs.AnchoredDesign) else None
    if json:
        certificate = ("value", "lower_bound", "gap", "iterations")
        report = {"criterion": criterion, **{key: getattr(result, key) for key in certificate}}
        rows = [{"label": label, "weight": weight} for label, weight in weights]
        print_json({**report, "anchor": center, "weights": rows})
        return
    _print_words(criterion, result, weights, center)
    if out is not None:
        typer.echo(f"All {len(weights)} weights are in {out}.")


def _find(anchor: str | None, names: Sequence[str]) -> int:
    if anchor is None:
        return 0
    if anchor in names:
        return names.index(anchor)
    if anchor.isdecimal() and int(anchor) < len(names):
        return int(anchor)
    raise InvalidInputError(
        f"`anchor` {anchor!r} is not a source arm.",
        field="anchor",
        value=anchor,
        remedy=f"Give a label, or an index from 0 to {len(names) - 1}.",
    )


def _print_words(
    criterion: Criterion, result: Design, weights: Sequence[tuple[str, float]], anchor: str | None
) -> None:
    typer.echo(f"{criterion}: largest variance factor of {_MEANING[criterion]}")
    typer.echo(f"  value        {result.value:.6g}")
    if anchor is None:
        typer.echo(f"  lower bound  {result.lower_bound:.6g}  (no design is better than this)")
        typer.echo(f"  gap          {result.gap:.2e}  (certified)")
    else:
        typer.echo(f"  lower bound  {result.lower_bound:.6g}  (the benchmark: shifted, linear)")
        typer.echo(f"  ratio        {1 + result.gap:.4g}  (never above 4)")
        typer.echo(f"  anchor       {printable(anchor)}")
    shown = table("arm", "weight")
    for label, weight in sorted(weights, key=lambda row: -row[1]):
        if weight >= _NEGLIGIBLE:
            shown.add_row(printable(label), f"{weight:.4f}")
    rest = [weight for _, weight in weights if weight < _NEGLIGIBLE]
    if rest:
        shown.add_row(f"{count(len(rest), 'arm')} below {_NEGLIGIBLE:g}", f"{sum(rest):.4f}")
    typer.echo()
    console().print(shown)
