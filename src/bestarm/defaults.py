"""Defaults that the library, the command line, HTTP and the forms share."""

from __future__ import annotations

__all__ = ["DELTA"]

#: The allowed error probability: a winner is named with 95 % confidence.
DELTA = 0.05
