"""The paper's constructions: its factors of 4, where they hold and where they do not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from exact_instances import (
    Instance,
    contrasts_of,
    instances,
    lifted_norms,
    small_gap_features,
)
from hypothesis import given, settings

from bestarm.design import centered_xy, deo, linear_g, linear_xy, xor
from bestarm.numerics.geometry import centered_norms

some = settings(max_examples=40, deadline=None, derandomize=True)
TOL = 1e-4


def two_of(instance: Instance) -> list[int]:
    """Two arms of an instance, the anchors to try; one where there is only one."""
    arms = len(instance.source)
    return [int(arm) for arm in instance.rng.permutation(arms)[:2]]


@some
@given(instances())
def test_xor_is_within_4_of_the_shifted_benchmark(instance: Instance) -> None:
    """The paper's Proposition 3, and the other side: no centered design beats the benchmark."""
    source, target = instance.source, instance.target
    optimum = centered_xy(source, target, tol=TOL)
    for anchor in two_of(instance):
        design = xor(source, target, anchor=anchor, tol=TOL)
        benchmark = linear_xy(source - source[anchor], target, tol=TOL)
        assert design.benchmark.value == pytest.approx(benchmark.value, rel=1e-12)
        assert design.value <= 4 * benchmark.value * (1 + 1e-7)
        assert optimum.value <= design.value * (1 + TOL)
        assert design.lower_bound <= optimum.value * (1 + 1e-7)
        assert design.gap == pytest.approx(design.value / design.lower_bound - 1)


@some
@given(instances())
def test_the_value_of_xor_is_that_of_its_weights(instance: Instance) -> None:
    anchor = int(instance.rng.integers(len(instance.source)))
    design = xor(instance.source, instance.target, anchor=anchor, tol=TOL)
    norms = lifted_norms(instance.source, design.weights, contrasts_of(instance.target), 0)
    assert design.value == pytest.approx(norms.max(), rel=1e-6)
    assert design.anchor == anchor
    assert design.weights[anchor] == 0.5
    assert design.weights.sum() == pytest.approx(1, abs=1e-12)
    shape = np.delete(design.weights, anchor) / np.delete(design.benchmark.weights, anchor)
    assert shape.min() == pytest.approx(shape.max(), rel=1e-9)


@some
@given(instances())
def test_deo_is_at_most_4_ranks(instance: Instance) -> None:
    """max_i ‖x_i − x_anchor‖² ≤ 4·rank, up to the tolerance of the G-design it is built from."""
    source = instance.source
    for anchor in two_of(instance):
        design = deo(source, anchor=anchor, tol=TOL)
        norms = lifted_norms(source, design.weights, source - source[anchor], 0)
        assert design.value == pytest.approx(norms.max(), rel=1e-6)
        assert design.value <= 4 * instance.rank * (1 + TOL)
        assert design.weights[anchor] == 0.5
        shifted = linear_g(source - source[anchor], tol=TOL)
        assert design.benchmark.value == pytest.approx(shifted.value, rel=1e-12)


def test_small_gap_values() -> None:
    """The facts of the paper's small-gap instance in 10 dimensions, phase 1, any anchor."""
    features = small_gap_features()
    for anchor in range(11):
        assert xor(features, features, anchor=anchor, tol=1e-6).value == pytest.approx(40, rel=1e-6)
        assert deo(features, anchor=anchor, tol=1e-6).value == pytest.approx(22, rel=1e-6)


def test_xor_on_two_arms_is_the_centered_optimum() -> None:
    assert xor([[0.0], [1.0]], [[0.0], [1.0]]).value == pytest.approx(4)


@pytest.mark.parametrize("anchor", [0, 1, 5])
def test_4d_fails_for_raw_features_of_the_small_gap_instance(anchor: int) -> None:
    """The paper states max_x ‖x‖² ≤ 4 d under Σ_cov⁻¹ of its G-design. It holds for shifted x."""
    features = small_gap_features()
    design = deo(features, anchor=anchor, tol=1e-6)
    assert centered_norms(features, design.weights, features).max() > 4 * 10
    shifted = features - features[anchor]
    assert centered_norms(features, design.weights, shifted).max() <= 4 * 10


def test_4d_is_infinite_for_raw_one_hot_features() -> None:
    """No e_i is a combination of differences of the e's."""
    features = np.eye(8)
    design = deo(features, tol=1e-6)
    assert (centered_norms(features, design.weights, features) == math.inf).all()
    # 7 shifted arms, a fourteenth each: Σ_cov⁻¹ gives ‖e_i − e_0‖² = 14 + 2.
    assert design.value == pytest.approx(16, rel=1e-5)
