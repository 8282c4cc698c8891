"""Rhythms are found where there are some, with their frequencies, and not in noise or drift."""

from __future__ import annotations

import numpy as np
import pytest

from bestarm.forecasting.rhythms import find_rhythms

STEPS = np.arange(1024)
NOISE = np.random.default_rng(0).standard_normal((50, len(STEPS)))


@pytest.mark.parametrize("speed", [0.1, 0.777, 2.0, 3.0])
def test_a_rhythm_in_noise_is_found(speed: float) -> None:
    for noise in NOISE:
        found = find_rhythms(np.sin(speed * STEPS + 1) + noise, 1)
        # Within a quarter of a line: over the next 1024 steps, the phase drifts by less than π/2.
        assert found == pytest.approx([speed], abs=0.25 * 2 * np.pi / len(STEPS))


def test_the_clearest_of_several_come_first() -> None:
    series = 2 * np.sin(0.5 * STEPS) + np.sin(1.5 * STEPS) + 0.5 * np.sin(2.5 * STEPS)
    assert find_rhythms(series + 0.3 * NOISE[0], 2) == pytest.approx([0.5, 1.5], abs=1e-3)


def test_nothing_is_found_in_noise_drift_and_constants() -> None:
    # By chance in half a per cent of series of noise; the seed is fixed.
    assert not any(len(find_rhythms(noise, 2)) for noise in NOISE)
    assert not any(len(find_rhythms(np.cumsum(noise), 2)) for noise in NOISE[:20])
    assert not len(find_rhythms(np.where(STEPS < 400, 5.0, -5.0) + NOISE[0], 2))
    assert not len(find_rhythms(np.full(128, 1e6), 2))
