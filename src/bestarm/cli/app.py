"""The commands and their options. Everything heavy loads inside a command, when it is run."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bestarm.cli.experiment import AsJson, experiment
from bestarm.cli.numbers import decimal, whole
from bestarm.cli.reporting import reported
from bestarm.cli.service import need_server, service
from bestarm.defaults import DELTA

__all__ = ["Criterion", "app"]

app = typer.Typer(
    name="bestarm",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(experiment)


class Criterion(StrEnum):
    """The designs that can be asked for."""

    CENTERED_XY = "centered-xy"
    CENTERED_G = "centered-g"
    LINEAR_XY = "linear-xy"
    LINEAR_G = "linear-g"
    DEO = "deo"
    XOR = "xor"


Source = Annotated[
    Path,
    typer.Argument(
        metavar="SOURCE.csv",
        help="Features of the arms one can pull, one row per arm. A header is optional; a first "
        "column that is not numeric holds labels; names alone will do. Or a .json file.",
    ),
]
Target = Annotated[
    Path | None,
    typer.Option(
        metavar="TARGET.csv",
        help="Features of the options to choose among; the source when left out.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(parser=whole, metavar="N", help="Processes that share the runs; 1 if left out."),
]
Dask = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="A Dask scheduler whose workers share the runs."),
]


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version  # noqa: PLC0415

        typer.echo(f"bestarm {version('bestarm')}")
        raise typer.Exit


@app.callback()
def _bestarm(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Which of these options is best, when everything around them keeps drifting?"""


@app.command()
@reported
def demo(
    runs: Annotated[int, typer.Option(parser=whole, help="Runs of each method.")] = 200,
    seed: Annotated[
        int, typer.Option(parser=whole, help="Results depend on it and on nothing else.")
    ] = 0,
    delta: Annotated[
        float, typer.Option(parser=decimal, help="The error probability asked for.")
    ] = DELTA,
    out: Annotated[Path, typer.Option(help="The folder the picture goes to.")] = Path("demo"),
    workers: Annotated[int, typer.Option(parser=whole, help="Processes that share the runs.")] = 1,
    json: AsJson = False,
    live: Annotated[
        bool,
        typer.Option("--live", help="Serve a trial on simulated people instead, to be watched."),
    ] = False,
    port: Annotated[
        int | None,
        typer.Option(parser=whole, help="Of --live: 8000, or any that is free, if left out."),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Of --live: a database to keep it in; a temporary one if left out."
        ),
    ] = None,
    speed: Annotated[
        float,
        typer.Option(parser=decimal, help="Of --live: at 1 a winner takes two or three minutes."),
    ] = 1.0,
    seconds: Annotated[
        float | None,
        typer.Option(parser=decimal, help="Of --live: when to stop; with Ctrl-C if left out."),
    ] = None,
    open_page: Annotated[
        bool, typer.Option("--open", help="Of --live: open the page in a browser.")
    ] = False,
) -> None:
    """Compare four methods under a moving baseline and draw one run, or watch a trial live."""
    if live:
        need_server()
        from bestarm.cli.live_demo import run_live  # noqa: PLC0415

        run_live(
            port=port, store=store, speed=speed, seconds=seconds, open_page=open_page, seed=seed
        )
        return
    from bestarm.cli.demo import run_demo  # noqa: PLC0415

    run_demo(runs=runs, seed=seed, delta=delta, out=out, workers=workers, as_json=json)


@app.command()
@reported
def compare(
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METHOD",
            help="A method of ours by name (sp-bai, sbe, rage, …) or your own as module:attribute, "
            "with options after a colon (rage:sigma=2). Repeat it for more. If none is of ours, "
            "sp-bai, sp-bai-sharp and rage are added.",
        ),
    ] = None,
    instance: Annotated[
        str, typer.Option(metavar="NAME", help="small-gap, uniform or jester.")
    ] = "small-gap",
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="How the baseline of small-gap and uniform moves: sinusoid (as in the paper), "
            "none, random-walk, switches or adversary.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A Jester file; synthetic ratings when left out."),
    ] = None,
    runs: Annotated[int, typer.Option(parser=whole, help="Runs of each method.")] = 200,
    seed: Annotated[
        int, typer.Option(parser=whole, help="Results depend on it and on nothing else.")
    ] = 0,
    delta: Annotated[
        float, typer.Option(parser=decimal, help="The error probability asked for.")
    ] = DELTA,
    max_pulls: Annotated[
        int | None,
        typer.Option(
            parser=whole,
            help="Where a run is cut, for methods that can be; 5 million on uniform, else none.",
        ),
    ] = None,
    workers: Workers = None,
    dask: Dask = None,
    no_check: Annotated[
        bool, typer.Option("--no-check", help="Do not check your own method's contract first.")
    ] = False,
    json: AsJson = False,
    out: Annotated[
        Path | None, typer.Option(metavar="RUNS.csv", help="Write every run to this file.")
    ] = None,
) -> None:
    """Put your own method beside others, run by run."""
    from bestarm.cli.compare import run_compare  # noqa: PLC0415

    run_compare(
        method or [],
        instance=instance,
        baseline=baseline,
        data=data,
        runs=runs,
        seed=seed,
        delta=delta,
        max_pulls=max_pulls,
        workers=workers,
        dask=dask,
        check=not no_check,
        as_json=json,
        out=out,
    )


