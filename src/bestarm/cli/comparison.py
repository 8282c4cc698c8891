"""A comparison of methods, in two tables or as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from bestarm.cli.output import bars, console, count, number, percent_range, table

if TYPE_CHECKING:
    from bestarm.simulation import Results
    from bestarm.simulation.compare import Comparison, Contestant

_QUANTILES = (0.1, 0.5, 0.9)


def run_comparison(
    contestants: Mapping[str, Contestant], *, runs: int, **settings: Any
) -> Comparison:
    """Compare with a bar per method; settings as for `compare`."""
    from bestarm.simulation.compare import compare

    with bars(list(contestants), runs) as shown:
        return compare(contestants, runs=runs, progress=shown, **settings)


def comparison_data(comparison: Comparison) -> dict[str, object]:
    """The figures of a comparison, as JSON has them."""
    return {
        "complete": comparison.complete,
        "reference": comparison.reference,
        "methods": [_method_data(comparison, name) for name in comparison.results],
    }


def _method_data(comparison: Comparison, name: str) -> dict[str, object]:
    from bestarm.simulation.compare import error_against_delta

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
        "not_final": _not_final(results),
        "pulls_minus_reference": difference,
    }


def print_comparison(comparison: Comparison, *, runs: int) -> None:
    """Print the figures, and how to read them; so many runs of each method were asked for."""
    from bestarm.simulation.compare import error_against_delta

    reference = comparison.reference
    short = reference if len(reference) <= 12 else f"{reference[:11]}…"
    blocks = any(results.in_blocks for results in comparison.results.values())
    pulls = table("method", "mean pulls", "10 %", "median", "90 %", "not final")
    rounds = table("method", "mean rounds", "pulls per round")
    errors = table("method", "errors", "against δ", f"pulls − {short}'s")
    for name, results in comparison.results.items():
        many = results.runs > 1
        pulls.add_row(
            name if results.runs == runs else f"{name} [{count(results.runs, 'run')}]",
            _mean(results.mean_pulls, many and results.pulls_interval()),
            *(f"{n:,.0f}" for n in results.quantiles(_QUANTILES).values()),
            f"{_not_final(results):,}",
        )
        rounds.add_row(
            name,
            _mean(results.mean_rounds, many and results.rounds_interval()),
            f"{results.mean_pulls / results.mean_rounds:.2f}",
        )
        gap = comparison.difference(name)
        errors.add_row(
            name,
            percent_range(results.error_rate, results.error_interval()),
            error_against_delta(results) or "–",
            "–" if gap is None else _plus_minus(gap.mean, gap.half),
        )
    screen = console()
    for part in (pulls, rounds, errors) if blocks else (pulls, errors):
        screen.print()
        screen.print(part)
    screen.print()
    if comparison.interrupted:
        screen.print("Interrupted: partial results, of the runs that had finished.")
    elif comparison.failure is not None:
        screen.print("Partial results: of the methods before the one that failed.")
    screen.print(
        "± and ranges are 95 % intervals; errors are below or above δ if their whole interval is."
    )
    if reference in comparison.results and len(comparison.results) > 1:
        screen.print(
            "Run i of every method has the same seed and instance, so pulls are compared with "
            f"{reference}'s run by run."
        )
    if blocks:
        screen.print(
            "A round is one person, prompt or plate. Count rounds where people are what it costs, "
            "and pulls where every judgement is paid for."
        )
    if any(_not_final(results) for results in comparison.results.values()):
        screen.print(
            "Runs that were not final ended at a cap or a budget. Their errors are counted, but "
            "not against δ, which is about final answers."
        )


def _not_final(results: Results) -> int:
    return results.runs - int(results.final.sum())


def _mean(value: float, interval: tuple[float, float] | Literal[False]) -> str:
    """A mean with half of its interval, if it has one."""
    return _plus_minus(value, (interval[1] - interval[0]) / 2 if interval else math.nan)


def _plus_minus(value: float, half: float) -> str:
    if math.isnan(value):
        return "–"
    text = f"{value:,.0f}".replace("-", "−")
    return text if math.isnan(half) else f"{text} ± {half:,.0f}"
