"""Progress of a simulation, or of other work: a bar, a callback, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bestarm.errors import InvalidInputError, MissingDependencyError

Progress = bool | Callable[[int, int], object]
Report = Callable[..., object]


@contextmanager
def reporting(progress: Progress, total: int, name: str = "simulating") -> Iterator[Report]:
    """A function to call with the number done; and with the total, where that changes."""
    if callable(progress):
        callback = progress
        yield lambda done, most=total: callback(done, most)
    elif progress is True:
        try:
            from rich import console  # noqa: PLC0415 - optional
            from rich import progress as rich  # noqa: PLC0415
        except ImportError:
            raise MissingDependencyError.of("`progress=True`", "rich", extra="cli") from None
        columns = (*rich.Progress.get_default_columns(), rich.MofNCompleteColumn())
        with rich.Progress(*columns, console=console.Console(stderr=True)) as display:
            task = display.add_task(name, total=total)
            yield lambda done, most=total: display.update(task, completed=done, total=most)
    elif progress is False:
        yield lambda *_: None
    else:
        raise InvalidInputError(
            f"`progress` must be True, False or a function; got {progress!r}.",
            field="progress",
            value=progress,
            remedy="A function is called with the number done and their total.",
        )
