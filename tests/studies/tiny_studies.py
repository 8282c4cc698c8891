"""Studies small enough to be run in a blink, in a module that other processes can import."""

from __future__ import annotations

import tempfile
import time
from concurrent.futures import Executor
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bestarm.datasets import RatingsData, jester
from bestarm.environments import InTurn, small_gap
from bestarm.policies import DEO, LUCB, RAGE, SBE, SPBAI, GOpt, Uniform
from bestarm.simulation import Oracle, Results
from bestarm.studies import (
    Cell,
    PublishedTable,
    Replication,
    Row,
    StudyResults,
    run_study,
)
from bestarm.studies.sp_bai import SP_BAI_TABLES, printed_figures

WORLD = small_gap(3, 0.7, noise=2.0)
AS_WRITTEN = partial(SPBAI, max_phase_pulls=20_000)
CAPPED = partial(LUCB, sigma=4.0, max_pulls=3000)
RUNS = 6


def results_of(
    pulls: object,
    *,
    correct: ArrayLike = True,
    final: ArrayLike = True,
    contradicted: ArrayLike = False,
    delta: float = 0.1,
) -> Results:
    """Runs with these pulls; what is said of all of them, or of each."""
    counts = np.array(pulls, dtype=np.int64)
    runs, each = len(counts), np.arange(len(counts))
    right, over, doubted = (np.broadcast_to(it, runs) for it in (correct, final, contradicted))
    about = ("m", "e", 0, delta, runs, False)
    return Results(*about, each, counts, right, over, doubted, each, each, counts)


def data() -> RatingsData:
    return jester()


def published(key: str) -> PublishedTable:
    """A table of the seed paper."""
    return SP_BAI_TABLES[key](data())


def tiny() -> Replication:
    """Four rows in two tables, to be run, killed and resumed."""
    rows = (
        Row("sbe", "SBE", partial(SBE, max_phase_pulls=50_000), WORLD),
        Row("rage-1", "RAGE (σ=1)", partial(RAGE, max_phase_pulls=50_000), WORLD),
        Row("sp-bai-text", "Ours", AS_WRITTEN, WORLD, ours=True),
    )
    turns = InTurn([small_gap(3, angle) for angle in (0.6, 0.9)], "two")
    g_opt = Row("g-opt", "G-Opt", Oracle(GOpt, gap="gap"), turns)
    tables = (
        PublishedTable("small-gap", "Tiny & small", "Three arms, and one close by.", rows),
        PublishedTable("uniform", "In turn", "Two worlds.", (g_opt,), heavy_tailed=True),
    )
    return Replication(tables, data())


def run_slowly(out: Path, runs: int) -> None:
    """Leave time to be killed between two runs."""
    options: Any = {"runs": runs, "seed": 3, "out": out, "resume": True}
    run_study(tiny(), **options, progress=lambda *_: time.sleep(0.01))


def varied() -> Replication:
    """A bit of everything that a report has to show."""
    users = data().environment()
    small = PublishedTable(
        "small-gap",
        "Tiny & <small>, 100 % of $5_000",
        "Three arms; ν_t = 1 + sin 2t; at most 5 000 000 pulls.",
        (
            Row(
                "sbe", "SBE", partial(SBE, max_phase_pulls=50_000), WORLD, protocol="Capped at 50%."
            ),
            Row("g-opt", "G-Opt", Oracle(GOpt, gap="gap"), WORLD),
            Row("sp-bai-text", "As written <b>", AS_WRITTEN, WORLD, ours=True),
        ),
        heavy_tailed=True,
        figures=printed_figures("small-gap"),
        differences=(("g-opt", "sbe", "pulls"),),
    )
    ranking = PublishedTable(
        "jester-ranking",
        "A ranking",
        "One batch.",
        (
            Row("deo-3000", "DEO (3000)", partial(DEO, budget=300), users),
            Row("uniform-3000", "Uniform (3000)", partial(Uniform, budget=300), users),
            Row("centered-3000", "Ours", partial(Uniform, budget=400), users, ours=True),
        ),
        rate="success",
        counts_pulls=False,
        figures=printed_figures("jester-ranking"),
        differences=published("jester-ranking").differences,
    )
    grid = PublishedTable(
        "jester",
        "A grid",
        "",
        tuple(
            Row(f"lucb-{sigma}", f"LUCB (σ={sigma})", CAPPED, users, caps_fail=True)
            for sigma in (1, 1.5)
        ),
        rate="success",
        figures=printed_figures("jester"),
    )
    return Replication((small, ranking, grid), data())


def replicated(executor: Executor | None = None, runs: int = RUNS) -> StudyResults[Cell]:
    with tempfile.TemporaryDirectory() as folder:
        return run_study(varied(), runs=runs, seed=3, out=Path(folder), executor=executor)


@cache
def replication() -> StudyResults[Cell]:
    return replicated()
