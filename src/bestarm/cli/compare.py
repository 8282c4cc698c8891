"""`bestarm compare`: methods beside each other on one instance, run by run."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Annotated

import typer

from bestarm.cli.options import AsJson, Dask, Delta, Runs, Seed, Workers, whole
from bestarm.cli.reporting import console, number, print_json, remark, reported
from bestarm.defaults import DELTA
from bestarm.errors import BestArmError

if TYPE_CHECKING:
    from rich.table import Table

    from bestarm.cli.methods import Entry
    from bestarm.problem import Problem
    from bestarm.simulation import Results
    from bestarm.simulation.catalogue import Instance
    from bestarm.simulation.compare import Comparison

__all__ = ["compare"]

_COMPANY = ("sp-bai", "sp-bai-sharp", "rage")  # what a user's own method is compared with
_Z = NormalDist().inv_cdf(0.975)
_QUANTILES = (0.1, 0.5, 0.9)
_MOST_PLANS = 100_000  # in the check of the contract: index rules make one plan per round
_HEADER = ("method", "instance", "seed", "delta")
_COLUMNS = ("run", "pulls", "correct", "final", "target", "plans")


@dataclass(frozen=True)
class _Request:
    """The comparison that was asked for."""

    instance: Instance
    runs: int
    seed: int
    delta: float
    max_pulls: int | None
    out: Path | None


@reported
def compare(
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METHOD",
            help="A built-in method by name (sp-bai, sbe, rage, …) or your own as "
            "module:attribute, with options after a colon (rage:sigma=2). Repeat it for more. If "
            "none is built in, sp-bai, sp-bai-sharp and rage are added.",
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
    runs: Runs = 200,
    seed: Seed = 0,
    delta: Delta = DELTA,
    max_pulls: Annotated[
        int | None,
        typer.Option(
            parser=whole,
            help="Where a run is cut, for methods that can be; 5 million on uniform, else never.",
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
    """Compare your own method with others, run by run."""
    from bestarm import checks
    from bestarm.cli.features import check_writable, write_table
    from bestarm.cli.imports import modules_of_this_folder
    from bestarm.simulation.catalogue import find_instance
    from bestarm.simulation.executors import check_workers

    checks.whole(runs, "runs", least=1)
    checks.whole(seed, "seed", least=0)
    checks.probability(delta)
    if max_pulls is not None:
        checks.whole(max_pulls, "max_pulls", least=1)
    check_workers(workers, dask)
    if out is not None:
        check_writable(out)
    try:
        # What a method prints must not mix with the results.
        with modules_of_this_folder(), redirect_stdout(sys.stderr):
            where = find_instance(instance, baseline=baseline, data=data)
            cap = where.max_pulls if max_pulls is None else max_pulls
            request = _Request(where, runs, seed, delta, cap, out)
            entries = _entries(method or [], cap)
            _check(entries, request, own=not no_check)
            comparison = _simulate(entries, request, workers=workers, dask=dask)
    except KeyboardInterrupt:  # before the first run
        remark("interrupted before any run had finished.")
        raise typer.Exit(130) from None
    if out is not None and comparison.failure is None:
        write_table(out, (*_HEADER, *_COLUMNS), _rows(comparison))
    if comparison.results or comparison.failure is None:
        (_print_json if json else _print_words)(comparison, request)
    if comparison.failure is not None:
        raise comparison.failure
    if comparison.interrupted:
        raise typer.Exit(130)


def _entries(methods: Sequence[str], max_pulls: int | None) -> list[Entry]:
    from bestarm.cli.methods import read_method

    entries = [read_method(text) for text in methods]
    if all(entry.own for entry in entries):
        entries += [read_method(name) for name in _COMPANY]
    return list({entry.name: entry.capped(max_pulls) for entry in entries}.values())


def _check(entries: Sequence[Entry], request: _Request, *, own: bool) -> None:
    """Refuse what cannot be simulated, and users' methods that break the contract."""
    from numpy.random import default_rng

    from bestarm.cli.methods import make
    from bestarm.cli.progress import status

    world = request.instance.environment.instance(default_rng(request.seed))
    problem = world.problem(request.delta)
    for entry in entries:
        make(entry, world, problem)
        if entry.own and own:
            with status(f"Checking {entry.name} …"):
                _check_contract(entry, problem)


def _check_contract(entry: Entry, problem: Problem) -> None:
    from bestarm.cli.methods import described
    from bestarm.testing import check_policy

    remedy = ""
    try:
        check_policy(partial(entry.factory, **entry.options), problem, max_plans=_MOST_PLANS)
    except AssertionError as error:
        cause = f" ({described(error.__cause__, entry.module)})" if error.__cause__ else ""
        what, remedy = f"{str(error).rstrip('.')}{cause}", "--no-check measures it all the same."
        reason: Exception = error
    except Exception as error:
        what, reason = f"it raised {described(error, entry.module)}", error
    else:
        return
    raise BestArmError(
        f"{entry.name} does not pass check_policy: {what}.",
        field="method",
        value=entry.name,
        remedy=remedy,
    ) from reason


