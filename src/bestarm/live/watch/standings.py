"""Where the options stand, how they fell behind, and how the baseline moved meanwhile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, compress
from typing import Any

import numpy as np

from bestarm.live.watch.follower import Follower, Moment, Slice, joined
from bestarm.live.watch.views import BaselineView, Line, Option, Timeline
from bestarm.problem import Problem
from bestarm.recommendation import Recommendation

_DRAWN = 24  # targets with a line in the timeline
_RAW = 4  # options whose raw outcomes are shown over time
_ENOUGH = 60  # outcomes per arm in a stretch, for its mean to say something
_LEAST = 10  # outcomes of an arm in a stretch, to be shown at all


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def leaders(said: Recommendation) -> tuple[int, ...]:
    """The targets that are named, and those that tie with them."""
    return tuple(dict.fromkeys((*(said.chosen or (said.target,)), *said.tied)))


def leaderboard(
    follower: Follower, problem: Problem, level: float, *, radii: bool = True
) -> tuple[Option, ...]:
    """All options, those that lead first, then by how far they are behind.

    The evidence that drops an option is `level`; `radii` says whether the radii of phases tell how
    sure an estimate is.
    """
    said, dropped = follower.said, follower.log.eliminated
    leading, active = leaders(said), set(said.active)
    arms = {row.tobytes(): arm for arm, row in reversed(list(enumerate(problem.source)))}

    def option(target: int) -> Option:
        status = "in" if target in active else "out"
        if target in leading and follower.counts.any():
            status = "best" if said.final else "leads"
        known = _known(target, follower.looks, level, radii=radii)
        if said.effect is not None and target == said.effect.control not in leading:
            # Of the control, what the verdict says: narrower, and part of its promise.
            effect = said.effect
            known |= {"behind": effect.estimate, "low": effect.lower, "high": effect.upper}
        if status == "out":
            known["phase_out"] = dropped.get(target)
            if "evidence" in known:  # what was dropped stays so, though evidence may ebb away later
                known["evidence"] = 1.0
        arm = arms.get(problem.target[target].tobytes())
        if arm is not None:
            count = int(follower.counts[arm])
            known |= {"arm": arm, "pulls": count}
            known["raw_mean"] = float(follower.sums[arm] / count) if count else None
        return Option(target, problem.target_labels[target], status, **known)

    def place(option: Option) -> tuple[int, int, float]:
        far = math.inf if option.behind is None else option.behind
        if option.target in leading:
            return 0, leading.index(option.target), 0.0
        if option.target in active:
            return 1, 0, far
        return 2, -dropped.get(option.target, 0), far

    return tuple(sorted(map(option, range(problem.targets)), key=place))


def _known(target: int, looks: Sequence[Moment], level: float, *, radii: bool) -> dict[str, Any]:
    """What the last moment that knew anything of a target says of it."""
    for moment in reversed(looks):
        look, phase = moment.look, moment.phase
        if phase is not None and target not in moment.active:
            continue
        behind, low, high = (_finite(part[target]) for part in (look.estimate, look.low, look.high))
        if phase is None:
            share = float(np.clip(look.log_evidence[target] / level, 0.0, 1.0))
            return {"behind": behind, "low": low, "high": high, "evidence": share}
        known = {"behind": behind, "known_in": None if moment is looks[-1] else phase}
        if radii and behind is not None and high is not None:
            known |= {"radius": high - behind, "low": low, "high": high}
        return known
    return {}


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
        y = tuple(_finite(each.look.estimate[target]) for each in seen)
        low = tuple(_finite(each.look.low[target]) for each in seen)
        high = tuple(_finite(each.look.high[target]) for each in seen)
        share = tuple(_finite(each.look.log_evidence[target] / level) for each in seen)
        lines.append(Line(option.label, rank, out, x, y, low, high))
        evidence.append(Line(option.label, rank, out, x, share))
    if looks[0].phase is None:
        return Timeline("looks", tuple(lines), evidence=tuple(evidence))
    phases = tuple(float(each.phase or 0) for each in looks)
    radii = [np.delete(look.high - look.estimate, look.leader) for look in (m.look for m in looks)]
    largest = tuple(max(each[np.isfinite(each)].tolist(), default=None) for each in radii)
    return Timeline("phases", tuple(lines), Line("radius", -2, False, phases, largest))


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
        Line(option.label, rank, option.status == "out", x, tuple(map(_finite, found[:, rank])))
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
