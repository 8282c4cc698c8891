"""The tables of the seed paper: the figures it prints, and the simulations behind them.

A row says which method runs in which world, under which caps.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from typing import Literal

from bestarm import environments
from bestarm.datasets import RatingsData
from bestarm.environments import Environment, Ratings
from bestarm.errors import InvalidInputError
from bestarm.policies import (
    DEO,
    LUCB,
    RAGE,
    SBE,
    SPBAI,
    ActionElimination,
    AnytimeBAI,
    GOpt,
    Method,
    Uniform,
)
from bestarm.policies.registry import policies
from bestarm.simulation import Oracle
from bestarm.simulation.results import wilson

Metric = Literal["pulls", "error", "success"]

RUNS = 100  # behind every cell of the seed paper
PAPER_DELTA = 0.1
_PHASES = 10
_PHASE_CAP = 5_000_000  # pulls in one phase
_AE_CAP = 3_000_000  # pulls in one run
_BEST_JOKE = 19
_SIGMAS = (1, 1.5, 2, 2.5, 3, 3.5, 4)
_SHARP = policies()["sp-bai-sharp"].method


@dataclass(frozen=True)
class Published:
    """A published figure.

    Attributes:
        value: the figure: a mean over runs.
        spread: the standard deviation of the runs, if published.
        runs: the number of runs behind it.
        rounding: half a unit of the last digit of published pulls.
    """

    value: float
    spread: float | None = None
    runs: int = RUNS
    rounding: float = 0.005

    @property
    def rate_interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of a rate."""
        return wilson(round(self.value * self.runs), self.runs)


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


@dataclass(frozen=True)
class Row:
    """One line of a table.

    Attributes:
        key: its name in files.
        label: its name in print.
        method: what is run.
        environment: where.
        ours: whether it is our own row, not in the paper.
        caps_fail: whether a run stopped by a cap counts as failed, whatever it would have named.
        protocol: what is run, in a sentence.
    """

    key: str
    label: str
    method: Method | Oracle
    environment: Environment
    ours: bool = False
    caps_fail: bool = False
    protocol: str = ""


@dataclass(frozen=True)
class Table:
    """One table of the paper.

    Attributes:
        key: its name on the command line and in files.
        title: its name in print.
        protocol: what every row shares, in a sentence or two.
        delta: the error probability asked for; the ranking asks for none and uses it for its ridge.
        rate: whether the table counts errors or successes.
        counts_pulls: whether pulls are a figure of the table, rather than fixed.
        heavy: whether pulls are so heavy-tailed that quantiles stand beside their means.
        rows: its lines, the paper's first.
        printed_as: the table of the seed paper whose figures its rows are compared with.
        figures: the published figures of another paper, by row and metric.
    """

    key: str
    title: str
    protocol: str
    rows: tuple[Row, ...]
    delta: float = PAPER_DELTA
    rate: Literal["error", "success"] = "error"
    counts_pulls: bool = True
    heavy: bool = False
    printed_as: str = ""
    figures: Mapping[tuple[str, Metric], Published] | None = None

    @property
    def published_runs(self) -> int:
        """The number of runs behind its published figures."""
        return max((each.runs for each in (self.figures or {}).values()), default=RUNS)

    def printed(self, row: Row, metric: Metric) -> Published | None:
        """The published figure of a cell; None for our own rows."""
        if self.figures is not None:
            return self.figures.get((row.key, metric))
        return published().get((self.printed_as or self.key, row.key, metric))


def _synthetic_rows(world: Callable[..., Environment], *, cap: int | None) -> tuple[Row, ...]:
    """The seven rows of both synthetic tables, and our own. `world` takes its scales."""
    plain = world()
    oracle = Oracle(partial(GOpt, max_pulls=cap), gap="gap")
    rows = [
        Row(
            "sbe",
            "SBE",
            partial(SBE, max_phases=_PHASES, max_phase_pulls=_PHASE_CAP),
            plain,
            protocol="At most 10 phases, and at most 5 000 000 pulls in one.",
        ),
        Row("g-opt", "G-Opt", oracle, plain, protocol="Told the smallest gap of the instance."),
        Row(
            "sp-bai",
            "SP-BAI",
            partial(SPBAI, preset="replication", max_phase_pulls=cap),
            plain,
            protocol="As the paper's experiments ran it, with certified designs.",
        ),
    ]
    rows += [
        Row(
            f"rage-{sigma}",
            f"RAGE (σ={sigma})",
            partial(RAGE, sigma=float(sigma), max_phases=_PHASES, max_phase_pulls=cap),
            world(noise=float(sigma)),
            protocol=f"The noise of the rewards has standard deviation {sigma} as well.",
        )
        for sigma in (1, 2, 3, 4)
    ]
    certified = partial(AnytimeBAI, mean_bound=2.0, max_pulls=cap)
    honest = world(declared_baseline=2.0)  # what ν_t = 1 + sin 2t reaches
    return (*rows, *_our_rows(plain, certified, honest, cap=cap))


