"""A ledger keeps what it promises, in memory, in a SQLite file and in PostgreSQL."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count, islice
from typing import Any

import numpy as np
import pytest
from ledger_samples import (
    FLOATS,
    TEXTS,
    WRITES,
    Case,
    about,
    assign,
    contents,
    expect,
    expect_contents,
    guard,
    ids_of,
    lose,
    lost_of,
    open_phase,
    read_answers,
    read_rows,
    report,
    require,
    rewards_of,
    tell,
    write_everything,
)

from bestarm.errors import ConflictingOutcomeError, StoreError
from bestarm.live.events import log, next_event
from bestarm.live.inputs import EARLIEST, LATEST
from bestarm.live.store import Store
from bestarm.live.store import ledger as ledger_module
from bestarm.live.store.head import Head
from bestarm.live.store.ledger import Ledger, Snapshot, Transaction
from bestarm.live.store.memory import Memory
from bestarm.live.store.rows import (
    ALL,
    GuardrailValue,
    PlanRecord,
    Report,
    Request,
    SummaryRecord,
    UnitKey,
    UnitRecord,
)
from bestarm.live.tell import Tell, record
from bestarm.live.values import Receipt
from bestarm.records import BlockPlan, Plan, Rounds, Summary

_MANY_ROWS = 50_101  # more than should be read or written in one piece
_LONG_RANGE = 700  # rows: more than are looked at one by one where counting will do
_WRITER_TIMEOUT = 0.3  # seconds in which a writer commits while a snapshot is open, unless it waits
_THREADS = 6


NAMES = (f"offer {number}" for number in count())


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def case(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Case]:
    """New ledgers of one kind."""
    made: list[Ledger] = []

    def make() -> Ledger:
        store = Memory() if url is None else Store(url)
        head = Head(last_time=0.0)
        created = next_event(head, "created", 0.0)
        name = next(NAMES)
        made.append(
            Ledger.create(store, name, document="{}", description="", head=head, created=created)
        )
        return made[-1]

    if request.param == "memory":
        url = None
        yield Case(make, None, _MANY_ROWS // 50)
        return
    url = request.getfixturevalue(f"{request.param}_url")
    # A fiftieth of what is read at a time, so that a fiftieth of the rows is read in pieces too.
    for size in ("_PIECE", "_PAGE"):
        monkeypatch.setattr(ledger_module, size, getattr(ledger_module, size) // 50)
    yield Case(make, lambda ledger: Ledger.open(Store(url), ledger.name), _MANY_ROWS // 50)
    for ledger in made:
        ledger.close()


# --- transactions ------------------------------------------------------------------------------


def test_the_time_is_in_seconds_and_goes_forward(case: Case) -> None:
    """Leases end by it, whoever asks and whoever tells."""
    before, ledger = EARLIEST, case.ledger()
    for _ in range(2):
        for _, view in case.views(ledger):
            for begin in (view.transaction, view.snapshot):
                with begin() as snapshot:
                    now = snapshot.now()
                require(now < LATEST, f"the time is told in seconds since 1970, not as {now:g}")
                require(now >= before, f"the time goes from {before:g} on to {now:g}")
                before = now


def test_what_is_written_is_there(case: Case) -> None:
    ledger = case.make()
    with ledger.transaction() as tx:
        expected = write_everything(tx)
        expect_contents(tx, expected, "within the transaction that wrote them")
    for how, snapshot in case.snapshots(ledger):
        expect_contents(snapshot, expected, f"afterwards{how}")
    with ledger.transaction() as tx:
        expect_contents(tx, expected, "in the next transaction")


def test_an_exception_leaves_nothing(case: Case) -> None:
    ledger = case.ledger()
    with ledger.transaction() as tx:
        assign(tx, [0, 1, 1, 0, 1, 0, 0, 1], request="kept")
        tx.add(about(1, "ann", ""), about(2, "zoe", "9:00"))
        lose(tx, [2, 5], reason="gone")
        tell(tx, [0, 1, 2], [1.0, 2.0, 3.0], late=[False, False, True])
        tx.add_deferrals(ids_of([1, 2]))
    with ledger.snapshot() as snapshot:
        before = contents(snapshot)
    for name, step in WRITES.items():
        for error in (RuntimeError, KeyboardInterrupt):
            with suppress(RuntimeError, KeyboardInterrupt), ledger.transaction() as tx:
                tx.head.state, tx.head.last_hash, tx.head.last_time = "stopped", "f" * 64, 1e9
                step(tx)
                raise error
            for how, snapshot in case.snapshots(ledger):
                where = f"after {name} and {error.__name__} in one transaction{how}"
                expect_contents(snapshot, before, where)
    # What failed can be done again, all of it.
    with ledger.transaction() as tx:
        results = {name: step(tx) for name, step in WRITES.items()}
    expect(results["refusing"], 2, "after a rollback of one, two refusals count as")
    with ledger.snapshot() as snapshot:
        rewards = rewards_of(snapshot, ids_of([3]))
        expect(rewards, {3: 4.0}, "after a rollback of an outcome, rewards are")
        require(snapshot.request("more") is not None, "a request made after its rollback is lost")
        named = snapshot.rounds_of("zoe").size, snapshot.rounds_of("ann").size
        expect(named, (2, 0), "after a rollback of naming and erasing, rounds of units are")


def test_a_snapshot_sees_one_state(case: Case) -> None:
    ledger = case.ledger()
    with ledger.transaction() as tx:
        assign(tx, [0, 1, 0])

    def write() -> None:
        with ledger.transaction() as tx:
            assign(tx, [1, 1], request="meanwhile")
            tell(tx, [0, 3], [1.0, 2.0])
            lose(tx, [1])
            log(tx, "meanwhile", 5.0)

    with ThreadPoolExecutor(1) as pool:
        with ledger.snapshot() as snapshot:
            before = contents(snapshot)
            writer = pool.submit(write)
            with suppress(TimeoutError):  # whether it finishes or is held back, both are right
                writer.result(timeout=_WRITER_TIMEOUT)
            expect_contents(snapshot, before, "while another writes, within one snapshot")
        writer.result()
    with ledger.snapshot() as snapshot:
        expect(snapshot.head.assigned, 5, "once others have written, the assignments are")


class _OwnError(Exception):
    """Raised by a rule, to be told from a ledger's own."""


