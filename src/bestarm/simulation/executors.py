"""Executors for replications: this process, others beside it, or a Dask cluster.

Results must not depend on who makes a run, so a cluster's workers must have the versions that are
here, and are sent the user's own modules.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import platform
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import lru_cache, partial
from hashlib import sha256
from importlib.metadata import version
from multiprocessing import Pipe, get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread, current_thread, main_thread
from typing import Any

import threadpoolctl

from bestarm import __version__
from bestarm.checks import whole
from bestarm.errors import BestArmError, InvalidInputError, MissingDependencyError

_CONNECT_TIMEOUT = 8  # seconds for a scheduler to answer
_CLOSE_TIMEOUT = 5  # seconds for what a worker started, and left, to close the pipe of its lines
_SILENCED = ("distributed", "distributed.client", "tornado", "tornado.application", "asyncio")


def open_executor(
    workers: int | None = None, dask: str | None = None
) -> AbstractContextManager[Executor | None]:
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
    if dask is not None:
        return _cluster(dask)
    return nullcontext() if workers is None or workers == 1 else _process_pool(workers)


def check_workers(workers: int | None, dask: str | None) -> None:
    """Raise where `open_executor` would refuse these, without starting anything."""
    if workers is None:
        return
    whole(workers, "workers", least=1)
    if dask is not None:
        what, remedy = "`workers` and `dask` exclude each other.", "A cluster has its own workers."
        raise InvalidInputError(what, field="workers", value=workers, remedy=remedy)


@contextmanager
def _process_pool(count: int) -> Iterator[Executor]:
    # New processes, because the progress display has a thread. They ignore Ctrl-C, because the
    # process that collects the runs decides when to stop.
    context = get_context("spawn")
    with _relayed_lines() as writer:
        executor = _ProcessPool(
            count, mp_context=context, initializer=_start_worker, initargs=(writer,)
        )
        try:
            yield executor
        except BrokenProcessPool as error:
            what = "A worker process ended abruptly."
            remedy = "If memory ran out, try fewer workers."
            raise BestArmError(what, field="workers", value=count, remedy=remedy) from error
        finally:
            executor.shutdown(cancel_futures=True)


@contextmanager
def _relayed_lines() -> Iterator[Connection]:
    """A pipe for what workers print: its lines go to `sys.stderr`, where a bar makes room for them.

    Workers that wrote to the terminal themselves would write into the bar.
    """
    reader, writer = Pipe(duplex=False)

    def relay() -> None:
        with open(reader.fileno(), encoding="utf-8", errors="replace", closefd=False) as lines:
            for line in lines:
                with suppress(OSError, ValueError, AttributeError):  # nobody can read it
                    sys.stderr.write(line)

    thread = Thread(target=relay, name="lines of workers", daemon=True)
    thread.start()
    try:
        yield writer
    finally:
        writer.close()
        thread.join(_CLOSE_TIMEOUT)
        if not thread.is_alive():
            reader.close()


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


def _start_worker(lines: Connection) -> None:
    """Prepare a worker process, whose lines go to a pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(lines.fileno(), 2)
    # Whole lines, as others write to the pipe too; and what a method prints is no result.
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    sys.stdout = sys.stderr
    threadpoolctl.threadpool_limits(limits=1, user_api="blas")
    Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    """End this process with its parent: one that is killed cannot tell its workers to stop."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _cluster(address: str) -> Iterator[Executor]:
    try:
        from distributed import Client, KilledWorker  # noqa: PLC0415 - optional, and slow
        from distributed.comm.core import CommClosedError  # noqa: PLC0415
    except ImportError:
        raise MissingDependencyError.of("A Dask cluster", "distributed", extra="dask") from None
    with ExitStack() as restored:
        for name in _SILENCED:  # our errors say the same in plain words
            logger = logging.getLogger(name)
            restored.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.CRITICAL + 1)
        try:
            asyncio.run(asyncio.wait_for(_require_scheduler(address), _CONNECT_TIMEOUT))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about versions, which are compared in a moment
                client = Client(address, timeout=_CONNECT_TIMEOUT, set_as_default=False)
        except Exception as error:  # whatever a wrong address or another kind of server leads to
            remedy = "Give the address that `dask scheduler` prints, such as tcp://10.0.0.1:8786."
            raise _unusable(
                f"No Dask scheduler answers at {address!r}.", address, remedy
            ) from error
        try:
            _check_versions(client, address)
            _send_modules(client)
            # An exception would be the same at a second try; a lost worker's work is redone anyway.
            yield client.get_executor(pure=False, retries=0)
        except (KilledWorker, CancelledError, CommClosedError) as error:
            work = "its scheduler, or several workers at the same batch of runs"
            what, remedy = f"The cluster at {address} lost {work}.", "See what they logged."
            raise BestArmError(what, field="dask", value=address, remedy=remedy) from error
        finally:
            client.close(timeout=2)


def _unusable(what: str, address: str, remedy: str) -> InvalidInputError:
    return InvalidInputError(what, field="dask", value=address, remedy=remedy)


async def _require_scheduler(address: str) -> None:
    """Raise unless a scheduler answers. A client would wait for a silent server for ever."""
    from distributed.core import rpc  # noqa: PLC0415
    from distributed.security import Security  # noqa: PLC0415

    async with rpc(address, connection_args=Security().get_connection_args("client")) as server:
        kind = (await server.identity())["type"]
    if kind != "Scheduler":
        raise ConnectionError(f"A {kind} answers.")


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


def _check_versions(client: Any, address: str) -> None:
    """Require workers, all with our versions: results must not depend on who makes a run."""
    try:
        versions: dict[str, tuple[str, ...]] = client.run(installed_versions)
    except Exception as error:
        what = f"The workers at {address} do not have this bestarm ({error})."
        raise _unusable(what, address, "Install the same version there.") from error
    if not versions:
        what = f"The scheduler at {address} has no workers."
        raise _unusable(what, address, f"Start one with `dask worker {address}`.")
    for worker, theirs in versions.items():
        for ours, other in zip(installed_versions(), theirs, strict=True):
            if ours != other:
                what = f"The worker at {worker} has {other}, and {ours} is here."
                remedy = "Install the same versions, or results would depend on the worker."
                raise _unusable(what, address, remedy)


def _send_modules(client: Any) -> None:
    """Send the imported modules of the current folder to all workers, also those that come later.

    It is what `Client.upload_file` does, but for packages too, and a worker that has imported an
    older version of a module does not keep it.
    """
    folder, files = Path.cwd(), dict[str, bytes]()
    for name, module in list(sys.modules.items()):
        path = Path(getattr(module, "__file__", None) or "")
        stem = folder.joinpath(*name.split("."))
        if path in {stem.with_name(f"{stem.name}.py"), stem / "__init__.py"}:
            files[str(path.relative_to(folder))] = path.read_bytes()
    if files:
        client.register_worker_callbacks(partial(_install_modules, files))


def _install_modules(files: dict[str, bytes], dask_worker: Any) -> None:
    """Let this process import these modules, instead of what it has by their names."""
    digest = sha256(repr(sorted(files.items())).encode()).hexdigest()[:16]
    folder = Path(dask_worker.local_directory, f"modules-{digest}")
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
        name = ".".join(Path(path).with_suffix("").parts).removesuffix(".__init__")
        sys.modules.pop(name, None)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
