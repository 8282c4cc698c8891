"""The loops of the index rules take shortcuts; a loop without any decides the same, to the bit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bestarm.numerics.geometry import Array
from bestarm.policies.means.kernels import _TABULATED, eliminate, first_radii, separate
from bestarm.presampled import PresampledRewards

LIL = (2.2, 0.0125, 0.0)
MIXTURE = (1.0, 4.0, 300.0)


def radius_of(n: int, radius: tuple[float, ...]) -> float:
    scale, level, turn = radius
    if turn == 0:
        return scale * math.sqrt(1.01 * math.log(math.log(1.01 * n + 2) / level) / (2 * n))
    return scale * math.sqrt((1 + turn / n) * (level + math.log1p(n / turn)) / n)


def rewards(seed: int, rounds: int) -> PresampledRewards:
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(300, 5)) + np.array([0.5, 0.3, 0.0, 0.0, -0.5])
    table.flags.writeable = False
    return PresampledRewards(table, rng.integers(300, size=rounds), np.zeros(rounds))


def eliminated(
    presampled: PresampledRewards, counts: Array, sums: Array, radius: tuple[float, ...]
) -> list[int]:
    """Action elimination from its definition; changes counts and sums."""
    active, used = list(range(len(counts))), 0
    while len(active) > 1 and used + len(active) <= len(presampled.rows):
        for arm in active:
            sums[arm] += presampled.table[presampled.rows[used], arm] + presampled.common[used]
            counts[arm] += 1
            used += 1
        means = [sums[arm] / counts[arm] for arm in active]
        best = active[int(np.argmax(means))]
        width = 2.0 * radius_of(int(counts[best]), radius)
        bar = max(means) - width
        active = [arm for arm, mean in zip(active, means, strict=True) if bar < mean + width]
    return active


@pytest.mark.parametrize("radius", [LIL, MIXTURE])
@pytest.mark.parametrize("start", [1, 40])
def test_elimination_drops_whom_its_definition_drops(radius: tuple[float, ...], start: int) -> None:
    """An adopted plan may have pulled the arms before, each as often as the others."""
    for seed in range(5):
        presampled = rewards(seed, 6000)
        counts, sums, active = np.full(5, start), np.full(5, 0.1 * start), np.arange(5)
        plain = counts.copy(), sums.copy()
        _, _, left = eliminate(presampled.parts, active, counts, sums, radius, 2.0, 6000)
        assert active[:left].tolist() == eliminated(presampled, *plain, radius)
        assert counts.tolist() == plain[0].tolist()
        assert sums.tolist() == plain[1].tolist()
        assert left < 5


@pytest.mark.parametrize("radius", [LIL, MIXTURE])
def test_tabulated_radii_are_those_of_the_formula(radius: tuple[float, ...]) -> None:
    known = first_radii(radius)
    assert len(known) == _TABULATED
    for n in (1, 2, 77, _TABULATED - 1):
        assert known[n] == pytest.approx(radius_of(n, radius), rel=1e-14)


def test_separation_does_not_depend_on_how_many_radii_are_tabulated() -> None:
    presampled, runs = rewards(3, 6000), []
    for first in (first_radii(LIL), first_radii(LIL)[:50].copy(), np.full(1, np.inf)):
        due, counts, sums = np.array([0, 1]), np.full(5, 10), np.full(5, 1.0)
        found = separate(presampled.parts, due, counts, sums, LIL, first, 6000)
        runs.append((found, due.tolist(), counts.tolist(), sums.tolist()))
    assert runs[0] == runs[1] == runs[2]
    assert runs[0][0][2]
