"""The paper's bounds beside measured pulls, over d, δ and the gap: a table, and a picture of it.

    python -m benchmarks.paper_bounds [--runs N] [--picture docs/paper-bounds.png]

Instances are the paper's small gap with other d, δ and angles. Per instance: Proposition 1 with the
easiest and the hardest anchor (its absolute constant left out); the limit 2σ²τ kl(δ, 1 − δ); the
certified rule; SP-BAI as published, with the share of the lower-order terms, which sum to the d² of
Theorem 1, in its phase lengths; and the chain of the theorem's proof with its constants. SP-BAI is
told |ν_t| ≤ 1 and unit noise, as in the paper; the certified rule is told |ν_t| ≤ 2, which holds.
"""

from __future__ import annotations

import argparse
import math
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bestarm import SPBAI, AnytimeBAI, simulate
from bestarm.bounds import phase_length
from bestarm.environments import small_gap
from bestarm.simulation import run_once
from bestarm.studies import statements

BASE = (10, 0.1, 0.2)  # d, δ, angle
RESULTS = "[results](results.md#the-papers-small-gap-table)"
GRID = (
    *((d, 0.1, 0.2) for d in (5, 10, 20, 40)),
    *((10, delta, 0.2) for delta in (0.01, 0.001)),
    *((10, 0.1, angle) for angle in (0.1, 0.4, 0.8, 1.4)),
    (40, 0.1, 1.4),
)


class Row(NamedTuple):
    """One instance: bounds, and mean pulls."""

    dimension: int
    delta: float
    gap: float
    easiest: float
    hardest: float
    limit: float
    certified: float
    sp_bai: float
    lower_order: float
    chain: float


def measure(dimension: int, delta: float, angle: float, runs: int) -> Row:
    """Bounds and simulations of one instance."""
    world, honest = small_gap(dimension, angle, declared_baseline=1.0), small_gap(dimension, angle)
    problem, theta = world.problem(delta), 2 * np.eye(dimension)[0]
    # All anchors but e₁ and the arm beside it are alike, and so are these two.
    anchored = [statements.anchored_lower_bound(problem, theta, anchor=a) for a in (0, 1, 2)]
    certified = simulate(AnytimeBAI, honest, runs=runs, delta=delta).mean_pulls
    published = simulate(SPBAI, world, runs=runs, delta=delta).mean_pulls
    lower_order = lengths = 0
    for phase in run_once(SPBAI, world, delta=delta).trace:
        length = partial(
            phase_length,
            phase.value,
            epsilon=2.0**-phase.phase,
            delta=phase.delta,
            stability=32.0 * dimension,
            dimension=dimension,
        )
        lower_order += length(r1=0.0)
        lengths += length()
    behind = statements.gaps(problem, theta)
    return Row(
        dimension,
        delta,
        float(behind[behind > 0].min()),
        min(anchored),
        max(anchored),
        statements.information_limit(problem, theta),
        float(certified),
        float(published),
        lower_order / lengths,
        float(statements.theorem_chain(problem, theta)),
    )


def picture(rows: list[Row], path: Path) -> None:
    """One panel for d, δ and the gap each, pulls on a logarithmic scale."""
    from bestarm.figures import new_figure  # noqa: PLC0415 - needs Matplotlib
    from bestarm.studies.pictures import COLOURS, house_style  # noqa: PLC0415

    base = next(row for row in rows if (row.dimension, row.delta) == BASE[:2] and row.gap < 0.05)
    panels = {
        "dimension d": ([r for r in rows if r.delta == 0.1 and math.isclose(r.gap, base.gap)], 0),
        "δ": ([r for r in rows if r.dimension == 10 and math.isclose(r.gap, base.gap)], 1),
        "gap Δ": ([r for r in rows if r.dimension == 10 and r.delta == 0.1], 2),
    }
    lines = (
        ("chain of Theorem 1, with its constants", "chain", "vermilion", "v"),
        ("SP-BAI as published", "sp_bai", "blue", "o"),
        ("its lower-order terms (d²)", "", "blue", ""),
        ("certified rule", "certified", "ink", "D"),
        ("limit 2σ²τ kl(δ, 1 − δ)", "limit", "green", "s"),
        ("Proposition 1, hardest to easiest anchor", "", "purple", ""),
    )
    with house_style():
        figure = new_figure(7.6, 4.2)
        for axes, (name, (part, key)) in zip(
            figure.subplots(1, 3, sharey=True), panels.items(), strict=True
        ):
            part.sort(key=lambda row: row[key])
            x = [row[key] for row in part]
            for label, field, colour, marker in lines:
                shown = COLOURS[colour]
                if field:
                    axes.plot(
                        x,
                        [getattr(r, field) for r in part],
                        marker=marker,
                        color=shown,
                        ms=4,
                        lw=1,
                        label=label,
                    )
                elif marker == "" and colour == "blue":
                    axes.plot(
                        x,
                        [r.sp_bai * r.lower_order for r in part],
                        color=shown,
                        lw=1,
                        ls=":",
                        label=label,
                    )
                else:
                    axes.fill_between(
                        x,
                        [r.easiest for r in part],
                        [r.hardest for r in part],
                        color=shown,
                        alpha=0.3,
                        lw=0,
                        label=label,
                    )
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xlabel(name)
            axes.set_xticks(x, [f"{value:.2g}" for value in x])
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
            axes.minorticks_off()
        figure.axes[0].set_ylabel("pulls (logarithmic)")
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower left", ncols=2)
        figure.savefig(path, metadata={"Software": None})


def main() -> None:
    """Print the table, and draw it if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    heads = ("d", "δ", "gap", "Proposition 1", "limit", "certified rule", "SP-BAI", "of it d²")
    print("|", " | ".join((*heads, "chain of Theorem 1")), "|")
    print("|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    rows = []
    for instance in GRID:
        rows.append(measure(*instance, options.runs))
        row = rows[-1]
        bounds = f"{row.easiest:,.0f}–{row.hardest:,.0f} | {row.limit:,.0f}"
        pulls = f"{row.certified:,.0f} | {row.sp_bai:,.0f}"
        if instance == BASE:  # measured there with more runs
            pulls = f"{RESULTS} | {RESULTS}"
        pulls += f" | {row.lower_order:.0%}"
        instance_words = f"{row.dimension} | {row.delta:g} | {row.gap:.3g}"
        print(f"| {instance_words} | {bounds} | {pulls} | {row.chain:,.0f} |", flush=True)
    if options.picture is not None:
        picture(rows, options.picture)


if __name__ == "__main__":
    main()
