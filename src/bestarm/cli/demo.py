"""`bestarm demo`: three methods under a moving baseline, and pictures of single runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bestarm.cli.command import command
from bestarm.cli.output import Result, need_server, wrapped
from bestarm.cli.research.compare import comparison_data, comparison_lines, run_comparison
from bestarm.defaults import DELTA

if TYPE_CHECKING:
    from bestarm.numerics.geometry import Array
    from bestarm.policies.policy import Method, Policy
    from bestarm.problem import Problem
    from bestarm.simulation import Results

_AS_PUBLISHED, _PROVEN = ("rage", "sp-bai"), "anytime"


@command
def demo(
    *,
    runs: int = 200,
    seed: int = 0,
    delta: float = DELTA,
    out: Path = Path("demo"),
    workers: int = 1,
    live: bool = False,
    port: int | None = None,
    store: str | None = None,
    speed: float = 1.0,
    seconds: float | None = None,
    open_: bool = False,
) -> Result | None:
    """Compare three methods under a moving baseline and draw one run, or watch an experiment.

    Args:
        out: The folder for the pictures.
        workers: Processes that share the runs.
        live: Serve an experiment on simulated people instead, to watch.
        port: With --live: 8000, or any that is free, if left out.
        store (URL): With --live: the database; a temporary one if left out.
        speed: With --live: at 1 a winner takes two or three minutes.
        seconds: With --live: when to stop; at Ctrl-C if left out.
        open_: With --live: open the page in a browser.
    """
    if live:
        need_server()
        from bestarm.cli.live_demo import run_live

        run_live(port=port, url=store, speed=speed, seconds=seconds, open_page=open_, seed=seed)
        return None
    from bestarm.checks import whole
    from bestarm.environments import small_gap
    from bestarm.simulation.executors import check_workers
    from bestarm.simulation.results import run_count

    check_workers(workers)
    run_count(runs)
    whole(seed, "seed", least=0)
    methods = _methods()
    pictures = _draw(methods, seed=seed, delta=delta, out=out)
    comparison = run_comparison(
        methods,
        small_gap(declared_baseline=1.0),
        runs=runs,
        seed=seed,
        delta=delta,
        reference="sp-bai",
        workers=workers,
    )
    if comparison.failure is not None:
        raise comparison.failure
    paths = [str(picture) for picture in pictures]
    lines = [*wrapped(comparison_lines(comparison))]
    if comparison.complete:
        lines.append(_lesson(comparison.results))
    lines.append(f"Pictures of single runs are {' and '.join(paths)}.")
    data = comparison_data(comparison) | {"pictures": paths}
    return Result(data, lines, code=130 if comparison.interrupted else 0)


def _methods() -> dict[str, Method]:
    from bestarm.policies.registry import policies

    made: dict[str, Method] = {name: policies()[name].method for name in _AS_PUBLISHED}
    return made | {_PROVEN: _anytime}


def _anytime(problem: Problem) -> Policy:
    """SP-BAI is told |ν_t| ≤ 1, as in the paper; a proof needs what ν_t = 1 + sin 2t reaches."""
    from bestarm import AnytimeBAI

    return AnytimeBAI(problem.with_baseline(2.0))


def _draw(methods: Mapping[str, Method], *, seed: int, delta: float, out: Path) -> list[Path]:
    from bestarm import figures
    from bestarm.environments import small_gap
    from bestarm.simulation import run_once

    world = small_gap(declared_baseline=1.0)
    problem = world.problem(delta)
    out.mkdir(parents=True, exist_ok=True)  # a folder that cannot be made is refused at once
    run = run_once(methods["sp-bai"], world, seed=seed, delta=delta)
    title = f"SP-BAI: target {run.label} identified after {run.pulls:,} pulls"
    phases = figures.phases(run, problem, title=title)
    looks: list[tuple[int, Array]] = []

    def observe(policy: Any) -> None:
        looks.append((policy.recommend().pulls, policy.evidence()))

    run_once(methods[_PROVEN], world, seed=seed, delta=delta, observe=observe)
    pulls, values = zip(*looks, strict=True)
    evidence = figures.evidence(pulls, values, problem)
    return [
        figures.save(evidence, out / "evidence.png"),
        figures.save(phases, out / "phases.png"),
    ]


def _lesson(results: Mapping[str, Results]) -> str:
    errors = {name: f"{each.error_rate:.1%}" for name, each in results.items()}
    saving = results["sp-bai"].mean_pulls / results[_PROVEN].mean_pulls
    return (
        f"Shown: under a baseline that moves with every pull, RAGE, which ignores it, errs in "
        f"{errors['rage']} of its runs, SP-BAI in {errors['sp-bai']}, AnytimeBAI in "
        f"{errors[_PROVEN]} with {saving:.1f} times fewer pulls than SP-BAI's. Proven: that "
        "AnytimeBAI errs with probability at most delta, at every look, if the scales it is told "
        "hold. Not proven: SP-BAI's error rate, because the paper's constants are tuned."
    )
