"""Progress of a simulation: a bar, a callback, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bestarm.errors import InvalidInputError, MissingDependencyError

Progress = bool | Callable[[int, int], object]


@contextmanager
def reporting(progress: Progress, total: int) -> Iterator[Callable[[int, int], object]]:
    """A function to call with (runs done, pulls in total) after every piece of work."""
    if callable(progress):
        callback = progress
        yield lambda done, _pulls: callback(done, total)
    elif progress is True:
        with _bar(total) as report:
            yield report
    elif progress is False:
        yield lambda _done, _pulls: None
    else:
        raise InvalidInputError(
            f"`progress` must be True, False or a function; got {progress!r}.",
            field="progress",
            value=progress,
            remedy="A function is called with the number of runs done and their total.",
        )


@contextmanager
def _bar(total: int) -> Iterator[Callable[[int, int], None]]:
    try:
        from rich import progress as rich  # noqa: PLC0415 - optional
        from rich.console import Console  # noqa: PLC0415 - optional
    except ImportError:
        raise MissingDependencyError.of("`progress=True`", "rich", extra="cli") from None
    columns = (
        rich.TextColumn("simulating"),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TextColumn("{task.fields[rate]}"),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=Console(stderr=True)) as display:
        task = display.add_task("simulating", total=total, rate="")

        def report(done: int, pulls: int) -> None:
            elapsed = display.tasks[0].elapsed
            rate = f"{pulls / elapsed:,.0f} pulls/s" if elapsed else ""
            display.update(task, completed=done, rate=rate)

        yield report
