"""The draw: a known function of seed and number, and exact at the edges of the distribution."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bestarm.errors import InvalidInputError
from bestarm.live.draws import _BLOCK, choose, draw, uniforms

STREAM = {
    0: [0.6866799653222284, 0.13057311841319452, 0.997271053000498],
    2**200: [0.8067794313110105, 0.8931207981189231, 0.5898896083434595],
}
LAST = 1 - 2.0**-53  # the largest quantile that occurs


def test_the_stream_is_fixed_for_good() -> None:
    """Values recorded when the stream was defined: a change would orphan every past experiment."""
    assert uniforms(0, start=0, count=3).tolist() == STREAM[0]
    assert uniforms(2**200, start=2**64 - 1, count=3).tolist() == STREAM[2**200]


@given(
    start=st.integers(0, 2**64), cuts=st.lists(st.integers(1, 9), min_size=1), seed=st.integers(0)
)
def test_a_number_does_not_depend_on_its_batch(start: int, cuts: list[int], seed: int) -> None:
    whole = uniforms(seed, start=start, count=sum(cuts))
    parts = [uniforms(seed, start=start + sum(cuts[:i]), count=size) for i, size in enumerate(cuts)]
    assert np.concatenate(parts).tolist() == whole.tolist()


def test_blocks_join() -> None:
    whole = uniforms(1, start=3, count=2 * _BLOCK + 5)
    for number in (0, _BLOCK - 1, _BLOCK, 2 * _BLOCK, 2 * _BLOCK + 4):
        assert whole[number] == uniforms(1, start=3 + number, count=1)[0]
    assert ((whole >= 0) & (whole < 1)).all()


@given(
    weights=st.lists(
        st.one_of(st.just(0.0), st.floats(1e-12, 1.0)), min_size=1, max_size=40
    ).filter(any),
    quantile=st.one_of(st.sampled_from([0.0, LAST]), st.floats(0, LAST)),
)
def test_an_arm_of_no_weight_is_never_drawn(weights: list[float], quantile: float) -> None:
    distribution = np.array(weights) / sum(weights)
    (arm,) = choose(distribution, np.array([quantile]))
    assert 0 <= arm < len(weights)
    assert weights[arm] > 0


@pytest.mark.parametrize("total", [1 - 9e-10, 1.0, 1 + 9e-10])
def test_the_ends_are_safe_when_the_weights_do_not_quite_sum_to_one(total: float) -> None:
    weights = np.array([0.0, 0.3, 0.0, 0.7, 0.0]) * total
    assert choose(weights, np.array([0.0, 0.29, 0.31, LAST])).tolist() == [1, 1, 3, 3]


def test_draw_checks_what_it_is_given() -> None:
    with pytest.raises(InvalidInputError, match="number"):
        draw(0, -1, [0.5, 0.5])
    with pytest.raises(InvalidInputError, match="weights"):
        draw(0, 0, [0.5, 0.6])
