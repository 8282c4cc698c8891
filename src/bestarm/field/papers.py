"""Other people's papers whose figures can be replicated, and the tables of most of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from bestarm.datasets import RatingsData
from bestarm.environments import Semiparametric
from bestarm.environments.instances import turned_arms
from bestarm.environments.two_point import TwoPoint
from bestarm.field.p1_rage_results import P1_RAGE_TABLES
from bestarm.policies.registry import policies
from bestarm.studies.published import Metric, Paper, Published, PublishedTable
from bestarm.studies.study import Row

_TUNED = "experiments"  # the threshold log((log t + 1)/δ) of both papers


def _table_1(_data: RatingsData) -> PublishedTable:
    """Garivier and Kaufmann (2016), Table 1, the two of its five rules that we have."""
    means = {"1": (0.4, 0.43, 0.45, 0.5), "2": (0.18, 0.19, 0.2, 0.21, 0.3)}
    pulls = {"track-and-stop": (4052, 1406), "kl-lucb": (8437, 2716)}
    labels = {"track-and-stop": "Track-and-Stop, D-tracking", "kl-lucb": "KL-LUCB"}
    rows: list[Row] = []
    figures: dict[tuple[str, Metric], Published] = {}
    for name, printed in pulls.items():
        method = partial(policies()[name].method, threshold=_TUNED, bounds=(0, 1))
        for (number, chances), value in zip(means.items(), printed, strict=True):
            world = TwoPoint(
                np.eye(len(chances)), chances, bounds=(0, 1), noise=0.5, name=f"scenario {number}"
            )
            rows.append(Row(f"{name}-{number}", f"{labels[name]} (µ{number})", method, world))
            figures[rows[-1].key, "pulls"] = Published(value, runs=3000, rounding=0.5)
    return PublishedTable(
        "bernoulli",
        "Expected number of draws",
        "Bernoulli arms: 0.5, 0.45, 0.43, 0.4 (µ1) and 0.3, 0.21, 0.2, 0.19, 0.18 (µ2); δ = 0.1, "
        "the threshold log((log t + 1)/δ).",
        tuple(rows),
        delta=0.1,
        figures=figures,
    )


def _pulls(_data: RatingsData) -> PublishedTable:
    """The table of pulls of LinGame and LinGame-C.

    The text has θ = 2e₁ and the angle 0.1. The authors' script `linear/experiment_bai1.jl`
    (xuedong/LinBAI.jl) had θ = e₁ in all but its last two versions, and only with that do the table
    and the figures beside it agree with the rules and the threshold.
    """
    printed: Mapping[str, tuple[str, int]] = {
        "lingame": ("LinGame", 7135),
        "lingame-c": ("LinGame-C", 6854),
    }
    world = Semiparametric(turned_arms(2, 0.1), [1.0, 0.0], name="soare, theta = e1")
    rows = tuple(
        Row(name, label, partial(policies()[name].method, threshold=_TUNED), world)
        for name, (label, _) in printed.items()
    )
    figures: dict[tuple[str, Metric], Published] = {
        (name, "pulls"): Published(value, rounding=0.5) for name, (_, value) in printed.items()
    }
    return PublishedTable(
        "pulls",
        "Average number of pulls on Soare's arms, d = 2",
        "Angle 0.1, δ = 0.01, noise 1, the threshold log((log t + 1)/δ); θ = e₁, where the text "
        "has 2e₁ and the authors' script had e₁.",
        rows,
        delta=0.01,
        figures=figures,
    )


PAPERS = {
    paper.name: paper
    for paper in (
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
            {"bernoulli": _table_1},
        ),
        Paper(
            "lingame",
            "Gamification of Pure Exploration for Linear Bandits",
            "Degenne, Ménard, Shang and Valko (2020); the table of pulls in the sources of Shang's "
            "thesis, xuedong/phd-thesis",
            {"pulls": _pulls},
        ),
    )
}
