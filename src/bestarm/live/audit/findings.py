"""What an audit finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bestarm.errors import DamagedStoreError
from bestarm.live.store.contract import Rows
from bestarm.live.values import plural

T = TypeVar("T")

SHOWN = 20  # findings of one kind that are written out: there may be millions


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    Attributes:
        findings: one sentence for each contradiction; none if the record is sound.
        events: events whose hashes were checked.
        phases: plans compared with the log.
        summaries: summaries compared with the log and added up again.
        assignments: assignments whose arms were drawn again.
        outcomes: outcomes read.
    """

    findings: tuple[str, ...]
    events: int
    phases: int
    summaries: int
    assignments: int
    outcomes: int

    @property
    def sound(self) -> bool:
        """Whether there are no contradictions."""
        return not self.findings

    def __str__(self) -> str:
        summaries = "1 summary" if self.summaries == 1 else f"{self.summaries} summaries"
        checked = (
            f"{plural(self.assignments, 'draw')} made again, {plural(self.outcomes, 'outcome')} "
            f"and {summaries} added up, {plural(self.phases, 'plan')} and "
            f"{plural(self.events, 'event')} of the log compared"
        )
        if self.sound:
            return f"sound: {checked}"
        return "\n".join([f"NOT SOUND ({checked}):", *(f"- {each}" for each in self.findings)])


class Findings:
    """Sentences, of each kind no more than can be read."""

    def __init__(self) -> None:
        self._sentences: dict[str, list[str]] = {}
        self._more: Counter[str] = Counter()

    def add(self, kind: str, sentence: str) -> None:
        """Add a finding."""
        known = self._sentences.setdefault(kind, [])
        if len(known) == SHOWN:
            self._more[kind] += sentence not in known
        elif sentence not in known:
            known.append(sentence)

    def add_unless(self, agrees: bool, kind: str, sentence: str) -> None:
        """Add a finding where something does not agree."""
        if not agrees:
            self.add(kind, sentence)

    def add_each(self, rows: Rows, wrong: NDArray[np.bool_], kind: str, what: str) -> None:
        """Add a finding for each assignment that is wrong."""
        for number in rows["id"][wrong].tolist():
            self.add(kind, f"Assignment {number} {what}.")

    def readable(self, items: Iterator[T]) -> Iterator[T]:
        """The items up to the first that cannot be read."""
        try:
            yield from items
        except DamagedStoreError as error:
            self.add("unreadable", f"{error.message} What follows it was not checked.")

    def sentences(self) -> tuple[str, ...]:
        """All findings."""
        every = []
        for kind, known in self._sentences.items():
            more = self._more[kind]
            rest = f"There are {more} more findings of this kind ({kind})."
            every += [*known, rest] if more else known
        return tuple(every)
