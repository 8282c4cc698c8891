"""A small replication with a bit of everything a report has to show, made once."""

from __future__ import annotations

import tempfile
from concurrent.futures import Executor
from functools import cache, partial
from pathlib import Path

from tiny_tables import SHARP, WORLD, data

from bestarm.policies import DEO, LUCB, SBE, GOpt, Uniform
from bestarm.replication import Replication, Row, Table, reproduce
from bestarm.simulation import Oracle

RUNS = 6
CAPPED = partial(LUCB, sigma=4.0, max_pulls=3000)


def tables() -> tuple[Table, ...]:
    users = data().environment()
    tiny = Table(
        "small-gap",
        "Tiny & <small>, 100 % of $5_000",
        "Three arms; ν_t = 1 + sin 2t; at most 5 000 000 pulls.",
        (
            Row(
                "sbe", "SBE", partial(SBE, max_phase_pulls=50_000), WORLD, protocol="Capped at 50%."
            ),
            Row("g-opt", "G-Opt", Oracle(GOpt, gap="gap"), WORLD),
            Row("sp-bai-centered", "Centered <b>", SHARP, WORLD, ours=True),
        ),
        heavy=True,
    )
    ranking = Table(
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
    )
    grid = Table(
        "jester",
        "A grid",
        "",
        tuple(
            Row(f"lucb-{sigma}", f"LUCB (σ={sigma})", CAPPED, users, caps_fail=True)
            for sigma in (1, 1.5)
        ),
        rate="success",
    )
    return tiny, ranking, grid


def replicated(executor: Executor | None = None, runs: int = RUNS) -> Replication:
    with tempfile.TemporaryDirectory() as folder:
        return reproduce(
            tables(), data=data(), runs=runs, seed=3, out=Path(folder), executor=executor
        )


@cache
def replication() -> Replication:
    return replicated()
