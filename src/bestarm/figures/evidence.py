"""The evidence against each target over one run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bestarm.errors import InvalidInputError
from bestarm.figures.ink import NAMED, QUIET, RIVALS, head, new_figure, short
from bestarm.geometry import Array
from bestarm.problem import Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["evidence"]

_FLOOR = 1e-3  # of the axis: less evidence than this is drawn as none


def evidence(
    pulls: Sequence[int], values: object, problem: Problem, *, title: str | None = None
) -> Figure:
    """The e-values of all targets over the pulls of one run, and the level at which one is dropped.

    A target whose e-value reaches 1/δ is dropped, and its line ends in a cross. E-values are valid
    after every batch, and so is the picture.

    Args:
        pulls: the pulls at each look, ascending.
        values: the result of `AnytimeBAI.evidence()` at each look, one row per look.
        problem: the problem, for labels and δ.
        title: the first line; by default who is left.

    Raises:
        InvalidInputError: there are no looks, or the shapes do not fit.
        MissingDependencyError: Matplotlib is not installed.
    """
    looks = np.asarray(values, dtype=float)
    if not len(pulls) or looks.shape != (len(pulls), problem.targets):
        raise InvalidInputError(
            "`values` must have one row per look and one column per target; got shape "
            f"{looks.shape} for {len(pulls)} looks and {problem.targets} targets.",
            field="values",
            value=looks.shape,
        )
    figure = new_figure(8, 5.0)
    from matplotlib.ticker import FuncFormatter  # noqa: PLC0415

    axes: Axes = figure.subplots()
    threshold = 1 / problem.delta
    out = np.maximum.accumulate(looks, axis=0) >= threshold
    last = np.where(out.any(axis=0), out.argmax(axis=0), len(pulls) - 1)
    for target, style in zip(_by_survival(looks, out), _styles(problem.targets), strict=True):
        end = int(last[target]) + 1
        _draw(axes, pulls[:end], looks[:end, target], dropped=bool(out[-1, target]), style=style)
    axes.axhline(threshold, color="black", lw=1.0, ls=(0, (5, 3)))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(max(_FLOOR, min(0.3, float(looks.min())) / 2), 4 * threshold)
    axes.set_xlim(pulls[0], pulls[-1] * 2.2)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel("pulls so far")
    axes.set_ylabel("evidence against being the best (e-value)")
    axes.annotate(
        f"1/δ = {threshold:g}: out", (pulls[0], threshold), (4, 4), textcoords="offset points"
    )
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    left = np.flatnonzero(~out[-1])
    _name(axes, pulls, looks, [int(t) for t in _by_survival(looks, out)[:2]], last, problem)
    head(figure, title or _left(left, pulls[-1], problem), _WORDS)
    return figure


_WORDS = "Each line is a target; it ends in a cross where the evidence against it reaches 1/δ."


def _by_survival(looks: Array, out: object) -> list[int]:
    """Targets, those that stayed longest first."""
    dropped = np.asarray(out)
    first = np.where(dropped.any(axis=0), dropped.argmax(axis=0), len(looks))
    return [int(target) for target in np.argsort(-first, kind="stable")]


def _styles(targets: int) -> list[tuple[str, object, float]]:
    named: list[tuple[str, object, float]] = [(NAMED, "-", 2.0)]
    named += [(colour, dashes, 1.6) for colour, dashes, _ in RIVALS]
    return (named + [(QUIET, "-", 0.9)] * max(0, targets - len(named)))[:targets]


def _draw(
    axes: Axes,
    pulls: Sequence[int],
    values: Array,
    *,
    dropped: bool,
    style: tuple[str, object, float],
) -> None:
    colour, dashes, width = style
    shown = np.clip(values, _FLOOR, None)
    axes.plot(pulls, shown, color=colour, ls=dashes, lw=width)
    if dropped:
        axes.plot(pulls[-1], shown[-1], "x", color=colour, ms=7, mew=1.8, clip_on=False)


def _name(
    axes: Axes,
    pulls: Sequence[int],
    looks: Array,
    targets: Sequence[int],
    last: Array,
    problem: Problem,
) -> None:
    """Names at the ends of the lines that lasted longest."""
    for target in targets:
        end = int(last[target])
        text = axes.annotate(
            f"target {short(problem.target_labels[target])}",
            (pulls[end], max(float(looks[end, target]), _FLOOR)),
            (8, 9 if looks[end, target] >= 1 / problem.delta else 0),  # clear of the line
            textcoords="offset points",
            va="center",
        )
        text.set_parse_math(False)


def _left(left: object, pulls: int, problem: Problem) -> str:
    targets = np.asarray(left).tolist()
    if len(targets) == 1:
        label = short(problem.target_labels[targets[0]])
        return f"Target {label} is the best of {problem.targets}, shown after {pulls:,} pulls"
    return f"{len(targets)} of {problem.targets} targets are left after {pulls:,} pulls"