def test_one_writes_at_a_time(case: Case) -> None:
    ledger, turns = case.ledger(), 12
    other = ledger if case.reopen is None else case.reopen(ledger)

    def work(worker: int) -> list[int]:
        mine = []
        for turn in range(turns):
            with suppress(_OwnError), (ledger, other)[worker % 2].transaction() as tx:
                number, told = tx.head.assigned, tx.head.outcomes
                time.sleep(0.001 * (worker == turn % _THREADS))
                assign(tx, [worker % 2], request=f"{worker} {turn}")
                tell(tx, [number], [float(worker)])
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
    with ledger.snapshot() as snapshot:
        rewards = rewards_of(snapshot, np.arange(kept))
        counted = (snapshot.head.assigned, snapshot.head.outcomes, len(rewards))
        expect(counted, (kept,) * 3, "assignments and outcomes of threads that wrote at once are")
        numbers = [event.number for event in snapshot.events()]
        expect(numbers, list(range(len(numbers))), "events of threads are numbered")
    if other is not ledger:
        other.close()


def test_one_outcome_told_by_two_is_one(case: Case) -> None:
    """Several tell in one transaction, each all or none: who comes later sees those before."""
    ledger, third = case.ledger(), None
    with ledger.transaction() as tx:
        assign(tx, [0, 1, 0, 1])
        rules: dict[str, Any] = {"bounds": None, "guardrails": (), "now": 2.0}
        first = record(tx, Tell([0, 1], [1.0, 2.0]), **rules)
        second = record(tx, Tell([1, 2], [2.0, 3.0]), **rules)
        try:  # it contradicts the first, so 3 is not told
            record(tx, Tell([3, 0], [4.0, 5.0]), **rules)
        except ConflictingOutcomeError as error:
            third = error
        expect(tx.head.outcomes, 3, "three outcomes told by two are counted as")
    wanted = [Receipt(2, 0, 0), Receipt(1, 1, 0)]
    expect([first, second], wanted, "two who told one outcome at once are answered")
    require(third is not None, "who contradicts an outcome of the same transaction is not told")
    for how, snapshot in case.snapshots(ledger):
        rewards = rewards_of(snapshot, np.arange(4))
        expect(rewards, {0: 1.0, 1: 2.0, 2: 3.0}, f"rewards told by two{how} are")


def test_ledgers_are_apart(case: Case) -> None:
    one, other = case.make(), case.make()
    with other.snapshot() as snapshot:
        before = contents(snapshot)
    with one.transaction() as tx:
        write_everything(tx)
    with other.snapshot() as snapshot:
        expect_contents(snapshot, before, "after those of another experiment were written")
    with other.transaction() as tx:
        write_everything(tx)


# --- rows --------------------------------------------------------------------------------------


@contextmanager
def _refused(ledger: Ledger, otherwise: str) -> Iterator[Transaction]:
    """A transaction that the ledger must not take."""
    try:
        with ledger.transaction() as tx:
            yield tx
    except StoreError:
        return
    require(False, otherwise)


