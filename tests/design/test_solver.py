"""Sets of contrasts: the worst found by products is the worst found by a loop over all pairs."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bestarm.design.solver import ListedContrasts, PairwiseContrasts, minimise
from bestarm.numerics.geometry import Array

often = settings(max_examples=80, deadline=None, derandomize=True)


def pair_values(points: Array, factor: Array) -> dict[int, float]:
    """|factorᵀ(u − v)|² by code, for each pair once, from the difference itself."""
    count = len(points)
    values = {}
    for i in range(count):
        for j in range(i + 1, count):
            whitened = (points[i] - points[j]) @ factor
            values[i * count + j] = float(whitened @ whitened)
    return values


@st.composite
def clouds(draw: st.DrawFn) -> tuple[Array, Array]:
    """Points with duplicates and an offset, and a factor of uneven scale."""
    count, dimension = draw(st.integers(2, 25)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    points = rng.normal(size=(count, dimension))
    if draw(st.booleans()):  # all on a sphere: many pairs nearly as far apart as the farthest
        points /= np.linalg.norm(points, axis=1, keepdims=True)
    if draw(st.booleans()):
        points[: count // 2] = points[rng.integers(0, count, size=count // 2)] + 1e-6
    factor = rng.normal(size=(dimension, dimension)) * 10.0 ** rng.integers(-3, 4, size=dimension)
    return points + draw(st.sampled_from([0.0, 1e3])), factor


@often
@given(clouds(), st.sampled_from([0.0, 0.3, 0.9, 0.999, 1.001, 2.0]), st.integers(1, 40))
def test_pairwise_finds_the_worst_and_only_what_exceeds_the_level(
    cloud: tuple[Array, Array], fraction: float, most: int
) -> None:
    points, factor = cloud
    values = pair_values(points, factor)
    worst = max(values.values())
    level = fraction * worst
    value, codes = PairwiseContrasts(points).violators(factor, level, most)
    assert len(codes) <= most
    assert len(set(codes.tolist())) == len(codes)
    if fraction > 1:
        assert value == level
        assert codes.size == 0
        return
    assert value == pytest.approx(worst, rel=1e-8)
    if worst > 0:
        found = [values[code] for code in codes.tolist()]
        assert found[0] == pytest.approx(worst, rel=1e-8)
        assert min(found) > level * (1 - 1e-8)
        assert all(a >= b * (1 - 1e-8) for a, b in pairwise(found))


@often
@given(clouds())
def test_the_rows_of_codes_are_the_differences(cloud: tuple[Array, Array]) -> None:
    points, _ = cloud
    count = len(points)
    codes = np.arange(count * count)
    expected = (points[:, None] - points[None, :]).reshape(-1, points.shape[1])
    np.testing.assert_allclose(PairwiseContrasts(points).rows(codes), expected, atol=1e-12)


@often
@given(clouds(), st.sampled_from([0.0, 0.3, 0.9, 1.001]), st.integers(1, 40))
def test_listed_finds_all_above_the_level_worst_first(
    cloud: tuple[Array, Array], fraction: float, most: int
) -> None:
    vectors, factor = cloud
    values = np.array([(y @ factor) @ (y @ factor) for y in vectors])
    level = fraction * values.max()
    value, codes = ListedContrasts(vectors).violators(factor, level, most)
    assert value == pytest.approx(max(level, values.max()), rel=1e-12)
    assert len(codes) == min(most, np.count_nonzero(values > level))
    np.testing.assert_allclose(values[codes], np.sort(values)[::-1][: len(codes)], rtol=1e-12)
    assert (ListedContrasts(vectors).rows(codes) == vectors[codes]).all()


def test_every_point_names_its_farthest_pair() -> None:
    """On a regular polygon every vertex has its own worst pair, and each pair is named once."""
    angle = 2 * math.pi * np.arange(6) / 6
    polygon = np.column_stack([np.cos(angle), np.sin(angle)])
    value, codes = PairwiseContrasts(polygon).violators(np.eye(2), 3.9, 10)
    assert value == pytest.approx(4)
    assert sorted(codes.tolist()) == [0 * 6 + 3, 1 * 6 + 4, 2 * 6 + 5]


@pytest.mark.parametrize("arms", [20, 600])
def test_a_design_may_start_from_another(arms: int) -> None:
    """Half the targets are gone: wherever it starts, the optimum is enclosed."""
    rng = np.random.default_rng(4)
    features = np.column_stack([np.ones(arms), rng.normal(size=(arms, 4))])
    targets = np.column_stack([np.zeros(20), rng.normal(size=(20, 4))])
    before = minimise(features, PairwiseContrasts(targets), 1e-4)
    fewer = PairwiseContrasts(targets[10:])
    cold = minimise(features, fewer, 1e-6)
    for start in (before.weights, cold.weights, rng.dirichlet(np.ones(arms)), np.eye(arms)[0]):
        warm = minimise(features, fewer, 1e-6, start + 1e-6)
        assert warm.gap <= 1e-6
        assert warm.lower_bound <= cold.value
        assert cold.lower_bound <= warm.value
