"""`bestarm compare`: methods beside each other on one instance, run by run."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bestarm.cli.command import AsJson, Dask, Delta, Runs, Seed, Workers, command, modules_of_folder
from bestarm.cli.comparison import comparison_data, print_comparison, run_comparison
from bestarm.cli.output import console, count, print_json, remark
from bestarm.defaults import DELTA
from bestarm.errors import BestArmError

if TYPE_CHECKING:
    from bestarm.cli.methods import Entry, Instance
    from bestarm.problem import Problem
    from bestarm.simulation.compare import Comparison

_COMPANY = ("sp-bai", "sp-bai-sharp", "rage")  # what a user's own method is compared with
_MOST_PLANS = 100_000  # in the check of the contract: index rules make one plan per round
_OF_METHOD = ("method", "instance", "seed", "delta")
_OF_RUN = ("run", "pulls", "correct", "final", "target", "plans", "rounds")


@command
def compare(
    *,
    method: list[str] | None = None,
    instance: str = "small-gap",
    baseline: str | None = None,
    data: Path | None = None,
    runs: Runs = 200,
    seed: Seed = 0,
    delta: Delta = DELTA,
    max_pulls: int | None = None,
    workers: Workers = None,
    dask: Dask = None,
    no_check: bool = False,
    json: AsJson = False,
    out: Path | None = None,
) -> None:
    """Compare your own method with others, run by run.

    Args:
        method (METHOD): A built-in method by name (sp-bai, sbe, rage, …) or your own as
            module:attribute, with options after a colon (rage:sigma=2). Repeat it for more. If none
            is built in, sp-bai, sp-bai-sharp and rage are added.
        instance (NAME): small-gap, uniform or jester.
        baseline (NAME): How the baseline of small-gap and uniform moves: sinusoid (as in the
            paper), none, random-walk, switches or adversary.
        data (FILE): A Jester file; synthetic ratings when left out.
        max_pulls: Where a run is cut, for methods that can be; 5 million on uniform, else never.
        no_check: Do not check your own method's contract first.
        out (RUNS.csv): Write every run to this file.
    """
    from bestarm import checks
    from bestarm.cli.features import check_writable, write_table
    from bestarm.cli.methods import find_instance
    from bestarm.simulation.compare import Contestant
    from bestarm.simulation.executors import check_workers
    from bestarm.simulation.results import run_count

    run_count(runs)
    checks.whole(seed, "seed", least=0)
    if max_pulls is not None:
        checks.whole(max_pulls, "max_pulls", least=1)
    check_workers(workers, dask)
    if out is not None:
        check_writable(out)
    try:
        # What a method prints must not mix with the results.
        with modules_of_folder(), redirect_stdout(sys.stderr):
            where = find_instance(instance, baseline=baseline, data=data)
            cap = where.max_pulls if max_pulls is None else max_pulls
            entries = _entries(method or [], cap)
            _check(entries, where, seed=seed, delta=delta, own=not no_check)
            comparison = run_comparison(
                {entry.name: Contestant(entry.method, where.environment) for entry in entries},
                runs=runs,
                seed=seed,
                delta=delta,
                reference=min(entries, key=lambda entry: entry.name != _COMPANY[0]).name,
                workers=workers,
                dask=dask,
            )
    except KeyboardInterrupt:  # before the first run
        remark("interrupted before any run had finished.")
        raise typer.Exit(130) from None
    if out is not None and comparison.failure is None:
        write_table(out, _OF_METHOD + _OF_RUN, _rows(comparison))
    if comparison.results or comparison.failure is None:
        asked = {"runs": runs, "seed": seed, "delta": delta, "max_pulls": cap}
        about = {"instance": where.description, "note": where.note, **asked}
        if json:
            print_json(about | comparison_data(comparison))
        else:
            _print_words(comparison, about, out)
    if comparison.failure is not None:
        raise _told(comparison, {entry.name: entry.module for entry in entries})
    if comparison.interrupted:
        raise typer.Exit(130)


def _told(comparison: Comparison, modules: Mapping[str, str]) -> Exception:
    """The failure in our words, if it was raised within a run."""
    from bestarm.cli.methods import described

    failure, notes = comparison.failure, getattr(comparison.failure, "__notes__", ())
    assert failure is not None
    if not notes:
        return failure
    error = BestArmError(
        f"{comparison.failed} raised {described(failure, modules[comparison.failed])}.",
        field="method",
        value=comparison.failed,
        remedy=" ".join(notes),
    )
    error.__cause__ = failure
    return error


def _entries(methods: Sequence[str], max_pulls: int | None) -> list[Entry]:
    from bestarm.cli.methods import read_method

    entries = [read_method(text) for text in methods]
    if all(entry.own for entry in entries):
        entries += [read_method(name) for name in _COMPANY]
    return list({entry.name: entry.capped(max_pulls) for entry in entries}.values())


def _check(
    entries: Sequence[Entry], where: Instance, *, seed: int, delta: float, own: bool
) -> None:
    """Refuse what cannot be simulated, and users' methods that break the contract."""
    from numpy.random import default_rng
    from rich.console import Console

    from bestarm.cli.methods import check_question, make

    world = where.environment.instance(default_rng(seed))
    problem = world.problem(delta)
    for entry in entries:
        check_question(entry.name, make(entry, world, problem))
        if entry.own and own:
            with Console(stderr=True, markup=False).status(f"Checking {entry.name} …"):
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


def _rows(comparison: Comparison) -> Iterator[tuple[object, ...]]:
    for name, results in comparison.results.items():
        head = (name, results.environment, results.seed, results.delta)
        for outcome in results.outcomes():
            yield (*head, *(int(value) for value in outcome))


def _print_words(comparison: Comparison, about: Mapping[str, Any], out: Path | None) -> None:
    screen, cap = console(), about["max_pulls"]
    screen.print(
        f"{about['instance']}, δ = {about['delta']:g}, seed {about['seed']}, "
        f"{count(about['runs'], 'run')} of each{'' if comparison.complete else ' asked for'}"
        f"{'' if cap is None else f', cut at {cap:,} pulls'}.",
    )
    if about["note"]:
        screen.print(about["note"])
    print_comparison(comparison, runs=about["runs"])
    if out is not None and comparison.failure is None:
        screen.print(f"{'Every run is' if comparison.complete else 'These runs are'} in {out}.")
