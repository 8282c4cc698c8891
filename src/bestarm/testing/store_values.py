"""Laws of the store contract on what is read back: ranges, numbers, texts, and many rows."""

from __future__ import annotations

import math

import numpy as np

from bestarm.live.events import as_data, log
from bestarm.live.store.contract import Head, PlanRecord, Reading, Request, SummaryRecord
from bestarm.records import Plan, Summary
from bestarm.testing.store_samples import (
    FLOATS,
    TEXTS,
    Case,
    give_some,
    ids_of,
    lose_some,
    plan_record_data,
    read_answers,
    read_rewards,
    read_rows,
    require,
    summary_record_data,
    tell_some,
)

_LONG = 700  # rows: more than are looked at one by one where counting will do


def ranges_end_where_they_should(case: Case) -> None:
    """A range begins with its first id and ends before its last."""
    ledger, size = case.books(), 12
    with ledger.writing() as tx:
        give_some(tx, [0, 1] * 3, at=10.0)
        give_some(tx, [1, 0] * 3, at=20.0)
        lose_some(tx, [2, 9], reason="", at=30.0)
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


def long_ranges_count_each_row_once(case: Case) -> None:
    """What was lost and then told is settled once: it must not stand for one that is awaited."""
    ledger, size = case.books(), _LONG
    lost, awaited = size // 2, size - 7
    with ledger.writing() as tx:
        give_some(tx, [0] * size)
        lose_some(tx, [lost], reason="", at=2.0)
        told = [number for number in range(size) if number != awaited]
        tell_some(tx, told, [1.0] * len(told), late=np.array(told) == lost, at=3.0)
        _require_awaited(tx, size, awaited, "within the transaction that told them")
    for how, view in case.views(ledger):
        with view.reading() as books:
            _require_awaited(books, size, awaited, f"afterwards{how}")


def _require_awaited(books: Reading, size: int, awaited: int, where: str) -> None:
    found = books.first_outstanding(0, size)
    require(found == awaited, f"of {size} the first awaited is {found}, not {awaited}, {where}")


def numbers_are_kept_to_the_bit(case: Case) -> None:
    """Numbers are read back exactly, the smallest and the largest too."""
    ledger, size = case.books(), len(FLOATS)
    weights = np.array([1 / 3, 2 / 3 - 1e-17, 5e-17])
    plan = Plan.randomised(weights / weights.sum(), 2**52 + 1, phase=2, open=True, most=2**53 - 1)
    counts = np.arange(1, size + 1)
    summary = Summary(counts, np.array(FLOATS), np.abs(FLOATS), counts)
    record = SummaryRecord(0, 1, 0, 2**61, True, summary, "a" * 64)
    request = Request("large", 2**62 + 1, 0, size, 2**61 + 1)
    at = 1_767_225_600.123_456_7
    with ledger.writing() as tx:
        chances = np.abs(FLOATS) / np.abs(FLOATS).max()
        tx.add_assignments(np.zeros(size, dtype=np.int64), chances, at=at, request=request)
        tx.head.assigned += size
        tell_some(tx, list(range(size)), FLOATS, at=at)
        tx.add_summary(record)
        tx.head.summaries += 1
        tx.add_plan(PlanRecord(plan, 2**60 + 1))
        log(tx, "numbers", at, floats=FLOATS, whole=2**62 + 1)
    for how, view in case.views(ledger):
        with view.reading() as books:
            rows = read_rows(books, 0, size)
            for name, wanted in (("reward", FLOATS), ("probability", chances.tolist())):
                for one, other in zip(rows[name].tolist(), wanted, strict=True):
                    same = math.copysign(1, one) == math.copysign(1, other) and one == other
                    require(same, f"a {name} of {other!r} is read back as {one!r}{how}")
            require(set(rows["asked"].tolist()) == {at}, f"a time is read back another{how}")
            answers = read_answers(books, 0, size)["reward"].tolist()
            require(answers == FLOATS, f"answers are rounded{how}")
            require(list(read_rewards(books).values()) == FLOATS, f"rewards are rounded{how}")
            (found,) = books.summaries()
            same = summary_record_data(found) == summary_record_data(record)
            require(same, f"a summary is read back another{how}")
            same = plan_record_data(books.plan(2)) == (as_data(plan), 2**60 + 1)
            require(same, f"a plan is read back another{how}")
            require(books.request("large") == request, f"a request is read back another{how}")
            last = list(books.events())[-1]
            same = last.at == at and last.data == {"floats": FLOATS, "whole": 2**62 + 1}
            require(same, f"an event is read back another{how}")


def counters_are_kept(case: Case) -> None:
    """Counters are read back exactly, unset and large ones too."""
    ledger, at, many = case.books(), 1_767_225_600.223_456_7, 2**62 + 1
    large = Head()
    for name in ("lease", "lowest", "highest", "oldest", "last_time", "clock_setback"):
        setattr(large, name, at)
    for name in ("assigned", "outcomes", "losses", "late", "refusals", "limit", "summary_end"):
        setattr(large, name, many)
    mixed = Head(lease=0.1, limit=7, oldest=-1e-300, last_time=0.0, lowest=-0.5, highest=0.5)
    for head in (large, Head(), mixed):
        with ledger.writing() as tx:
            for name, value in vars(head).items():
                setattr(tx.head, name, value)
        for how, view in case.views(ledger):
            with view.reading() as books:
                require(books.head == head, f"the counters {head} are read as {books.head}{how}")


def texts_are_kept(case: Case) -> None:
    """Texts are read back exactly, and told apart."""
    ledger = case.books()
    with ledger.writing() as tx:
        for number, text in enumerate(TEXTS):
            give_some(tx, [0], request=text)
            lose_some(tx, [number], reason=text, at=1.0)
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


def many_at_once(case: Case) -> None:
    """Many rows are written, counted and read like a few."""
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
        lose_some(tx, (size + order).tolist(), reason="all", at=4.0)
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
