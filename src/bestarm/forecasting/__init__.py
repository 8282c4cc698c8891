"""Forecasts of the baseline, fixed before the arm is drawn. Public names load on first use."""

from bestarm.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
