"""`bestarm plan`: how long an experiment will take, or what it can find, under assumptions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from bestarm.cli.command import command
from bestarm.cli.output import Result, remark, show_progress
from bestarm.defaults import DELTA
from bestarm.errors import InvalidInputError

_EXAMPLE = "bestarm plan --base '2 %'"


@command
def plan(
    source: Path | None = None,
    *,
    target: Path | None = None,
    options: int | None = None,
    gap: str | None = None,
    visitors: int | None = None,
    base: str | None = None,
    delta: float = DELTA,
    noise: float | None = None,
    baseline: float | None = None,
    bounds: tuple[float, float] | None = None,
    drift: list[str] | None = None,
    policy: list[str] | None = None,
    block: int = 1,
    per_day: float | None = None,
    window: str | None = None,
    runs: int = 100,
    seconds: float = 60.0,
    seed: int = 0,
    max_pulls: int | None = None,
    workers: int | None = None,
) -> Result:
    """How long will it take, or what can be found? Simulates an experiment before it is run.

    Args:
        options (N): So many options without features, instead of a file; 2 if left out.
        gap (LEAD): The smallest lead worth finding: 0.002 in units of the reward, '0.2 pp', or
            '+10 %' of the base rate. All others are assumed to trail the best by as little as the
            features allow: the hardest case.
        visitors (N): Instead of a gap: which lift can be found with so many visitors, with which
            probability? With --block, rounds.
        base (RATE): The base rate, such as '2 %': the mean reward of the options next to the best.
            Rewards are then 0 or 1, unless --bounds or --noise say otherwise.
        drift (NAME): How the baseline moves: none, sine, walk, switches, or people, a level of its
            own for every round. If left out, sine; with --block, people. Repeat it for more.
        policy (NAME): A policy by name; anytime if left out. Repeat it for more.
        block: Options per round, as when each person rates 2.
        per_day (N): Outcomes per day, to print days as well; with --block rounds per day: people.
        window (TIME): How long after its assignment an outcome counts (30m, 7d), as in `experiment
            create`. Needs --per-day. Days then include the delay.
        runs: Simulated experiments of each policy; with --visitors, for each of eight lifts.
        seconds (N): The time limit; figures are then of the experiments simulated so far.
        max_pulls: Where a simulated experiment is cut; 100 times the lower bound if left out.
    """
    from bestarm.cli.features import problem_parts, read_table
    from bestarm.planning.request import read_request
    from bestarm.planning.wording import plan_in_words
    from bestarm.simulation.executors import check_workers, open_executor

    if gap is None and visitors is None:
        raise InvalidInputError(
            "A plan needs the smallest lead worth finding, or the visitors you have.",
            field="gap",
            remedy=f"For example: {_EXAMPLE} --gap '+30 %', or {_EXAMPLE} --visitors 20,000.",
        )
    check_workers(workers)
    document: dict[str, Any] = {
        "delta": delta,
        "noise": noise,
        "baseline": baseline,
        "gap": gap,
        "drift": list(dict.fromkeys(drift or ())),
        "bounds": bounds,
        "base": base,
        "policies": list(dict.fromkeys(policy or ())),
        "block": block,
        "per_day": per_day,
        "window": window,
        "runs": runs,
        "seed": seed,
        "max_pulls": max_pulls,
    }
    if source is None:
        document["options"] = _numbered(2 if options is None else options)
    elif options is not None:
        what = "`options` does not go with a file of options, which says how many there are."
        raise InvalidInputError(what, field="options", value=options, remedy="Leave one out.")
    tables = (None if path is None else read_table(path) for path in (source, target))
    document |= problem_parts(*tables)
    request = read_request(document)
    try:
        with show_progress("planning", 0) as progress, open_executor(workers) as executor:
            made, words = plan_in_words(
                request, visitors=visitors, seconds=seconds, executor=executor, progress=progress
            )
    except KeyboardInterrupt:  # before there was a figure
        remark("interrupted before enough experiments had been simulated.")
        raise typer.Exit(130) from None
    return Result(made.to_dict(), [*words, *made.warnings], code=130 if made.interrupted else 0)


def _numbered(options: int) -> list[str]:
    """The names of so many options."""
    from bestarm.checks import whole

    return [f"option {1 + n}" for n in range(whole(options, "options", least=2, below=10_001))]
