"""How options fell behind, and how the baseline moved: lines over the course of an experiment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from bestarm.live.watch.follower import Follower, Moment, Slice
from bestarm.live.watch.leaderboard import finite
from bestarm.live.watch.views import BaselineView, Line, Option, Timeline
from bestarm.problem import Problem
from bestarm.records import Phase

__all__ = ["baseline_lines", "timeline"]

_DRAWN = 24  # targets with a line in the timeline
_RAW = 4  # options whose raw outcomes are shown over time
_ENOUGH = 60  # outcomes per arm in a stretch, for its mean to say something
_LEAST = 10  # outcomes of an arm in a stretch, to be shown at all


def timeline(follower: Follower, board: Sequence[Option], level: float) -> Timeline:
    """How the options fell behind.

    Args:
        follower: the experiment.
        board: its options, the leader first.
        level: the evidence that drops an option.
    """
    shown = board[:_DRAWN]
    if follower.looks:
        return _from_looks(follower.looks, shown, level)
    if follower.said.trace:
        return _from_trace(follower.said.trace, shown)
    return Timeline("none")


def _from_looks(looks: Sequence[Moment], shown: Sequence[Option], level: float) -> Timeline:
    lines, evidence = [], []
    for rank, option in enumerate(shown):
        target, out = option.target, option.status == "out"
        gone = (at for at, each in enumerate(looks) if out and target not in each.active)
        until = looks[: next(gone, len(looks)) + 1]
        x = tuple(float(each.pulls) for each in until)
        y, low, high, share = (
            tuple(finite(each.look.estimate[target]) for each in until),
            tuple(finite(each.look.low[target]) for each in until),
            tuple(finite(each.look.high[target]) for each in until),
            tuple(finite(each.look.log_evidence[target] / level) for each in until),
        )
        lines.append(Line(option.label, rank, out, x, y, low, high))
        evidence.append(Line(option.label, rank, out, x, share))
    return Timeline("looks", lines=tuple(lines), evidence=tuple(evidence))


def _from_trace(trace: Sequence[Phase], shown: Sequence[Option]) -> Timeline:
    ends = np.cumsum([phase.pulls for phase in trace]).astype(float).tolist()
    lines = []
    for rank, option in enumerate(shown):
        points = [
            (end, finite(contrast), finite(contrast - radius), finite(contrast + radius))
            for end, phase in zip(ends, trace, strict=True)
            for target, contrast, radius in zip(
                phase.active, phase.contrasts, phase.radii, strict=True
            )
            if target == option.target
        ]
        columns = zip(*points, strict=True)
        lines.append(Line(option.label, rank, option.status == "out", *columns))
    largest = tuple(
        max(
            (
                radius
                for target, radius in zip(phase.active, phase.radii, strict=True)
                if target != phase.leader and math.isfinite(radius)
            ),
            default=None,
        )
        for phase in trace
    )
    phases = tuple((end, phase.phase) for end, phase in zip(ends, trace, strict=True))
    return Timeline("phases", phases, tuple(lines), Line("radius", -2, False, tuple(ends), largest))


def baseline_lines(follower: Follower, problem: Problem, board: Sequence[Option]) -> BaselineView:
    """Raw outcomes over time, beside the contrasts that are free of the baseline."""
    slices, shown, leader = _stretches(follower.slices, problem.arms), board[:_RAW], board[0]
    x = tuple((each.first + each.end) / 2 for each in slices)
    means = tuple(_ratio(each.sums.sum(), each.counts.sum()) for each in slices)
    arms = [(rank, option.arm) for rank, option in enumerate(shown) if option.arm is not None]
    if not arms:
        often = np.argsort(-follower.counts, kind="stable")[:_RAW].tolist()
        arms = [(-1, arm) for arm in often if follower.counts[arm]]
    raw = []
    for rank, arm in arms:
        y = tuple(_ratio(each.sums[arm], each.counts[arm], least=_LEAST) for each in slices)
        raw.append(Line(problem.source_labels[arm], rank, False, x, y))
    targets = problem.target[[option.target for option in shown]]
    rows = problem.span.contrast_coordinates(problem.target[leader.target] - targets)
    so_far = accumulate(slices, Slice.join)
    found = np.array([each.contrasts(rows) for each in so_far]).reshape(len(slices), len(shown))
    contrasts = tuple(
        Line(option.label, rank, option.status == "out", x, tuple(map(finite, found[:, rank])))
        for rank, option in enumerate(shown)
    )
    seen = [mean for mean in means if mean is not None]
    gaps = {
        status: [o.behind for o in board if o.status == status and o.behind is not None]
        for status in ("in", "out")
    }
    return BaselineView(
        Line("all outcomes", -2, False, x, means),
        tuple(raw),
        contrasts,
        leader.label,
        max(seen) - min(seen) if len(seen) > 1 else None,
        min(gaps["in"] or gaps["out"], default=None),
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


def _ratio(sums: float, counts: float, *, least: int = 1) -> float | None:
    return float(sums / counts) if counts >= least else None
