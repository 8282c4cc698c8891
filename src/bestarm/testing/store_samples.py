"""What the laws of a ledger are tried with: something of everything, and pictures of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bestarm.live.events import as_data, log
from bestarm.live.store.contract import (
    ANSWER,
    Ledger,
    PlanRecord,
    Reading,
    Request,
    SummaryRecord,
    Writing,
)
from bestarm.records import Plan, Summary

# The least and the largest there are, digits to the last, and sums that are not what they seem.
FLOATS = [
    5e-324,
    -5e-324,
    2.225073858507201e-308,
    2.2250738585072014e-308,
    1e100,
    -1e100,
    1 / 3,
    0.1 + 0.2,
    math.pi * 1e-17,
    1.0 - 2**-53,
    1.0 + 2**-52,
    123456789.12345679,
    9007199254740993.0,
    1e22,
    0.0,
    -1.0,
]

TEXTS = [
    "a",
    "A ",
    "é",
    "e\u0301",
    "ß",
    "日本語",
    "🙂",
    "it's",
    '"quoted"',
    "100%",
    "%s %(name)s %%",
    ":name ::text",
    "$1 ? @x",
    "a\\b\\",
    "x'; DROP TABLE bestarm_events; --",
    "a,b;c\td",
    "null",
    "{}",
    "x" * 200,
]


Make = Callable[[], Ledger]
Reopen = Callable[[Ledger], Ledger]


@dataclass(frozen=True)
class Case:
    """What the laws are tested on.

    Attributes:
        make: makes an empty ledger.
        reopen: opens it as another process would, or None.
        many: the size of the largest batch.
    """

    make: Make
    reopen: Reopen | None
    many: int

    def books(self, *, phases: int = 1) -> Ledger:
        """A new ledger in which the first phases are open; the head is at the last."""
        ledger = self.make()
        for phase in range(1, phases + 1):
            with ledger.writing() as tx:
                open_phase(tx, Plan.randomised([0.25, 0.75, 0.0], 8, phase=phase, open=True))
        return ledger

    def views(self, ledger: Ledger) -> Iterator[tuple[str, Ledger]]:
        """The ledger, and the ledger as others see it."""
        yield "", ledger
        if self.reopen is not None:
            other = self.reopen(ledger)
            yield " when opened again", other
            other.close()


# --- writing -----------------------------------------------------------------------------------


def ids_of(numbers: Any) -> NDArray[np.int64]:
    """Ids as an array."""
    return np.array(list(numbers), dtype=np.int64)


def open_phase(tx: Writing, plan: Plan) -> None:
    """Open a phase at the next id."""
    tx.head.phase, tx.head.first, tx.head.planned = plan.phase, tx.head.assigned, True
    tx.add_plan(PlanRecord(plan, tx.head.assigned))


def give_some(tx: Writing, arms: list[int], *, at: float = 1.0, request: str | None = None) -> None:
    """Give assignments out, under the name of a request if there is one."""
    first, size = tx.head.assigned, len(arms)
    asked = None
    if request is not None:
        asked = Request(request, size + 1, first, size, tx.head.phase)
    tx.add_assignments(ids_of(arms), np.full(size, 0.25), at=at, request=asked)
    tx.head.assigned += size


def tell_some(
    tx: Writing, ids: list[int], rewards: list[float], *, late: Any = None, at: float = 2.0
) -> int:
    """Tell outcomes; gives how many were new."""
    flags = np.zeros(len(ids), dtype=bool) if late is None else np.array(late)
    return tx.add_outcomes(ids_of(ids), np.array(rewards), at=at, late=flags)


def lose_some(tx: Writing, ids: Sequence[int], *, reason: str, at: float) -> None:
    """Give outcomes up."""
    tx.add_losses(ids, reason=reason, at=at)
    tx.head.losses += len(ids)


def some_summary(tx: Writing) -> SummaryRecord:
    """A summary of the open phase."""
    summary = Summary(
        counts=np.array([1, 0, 2]),
        sums=np.array([0.1, 0.0, -3.0]),
        squares=np.array([0.01, 0.0, 4.5]),
        missing=np.array([0, 1, 0]),
    )
    return SummaryRecord(tx.head.summaries, tx.head.phase, 0, 4, False, summary, "d" * 64)


def add_some_summary(tx: Writing) -> None:
    """Add it."""
    tx.add_summary(some_summary(tx))
    tx.head.summaries += 1


STEPS: dict[str, Callable[[Writing], Any]] = {
    "asking": lambda tx: give_some(tx, [1, 1, 0], request="more"),
    "telling": lambda tx: tell_some(tx, [3, 4], [4.0, 5.0], late=[True, False], at=50.0),
    "losing": lambda tx: lose_some(tx, [7, 6], reason="gone too", at=60.0),
    "summing up": add_some_summary,
    "planning": lambda tx: open_phase(tx, Plan.fixed([2, 0, 1], phase=2)),
    "refusing": lambda tx: tx.add_refusals(ids_of([5, 6]), np.array([8.0, 9.0]), at=65.0),
    "deferring": lambda tx: tx.add_deferrals(ids_of([0, 4])),
    "logging": lambda tx: log(tx, "happened", 70.0, what="something"),
}


def write_some(tx: Writing) -> dict[str, object]:
    """Something of everything, and what must be read back."""
    events = [event_data(event) for event in tx.events()]
    plans = [Plan.randomised([0.5, 0.25, 0.25], 6, phase=1, open=True, most=9)]
    plans.append(Plan.fixed([1, 2, 0], phase=2))
    open_phase(tx, plans[0])
    give_some(tx, [0, 2, 1], at=1.0, request="a")
    give_some(tx, [1], at=2.5)
    tell_some(tx, [3, 0], [0.5, -0.5], at=3.0)
    lose_some(tx, [2], reason="no answer", at=4.0)
    tell_some(tx, [2], [7.0], late=[True], at=5.0)
    record = some_summary(tx)
    add_some_summary(tx)
    tx.add_deferrals(ids_of([0, 1, 2]))
    tx.settle_deferrals(ids_of([2]), summary=0)
    open_phase(tx, plans[1])
    give_some(tx, [0, 1], at=6.0, request="b")
    log(tx, "happened", 6.5, what={"list": [1, 2.5, None, True, "x"]})
    log(tx, "finished", 6.5)
    tx.head.state, tx.head.lease = "paused", 60.0
    added = list(tx.events())[len(events) :]
    require_dense([event.number for event in tx.events()], "events")
    require([event.kind for event in added] == ["happened", "finished"], "events are others")
    nan = "nan"
    rows = [
        (0, 1, 0, 0.25, 1.0, -0.5, 3.0, False, nan),
        (1, 1, 2, 0.25, 1.0, nan, nan, False, nan),
        (2, 1, 1, 0.25, 1.0, 7.0, 5.0, True, 4.0),
        (3, 1, 1, 0.25, 2.5, 0.5, 3.0, False, nan),
        (4, 2, 0, 0.25, 6.0, nan, nan, False, nan),
        (5, 2, 1, 0.25, 6.0, nan, nan, False, nan),
    ]
    requests = [Request("a", 4, 0, 3, 1), Request("b", 3, 4, 2, 2)]
    return {
        "head": asdict(tx.head),
        "rows": rows,
        "answers": [
            *((0, -0.5, 1.0, 3.0, nan), (2, nan, 1.0, nan, nan), (1, nan, 1.0, nan, 4.0)),
            *((1, 0.5, 2.5, 3.0, nan), (0, nan, 6.0, nan, nan), (1, nan, 6.0, nan, nan)),
        ],
        "asked": requests,
        "plans": [
            plan_record_data(PlanRecord(plans[0], 0)),
            plan_record_data(PlanRecord(plans[1], 4)),
        ],
        "summaries": [summary_record_data(record)],
        "events": [*events, *(event_data(event) for event in added)],
        "lost": [2],
        "deferrals": [[0, 1, 2], [-1, -1, 0]],
        "arrivals": [0],
        "lost arms": {1: [1], 2: []},
        "rewards": {0: -0.5, 2: 7.0, 3: 0.5},
        "requests": {request.name: request for request in requests},
    }


# --- reading -----------------------------------------------------------------------------------


def picture(books: Reading, *, names: Sequence[str] = ("a", "b", "kept", "more")) -> dict[str, Any]:
    """All that can be read, in plain values that are equal when the books are."""
    given = books.head.assigned
    plans = list(books.plans())
    requests = {name: books.request(name) for name in names}
    rows = read_rows(books, 0, given).tolist()
    return {
        "head": asdict(books.head),
        "rows": [tuple(comparable(part) for part in row) for row in rows],
        "answers": [
            tuple(comparable(part) for part in row)
            for row in read_answers(books, 0, given).tolist()
        ],
        "asked": list(books.requests()),
        "plans": [plan_record_data(record) for record in plans],
        "summaries": [summary_record_data(record) for record in books.summaries()],
        "events": [event_data(event) for event in books.events()],
        "lost": sorted(books.lost(np.arange(given))),
        "deferrals": [each.tolist() for each in books.deferrals()],
        "arrivals": books.arrivals().tolist(),
        "lost arms": {
            record.plan.phase: books.lost_arms(record.plan.phase, 0, 100).tolist()
            for record in plans
        },
        "rewards": read_rewards(books),
        "requests": {name: found for name, found in requests.items() if found is not None},
    }


def comparable(part: object) -> object:
    """A value that equals itself."""
    return "nan" if isinstance(part, float) and math.isnan(part) else part


def read_rows(books: Reading, first: int, end: int) -> NDArray[Any]:
    """Rows in one piece."""
    pieces = list(books.rows(first, end))
    return np.concatenate(pieces) if pieces else np.empty(0, dtype=[("id", np.int64)])


def read_answers(books: Reading, first: int, end: int) -> NDArray[Any]:
    """Answers in one piece."""
    return np.concatenate([np.empty(0, dtype=ANSWER), *books.answers(first, end)])


def read_rewards(books: Reading) -> dict[int, float]:
    """Every reward on record, by id."""
    return dict(sorted(books.rewards(np.arange(books.head.assigned)).items()))


def plan_record_data(record: PlanRecord) -> tuple[object, int]:
    """A plan in plain values."""
    return as_data(record.plan), record.first


def summary_record_data(record: SummaryRecord) -> dict[str, object]:
    """A summary in plain values."""
    return {**vars(record), "summary": as_data(record.summary)}


def event_data(event: object) -> dict[str, Any]:
    """An event in plain values."""
    return dict(vars(event))


# --- saying what is wrong ----------------------------------------------------------------------


def require(condition: bool, otherwise: str) -> None:
    """Say which law is broken, unless none is."""
    # Not a bare assert: the contract must hold under `python -O` too.
    if not condition:
        raise AssertionError(f"The ledger breaks its contract: {otherwise}.")


def require_same(found: dict[str, Any], wanted: dict[str, Any], where: str) -> None:
    """Compare pictures."""
    for name, value in wanted.items():
        there = found[name]
        require(there == value, f"its {name} read {there}, not {value}, {where}")


def require_dense(numbers: list[int], what: str) -> None:
    """Numbers follow each other from 0 on."""
    require(numbers == list(range(len(numbers))), f"{what} are numbered {numbers}")
