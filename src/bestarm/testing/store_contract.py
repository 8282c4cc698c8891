"""The store contract as a test that can be run on any ledger.

    from bestarm.testing import check_store

    def test_my_ledger_keeps_the_contract():
        check_store(lambda: MyLedger(next(names)))

What an experiment guarantees when processes are killed, threads meet and outcomes come twice rests
on these laws alone. `bestarm.live.store.contract` states them.
"""

from __future__ import annotations

import math
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np

from bestarm.errors import ConflictingOutcomeError, StoreError
from bestarm.live.events import log
from bestarm.live.inputs import EARLIEST, LATEST
from bestarm.live.transitions import record_outcomes
from bestarm.live.values import Receipt
from bestarm.testing.store_losses import (
    deferrals_are_kept,
    losses_keep_their_order,
    many_are_deferred,
)
from bestarm.testing.store_samples import (
    STEPS,
    Case,
    Make,
    Reopen,
    expect,
    expect_picture,
    give_some,
    ids_of,
    lose_some,
    lost_of,
    picture,
    read_answers,
    read_rows,
    report_some,
    require,
    rewards_of,
    tell_some,
    write_some,
)
from bestarm.testing.store_values import (
    counters_are_kept,
    many_at_once,
    nobody_is_overwritten,
    numbers_are_kept_to_the_bit,
    rounds_are_kept,
    texts_are_kept,
)

_MANY = 50_101  # rows: more than anybody should read or write in one piece
_LONG = 700  # rows: more than are looked at one by one where counting will do
_PATIENCE = 0.3  # seconds in which a writer may get ahead of a reader, if nothing holds it back
_THREADS = 6


def check_store(make: Make, *, reopen: Reopen | None = None, many: int = _MANY) -> None:
    """Test a kind of ledger; raise AssertionError at the first law it breaks.

    Args:
        make: returns a new empty ledger each time it is called; it may hold one event.
        reopen: opens the same ledger as another process would; None if that is impossible.
        many: the size of the largest batch.
    """
    case = Case(make, reopen, many)
    for law in _LAWS:
        law(case)


# --- transactions ------------------------------------------------------------------------------


def _the_time_is_in_seconds_and_goes_forward(case: Case) -> None:
    """Leases end by it, whoever asks and whoever tells."""
    before, ledger = EARLIEST, case.books()
    for _ in range(2):
        for _, view in case.views(ledger):
            for begin in (view.transaction, view.snapshot):
                with begin() as books:
                    now = books.now()
                require(now < LATEST, f"the time is told in seconds since 1970, not as {now:g}")
                require(now >= before, f"the time goes from {before:g} on to {now:g}")
                before = now


def _what_is_written_is_there(case: Case) -> None:
    ledger = case.make()
    with ledger.transaction() as tx:
        expected = write_some(tx)
        expect_picture(tx, expected, "within the transaction that wrote them")
    for how, books in case.readings(ledger):
        expect_picture(books, expected, f"afterwards{how}")
    with ledger.transaction() as tx:
        expect_picture(tx, expected, "in the next transaction")


def _an_exception_leaves_nothing(case: Case) -> None:
    ledger = case.books()
    with ledger.transaction() as tx:
        give_some(tx, [0, 1, 1, 0, 1, 0, 0, 1], request="kept")
        lose_some(tx, [2, 5], reason="gone")
        tell_some(tx, [0, 1, 2], [1.0, 2.0, 3.0], late=[False, False, True])
        tx.add_deferrals(ids_of([1, 2]))
    with ledger.snapshot() as books:
        before = picture(books)
    for name, step in STEPS.items():
        for error in (RuntimeError, KeyboardInterrupt):
            with suppress(RuntimeError, KeyboardInterrupt), ledger.transaction() as tx:
                tx.head.state, tx.head.last_hash, tx.head.last_time = "stopped", "f" * 64, 1e9
                step(tx)
                raise error
            for how, books in case.readings(ledger):
                where = f"after {name} and {error.__name__} in one transaction{how}"
                expect_picture(books, before, where)
    # What failed can be done again, all of it.
    with ledger.transaction() as tx:
        results = {name: step(tx) for name, step in STEPS.items()}
    expect(results["refusing"], 2, "with one refused in vain before, two refusals count as")
    with ledger.snapshot() as books:
        expect(
            rewards_of(books, ids_of([3])), {3: 4.0}, "with one told in vain before, rewards are"
        )
        require(books.request("more") is not None, "a request made twice, once in vain, is lost")


