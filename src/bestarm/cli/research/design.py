"""`bestarm design`: weights over arms, and their certificate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bestarm.cli.command import command
from bestarm.cli.output import Result
from bestarm.errors import InvalidInputError
from bestarm.tables import TextTable
from bestarm.units import plural

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
    out: Path | None = None,
) -> Result:
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
    parameters = signature(solve).parameters
    for option, value in (("anchor", anchor), ("target", target)):
        if value is not None and option not in parameters:
            raise InvalidInputError(
                f"`{option}` does not apply to the criterion {criterion}.",
                field=option,
                value=criterion,
                remedy="Leave it out, or choose another criterion.",
            )
    arms = read_table(source)
    targets = arms if target is None else read_table(target)
    options = {"target": targets.features, "anchor": _find(anchor, arms.names), "tol": tol}
    result = solve(arms.features, **{key: options[key] for key in options if key in parameters})
    weights = list(zip(arms.names, result.weights.tolist(), strict=True))
    if out is not None:
        write_table(out, ("label", "weight"), weights)
    center = arms.names[result.anchor] if isinstance(result, designs.AnchoredDesign) else None
    certificate = ("value", "lower_bound", "gap", "iterations")
    data = {
        "criterion": criterion,
        **{key: getattr(result, key) for key in certificate},
        "anchor": center,
        "weights": [{"label": label, "weight": weight} for label, weight in weights],
    }
    lines: list[str | TextTable] = [*_words(criterion, result, center), "", _table(weights)]
    if out is not None:
        lines.append(f"All {len(weights)} weights are in {out}.")
    return Result(data, lines)


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


def _words(criterion: Criterion, result: Design, anchor: str | None) -> Iterator[str]:
    yield f"{criterion}: largest variance factor of {_MEANING[criterion]}"
    yield f"  value        {result.value:.6g}"
    if anchor is None:
        yield f"  lower bound  {result.lower_bound:.6g}  (no design is better than this)"
        yield f"  gap          {result.gap:.2e}  (certified)"
    else:
        yield f"  lower bound  {result.lower_bound:.6g}  (the benchmark: shifted, linear)"
        yield f"  ratio        {1 + result.gap:.4g}  (never above 4)"
        yield f"  anchor       {anchor}"


def _table(weights: Sequence[tuple[str, float]]) -> TextTable:
    ordered = sorted(weights, key=lambda row: -row[1])
    rows = [(label, f"{weight:.4f}") for label, weight in ordered if weight >= _NEGLIGIBLE]
    rest = [weight for _, weight in weights if weight < _NEGLIGIBLE]
    if rest:
        rows.append((f"{plural(len(rest), 'arm')} below {_NEGLIGIBLE:g}", f"{sum(rest):.4f}"))
    return TextTable.of(("arm", "weight"), rows)
