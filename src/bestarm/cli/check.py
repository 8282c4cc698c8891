"""`bestarm check`: what a problem is, in words."""

from __future__ import annotations

import math
from pathlib import Path

from bestarm import Problem, bounds
from bestarm.cli.files import read_table
from bestarm.cli.reporting import console, number, print_json, printable
from bestarm.design import Design, centered_xy
from bestarm.errors import InvalidInputError

__all__ = ["run_check"]


def run_check(
    source: Path,
    *,
    target: Path | None,
    delta: float,
    noise: float,
    baseline: float,
    theta: Path | None,
    as_json: bool,
) -> None:
    """Read a problem, certify its design, and say what it is."""
    arms = read_table(source)
    options = None if target is None else read_table(target)
    problem = Problem(
        arms.features,
        None if options is None else options.features,
        delta=delta,
        noise=noise,
        baseline=baseline,
        source_labels=arms.labels,
        target_labels=None if options is None else options.labels,
    )
    design = centered_xy(problem.source, problem.target)
    complexities = {} if theta is None else _complexities(problem, _read_parameter(theta))
    if as_json:
        _print_json(problem, design, complexities)
    else:
        _print_words(problem, design, complexities)


def _read_parameter(path: Path) -> list[float]:
    """One number a feature, in one row or one column."""
    rows = read_table(path, names_alone=False).features
    if len(rows) == 1:
        return rows[0]
    if len(rows[0]) == 1:
        return [row[0] for row in rows]
    raise InvalidInputError(
        f"{str(path)!r} holds {len(rows)} rows of {len(rows[0])} numbers.",
        field="theta",
        value=str(path),
        remedy="A parameter is one row, or one column, with a number a feature.",
    )


def _complexities(problem: Problem, theta: list[float]) -> dict[str, Design]:
    return {
        "centered": bounds.complexity(problem, theta, "centered"),
        "shifted": bounds.complexity(problem, theta, "shifted"),
        "linear": bounds.complexity(problem, theta, "linear"),
    }


def _print_json(problem: Problem, design: Design, complexities: dict[str, Design]) -> None:
    report: dict[str, object] = {
        "arms": problem.arms,
        "targets": problem.targets,
        "features": problem.dimension,
        "rank": problem.rank,
        "identifiable": True,
        "delta": problem.delta,
        "noise": problem.noise,
        "baseline": problem.baseline,
        "design": _certificate(design),
    }
    if complexities:
        report["complexity"] = {kind: _certificate(part) for kind, part in complexities.items()}
    print_json(report)


def _certificate(design: Design) -> dict[str, float | None]:
    return {
        "value": number(design.value),
        "lower_bound": number(design.lower_bound),
        "gap": number(design.gap),
    }


def _print_words(problem: Problem, design: Design, complexities: dict[str, Design]) -> None:
    same = problem.source is problem.target
    among = (
        "the best of them is sought" if same else f"the best of {problem.targets} targets is sought"
    )
    features = "feature" if problem.dimension == 1 else "features"
    lines = [
        f"{problem.arms} arms can be pulled, and {among}; {problem.dimension} {features} describe "
        "each.",
        f"Differences of source arms span {problem.rank} of {problem.dimension} dimensions, and "
        "every contrast of two targets lies in them: the problem is identifiable.",
        f"The best target is to be named wrongly with probability at most {problem.delta:g}, with "
        f"noise of scale {problem.noise:g} and a baseline within ±{problem.baseline:g}.",
        f"The best centered design has variance factor {design.value:.6g}; no design is better "
        f"than {design.lower_bound:.6g} (certified gap {design.gap:.1e}).",
    ]
    if complexities:
        lines += [
            "",
            "Complexities under this parameter; pulls grow like these × noise² × log 1/δ:",
        ]
        lines += [
            f"  τ*_cov             {_enclosed(complexities['centered'])}  whatever the baseline",
            f"  τ*_lin(Z : X − x₁) {_enclosed(complexities['shifted'])}  the paper's lower bound, "
            f"shifted by {printable(problem.source_labels[0])}",
            f"  τ*_lin(Z : X)      {_enclosed(complexities['linear'])}  without a baseline",
        ]
    screen = console()
    for line in lines:
        screen.print(line, soft_wrap=True)


def _enclosed(design: Design) -> str:
    if math.isinf(design.value):
        return "infinite: the best target is tied"
    return f"{design.value:.6g} (at least {design.lower_bound:.6g})"
