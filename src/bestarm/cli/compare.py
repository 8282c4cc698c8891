"""`bestarm compare`: methods beside each other on one instance, run by run."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
import typer

from bestarm.checks import probability, whole
from bestarm.cli.carried import Carried, sources_in
from bestarm.cli.files import ready_for_writing, write_table
from bestarm.cli.instances import Instance, read_instance
from bestarm.cli.methods import Entry, described, importable_from_here, make, read_method
from bestarm.cli.reporting import console, number, print_json
from bestarm.cli.workers import Bar, bars, check_workers, working
from bestarm.errors import BestArmError
from bestarm.problem import Problem
from bestarm.simulation import Results, simulate
from bestarm.testing import check_policy

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["run_compare"]

_COMPANY = ("sp-bai", "sp-bai-sharp", "rage")  # whom one's own method is compared with
_Z = NormalDist().inv_cdf(0.975)
_QUANTILES = (0.1, 0.5, 0.9)
_MOST_PLANS = 100_000  # in the check: index rules make a plan a round
_HEADER = ("method", "instance", "seed", "delta")
_COLUMNS = ("run", "pulls", "correct", "final", "target", "plans")


@dataclass(frozen=True)
class _Comparison:
    """What came of it: a result for each method that has finished runs."""

    instance: Instance
    runs: int
    seed: int
    delta: float
    max_pulls: int | None
    reference: str
    results: dict[str, Results]
    failure: BestArmError | None = None
    interrupted: bool = False

    @property
    def complete(self) -> bool:
        return self.failure is None and not self.interrupted


def run_compare(
    methods: Sequence[str],
    *,
    instance: str,
    baseline: str | None,
    data: Path | None,
    runs: int,
    seed: int,
    delta: float,
    max_pulls: int | None,
    workers: int | None,
    dask: str | None,
    check: bool,
    as_json: bool,
    out: Path | None,
) -> None:
    """Read what is asked for, check it all, simulate method after method, print."""
    whole(runs, "runs", least=1)
    whole(seed, "seed", least=0)
    probability(delta)
    if max_pulls is not None:
        whole(max_pulls, "max_pulls", least=1)
    check_workers(workers, dask)
    if out is not None:
        ready_for_writing(out)
    try:
        # What a method prints is not what the command says.
        with importable_from_here(), redirect_stdout(sys.stderr):
            where = read_instance(instance, baseline=baseline, data=data)
            cap = where.max_pulls if max_pulls is None else max_pulls
            entries = _entries(methods, cap)
            _check(entries, where, seed=seed, delta=delta, own=check)
            if dask is not None:
                entries = [_carried(entry) for entry in entries]
            comparison = _Comparison(where, runs, seed, delta, cap, _reference(entries), {})
            comparison = _simulate(entries, comparison, workers=workers, dask=dask)
    except KeyboardInterrupt:  # before the first run
        typer.echo("bestarm: interrupted before any run had finished.", err=True)
        raise typer.Exit(130) from None
    if out is not None and comparison.failure is None:
        write_table(out, (*_HEADER, *_COLUMNS), _rows(comparison))
    if comparison.results or comparison.failure is None:
        (_print_json if as_json else _print_words)(comparison, out)
    if comparison.failure is not None:
        raise comparison.failure
    if comparison.interrupted:
        raise typer.Exit(130)


def _entries(methods: Sequence[str], max_pulls: int | None) -> list[Entry]:
    entries = [read_method(text) for text in methods]
    if all(entry.own for entry in entries):
        entries += [read_method(name) for name in _COMPANY]
    return list({entry.name: entry.capped(max_pulls) for entry in entries}.values())


def _reference(entries: Sequence[Entry]) -> str:
    """Whom the others are measured against: the paper's reading, or the first."""
    names = [entry.name for entry in entries]
    return _COMPANY[0] if _COMPANY[0] in names else names[0]


def _check(
    entries: Sequence[Entry], instance: Instance, *, seed: int, delta: float, own: bool
) -> None:
    """Refuse what cannot be simulated, and methods of one's own that break the contract."""
    world = instance.environment.instance(np.random.default_rng(seed))
    problem = world.problem(delta)
    for entry in entries:
        make(entry, world, problem)
        if entry.own and own:
            with _status(f"Checking {entry.name} …"):
                _keep_contract(entry, problem)


