"""Errors say what is wrong, with what and what to do, and survive crossing a process."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from bestarm import errors
from bestarm.errors import BestArmError, InvalidInputError, ProtocolError
from bestarm.problem import Problem

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type)]


def test_every_exception_is_public_and_of_one_tree() -> None:
    assert sorted(kind.__name__ for kind in KINDS) == sorted(errors.__all__)
    assert all(issubclass(kind, BestArmError) for kind in KINDS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("clone", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_pickling_keeps_type_and_fields(kind: type[BestArmError], clone: object) -> None:
    error = kind("`delta` is 5.", field="delta", value=(5, "a"), remedy="Try 0.05.")
    twin = clone(error)  # type: ignore[operator]
    assert type(twin) is kind
    assert (twin.message, twin.field, twin.value, twin.remedy) == (
        "`delta` is 5.",
        "delta",
        (5, "a"),
        "Try 0.05.",
    )
    assert str(twin) == str(error) == "`delta` is 5. Try 0.05."


def test_an_error_without_remedy_ends_with_its_message() -> None:
    error = ProtocolError("No plan is open.", field="summary")
    assert str(error) == "No plan is open."
    assert (error.value, error.remedy) == (None, "")


def test_ours_can_be_caught_as_what_python_would_raise() -> None:
    assert issubclass(InvalidInputError, ValueError)
    assert issubclass(errors.UnidentifiableError, InvalidInputError)
    assert issubclass(errors.UnknownAssignmentError, InvalidInputError)
    assert issubclass(errors.ConflictingOutcomeError, InvalidInputError)
    assert issubclass(ProtocolError, RuntimeError)
    assert issubclass(errors.MissingDependencyError, ImportError)


def test_a_raised_error_survives_pickling() -> None:
    with pytest.raises(InvalidInputError) as caught:
        Problem(np.eye(2), delta=5)
    twin = pickle.loads(pickle.dumps(caught.value))
    assert str(twin) == "`delta` must lie in (0, 0.5]; got 5. Did you mean 0.05?"
    assert (twin.field, twin.value) == ("delta", 5)