def test_outcomes_are_only_added(case: Case) -> None:
    """Nothing remains of a transaction that adds an outcome to one on record."""
    ledger = case.ledger()
    with ledger.transaction() as tx:
        assign(tx, [0, 1] * 10)
        tell(tx, [3, 1], [1.0, 2.0], late=[False, True])
    for several in ([1], [0, 1], list(range(20))):
        with _refused(ledger, "a second outcome of an assignment is taken") as tx:
            tx.head.refusals = 7
            tell(tx, several, [0.5] * len(several), at=3.0)
        for how, snapshot in case.snapshots(ledger):
            expect(rewards_of(snapshot, np.arange(20)), {1: 2.0, 3: 1.0}, f"rewards{how} are then")
            expect(snapshot.head.refusals, 0, f"counters of a transaction that failed{how} read")
    with ledger.transaction() as tx:
        tell(tx, [0, 2], [3.0, 4.0], at=99.0)
    nan = math.nan
    wanted = [(3.0, 99.0, False), (2.0, 2.0, True), (4.0, 99.0, False), (1.0, 2.0, False)]
    with ledger.snapshot() as snapshot:
        rows = read_rows(snapshot, 0, 5)[["reward", "told", "late"]]
    expect(rows, [*wanted, (nan, nan, False)], "outcomes that were told read")


def test_values_are_only_added(case: Case) -> None:
    """Of one guardrail, an assignment has one value; numbers say which come first."""
    ledger = case.ledger()
    with ledger.transaction() as tx:
        assign(tx, [0, 1, 0])
        guard(tx, [(0, 0, 1.0), (2, 0, 0.5), (0, 1, 0.25)])
    for again in ([(1, 0, 0.5), (0, 1, 0.75)], [(2, 0, 0.5)]):
        with _refused(ledger, "a second value of an assignment's guardrail is taken") as tx:
            guard(tx, again)
        for how, snapshot in case.snapshots(ledger):
            expect(snapshot.head.values, 3, f"values of guardrails{how} are counted as")
            some = [each.value for each in snapshot.records(GuardrailValue, 1, 3)]
            expect(some, [0.5, 0.25], f"values 1 and 2{how} are")
            numbers = [each.number for each in snapshot.records_of(GuardrailValue, [2, 0])]
            expect(numbers, [0, 1, 2], f"in order{how}, they are")


def test_refusals_count_once(case: Case) -> None:
    ledger = case.ledger()
    with ledger.transaction() as tx:
        assign(tx, [0, 1, 0, 1])
    for ids, new in (([2, 0], 2), ([0, 1, 2], 1)):
        with ledger.transaction() as tx:
            added = tx.add_refusals(ids_of(ids), np.full(len(ids), 9.0), at=2.0)
            expect(added, new, f"refusals of {ids} are counted as")
    for how, view in case.views(ledger):
        with view.transaction() as tx:
            added = tx.add_refusals(ids_of(range(3)), np.full(3, 9.0), at=4.0)
            expect(added, 0, f"known refusals are counted as new{how}:")