def _keep_contract(entry: Entry, problem: Problem) -> None:
    try:
        method = partial(entry.factory, **entry.options)
        check_policy(method, problem, max_plans=_MOST_PLANS)
    except AssertionError as error:
        cause = f" ({described(error.__cause__, entry.module)})" if error.__cause__ else ""
        raise BestArmError(
            f"{entry.name} does not pass check_policy: {str(error).rstrip('.')}{cause}.",
            field="method",
            value=entry.name,
            remedy="--no-check measures it all the same.",
        ) from error
    except Exception as error:
        raise BestArmError(
            f"{entry.name} does not pass check_policy: it raised {described(error, entry.module)}.",
            field="method",
            value=entry.name,
        ) from error


def _carried(entry: Entry) -> Entry:
    if not entry.own:
        return entry
    files = sources_in(Path.cwd())
    carried = Carried(entry.module, entry.attribute, entry.options, files)
    return replace(entry, factory=carried, options={})


def _simulate(
    entries: Sequence[Entry], asked: _Comparison, *, workers: int | None, dask: str | None
) -> _Comparison:
    done: dict[str, Results] = {}
    names = [entry.name for entry in entries]
    try:
        with working(workers, dask) as executor, bars(names, asked.runs) as shown:
            for entry in entries:
                results = _one(entry, asked, executor=executor, progress=shown[entry.name])
                if results.runs:
                    done[entry.name] = results
                if results.interrupted:
                    return replace(asked, results=done, interrupted=True)
    except KeyboardInterrupt:  # between two methods
        return replace(asked, results=done, interrupted=True)
    except BestArmError as error:
        return replace(asked, results=done, failure=error)
    return replace(asked, results=done)


def _one(entry: Entry, asked: _Comparison, *, executor: Executor | None, progress: Bar) -> Results:
    try:
        return simulate(
            entry.method,
            asked.instance.environment,
            runs=asked.runs,
            seed=asked.seed,
            delta=asked.delta,
            executor=executor,
            progress=progress,
        )
    except Exception as error:
        notes = " ".join(getattr(error, "__notes__", ()))
        if not notes:  # not from within a run
            raise
        raise BestArmError(
            f"{entry.name} raised {described(error, entry.module)}.",
            field="method",
            value=entry.name,
            remedy=notes,
        ) from error


@contextmanager
def _status(words: str) -> Iterator[None]:
    """Say what is going on, where somebody is looking."""
    from rich.console import Console  # noqa: PLC0415

    screen = Console(stderr=True, markup=False)
    if not screen.is_terminal:
        yield
        return
    with screen.status(words):
        yield


def _rows(comparison: _Comparison) -> Iterator[tuple[object, ...]]:
    for name, results in comparison.results.items():
        head = (name, results.environment, results.seed, results.delta)
        for outcome in results.outcomes():
            yield (*head, *(int(value) for value in outcome))


def _difference(results: Results, reference: Results) -> tuple[float, float, int]:
    """The mean of pulls minus the reference's over runs that both made, ± half a 95 % interval."""
    _, ours, theirs = np.intersect1d(
        results.index, reference.index, assume_unique=True, return_indices=True
    )
    gaps = results.pulls[ours] - reference.pulls[theirs]
    if not len(gaps):
        return math.nan, math.nan, 0
    half = math.nan
    if len(gaps) > 1:
        half = _Z * float(gaps.std(ddof=1)) / math.sqrt(len(gaps))
    return float(gaps.mean()), half, len(gaps)


def _against_delta(results: Results) -> str:
    low, high = results.error_interval()
    if low > results.delta:
        return "above"
    return "below" if high <= results.delta else "compatible"


def _print_json(comparison: _Comparison, _out: Path | None) -> None:
    print_json(
        {
            "complete": comparison.complete,
            "instance": comparison.instance.description,
            "note": comparison.instance.note,
            "runs": comparison.runs,
            "seed": comparison.seed,
            "delta": comparison.delta,
            "max_pulls": comparison.max_pulls,
            "reference": comparison.reference,
            "methods": [_report(comparison, name) for name in comparison.results],
        }
    )


