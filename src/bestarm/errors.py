"""One exception tree: every error a user can cause says what, with which value, and the remedy."""

from __future__ import annotations

__all__ = [
    "BestArmError",
    "ClockError",
    "ConflictingOutcomeError",
    "ConflictingRequestError",
    "DamagedStoreError",
    "DesignError",
    "ExperimentExistsError",
    "InvalidInputError",
    "MissingDependencyError",
    "ProtocolError",
    "ReplayError",
    "StoreError",
    "StoreUnavailableError",
    "StoreVersionError",
    "UnidentifiableError",
    "UnknownAssignmentError",
    "UnknownExperimentError",
]


class BestArmError(Exception):
    """Base of every exception raised by bestarm.

    Attributes:
        field: the parameter or value at fault.
        value: what was given.
        remedy: what to do about it.
    """

    def __init__(self, message: str, *, field: str, value: object = None, remedy: str = "") -> None:
        super().__init__(f"{message} {remedy}".strip())
        self.message = message
        self.field = field
        self.value = value
        self.remedy = remedy

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments do not survive the default pickling, and errors cross processes.
        # The third element carries notes added on the way up.
        arguments = (type(self), self.message, self.field, self.value, self.remedy)
        return (_rebuild, arguments, self.__dict__)


def _rebuild(
    kind: type[BestArmError], message: str, field: str, value: object, remedy: str
) -> BestArmError:
    return kind(message, field=field, value=value, remedy=remedy)


class InvalidInputError(BestArmError, ValueError):
    """An argument is not of the form it must have; nothing was changed."""


class UnidentifiableError(InvalidInputError):
    """Two targets cannot be told apart by pulling this source, whatever the number of pulls."""


class UnknownAssignmentError(InvalidInputError):
    """An outcome was told for an assignment that was never given out."""


class ConflictingOutcomeError(InvalidInputError):
    """An outcome differs from the one already told for the same assignment."""


class ConflictingRequestError(InvalidInputError):
    """A request's name was used before, for a request that was another."""


class ClockError(InvalidInputError):
    """The clock tells a time that cannot be, or has leapt ahead by years; nothing was changed."""


class ProtocolError(BestArmError, RuntimeError):
    """A policy was updated out of turn: no plan is open, or the summary does not fit the plan."""


class ReplayError(BestArmError, RuntimeError):
    """A policy, told again what it was told before, does not do what it did."""


class StoreError(BestArmError, RuntimeError):
    """The books of an experiment could not be read or written."""


class StoreUnavailableError(StoreError):
    """The database cannot be reached or written to now. Nothing acknowledged is lost."""


class StoreVersionError(StoreError):
    """The database was made by a newer version than this one."""


class DamagedStoreError(StoreError):
    """What is on record is not what was written: it was changed, or part of it is gone."""


class UnknownExperimentError(InvalidInputError):
    """There is no experiment of this name."""


class ExperimentExistsError(InvalidInputError):
    """There is an experiment of this name already."""


class DesignError(BestArmError, RuntimeError):
    """A design could not be certified to the requested tolerance."""


class MissingDependencyError(BestArmError, ImportError):
    """An optional dependency is needed for this call and is not installed."""
