"""The figures the paper prints, cell by cell."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal

from bestarm.simulation.results import wilson

__all__ = ["RUNS", "Metric", "Published", "published"]

Metric = Literal["pulls", "error", "success"]

RUNS = 100  # behind every cell


@dataclass(frozen=True)
class Published:
    """A printed figure: a mean over `RUNS` runs, and their standard deviation if printed."""

    value: float
    spread: float | None

    @property
    def rate_interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of a rate."""
        return wilson(round(self.value * RUNS), RUNS)


@cache
def published() -> dict[tuple[str, str, str], Published]:
    """The printed figures by table, row and metric."""
    file = resources.files("bestarm.replication").joinpath("published.csv")
    with file.open(encoding="utf-8") as lines:
        return {
            (line["table"], line["row"], line["metric"]): Published(
                float(line["value"]), float(line["spread"]) if line["spread"] else None
            )
            for line in csv.DictReader(lines)
        }