def _report(comparison: _Comparison, name: str) -> dict[str, object]:
    results = comparison.results[name]
    report: dict[str, object] = {
        "name": name,
        "runs": results.runs,
        "mean_pulls": number(results.mean_pulls),
        "std_pulls": number(results.std_pulls),
        "pulls_interval": results.pulls_interval() if results.runs > 1 else None,
        "pulls_quantiles": {f"{q:g}": n for q, n in results.quantiles(_QUANTILES).items()},
        "error_rate": results.error_rate,
        "error_interval": results.error_interval(),
        "error_against_delta": _against_delta(results),
        "not_final": _not_final(results),
        "pulls_minus_reference": None,
    }
    reference = comparison.results.get(comparison.reference)
    if reference is not None and name != comparison.reference:
        mean, half, pairs = _difference(results, reference)
        report["pulls_minus_reference"] = {
            "runs": pairs,
            "mean": number(mean),
            "interval": None if math.isnan(half) else (mean - half, mean + half),
        }
    return report


def _not_final(results: Results) -> int:
    return results.runs - int(results.final.sum())


def _print_words(comparison: _Comparison, out: Path | None) -> None:
    screen = console()
    cut = "" if comparison.max_pulls is None else f", cut at {comparison.max_pulls:,} pulls"
    screen.print(
        f"{comparison.instance.description}, δ = {comparison.delta:g}, seed {comparison.seed}, "
        f"{_count(comparison.runs)} of each{'' if comparison.complete else ' asked for'}{cut}.",
    )
    if comparison.instance.note:
        screen.print(comparison.instance.note)
    screen.print()
    screen.print(_pulls_table(comparison))
    screen.print()
    screen.print(_errors_table(comparison))
    screen.print()
    for line in _remarks(comparison, out):
        screen.print(line, soft_wrap=False)


def _remarks(comparison: _Comparison, out: Path | None) -> Iterator[str]:
    if comparison.interrupted:
        yield "Interrupted: this is partial, of the runs that had finished."
    elif comparison.failure is not None:
        yield "Partial: of the methods before the one that failed."
    yield ("± and ranges are 95 % intervals; errors are below or above δ if all of theirs is.")
    if comparison.reference in comparison.results and len(comparison.results) > 1:
        yield (
            "Run i of every method has the same seed and instance, so pulls are compared with "
            f"{comparison.reference}'s run by run."
        )
    if any(_not_final(results) for results in comparison.results.values()):
        yield "Runs that were not final ended at a cap or a budget; their errors are counted too."
    if out is not None and comparison.failure is None:
        yield f"{'Every run is' if comparison.complete else 'These runs are'} in {out}."


def _pulls_table(comparison: _Comparison) -> Table:
    table = _table("mean pulls", "10 %", "median", "90 %", "not final")
    for name, results in comparison.results.items():
        runs = "" if results.runs == comparison.runs else f" [{_count(results.runs)}]"
        half = _Z * results.std_pulls / math.sqrt(results.runs)
        quantiles = results.quantiles(_QUANTILES).values()
        table.add_row(
            name + runs,
            _plus_minus(results.mean_pulls, half),
            *(f"{n:,.0f}" for n in quantiles),
            f"{_not_final(results):,}",
        )
    return table


def _errors_table(comparison: _Comparison) -> Table:
    table = _table("errors", "against δ", f"pulls − {_short(comparison.reference)}'s")
    reference = comparison.results.get(comparison.reference)
    for name, results in comparison.results.items():
        low, high = results.error_interval()
        gap = "–"
        if reference is not None and name != comparison.reference:
            gap = _plus_minus(*_difference(results, reference)[:2])
        table.add_row(
            name,
            f"{results.error_rate:.1%} ({100 * low:.1f}–{100 * high:.1f})",
            _against_delta(results),
            gap,
        )
    return table


def _table(*headings: str) -> Table:
    from rich.table import Table  # noqa: PLC0415

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
