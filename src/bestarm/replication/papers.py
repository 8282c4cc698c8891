"""The papers whose tables can be replicated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from bestarm.checks import choice
from bestarm.datasets import RatingsData
from bestarm.replication.field import LINGAME_TABLES, TRACK_AND_STOP_TABLES
from bestarm.replication.p1_rage import P1_RAGE_TABLES
from bestarm.replication.tables import TABLES, Table

Builders = Mapping[str, Callable[[RatingsData], Table]]


@dataclass(frozen=True)
class Paper:
    """A paper, or the results that its authors published with it.

    Attributes:
        name: its name on the command line.
        title: its title.
        source: who wrote it, when, and where its figures were read.
        builders: make its tables, by name; they are given ratings, which few of them use.
    """

    name: str
    title: str
    source: str
    builders: Builders

    def tables(self, names: Iterable[str], data: RatingsData) -> tuple[Table, ...]:
        """Tables by name, in the paper's order; all of them if no name is given.

        Raises:
            InvalidInputError: no table has that name, or the ratings have another best joke
                than the seed paper's.
        """
        wanted = tuple(names) or tuple(self.builders)
        for name in wanted:
            choice(name, self.builders, "table")
        return tuple(build(data) for name, build in self.builders.items() if name in wanted)


PAPERS = {
    paper.name: paper
    for paper in (
        Paper(
            "sp-bai",
            "Nearly Optimal Best Arm Identification for Semiparametric Bandits",
            "Kim, Kim and Oh (2025); its tables",
            TABLES,
        ),
        Paper(
            "p1-rage",
            "A/B Testing and Best-arm Identification for Linear Bandits with Robustness to "
            "Non-stationarity",
            "Xiong, Camilleri, Fazel, Jain and Jamieson (2024); the results stored in their "
            "repository FFTypeZero/bobw_linear",
            P1_RAGE_TABLES,
        ),
        Paper(
            "track-and-stop",
            "Optimal Best Arm Identification with Fixed Confidence",
            "Garivier and Kaufmann (2016); Table 1",
            TRACK_AND_STOP_TABLES,
        ),
        Paper(
            "lingame",
            "Gamification of Pure Exploration for Linear Bandits",
            "Degenne, Ménard, Shang and Valko (2020); the table of pulls in the sources of Shang's "
            "thesis, xuedong/phd-thesis",
            LINGAME_TABLES,
        ),
    )
}
