"""What the designs refuse, and in which words: one sentence, the field, the remedy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bestarm.design import (
    blocked_g,
    blocked_xy,
    centered_g,
    centered_xy,
    deo,
    linear_g,
    linear_xy,
    xor,
)
from bestarm.errors import BestArmError, InvalidInputError, UnidentifiableError

SQUARE = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]


def paired_g(source: object, **options: Any) -> Any:
    return blocked_g(source, **{"size": 2, **options})


def paired_xy(source: object, target: object, **options: Any) -> Any:
    return blocked_xy(source, target, **{"size": 2, **options})


def g_designs() -> list[Callable[..., Any]]:
    return [linear_g, centered_g, deo, paired_g]


def xy_designs() -> list[Callable[..., Any]]:
    return [linear_xy, centered_xy, xor, paired_xy]


def everything() -> list[Any]:
    """Every design as a function of source and options, with a target where it needs one."""

    def with_target(design: Callable[..., Any]) -> Callable[..., Any]:
        def call(source: object, **options: object) -> Any:
            return design(source, SQUARE[:2], **options)

        return call

    plain = [pytest.param(design, id=design.__name__) for design in g_designs()]
    return plain + [
        pytest.param(with_target(design), id=design.__name__) for design in xy_designs()
    ]


def refusal(design: Callable[..., Any], *args: object, **options: object) -> BestArmError:
    with pytest.raises(InvalidInputError) as caught:
        design(*args, **options)
    error = caught.value
    assert error.field
    assert "\n" not in str(error)
    assert error.message.endswith(".")
    return error


@pytest.mark.parametrize("design", everything())
@pytest.mark.parametrize("source", [[1.0, 2.0], 5.0, [], [[]], np.zeros((2, 2, 2)), "ab", [[1j]]])
def test_the_source_is_a_table_of_numbers(design: Callable[..., Any], source: object) -> None:
    assert refusal(design, source).field == "source"


@pytest.mark.parametrize("design", everything())
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_features_are_finite(design: Callable[..., Any], value: float) -> None:
    error = refusal(design, [[0.0, 1.0], [1.0, value]])
    assert error.field == "source"
    assert "row 1, column 1" in str(error)


@pytest.mark.parametrize("design", everything())
@pytest.mark.parametrize("tol", [0.0, -1.0, 1e-10, math.nan, math.inf, "small", None])
def test_the_tolerance_is_one_that_can_be_certified(design: Callable[..., Any], tol: Any) -> None:
    error = refusal(design, SQUARE, tol=tol)
    assert error.field == "tol"
    assert error.value is tol


@pytest.mark.parametrize("design", [deo, lambda source, **options: xor(source, SQUARE, **options)])
@pytest.mark.parametrize("anchor", [-1, 4, 1.5, 1.0, "0", None, math.nan, [0], True])
def test_the_anchor_is_an_arm(design: Callable[..., Any], anchor: object) -> None:
    error = refusal(design, SQUARE, anchor=anchor)
    assert error.field == "anchor"
    assert "whole number from 0 to 3" in str(error)


@pytest.mark.parametrize(
    "design", [paired_g, lambda source, **options: paired_xy(source, SQUARE, **options)]
)
@pytest.mark.parametrize("size", [-1, 0, 1, 5, 2.5, 2.0, "2", None, math.nan, [2], True])
def test_the_size_of_a_block_is_from_two_to_all_arms(
    design: Callable[..., Any], size: object
) -> None:
    error = refusal(design, SQUARE, size=size)
    assert error.field == "size"
    assert "whole number from 2 to 4" in str(error)


@pytest.mark.parametrize("design", [deo, lambda source, **options: xor(source, SQUARE, **options)])
def test_an_anchor_may_be_any_whole_number(design: Callable[..., Any]) -> None:
    assert design(SQUARE, anchor=np.int64(3)).anchor == 3


@pytest.mark.parametrize("design", [centered_g, centered_xy, deo, xor, paired_g, paired_xy])
@pytest.mark.parametrize("offset", [0.0, 0.1, 1e6])
@pytest.mark.parametrize("arms", [1, 3])
def test_arms_that_do_not_differ_inform_about_nothing(
    design: Callable[..., Any], offset: float, arms: int
) -> None:
    source = np.tile([1.0 + offset, 2.0 + offset], (arms, 1))
    error = refusal(design, source, *([SQUARE] if design in (centered_xy, xor, paired_xy) else []))
    assert error.field == "source"
    assert "All rows of `source` are equal" in str(error)
    assert error.remedy == "Give at least two different arms."


def test_linear_designs_of_one_arm_are_fine() -> None:
    assert linear_g([[3.0, 4.0]]).value == pytest.approx(1)
    assert linear_xy([[3.0, 4.0]], [[0.0, 0.0], [6.0, 8.0]]).value == pytest.approx(4)


@pytest.mark.parametrize("design", [linear_g, linear_xy])
def test_linear_designs_of_zero_features_inform_about_nothing(design: Callable[..., Any]) -> None:
    error = refusal(design, np.zeros((3, 2)), *([SQUARE] if design is linear_xy else []))
    assert error.field == "source"


@pytest.mark.parametrize("design", xy_designs())
@pytest.mark.parametrize(
    "target", [[[1.0, 0.0]], [[1.0], [2.0]], [[1.0, 2.0, 3.0], [0.0, 1.0, 1.0]]]
)
def test_targets_are_two_rows_of_the_same_features(
    design: Callable[..., Any], target: list[list[float]]
) -> None:
    error = refusal(design, SQUARE, target)
    assert error.field == "target"
    assert "at least two rows of 2 features" in str(error)
    assert error.value == np.shape(target)


@pytest.mark.parametrize("design", xy_designs())
def test_targets_are_tables_of_finite_numbers(design: Callable[..., Any]) -> None:
    assert refusal(design, SQUARE, [1.0, 2.0]).field == "target"
    assert "row 0, column 1" in str(refusal(design, SQUARE, [[0.0, math.nan], [1.0, 0.0]]))


@pytest.mark.parametrize("design", xy_designs())
def test_targets_that_do_not_differ_have_no_contrast(design: Callable[..., Any]) -> None:
    error = refusal(design, SQUARE, [[1.0, 0.5], [1.0, 0.5]])
    assert error.field == "target"


@pytest.mark.parametrize("design", xy_designs())
def test_targets_off_the_span_are_named(design: Callable[..., Any]) -> None:
    line = [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]
    error = refusal(design, line, [[0.0, 0.0], [5.0, 0.0], [0.0, 1.0]])
    assert isinstance(error, UnidentifiableError)
    assert (error.field, error.value) == ("target", (0, 2))
    assert "Targets 0 and 2 cannot be distinguished" in str(error)
    assert "Add a source arm" in error.remedy


def test_a_constant_direction_is_hidden_from_centered_designs_only() -> None:
    source = [[1.0, 0.0], [0.0, 1.0]]
    assert linear_xy(source, SQUARE).value == pytest.approx(4, rel=1e-3)
    for design in (centered_xy, xor, paired_xy):
        assert isinstance(refusal(design, source, SQUARE), UnidentifiableError)
