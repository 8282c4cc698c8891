"""Tables small enough to be replicated in a blink, in a module that other processes can import."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

from bestarm.datasets import RatingsData, jester
from bestarm.environments import InTurn, small_gap
from bestarm.policies import RAGE, SBE, SPBAI, GOpt
from bestarm.replication import Row, RowObserver, Table, reproduce
from bestarm.simulation import Oracle

WORLD = small_gap(3, 0.7, noise=2.0)
SHARP = partial(SPBAI, design="centered", stability="actual", max_pulls=20_000)


def tables() -> tuple[Table, ...]:
    rows = (
        Row("sbe", "SBE", partial(SBE, max_phase_pulls=50_000), WORLD),
        Row("rage-1", "RAGE (σ=1)", partial(RAGE, max_phase_pulls=50_000), WORLD),
        Row("sp-bai-centered", "Ours", SHARP, WORLD, ours=True),
    )
    turns = InTurn([small_gap(3, angle) for angle in (0.6, 0.9)], "two")
    return (
        Table("small-gap", "Tiny & small", "Three arms, and one close by.", rows),
        Table(
            "uniform",
            "In turn",
            "Two worlds.",
            (Row("g-opt", "G-Opt", Oracle(GOpt, gap="gap"), turns),),
            heavy=True,
        ),
    )


def data() -> RatingsData:
    return jester()


def reproduce_slowly(out: Path, runs: int) -> None:
    """Leave time to be killed between two runs."""
    slowly = RowObserver(lambda *_: time.sleep(0.01))
    reproduce(tables(), data=data(), runs=runs, seed=3, out=out, resume=True, observer=slowly)
