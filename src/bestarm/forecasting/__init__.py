"""Forecasts of the baseline, fixed before the arm is drawn, that make rewards less noisy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bestarm.forecasting.encoding import Encoder
from bestarm.forecasting.forecaster import Forecaster

if TYPE_CHECKING:
    from bestarm.forecasting.mixture import Mixture

__all__ = ["Encoder", "Forecaster", "Mixture"]


def __getattr__(name: str) -> object:
    if name != "Mixture":
        raise AttributeError(f"module 'bestarm.forecasting' has no attribute {name!r}")
    from bestarm.forecasting.mixture import Mixture  # noqa: PLC0415 - compiles kernels

    return Mixture
