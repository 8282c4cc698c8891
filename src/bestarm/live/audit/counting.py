"""Counts of assignments per arm: given out, told, lost and outstanding, beside their plans."""

from __future__ import annotations

import numpy as np

from bestarm.live.audit.evidence import RatioTest
from bestarm.live.draws import first_members
from bestarm.live.store.contract import ROW, Ids, PlanRecord, Reading, Rows
from bestarm.live.store.damage import check_arms
from bestarm.records import Counts, Rounds, Summary

FEW = 20  # outcomes needed to know how long they take, or to speak of shares
_TAIL = 200_000  # assignments that no summary covers, read one by one
_WINDOW = 10_000  # settled assignments before them, for how long outcomes take
_LEAST_PATIENCE = 60.0  # seconds
_SLOW = 10  # an outcome is overdue after 10 × the time that 95 % of them take

#: Told, lost and outstanding assignments, per arm.
Split = tuple[Counts, Counts, Counts]


def count_arms(arms: Ids, size: int) -> Counts:
    """How often each of so many arms occurs."""
    check_arms(arms, size)
    return np.bincount(arms, minlength=size)


def split_of(summary: Summary) -> Split:
    """Told, lost and outstanding assignments of a summary, per arm."""
    return summary.counts, summary.missing, summary.pending


def first_of(rounds: Rounds, first: int, seed: int) -> Split:
    """The same of the first assignment of every round; the first of all has the id `first`.

    A block is drawn, and its arms are tried in random order: so the arms of these assignments are
    drawn independently with the plan's weights, as single pulls are.
    """
    number, size = rounds.table.shape
    column = first_members(seed, start=first, rounds=number, size=size)
    every = np.arange(number)
    arms, awaited = rounds.blocks[rounds.kinds, column], rounds.awaited[every, column]
    told = ~np.isnan(rounds.table[every, column])
    told, lost, waiting = (
        np.bincount(arms[part], minlength=len(rounds.counts))
        for part in (told, ~told & ~awaited, awaited)
    )
    return told, lost, waiting


class ArmCounts:
    """Counts of arms assigned, told and lost, with the recorded probabilities.

    A phase is one batch of the tests, however many summaries it has: when it begins is settled
    before its arms are drawn, whereas where a summary ends depends on which outcomes have come. So
    the evidence on what was assigned and told holds at all looks at once. What was lost includes
    overdue outcomes, which may come after all: of those it holds at the look at hand.

    Attributes:
        given: the test of what was assigned; of blocks, of the first assignment of every round.
        told: the test of what has an outcome, likewise.
        lost: the test of what is lost, likewise.
        settled: told and lost assignments per arm.
        missing: those of them that are lost.
    """

    def __init__(self, arms: int) -> None:
        self._phase = 0
        self.given, self.told, self.lost = RatioTest(arms), RatioTest(arms), RatioTest(arms)
        self.settled: Counts = np.zeros(arms, dtype=np.int64)
        self.missing: Counts = np.zeros(arms, dtype=np.int64)

    def add(self, record: PlanRecord, every: Split, tested: Split | None = None) -> None:
        """Add a batch of one plan; where it draws blocks, `tested` are the first of each round."""
        plan = record.plan
        told, lost, waiting = tested or every
        if plan.provisional and waiting.any():
            # Among the outcomes so far, quick ones would be too many.
            assert plan.weights is not None
            self.given.add(plan.weights, told + lost + waiting)
            return
        self.settled = self.settled + every[0] + every[1]
        self.missing = self.missing + every[1]
        more, self._phase = plan.phase == self._phase, plan.phase
        if plan.weights is None:
            # The arms are fixed, but which of them are lost should be random.
            assert plan.counts is not None
            self.lost.add(plan.counts / plan.pulls, np.minimum(lost, plan.counts), more=more)
            return
        self.given.add(plan.weights, told + lost + waiting, more=more)
        self.told.add(plan.weights, told, more=more)
        self.lost.add(plan.weights, lost, more=more)


class Tail:
    """Assignments that no summary covers, and how long outcomes take.

    Attributes:
        arms: the number of arms.
        usual: the number of seconds in which 95 % of the outcomes came, if that is known.
        patience: the number of seconds after which an outcome is overdue.
        ages: how long each outstanding outcome has been awaited.
    """

    def __init__(self, books: Reading, arms: int, now: float) -> None:
        head, self.arms, self._now = books.head, arms, now
        start, end = max(0, head.summary_end - _WINDOW), head.summary_end + _TAIL
        pieces = books.rows(start, min(head.assigned, end))
        window: Rows = np.concatenate([np.empty(0, dtype=ROW), *pieces])
        delays = (window["told"] - window["asked"])[np.isnan(window["lost"]) & ~window["late"]]
        delays = delays[~np.isnan(delays)]
        self.usual = float(np.quantile(delays, 0.95)) if len(delays) >= FEW else None
        usual = np.inf if self.usual is None else self.usual
        self.patience = max(_LEAST_PATIENCE, _SLOW * usual) if head.lease is None else head.lease
        deferred = books.rows_of(books.deferrals(waiting=True)[0])
        rows = np.concatenate([deferred, window[window["id"] >= head.summary_end]])
        self.rows = rows
        outstanding = np.isnan(rows["reward"]) & np.isnan(rows["lost"])
        self.ages = now - rows["asked"][outstanding]
        ids = rows["id"][outstanding & (rows["id"] >= head.summary_end)]
        self._settled_end = ids.min(initial=head.assigned)

    def counts(self, record: PlanRecord, *, first: bool = False) -> Split:
        """Told, lost and outstanding assignments of a plan, or the first of each of its rounds.

        Only those that had their time count as told or lost: beyond the first outstanding one,
        quick outcomes and losses would be too many. What is overdue counts as lost.
        """
        rows = self.rows[self.rows["phase"] == record.plan.phase]
        if first:
            rows = rows[(rows["id"] - record.first) % record.plan.size == 0]
        lost = ~np.isnan(rows["lost"])
        told = ~np.isnan(rows["reward"]) & ~lost
        early = rows["id"] < self._settled_end
        gone = (lost & early) | (~told & (self._now - rows["asked"] > self.patience))
        told = told & early
        kinds = (told, gone, ~told & ~gone)
        some, other, rest = (count_arms(rows["arm"][kind], self.arms) for kind in kinds)
        return some, other, rest
