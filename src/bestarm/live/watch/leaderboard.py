"""The options of an experiment by how far they are behind the leader."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from bestarm.live.watch.follower import Follower
from bestarm.live.watch.views import Option
from bestarm.problem import Problem

__all__ = ["finite", "leaderboard"]


def finite(value: float) -> float | None:
    """A number, or None for infinity and NaN."""
    return float(value) if math.isfinite(value) else None


def leaderboard(
    follower: Follower, problem: Problem, level: float, *, radii: bool = True
) -> tuple[Option, ...]:
    """All options, those that lead first, then by how far they are behind.

    Args:
        follower: the experiment.
        problem: its problem.
        level: the evidence that drops an option.
        radii: whether the radii of phases say how sure an estimate is.
    """
    said, dropped = follower.said, follower.log.eliminated
    leading, active = said.chosen or (said.target,), set(said.active)
    arms = {row.tobytes(): arm for arm, row in reversed(list(enumerate(problem.source)))}
    known = _from_look(follower, level) if follower.looks else _from_trace(follower, radii=radii)

    def option(target: int) -> Option:
        shown = replace(known.get(target, Option(target)), label=problem.target_labels[target])
        if target in leading and follower.counts.any():
            shown = replace(shown, status="best" if said.final else "leads")
        elif target not in active:
            # What was dropped stays dropped, though the evidence may ebb away later.
            evidence = None if shown.evidence is None else 1.0
            shown = replace(shown, status="out", phase_out=dropped.get(target), evidence=evidence)
        arm = arms.get(problem.target[target].tobytes())
        if arm is None:
            return shown
        count = int(follower.counts[arm])
        mean = float(follower.sums[arm] / count) if count else None
        return replace(shown, arm=arm, pulls=count, raw_mean=mean)

    def place(option: Option) -> tuple[int, int, float]:
        far = math.inf if option.behind is None else option.behind
        if option.target in leading:
            return 0, leading.index(option.target), 0.0
        if option.target in active:
            return 1, 0, far
        return 2, -dropped.get(option.target, 0), far

    return tuple(sorted(map(option, range(problem.targets)), key=place))


def _from_look(follower: Follower, level: float) -> dict[int, Option]:
    look = follower.looks[-1].look
    shares = np.clip(look.log_evidence / level, 0.0, 1.0).tolist()
    numbers = zip(look.estimate, look.low, look.high, strict=True)
    return {
        target: Option(
            target, behind=finite(behind), low=finite(low), high=finite(high), evidence=share
        )
        for target, ((behind, low, high), share) in enumerate(zip(numbers, shares, strict=True))
    }


def _from_trace(follower: Follower, *, radii: bool) -> dict[int, Option]:
    """What the last phase that had an option in it says of it."""
    known: dict[int, Option] = {}
    trace = follower.said.trace
    for phase in trace:
        about = None if phase is trace[-1] else phase.phase
        for target, behind, radius in zip(phase.active, phase.contrasts, phase.radii, strict=True):
            known[target] = Option(target, behind=finite(behind), known_in=about)
            if radii and math.isfinite(radius):
                low, high = behind - radius, behind + radius
                known[target] = replace(known[target], radius=radius, low=low, high=high)
    return known
