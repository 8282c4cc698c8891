"""Laws of the store contract on what is read back: numbers, texts, and many rows."""

from __future__ import annotations

from itertools import islice

import numpy as np

from bestarm.live.events import log
from bestarm.live.store.contract import (
    Head,
    PlanRecord,
    Request,
    SummaryRecord,
)
from bestarm.records import BlockPlan, Plan, Rounds, Summary
from bestarm.testing.store_samples import (
    FLOATS,
    TEXTS,
    Case,
    expect,
    give_some,
    ids_of,
    lose_some,
    lost_of,
    open_phase,
    read_answers,
    read_rows,
    require,
    rewards_of,
    tell_some,
)


def numbers_are_kept_to_the_bit(case: Case) -> None:
    """Numbers are read back exactly, the smallest and the largest too."""
    ledger, size = case.books(), len(FLOATS)
    weights = np.array([1 / 3, 2 / 3 - 1e-17, 5e-17])
    plan = Plan.randomised(weights / weights.sum(), 2**52 + 1, phase=2, open=True, most=2**53 - 1)
    counts, chances = np.arange(1, size + 1), np.abs(FLOATS) / np.abs(FLOATS).max()
    summary = Summary(counts, np.array(FLOATS), np.abs(FLOATS), counts)
    summed = SummaryRecord(0, 1, 0, 2**61, True, summary, "a" * 64)
    request = Request("large", 2**62 + 1, 0, size, 2**61 + 1)
    planned, at = PlanRecord(plan, 2**60 + 1, 2**59 + 1), 1_767_225_600.123_456_7
    data = {"floats": FLOATS, "whole": 2**62 + 1}
    with ledger.transaction() as tx:
        tx.add_assignments(np.zeros(size, dtype=np.int64), chances, at=at, request=request)
        tx.head.assigned += size
        tell_some(tx, list(range(size)), FLOATS, at=at)
        tx.add_summary(summed)
        tx.head.summaries += 1
        tx.add_plan(planned)
        log(tx, "numbers", at, **data)
    numbers = {"reward": FLOATS, "probability": chances.tolist(), "asked": [at] * size}
    for how, books in case.readings(ledger):
        rows = read_rows(books, 0, size)
        for name, wanted in numbers.items():  # as texts, which tell 0 from -0
            expect(repr(rows[name].tolist()), repr(wanted), f"the numbers of {name}{how} read")
        expect(read_answers(books, 0, size)["reward"], FLOATS, f"answers{how} read")
        expect(list(rewards_of(books, np.arange(size)).values()), FLOATS, f"rewards{how} read")
        expect(list(books.summaries()), [summed], f"a summary{how} reads")
        expect(books.plan(2), planned, f"a plan{how} reads")
        expect(books.request("large"), request, f"a request{how} reads")
        last = list(books.events())[-1]
        expect((last.at, last.data), (at, data), f"an event{how} reads")


def rounds_are_kept(case: Case) -> None:
    """Assignments of one round are read back as such, and so are plans over blocks and rounds."""
    ledger = case.books()
    pairs = [[0, 1], [0, 2], [1, 2]]
    plan = BlockPlan.drawn(pairs, [0.5, 1 / 3, 1 / 6], 2, arms=3, phase=2, open=True, center=0.5)
    whole = BlockPlan.drawn([[0, 1, 2]], [1.0], 1, arms=3, phase=3, open=True, provisional=True)
    table = [[0.1, np.nan], [np.nan, -2.0]]
    awaited = [[False, False], [True, False]]
    summed = SummaryRecord(0, 2, 0, 4, False, Rounds.of(plan, [2, 0], table, awaited), "b" * 64)
    with ledger.transaction() as tx:
        open_phase(tx, plan)
        give_some(tx, [2, 1, 0, 1])
        tx.add_summary(summed)
        tx.head.summaries += 1
        open_phase(tx, whole)
        give_some(tx, [1, 0, 2], request="three")
    for how, books in case.readings(ledger):
        rounds = read_rows(books, 0, 7)["round"]
        expect(rounds, [0, 0, 1, 1, 2, 2, 2], f"the rounds of assignments{how} read")
        expect((books.head.size, books.head.rounds), (3, 3), f"size and rounds{how} read")
        expect(list(books.summaries()), [summed], f"a summary of rounds{how} reads")
        wanted = [PlanRecord(plan, 0, 0), PlanRecord(whole, 4, 2)]
        expect(list(books.plans(2)), wanted, f"plans over blocks{how} read")


def counters_are_kept(case: Case) -> None:
    """Counters are read back exactly, unset and large ones too."""
    ledger, at, many = case.books(), 1_767_225_600.223_456_7, 2**62 + 1
    large = Head()
    for name in ("lease", "lowest", "highest", "oldest", "last_time", "spread"):
        setattr(large, name, at)
    for name in ("assigned", "outcomes", "losses", "late", "refusals", "limit", "summary_end"):
        setattr(large, name, many)
    mixed = Head(lease=0.1, limit=7, oldest=-1e-300, last_time=0.0, lowest=-0.5, highest=0.5)
    for head in (large, Head(), mixed):
        with ledger.transaction() as tx:
            vars(tx.head).update(vars(head))
        for how, books in case.readings(ledger):
            expect(books.head, head, f"the counters{how} read")


