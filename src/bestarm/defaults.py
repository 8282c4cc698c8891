"""What holds where nothing is said: written once, for the library, the command line and HTTP."""

from __future__ import annotations

__all__ = ["DELTA"]

DELTA = 0.05  # the error probability allowed: a winner at 95 %
