"""Defaults that the library, the command line, HTTP and the forms share."""

from __future__ import annotations

__all__ = ["DELTA", "STORE"]

#: The allowed error probability: a winner is named with 95 % confidence.
DELTA = 0.05

#: The database where none is named: a file in the current folder.
STORE = "sqlite:///bestarm.db"
