"""Whole pulls from weights: sums, support, and the best guaranteed efficiency."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bestarm.design import centered_xy
from bestarm.design.rounding import round_efficiently
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array, centered_diameter

often = settings(max_examples=150, deadline=None, derandomize=True)


@st.composite
def weight_tables(draw: st.DrawFn, most: int) -> Array:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    weights = rng.dirichlet(np.full(draw(st.integers(1, most)), draw(st.sampled_from([0.1, 1, 9]))))
    weights[rng.random(len(weights)) < 0.2] = 0.0
    if not weights.any():
        weights[0] = 1.0
    return np.asarray(weights / weights.sum())


def compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """All ways to write `total` as an ordered sum of `parts` whole numbers from 1 on."""
    if parts == 1:
        yield (total,)
        return
    for first in range(1, total - parts + 2):
        for rest in compositions(total - first, parts - 1):
            yield (first, *rest)


@often
@given(weight_tables(most=40), st.integers(0, 10**9))
def test_counts_sum_to_the_pulls_and_cover_the_support(weights: Array, extra: int) -> None:
    pulls = int(np.count_nonzero(weights)) + extra
    counts = round_efficiently(weights, pulls)
    assert counts.sum() == pulls
    assert ((counts > 0) == (weights > 0)).all()
    support = weights > 0
    ratio, less = counts[support] / weights[support], (counts[support] - 1) / weights[support]
    # Pukelsheim and Rieder: an apportionment is efficient if and only if no transfer improves it.
    assert less.max() <= ratio.min() * (1 + 1e-9)
    # Their bound on the efficiency.
    efficiency = ratio.min() / pulls
    assert efficiency >= 1 - support.sum() / pulls - 1e-12


def test_a_weight_next_to_nothing_does_not_make_the_others_tie() -> None:
    """Near-ties were measured by the largest ratio of all, which such an arm makes huge."""
    weights = np.array([0.44, 0.3, 0.01, 0.14, 0.11, 1e-16])
    counts = round_efficiently(weights, 1873)
    assert ((counts - 1) / weights).max() <= (counts / weights).min()


@often
@given(weight_tables(most=4), st.integers(0, 8))
def test_no_other_counts_are_more_efficient(weights: Array, extra: int) -> None:
    support = weights[weights > 0]
    pulls = len(support) + extra
    counts = round_efficiently(weights, pulls)[weights > 0]
    best = max(float(np.min(other / support)) for other in compositions(pulls, len(support)))
    assert float(np.min(counts / support)) == pytest.approx(best, rel=1e-9)


def test_weights_that_are_whole_already() -> None:
    assert round_efficiently(np.array([0.5, 0.0, 0.3, 0.2]), 10).tolist() == [5, 0, 3, 2]


def test_too_few_pulls_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="2 pulls cannot cover the 3 arms") as caught:
        round_efficiently(np.array([0.5, 0.3, 0.2]), 2)
    assert (caught.value.field, caught.value.value) == ("pulls", 2)


def test_a_rounded_design_keeps_its_value() -> None:
    """Efficiency e means a criterion of at most value / e."""
    rng = np.random.default_rng(3)
    source = rng.normal(size=(20, 3))
    design = centered_xy(source, source)
    weights = np.where(design.weights > 1e-4, design.weights, 0.0)
    weights /= weights.sum()
    counts = round_efficiently(weights, 500)
    support = weights > 0
    efficiency = np.min(counts[support] / weights[support]) / 500
    rounded = centered_diameter(source, counts / 500, source)
    assert rounded <= centered_diameter(source, weights, source) / efficiency * (1 + 1e-9)


def test_arms_that_lack_equally_much_are_served_in_order() -> None:
    """Shares that are equal on paper, disturbed as another processor would: the same counts."""
    rng = np.random.default_rng(4)
    for arms, pulls in ((3, 10), (7, 100), (12, 31), (30, 1001)):
        expected = None
        for _ in range(20):
            weights = (1 + 1e-14 * rng.uniform(-1, 1, size=arms)) / arms
            counts = round_efficiently(weights / weights.sum(), pulls).tolist()
            assert counts == (expected or counts)
            expected = counts
        assert len(set(counts)) <= 2
        assert sorted(counts) in (counts, counts[::-1])  # all that have one more are side by side
