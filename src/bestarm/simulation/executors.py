"""Executors for replications: this process, others beside it, or a Dask cluster."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from multiprocessing import get_context, parent_process, resource_tracker
from threading import Thread, current_thread, main_thread
from typing import Any, ParamSpec, TypeVar

from bestarm.checks import whole
from bestarm.errors import BestArmError, InvalidInputError, MissingDependencyError
from bestarm.simulation.provenance import installed

P = ParamSpec("P")
T = TypeVar("T")

_PATIENCE = 8  # seconds for a scheduler to answer
_CHATTY = ("distributed", "distributed.client", "tornado", "tornado.application", "asyncio")


@contextmanager
def open_executor(workers: int | None = None, dask: str | None = None) -> Iterator[Executor | None]:
    """An executor for the runs, or None for this process.

    Args:
        workers: the number of processes on this machine; None is one, this one.
        dask: the address of a Dask scheduler, instead.

    Raises:
        InvalidInputError: both are given, or one is not what it must be.
        MissingDependencyError: a cluster is asked for and `distributed` is not installed.
        BestArmError: workers were lost on the way.
    """
    check_workers(workers, dask)
    opened: AbstractContextManager[Executor | None] = nullcontext()
    if dask is not None:
        opened = _cluster(dask)
    elif workers is not None and workers > 1:
        opened = _processes(workers)
    with opened as executor:
        yield executor


def check_workers(workers: int | None, dask: str | None) -> None:
    """Raise where `open_executor` would refuse these, without starting anything."""
    if workers is None:
        return
    whole(workers, "workers", least=1)
    if dask is not None:
        raise InvalidInputError(
            "`workers` and `dask` exclude each other.",
            field="workers",
            value=workers,
            remedy="A cluster has its own number of workers.",
        )


@contextmanager
def _processes(count: int) -> Iterator[Executor]:
    # New processes, because the progress display has a thread; Ctrl-C does not reach them, because
    # the one process that collects the runs decides when to stop.
    executor = _Processes(count, mp_context=get_context("spawn"), initializer=_start_worker)
    try:
        yield executor
    except BrokenProcessPool as error:
        raise BestArmError(
            "A worker process ended abruptly.",
            field="workers",
            value=count,
            remedy="Perhaps memory ran out: try fewer workers.",
        ) from error
    finally:
        executor.shutdown(cancel_futures=True)


class _Processes(ProcessPoolExecutor):
    """An executor that Ctrl-C does not stop half-way through starting a process."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Hand over a piece of work; this is where processes are started."""
        with _hold_interrupts():
            return super().submit(fn, *args, **kwargs)


@contextmanager
def _hold_interrupts() -> Iterator[None]:
    """Hold Ctrl-C back, here and in processes that are started meanwhile.

    A terminal sends it to all processes of a command, and one that is still importing modules
    would end with a traceback. Here it takes effect afterwards: this process, stopped half-way,
    would leave a worker alone that waits for its work.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # started later, it would lift the mask
    held: list[int] = []
    before = None
    if current_thread() is main_thread():
        before = signal.signal(signal.SIGINT, lambda number, _frame: held.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if before is not None:
            signal.signal(signal.SIGINT, before)
        if held:
            signal.raise_signal(signal.SIGINT)


def _start_worker() -> None:
    """Prepare a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    sys.stdout = sys.stderr  # what a method prints must not mix with the results
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process with its parent: one that is killed cannot tell its workers to stop."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _cluster(address: str) -> Iterator[Executor]:
    try:
        from distributed import KilledWorker  # noqa: PLC0415 - optional, and slow
        from distributed.comm.core import CommClosedError  # noqa: PLC0415
    except ImportError:
        raise MissingDependencyError.of("A Dask cluster", "distributed", extra="dask") from None
    with ExitStack() as restored:
        for name in _CHATTY:  # our errors say the same in plain words
            logger = logging.getLogger(name)
            restored.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.CRITICAL + 1)
        client = _connect(address)
        try:
            _check_versions(client, address)
            # An exception would be the same at a second try; a lost worker's work is redone anyway.
            yield client.get_executor(pure=False, retries=0)
        except (KilledWorker, CancelledError, CommClosedError) as error:
            raise BestArmError(
                f"The cluster at {address} lost its scheduler, or several workers at the same "
                "piece of work.",
                field="dask",
                value=address,
                remedy="Perhaps their memory ran out: see what they logged.",
            ) from error
        finally:
            client.close(timeout=2)


def _connect(address: str) -> Any:
    from distributed import Client  # noqa: PLC0415

    try:
        asyncio.run(asyncio.wait_for(_require_scheduler(address), _PATIENCE))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about versions, which are compared in a moment
            return Client(address, timeout=_PATIENCE, set_as_default=False)
    except Exception as error:  # whatever a wrong address or a server of another kind leads to
        raise InvalidInputError(
            f"No Dask scheduler answers at {address!r}.",
            field="dask",
            value=address,
            remedy="Give the address that `dask scheduler` prints, such as tcp://10.0.0.1:8786.",
        ) from error


async def _require_scheduler(address: str) -> None:
    """Raise unless a scheduler answers. A client would wait for a silent server for ever."""
    from distributed.comm.core import connect  # noqa: PLC0415
    from distributed.core import send_recv  # noqa: PLC0415
    from distributed.security import Security  # noqa: PLC0415

    comm = await connect(address, timeout=_PATIENCE, **Security().get_connection_args("client"))
    try:
        kind = (await send_recv(comm, op="identity"))["type"]
    finally:
        comm.abort()
    if kind != "Scheduler":
        raise ConnectionError(f"A {kind} answers.")


def _check_versions(client: Any, address: str) -> None:
    """Require workers, all with our versions: results must not depend on who makes a run."""
    try:
        there = client.run(installed)
    except Exception as error:
        raise InvalidInputError(
            f"The workers at {address} do not have this bestarm ({error}).",
            field="dask",
            value=address,
            remedy="Install the same version there.",
        ) from error
    if not there:
        raise InvalidInputError(
            f"The scheduler at {address} has no workers.",
            field="dask",
            value=address,
            remedy=f"Start one with `dask worker {address}`.",
        )
    here = installed()
    for worker, theirs in there.items():
        for ours, other in zip(here, theirs, strict=True):
            if ours != other:
                raise InvalidInputError(
                    f"The worker at {worker} has {other}, and {ours} is here.",
                    field="dask",
                    value=address,
                    remedy="Install the same versions, or results would depend on the worker.",
                )
