"""The experiments of the P1-RAGE paper: its authors' stored results, and the simulations behind.

The paper shows figures; the results of single runs are stored in its authors' public repository
(FFTypeZero/bobw_linear, folder `plot_data`, commit 6cf899c), from which `p1_rage.csv` counts errors
and runs. Parameters are those of the repository's scripts `run_sto_soare.py`, `run_single.py`,
`run_adv_soare.py` and `run_adv_multi.py`.

Not all stored runs of the stationary instance are independent. Its files hold 21,000 runs or more,
of which the first 1,000 are copies in groups of 6, and the next 10,000 in groups of 30: the workers
of a pool began with the same random state. An error comes with its copies, as `plot_data/G-BAI/
soare_sto/results_T=5010.npz` shows. The rest has the spread of independent runs, and only these
runs are counted (of Peace at 5010, all 20,000); `plotted` has the mean of all, which the paper
shows. The stored runs of moving instances are independent.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

from bestarm import environments
from bestarm.datasets import RatingsData
from bestarm.environments import Environment
from bestarm.field import moving_means
from bestarm.policies import Method
from bestarm.policies.registry import policies
from bestarm.studies.published import Metric, Published, PublishedTable, read_csv
from bestarm.studies.study import Row

_METHODS = {
    "g-bai": "G-BAI",
    "peace": "Peace",
    "p1-rage": "P1-RAGE",
    "p1-peace": "P1-Peace",
    "od-linbai": "OD-LinBAI",
}
_BUDGET = 10_000
_BUDGETS = (1010, 2010, 3010, 4010, 5010)
_SCALES = tuple(range(10))
_PERIODS = tuple(range(300, 3001, 300))
_VARIANCE = "Difficulty is the largest variance of a contrast, as in the authors' code."
_IN_TURN = "A phase pulls its arms in turn; the authors' order is random, which adds variance."


class Stored(NamedTuple):
    """The authors' errors in independent runs; `plotted` is the share in the paper's figure."""

    errors: int
    runs: int
    plotted: float

    @property
    def published(self) -> Published:
        """The share of errors in independent runs."""
        return Published(self.errors / self.runs, runs=self.runs)


@cache
def stored_results() -> dict[tuple[str, str], Stored]:
    """The stored results by table and row."""
    return {
        (line["table"], line["row"]): Stored(
            int(line["errors"]), int(line["runs"]), float(line["plotted"])
        )
        for line in read_csv("p1_rage.csv", package="bestarm.field")
    }


_TABLES: dict[str, tuple[str, str, Callable[[], list[tuple[str, Environment]]]]] = {
    "soare": (
        "Soare's instance, d = 10, without movement",
        "Angle 0.1, noise 1; T pulls.",
        lambda: [(str(each), environments.soare(10, 0.1)) for each in _BUDGETS],
    ),
    "malicious": (
        "A first third that lies",
        "Soare's arms, d = 10, angle 0.5, noise 1; 10 000 pulls.",
        lambda: [("", moving_means.malicious())],
    ),
    "multivariate": (
        "Multivariate testing, without movement",
        "Four yes-no choices with their pairs: 16 arms, d = 11, noise 0.3; 10 000 pulls.",
        lambda: [("", moving_means.multivariate(0.0))],
    ),
    "magnitudes": (
        "Soare's arms, an oscillating one, by magnitude",
        "d = 10, angle 0.5, period 200, noise 1; 10 000 pulls.",
        lambda: [(str(each), moving_means.oscillating(float(each), 200)) for each in _SCALES],
    ),
    "periods": (
        "Soare's arms, an oscillating one, by period",
        "d = 10, angle 0.5, magnitude 2.5, noise 1; 10 000 pulls.",
        lambda: [(str(each), moving_means.oscillating(2.5, each)) for each in _PERIODS],
    ),
    "multivariate-scales": (
        "Multivariate testing, by the scale of oscillations",
        "16 arms, d = 11, period 900, noise 0.3; 10 000 pulls.",
        lambda: [(str(each), moving_means.multivariate(float(each))) for each in _SCALES],
    ),
    "multivariate-periods": (
        "Multivariate testing, by the period of oscillations",
        "16 arms, d = 11, scale 2, noise 0.3; 10 000 pulls.",
        lambda: [(str(each), moving_means.multivariate(2.0, each)) for each in _PERIODS],
    ),
}


def _table(key: str, _data: RatingsData) -> PublishedTable:
    """Every method in every world of a table; worlds differ by a word each."""
    title, protocol, make_worlds = _TABLES[key]
    worlds = make_worlds()
    rows = tuple(
        Row(
            f"{name}-{word}" if word else name,
            f"{label} ({word})" if word else label,
            _method(name, int(word) if key == "soare" else _BUDGET),
            world,
            protocol=_remark(name, moving=key != "soare"),
        )
        for name, label in _METHODS.items()
        for word, world in worlds
    )
    figures: dict[tuple[str, Metric], Published] = {
        (row.key, "error"): stored_results()[key, row.key].published for row in rows
    }
    return PublishedTable(key, title, protocol, rows, counts_pulls=False, figures=figures)


def _method(name: str, budget: int) -> Method:
    if name == "peace":
        return partial(policies()["peace-budget"].method, budget=budget, design="variance")
    return partial(policies()[name].method, budget=budget)


def _remark(name: str, *, moving: bool) -> str:
    """What is done otherwise than by the authors."""
    remarks = [_VARIANCE] if name == "peace" else []
    remarks += [_IN_TURN] if moving and name in {"peace", "od-linbai"} else []
    return " ".join(remarks)


P1_RAGE_TABLES: dict[str, Callable[[RatingsData], PublishedTable]] = {
    key: partial(_table, key) for key in _TABLES
}
