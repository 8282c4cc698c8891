"""Forecasts of the baseline, fixed before the arm is drawn, that make rewards less noisy."""

from bestarm.forecasting.encoding import Encoder
from bestarm.forecasting.forecaster import Forecaster
from bestarm.forecasting.mixture import Mixture

__all__ = ["Encoder", "Forecaster", "Mixture"]