def test_reports_are_found_by_assignment(case: Case) -> None:
    """However far apart the assignments are, and however often each was reported."""
    ledger, size = case.ledger(), 2500
    with ledger.transaction() as tx:
        assign(tx, [0] * size)
        report(tx, [size - 1, 7, 0], [1.0, 2.0, 3.0])
        report(tx, range(0, size, 2), [0.5] * (size // 2))
        report(tx, [7, 8], [4.0, 5.0])
    for how, snapshot in case.snapshots(ledger):
        reports = snapshot.records_of(Report, [size - 1, 7, 8])
        found = [(each.assignment, each.reward) for each in reports]
        wanted = {7: [2.0, 4.0], 8: [0.5, 5.0], size - 1: [1.0]}
        for number, rewards in wanted.items():
            there = [reward for each, reward in found if each == number]
            expect(there, rewards, f"the reports of assignment {number}{how} read")
        expect(len(found), 5, f"the number of reports of three assignments{how} is")
        expect(snapshot.records_of(Report, []), [], f"the reports of no assignment{how} read")
        last = [each.number for each in snapshot.records(Report, size // 2 + 3)]
        expect(last, [size // 2 + 3, size // 2 + 4], f"the last reports{how} have the numbers")


def test_units_are_found_by_name(case: Case) -> None:
    """Each under its own name and decision point, whatever the letters, one or many at a time."""
    ledger, points = case.ledger(), ["", "1", "é %"]
    keys = [UnitKey(text, point) for point in points for text in TEXTS]
    keys += [UnitKey(f"visitor {number}") for number in range(130)]
    records = [about(number, *key) for number, key in enumerate(keys)]
    away = [about(-2, "visitor 1", "3"), about(-1, "visitor 2", "3")]  # nothing is drawn of these
    with ledger.transaction() as tx:
        assign(tx, [0] * len(keys))
        tx.add(*records[:7])
        tx.add()
        tx.add(*away[::-1])
        tx.add(*records[7:])
    wanted = dict(zip(keys, records, strict=True))
    unknown = [UnitKey("visitor 1", "1"), UnitKey("visitor"), UnitKey("a", "2"), UnitKey("e", "")]
    for how, snapshot in case.snapshots(ledger):
        expect(list(snapshot.records(UnitRecord)), records, f"units in order{how} read")
        expect(
            list(snapshot.records(UnitRecord, 5, 9)), records[5:9], f"some units in order{how} read"
        )
        expect(
            list(snapshot.records(UnitRecord, -9, 0)),
            away,
            f"units that are not available{how} read",
        )
        expect(snapshot.units_named([*keys, *unknown]), wanted, f"units by name{how} read")
        for key in (keys[0], keys[-1]):
            expect(snapshot.units_named([key]), {key: wanted[key]}, f"a unit by name{how} reads")
        expect(snapshot.units_named([]), {}, f"no units by name{how} read")
        expect(snapshot.units_named(unknown[:1]), {}, f"an unknown unit{how} reads")
        for text in TEXTS:
            mine = [number for number, key in enumerate(keys) if key.unit == text]
            expect(np.sort(snapshot.rounds_of(text)), mine, f"the rounds of {text!r}{how} are")


def test_a_unit_has_one_round_per_decision_point(case: Case) -> None:
    """Whoever else adds one at the same moment: of two rounds, none is kept."""
    ledger = case.ledger()
    with ledger.transaction() as tx:
        assign(tx, [0] * 9)
        tx.add(about(0, "ann", ""), about(1, "ann", "1"), about(2), about(3))
    with ledger.snapshot() as snapshot:
        before = contents(snapshot)
    for new in (about(4, "ann", ""), about(5, "ann", "1"), about(2, "zoe", "")):
        what = "a second round of a unit is taken, or a second unit of a round"
        with _refused(ledger, what) as tx:
            tx.head.units = 7
            tx.add(about(7, "new", ""), new)
        for how, snapshot in case.snapshots(ledger):
            expect_contents(snapshot, before, f"after a second round of a unit was refused{how}")


def test_erased_units_are_gone(case: Case) -> None:
    """All but the digest of a round is, and the name is free for a new one."""
    ledger = case.ledger()
    records = [about(0, "ann", "1", "{}"), about(1, "zoe", ""), about(2, "ann", "2")]
    with ledger.transaction() as tx:
        assign(tx, [0] * 4)
        tx.add(*records)
    with ledger.transaction() as tx:
        tx.erase_units(tx.rounds_of("ann"))
        expect(tx.rounds_of("ann"), [], "within the transaction that erased it, its rounds are")
    for how, snapshot in case.snapshots(ledger):
        found = [(each.digest, each.salt, each.unit) for each in snapshot.records(UnitRecord, 0, 9)]
        wanted = [(each.digest, None, None) for each in records]
        wanted[1] = records[1].digest, records[1].salt, "zoe"  # type: ignore[assignment]
        expect(found, wanted, f"units of which one is erased{how} read")
        texts = {
            (each.decision_point, each.covariates) for each in snapshot.records(UnitRecord, 0, 9)
        }
        expect(texts, {(None, None), ("", None)}, f"what is left of erased units{how} is")
        expect(snapshot.units_named([UnitKey("ann", "1")]), {}, f"an erased unit{how} reads")
    new = about(3, "ann", "1")
    with ledger.transaction() as tx:
        tx.add(new)
    ledger.purge()
    for how, snapshot in case.snapshots(ledger):
        key = UnitKey("ann", "1")
        expect(snapshot.units_named([key]), {key: new}, f"a unit of an erased name{how} reads")


def test_ranges_end_where_they_should(case: Case) -> None:
    """A range begins with its first id and ends before its last."""
    ledger, size = case.ledger(), 12
    with ledger.transaction() as tx:
        assign(tx, [0, 1] * 3, at=10.0)
        assign(tx, [1, 0] * 3, at=20.0)
        lose(tx, [2, 9])
        tell(tx, [0, 1, 2, 4, 7, 11], [0.0, 1.0, 2.0, 4.0, 7.0, 11.0], late=np.arange(6) == 2)
    with ledger.snapshot() as snapshot:
        for first in range(size + 1):
            for end in range(first, size + 1):
                where = f"from {first} up to {end}"
                ids = read_rows(snapshot, first, end)["id"]
                expect(ids, list(range(first, end)), f"the rows {where} are")
                free = [number for number in (3, 5, 6, 8, 10) if first <= number < end]
                least = snapshot.first_outstanding(first, end)
                expect(least, min(free, default=None), f"the first outstanding {where} is")
                for by, last in ((9.9, 0), (10.0, 6), (19.9, 6), (20.0, size)):
                    wanted = [number for number in free if number < last]
                    some = snapshot.outstanding(first, end, asked_by=by)
                    expect(some, wanted, f"the outstanding {where} by {by:g} are")
        expect(read_rows(snapshot, 0, size + 9)["id"], list(range(size)), "all rows are")
        expect((snapshot.asked_at(5), snapshot.asked_at(6)), (10.0, 20.0), "times of asking are")
        # The reward of an assignment that was lost is not used, but on record.
        answers = read_answers(snapshot, 0, 3)[["arm", "reward"]]
        expect(answers, [(0, 0.0), (1, 1.0), (0, math.nan)], "answers are")
        expect(read_answers(snapshot, 7, 8)[["arm", "reward"]], [(0, 7.0)], "a single answer is")
        rewards = rewards_of(snapshot, ids_of([11, 3, 0, 2]))
        expect(rewards, {11: 11.0, 0: 0.0, 2: 2.0}, "rewards by id are")
        nothing = (
            rewards_of(snapshot, ids_of([])),
            lost_of(snapshot, ids_of([])),
            lost_of(snapshot, ids_of([3, 11])),
        )
        expect(nothing, ({}, set(), set()), "where nothing is looked for there are")


def test_long_ranges_count_each_row_once(case: Case) -> None:
    """What was lost and then told is settled once: it must not stand for one that is awaited."""
    ledger = case.ledger()
    lost, awaited = _LONG_RANGE // 2, _LONG_RANGE - 7
    with ledger.transaction() as tx:
        assign(tx, [0] * _LONG_RANGE)
        lose(tx, [lost])
        told = [number for number in range(_LONG_RANGE) if number != awaited]
        tell(tx, told, [1.0] * len(told), late=np.array(told) == lost)
        found = tx.first_outstanding(0, _LONG_RANGE)
        expect(found, awaited, "within the transaction that told the rest, the first awaited is")
    for how, snapshot in case.snapshots(ledger):
        expect(
            snapshot.first_outstanding(0, _LONG_RANGE),
            awaited,
            f"afterwards{how} the first awaited is",
        )


# --- losses and deferrals ----------------------------------------------------------------------

_ARMS = [0, 1, 2, 0, 1, 2, 2, 1]


def test_losses_keep_their_order(case: Case) -> None:
    """The arms of lost assignments are read by phase, in the order of loss."""
    ledger = case.ledger()
    with ledger.transaction() as tx:
        assign(tx, _ARMS)
        lose(tx, [6, 1], reason="first", at=9.0)
        lose(tx, [4], reason="second", at=3.0)  # the clock may go back; the order may not
    with ledger.transaction() as tx:
        open_phase(tx, Plan.randomised([1.0, 0.0, 0.0], 4, phase=2))
        assign(tx, [0, 0, 0])
        lose(tx, [9, 0, 8, 3], reason="third", at=5.0)
    every = [*_ARMS, 0, 0, 0]
    for how, snapshot in case.snapshots(ledger):
        for phase, ids in {1: [6, 1, 4, 0, 3], 2: [9, 8], 3: []}.items():
            for start in range(len(ids) + 2):
                for size in range(len(ids) + 2):
                    wanted = [every[number] for number in ids[start : start + size]]
                    what = f"the arms lost in phase {phase} from number {start} on{how} are"
                    expect(snapshot.lost_arms(phase, start, size), wanted, what)
        lost = lost_of(snapshot, ids_of(range(11)))
        expect(lost, {0, 1, 3, 4, 6, 8, 9}, f"the lost{how} are")


def _open_second_phase(tx: Transaction) -> None:
    open_phase(tx, Plan.randomised([0.5, 0.5, 0.0], 4, phase=2, open=True))
    assign(tx, [0, 1, 1])


def _lose_and_tell(tx: Transaction) -> None:
    lose(tx, [4])
    tell(tx, [4], [1.0], late=[True])


# What is done; the deferrals that it changes, each with the summary that covers it or −1; and the
# deferred assignments that have arrived then. Phase 1 has assignments 0 to 7; 1 and 6 were told.
_DEFERRAL_STEPS: list[tuple[str, Callable[[Transaction], Any], dict[int, int], list[int]]] = [
    (
        "deferring",
        lambda tx: tx.add_deferrals(ids_of([0, 2, 3, 4, 5, 7])),
        dict.fromkeys([0, 2, 3, 4, 5, 7], -1),
        [],
    ),
    ("opening the next phase", _open_second_phase, {}, []),
    ("telling 7 and 3", lambda tx: tell(tx, [7, 3], [1.0, 2.0]), {}, [3, 7]),
    ("losing 5 and 0", lambda tx: lose(tx, [5, 0]), {}, [0, 3, 5, 7]),
    (
        "covering 7 and 0",
        lambda tx: tx.settle_deferrals(ids_of([7, 0]), summary=1),
        {0: 1, 7: 1},
        [3, 5],
    ),
    ("losing 4 and telling it late", _lose_and_tell, {}, [3, 4, 5]),
    ("deferring 9", lambda tx: tx.add_deferrals(ids_of([9])), {9: -1}, [3, 4, 5]),
    ("telling 8", lambda tx: tell(tx, [8], [3.0]), {}, [3, 4, 5]),
    ("losing 9", lambda tx: lose(tx, [9]), {}, [3, 4, 5, 9]),
    (
        "covering 3, 4, 5 and 9",
        lambda tx: tx.settle_deferrals(ids_of([3, 4, 5, 9]), summary=2),
        {3: 2, 4: 2, 5: 2, 9: 2},
        [],
    ),
]


def test_deferrals_are_kept(case: Case) -> None:
    """A deferred assignment arrives once it is told or lost, until a summary covers it.

    A policy is never told of an arrival that the ledger does not list.
    """
    ledger, deferred = case.ledger(), dict[int, int]()
    with ledger.transaction() as tx:
        assign(tx, _ARMS)
        tell(tx, [1, 6], [0.5, 0.25])
    for name, step, changed, arrived in _DEFERRAL_STEPS:
        deferred |= changed
        with ledger.transaction() as tx:
            step(tx)
            _expect_deferrals(tx, deferred, arrived, f"after {name}, within the transaction,")
        for how, snapshot in case.snapshots(ledger):
            _expect_deferrals(snapshot, deferred, arrived, f"after {name}{how}")


def _expect_deferrals(
    snapshot: Snapshot, deferred: dict[int, int], arrived: list[int], where: str
) -> None:
    expect(snapshot.arrivals(), arrived, f"{where} the arrivals are")
    for first in (0, 3, 4):
        for end in (3, 4, 8, 2**62):
            among = {number: by for number, by in deferred.items() if first <= number < end}
            waiting = [number for number, by in among.items() if by < 0]
            what = f"{where} the deferred from {first} up to {end} are"
            expect(snapshot.deferrals(first, end), ([*among], [*among.values()]), what)
            found = snapshot.deferrals(first, end, waiting=True)
            expect(found, (waiting, [-1] * len(waiting)), f"{what} (those waiting)")


def test_many_are_deferred(case: Case) -> None:
    """Many deferrals are written and read like a few."""
    ledger, ids = case.ledger(), np.arange(case.many)
    with ledger.transaction() as tx:
        assign(tx, (ids % 3).tolist())
        tx.add_deferrals(ids)
        lose(tx, ids.tolist())
        tx.settle_deferrals(ids[::2], summary=0)
    with ledger.snapshot() as snapshot:
        deferred, covered_by = snapshot.deferrals()
        same = np.array_equal(deferred, ids) and np.array_equal(covered_by, -(ids % 2))
        require(same, f"of {len(ids)} deferred assignments {len(deferred)} are read, or others")
        arrived = snapshot.arrivals()
        same = np.array_equal(arrived, ids[1::2])
        require(same, f"of {len(ids)} deferred assignments {len(arrived)} arrived, or others")


# --- numbers, texts, and many rows --------------------------------------------------------------


def test_numbers_are_kept_to_the_bit(case: Case) -> None:
    """Numbers are read back exactly, the smallest and the largest too."""
    ledger, size = case.ledger(), len(FLOATS)
    weights = np.array([1 / 3, 2 / 3 - 1e-17, 5e-17])
    plan = Plan.randomised(weights / weights.sum(), 2**52 + 1, phase=2, open=True, most=2**53 - 1)
    counts, chances = np.arange(1, size + 1), np.abs(FLOATS) / np.abs(FLOATS).max()
    summary = Summary(counts, np.array(FLOATS), np.abs(FLOATS), counts)
    summed = SummaryRecord(0, 1, 0, 2**61, True, summary, "a" * 64)
    request = Request("large", 2**62 + 1, 0, size, 2**61 + 1)
    planned, at = PlanRecord(plan, 2**60 + 1, 2**59 + 1), 1_767_225_600.123_456_7
    data = {"floats": FLOATS, "whole": 2**62 + 1}
    with ledger.transaction() as tx:
        tx.add_assignments(np.zeros(size, dtype=np.int64), chances, at=at)
        tx.add(request)
        tx.head.assigned += size
        tell(tx, list(range(size)), FLOATS, at=at)
        tx.add(summed)
        tx.head.summaries += 1
        tx.add(planned)
        log(tx, "numbers", at, **data)
    numbers = {"reward": FLOATS, "probability": chances.tolist(), "asked": [at] * size}
    for how, snapshot in case.snapshots(ledger):
        rows = read_rows(snapshot, 0, size)
        for name, wanted in numbers.items():  # as texts, which tell 0 from -0
            expect(repr(rows[name].tolist()), repr(wanted), f"the numbers of {name}{how} read")
        expect(read_answers(snapshot, 0, size)["reward"], FLOATS, f"answers{how} read")
        expect(list(rewards_of(snapshot, np.arange(size)).values()), FLOATS, f"rewards{how} read")
        expect(list(snapshot.summaries()), [summed], f"a summary{how} reads")
        expect(snapshot.plan(2), planned, f"a plan{how} reads")
        expect(snapshot.request("large"), request, f"a request{how} reads")
        last = list(snapshot.events())[-1]
        expect((last.at, last.data), (at, data), f"an event{how} reads")


def test_rounds_are_kept(case: Case) -> None:
    """Assignments of one round are read back as such, and so are plans over blocks and rounds."""
    ledger = case.ledger()
    pairs = [[0, 1], [0, 2], [1, 2]]
    plan = BlockPlan.drawn(pairs, [0.5, 1 / 3, 1 / 6], 2, arms=3, phase=2, open=True, center=0.5)
    whole = BlockPlan.drawn([[0, 1, 2]], [1.0], 1, arms=3, phase=3, open=True, provisional=True)
    table = [[0.1, np.nan], [np.nan, -2.0]]
    awaited = [[False, False], [True, False]]
    summed = SummaryRecord(0, 2, 0, 4, False, Rounds.of(plan, [2, 0], table, awaited), "b" * 64)
    with ledger.transaction() as tx:
        open_phase(tx, plan)
        assign(tx, [2, 1, 0, 1])
        tx.add(summed)
        tx.head.summaries += 1
        open_phase(tx, whole)
        assign(tx, [1, 0, 2], request="three")
    for how, snapshot in case.snapshots(ledger):
        rounds = read_rows(snapshot, 0, 7)["round"]
        expect(rounds, [0, 0, 1, 1, 2, 2, 2], f"the rounds of assignments{how} read")
        expect((snapshot.head.size, snapshot.head.rounds), (3, 3), f"size and rounds{how} read")
        expect(list(snapshot.summaries()), [summed], f"a summary of rounds{how} reads")
        wanted = [PlanRecord(plan, 0, 0), PlanRecord(whole, 4, 2)]
        expect(list(snapshot.plans(2)), wanted, f"plans over blocks{how} read")


def test_counters_are_kept(case: Case) -> None:
    """Counters are read back exactly, unset and large ones too."""
    ledger, at, many = case.ledger(), 1_767_225_600.223_456_7, 2**62 + 1
    large = Head()
    for name in ("lease", "lowest", "highest", "oldest", "last_time", "spread"):
        setattr(large, name, at)
    for name in ("assigned", "outcomes", "losses", "late", "refusals", "limit", "summary_end"):
        setattr(large, name, many)
    mixed = Head(lease=0.1, limit=7, oldest=-1e-300, last_time=0.0, lowest=-0.5, highest=0.5)
    for head in (large, Head(), mixed):
        with ledger.transaction() as tx:
            vars(tx.head).update(vars(head))
        for how, snapshot in case.snapshots(ledger):
            expect(snapshot.head, head, f"the counters{how} read")


def test_texts_are_kept(case: Case) -> None:
    """Texts are read back exactly, and told apart."""
    ledger = case.ledger()
    with ledger.transaction() as tx:
        for number, text in enumerate(TEXTS):
            assign(tx, [0], request=text)
            lose(tx, [number], reason=text)
            log(tx, "noted", 1.0, text=text, **{f"key {text}": [text]})
    unknown = {"A", "a%", "_", "", "e", *(text + " " for text in TEXTS)} - set(TEXTS)
    for how, snapshot in case.snapshots(ledger):
        for number, text in enumerate(TEXTS):
            wanted = Request(text, 2, number, 1, 1)
            expect(snapshot.request(text), wanted, f"the request {text!r}{how} is found as")
        for text in sorted(unknown):
            expect(snapshot.request(text), None, f"the request {text!r}{how} is found as")
        noted = [event.data for event in snapshot.events() if event.kind == "noted"]
        for text, data in zip(TEXTS, noted, strict=True):
            wanted_data = {"text": text, f"key {text}": [text]}
            expect(data, wanted_data, f"an event of {text!r}{how} is read back as")


def test_many_at_once(case: Case) -> None:
    """Many rows are written, counted and read like a few."""
    ledger, size = case.ledger(), case.many
    ids, last = np.arange(size), size - 1
    arms, rewards = ids % 3, np.sqrt(ids)
    order = np.random.default_rng(0).permutation(size)
    with ledger.transaction() as tx:
        tx.add_assignments(arms, (arms + 1) / 3, at=1.0)
        tx.head.assigned += size
        free = tx.outstanding(0, size, asked_by=1.0)
        require(np.array_equal(free, ids), f"of {size} new assignments {len(free)} are outstanding")
        told = order[order != last]
        tell(tx, told.tolist(), rewards[told].tolist())
        expect(
            tx.first_outstanding(0, size), last, "with one outcome missing, the first awaited is"
        )
        tell(tx, [last], [-float(rewards[last])], at=3.0)
        expect(tx.first_outstanding(0, size), None, "with all outcomes told, the first awaited is")
    rewards[last] *= -1
    columns = {"id": ids, "arm": arms, "reward": rewards, "asked": np.ones(size)}
    columns["told"] = np.where(ids == last, 3.0, 2.0)
    with ledger.snapshot() as snapshot:
        for first, end in ((0, size), (0, last), (7, size - 7)):
            for read in (read_rows, read_answers):
                table = read(snapshot, first, end)
                for name in columns.keys() & set(table.dtype.names or ()):
                    same = np.array_equal(table[name], columns[name][first:end])
                    require(same, f"the {name} of rows {first} to {end} are others")
                require(
                    bool(np.isnan(table["lost"]).all()), f"of rows {first} to {end} some are lost"
                )
        wanted = ids_of([last, 0, size // 2, 1])
        known = {number: float(rewards[number]) for number in wanted.tolist()}
        expect(rewards_of(snapshot, wanted), known, "rewards of ids far apart are")
        expect(len(rewards_of(snapshot, ids)), size, "rewards are as many as")
    few = size // 10
    with ledger.transaction() as tx:
        for number in range(few):
            log(tx, "counted", 1.0, number=number)
        tx.add_assignments(arms, (arms + 1) / 3, at=1.0)
        tx.head.assigned += size
        lose(tx, (size + order).tolist(), reason="all")
    with ledger.snapshot() as snapshot:
        count = snapshot.head.events
        counted = [event.data["number"] for event in snapshot.events() if event.kind == "counted"]
        require(counted == list(range(few)), f"of {few} events {len(counted)} are read")
        for start, end in ((0, 1), (1, 8), (few // 2, few // 2 + 5_001), (count - 1, ALL)):
            found = [event.number for event in snapshot.events(start, end)]
            right = list(range(start, min(end, count)))
            require(found == right, f"events {start} up to {end} are {len(found)}")
        lost = snapshot.lost_arms(1, 0, size)
        require(np.array_equal(lost, arms[order]), f"the arms of {size} lost are in another order")
        expect(len(lost_of(snapshot, np.arange(2 * size))), size, "the lost are as many as")


def test_nobody_is_overwritten(case: Case) -> None:
    """Who writes sees what others wrote."""
    ledger, size = case.ledger(), 16
    with ledger.transaction() as tx:
        assign(tx, [0, 1] * (size // 2))
    opened = case.views(ledger)
    views = [view for _, view in islice(opened, 2)]
    for number, who in enumerate("0010110101100111"):
        with views[int(who) % len(views)].transaction() as tx:
            if number % 3 == 2:
                expect(rewards_of(tx, ids_of([number])), {}, "what is not told yet reads")
            tx.head.outcomes += 1
            tell(tx, [number], [number / 8])
    for _ in opened:  # which closes them
        pass
    for how, snapshot in case.snapshots(ledger):
        expect(snapshot.head.outcomes, size, f"the outcomes told by turns{how} are counted as")
        told = {number: number / 8 for number in range(size)}
        expect(rewards_of(snapshot, np.arange(size)), told, f"outcomes told by turns{how} read")


def test_numbers_may_be_larger_than_any_experiment(case: Case) -> None:
    """Ids beyond 32 and 53 bits are found and not confused."""
    ledger = case.make()
    for start in (2**31 - 1, 2**53, 2**62):
        ids = np.arange(start, start + 3)
        with ledger.transaction() as tx:
            tx.head.assigned = start
            tx.add_assignments(np.array([0, 1, 2]), np.ones(3), at=1.0)
            tx.head.assigned = start + 3
            tx.add_outcomes([start + 2, start], [2.0, 0.5], at=2.0, late=[False, False])
            assert tx.first_outstanding(start, start + 3) == start + 1
            tx.add_losses([start + 1], reason="", at=3.0)
            tx.head.losses += 1
        with ledger.snapshot() as snapshot:
            assert rewards_of(snapshot, ids) == {start: 0.5, start + 2: 2.0}
            assert lost_of(snapshot, ids) == {start + 1}
            (rows,) = snapshot.rows(start, start + 3)
            assert rows["id"].tolist() == ids.tolist()
    with ledger.snapshot() as snapshot:
        every = np.array([2**62, 2**31, 2**53 + 2, 2**53 + 1])
        assert rewards_of(snapshot, every) == {2**62: 0.5, 2**53 + 2: 2.0}
        assert lost_of(snapshot, every) == {2**31, 2**53 + 1}
