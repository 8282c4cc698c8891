"""`bestarm compare`: methods beside each other on one instance, run by run."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from bestarm.cli.command import command, modules_of_folder
from bestarm.cli.output import Result, bars, number, print_result, remark, wrapped
from bestarm.defaults import DELTA
from bestarm.errors import BestArmError, InvalidInputError, describe_error
from bestarm.tables import TextTable
from bestarm.units import plural

if TYPE_CHECKING:
    from bestarm.cli.research.methods import Entry, Instance
    from bestarm.environments import Environment
    from bestarm.policies.policy import Method
    from bestarm.problem import Problem
    from bestarm.simulation import Comparison, Oracle

_DEFAULT_METHODS = ("sp-bai", "rage")  # what a user's own method is compared with
_MOST_PLANS = 100_000  # in the check of the contract: index rules make one plan per round
_QUANTILES = (0.1, 0.5, 0.9)
_OF_METHOD = ("method", "instance", "seed", "delta")


@command
def compare(
    *,
    method: list[str] | None = None,
    instance: str = "small-gap",
    baseline: str | None = None,
    data: Path | None = None,
    runs: int = 200,
    seed: int = 0,
    delta: float = DELTA,
    max_pulls: int | None = None,
    workers: int | None = None,
    no_check: bool = False,
    json: bool = False,
    markdown: bool = False,
    latex: bool = False,
    out: Path | None = None,
    folder: Path | None = None,
) -> Result:
    """Compare your own method with others, run by run.

    Args:
        method (METHOD): A built-in method by name (sp-bai, sbe, rage, …) or your own as
            module:attribute, with options after a colon (rage:sigma=2). Repeat it for more. If none
            is built in, sp-bai and rage are added.
        instance (NAME): small-gap, uniform or jester; or your own environment, or a function that
            makes it, as module:attribute.
        baseline (NAME): How the baseline of small-gap and uniform moves: sinusoid (as in the
            paper), none, random-walk, switches or adversary.
        data (FILE): A Jester file; synthetic ratings when left out.
        max_pulls: Where a run is cut, for methods that can be; 5 million on uniform, else never.
        no_check: Do not check your own method's contract first.
        markdown: Print Markdown tables instead of words.
        latex: Print LaTeX tables instead of words, for a document that loads booktabs.
        out (RUNS.csv): Write every run to this file.
        folder (FOLDER): Keep every finished run in this folder, and continue with what it holds.
    """
    from bestarm import checks
    from bestarm.cli.features import check_writable, write_table
    from bestarm.cli.research.methods import find_instance
    from bestarm.simulation.executors import check_workers
    from bestarm.simulation.results import Outcome, run_count

    if json + markdown + latex > 1:
        raise InvalidInputError(
            "`json`, `markdown` and `latex` exclude each other.",
            field="latex" if latex else "markdown",
            remedy="Choose one of them.",
        )
    run_count(runs)
    checks.whole(seed, "seed", least=0)
    if max_pulls is not None:
        checks.whole(max_pulls, "max_pulls", least=1)
    check_workers(workers)
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
                {entry.name: entry.method for entry in entries},
                where.environment,
                runs=runs,
                seed=seed,
                delta=delta,
                reference=min(entries, key=lambda entry: entry.name != _DEFAULT_METHODS[0]).name,
                workers=workers,
                folder=folder,
            )
    except KeyboardInterrupt:  # before the first run
        remark("interrupted before any run had finished.")
        raise typer.Exit(130) from None
    if out is not None and comparison.failure is None:
        write_table(out, _OF_METHOD + Outcome._fields, _rows(comparison))
    asked = {"runs": runs, "seed": seed, "delta": delta, "max_pulls": cap}
    about = {"instance": where.description, "note": where.note, **asked}
    lines: list[str | TextTable] = [*wrapped(_words(comparison, about, out, folder))]
    if markdown or latex:
        text = comparison.to_latex() if latex else comparison.to_markdown()
        lines = [*text.splitlines()]
    code = 130 if comparison.interrupted else 0
    result = Result(about | comparison_data(comparison), lines, code)
    if comparison.failure is not None:
        if comparison.results:
            print_result(result, as_json=json)
        _raise_failure(comparison, {entry.name: entry.module for entry in entries})
    return result


def _raise_failure(comparison: Comparison, modules: Mapping[str, str]) -> NoReturn:
    """Raise the failure, in our words if it was raised within a run."""

    failure, notes = comparison.failure, getattr(comparison.failure, "__notes__", ())
    assert failure is not None
    if not notes:
        raise failure
    raise BestArmError(
        f"{comparison.failed} raised {describe_error(failure, modules[comparison.failed])}.",
        field="method",
        value=comparison.failed,
        remedy=" ".join(notes),
    ) from failure


def _entries(methods: Sequence[str], max_pulls: int | None) -> list[Entry]:
    from bestarm.cli.research.methods import read_method

    entries = [read_method(text) for text in methods]
    if all(entry.module for entry in entries):
        entries += [read_method(name) for name in _DEFAULT_METHODS]
    return list({entry.name: entry.capped(max_pulls) for entry in entries}.values())


def _check(
    entries: Sequence[Entry], where: Instance, *, seed: int, delta: float, own: bool
) -> None:
    """Refuse what cannot be simulated, and users' methods that break the contract."""
    from numpy.random import default_rng
    from rich.console import Console

    from bestarm.cli.research.methods import check_method

    world = where.environment.instance(default_rng(seed))
    problem = world.problem(delta)
    for entry in entries:
        check_method(entry, world, problem)
        if entry.module and own:
            with Console(stderr=True, markup=False).status(f"Checking {entry.name} …"):
                _check_contract(entry, problem)