def texts_are_kept(case: Case) -> None:
    """Texts are read back exactly, and told apart."""
    ledger = case.books()
    with ledger.transaction() as tx:
        for number, text in enumerate(TEXTS):
            give_some(tx, [0], request=text)
            lose_some(tx, [number], reason=text)
            log(tx, "said", 1.0, text=text, **{f"key {text}": [text]})
    unknown = {"A", "a%", "_", "", "e", *(text + " " for text in TEXTS)} - set(TEXTS)
    for how, books in case.readings(ledger):
        for number, text in enumerate(TEXTS):
            wanted = Request(text, 2, number, 1, 1)
            expect(books.request(text), wanted, f"the request {text!r}{how} is found as")
        for text in sorted(unknown):
            expect(books.request(text), None, f"the request {text!r}{how} is found as")
        said = [event.data for event in books.events() if event.kind == "said"]
        for text, data in zip(TEXTS, said, strict=True):
            wanted_data = {"text": text, f"key {text}": [text]}
            expect(data, wanted_data, f"an event of {text!r}{how} is read back as")


def many_at_once(case: Case) -> None:
    """Many rows are written, counted and read like a few."""
    ledger, size = case.books(), case.many
    ids, last = np.arange(size), size - 1
    arms, rewards = ids % 3, np.sqrt(ids)
    order = np.random.default_rng(0).permutation(size)
    with ledger.transaction() as tx:
        tx.add_assignments(arms, (arms + 1) / 3, at=1.0, request=None)
        tx.head.assigned += size
        free = tx.outstanding(0, size, asked_by=1.0)
        require(np.array_equal(free, ids), f"of {size} new assignments {len(free)} are outstanding")
        told = order[order != last]
        tell_some(tx, told.tolist(), rewards[told].tolist())
        expect(
            tx.first_outstanding(0, size), last, "with one outcome missing, the first awaited is"
        )
        tell_some(tx, [last], [-float(rewards[last])], at=3.0)
        expect(tx.first_outstanding(0, size), None, "with all outcomes told, the first awaited is")
    rewards[last] *= -1
    columns = {"id": ids, "arm": arms, "reward": rewards, "asked": np.ones(size)}
    columns["told"] = np.where(ids == last, 3.0, 2.0)
    with ledger.snapshot() as books:
        for first, end in ((0, size), (0, last), (7, size - 7)):
            for read in (read_rows, read_answers):
                table = read(books, first, end)
                for name in columns.keys() & set(table.dtype.names or ()):
                    same = np.array_equal(table[name], columns[name][first:end])
                    require(same, f"the {name} of rows {first} to {end} are others")
                require(
                    bool(np.isnan(table["lost"]).all()), f"of rows {first} to {end} some are lost"
                )
        wanted = ids_of([last, 0, size // 2, 1])
        known = {number: float(rewards[number]) for number in wanted.tolist()}
        expect(rewards_of(books, wanted), known, "rewards of ids far apart are")
        expect(len(rewards_of(books, ids)), size, "rewards are as many as")
    few = size // 10
    with ledger.transaction() as tx:
        for number in range(few):
            log(tx, "counted", 1.0, number=number)
        tx.add_assignments(arms, (arms + 1) / 3, at=1.0, request=None)
        tx.head.assigned += size
        lose_some(tx, (size + order).tolist(), reason="all")
    with ledger.snapshot() as books:
        count = books.head.events
        counted = [event.data["number"] for event in books.events() if event.kind == "counted"]
        require(counted == list(range(few)), f"of {few} events {len(counted)} are read")
        for start, limit in ((0, 1), (1, 7), (few // 2, 5_001), (count - 1, None)):
            found = [event.number for event in books.events(start, limit=limit)]
            right = list(range(start, count if limit is None else min(start + limit, count)))
            require(found == right, f"{limit} events from {start} on are {len(found)}")
        lost = books.lost_arms(1, 0, size)
        require(np.array_equal(lost, arms[order]), f"the arms of {size} lost are in another order")
        expect(len(lost_of(books, np.arange(2 * size))), size, "the lost are as many as")


def nobody_is_overwritten(case: Case) -> None:
    """Who writes sees what others wrote."""
    ledger, size = case.books(), 16
    with ledger.transaction() as tx:
        give_some(tx, [0, 1] * (size // 2))
    opened = case.views(ledger)
    views = [view for _, view in islice(opened, 2)]
    for number, who in enumerate("0010110101100111"):
        with views[int(who) % len(views)].transaction() as tx:
            if number % 3 == 2:
                expect(rewards_of(tx, ids_of([number])), {}, "what is not told yet reads")
            tx.head.outcomes += 1
            tell_some(tx, [number], [number / 8])
    for _ in opened:  # which closes them
        pass
    for how, books in case.readings(ledger):
        expect(books.head.outcomes, size, f"the outcomes told by turns{how} are counted as")
        told = {number: number / 8 for number in range(size)}
        expect(rewards_of(books, np.arange(size)), told, f"outcomes told by turns{how} read")
