"""Seeded runs, for a process that computes otherwise to make them again."""

from __future__ import annotations

from bestarm import SPBAI, AnytimeBAI, environments, simulate


def pulls() -> list[list[int]]:
    """The pulls of a few runs of each method, half of whose pulls may be one arm's."""
    worlds = environments.small_gap(), environments.small_gap(4, 0.5, declared_baseline=2.0)
    runs = (
        simulate(SPBAI, worlds[0], runs=4, delta=0.1),
        simulate(AnytimeBAI, worlds[1], runs=2, delta=0.1),
    )
    return [each.pulls.tolist() for each in runs]