def _our_rows(
    world: Environment, certified: Method, honest: Environment, *, cap: int | None
) -> tuple[Row, ...]:
    """Rows that the paper does not have. `certified` is told the valid scales of `honest`."""
    most = "." if cap is None else f"; at most {cap:,} pulls in total.".replace(",", " ")
    return (
        Row(
            "sp-bai-text",
            "SP-BAI, as written",
            partial(SPBAI, max_phases=_PHASES, max_phase_pulls=cap),
            world,
            ours=True,
            protocol="The paper's text: XOR over all arms, each phase's own δ in the ridge.",
        ),
        Row(
            "sp-bai-centered",
            "SP-BAI, centered",
            partial(_SHARP, max_pulls=cap),
            world,
            ours=True,
            protocol=f"Exact centered designs and an anytime boundary{most}",
        ),
        Row(
            "anytime",
            "AnytimeBAI",
            certified,
            honest,
            ours=True,
            protocol=f"Proven δ-correct at every look, told valid scales{most}",
        ),
    )


def _small_gap(_data: RatingsData) -> Table:
    return Table(
        "small-gap",
        "Small gap, d = 10",
        "Unit vectors and one arm at angle 0.2 from the best; ν_t = 1 + sin 2t.",
        _synthetic_rows(environments.small_gap, cap=None),
    )


def _uniform(_data: RatingsData) -> Table:
    return Table(
        "uniform",
        "Uniform arms, d = 10, K = 100, the published instances",
        "The paper's hundred instances, taken in turn; ν_t = 1 + sin 2t; at most 5 000 000 pulls "
        "in a phase.",
        _synthetic_rows(environments.published_spheres, cap=_PHASE_CAP),
        heavy=True,
    )


def _uniform_fresh(_data: RatingsData) -> Table:
    return Table(
        "uniform-fresh",
        "Uniform arms, d = 10, K = 100, fresh instances",
        "A new instance in every run; otherwise as above. Compared with the same published table.",
        _synthetic_rows(environments.uniform_sphere, cap=_PHASE_CAP),
        heavy=True,
        printed_as="uniform",
    )


def _world(data: RatingsData, *, replacement: bool = True) -> Ratings:
    """The ratings, if they have the published best joke."""
    world = data.environment(replacement=replacement)
    best = data.jokes[world.best]
    if best != _BEST_JOKE:
        raise InvalidInputError(
            f"Joke {best} is the best of these ratings, and joke {_BEST_JOKE} of the paper's.",
            field="data",
            value=data.source,
            remedy="Give ratings of dataset 2.",
        )
    return world


def _ranking(data: RatingsData) -> Table:
    # Five thousand of the paper's fifty thousand users are few; of a small or a weighted stand-in
    # they would be half, and with weights the later ones would be other users than the first.
    distinct = data.weights is None and len(data.ratings) >= 40_000
    world = _world(data, replacement=not distinct)
    rows = []
    for budget in (3000, 5000):
        for name, label, method, ours in (
            ("deo", "DEO", partial(DEO, budget=budget, anchor=0), False),
            ("uniform", "Uniform", partial(Uniform, budget=budget), False),
            ("centered", "Centered", partial(DEO, budget=budget, design="centered"), True),
        ):
            shown = f"{label} ({budget})"
            rows.append(Row(f"{name}-{budget}", shown, method, world, ours=ours))
    users = "distinct users" if distinct else "users drawn with replacement"
    return Table(
        "jester-ranking",
        "Jester, ranking at a budget",
        f"One batch of 3000 or 5000 ratings, of {users}; success is joke {_BEST_JOKE} first. "
        f"{data.source}",
        tuple(sorted(rows, key=lambda row: row.ours)),
        delta=0.05,
        rate="success",
        counts_pulls=False,
    )


def _fixed_confidence(data: RatingsData) -> Table:
    world = _world(data)
    rows = [
        Row("sp-bai", "SP-BAI", partial(SPBAI, preset="replication"), world),
        Row("sbe", "SBE", partial(SBE, max_phases=_PHASES), world),
    ]
    rows += [
        Row(f"lucb-{sigma}", f"LUCB (σ={sigma})", partial(LUCB, sigma=float(sigma)), world)
        for sigma in _SIGMAS
    ]
    rows += [
        Row(
            f"ae-{sigma}",
            f"AE (σ={sigma})",
            partial(ActionElimination, sigma=float(sigma), max_pulls=_AE_CAP),
            world,
            caps_fail=True,
            protocol="A run that reaches 3 000 000 pulls has failed.",
        )
        for sigma in _SIGMAS
    ]
    certified = partial(AnytimeBAI, bounds=(-10.0, 10.0))
    return Table(
        "jester",
        "Jester, fixed confidence",
        f"One-hot features, K = 8; every pull asks a random user. {data.source}",
        (*rows, *_our_rows(world, certified, world, cap=None)),
        rate="success",
    )


TABLES: dict[str, Callable[[RatingsData], Table]] = {
    "small-gap": _small_gap,
    "uniform": _uniform,
    "uniform-fresh": _uniform_fresh,
    "jester-ranking": _ranking,
    "jester": _fixed_confidence,
}
