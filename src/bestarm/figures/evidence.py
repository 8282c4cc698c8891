"""The evidence against each target over one run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bestarm.errors import InvalidInputError
from bestarm.figures.ink import NAMED, QUIET, RIVALS, head, new_figure, pulls_axis, short
from bestarm.problem import Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
    axes: Axes = figure.subplots()
    threshold = 1 / problem.delta
    out = np.maximum.accumulate(looks, axis=0) >= threshold
    last = np.where(out.any(axis=0), out.argmax(axis=0), len(pulls))  # the look that drops it
    order = np.argsort(-last, kind="stable")  # targets that stayed longest first
    styles = [(NAMED, "-", 2.0), *((colour, dashes, 1.6) for colour, dashes, _ in RIVALS)]
    shown = np.clip(looks, _FLOOR, None)
    for place, target in enumerate(order):
        colour, dashes, width = styles[place] if place < len(styles) else (QUIET, "-", 0.9)
        end = min(int(last[target]), len(pulls) - 1)
        course = shown[: end + 1, target]
        axes.plot(pulls[: end + 1], course, color=colour, ls=dashes, lw=width)
        dropped = bool(out[-1, target])
        if dropped:
            axes.plot(pulls[end], course[-1], "x", color=colour, ms=7, mew=1.8, clip_on=False)
        if place < 2:
            text = axes.annotate(
                f"target {short(problem.target_labels[target])}",
                (pulls[end], course[-1]),
                (8, 9 if dropped else 0),  # clear of the line
                textcoords="offset points",
                va="center",
            )
            text.set_parse_math(False)
    axes.axhline(threshold, color="black", lw=1.0, ls=(0, (5, 3)))
    axes.set_yscale("log")
    axes.set_ylim(max(_FLOOR, min(0.3, float(looks.min())) / 2), 4 * threshold)
    axes.set_xlim(pulls[0], pulls[-1] * 2.2)
    pulls_axis(axes)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("pulls so far")
    axes.set_ylabel("evidence against being the best (e-value)")
    axes.annotate(
        f"1/δ = {threshold:g}: out", (pulls[0], threshold), (4, 4), textcoords="offset points"
    )
    axes.spines[["top", "right"]].set_visible(False)
    left = f"{int((~out[-1]).sum())} of {problem.targets} targets are left"
    if not out[-1, order[0]] and out[-1, order[1:]].all():
        label = short(problem.target_labels[order[0]])
        left = f"Target {label} is the best of {problem.targets}, shown"
    words = "Each line is a target; it ends in a cross where the evidence against it reaches 1/δ."
    head(figure, title or f"{left} after {pulls[-1]:,} pulls", words)
    return figure
