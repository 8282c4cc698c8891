"""The laws every ledger keeps, as a test that can be run on any place to keep books.

    from bestarm.testing import check_store

    def test_my_ledger_keeps_the_contract():
        check_store(lambda: MyLedger(next(names)))

What an experiment guarantees when processes die, threads meet and outcomes come twice rests on
these laws and on nothing else. What a ledger offers is `bestarm.live.store.contract.Ledger`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from bestarm.errors import ConflictingOutcomeError
from bestarm.live.events import log
from bestarm.live.inputs import EARLIEST, LATEST
from bestarm.live.outcomes import record_each
from bestarm.live.store.contract import (
    Head,
    Ledger,
    PlanRecord,
    Reading,
    Request,
    SummaryRecord,
)
from bestarm.live.values import Receipt
from bestarm.records import Plan, Summary
from bestarm.testing.store_samples import (
    FLOATS,
    STEPS,
    TEXTS,
    give_some,
    ids_of,
    open_phase,
    picture,
    plan_record_data,
    read_answers,
    read_rewards,
    read_rows,
    require,
    require_dense,
    require_same,
    summary_record_data,
    tell_some,
    write_some,
)

__all__ = ["check_store"]

Make = Callable[[], Ledger]
Reopen = Callable[[Ledger], Ledger]

_MANY = 50_101  # rows: more than anybody should read or write in one piece
_LONG = 700  # rows: more than are looked at one by one where counting will do
_PATIENCE = 0.3  # seconds in which a writer may get ahead of a reader, if nothing holds it back
_THREADS = 6


def check_store(make: Make, *, reopen: Reopen | None = None, many: int = _MANY) -> None:
    """Run a kind of ledger through its paces; raise AssertionError at the first law it breaks.

    Args:
        make: makes empty books, new ones each time it is called; an event may be in them already.
        reopen: gives the same books as another process would open them; None if none could.
        many: the size of the largest batch.
    """
    case = _Case(make, reopen, many)
    for law in _LAWS:
        law(case)


@dataclass(frozen=True)
class _Case:
    make: Make
    reopen: Reopen | None
    many: int

    def books(self, *, phases: int = 1) -> Ledger:
        """New books in which the first phases are open; the head is at the last."""
        ledger = self.make()
        for phase in range(1, phases + 1):
            with ledger.writing() as tx:
                open_phase(tx, Plan.randomised([0.25, 0.75, 0.0], 8, phase=phase, open=True))
        return ledger

    def views(self, ledger: Ledger) -> Iterator[tuple[str, Ledger]]:
        """The books, and the books as others see them."""
        yield "", ledger
        if self.reopen is not None:
            other = self.reopen(ledger)
            yield " when opened again", other
            other.close()


# --- the laws ----------------------------------------------------------------------------------


def _what_is_written_is_there(case: _Case) -> None:
    ledger = case.make()
    with ledger.writing() as tx:
        expected = write_some(tx)
        require_same(picture(tx), expected, "within the transaction that wrote them")
    for how, view in case.views(ledger):
        with view.reading() as books:
            require_same(picture(books), expected, f"afterwards{how}")
    with ledger.writing() as tx:
        require_same(picture(tx), expected, "in the next transaction")


def _an_exception_leaves_nothing(case: _Case) -> None:
    ledger = case.books()
    with ledger.writing() as tx:
        give_some(tx, [0, 1, 1, 0, 1, 0, 0, 1], request="kept")
        tx.add_losses([2, 5], reason="gone", at=3.0)
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


def _a_reading_sees_one_state(case: _Case) -> None:
    ledger = case.books()
    with ledger.writing() as tx:
        give_some(tx, [0, 1, 0])

    def write() -> None:
        with ledger.writing() as tx:
            give_some(tx, [1, 1], request="meanwhile")
            tell_some(tx, [0, 3], [1.0, 2.0])
            tx.add_losses([1], reason="", at=5.0)
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


def _one_writes_at_a_time(case: _Case) -> None:
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


def _rows_are_only_added(case: _Case) -> None:
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


def _refusals_count_once(case: _Case) -> None:
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


def _losses_keep_their_order(case: _Case) -> None:
    ledger = case.books()
    arms = [0, 1, 2, 0, 1, 2, 2, 1]
    with ledger.writing() as tx:
        give_some(tx, arms)
        tx.add_losses([6, 1], reason="first", at=9.0)
        tx.add_losses([4], reason="second", at=3.0)  # the clock may go back; the order may not
    with ledger.writing() as tx:
        open_phase(tx, Plan.randomised([1.0, 0.0, 0.0], 4, phase=2))
        give_some(tx, [0, 0, 0])
        tx.add_losses([9, 0, 8, 3], reason="third", at=5.0)
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


def _ranges_end_where_they_should(case: _Case) -> None:
    ledger, size = case.books(), 12
    with ledger.writing() as tx:
        give_some(tx, [0, 1] * 3, at=10.0)
        give_some(tx, [1, 0] * 3, at=20.0)
        tx.add_losses([2, 9], reason="", at=30.0)
        tell_some(tx, [0, 1, 2, 4, 7, 11], [0.0, 1.0, 2.0, 4.0, 7.0, 11.0], late=np.arange(6) == 2)
    free = [3, 5, 6, 8, 10]
    with ledger.reading() as books:
        every = read_rows(books, 0, size)
        for first in range(size + 1):
            for end in range(first, size + 1):
                ids = every["id"][(every["id"] >= first) & (every["id"] < end)].tolist()
                found = read_rows(books, first, end)["id"].tolist()
                where = f"from {first} up to {end}"
                require(found == ids == list(range(first, end)), f"the rows {where} are {found}")
                wanted = [number for number in free if first <= number < end]
                one = books.first_outstanding(first, end)
                least = wanted[0] if wanted else None
                require(one == least, f"the first outstanding {where} is {one}")
                for by, last in ((9.9, 0), (10.0, 6), (19.9, 6), (20.0, size)):
                    some = books.outstanding(first, end, asked_by=by).tolist()
                    known = [number for number in wanted if number < last]
                    require(some == known, f"the outstanding {where} by {by:g} are {some}")
        require(
            read_rows(books, 0, size + 9)["id"].tolist() == list(range(size)), "rows never given"
        )
        require(
            books.asked_at(5) == 10.0 and books.asked_at(6) == 20.0, "times of asking have moved"
        )
        answers = read_answers(books, 0, 3)
        require(answers["arm"].tolist() == [0, 1, 0], "the arms of answers are others")
        rewards = answers["reward"].tolist()
        require(
            rewards[:2] == [0.0, 1.0] and math.isnan(rewards[2]),
            "the reward of a lost assignment is used, though it came late",
        )
        single = read_answers(books, 7, 8)[["arm", "reward"]].tolist()
        require(single == [(0, 7.0)], f"a single answer is {single}")
        require(books.rewards(ids_of([11, 3, 0])) == {11: 11.0, 0: 0.0}, "rewards are not by id")
        require(books.rewards(ids_of([2])) == {2: 2.0}, "a reward told late is not on record")
        nothing = (books.rewards(ids_of([])), books.lost(ids_of([])), books.lost(ids_of([3, 11])))
        require(nothing == ({}, set(), set()), "something is found where nothing is looked for")


def _long_ranges_count_each_row_once(case: _Case) -> None:
    """What was lost and then told is settled once: it must not stand for one that is awaited."""
    ledger, size = case.books(), _LONG
    lost, awaited = size // 2, size - 7
    with ledger.writing() as tx:
        give_some(tx, [0] * size)
        tx.add_losses([lost], reason="", at=2.0)
        told = [number for number in range(size) if number != awaited]
        tell_some(tx, told, [1.0] * len(told), late=np.array(told) == lost, at=3.0)
        _require_awaited(tx, size, awaited, "within the transaction that told them")
    for how, view in case.views(ledger):
        with view.reading() as books:
            _require_awaited(books, size, awaited, f"afterwards{how}")


def _require_awaited(books: Reading, size: int, awaited: int, where: str) -> None:
    found = books.first_outstanding(0, size)
    require(found == awaited, f"of {size} the first awaited is {found}, not {awaited}, {where}")


def _one_outcome_told_by_two_is_one(case: _Case) -> None:
    """Several tell at once, each all or none: who comes later is answered beside those before."""
    ledger = case.books()
    with ledger.writing() as tx:
        give_some(tx, [0, 1, 0, 1])
        told = [
            (ids_of([0, 1]), np.array([1.0, 2.0])),
            (ids_of([1, 2]), np.array([2.0, 3.0])),
            (ids_of([3, 0]), np.array([4.0, 5.0])),  # contradicts the first, so 3 is not told
        ]
        first, second, third = record_each(tx, told, now=2.0, bounds=None)
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


def _numbers_are_kept_to_the_bit(case: _Case) -> None:
    ledger, size = case.books(), len(FLOATS)
    weights = np.array([1 / 3, 2 / 3 - 1e-17, 5e-17])
    plan = Plan.randomised(weights / weights.sum(), 2**52 + 1, phase=2, open=True, most=2**53 - 1)
    counts = np.arange(1, size + 1)
    entry = SummaryRecord(
        0, 1, 0, 2**61, True, Summary(counts, np.array(FLOATS), np.abs(FLOATS), counts), "a" * 64
    )
    request = Request("large", 2**62 + 1, 0, size, 2**61 + 1)
    at = 1_767_225_600.123_456_7
    with ledger.writing() as tx:
        chances = np.abs(FLOATS) / np.abs(FLOATS).max()
        tx.add_assignments(np.zeros(size, dtype=np.int64), chances, at=at, request=request)
        tx.head.assigned += size
        tx.add_outcomes(
            ids_of(range(size)), np.array(FLOATS), at=at, late=np.zeros(size, dtype=bool)
        )
        tx.add_summary(entry)
        tx.head.summaries += 1
        tx.add_plan(PlanRecord(plan, 2**60 + 1))
        log(tx, "numbers", at, floats=FLOATS, whole=2**62 + 1)
        for name in ("lease", "lowest", "highest", "oldest", "last_time", "clock_setback"):
            setattr(tx.head, name, at + 0.1)
        for name in (
            "outcomes",
            "losses",
            "late",
            "refusals",
            "pulls",
            "limit",
            "first",
            "summary_end",
        ):
            setattr(tx.head, name, 2**62 + 1)
        head = replace(tx.head)
    for how, view in case.views(ledger):
        with view.reading() as books:
            rows = read_rows(books, 0, size)
            for name, wanted in (("reward", FLOATS), ("probability", chances.tolist())):
                for one, other in zip(rows[name].tolist(), wanted, strict=True):
                    same = math.copysign(1, one) == math.copysign(1, other) and one == other
                    require(same, f"a {name} of {other!r} is read back as {one!r}{how}")
            require(set(rows["asked"].tolist()) == {at}, f"a time is read back another{how}")
            require(
                read_answers(books, 0, size)["reward"].tolist() == FLOATS,
                f"answers are rounded{how}",
            )
            require(list(read_rewards(books).values()) == FLOATS, f"rewards are rounded{how}")
            (found,) = books.summaries()
            require(
                summary_record_data(found) == summary_record_data(entry),
                f"a summary is read back another{how}",
            )
            same = plan_record_data(books.plan(2)) == plan_record_data(PlanRecord(plan, 2**60 + 1))
            require(same, f"a plan is read back another{how}")
            require(books.request("large") == request, f"a request is read back another{how}")
            last = list(books.events())[-1]
            require(
                last.at == at and last.data == {"floats": FLOATS, "whole": 2**62 + 1}, "an event"
            )
            require(books.head == head, f"the counters are read back as {books.head}{how}")
    for unset in (
        Head(),
        Head(lease=0.1, limit=7, oldest=-1e-300, last_time=0.0, lowest=-0.5, highest=0.5),
    ):
        with ledger.writing() as tx:
            for name, value in vars(unset).items():
                setattr(tx.head, name, value)
        with ledger.reading() as books:
            require(books.head == unset, f"the counters {unset} are read back as {books.head}")


def _texts_are_kept(case: _Case) -> None:
    ledger = case.books()
    with ledger.writing() as tx:
        for number, text in enumerate(TEXTS):
            give_some(tx, [0], request=text)
            tx.add_losses([number], reason=text, at=1.0)
            log(tx, "said", 1.0, text=text, **{f"key {text}": [text]})
    for how, view in case.views(ledger):
        with view.reading() as books:
            for number, text in enumerate(TEXTS):
                found = books.request(text)
                right = found is not None and (found.name, found.first) == (text, number)
                require(right, f"the request {text!r} is found as {found}{how}")
            for unknown in ("A", "a%", "_", "", "e", *(text + " " for text in TEXTS)):
                found = None if unknown in TEXTS else books.request(unknown)
                require(found is None, f"the request {unknown!r} is found as {found}{how}")
            said = [event.data for event in books.events() if event.kind == "said"]
            for text, data in zip(TEXTS, said, strict=True):
                right = data == {"text": text, f"key {text}": [text]}
                require(right, f"an event of {text!r} is read back as {data}{how}")


def _many_at_once(case: _Case) -> None:
    ledger, size = case.books(), case.many
    arms = np.arange(size) % 3
    ids, rewards = np.arange(size), np.sqrt(np.arange(size))
    order = np.random.default_rng(0).permutation(size)
    late = np.zeros(size, dtype=bool)
    last = size - 1
    with ledger.writing() as tx:
        tx.add_assignments(arms, (arms + 1) / 3, at=1.0, request=None)
        tx.head.assigned += size
        free = tx.outstanding(0, size, asked_by=1.0)
        require(np.array_equal(free, ids), f"of {size} new assignments {len(free)} are outstanding")
        told = order[order != last]
        added = tx.add_outcomes(told, rewards[told], at=2.0, late=late[told])
        require(added == size - 1, f"{size - 1} outcomes are counted as {added}")
        found = tx.first_outstanding(0, size)
        require(found == last, f"the last of {size} awaited is {found}")
        added = tx.add_outcomes(order, -rewards[order], at=3.0, late=late)
        require(added == 1, f"one new outcome among {size} is counted as {added}")
        require(tx.first_outstanding(0, size) is None, f"all of {size} are told and one is awaited")
    rewards[last] *= -1
    with ledger.reading() as books:
        rows = read_rows(books, 0, size)
        right = np.array_equal(rows["id"], ids) and np.array_equal(rows["arm"], arms)
        require(right and np.array_equal(rows["reward"], rewards), f"rows of {size} are others")
        _require_times(books, size)
        some = read_rows(books, 7, size - 7)
        require(np.array_equal(some["id"], ids[7:-7]), f"rows 7 to {size - 7} are others")
        answers = read_answers(books, 3, size)
        same = np.array_equal(answers["arm"], arms[3:])
        require(same and np.array_equal(answers["reward"], rewards[3:]), "answers are others")
        wanted = ids_of([last, 0, size // 2, 1])
        known = {number: float(rewards[number]) for number in wanted.tolist()}
        require(books.rewards(wanted) == known, "rewards of ids far apart are others")
        require(len(books.rewards(ids)) == size, f"rewards of {size} ids are fewer")
    few = size // 10
    with ledger.writing() as tx:
        for number in range(few):
            log(tx, "counted", 1.0, number=number)
    with ledger.reading() as books:
        counted = [event.data["number"] for event in books.events() if event.kind == "counted"]
        require(counted == list(range(few)), f"of {few} events {len(counted)} are read")
        _require_parts(books, few)
    with ledger.writing() as tx:
        tx.add_assignments(arms, (arms + 1) / 3, at=1.0, request=None)
        tx.head.assigned += size
        tx.add_losses((size + order).tolist(), reason="all", at=4.0)
    with ledger.reading() as books:
        lost = books.lost_arms(1, 0, size)
        require(np.array_equal(lost, arms[order]), f"the arms of {size} lost are in another order")
        require(len(books.lost(np.arange(2 * size))) == size, f"{size} lost are fewer")


def _require_times(books: Reading, size: int) -> None:
    """All were told at once, but the last."""
    for end in (size - 1, size):
        times = read_answers(books, 0, end)
        told = np.where(np.arange(end) == size - 1, 3.0, 2.0)
        right = np.array_equal(times["told"], told) and bool((times["asked"] == 1.0).all())
        require(right and bool(np.isnan(times["lost"]).all()), f"the times of {end} are others")


def _require_parts(books: Reading, few: int) -> None:
    """The log can be read in parts."""
    for start, limit in ((0, 1), (1, 7), (few // 2, 5_001)):
        found = [event.number for event in books.events(start, limit=limit)]
        wanted = list(range(start, min(start + limit, books.head.events)))
        require(found == wanted, f"{limit} events from {start} on are {len(found)}")
    last = books.head.events - 1
    found = [event.number for event in books.events(last)]
    require(found == [last], f"the events from {last} on are {found}")


def _books_are_apart(case: _Case) -> None:
    one, other = case.make(), case.make()
    with other.reading() as books:
        before = picture(books, names=["a"])
    with one.writing() as tx:
        write_some(tx)
    with other.reading() as books:
        require_same(picture(books, names=["a"]), before, "after somebody else's were written")
    with other.writing() as tx:
        write_some(tx)


def _the_time_is_in_seconds_and_goes_forward(case: _Case) -> None:
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
    _an_exception_leaves_nothing,
    _rows_are_only_added,
    _refusals_count_once,
    _losses_keep_their_order,
    _ranges_end_where_they_should,
    _long_ranges_count_each_row_once,
    _one_outcome_told_by_two_is_one,
    _numbers_are_kept_to_the_bit,
    _texts_are_kept,
    _books_are_apart,
    _a_reading_sees_one_state,
    _one_writes_at_a_time,
    _many_at_once,
)


class _OwnError(Exception):
    """Raised by a law, to be told from a ledger's own."""


def _opened(case: _Case, ledger: Ledger) -> Iterator[Ledger]:
    yield ledger
    if case.reopen is not None:
        yield case.reopen(ledger)


def _wait(writer: Future[None]) -> None:
    """Give a writer the chance to finish; whether it does or is held back, both are right."""
    with suppress(TimeoutError):
        writer.result(timeout=_PATIENCE)
