"""The first step of a kind in a process, once ahead of its transaction.

A policy loads what it computes with as it is first needed. That takes a second, or half a minute
where nothing is compiled yet, and nobody must wait for it who wants to write.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any, cast

from bestarm.live import rules
from bestarm.live.replay import Player
from bestarm.live.spec import Spec
from bestarm.live.store.contract import Head, Reading, Writing

_FEW = 10  # summaries: a policy that was told more has loaded all that it needs

_done: set[tuple[object, ...]] = set()  # kinds of steps


def rehearse(
    spec: Spec, head: Head, reading: Callable[[], AbstractContextManager[Reading]]
) -> None:
    """Do what is due with another policy of the kind, and keep nothing of it, unless it was done.

    Policies of others are left alone: they may take long each time.
    """
    kind = spec.policy, frozenset(spec.options), spec.forecaster, head.arrivals > 0
    if not head.due or head.summaries >= _FEW or ":" in spec.policy or kind in _done:
        return
    with suppress(Exception), reading() as books:  # an error comes again in the transaction
        rules.step(cast(Writing, _Nothing(books)), Player(spec.make), books.head.last_time)
    _done.add(kind)


class _Nothing:
    """A transaction that reads, and of which nothing is kept."""

    def __init__(self, books: Reading) -> None:
        self._books = books
        self.head = books.head

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("add_", "settle_")):
            return _ignore
        return getattr(self._books, name)


def _ignore(*_: object, **__: object) -> None:
    pass
