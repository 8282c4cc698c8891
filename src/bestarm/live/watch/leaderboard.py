"""The options of an experiment by how far they are behind the leader."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bestarm.live.watch.follower import Follower, Moment
from bestarm.live.watch.views import Option
from bestarm.problem import Problem


def finite(value: float) -> float | None:
    """A number, or None for infinity and NaN."""
    return float(value) if math.isfinite(value) else None


def leaderboard(
    follower: Follower, problem: Problem, level: float, *, radii: bool = True
) -> tuple[Option, ...]:
    """All options, those that lead first, then by how far they are behind.

    The evidence that drops an option is `level`; `radii` says whether the radii of phases tell how
    sure an estimate is.
    """
    said, dropped = follower.said, follower.log.eliminated
    leading, active = said.chosen or (said.target,), set(said.active)
    arms = {row.tobytes(): arm for arm, row in reversed(list(enumerate(problem.source)))}

    def option(target: int) -> Option:
        status = "in" if target in active else "out"
        if target in leading and follower.counts.any():
            status = "best" if said.final else "leads"
        known = _known(target, follower.looks, level, radii=radii)
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
        behind, low, high = (finite(part[target]) for part in (look.estimate, look.low, look.high))
        if phase is None:
            share = float(np.clip(look.log_evidence[target] / level, 0.0, 1.0))
            return {"behind": behind, "low": low, "high": high, "evidence": share}
        known = {"behind": behind, "known_in": None if moment is looks[-1] else phase}
        if radii and behind is not None and high is not None:
            known |= {"radius": high - behind, "low": low, "high": high}
        return known
    return {}
