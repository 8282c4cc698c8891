"""What an experiment cannot be made of: each refusal names the field, the value and a remedy."""

from __future__ import annotations

import math
from typing import Any

import pytest

from bestarm import Experiment, Problem
from bestarm.errors import InvalidInputError
from bestarm.policies.policy import Policy

PAGES = Problem.named(["old", "new"])


class NeedsMore(Policy):
    """A policy with an option that must be given."""

    def __init__(self, problem: Problem, *, patience: int, seed: int = 0) -> None:
        raise AssertionError("it must not be made")


def refused(url: str, **settings: Any) -> InvalidInputError:
    with pytest.raises(InvalidInputError) as caught:
        Experiment.create(url, "page", PAGES, **settings)
    assert Experiment.list(url) == []
    return caught.value


def test_bounds_are_those_of_the_policy(sqlite_url: str) -> None:
    by_itself = Experiment.create(sqlite_url, "page", PAGES, bounds=(0, 1))
    among_options = Experiment.create(sqlite_url, "same", PAGES, options={"bounds": [0, 1]})
    for experiment in (by_itself, among_options):
        spec = experiment.spec
        assert spec is not None
        assert spec.options == {"bounds": [0, 1]}
        assert experiment.traits.bounds == (0.0, 1.0)
        experiment.close()


@pytest.mark.parametrize(
    "bounds", [(0, math.nan), (0, math.inf), (1, 0), (0, 0), (0, 1, 2), 1, "01", (0, "1")]
)
def test_bounds_that_are_not_two_numbers_in_order(sqlite_url: str, bounds: Any) -> None:
    error = refused(sqlite_url, bounds=bounds)
    assert "`bounds` must be two finite numbers, the lower one first" in error.message
    assert (error.field, error.value) == ("bounds", bounds)
    assert error.remedy == "For ratings from 1 to 5 they are 1 and 5."


def test_bounds_given_twice(sqlite_url: str) -> None:
    error = refused(sqlite_url, bounds=(0, 1), options={"bounds": [0, 2]})
    assert error.message == "`bounds` is given twice: by itself and among the `options`."


def test_bounds_for_a_policy_without_them(sqlite_url: str) -> None:
    error = refused(sqlite_url, bounds=(0, 1), policy="lucb")
    assert error.message == "The policy 'lucb' has no option 'bounds'."
    assert error.remedy == "Its options are sigma, radius, max_pulls."


@pytest.mark.parametrize(
    ("option", "remedy"),
    [("tolerence", "Did you mean tolerance?"), ("colour", "Its options are bounds, ")],
)
def test_an_unknown_option_of_the_policy(sqlite_url: str, option: str, remedy: str) -> None:
    error = refused(sqlite_url, options={option: 1})
    assert error.message == f"The policy 'anytime' has no option {option!r}."
    assert (error.field, error.value) == ("options", option)
    assert error.remedy.startswith(remedy)


def test_a_missing_option_of_the_policy(sqlite_url: str) -> None:
    error = refused(sqlite_url, policy="test_create_refusals:NeedsMore")
    assert error.message.endswith("needs the option `patience`.")
    error = refused(sqlite_url, policy="uniform")
    assert "Give it, for example budget=" in error.remedy


@pytest.mark.parametrize("value", [math.nan, [0, math.inf], object(), {1, 2}])
def test_an_option_that_cannot_be_kept(sqlite_url: str, value: object) -> None:
    error = refused(sqlite_url, options={"top": 1, "tolerance": value})
    assert error.message.startswith("The option 'tolerance' cannot be kept; got ")
    assert "JSON" not in str(error)
    assert error.remedy == "Give finite numbers, texts, truth values, or lists of them."