def _a_reading_sees_one_state(case: Case) -> None:
    ledger = case.books()
    with ledger.transaction() as tx:
        give_some(tx, [0, 1, 0])

    def write() -> None:
        with ledger.transaction() as tx:
            give_some(tx, [1, 1], request="meanwhile")
            tell_some(tx, [0, 3], [1.0, 2.0])
            lose_some(tx, [1])
            log(tx, "meanwhile", 5.0)

    with ThreadPoolExecutor(1) as pool:
        with ledger.snapshot() as books:
            before = picture(books)
            writer = pool.submit(write)
            with suppress(TimeoutError):  # whether it finishes or is held back, both are right
                writer.result(timeout=_PATIENCE)
            expect_picture(books, before, "while somebody else writes, within one reading")
        writer.result()
    with ledger.snapshot() as books:
        expect(books.head.assigned, 5, "once others have written, the assignments are")


class _OwnError(Exception):
    """Raised by a law, to be told from a ledger's own."""


def _one_writes_at_a_time(case: Case) -> None:
    ledger, turns = case.books(), 12
    other = ledger if case.reopen is None else case.reopen(ledger)

    def work(worker: int) -> list[int]:
        mine = []
        for turn in range(turns):
            with suppress(_OwnError), (ledger, other)[worker % 2].transaction() as tx:
                number, told = tx.head.assigned, tx.head.outcomes
                time.sleep(0.001 * (worker == turn % _THREADS))
                give_some(tx, [worker % 2], request=f"{worker} {turn}")
                tell_some(tx, [number], [float(worker)])
                tx.head.outcomes = told + 1
                log(tx, "told", 1.0, number=number)
                if turn % 4 == 3:
                    raise _OwnError
                mine.append(number)
        return mine

    try:
        with ThreadPoolExecutor(_THREADS) as pool:
            ids = [number for mine in pool.map(work, range(_THREADS)) for number in mine]
    except Exception as error:
        raise AssertionError(
            f"The ledger breaks its contract: threads that wrote at once met {error!r}."
        ) from error
    kept = _THREADS * (turns - turns // 4)
    expect(sorted(ids), list(range(kept)), "threads that wrote at once got the ids")
    with ledger.snapshot() as books:
        rewards = rewards_of(books, np.arange(kept))
        counted = (books.head.assigned, books.head.outcomes, len(rewards))
        expect(counted, (kept,) * 3, "assignments and outcomes of threads that wrote at once are")
        numbers = [event.number for event in books.events()]
        expect(numbers, list(range(len(numbers))), "events of threads are numbered")
    if other is not ledger:
        other.close()


def _one_outcome_told_by_two_is_one(case: Case) -> None:
    """Several tell in one transaction, each all or none: who comes later sees those before."""
    ledger, third = case.books(), None
    with ledger.transaction() as tx:
        give_some(tx, [0, 1, 0, 1])
        first = record_outcomes(tx, ([0, 1], [1.0, 2.0]), now=2.0, bounds=None)
        second = record_outcomes(tx, ([1, 2], [2.0, 3.0]), now=2.0, bounds=None)
        try:  # it contradicts the first, so 3 is not told
            record_outcomes(tx, ([3, 0], [4.0, 5.0]), now=2.0, bounds=None)
        except ConflictingOutcomeError as error:
            third = error
        expect(tx.head.outcomes, 3, "three outcomes told by two are counted as")
    wanted = [Receipt(2, 0, 0), Receipt(1, 1, 0)]
    expect([first, second], wanted, "two who told one outcome at once are answered")
    require(third is not None, "who contradicts an outcome of the same transaction is not told")
    for how, books in case.readings(ledger):
        expect(
            rewards_of(books, np.arange(4)), {0: 1.0, 1: 2.0, 2: 3.0}, f"rewards told by two{how}"
        )


def _books_are_apart(case: Case) -> None:
    one, other = case.make(), case.make()
    with other.snapshot() as books:
        before = picture(books)
    with one.transaction() as tx:
        write_some(tx)
    with other.snapshot() as books:
        expect_picture(books, before, "after somebody else's were written")
    with other.transaction() as tx:
        write_some(tx)


# --- rows --------------------------------------------------------------------------------------


def _outcomes_are_only_added(case: Case) -> None:
    """Nothing remains of a transaction that adds an outcome to one on record."""
    ledger = case.books()
    with ledger.transaction() as tx:
        give_some(tx, [0, 1] * 10)
        tell_some(tx, [3, 1], [1.0, 2.0], late=[False, True])
    for several in ([1], [0, 1], list(range(20))):
        refused = False
        try:
            with ledger.transaction() as tx:
                tx.head.refusals = 7
                tell_some(tx, several, [0.5] * len(several), at=3.0)
        except StoreError:
            refused = True
        require(refused, "a second outcome of an assignment is taken")
        for how, books in case.readings(ledger):
            expect(rewards_of(books, np.arange(20)), {1: 2.0, 3: 1.0}, f"rewards{how} are then")
            expect(books.head.refusals, 0, f"counters of a transaction that failed{how} read")
    with ledger.transaction() as tx:
        tell_some(tx, [0, 2], [3.0, 4.0], at=99.0)
    nan = math.nan
    wanted = [(3.0, 99.0, False), (2.0, 2.0, True), (4.0, 99.0, False), (1.0, 2.0, False)]
    with ledger.snapshot() as books:
        rows = read_rows(books, 0, 5)[["reward", "told", "late"]]
    expect(rows, [*wanted, (nan, nan, False)], "outcomes that were told read")


def _refusals_count_once(case: Case) -> None:
    ledger = case.books()
    with ledger.transaction() as tx:
        give_some(tx, [0, 1, 0, 1])
    for ids, new in (([2, 0], 2), ([0, 1, 2], 1)):
        with ledger.transaction() as tx:
            added = tx.add_refusals(ids_of(ids), np.full(len(ids), 9.0), at=2.0)
            expect(added, new, f"refusals of {ids} are counted as")
    for how, view in case.views(ledger):
        with view.transaction() as tx:
            added = tx.add_refusals(ids_of(range(3)), np.full(3, 9.0), at=4.0)
            expect(added, 0, f"known refusals are counted as new{how}:")


def _reports_are_found_by_assignment(case: Case) -> None:
    """However far apart the assignments are, and however often each was reported."""
    ledger, size = case.books(), 5000
    with ledger.transaction() as tx:
        give_some(tx, [0] * size)
        report_some(tx, [size - 1, 7, 0], [1.0, 2.0, 3.0])
        report_some(tx, range(0, size, 2), [0.5] * (size // 2))
        report_some(tx, [7, 8], [4.0, 5.0])
    for how, books in case.readings(ledger):
        found = [(each.assignment, each.reward) for each in books.reports_of([size - 1, 7, 8])]
        wanted = {7: [2.0, 4.0], 8: [0.5, 5.0], size - 1: [1.0]}
        for number, rewards in wanted.items():
            there = [reward for each, reward in found if each == number]
            expect(there, rewards, f"the reports of assignment {number}{how} read")
        expect(len(found), 5, f"the number of reports of three assignments{how} is")
        expect(list(books.reports_of([])), [], f"the reports of no assignment{how} read")
        last = [each.number for each in books.reports(size // 2 + 3)]
        expect(last, [size // 2 + 3, size // 2 + 4], f"the last reports{how} have the numbers")


def _ranges_end_where_they_should(case: Case) -> None:
    """A range begins with its first id and ends before its last."""
    ledger, size = case.books(), 12
    with ledger.transaction() as tx:
        give_some(tx, [0, 1] * 3, at=10.0)
        give_some(tx, [1, 0] * 3, at=20.0)
        lose_some(tx, [2, 9])
        tell_some(tx, [0, 1, 2, 4, 7, 11], [0.0, 1.0, 2.0, 4.0, 7.0, 11.0], late=np.arange(6) == 2)
    with ledger.snapshot() as books:
        for first in range(size + 1):
            for end in range(first, size + 1):
                where = f"from {first} up to {end}"
                ids = read_rows(books, first, end)["id"]
                expect(ids, list(range(first, end)), f"the rows {where} are")
                free = [number for number in (3, 5, 6, 8, 10) if first <= number < end]
                least = books.first_outstanding(first, end)
                expect(least, min(free, default=None), f"the first outstanding {where} is")
                for by, last in ((9.9, 0), (10.0, 6), (19.9, 6), (20.0, size)):
                    wanted = [number for number in free if number < last]
                    some = books.outstanding(first, end, asked_by=by)
                    expect(some, wanted, f"the outstanding {where} by {by:g} are")
        expect(read_rows(books, 0, size + 9)["id"], list(range(size)), "all rows are")
        expect((books.asked_at(5), books.asked_at(6)), (10.0, 20.0), "times of asking are")
        # The reward of an assignment that was lost is not used, but on record.
        answers = read_answers(books, 0, 3)[["arm", "reward"]]
        expect(answers, [(0, 0.0), (1, 1.0), (0, math.nan)], "answers are")
        expect(read_answers(books, 7, 8)[["arm", "reward"]], [(0, 7.0)], "a single answer is")
        rewards = rewards_of(books, ids_of([11, 3, 0, 2]))
        expect(rewards, {11: 11.0, 0: 0.0, 2: 2.0}, "rewards by id are")
        nothing = (
            rewards_of(books, ids_of([])),
            lost_of(books, ids_of([])),
            lost_of(books, ids_of([3, 11])),
        )
        expect(nothing, ({}, set(), set()), "where nothing is looked for there are")


def _long_ranges_count_each_row_once(case: Case) -> None:
    """What was lost and then told is settled once: it must not stand for one that is awaited."""
    ledger = case.books()
    lost, awaited = _LONG // 2, _LONG - 7
    with ledger.transaction() as tx:
        give_some(tx, [0] * _LONG)
        lose_some(tx, [lost])
        told = [number for number in range(_LONG) if number != awaited]
        tell_some(tx, told, [1.0] * len(told), late=np.array(told) == lost)
        found = tx.first_outstanding(0, _LONG)
        expect(found, awaited, "within the transaction that told the rest, the first awaited is")
    for how, books in case.readings(ledger):
        expect(books.first_outstanding(0, _LONG), awaited, f"afterwards{how} the first awaited is")


_LAWS = (
    _the_time_is_in_seconds_and_goes_forward,
    _what_is_written_is_there,
    _reports_are_found_by_assignment,
    _ranges_end_where_they_should,
    _an_exception_leaves_nothing,
    _outcomes_are_only_added,
    nobody_is_overwritten,
    _refusals_count_once,
    losses_keep_their_order,
    deferrals_are_kept,
    _long_ranges_count_each_row_once,
    _one_outcome_told_by_two_is_one,
    numbers_are_kept_to_the_bit,
    rounds_are_kept,
    counters_are_kept,
    texts_are_kept,
    _books_are_apart,
    _a_reading_sees_one_state,
    _one_writes_at_a_time,
    many_at_once,
    many_are_deferred,
)
