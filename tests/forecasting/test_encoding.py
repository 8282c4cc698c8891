"""Covariates become vectors of one width, the same for the same rows in the same order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from bestarm.errors import InvalidInputError
from bestarm.forecasting import Encoder
from bestarm.forecasting.encoding import WIDTH, Covariates


def test_numbers_and_categories_have_columns_in_the_order_of_names() -> None:
    encoder = Encoder()
    assert encoder.encode({"plan": "pro", "age": 31, "new": True})[:4].tolist() == [31, 1, 1, 0]
    assert encoder.encode({"new": False, "age": 2.5})[:5].tolist() == [2.5, 0, 0, 1, 0]


def test_missing_values_are_zero() -> None:
    encoder = Encoder()
    encoder.encode({"age": 31, "plan": "pro"})
    assert not encoder.encode({"age": None}).any()
    assert not encoder.encode({}).any()


def test_the_same_rows_in_the_same_order_have_the_same_vectors() -> None:
    rng = np.random.default_rng(0)
    names = "abcdefgh"
    rows: list[Covariates] = [
        {name: str(rng.integers(9)) for name in rng.permutation(list(names))} for _ in range(50)
    ]
    first, second = Encoder(), Encoder()
    for row in rows:
        assert np.array_equal(first.encode(row), second.encode(dict(sorted(row.items()))))


def test_values_without_room_share_the_last_column() -> None:
    encoder = Encoder()
    vectors = [encoder.encode({"user": f"u{number}"}) for number in range(18)]
    assert [int(np.argmax(vector)) for vector in vectors] == [*range(16), WIDTH - 1, WIDTH - 1]
    for number in range(WIDTH):
        encoder.encode({f"score {number}": 1.0})
    assert not encoder.encode({"one more": 5.0}).any()
    assert np.argmax(encoder.encode({"country": "CH"})) == WIDTH - 1
    assert np.argmax(encoder.encode({"user": "u3"})) == 3


@pytest.mark.parametrize(
    "wrong", [{"a": math.nan}, {"a": [1]}, {3: 1.0}, {"b": "x", "c": math.inf}]
)
def test_other_values_are_refused_and_change_nothing(wrong: Any) -> None:
    encoder = Encoder()
    with pytest.raises(InvalidInputError, match="covariates"):
        encoder.encode(wrong)
    assert encoder.encode({"z": 1.0})[0] == 1.0
