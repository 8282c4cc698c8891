"""Options that cannot be are refused in a sentence that names them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from bestarm import (
    DEO,
    LUCB,
    RAGE,
    SBE,
    SPBAI,
    ActionElimination,
    BernsteinElimination,
    GOpt,
    PairedTests,
    Problem,
    SequentialHalving,
    Uniform,
)
from bestarm.errors import InvalidInputError
from bestarm.field.bayes_gap import BayesGap
from bestarm.field.g_bai import GBAI
from bestarm.policies import Method

PROBLEM = Problem(np.eye(4))
REPLICATION: dict[str, object] = {"preset": "replication"}
REFUSED: list[tuple[Any, dict[str, object], str]] = [
    (SPBAI, {"r1": 0.0}, "r1"),
    (SPBAI, {"r2": -1.0}, "r2"),
    (SPBAI, {"r1": math.nan}, "r1"),
    (SPBAI, {"anchor": "worst"}, "anchor"),
    (SPBAI, {"anchor": 4}, "anchor"),
    (SPBAI, {"seed": -1}, "seed"),
    (SPBAI, {"seed": 0.5}, "seed"),
    (SPBAI, {"max_pulls": 0}, "max_pulls"),
    (SPBAI, {"max_phases": 1.5}, "max_phases"),
    (SPBAI, {"max_phase_pulls": 0}, "max_phase_pulls"),
    (SPBAI, {"preset": "reference"}, "preset"),
    (SPBAI, REPLICATION | {"anchor": 0}, "anchor"),
    (SPBAI, REPLICATION | {"max_phases": 0}, "max_phases"),
    (SPBAI, {"tol": 0.0}, "tol"),
    (SBE, {"r1": -1.0}, "r1"),
    (RAGE, {"sigma": 0.0}, "sigma"),
    (RAGE, {"tol": 0.0}, "tol"),
    (GOpt, {"gap": 0.0}, "gap"),
    (GOpt, {"gap": 0.1, "max_pulls": 0}, "max_pulls"),
    (DEO, {"budget": 0}, "budget"),
    (DEO, {"budget": 10, "anchor": 4}, "anchor"),
    (GBAI, {"budget": 0}, "budget"),
    (Uniform, {"budget": 3}, "budget"),
    (BayesGap, {"budget": 4}, "budget"),
    (SequentialHalving, {"budget": 2}, "budget"),
    (SequentialHalving, {"budget": 10.5}, "budget"),
    (SequentialHalving, {"budget": 100, "stages": 4}, "stages"),
    (SequentialHalving, {"budget": 100, "stages": 0}, "stages"),
    (SequentialHalving, {"budget": 100, "batches": 0}, "batches"),
    (BernsteinElimination, {"bounds": (1, 0)}, "bounds"),
    (PairedTests, {"bounds": (1, 0)}, "bounds"),
    (PairedTests, {"bounds": (0, 1), "items": 0}, "items"),
    (PairedTests, {"bounds": (0, 1), "max_pulls": 3}, "max_pulls"),
]


@pytest.mark.parametrize(("method", "options", "field"), REFUSED)
def test_what_cannot_be_is_refused(method: Any, options: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInputError, match=f"`{field}`") as caught:
        method(PROBLEM, **options)
    assert caught.value.field == field
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("method", [SPBAI, SBE, RAGE, LUCB, ActionElimination])
def test_features_alone_are_no_problem(method: Method) -> None:
    with pytest.raises(InvalidInputError, match="`problem` must be a Problem; got list"):
        method([[1, 0], [0, 1]])  # type: ignore[arg-type]