@app.command()
@reported
def design(
    source: Source,
    target: Target = None,
    criterion: Annotated[
        Criterion, typer.Option(help="What the design is to make small.")
    ] = Criterion.CENTERED_XY,
    anchor: Annotated[
        str | None,
        typer.Option(help="Label or index of the anchor, for deo and xor; the first arm if none."),
    ] = None,
    tol: Annotated[float, typer.Option(parser=decimal, help="The relative gap to certify.")] = 1e-3,
    json: AsJson = False,
    out: Annotated[
        Path | None, typer.Option(metavar="WEIGHTS.csv", help="Write all weights to this file.")
    ] = None,
) -> None:
    """How to spread pulls over arms, with a proof of how good that is."""
    from bestarm.cli.design import run_design  # noqa: PLC0415

    run_design(
        source, target=target, criterion=criterion, anchor=anchor, tol=tol, as_json=json, out=out
    )


@app.command()
@reported
def check(
    source: Source,
    target: Target = None,
    delta: Annotated[
        float, typer.Option(parser=decimal, help="The error probability allowed.")
    ] = DELTA,
    noise: Annotated[float, typer.Option(parser=decimal, help="The scale of the noise.")] = 1.0,
    baseline: Annotated[
        float, typer.Option(parser=decimal, help="A bound on the baseline's size.")
    ] = 1.0,
    theta: Annotated[
        Path | None,
        typer.Option(
            metavar="THETA.csv",
            help="A parameter, one number a feature: prints how hard the problem is under it.",
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Read a problem, and say in words what it is and whether it can be solved."""
    from bestarm.cli.check import run_check  # noqa: PLC0415

    run_check(
        source,
        target=target,
        delta=delta,
        noise=noise,
        baseline=baseline,
        theta=theta,
        as_json=json,
    )


@app.command()
@reported
def plan(
    source: Source,
    target: Target = None,
    gap: Annotated[
        float | None,
        typer.Option(
            parser=decimal,
            help="The smallest lead worth finding, in units of the reward. All others are assumed "
            "to trail the best by as little as the features allow: the hardest case.",
        ),
    ] = None,
    scenario: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Assumptions in detail, as TOML, instead of a gap."),
    ] = None,
    delta: Annotated[
        float, typer.Option(parser=decimal, help="The error probability allowed.")
    ] = DELTA,
    noise: Annotated[
        float | None,
        typer.Option(
            parser=decimal,
            help="The scale of the noise; 1, or what the bounds imply, if left out.",
        ),
    ] = None,
    baseline: Annotated[
        float | None,
        typer.Option(
            parser=decimal, help="A bound on the baseline's size; 1, or what the bounds imply."
        ),
    ] = None,
    bounds: Annotated[
        tuple[float, float] | None,
        typer.Option(
            parser=decimal,
            metavar="LO HI",
            help="The lowest and the highest reward: 0 1 for no and yes.",
        ),
    ] = None,
    level: Annotated[
        float | None,
        typer.Option(
            parser=decimal, help="The mean reward; 0, or the middle of the bounds, if left out."
        ),
    ] = None,
    drift: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="How the baseline moves: none, sine, walk or switches; sine if left out. Repeat "
            "it for more.",
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A policy by name; anytime, sp-bai-sharp and sp-bai if left out. Repeat it for "
            "more.",
        ),
    ] = None,
    per_day: Annotated[
        float | None,
        typer.Option(parser=decimal, metavar="N", help="Outcomes a day: says how long it takes."),
    ] = None,
    runs: Annotated[int, typer.Option(parser=whole, help="Simulated trials of each policy.")] = 200,
    seed: Annotated[
        int, typer.Option(parser=whole, help="Results depend on it and on nothing else.")
    ] = 0,
    max_pulls: Annotated[
        int | None,
        typer.Option(
            parser=whole,
            help="Where a simulated trial is cut; 100 times the lower bound if left out.",
        ),
    ] = None,
    workers: Workers = None,
    json: AsJson = False,
) -> None:
    """How long will it take? Simulates a trial before it is run."""
    from bestarm.cli.plan import run_plan  # noqa: PLC0415

    run_plan(
        source,
        target=target,
        gap=gap,
        scenario=scenario,
        delta=delta,
        noise=noise,
        baseline=baseline,
        bounds=bounds,
        level=level,
        drift=drift or [],
        policy=policy or [],
        per_day=per_day,
        runs=runs,
        seed=seed,
        max_pulls=max_pulls,
        workers=workers,
        as_json=json,
    )


@app.command()
@reported
def reproduce(
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TABLE]...",
            help="small-gap, uniform, uniform-fresh, jester-ranking, jester; all when left out.",
        ),
    ] = None,
    runs: Annotated[
        int, typer.Option(parser=whole, help="Runs of each row; the paper made 100.")
    ] = 100,
    seed: Annotated[
        int, typer.Option(parser=whole, help="Results depend on it and on nothing else.")
    ] = 0,
    workers: Annotated[
        int | None,
        typer.Option(
            parser=whole, help="Processes that share the runs; one a core if none is given."
        ),
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="A Dask scheduler whose workers share the runs."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder for the report and every run.")] = Path(
        "reproduction"
    ),
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with what the folder holds.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Real Jester ratings; made-up users when left out."),
    ] = None,
    json: AsJson = False,
) -> None:
    """Replay the paper's tables, and say of every published figure whether it replicates."""
    from bestarm.cli.reproduce import run_reproduce  # noqa: PLC0415

    run_reproduce(
        tables or (),
        runs=runs,
        seed=seed,
        workers=workers,
        dask=dask,
        out=out,
        resume=resume,
        data=data,
        as_json=json,
    )


app.add_typer(service)
