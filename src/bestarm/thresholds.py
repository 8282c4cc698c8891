"""Thresholds of the field's methods: how much evidence each wants before it stops.

Like `bounds`, this is where δ is divided; see the reference of each function for its theorem.
"""

from __future__ import annotations

__all__: list[str] = []
