"""Simulated worlds. Only they know the truth. Public names load on first use."""

from bestarm.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
