"""`bestarm check`: what a problem is, in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bestarm.cli.command import command
from bestarm.cli.output import Result, number
from bestarm.defaults import DELTA
from bestarm.units import plural

if TYPE_CHECKING:
    from bestarm.design import Design
    from bestarm.problem import Problem

Kind = Literal["centered", "shifted", "linear"]
# Names and meanings of complexities, by kind.
_COMPLEXITIES: dict[Kind, tuple[str, str]] = {
    "centered": ("τ*_cov", "whatever the baseline"),
    "shifted": ("τ*_lin(Z : X − x₁)", "the paper's lower bound"),
    "linear": ("τ*_lin(Z : X)", "without a baseline"),
}


@command
def check(
    source: Path,
    *,
    target: Path | None = None,
    delta: float = DELTA,
    noise: float | None = None,
    baseline: float | None = None,
    theta: Path | None = None,
) -> Result:
    """Read a problem; say in words what it is and whether it can be solved.

    Args:
        theta (THETA.csv): A parameter, one number per feature: prints how hard the problem is
            under it.
    """
    from bestarm.cli.features import problem_parts, read_table
    from bestarm.design import centered_xy, complexity
    from bestarm.problem import problem_of

    tables = [read_table(path) for path in (source, target) if path is not None]
    scales = {"delta": delta, "noise": noise, "baseline": baseline}
    stated = {name: value for name, value in scales.items() if value is not None}
    problem = problem_of(**problem_parts(*tables) | stated)
    design = centered_xy(problem.source, problem.target)
    complexities = {}
    if theta is not None:  # in one row or one column
        rows = read_table(theta, names_alone=False).features
        parameter = [value for row in rows for value in row]
        complexities = {kind: complexity(problem, parameter, kind) for kind in _COMPLEXITIES}
    data = {
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
        data["complexity"] = {kind: _certificate(part) for kind, part in complexities.items()}
    return Result(data, list(_lines(problem, design, complexities)))


def _certificate(design: Design) -> dict[str, float | None]:
    return {
        "value": number(design.value),
        "lower_bound": number(design.lower_bound),
        "gap": number(design.gap),
    }


def _lines(problem: Problem, design: Design, complexities: Mapping[Kind, Design]) -> Iterator[str]:
    same = problem.source is problem.target
    among = "them" if same else f"{problem.targets} targets"
    yield (
        f"{problem.arms} arms can be pulled, and the best of {among} is sought; "
        f"{plural(problem.dimension, 'feature')} describe each."
    )
    yield (
        f"Differences of source arms span {problem.rank} of {problem.dimension} dimensions, and "
        "every contrast of two targets lies in them: the problem is identifiable."
    )
    yield (
        f"The best target is to be named wrongly with probability at most {problem.delta:g}, with "
        f"noise of scale {problem.noise:g} and a baseline within ±{problem.baseline:g}."
    )
    yield (
        f"The best centered design has variance factor {design.value:.6g}; no design is better "
        f"than {design.lower_bound:.6g} (certified gap {design.gap:.1e})."
    )
    if complexities:
        yield ""
        yield "Complexities under this parameter; pulls grow like these × noise² × log 1/δ:"
    for kind, part in complexities.items():
        name, meaning = _COMPLEXITIES[kind]
        value = f"{part.value:.6g} (at least {part.lower_bound:.6g})"
        if math.isinf(part.value):
            value = "infinite: the best target is tied"
        if kind == "shifted":
            meaning += f", shifted by {problem.source_labels[0]}"
        yield f"  {name:<18} {value}  {meaning}"
