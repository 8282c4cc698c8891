"""Labels beside their points, where they cover nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bestarm.geometry import Array
from bestarm.replication.pictures.ink import QUIET

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Label", "along", "around", "place"]

_REACHES = (5.0, 8.0, 12.0, 17.0, 23.0, 30.0, 38.0, 47.0, 58.0, 72.0, 90.0)  # in points
# In sixteenths of a turn: right, above, below and left first, then what is between.
_TURNS = (0, 4, 12, 8, 2, 14, 6, 10, 1, 15, 3, 13, 5, 11, 7, 9)
_FAR = 14.0  # from here on a thin line leads from a label to its point
_PADDING = 1.5


@dataclass(frozen=True)
class Label:
    """A text for a point, in data coordinates."""

    text: str
    x: float
    y: float
    colour: str
    size: float = 8.0


def place(axes: Axes, labels: Sequence[Label], taken: Array) -> Array:
    """Write every label at the nearest free place; the first ones choose first.

    Args:
        axes: with their final limits, laid out.
        labels: what to write, the most important first.
        taken: boxes that must stay free, in pixels: left, bottom, right, top.

    Returns:
        The boxes of the labels, in pixels.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    pixels = figure.dpi / 72
    room = np.array(axes.get_window_extent(renderer).extents)
    blocked = taken
    for label in labels:
        text = axes.annotate(
            label.text,
            (label.x, label.y),
            xytext=(0, 0),
            textcoords="offset points",
            ha="center",
            va="center",
            size=label.size,
            color=label.colour,
            zorder=6,
            arrowprops={"arrowstyle": "-", "color": QUIET, "lw": 0.5, "shrinkA": 1, "shrinkB": 3},
        )
        text.set_in_layout(False)
        extent = text.get_window_extent(renderer)
        size = np.array([extent.width, extent.height]) / pixels
        point = axes.transData.transform((label.x, label.y))
        reaches, offsets = _places(size)
        middles = point + offsets * pixels
        half = (size / 2 + _PADDING) * pixels
        boxes = np.hstack([middles - half, middles + half])
        best = _first_free(boxes, blocked, room)
        text.xyann = tuple(offsets[best])
        if reaches[best] < _FAR and text.arrow_patch is not None:
            text.arrow_patch.set_visible(False)
        blocked = np.vstack([blocked, boxes[best]])
    return blocked[len(taken) :]


def _places(size: Array) -> tuple[Array, Array]:
    """How far each place is from its point, and where its middle is from there, in points."""
    reaches = np.repeat(_REACHES, len(_TURNS))
    angles = np.tile([2 * math.pi * turn / 16 for turn in _TURNS], len(_REACHES))
    directions = np.column_stack([np.cos(angles), np.sin(angles)])
    return reaches, directions * (reaches[:, None] + size / 2)


def _first_free(boxes: Array, blocked: Array, room: Array) -> int:
    """The first box inside the room that covers nothing, or the one that covers least."""
    shared = np.minimum(boxes[:, None, 2:], blocked[None, :, 2:]) - np.maximum(
        boxes[:, None, :2], blocked[None, :, :2]
    )
    covered = np.clip(shared, 0.0, None).prod(axis=2).sum(axis=1)
    inside = (boxes[:, :2] >= room[:2]).all(axis=1) & (boxes[:, 2:] <= room[2:]).all(axis=1)
    return int(np.argmin(np.where(inside, covered, np.inf)))


def around(axes: Axes, points: Array, reach: float) -> Array:
    """Boxes around points of the data, with a margin in printer's points."""
    pixels = axes.transData.transform(np.atleast_2d(points))
    half = reach * axes.get_figure(root=True).dpi / 72  # type: ignore[union-attr]
    return np.hstack([pixels - half, pixels + half])


def along(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> Array:
    """Small boxes along a line that is straight on the page."""
    unit = axes.get_figure(root=True).dpi / 72  # type: ignore[union-attr]
    ends = axes.transData.transform([start, end])
    steps = max(int(np.hypot(*(ends[1] - ends[0])) / (2 * unit)), 1)
    middles = ends[0] + np.linspace(0, 1, steps + 1)[:, None] * (ends[1] - ends[0])
    return np.hstack([middles - unit, middles + unit])
