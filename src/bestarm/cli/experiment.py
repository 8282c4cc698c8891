"""`bestarm experiment`: the commands and their options. Everything heavy loads when one is run."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bestarm.cli.numbers import decimal, whole
from bestarm.cli.reporting import reported
from bestarm.defaults import DELTA

__all__ = ["DEFAULT_STORE", "AsJson", "Layout", "StoreUrl", "experiment"]

DEFAULT_STORE = "sqlite:///bestarm.db"

experiment = typer.Typer(
    name="experiment",
    no_args_is_help=True,
    help="Run a trial that any number of processes ask and tell, and that none of them can lose.",
)


class Layout(StrEnum):
    """What columns an export has."""

    ASSIGNMENTS = "assignments"
    MRT = "mrt"


Name = Annotated[str, typer.Argument(metavar="NAME", help="The experiment's name in the store.")]
StoreUrl = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="URL",
        envvar="BESTARM_STORE",
        help="The database: sqlite:///trial.db for a file, postgresql://user@host/name.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of words.")]


@experiment.command()
@reported
def create(
    name: Name,
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="[SOURCE.csv]",
            help="Features of the arms one can pull, one row per arm, labels in the first column; "
            "or names alone.",
        ),
    ] = None,
    problem: Annotated[
        Path | None,
        typer.Option(metavar="TRIAL.toml", help="Read all of it from this file instead."),
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option(
            metavar="TARGET.csv",
            help="Features of the options to choose among; the source when left out.",
        ),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(parser=decimal, help=f"The error probability allowed; {DELTA:g} if left out."),
    ] = None,
    noise: Annotated[
        float | None,
        typer.Option(parser=decimal, help="The scale of the noise; 1 if left out."),
    ] = None,
    baseline: Annotated[
        float | None,
        typer.Option(parser=decimal, help="A bound on the baseline's size; 1 if left out."),
    ] = None,
    bounds: Annotated[
        tuple[float, float] | None,
        typer.Option(
            parser=decimal,
            metavar="LOW HIGH",
            help="Between what rewards lie, for policies that ask.",
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="anytime if left out; your own as module:attribute."),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="An option of the policy. Repeat it for more."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            parser=whole, help="Fixes the draws; a random one, which is printed, if left out."
        ),
    ] = None,
    lease: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="How long an outcome may take (90s, 30m, 12h, 2d) before it is lost; for ever if "
            "left out.",
        ),
    ] = None,
    description: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What it is about, in words.")
    ] = None,
    store: StoreUrl = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Begin a trial, from a small TOML file or from CSV files of features with labels."""
    from bestarm.cli.experiment_create import run_create  # noqa: PLC0415

    given = {
        "source": source,
        "target": target,
        "delta": delta,
        "noise": noise,
        "baseline": baseline,
        "bounds": bounds,
        "policy": policy,
        "options": option or None,
        "seed": seed,
        "lease": lease,
        "description": description,
    }
    run_create(name, problem, given, store=store, as_json=json)


@experiment.command()
@reported
def ask(
    name: Name,
    count: Annotated[
        int, typer.Argument(parser=whole, metavar="[COUNT]", help="How many are wanted.")
    ] = 1,
    request_id: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="A name for this request: asked again under it, the same assignments are given.",
        ),
    ] = None,
    store: StoreUrl = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Get assignments: what to try next, drawn and on record."""
    from bestarm.cli.experiment_run import run_ask  # noqa: PLC0415

    run_ask(store, name, count, request_id=request_id, as_json=json)


# A negative reward is no option.
@experiment.command(context_settings={"ignore_unknown_options": True})
@reported
def tell(
    name: Name,
    outcome: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID REWARD]", help="An assignment's id and its reward: a number, yes or no."
        ),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="OUTCOMES.csv",
            help="Read ids and rewards from this file, CSV or JSON, or from standard input if it "
            "is -.",
        ),
    ] = None,
    store: StoreUrl = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Record the outcome of an assignment, or of many: all of them or, on an error, none."""
    from bestarm.cli.experiment_run import run_tell  # noqa: PLC0415

    run_tell(store, name, outcome or [], table=table, as_json=json)


