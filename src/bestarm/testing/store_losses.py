"""Laws of the store contract on lost and deferred assignments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bestarm.live.store.contract import Reading, Writing
from bestarm.records import Plan
from bestarm.testing.store_samples import (
    Case,
    expect,
    give_some,
    ids_of,
    lose_some,
    lost_of,
    open_phase,
    require,
    tell_some,
)

_ARMS = [0, 1, 2, 0, 1, 2, 2, 1]


def losses_keep_their_order(case: Case) -> None:
    """The arms of lost assignments are read by phase, in the order of loss."""
    ledger = case.books()
    with ledger.transaction() as tx:
        give_some(tx, _ARMS)
        lose_some(tx, [6, 1], reason="first", at=9.0)
        lose_some(tx, [4], reason="second", at=3.0)  # the clock may go back; the order may not
    with ledger.transaction() as tx:
        open_phase(tx, Plan.randomised([1.0, 0.0, 0.0], 4, phase=2))
        give_some(tx, [0, 0, 0])
        lose_some(tx, [9, 0, 8, 3], reason="third", at=5.0)
    every = [*_ARMS, 0, 0, 0]
    for how, reading in case.readings(ledger):
        for phase, ids in {1: [6, 1, 4, 0, 3], 2: [9, 8], 3: []}.items():
            for start in range(len(ids) + 2):
                for count in range(len(ids) + 2):
                    wanted = [every[number] for number in ids[start : start + count]]
                    what = f"the arms lost in phase {phase} from number {start} on{how} are"
                    expect(reading.lost_arms(phase, start, count), wanted, what)
        lost = lost_of(reading, ids_of(range(11)))
        expect(lost, {0, 1, 3, 4, 6, 8, 9}, f"the lost{how} are")


def _open_second_phase(tx: Writing) -> None:
    open_phase(tx, Plan.randomised([0.5, 0.5, 0.0], 4, phase=2, open=True))
    give_some(tx, [0, 1, 1])


def _lose_and_tell(tx: Writing) -> None:
    lose_some(tx, [4])
    tell_some(tx, [4], [1.0], late=[True])


# What is done; the deferrals that it changes, each with the summary that covers it or −1; and the
# deferred assignments that have arrived then. Phase 1 has assignments 0 to 7; 1 and 6 were told.
_STEPS: list[tuple[str, Callable[[Writing], Any], dict[int, int], list[int]]] = [
    (
        "deferring",
        lambda tx: tx.add_deferrals(ids_of([0, 2, 3, 4, 5, 7])),
        dict.fromkeys([0, 2, 3, 4, 5, 7], -1),
        [],
    ),
    ("opening the next phase", _open_second_phase, {}, []),
    ("telling 7 and 3", lambda tx: tell_some(tx, [7, 3], [1.0, 2.0]), {}, [3, 7]),
    ("losing 5 and 0", lambda tx: lose_some(tx, [5, 0]), {}, [0, 3, 5, 7]),
    (
        "covering 7 and 0",
        lambda tx: tx.settle_deferrals(ids_of([7, 0]), summary=1),
        {0: 1, 7: 1},
        [3, 5],
    ),
    ("losing 4 and telling it late", _lose_and_tell, {}, [3, 4, 5]),
    ("deferring 9", lambda tx: tx.add_deferrals(ids_of([9])), {9: -1}, [3, 4, 5]),
    ("telling 8", lambda tx: tell_some(tx, [8], [3.0]), {}, [3, 4, 5]),
    ("losing 9", lambda tx: lose_some(tx, [9]), {}, [3, 4, 5, 9]),
    (
        "covering 3, 4, 5 and 9",
        lambda tx: tx.settle_deferrals(ids_of([3, 4, 5, 9]), summary=2),
        {3: 2, 4: 2, 5: 2, 9: 2},
        [],
    ),
]


def deferrals_are_kept(case: Case) -> None:
    """A deferred assignment arrives once it is told or lost, until a summary covers it.

    A policy is never told of an arrival that the ledger does not list.
    """
    ledger, deferred = case.books(), dict[int, int]()
    with ledger.transaction() as tx:
        give_some(tx, _ARMS)
        tell_some(tx, [1, 6], [0.5, 0.25])
    for name, step, changed, arrived in _STEPS:
        deferred |= changed
        with ledger.transaction() as tx:
            step(tx)
            _expect_deferrals(tx, deferred, arrived, f"after {name}, within the transaction,")
        for how, reading in case.readings(ledger):
            _expect_deferrals(reading, deferred, arrived, f"after {name}{how}")


def _expect_deferrals(
    reading: Reading, deferred: dict[int, int], arrived: list[int], where: str
) -> None:
    expect(reading.arrivals(), arrived, f"{where} the arrivals are")
    for first in (0, 3, 4):
        for end in (3, 4, 8, 2**62):
            among = {number: by for number, by in deferred.items() if first <= number < end}
            waiting = [number for number, by in among.items() if by < 0]
            what = f"{where} the deferred from {first} up to {end} are"
            expect(reading.deferrals(first, end), ([*among], [*among.values()]), what)
            found = reading.deferrals(first, end, waiting=True)
            expect(found, (waiting, [-1] * len(waiting)), f"{what} (those waiting)")


def many_are_deferred(case: Case) -> None:
    """Many deferrals are written and read like a few."""
    ledger, ids = case.books(), np.arange(case.many)
    with ledger.transaction() as tx:
        give_some(tx, (ids % 3).tolist())
        tx.add_deferrals(ids)
        lose_some(tx, ids.tolist())
        tx.settle_deferrals(ids[::2], summary=0)
    with ledger.snapshot() as reading:
        deferred, covered_by = reading.deferrals()
        same = np.array_equal(deferred, ids) and np.array_equal(covered_by, -(ids % 2))
        require(same, f"of {len(ids)} deferred assignments {len(deferred)} are read, or others")
        arrived = reading.arrivals()
        same = np.array_equal(arrived, ids[1::2])
        require(same, f"of {len(ids)} deferred assignments {len(arrived)} arrived, or others")
