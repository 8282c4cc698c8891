"""Which options of the anytime rule fit blocks."""

from __future__ import annotations

import numpy as np

from bestarm.errors import InvalidInputError
from bestarm.problem import Problem


def check_blocks(
    problem: Problem,
    block: int,
    items: int | None,
    *,
    bounds: tuple[float, float] | None,
    forecasts: bool,
    max_pulls: int | None,
) -> None:
    """Raise unless the other options of the rule fit blocks, or a finite population."""
    if items is not None:
        _check_items(problem, block, bounds)
    if block == 1:
        return
    if forecasts:
        raise InvalidInputError(
            "Within a block forecasts cancel, as the baseline does.",
            field="forecasts",
            value=forecasts,
            remedy="Leave forecasts or `block` out.",
        )
    if not problem.drifts:
        raise InvalidInputError(
            "Without a baseline there is nothing that blocks could cancel, and they would cost.",
            field="block",
            value=block,
            remedy="Declare a `baseline`, or leave `block` out.",
        )
    if max_pulls is not None and max_pulls < block:
        raise InvalidInputError(
            f"One round alone has {block} pulls.",
            field="max_pulls",
            value=max_pulls,
            remedy=f"Allow at least {block}.",
        )


def _check_items(problem: Problem, block: int, bounds: tuple[float, float] | None) -> None:
    """Raise unless a finite population can be judged under these options."""
    if bounds is None:
        raise InvalidInputError(
            "Items of a finite population need bounds on their rewards.",
            field="bounds",
            value=bounds,
            remedy="Give `bounds`, for example (0, 1).",
        )
    if block != problem.arms or not each_its_own(problem):
        raise InvalidInputError(
            "With `items` every option is an arm of its own, and all are judged on each item.",
            field="items",
            value=block,
            remedy=f"Give block={problem.arms}, and one-hot features.",
        )


def each_its_own(problem: Problem) -> bool:
    """Whether every target is an arm of its own, which no other arm says anything about."""
    same = problem.source is problem.target or np.array_equal(problem.source, problem.target)
    return bool(same and problem.span.rank == problem.arms - 1)
