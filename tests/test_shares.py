"""How δ is divided: the shares of all events that could make a claim wrong add up to δ."""

from __future__ import annotations

from itertools import permutations, product

import pytest

from bestarm import bounds

DELTA = 0.06


@pytest.mark.parametrize(("targets", "top"), [(2, 1), (5, 1), (5, 2), (5, 4), (9, 3)])
def test_a_set_is_wrong_only_where_one_left_out_passes_one_inside(targets: int, top: int) -> None:
    """A wrong set of m leaves a good target out and holds a bad one: m(H − m) such pairs."""
    good, bad = range(top), range(top, targets)
    share = bounds.set_delta(DELTA, targets=targets, top=top)
    assert sum(share for _ in product(good, bad)) == pytest.approx(DELTA)


@pytest.mark.parametrize("targets", [2, 3, 7])
def test_intervals_of_all_contrasts_miss_on_either_side(targets: int) -> None:
    """The lower end of a − b is the upper end of b − a: one event per ordered pair."""
    share = bounds.pairs_delta(DELTA, targets=targets)
    assert sum(share for _ in permutations(range(targets), 2)) == pytest.approx(DELTA)


@pytest.mark.parametrize("targets", [2, 3, 7])
def test_rates_miss_on_either_side(targets: int) -> None:
    share = bounds.rates_delta(DELTA, targets=targets)
    assert sum(share for _ in product(range(targets), ["lower", "upper"])) == pytest.approx(DELTA)


@pytest.mark.parametrize("arms", [2, 3, 8])
def test_arm_means_err_once_per_arm(arms: int) -> None:
    """The best arm's mean may be too low, any other's too high: one event per arm."""
    share = bounds.arm_delta(DELTA, arms=arms)
    assert sum(share for _ in range(arms)) == pytest.approx(DELTA)


def test_sbe_s_shares_of_all_phases_add_up() -> None:
    """K arms in each phase, and Σ 1/(ℓ(ℓ+1)) up to n is n/(n + 1)."""
    spent = [8 * bounds.sbe_delta(DELTA, arms=8, phase=phase) for phase in range(1, 1001)]
    assert sum(spent) == pytest.approx(DELTA * 1000 / 1001)
