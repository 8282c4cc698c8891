"""`bestarm check`: what a problem is, in words."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bestarm.cli.options import AsJson, Delta, Source, Target, decimal
from bestarm.cli.reporting import console, number, print_json, printable, reported
from bestarm.defaults import DELTA
from bestarm.errors import InvalidInputError

if TYPE_CHECKING:
    from bestarm.design import Design
    from bestarm.problem import Problem

__all__ = ["check"]


@reported
def check(
    source: Source,
    target: Target = None,
    delta: Delta = DELTA,
    noise: Annotated[float, typer.Option(parser=decimal, help="The scale of the noise.")] = 1.0,
    baseline: Annotated[
        float, typer.Option(parser=decimal, help="A bound on the baseline's size.")
    ] = 1.0,
    theta: Annotated[
        Path | None,
        typer.Option(
            metavar="THETA.csv",
            help="A parameter, one number per feature: prints how hard the problem is under it.",
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Read a problem; say in words what it is and whether it can be solved."""
    from bestarm.cli.features import read_problem
    from bestarm.design import centered_xy

    problem = read_problem(source, target, delta=delta, noise=noise, baseline=baseline)
    design = centered_xy(problem.source, problem.target)
    complexities = {} if theta is None else _complexities(problem, _read_parameter(theta))
    if json:
        _print_json(problem, design, complexities)
    else:
        _print_words(problem, design, complexities)


def _read_parameter(path: Path) -> list[float]:
    """One number per feature, in one row or one column."""
    from bestarm.cli.features import read_table

    rows = read_table(path, names_alone=False).features
    if len(rows) == 1:
        return rows[0]
    if len(rows[0]) == 1:
        return [row[0] for row in rows]
    raise InvalidInputError(
        f"{str(path)!r} holds {len(rows)} rows of {len(rows[0])} numbers.",
        field="theta",
        value=str(path),
        remedy="A parameter is one row, or one column, with one number per feature.",
    )


def _complexities(problem: Problem, theta: list[float]) -> dict[str, Design]:
    from bestarm.bounds import complexity

    return {
        "centered": complexity(problem, theta, "centered"),
        "shifted": complexity(problem, theta, "shifted"),
        "linear": complexity(problem, theta, "linear"),
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