@experiment.command()
@reported
def fail(
    name: Name,
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of assignments.")],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, in words.")] = "failed",
    store: StoreUrl = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Record that outcomes will never come."""
    from bestarm.cli.experiment_run import run_fail  # noqa: PLC0415

    run_fail(store, name, ids, reason=reason, as_json=json)


@experiment.command()
@reported
def status(name: Name, store: StoreUrl = DEFAULT_STORE, json: AsJson = False) -> None:
    """Say where a trial stands."""
    from bestarm.cli.experiment_run import run_status  # noqa: PLC0415

    run_status(store, name, as_json=json)


@experiment.command()
@reported
def recommend(name: Name, store: StoreUrl = DEFAULT_STORE, json: AsJson = False) -> None:
    """Name the best option as far as is known, with what may be claimed and on what it rests."""
    from bestarm.cli.experiment_run import run_recommend  # noqa: PLC0415

    run_recommend(store, name, as_json=json)


@experiment.command()
@reported
def health(name: Name, store: StoreUrl = DEFAULT_STORE, json: AsJson = False) -> None:
    """Ask how a trial is: exit code 1 on an alarm."""
    from bestarm.cli.experiment_look import run_health  # noqa: PLC0415

    run_health(store, name, as_json=json)


@experiment.command()
@reported
def log(
    name: Name,
    start: Annotated[
        int, typer.Option(parser=whole, metavar="N", help="The first event to show.")
    ] = 0,
    last: Annotated[
        int | None,
        typer.Option(parser=whole, metavar="N", help="Show no more than the last so many."),
    ] = None,
    store: StoreUrl = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Show every change of a trial's state, each bound to the one before by its hash."""
    from bestarm.cli.experiment_look import run_log  # noqa: PLC0415

    run_log(store, name, start=start, last=last, as_json=json)


@experiment.command()
@reported
def export(
    name: Name,
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A file, .csv or .parquet.")],
    layout: Annotated[
        Layout,
        typer.Option(help="All that is on record, or as micro-randomised trials are analysed."),
    ] = Layout.ASSIGNMENTS,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Add the probability of every arm.")
    ] = False,
    store: StoreUrl = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Write all assignments with what became of them to a file."""
    from bestarm.cli.experiment_look import run_export  # noqa: PLC0415

    run_export(store, name, path, layout=layout.value, probabilities=probabilities, as_json=json)


@experiment.command()
@reported
def verify(name: Name, store: StoreUrl = DEFAULT_STORE, json: AsJson = False) -> None:
    """Make every draw again and check the whole record: exit code 1 if it is not sound."""
    from bestarm.cli.experiment_look import run_verify  # noqa: PLC0415

    run_verify(store, name, as_json=json)


@experiment.command()
@reported
def replay(name: Name, store: StoreUrl = DEFAULT_STORE, json: AsJson = False) -> None:
    """Go through a trial with a fresh policy: exit code 1 if it does not go as it went."""
    from bestarm.cli.experiment_look import run_replay  # noqa: PLC0415

    run_replay(store, name, as_json=json)


@experiment.command()
@reported
def report(
    name: Name,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write it.")] = Path(
        "report.html"
    ),
    store: StoreUrl = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Write a trial as one page to print or keep."""
    from bestarm.cli.report_trial import run_report  # noqa: PLC0415

    run_report(name, store=store, out=out, as_json=json)


@experiment.command()
@reported
def pause(name: Name, store: StoreUrl = DEFAULT_STORE, json: AsJson = False) -> None:
    """Give nothing out until `resume`; outcomes are still taken."""
    from bestarm.cli.experiment_run import run_change  # noqa: PLC0415

    run_change(store, name, "pause", as_json=json)


@experiment.command()
@reported
def resume(name: Name, store: StoreUrl = DEFAULT_STORE, json: AsJson = False) -> None:
    """Go on after `pause`."""
    from bestarm.cli.experiment_run import run_change  # noqa: PLC0415

    run_change(store, name, "resume", as_json=json)


@experiment.command()
@reported
def lease(
    name: Name,
    length: Annotated[
        str,
        typer.Argument(metavar="TIME", help="90s, 30m, 12h or 2d; none to wait for ever."),
    ],
    store: StoreUrl = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Change how long outcomes may take from now on; what is lost stays lost."""
    from bestarm.cli.experiment_run import run_lease  # noqa: PLC0415

    run_lease(store, name, length, as_json=json)


@experiment.command()
@reported
def stop(
    name: Name,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, in words.")] = "",
    store: StoreUrl = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """End a trial for good; outcomes that come later are kept and flagged."""
    from bestarm.cli.experiment_run import run_change  # noqa: PLC0415

    run_change(store, name, "stop", reason=reason, as_json=json)


@experiment.command("list")
@reported
def list_(store: StoreUrl = DEFAULT_STORE, json: AsJson = False) -> None:
    """List the trials of a store."""
    from bestarm.cli.experiment_look import run_list  # noqa: PLC0415

    run_list(store, as_json=json)
