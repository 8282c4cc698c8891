"""The store contract as a test that can be run on any ledger.

    from bestarm.testing import check_store

    def test_my_ledger_keeps_the_contract():
        check_store(lambda: MyLedger(next(names)))

What an experiment guarantees when processes are killed, threads meet and outcomes come twice rests
on these laws alone. `bestarm.live.store.contract` states them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

import numpy as np

from bestarm.errors import ConflictingOutcomeError
from bestarm.live.events import log
from bestarm.live.inputs import EARLIEST, LATEST
from bestarm.live.outcomes import record
from bestarm.live.store.contract import Ledger
from bestarm.live.values import Receipt
from bestarm.records import Plan
from bestarm.testing.store_samples import (
    STEPS,
    Case,
    Make,
    Reopen,
    give_some,
    ids_of,
    lose_some,
    open_phase,
    picture,
    read_rewards,
    read_rows,
    require,
    require_dense,
    require_same,
    tell_some,
    write_some,
)
from bestarm.testing.store_values import (
    counters_are_kept,
    long_ranges_count_each_row_once,
    many_at_once,
    numbers_are_kept_to_the_bit,
    ranges_end_where_they_should,
    texts_are_kept,
)

_MANY = 50_101  # rows: more than anybody should read or write in one piece
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


# --- the laws ----------------------------------------------------------------------------------


def _what_is_written_is_there(case: Case) -> None:
    ledger = case.make()
    with ledger.writing() as tx:
        expected = write_some(tx)
        require_same(picture(tx), expected, "within the transaction that wrote them")
    for how, view in case.views(ledger):
        with view.reading() as books:
            require_same(picture(books), expected, f"afterwards{how}")
    with ledger.writing() as tx:
        require_same(picture(tx), expected, "in the next transaction")


def _an_exception_leaves_nothing(case: Case) -> None:
    ledger = case.books()
    with ledger.writing() as tx:
        give_some(tx, [0, 1, 1, 0, 1, 0, 0, 1], request="kept")
        lose_some(tx, [2, 5], reason="gone", at=3.0)
        tell_some(tx, [0, 1, 2], [1.0, 2.0, 3.0], late=[False, False, True])
    with ledger.reading() as books:
        before = picture(books)
    for name, step in STEPS.items():
        for error in (RuntimeError, KeyboardInterrupt):
            with suppress(RuntimeError, KeyboardInterrupt), ledger.writing() as tx:
                tx.head.state, tx.head.last_hash, tx.head.last_time = "stopped", "f" * 64, 1e9
                step(tx)
                raise error
            for how, view in case.views(ledger):
                with view.reading() as books:
                    where = f"after {name} and {error.__name__} in one transaction{how}"
                    require_same(picture(books), before, where)
    # What failed can be done again, all of it.
    with ledger.writing() as tx:
        results = {name: step(tx) for name, step in STEPS.items()}
        require(results["refusing"] == 2, "a reward refused in vain counts as refused")
    with ledger.reading() as books:
        require(
            books.rewards(ids_of([3])) == {3: 4.0}, "an outcome told twice, once in vain, is lost"
        )
        require(books.request("more") is not None, "a request made twice, once in vain, is lost")


def _a_reading_sees_one_state(case: Case) -> None:
    ledger = case.books()
    with ledger.writing() as tx:
        give_some(tx, [0, 1, 0])

    def write() -> None:
        with ledger.writing() as tx:
            give_some(tx, [1, 1], request="meanwhile")
            tell_some(tx, [0, 3], [1.0, 2.0])
            lose_some(tx, [1], reason="", at=5.0)
            log(tx, "meanwhile", 5.0)

    with ThreadPoolExecutor(1) as pool:
        with ledger.reading() as books:
            before = picture(books, names=["meanwhile"])
            writer = pool.submit(write)
            _wait(writer)
            after = picture(books, names=["meanwhile"])
            require_same(after, before, "while somebody else writes, within one reading")
        writer.result()
    with ledger.reading() as books:
        require(books.head.assigned == 5, "a reading does not see what was written before it")


def _one_writes_at_a_time(case: Case) -> None:
    ledger, turns = case.books(), 12
    views = [view for _, view in zip(range(2), _opened(case, ledger), strict=False)]

    def work(worker: int) -> list[int]:
        mine = []
        for turn in range(turns):
            with suppress(_OwnError), views[worker % len(views)].writing() as tx:
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
    require(sorted(ids) == list(range(kept)), "threads that wrote at once got the same id")
    with ledger.reading() as books:
        counted = (books.head.assigned, books.head.outcomes, len(read_rewards(books)))
        require(counted == (kept,) * 3, f"{kept} were written by threads and {counted} are counted")
        require_dense([event.number for event in books.events()], "events")
    for view in views[1:]:
        view.close()


def _rows_are_only_added(case: Case) -> None:
    """An outcome that is known is passed over, and the count says so."""
    ledger = case.books()
    with ledger.writing() as tx:
        give_some(tx, [0, 1, 0, 1, 0, 1])
        require(tell_some(tx, [4, 0], [1.0, 2.0]) == 2, "two new outcomes are not counted as two")
    with ledger.writing() as tx:
        added = tell_some(tx, [0, 5, 4, 1], [9.0, 3.0, 9.0, 4.0], late=[True] * 4, at=99.0)
        require(added == 2, f"of four outcomes two are new, and {added} are counted")
        require(tell_some(tx, [5, 1], [7.0, 7.0]) == 0, "known outcomes are counted as new")
    with ledger.reading() as books:
        require(
            read_rewards(books) == {0: 2.0, 1: 4.0, 4: 1.0, 5: 3.0},
            "an outcome that was told has changed",
        )
        rows = read_rows(books, 0, 6)
        late, told = rows["late"].tolist(), rows["told"].tolist()
    require(late == [False, True, False, False, False, True], "whether an outcome was late changed")
    require(told[0] == told[4] == 2.0, "the time at which an outcome was told has changed")


def _refusals_count_once(case: Case) -> None:
    ledger = case.books()
    with ledger.writing() as tx:
        give_some(tx, [0, 1, 0, 1])
        added = tx.add_refusals(ids_of([2, 0]), np.array([7.0, 8.0]), at=2.0)
        require(added == 2, f"two rewards that are refused are counted as {added}")
    with ledger.writing() as tx:
        added = tx.add_refusals(ids_of([0, 1, 2]), np.array([9.0, 9.0, 9.0]), at=3.0)
        require(added == 1, f"of three refused rewards one is new, and {added} are counted")
    for how, view in case.views(ledger):
        with view.writing() as tx:
            added = tx.add_refusals(ids_of([0, 1, 2]), np.array([9.0, 9.0, 9.0]), at=4.0)
            require(added == 0, f"of three known refusals {added} are counted as new{how}")


def _losses_keep_their_order(case: Case) -> None:
    ledger = case.books()
    arms = [0, 1, 2, 0, 1, 2, 2, 1]
    with ledger.writing() as tx:
        give_some(tx, arms)
        lose_some(tx, [6, 1], reason="first", at=9.0)
        lose_some(tx, [4], reason="second", at=3.0)  # the clock may go back; the order may not
    with ledger.writing() as tx:
        open_phase(tx, Plan.randomised([1.0, 0.0, 0.0], 4, phase=2))
        give_some(tx, [0, 0, 0])
        lose_some(tx, [9, 0, 8, 3], reason="third", at=5.0)
    expected = {1: [6, 1, 4, 0, 3], 2: [9, 8], 3: []}
    every = [*arms, 0, 0, 0]
    for how, view in case.views(ledger):
        with view.reading() as books:
            for phase, ids in expected.items():
                for start in range(len(ids) + 2):
                    for count in range(len(ids) + 2):
                        wanted = [every[number] for number in ids[start : start + count]]
                        found = books.lost_arms(phase, start, count).tolist()
                        require(
                            found == wanted,
                            f"the arms lost in phase {phase} from number {start} on are "
                            f"{found[:count]}, not {wanted}{how}",
                        )
            require(books.lost(ids_of(range(11))) == {0, 1, 3, 4, 6, 8, 9}, "the lost are others")


def _one_outcome_told_by_two_is_one(case: Case) -> None:
    """Several tell at once, each all or none: who comes later is answered beside those before."""
    ledger = case.books()
    with ledger.writing() as tx:
        give_some(tx, [0, 1, 0, 1])
        told = [
            (ids_of([0, 1]), np.array([1.0, 2.0])),
            (ids_of([1, 2]), np.array([2.0, 3.0])),
            (ids_of([3, 0]), np.array([4.0, 5.0])),  # contradicts the first, so 3 is not told
        ]
        first, second, third = record(tx, told, now=2.0, bounds=None, assume_new=False)
        counted = tx.head.outcomes
    right = first == Receipt(2, 0, 0) and second == Receipt(1, 1, 0)
    require(right, f"two who told one outcome at once are answered {first} and {second}")
    require(
        isinstance(third, ConflictingOutcomeError),
        f"who contradicts an outcome told at the same time is answered {third!r}",
    )
    require(counted == 3, f"three outcomes told by two are counted as {counted}")
    for how, view in case.views(ledger):
        with view.reading() as books:
            found = read_rewards(books)
            require(
                found == {0: 1.0, 1: 2.0, 2: 3.0}, f"told by two at once, rewards are {found}{how}"
            )


def _books_are_apart(case: Case) -> None:
    one, other = case.make(), case.make()
    with other.reading() as books:
        before = picture(books, names=["a"])
    with one.writing() as tx:
        write_some(tx)
    with other.reading() as books:
        require_same(picture(books, names=["a"]), before, "after somebody else's were written")
    with other.writing() as tx:
        write_some(tx)


def _the_time_is_in_seconds_and_goes_forward(case: Case) -> None:
    """Leases end by it, whoever asks and whoever tells."""
    before = EARLIEST
    views = [*_opened(case, case.books())]
    for each in [*views, *views]:
        for transaction in (each.writing, each.reading):
            with transaction() as books:
                now = books.now()
            require(now < LATEST, f"the time is told in seconds since 1970, not as {now:g}")
            require(now >= before, f"the time goes from {before:g} on to {now:g}")
            before = now
    for view in views[1:]:
        view.close()


_LAWS = (
    _the_time_is_in_seconds_and_goes_forward,
    _what_is_written_is_there,
    ranges_end_where_they_should,
    _an_exception_leaves_nothing,
    _rows_are_only_added,
    _refusals_count_once,
    _losses_keep_their_order,
    long_ranges_count_each_row_once,
    _one_outcome_told_by_two_is_one,
    numbers_are_kept_to_the_bit,
    counters_are_kept,
    texts_are_kept,
    _books_are_apart,
    _a_reading_sees_one_state,
    _one_writes_at_a_time,
    many_at_once,
)


class _OwnError(Exception):
    """Raised by a law, to be told from a ledger's own."""


def _opened(case: Case, ledger: Ledger) -> Iterator[Ledger]:
    yield ledger
    if case.reopen is not None:
        yield case.reopen(ledger)


def _wait(writer: Future[None]) -> None:
    """Give a writer the chance to finish; whether it does or is held back, both are right."""
    with suppress(TimeoutError):
        writer.result(timeout=_PATIENCE)
