"""The options of an experiment by how far they are behind the leader."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bestarm.live.watch.follower import State
from bestarm.live.watch.views import Option
from bestarm.problem import Problem

__all__ = ["finite", "leaderboard"]


def finite(value: float) -> float | None:
    """A number, or None for what is none."""
    return float(value) if math.isfinite(value) else None


def _own_arms(problem: Problem) -> list[int | None]:
    """For each target the source arm of the same features."""
    rows = {row.tobytes(): arm for arm, row in reversed(list(enumerate(problem.source)))}
    return [rows.get(row.tobytes()) for row in problem.target]


@dataclass(frozen=True)
class _Known:
    """What is known of one target's distance to the leader."""

    behind: float | None = None
    radius: float | None = None
    low: float | None = None
    high: float | None = None
    phase: int | None = None
    evidence: float | None = None


def _known(state: State, problem: Problem, level: float, *, radii: bool) -> list[_Known]:
    known = [_Known()] * problem.targets
    if state.looks:
        look = state.looks[-1]
        for target in range(problem.targets):
            known[target] = _Known(
                finite(look.behind[target]),
                None,
                finite(look.low[target]),
                finite(look.high[target]),
                None,
                float(np.clip(look.evidence[target] / level, 0.0, 1.0)),
            )
        return known
    trace = state.said.trace
    for phase in trace:
        for target, contrast, radius in zip(
            phase.active, phase.contrasts, phase.radii, strict=True
        ):
            about = None if phase is trace[-1] else phase.phase
            size = finite(radius) if radii else None
            low, high = (None, None) if size is None else (contrast - size, contrast + size)
            known[target] = _Known(finite(contrast), size, low, high, about)
    return known


def leaderboard(
    state: State, problem: Problem, level: float, *, radii: bool = True
) -> tuple[Option, ...]:
    """All options, those that lead first, then by how far they are behind.

    Args:
        state: the experiment.
        problem: its problem.
        level: the evidence that drops an option.
        radii: whether the radii of phases say how sure an estimate is.
    """
    said, arms = state.said, _own_arms(problem)
    leading = said.chosen or (said.target,)
    active, known = set(said.active), _known(state, problem, level, radii=radii)

    def place(target: int) -> tuple[int, int, int, float]:
        if target in leading:
            return 0, leading.index(target), 0, 0.0
        behind = known[target].behind
        far = math.inf if behind is None else behind
        if target in active:
            return 1, 0, 0, far
        return 2, 0, -state.eliminated.get(target, 0), far

    board = []
    for target in sorted(range(problem.targets), key=place):
        found, arm = known[target], arms[target]
        status = "in" if target in active else "out"
        if target in leading and state.counts.any():
            status = "best" if said.final else "leads"
        count = 0.0 if arm is None else state.counts[arm]
        board.append(
            Option(
                target=target,
                label=problem.target_labels[target],
                status=status,
                phase_out=state.eliminated.get(target) if status == "out" else None,
                arm=arm,
                pulls=None if arm is None else int(count),
                behind=found.behind,
                radius=found.radius,
                low=found.low,
                high=found.high,
                known_in=found.phase,
                # What was dropped stays dropped, though the evidence may ebb away later.
                evidence=1.0 if status == "out" and found.evidence is not None else found.evidence,
                raw_mean=float(state.sums[arm] / count) if arm is not None and count else None,
            )
        )
    return tuple(board)
