"""Tables of the field's papers that print mean numbers of pulls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from bestarm.datasets import RatingsData
from bestarm.environments import Semiparametric
from bestarm.environments.instances import turned_arms
from bestarm.policies.registry import policies
from bestarm.replication.tables import Metric, Published, Row, Table

_TUNED = "experiments"  # the threshold log((log t + 1)/δ) of both papers


def _table_1(_data: RatingsData) -> Table:
    """Garivier and Kaufmann (2016), Table 1, the two of its five rules that we have."""
    from bestarm.environments.two_point import TwoPoint  # noqa: PLC0415 - compiles kernels

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
    return Table(
        "bernoulli",
        "Expected number of draws",
        "Bernoulli arms: 0.5, 0.45, 0.43, 0.4 (µ1) and 0.3, 0.21, 0.2, 0.19, 0.18 (µ2); δ = 0.1, "
        "the threshold log((log t + 1)/δ).",
        tuple(rows),
        delta=0.1,
        figures=figures,
    )


def _pulls(_data: RatingsData) -> Table:
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
    return Table(
        "pulls",
        "Average number of pulls on Soare's arms, d = 2",
        "Angle 0.1, δ = 0.01, noise 1, the threshold log((log t + 1)/δ); θ = e₁, where the text "
        "has 2e₁ and the authors' script had e₁.",
        rows,
        delta=0.01,
        figures=figures,
    )


TRACK_AND_STOP_TABLES: dict[str, Callable[[RatingsData], Table]] = {"bernoulli": _table_1}
LINGAME_TABLES: dict[str, Callable[[RatingsData], Table]] = {"pulls": _pulls}
