"""Executors for replications: this process, or others beside it."""

from __future__ import annotations

import os
import platform
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import version
from multiprocessing import get_context, parent_process, resource_tracker
from pathlib import Path
from threading import Thread, current_thread, main_thread
from typing import Any

import threadpoolctl

from bestarm import __version__
from bestarm.checks import whole
from bestarm.errors import BestArmError


def open_executor(workers: int | None = None) -> AbstractContextManager[Executor | None]:
    """An executor with so many processes on this machine; None is one, this one.

    Raises:
        InvalidInputError: `workers` is no positive number.
        BestArmError: workers were lost on the way.
    """
    count = check_workers(workers)
    return nullcontext() if count == 1 else _process_pool(count)


def check_workers(workers: int | None) -> int:
    """The number of processes; raise where `open_executor` would, without starting anything."""
    return 1 if workers is None else whole(workers, "workers", least=1)


@contextmanager
def _process_pool(count: int) -> Iterator[Executor]:
    # New processes, because the progress display has a thread. They ignore Ctrl-C, because the
    # process that collects the runs decides when to stop.
    context = get_context("spawn")
    executor = _ProcessPool(count, mp_context=context, initializer=_start_worker)
    try:
        yield executor
    except BrokenProcessPool as error:
        what = "A worker process ended abruptly."
        remedy = "If memory ran out, try fewer workers."
        raise BestArmError(what, field="workers", value=count, remedy=remedy) from error
    finally:
        executor.shutdown(cancel_futures=True)


class _ProcessPool(ProcessPoolExecutor):
    """A pool whose workers start without hearing Ctrl-C, so that it never prints a traceback."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a call; this is where processes are started."""
        with _defer_interrupts():
            return super().submit(fn, *args, **kwargs)


@contextmanager
def _defer_interrupts() -> Iterator[None]:
    """Delay Ctrl-C here, and block it in processes that are started meanwhile.

    A terminal sends it to every process of a command. One that is still importing modules would
    end with a traceback, and so would the worker of a parent that stops half-way through a start.
    """
    if not hasattr(signal, "pthread_sigmask") or current_thread() is not main_thread():
        yield
        return
    resource_tracker.ensure_running()  # started later, it would lift the mask
    deferred: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: deferred.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, before)
        if deferred:
            signal.raise_signal(signal.SIGINT)


def _start_worker() -> None:
    """Prepare a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdout = sys.stderr  # what a method prints is no result
    threadpoolctl.threadpool_limits(limits=1, user_api="blas")
    Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    """End this process with its parent: one that is killed cannot tell its workers to stop."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@lru_cache(maxsize=1)  # a process keeps what it has loaded, even if files change
def installed_versions() -> tuple[str, ...]:
    """The versions that results may depend on besides their seed, in this process."""
    source = sha256()
    for file in sorted(Path(__file__).parent.parent.rglob("*.py")):
        source.update(file.read_bytes())
    return (
        f"Python {'.'.join(platform.python_version_tuple()[:2])}",
        *(f"{name} {version(name)}" for name in ("numpy", "scipy")),
        f"bestarm {__version__} with source {source.hexdigest()[:8]}",
    )