def _check_contract(entry: Entry, problem: Problem) -> None:
    from bestarm.testing import check_policy

    try:
        check_policy(partial(entry.factory, **entry.options), problem, max_plans=_MOST_PLANS)
    except Exception as error:
        what, remedy = f"it raised {describe_error(error, entry.module)}", ""
        if isinstance(error, AssertionError):
            cause = f" ({describe_error(error.__cause__, entry.module)})" if error.__cause__ else ""
            what = f"{str(error).rstrip('.')}{cause}"
            remedy = " --no-check measures it all the same."
        again = "In Python, check_policy says with which problem, seed and rewards to repeat it."
        remedy = f"{again}{remedy}"
        raise BestArmError(
            f"{entry.name} does not pass check_policy: {what}.",
            field="method",
            value=entry.name,
            remedy=remedy,
        ) from error


def _rows(comparison: Comparison) -> Iterator[tuple[object, ...]]:
    for name, results in comparison.results.items():
        head = (name, results.environment, results.seed, results.delta)
        for outcome in results.outcomes():
            yield (*head, *(int(value) for value in outcome))


def _words(
    comparison: Comparison, about: Mapping[str, Any], out: Path | None, folder: Path | None
) -> Iterator[str | TextTable]:
    cap = about["max_pulls"]
    yield (
        f"{about['instance']}, δ = {about['delta']:g}, seed {about['seed']}, "
        f"{plural(about['runs'], 'run')} of each{'' if comparison.complete else ' asked for'}"
        f"{'' if cap is None else f', cut at {cap:,} pulls'}."
    )
    if about["note"]:
        yield about["note"]
    yield from comparison_lines(comparison)
    if folder is not None and not comparison.complete:
        yield f"Finished runs are kept in {folder}: the same command continues with them."
    if out is not None and comparison.failure is None:
        yield f"{'Every run is' if comparison.complete else 'These runs are'} in {out}."


def run_comparison(
    methods: Mapping[str, Method | Oracle], environment: Environment, *, runs: int, **settings: Any
) -> Comparison:
    """Compare with a bar per method; the settings are those of `compare`."""
    from bestarm.simulation import compare

    with bars(list(methods), runs) as shown:
        return compare(methods, environment, runs=runs, progress=shown, **settings)


def comparison_data(comparison: Comparison) -> dict[str, object]:
    """The figures of a comparison, as JSON has them."""
    return {
        "complete": comparison.complete,
        "reference": comparison.reference,
        "methods": [_method_data(comparison, name) for name in comparison.results],
    }


def _method_data(comparison: Comparison, name: str) -> dict[str, object]:
    from bestarm.simulation.comparison import error_against_delta

    results, gap = comparison.results[name], comparison.difference(name)
    difference = None
    if gap is not None:
        interval = None if math.isnan(gap.half) else (gap.mean - gap.half, gap.mean + gap.half)
        difference = {"runs": gap.runs, "mean": number(gap.mean), "interval": interval}
    return {
        "name": name,
        "runs": results.runs,
        "mean_pulls": number(results.mean_pulls),
        "std_pulls": number(results.std_pulls),
        "pulls_interval": results.pulls_interval() if results.runs > 1 else None,
        "mean_rounds": number(results.mean_rounds),
        "rounds_interval": results.rounds_interval() if results.runs > 1 else None,
        "pulls_quantiles": {f"{q:g}": n for q, n in results.quantiles(_QUANTILES).items()},
        "error_rate": results.error_rate,
        "error_interval": results.error_interval(),
        "error_against_delta": error_against_delta(results),
        "not_final": results.runs - int(results.final.sum()),
        "contradicted": int(results.contradicted.sum()),
        "pulls_minus_reference": difference,
    }


def comparison_lines(comparison: Comparison) -> Iterator[str | TextTable]:
    """The figures, and how to read them."""
    reference = comparison.reference
    yield ""
    yield comparison.table()
    yield ""
    if comparison.interrupted:
        yield "Interrupted: partial results, of the runs that all methods had finished."
    elif comparison.failure is not None:
        yield "Partial results: of the runs that the other methods had finished."
    yield from comparison.notes()
    if reference in comparison.results and len(comparison.results) > 1:
        yield (
            "Run i of every method has the same seed and instance, so pulls are compared with "
            f"{reference}'s run by run."
        )
    if any(results.in_blocks for results in comparison.results.values()):
        yield (
            "A round is one person, prompt or plate. Count rounds where people are what it costs, "
            "and pulls where every judgement is paid for."
        )