def _simulate(
    entries: Sequence[Entry], request: _Request, *, workers: int | None, dask: str | None
) -> Comparison:
    from bestarm.cli.methods import described
    from bestarm.cli.progress import bars
    from bestarm.simulation.compare import Contestant
    from bestarm.simulation.compare import compare as run_all

    by_name = {entry.name: entry if dask is None else entry.portable() for entry in entries}
    with bars(list(by_name), request.runs) as shown:
        comparison = run_all(
            {
                name: Contestant(entry.method, request.instance.environment)
                for name, entry in by_name.items()
            },
            runs=request.runs,
            seed=request.seed,
            delta=request.delta,
            reference=_COMPANY[0] if _COMPANY[0] in by_name else entries[0].name,
            workers=workers,
            dask=dask,
            progress=shown,
        )
    failure, notes = comparison.failure, getattr(comparison.failure, "__notes__", ())
    if failure is None or not notes:  # not from within a run
        return comparison
    error = BestArmError(
        f"{comparison.failed} raised {described(failure, by_name[comparison.failed].module)}.",
        field="method",
        value=comparison.failed,
        remedy=" ".join(notes),
    )
    error.__cause__ = failure
    return replace(comparison, failure=error)


def _rows(comparison: Comparison) -> Iterator[tuple[object, ...]]:
    for name, results in comparison.results.items():
        head = (name, results.environment, results.seed, results.delta)
        for outcome in results.outcomes():
            yield (*head, *(int(value) for value in outcome))


def _print_json(comparison: Comparison, request: _Request) -> None:
    print_json(
        {
            "complete": comparison.complete,
            "instance": request.instance.description,
            "note": request.instance.note,
            "runs": request.runs,
            "seed": request.seed,
            "delta": request.delta,
            "max_pulls": request.max_pulls,
            "reference": comparison.reference,
            "methods": [_report(comparison, name) for name in comparison.results],
        }
    )


def _report(comparison: Comparison, name: str) -> dict[str, object]:
    from bestarm.simulation.compare import error_against_delta

    results, gap = comparison.results[name], comparison.difference(name)
    return {
        "name": name,
        "runs": results.runs,
        "mean_pulls": number(results.mean_pulls),
        "std_pulls": number(results.std_pulls),
        "pulls_interval": results.pulls_interval() if results.runs > 1 else None,
        "pulls_quantiles": {f"{q:g}": n for q, n in results.quantiles(_QUANTILES).items()},
        "error_rate": results.error_rate,
        "error_interval": results.error_interval(),
        "error_against_delta": error_against_delta(results),
        "not_final": _not_final(results),
        "pulls_minus_reference": None
        if gap is None
        else {
            "runs": gap.runs,
            "mean": number(gap.mean),
            "interval": None
            if math.isnan(gap.half)
            else (gap.mean - gap.half, gap.mean + gap.half),
        },
    }


def _not_final(results: Results) -> int:
    return results.runs - int(results.final.sum())


def _print_words(comparison: Comparison, request: _Request) -> None:
    screen = console()
    cut = "" if request.max_pulls is None else f", cut at {request.max_pulls:,} pulls"
    screen.print(
        f"{request.instance.description}, δ = {request.delta:g}, seed {request.seed}, "
        f"{_count(request.runs)} of each{'' if comparison.complete else ' asked for'}{cut}.",
    )
    if request.instance.note:
        screen.print(request.instance.note)
    for table in (_pulls_table(comparison, request.runs), _errors_table(comparison)):
        screen.print()
        screen.print(table)
    screen.print()
    for line in _remarks(comparison, request.out):
        screen.print(line, soft_wrap=False)


def _remarks(comparison: Comparison, out: Path | None) -> Iterator[str]:
    if comparison.interrupted:
        yield "Interrupted: partial results, of the runs that had finished."
    elif comparison.failure is not None:
        yield "Partial results: of the methods before the one that failed."
    yield (
        "± and ranges are 95 % intervals; errors are below or above δ if their whole interval is."
    )
    if comparison.reference in comparison.results and len(comparison.results) > 1:
        yield (
            "Run i of every method has the same seed and instance, so pulls are compared with "
            f"{comparison.reference}'s run by run."
        )
    if any(_not_final(results) for results in comparison.results.values()):
        yield "Runs that were not final ended at a cap or a budget; their errors are counted too."
    if out is not None and comparison.failure is None:
        yield f"{'Every run is' if comparison.complete else 'These runs are'} in {out}."


def _pulls_table(comparison: Comparison, runs: int) -> Table:
    table = _table("mean pulls", "10 %", "median", "90 %", "not final")
    for name, results in comparison.results.items():
        finished = "" if results.runs == runs else f" [{_count(results.runs)}]"
        half = _Z * results.std_pulls / math.sqrt(results.runs)
        table.add_row(
            name + finished,
            _plus_minus(results.mean_pulls, half),
            *(f"{n:,.0f}" for n in results.quantiles(_QUANTILES).values()),
            f"{_not_final(results):,}",
        )
    return table


def _errors_table(comparison: Comparison) -> Table:
    from bestarm.simulation.compare import error_against_delta

    table = _table("errors", "against δ", f"pulls − {_short(comparison.reference)}'s")
    for name, results in comparison.results.items():
        low, high = results.error_interval()
        gap = comparison.difference(name)
        table.add_row(
            name,
            f"{results.error_rate:.1%} ({100 * low:.1f}–{100 * high:.1f})",
            error_against_delta(results),
            "–" if gap is None else _plus_minus(gap.mean, gap.half),
        )
    return table


def _table(*headings: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("method", overflow="fold")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _count(runs: int) -> str:
    return f"{runs:,} run" + ("" if runs == 1 else "s")


def _short(name: str) -> str:
    return name if len(name) <= 12 else f"{name[:11]}…"


def _plus_minus(value: float, half: float) -> str:
    if math.isnan(value):
        return "–"
    text = f"{value:,.0f}".replace("-", "−")
    return text if math.isnan(half) else f"{text} ± {half:,.0f}"
