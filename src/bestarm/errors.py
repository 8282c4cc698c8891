"""The exceptions of bestarm. Each names the field and the value at fault, and the remedy."""

from __future__ import annotations

import functools
import os
import re
import traceback

__all__ = [
    "BestArmError",
    "ClockError",
    "ConflictingOutcomeError",
    "ConflictingRequestError",
    "DamagedStoreError",
    "DesignError",
    "ExperimentExistsError",
    "InvalidInputError",
    "JudgeError",
    "MissingDependencyError",
    "ModuleNotAllowedError",
    "ProtocolError",
    "ReplayError",
    "StoreError",
    "StoreUnavailableError",
    "StoreVersionError",
    "UnidentifiableError",
    "UnknownAssignmentError",
    "UnknownExperimentError",
]


def describe_error(error: BaseException, module: str = "") -> str:
    """An exception in one line, with the last line of a module that it passed, in any process.

    >>> describe_error(KeyError("a"))
    "KeyError: 'a'"
    """
    what = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(": .")
    if not module:
        return what
    # As text, because another process sends its traceback as text.
    frames = re.findall(r'File "([^"]+)", line (\d+)', "".join(traceback.format_exception(error)))
    file = f"{module.rpartition('.')[2]}.py"
    lines = [line for path, line in frames if os.path.basename(path) == file]
    return f"{what} ({file}, line {lines[-1]})" if lines and file not in what else what


class BestArmError(Exception):
    """Base of every exception raised by bestarm.

    Attributes:
        field: the parameter or value at fault.
        value: the value at fault.
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
        make = functools.partial(type(self), field=self.field, value=self.value, remedy=self.remedy)
        return make, (self.message,), self.__dict__


class InvalidInputError(BestArmError, ValueError):
    """An argument is invalid; nothing was changed.

    Attributes:
        about: which of the outcomes that were told is at fault, by the id of its assignment or by
            its unit; else None.
    """

    def __init__(
        self,
        message: str,
        *,
        field: str,
        value: object = None,
        remedy: str = "",
        about: object = None,
    ) -> None:
        super().__init__(message, field=field, value=value, remedy=remedy)
        self.about = about


class UnidentifiableError(InvalidInputError):
    """Two targets cannot be distinguished by pulling this source, however often."""


class UnknownAssignmentError(InvalidInputError):
    """An outcome was told for an assignment that was never given out."""


class ConflictingOutcomeError(InvalidInputError):
    """An outcome differs from the one already told for the same assignment."""


class ConflictingRequestError(InvalidInputError):
    """The id of a request was used before, for a different request."""


class ClockError(InvalidInputError):
    """The clock tells an impossible time or has leapt ahead by years; nothing was changed."""


class JudgeError(BestArmError, RuntimeError):
    """A judge failed, or returned something that is not a score. Earlier judgements are kept."""


class ProtocolError(BestArmError, RuntimeError):
    """A policy was called out of turn: no plan is open, or the summary does not fit the plan."""


class ReplayError(BestArmError, RuntimeError):
    """A policy, given the recorded plans and summaries again, decides differently."""


class ModuleNotAllowedError(ReplayError):
    """The policy on record is in a module that whoever opened the experiment did not allow."""


class StoreError(BestArmError, RuntimeError):
    """The record of an experiment could not be read or written."""


class StoreUnavailableError(StoreError):
    """The database cannot be reached or written to now. Nothing acknowledged is lost."""


class StoreVersionError(StoreError):
    """The database was made by another version of bestarm than this one."""


class DamagedStoreError(StoreError):
    """The record was changed after it was written, or part of it is missing."""


class UnknownExperimentError(InvalidInputError):
    """No experiment has this name."""


class ExperimentExistsError(InvalidInputError):
    """An experiment already has this name."""


class DesignError(BestArmError, RuntimeError):
    """A design could not be certified to the requested tolerance."""


class MissingDependencyError(BestArmError, ImportError):
    """This call needs an optional dependency that is not installed."""

    @classmethod
    def of(cls, purpose: str, package: str, *, extra: str) -> MissingDependencyError:
        """The error for a package of one of the extras.

        Args:
            purpose: what needs it, as the start of a sentence.
            package: the package.
            extra: the extra of bestarm that installs it.
        """
        return cls(
            f"{purpose} needs {package}, which is not installed.",
            field=package,
            remedy=f"Install it with pip install 'bestarmid[{extra}]'.",
        )
