"""How options fell behind, and how the baseline moved: lines over the course of an experiment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from bestarm.live.watch.follower import Moment, Slice, State
from bestarm.live.watch.leaderboard import finite
from bestarm.live.watch.views import BaselineView, Line, Option, Timeline
from bestarm.problem import Problem
from bestarm.records import Phase

__all__ = ["baseline_lines", "timeline"]

_DRAWN = 24  # targets with a line in the timeline
_RAW = 4  # options whose raw outcomes are shown over time
_ENOUGH = 60  # outcomes an arm in a stretch, for its mean to say something
_LEAST = 10  # outcomes of an arm in a stretch, to be shown at all


def timeline(state: State, board: Sequence[Option], level: float) -> Timeline:
    """How the options fell behind.

    Args:
        state: the experiment.
        board: its options, the leader first.
        level: the evidence that drops an option.
    """
    shown = board[:_DRAWN]
    if state.looks:
        return _from_looks(state.looks, shown, level)
    if state.said.trace:
        return _from_trace(state.said.trace, shown)
    return Timeline("none", (), (), (), ())


def _from_looks(looks: Sequence[Moment], shown: Sequence[Option], level: float) -> Timeline:
    lines, evidence = [], []
    for rank, option in enumerate(shown):
        target, seen = option.target, []
        for look in looks:
            seen.append(look)
            if option.status == "out" and target not in look.active:
                break
        x = tuple(float(look.pulls) for look in seen)
        y, low, high = (
            tuple(finite(values[target]) for values in column)
            for column in (
                [look.behind for look in seen],
                [look.low for look in seen],
                [look.high for look in seen],
            )
        )
        out = option.status == "out"
        lines.append(Line(option.label, rank, out, x, y, low, high))
        share = tuple(finite(look.evidence[target] / level) for look in seen)
        evidence.append(Line(option.label, rank, out, x, share))
    phases = tuple((float(look.pulls), look.phase) for look in looks)
    return Timeline("looks", phases, tuple(lines), (), tuple(evidence))


def _from_trace(trace: Sequence[Phase], shown: Sequence[Option]) -> Timeline:
    ends = np.cumsum([phase.pulls for phase in trace]).astype(float).tolist()
    lines = []
    for rank, option in enumerate(shown):
        x, y, low, high = [], [], [], []
        for end, phase in zip(ends, trace, strict=True):
            if option.target in phase.active:
                place = phase.active.index(option.target)
                contrast, radius = phase.contrasts[place], phase.radii[place]
                x.append(end)
                y.append(finite(contrast))
                low.append(finite(contrast - radius))
                high.append(finite(contrast + radius))
        out = option.status == "out"
        lines.append(Line(option.label, rank, out, *map(tuple, (x, y, low, high))))
    least, most = [], []
    for phase in trace:
        radii = [
            radius
            for target, radius in zip(phase.active, phase.radii, strict=True)
            if target != phase.leader and math.isfinite(radius)
        ]
        least.append(min(radii, default=None))
        most.append(max(radii, default=None))
    band = tuple(
        Line(name, -2, False, tuple(ends), tuple(values))
        for name, values in (("least radius", least), ("largest radius", most))
    )
    phases = tuple((end, phase.phase) for end, phase in zip(ends, trace, strict=True))
    return Timeline("phases", phases, tuple(lines), band, ())


def baseline_lines(state: State, problem: Problem, board: Sequence[Option]) -> BaselineView:
    """Raw outcomes over time, beside the contrasts that are free of the baseline."""
    slices, leader = _stretches(state.slices, problem.arms), board[0]
    x = tuple((each.first + each.end) / 2 for each in slices)
    means = [_ratio(each.sums.sum(), each.counts.sum()) for each in slices]
    level = Line("all outcomes", -2, False, x, tuple(means))
    shown = board[:_RAW]
    arms = [(rank, option.arm) for rank, option in enumerate(shown) if option.arm is not None]
    if not arms:
        often = np.argsort(-state.counts, kind="stable")[:_RAW].tolist()
        arms = [(-1, arm) for arm in often if state.counts[arm]]
    raw = tuple(
        Line(
            problem.source_labels[arm],
            rank,
            False,
            x,
            tuple(
                _ratio(each.sums[arm], each.counts[arm]) if each.counts[arm] >= _LEAST else None
                for each in slices
            ),
        )
        for rank, arm in arms
    )
    targets = problem.target[[option.target for option in shown]]
    rows = problem.span.contrast_coordinates(problem.target[leader.target] - targets)
    so_far = accumulate(slices, Slice.join)
    found = np.array([each.contrasts(rows) for each in so_far]).reshape(len(slices), len(shown))
    contrasts = tuple(
        Line(option.label, rank, option.status == "out", x, tuple(map(finite, found[:, rank])))
        for rank, option in enumerate(shown)
    )
    seen = [mean for mean in means if mean is not None]
    rivals = [o.behind for o in board if o.status == "in" and o.behind is not None]
    if not rivals:
        rivals = [o.behind for o in board if o.status == "out" and o.behind is not None]
    return BaselineView(
        level,
        raw,
        contrasts,
        leader.label,
        max(seen) - min(seen) if len(seen) > 1 else None,
        min(rivals, default=None),
    )


def _stretches(slices: Sequence[Slice], arms: int) -> list[Slice]:
    """Neighbours joined until there are enough outcomes in each."""
    joined: list[Slice] = []
    for each in slices:
        if joined and joined[-1].counts.sum() < _ENOUGH * arms:
            joined[-1] = joined[-1].join(each)
        else:
            joined.append(each)
    if len(joined) > 1 and joined[-1].counts.sum() < _ENOUGH * arms:
        last = joined.pop()
        joined[-1] = joined[-1].join(last)
    return joined


def _ratio(sums: float, counts: float) -> float | None:
    return float(sums / counts) if counts else None
