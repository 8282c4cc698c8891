"""Compiled loops are kept on disk, and do without where nothing can be written."""

from __future__ import annotations

from typing import Any

import numba
import pytest

from bestarm.compiling import compiled


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
