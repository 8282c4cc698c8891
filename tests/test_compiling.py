"""Compiled loops are kept on disk, and do without where nothing can be written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numba
import numpy as np
import pytest

from bestarm import LUCB, ActionElimination, AnytimeBAI, Problem, Summary
from bestarm.ahead import Ahead
from bestarm.compiling import compiled
from bestarm.environments import Ratings, Semiparametric, baselines
from bestarm.records import Rounds
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
    told = AnytimeBAI(Problem(np.eye(2), delta=0.1), mean_bound=1.0)
    told.plan()
    counts, sums = np.array([9, 9]), np.array([6.0, 2.0])
    told.update(Summary(counts, sums, sums))  # settles bets, even where all runs are compiled
    for module in (environments, anytime, index):
        for each in vars(module).values():
            for signature in getattr(each, "signatures", ()):
                assert not any(isinstance(kind, numba.types.BaseNamedTuple) for kind in signature)
    assert environments.react.signatures  # type: ignore[attr-defined]
    assert environments.rate.signatures  # type: ignore[attr-defined]
    assert anytime.settle.signatures  # type: ignore[attr-defined]
    assert index.separate.signatures  # type: ignore[attr-defined]


def test_kernels_get_one_type_whatever_a_value_was_made_from() -> None:
    """A kernel is compiled again for arrays that cannot be written, and for whole numbers."""
    kind: Callable[[object], object] = numba.typeof
    problem, table, rows = Problem(np.eye(2), delta=0.1), np.eye(2), np.arange(2)
    fixed = table.copy()
    fixed.flags.writeable = False
    aheads = (Ahead(each, rows, np.zeros(2), bound) for each in (table, fixed) for bound in (0, 1))
    assert len({kind(ahead.all_parts[:3]) for ahead in aheads}) == 1
    radii = (LUCB(problem, radius="lil")._radius, LUCB(problem, radius="certified")._radius)
    assert len({kind(tuple(radius)) for radius in radii}) == 1
    counts, hits = np.array([1, 1]), np.array([0.0, 1.0])
    plain = Summary(counts, hits, hits)
    summaries = plain, replace(plain, least=hits, largest=hits, cubes=hits)
    for summary in summaries:
        sums, extremes, _ = summary.totals
        assert all(values.flags.writeable for values in (*sums, *extremes))
        assert not summary.sums.flags.writeable
    in_columns = np.asfortranarray([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    told = Rounds.read(np.array([[0, 1]]), [0, 0, 0], in_columns, arms=2, center=0.0)
    assert told.table.flags.c_contiguous
