"""The assignments of an experiment, one after the other: drawn again and added up again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from bestarm.errors import DamagedStoreError, InvalidInputError
from bestarm.live.audit.findings import SHOWN, Findings
from bestarm.live.draws import PlanDraws
from bestarm.live.events import as_data
from bestarm.live.store.contract import ROW, Ids, Reading, Rows, SummaryRecord, answers_of
from bestarm.live.summaries import RunningTotals, answers_at_end, digest_of
from bestarm.live.values import plural
from bestarm.records import Summary

Progress = Callable[[int, int], object]


@dataclass(eq=False)
class Redraw:
    """Reads the assignments once, in order of id, and counts them and their outcomes.

    Attributes:
        end: what the last event of an ended experiment says, or None.
        failed: the assignments given up after the end.
        progress: called with (assignments checked, in total) after every piece.
    """

    books: Reading
    findings: Findings
    arms: int
    seed: int
    end: dict[str, Any] | None
    failed: Ids
    progress: Progress | None = None
    assigned: int = 0
    rounds: int = 0
    outcomes: int = 0
    late: int = 0

    def __post_init__(self) -> None:
        self._pieces = self._checked()
        self._rows: Rows = np.empty(0, dtype=ROW)
        self._plans = self.findings.readable(self.books.plans())
        self._draws: PlanDraws | None = None
        self._next_plan = next(self._plans, None)
        self._deferred: dict[int, list[Rows]] = {}  # rows by the summary that covers them, or −1

    def read(self) -> None:
        """Read all assignments, and compare."""
        for record in self.findings.readable(self.books.summaries()):
            self._check_summary(record)
        for number in sorted(self._deferred.keys() - {-1}):
            self.findings.add("deferral", f"Summary {number}, which covers outcomes, is missing.")
        if self.end is not None:
            self._check_rest(self.end)
        for _ in self._pieces:
            pass
        head = self.books.head
        for noun, found, counted in (
            ("assignment", self.assigned, head.assigned),
            ("round", self.rounds, head.rounds),
        ):
            what = f"There are {plural(found, noun)}, the counter says {counted}."
            self.findings.add_unless(found == counted, noun, what)

    def _checked(self) -> Iterator[Rows]:
        """All assignments in pieces, each compared with its plan."""
        last = -1
        every = self.books.rows(0, self.books.head.assigned + 1)  # one more than are counted
        for rows in self.findings.readable(every):
            ids = np.concatenate([[last], rows["id"]])
            for place in np.flatnonzero(np.diff(ids) != 1):
                missing = f"{ids[place] + 1} to {ids[place + 1] - 1}"
                self.findings.add("assignment", f"Assignments {missing} are missing.")
            last = int(ids[-1])
            told, lost, late = ~np.isnan(rows["reward"]), ~np.isnan(rows["lost"]), rows["late"]
            self.assigned += len(rows)
            self.rounds = int(rows["round"][-1]) + 1 if len(rows) else self.rounds
            self.outcomes += int(told.sum())
            self.late += int(late.sum())
            wrong, what = lost & told & ~late, "was lost, but its outcome is not flagged"
            self.findings.add_each(rows, wrong, "late", what)
            if not self.books.head.over:
                self._check_in_time(rows)
            self._check_draws(rows)
            if self.progress is not None:
                self.progress(self.assigned, self.books.head.assigned)
            yield rows

    def _between(self, first: int, end: int) -> Iterator[Rows]:
        """The rows of a range that follows the one before."""
        while first < end:
            while not len(self._rows) or self._rows["id"][-1] < first:
                rows = next(self._pieces, None)
                if rows is None:
                    return
                self._rows = rows
            yield self._rows[slice(*np.searchsorted(self._rows["id"], [first, end]))]
            first = int(self._rows["id"][-1]) + 1

    def _check_in_time(self, rows: Rows) -> None:
        flagged = rows["late"] & np.isnan(rows["lost"])
        what = "was told in time, but its outcome is flagged as late"
        self.findings.add_each(rows, flagged, "late", what)

    def _check_draws(self, rows: Rows) -> None:
        while len(rows):
            while self._next_plan is not None and self._next_plan.first <= rows["id"][0]:
                # No more than there are assignments: a changed plan may ask for any number.
                most = self.books.head.assigned
                self._draws = PlanDraws(self._next_plan, self.seed, most=most)
                self._next_plan = next(self._plans, None)
            end = len(rows)
            if self._next_plan is not None:
                end = int(np.searchsorted(rows["id"], self._next_plan.first))
            part, rows = rows[:end], rows[end:]
            for run in np.split(part, np.flatnonzero(np.diff(part["id"]) != 1) + 1):
                self._draw_again(run, self._draws)

    def _draw_again(self, rows: Rows, draws: PlanDraws | None) -> None:
        """Compare assignments without a gap with what their plan draws."""
        findings, start, size = self.findings, int(rows["id"][0]), len(rows)
        if draws is None:
            findings.add_each(rows, rows["id"] >= 0, "draw", "belongs to no plan")
            return
        try:
            drawn, chances = draws.arms(self.books, start, size)
        except DamagedStoreError as error:
            findings.add("draw", error.message)
            return
        arms, probabilities = np.full(size, -1), np.ones(size)
        arms[: len(drawn)], probabilities[: len(drawn)] = drawn, chances
        phase = draws.plan.phase
        what = f"was drawn in phase {phase} and is on record under another"
        findings.add_each(rows, rows["phase"] != phase, "phase", what)
        for place in np.flatnonzero(rows["arm"] != arms)[: 2 * SHOWN]:
            again = f"the draw gives {arms[place]}" if arms[place] >= 0 else "none was to be drawn"
            row = rows[place]
            findings.add("draw", f"Assignment {row['id']} has arm {row['arm']} on record; {again}.")
        wrong = rows["round"] != draws.rounds(rows["id"])
        findings.add_each(rows, wrong, "round", "is on record in another round than it was drawn")
        wrong = (rows["probability"] != probabilities) & (arms >= 0)
        what = "does not have the probability of its plan on record"
        findings.add_each(rows, wrong, "probability", what)

    def _check_summary(self, record: SummaryRecord) -> None:
        findings, number = self.findings, record.number
        try:
            plan = self.books.plan(record.phase).plan
        except DamagedStoreError:
            findings.add("summary", f"Summary {number} is of phase {record.phase}, unknown here.")
            return
        if len(record.summary.counts) != self.arms:
            findings.add("summary", f"Summary {number} is not of {self.arms} arms.")
            return
        totals = RunningTotals(plan, self.arms)
        if plan.provisional and record.late:
            for rows in self._deferred.pop(number, []):
                wrong = rows["phase"] != record.phase
                what = f"is covered by summary {number}, which is of another phase"
                findings.add_each(rows, wrong, "deferral", what)
                if plan.size == 1:
                    self._add(totals, rows)
            if plan.size > 1:
                self._add_again(totals, record)
        else:
            self._add_range(totals, record)
        covered = f"assignments {record.first} to {record.end - 1}"
        findings.add_unless(
            totals.digest() == record.digest,
            "outcomes",
            f"Of {covered}, not all are as summary {number} has them: an arm, an outcome, a "
            "forecast, a loss or a time was changed since.",
        )
        try:
            same = _data(totals.summary(), totals.plain()) == _data(record.summary, record.plain)
        except InvalidInputError:  # totals that are not finite
            same = False
        findings.add_unless(
            same,
            "totals",
            f"Summary {number} is not what {covered} add up to.",
        )

    def _add_range(self, totals: RunningTotals, record: SummaryRecord) -> None:
        """Add the rows of a summary up; those that were outstanding then are kept for later."""
        ids, covered_by = self._deferrals(record)
        for rows in self._between(record.first, record.end):
            pending = np.isin(rows["id"], ids)
            self._add(totals, rows, pending)
            waiting = rows[pending]
            summaries = covered_by[np.searchsorted(ids, waiting["id"])]
            for each in np.unique(summaries).tolist():
                self._deferred.setdefault(each, []).append(waiting[summaries == each])

    def _add_again(self, totals: RunningTotals, record: SummaryRecord) -> None:
        """Add all rows of a phase up as they were when a later summary was made of them."""
        ids, covered_by = self._deferrals(record)
        waiting = ids[(covered_by > record.number) | (covered_by < 0)]
        for rows in self.findings.readable(self.books.rows(record.first, record.end)):
            self._add(totals, rows, np.isin(rows["id"], waiting))

    def _deferrals(self, record: SummaryRecord) -> tuple[Ids, Ids]:
        found = self.findings.readable(map(self.books.deferrals, [record.first], [record.end]))
        none = np.empty(0, dtype=np.int64)
        return next(found, (none, none))

    def _add(self, totals: RunningTotals, rows: Rows, pending: Any = None) -> None:
        """Add rows up; all but the pending ones must be settled, and in time."""
        due = np.ones(len(rows), dtype=bool) if pending is None else ~pending
        unsettled = np.isnan(rows["reward"]) & np.isnan(rows["lost"])
        what = "was summed up, but is neither told nor lost"
        self.findings.add_each(rows, due & unsettled, "outcomes", what)
        self._check_in_time(rows[due])
        answers = answers_of(rows)
        answers["arm"] = np.where(answers["arm"] < self.arms, np.maximum(answers["arm"], 0), 0)
        totals.add(answers, pending)

    def _check_rest(self, end: dict[str, Any]) -> None:
        """Compare all that no summary covers with the digests that the last event has of it."""
        changed = "are not as they were at the end: an outcome, a loss or a time was changed since."
        rest = self._between(end["first"], end["end"])
        self.findings.add_unless(
            digest_of(answers_at_end(rows, self.failed) for rows in rest) == end["rest"]
            and end["end"] == self.books.head.assigned,
            "rest",
            f"Assignments {end['first']} to {end['end'] - 1} {changed}",
        )
        waiting = self._deferred.get(-1, [])
        self.findings.add_unless(
            digest_of(answers_at_end(rows, self.failed) for rows in waiting) == end["waiting"],
            "rest",
            f"Assignments that were outstanding when their phase closed {changed}",
        )


def _data(*parts: Summary | None) -> list[dict[str, Any] | None]:
    return [None if part is None else as_data(part) for part in parts]
