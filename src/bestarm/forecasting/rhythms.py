"""Find rhythms in a series: lines of its spectrum that stand out from their neighbourhood."""

from __future__ import annotations

import numpy as np

from bestarm.numerics.geometry import Array

_SLOWEST = 8  # periods in the series; slower ones are tracked by averages
_BESIDE, _NEAR = 3, 30  # a line is compared with the lines more than 3 and at most 30 from it
_STANDS_OUT = 14.0  # × their mean power; by chance about once in 100,000 lines of white noise


def find_rhythms(series: Array, most: int) -> Array:
    """The angular frequencies per step of the clearest rhythms, at most `most`, clearest first.

    >>> noise = np.random.default_rng(0).standard_normal(512)
    >>> find_rhythms(np.sin(2 * np.arange(512)) + noise, 3).round(2)
    array([2.])
    """
    window = np.hanning(len(series) + 1)[:-1]
    power = np.abs(np.fft.rfft(window * (series - series.mean()))) ** 2
    kernel = np.ones(2 * _NEAR + 1)
    kernel[_NEAR - _BESIDE : _NEAR + _BESIDE + 1] = 0.0
    counted = np.convolve(np.ones_like(power), kernel, mode="same")
    around = np.convolve(power, kernel, mode="same") / np.maximum(counted, 1.0)
    clear = np.divide(power, around, out=np.zeros_like(power), where=around > 0)
    clear[:_SLOWEST] = clear[-1:] = 0.0
    found: list[float] = []
    while len(found) < most and (place := int(np.argmax(clear))) and clear[place] > _STANDS_OUT:
        # The logarithm of a Hann window's main lobe is nearly a parabola.
        left, top, right = np.log(np.maximum(power[place - 1 : place + 2], 1e-300))
        bend = left - 2.0 * top + right
        shift = 0.5 * (left - right) / bend if bend < 0.0 else 0.0
        found.append(2.0 * np.pi * (place + shift) / len(series))
        clear[max(0, place - _BESIDE) : place + _BESIDE + 1] = 0.0
    return np.array(found)
