"""How options fell behind, and how the baseline moved: lines over the course of an experiment."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, compress

import numpy as np

from bestarm.live.watch.follower import Follower, Moment, Slice, joined
from bestarm.live.watch.leaderboard import finite
from bestarm.live.watch.views import BaselineView, Line, Option, Timeline
from bestarm.problem import Problem

_DRAWN = 24  # targets with a line in the timeline
_RAW = 4  # options whose raw outcomes are shown over time
_ENOUGH = 60  # outcomes per arm in a stretch, for its mean to say something
_LEAST = 10  # outcomes of an arm in a stretch, to be shown at all


def timeline(follower: Follower, board: Sequence[Option], level: float) -> Timeline:
    """How the options on the board fell behind; `level` is the evidence that drops one."""
    looks = follower.looks
    if not looks:
        return Timeline("none")
    lines, evidence = [], []
    for rank, option in enumerate(board[:_DRAWN]):
        target, out, seen = option.target, option.status == "out", looks
        active = [target in each.active for each in looks]
        if looks[0].phase is not None:
            seen = list(compress(looks, active))
        elif out and not all(active):
            seen = looks[: active.index(False) + 1]  # as far as the look that dropped it
        x = tuple(float(each.phase or each.pulls) for each in seen)
        y = tuple(finite(each.look.estimate[target]) for each in seen)
        low = tuple(finite(each.look.low[target]) for each in seen)
        high = tuple(finite(each.look.high[target]) for each in seen)
        share = tuple(finite(each.look.log_evidence[target] / level) for each in seen)
        lines.append(Line(option.label, rank, out, x, y, low, high))
        evidence.append(Line(option.label, rank, out, x, share))
    if looks[0].phase is None:
        return Timeline("looks", tuple(lines), evidence=tuple(evidence))
    phases = tuple(float(each.phase or 0) for each in looks)
    radius = Line("radius", -2, False, phases, tuple(map(_largest_radius, looks)))
    return Timeline("phases", tuple(lines), radius)


def _largest_radius(moment: Moment) -> float | None:
    look = moment.look
    radii = np.delete(look.high - look.estimate, look.leader)
    return max(radii[np.isfinite(radii)].tolist(), default=None)


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
    found = joined(slices, lambda last, _: last.counts.sum() < _ENOUGH * arms)
    if len(found) > 1 and found[-1].counts.sum() < _ENOUGH * arms:
        found[-2:] = [found[-2].join(found[-1])]
    return found


def _ratio(sums: float, counts: float, *, least: int = 1) -> float | None:
    return float(sums / counts) if counts >= least else None
