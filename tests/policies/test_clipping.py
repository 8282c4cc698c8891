"""The interval of forecasts: where it lies, how wide it is, and when it moves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bestarm.policies.anytime.bets import Scale
from bestarm.policies.anytime.sampler import ForecastInterval

SCALE = Scale(-5.0, 5.0, noise=1.0, center=100.0)


def _width(interval: ForecastInterval) -> float:
    low, high = interval.ends
    return high - low


def test_nothing_is_foreseen_before_the_first_batch() -> None:
    assert ForecastInterval(SCALE, 3).ends == (100.0, 100.0)


def test_it_is_narrow_where_arms_have_many_dimensions_and_widens() -> None:
    widths = []
    for dimensions, drawn in ((4, 100), (30, 100), (30, 3000), (30, 10**6)):
        interval = ForecastInterval(SCALE, dimensions)
        interval.learn(100.0, 50, drawn=drawn, variance=0.25)
        widths.append(_width(interval))
    assert widths[1] < widths[2] < widths[0] < widths[3]
    assert widths[3] == pytest.approx(6.0)  # six deviations to each side


def test_it_stays_where_it_is_until_the_level_has_left_its_middle() -> None:
    interval = ForecastInterval(SCALE, 3)
    interval.learn(101.0, 10_000, drawn=100, variance=0.01)
    before = interval.ends
    for mean in (101.1, 100.9, 101.2):
        interval.learn(mean, 10_000, drawn=100, variance=0.01)
        assert interval.ends == before
    interval.learn(104.0, 10_000, drawn=100, variance=0.01)
    assert interval.ends[0] > before[1]


@given(
    batches=st.lists(
        st.tuples(st.floats(-1e3, 1e3), st.integers(1, 10_000), st.floats(0.0, 1e4)), max_size=8
    )
)
def test_it_never_leaves_the_range_of_rewards(batches: list[tuple[float, int, float]]) -> None:
    interval, drawn = ForecastInterval(SCALE, 2), 0
    for mean, pulls, variance in batches:
        drawn += pulls
        interval.learn(mean, pulls, drawn=drawn, variance=variance)
        low, high = interval.ends
        assert 95.0 <= low <= high <= 105.0
