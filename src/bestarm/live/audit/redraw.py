"""Counting again: the assignments one after the other, their draws, and what they add up to."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bestarm.errors import DamagedStoreError
from bestarm.geometry import Array
from bestarm.live import digests, rules
from bestarm.live.draws import choose, uniforms
from bestarm.live.events import summary_data
from bestarm.live.store.contract import ROW, Entry, Ids, Opened, Reading, Rows
from bestarm.live.values import plural
from bestarm.records import round_robin

__all__ = ["SHOWN", "Ended", "Notes", "Recount"]

T = TypeVar("T")

SHOWN = 20  # findings of one kind that are written out: a book may have millions of lines


class Notes:
    """Findings, of each kind no more than can be read."""

    def __init__(self) -> None:
        self._said: dict[str, list[str]] = {}
        self._more: dict[str, int] = {}

    def add(self, kind: str, sentence: str) -> None:
        """Note a finding."""
        said = self._said.setdefault(kind, [])
        if sentence in said:
            return
        if len(said) < SHOWN:
            said.append(sentence)
        else:
            self._more[kind] = self._more.get(kind, 0) + 1

    def unless(self, agrees: bool, kind: str, sentence: str) -> None:
        """Note a finding where something does not agree."""
        if not agrees:
            self.add(kind, sentence)

    def sentences(self) -> tuple[str, ...]:
        """All that was found."""
        every = []
        for kind, said in self._said.items():
            every += said
            if kind in self._more:
                every.append(f"The same is the case {self._more[kind]} times more ({kind}).")
        return tuple(every)

    @property
    def cut_short(self) -> bool:
        """Whether something could not be read, and what follows it was not."""
        return "unreadable" in self._said

    def readable(self, items: Iterator[T]) -> Iterator[T]:
        """What can be read of them."""
        try:
            yield from items
        except DamagedStoreError as error:
            self.add("unreadable", f"{error.message} What follows it was not checked.")


@dataclass
class Ended:
    """What the log says, at the end, of what no summary covers.

    Attributes:
        first: the id of the first assignment.
        end: the id after the last.
        digest: of them as they were then.
        failed: the ids of those given up afterwards.
        waiting: the digest of those that were outstanding when their phase closed and then, or
            None where there were none.
    """

    first: int
    end: int
    digest: str
    failed: list[Ids] = field(default_factory=list)
    waiting: object = None


class Recount:
    """The assignments in order of id: their draws, their phases, and what they add up to."""

    def __init__(
        self,
        books: Reading,
        notes: Notes,
        *,
        arms: int,
        seed: int,
        there: int,
        last_loss: float,
        last_closed: int | None,
        times: Mapping[int, str],
        ended: Ended | None,
    ) -> None:
        self._books = books
        self._notes = notes
        self._arms = arms
        self._seed = seed
        self._last_closed = last_closed
        self._times = times
        self._ended = ended
        self._there = there
        self._last_loss = last_loss
        self._seen = hashlib.sha256()  # times of what is added up
        self._deferrals = _Deferrals(books, notes)
        self._later: dict[int, Rows] = {}  # by summary: rows that were outstanding before it
        self.deferred = self.fresh = 0
        self._pieces = books.rows(0, books.head.given + 1)  # one that is not counted is seen
        self._rows: Rows | None = None
        self._phases = notes.readable(books.phases())
        self._pending = self._entered = np.empty(0, dtype=np.int64)
        self.phase: _Phase | None = None
        self._next = next(self._phases, None)
        self._expected = 0  # the next id
        self.given = self.told = self.lost = self.late = self.outcomes = 0
        self.phase_told = self.phase_lost = self.behind = 0
        self.lowest, self.highest = math.inf, -math.inf
        self.settled: int | None = None  # the first id that is not
        # The first id that was perhaps not settled when the last outcome was given up.
        self.settled_by_loss: int | None = None if math.isinf(last_loss) else there
        self.oldest = math.inf
        self.oldest_asked = False  # whether one was given out at the time the counter says
        self._asked = -math.inf
        self.setback = 0.0  # by how much times go back
        self.latest = -math.inf

    def read(self) -> None:
        """Read every assignment once, and compare."""
        for entry in self._notes.readable(self._books.entries()):
            self._add_up(entry)
        for number in sorted(self._later):
            if number >= 0:
                self._notes.add("deferral", f"There is no summary {number}, which has outcomes.")
        self.deferred = self._deferrals.count
        if self._ended is not None:
            self._check_rest(self._ended)
        while self._load():
            pass
        while self._turn():
            pass
        if self.phase is not None:
            self.phase.end(self._notes, closed=self._last_closed == self.phase.plan.phase)
        head = self._books.head
        self._notes.unless(
            self.given == head.given,
            "counter",
            f"There are {plural(self.given, 'assignment')}, the counter says {head.given}.",
        )

    def answers(self, first: int, end: int) -> Iterator[tuple[Ids, Array]]:
        """As of a ledger, for ranges that follow each other."""
        for here in self._between(first, end):
            self._seen.update(digests.times_of(self._then(here)).tobytes())
            arms = np.where((here["arm"] >= 0) & (here["arm"] < self._arms), here["arm"], 0)
            yield arms, np.where(np.isnan(here["lost"]), here["reward"], np.nan)

    def _then(self, rows: Rows) -> Rows:
        """Rows as they were when their phase closed; those outstanding are kept for later."""
        settled = ~np.isnan(rows["reward"]) | ~np.isnan(rows["lost"])
        pending = np.isin(rows["id"], self._pending)
        self._each(
            rows, ~settled & ~pending, "outcomes", "was summed up, but is neither told nor lost"
        )
        if not pending.any():
            self._in_time(rows)
            return rows
        self._in_time(rows[~pending])
        waiting = rows[pending]
        entered = self._entered[np.searchsorted(self._pending, waiting["id"])]
        self.fresh += int((settled[pending] & (entered < 0)).sum())
        self._each(
            waiting,
            ~settled[pending] & (entered >= 0),
            "outcomes",
            "was summed up, but is neither told nor lost",
        )
        self._in_time(waiting[entered >= 0])
        for number in np.unique(entered).tolist():
            parts = [self._later.get(number, waiting[:0]), waiting[entered == number]]
            self._later[number] = np.concatenate(parts)
        then = rows.copy()
        for name in ("reward", "told", "lost"):
            then[name][pending] = np.nan
        return then

    def _between(self, first: int, end: int) -> Iterator[Rows]:
        while first < end:
            rows = self._rows
            if rows is None or not len(rows) or rows["id"][-1] < first:
                if not self._load():
                    return
                continue
            yield rows[slice(*np.searchsorted(rows["id"], [first, end]))]
            first = int(rows["id"][-1]) + 1

    def _check_rest(self, ended: Ended) -> None:
        failed = np.concatenate([np.empty(0, dtype=np.int64), *ended.failed])
        rows = self._between(ended.first, ended.end)
        found = digests.digest_of(digests.as_they_ended(each, failed) for each in rows)
        self._notes.unless(
            found == ended.digest and ended.end == self._books.head.given,
            "rest",
            f"Assignments {ended.first} to {ended.end - 1} are not as they were at the end: an "
            "outcome, a loss or a time was changed since.",
        )
        waiting = self._later.get(-1)
        digest = None
        if waiting is not None:
            digest = digests.digest_of([digests.as_they_ended(waiting, failed)])
        self._notes.unless(
            digest == ended.waiting,
            "rest",
            "Assignments that were outstanding when their phase closed are not as they were at the "
            "end: an outcome, a loss or a time was changed since.",
        )

    def _add_up(self, entry: Entry) -> None:
        notes = self._notes
        try:
            plan = self._books.opened(entry.phase).plan
        except (DamagedStoreError, LookupError):
            notes.add("summary", f"Summary {entry.number} is of phase {entry.phase}, unknown here.")
            return
        if len(entry.summary.counts) != self._arms:
            notes.add("summary", f"Summary {entry.number} is not of {self._arms} arms.")
            return
        self._seen = hashlib.sha256()
        if plan.provisional and entry.late:
            part = self._later.pop(entry.number, np.empty(0, dtype=ROW))
            self._seen.update(digests.times_of(part).tobytes())
            summary, rows = rules.total_of(part, plan=plan, arms=self._arms)
            notes.unless(
                bool((part["phase"] == entry.phase).all()),
                "deferral",
                f"Summary {entry.number} has outcomes of other phases than {entry.phase}.",
            )
        else:
            ids, self._entered = self._deferrals.between(entry.first, entry.end)
            self._pending = ids
            summary, rows = rules.total(
                self,  # type: ignore[arg-type]
                entry.first,
                entry.end,
                plan=plan,
                arms=self._arms,
                pending=ids,
            )
            self._pending = ids[:0]
        notes.unless(
            rows == entry.digest,
            "outcomes",
            f"Assignments {entry.first} to {entry.end - 1} are not those of summary "
            f"{entry.number}: an arm, an outcome or a loss was changed since.",
        )
        notes.unless(
            summary_data(summary) == summary_data(entry.summary),
            "totals",
            f"Summary {entry.number} is not what assignments {entry.first} to {entry.end - 1} add "
            "up to.",
        )

        notes.unless(
            self._times.get(entry.number) in (None, self._seen.hexdigest()),
            "times",
            f"The times of assignments {entry.first} to {entry.end - 1} are not those of summary "
            f"{entry.number}.",
        )

    def _load(self) -> bool:
        self._rows = next(self._pieces, None)
        if self._rows is None:
            return False
        if len(self._rows):
            self._dense(self._rows["id"])
            self._count(self._rows)
            self._draws(self._rows)
        return True

    def _dense(self, ids: Ids) -> None:
        before = np.concatenate([[self._expected - 1], ids[:-1]])
        for place in np.flatnonzero(ids != before + 1):
            gone = f"{before[place] + 1} to {ids[place] - 1}"
            self._notes.add("assignment", f"Assignments {gone} are gone.")
        self._expected = int(ids[-1]) + 1

    def _count(self, rows: Rows) -> None:
        head, ids = self._books.head, rows["id"]
        told, lost, late = ~np.isnan(rows["reward"]), ~np.isnan(rows["lost"]), rows["late"]
        settled, current = told | lost, ids >= head.first
        self.given += len(rows)
        self.outcomes += int(told.sum())
        self.told += int((told & ~late).sum())
        self.late += int(late.sum())
        self.lost += int(lost.sum())
        self.phase_told += int((told & ~lost & current).sum())
        self.phase_lost += int((lost & current).sum())
        self.behind += int((~settled & ~current).sum())
        if told.any():
            self.lowest = min(self.lowest, float(rows["reward"][told].min()))
            self.highest = max(self.highest, float(rows["reward"][told].max()))
        if not settled.all():
            first = np.flatnonzero(~settled)
            self.settled = int(ids[first[0]]) if self.settled is None else self.settled
            self.oldest = min(self.oldest, float(rows["asked"][first].min()))
        self._look_at_times(rows, told=told, lost=lost)
        times = [rows["asked"], rows["told"][told], rows["lost"][lost]]
        self.latest = max(self.latest, *(float(each.max(initial=-math.inf)) for each in times))
        self._each(rows, lost & told & ~late, "late", "was lost, but its outcome is not flagged")
        if not head.over:
            self._in_time(rows)

    def _in_time(self, rows: Rows) -> None:
        flagged = rows["late"] & np.isnan(rows["lost"])
        self._each(rows, flagged, "late", "was told in time, but its outcome is flagged as late")

    def _look_at_times(
        self, rows: Rows, *, told: NDArray[np.bool_], lost: NDArray[np.bool_]
    ) -> None:
        asked = rows["asked"]
        self.oldest_asked |= bool((asked == self._books.head.oldest).any())
        before = np.maximum.accumulate(np.concatenate([[self._asked], asked]))
        back = [before[:-1] - asked, (asked - rows["told"])[told], (asked - rows["lost"])[lost]]
        self.setback = max(self.setback, *(float(each.max(initial=0.0)) for each in back))
        self._asked = float(before[-1])
        open_ = np.flatnonzero(~lost & ~(told & (rows["told"] < self._last_loss)))
        if open_.size and self.settled_by_loss is not None:
            self.settled_by_loss = min(self.settled_by_loss, int(rows["id"][open_[0]]))

    def _each(self, rows: Rows, wrong: NDArray[np.bool_], kind: str, what: str) -> None:
        for number in rows["id"][wrong].tolist():
            self._notes.add(kind, f"Assignment {number} {what}.")

    def _draws(self, rows: Rows) -> None:
        ids = rows["id"]
        begin = 0
        while begin < len(rows):
            while self._next is not None and self._next.first <= ids[begin]:
                self._turn()
            end = len(rows)
            if self._next is not None:
                end = int(np.searchsorted(ids, self._next.first))
            part = rows[begin:end]
            if self.phase is None:
                self._each(part, np.ones(len(part), dtype=bool), "draw", "belongs to no plan")
            else:
                self._compare(part, self.phase)
            begin = end

    def _turn(self) -> bool:
        """Go on to the next phase."""
        if self._next is None:
            return False
        if self.phase is not None:
            self.phase.end(self._notes, closed=True)
        self.phase, self._next = _Phase(self._next, self._there), next(self._phases, None)
        return True

    def _compare(self, rows: Rows, phase: _Phase) -> None:
        try:
            arms, probabilities = phase.draws(self._books, self._seed, rows["id"])
        except DamagedStoreError as error:
            self._notes.add("draw", error.message)
            return
        phase.given += len(rows)
        phase.lost += int((~np.isnan(rows["lost"])).sum())
        self._each(
            rows,
            rows["phase"] != phase.plan.phase,
            "phase",
            f"was given out in phase {phase.plan.phase} and is on record under another",
        )
        for place in np.flatnonzero(rows["arm"] != arms)[: 2 * SHOWN]:
            again = f"the draw gives {arms[place]}" if arms[place] >= 0 else "none was to be drawn"
            row = rows[place]
            self._notes.add(
                "draw", f"Assignment {row['id']} has arm {row['arm']} on record; {again}."
            )
        self._each(
            rows,
            (rows["probability"] != probabilities) & (arms >= 0),
            "probability",
            "does not have the probability of its plan on record",
        )


class _Deferrals:
    """The assignments that were outstanding when their phase closed, read once, in order of id."""

    def __init__(self, books: Reading, notes: Notes) -> None:
        self._pieces = notes.readable(books.deferred())
        self._rest = np.empty((2, 0), dtype=np.int64)
        self.count = 0  # of those that belong to a summary

    def between(self, first: int, end: int) -> tuple[Ids, Ids]:
        """The ids in a range that follows the one before, and the summaries that have them."""
        parts = [self._rest]
        while not parts[-1].size or parts[-1][0, -1] < end:
            piece = next(self._pieces, None)
            if piece is None:
                break
            parts.append(np.array(piece, dtype=np.int64).reshape(2, -1))
        every = np.concatenate(parts, axis=1)
        self._rest = every[:, every[0] >= end]
        found = every[:, (every[0] >= first) & (every[0] < end)]
        self.count += found.shape[1]
        return found[0], found[1]


class _Phase:
    """A plan, and how much of it was given out."""

    def __init__(self, opened: Opened, most: int) -> None:
        self.plan = opened.plan
        self.given = self.lost = 0
        self.first = opened.first
        counts = opened.plan.counts
        # No more turns than there are assignments: a plan that was changed may ask for any number.
        self._turns = None if counts is None else round_robin(np.minimum(counts, most))[:most]

    def draws(self, books: Reading, seed: int, ids: Ids) -> tuple[Ids, Array]:
        """The arms of assignments as they must have been drawn, and their probabilities; −1 where
        nothing was to be drawn."""
        start, count = int(ids[0]), int(ids[-1] - ids[0]) + 1
        weights = self.plan.weights
        if weights is not None:
            arms = choose(weights, uniforms(seed, start=start, count=count))[ids - start]
            return arms, weights[arms]
        assert self._turns is not None
        place = start - self.first
        arms = self._turns[place : place + count]
        if len(arms) < count:
            again = max(0, place - self.plan.pulls)
            missed = books.lost_arms(self.plan.phase, again, count - len(arms))
            none = np.full(count - len(arms) - len(missed), -1, dtype=np.int64)
            arms = np.concatenate([arms, missed, none])
        return arms[ids - start], np.ones(len(ids))

    def end(self, notes: Notes, *, closed: bool) -> None:
        """Check that it has its members, once all are counted."""
        plan = self.plan
        most = plan.most if plan.open else plan.pulls + self.lost
        least = (plan.pulls if plan.open else plan.pulls + self.lost) if closed else 0
        notes.unless(
            least <= self.given and (most is None or self.given <= most),
            "members",
            f"Phase {plan.phase} has {plural(self.given, 'assignment')}, {self.lost} of them lost; "
            f"its plan asks for {plan.pulls}.",
        )
