"""Compiled loops are kept on disk, and do without where nothing can be written."""

from __future__ import annotations

from functools import partial
from typing import Any

import numba
import numpy as np
import pytest

from bestarm import LUCB, ActionElimination, AnytimeBAI
from bestarm.compiling import compiled
from bestarm.environments import Ratings, Semiparametric, baselines
from bestarm.simulation import run_once


def half(x: float) -> float:
    return 1.0 / x


def test_where_no_cache_can_be_written_it_is_compiled_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual = numba.njit

    def nowhere(*arguments: Any, cache: bool = False, **options: Any) -> Any:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return usual(*arguments, **options)

    monkeypatch.setattr(numba, "njit", nowhere)
    assert compiled(half)(2.0) == 0.5


def test_division_by_zero_is_as_in_numpy() -> None:
    assert compiled(half)(0.0) == float("inf")


def test_every_kernel_is_compiled_here() -> None:
    """Compiled by hand, one would fail where the package's folder is read-only."""
    from bestarm.environments import kernels as environments  # noqa: PLC0415
    from bestarm.policies.anytime import kernels as anytime  # noqa: PLC0415
    from bestarm.policies.index import kernels as index  # noqa: PLC0415

    for module in (environments, anytime, index):
        found = [each for each in vars(module).values() if hasattr(each, "targetoptions")]
        assert found
        assert all(each.targetoptions["error_model"] == "numpy" for each in found)


def test_kernels_take_plain_tuples() -> None:
    """Code on disk names the classes of its arguments: rename one, and old code cannot be read."""
    from bestarm.environments import kernels as environments  # noqa: PLC0415
    from bestarm.policies.anytime import kernels as anytime  # noqa: PLC0415
    from bestarm.policies.index import kernels as index  # noqa: PLC0415

    rated = Ratings(np.random.default_rng(0).uniform(size=(40, 3)))
    against = Semiparametric(np.eye(3), [0.9, 0.5, 0.1], baseline=baselines.adversary(1.0))
    for method in (LUCB, ActionElimination, partial(AnytimeBAI, mean_bound=1.0)):
        for world in (rated, against):
            run_once(partial(method, max_pulls=200), world)
    for module in (environments, anytime, index):
        for each in vars(module).values():
            for signature in getattr(each, "signatures", ()):
                assert not any(isinstance(kind, numba.types.BaseNamedTuple) for kind in signature)
    assert environments.react.signatures  # type: ignore[attr-defined]
    assert environments.rate.signatures  # type: ignore[attr-defined]
    assert anytime.settle.signatures  # type: ignore[attr-defined]
    assert index.separate.signatures  # type: ignore[attr-defined]
