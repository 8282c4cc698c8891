"""What the rules of a ledger are tested with: samples of every record, and how they are read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bestarm.live.events import log
from bestarm.live.store.ledger import Ledger, Snapshot, Transaction
from bestarm.live.store.rows import (
    ANSWER,
    ROW,
    Change,
    GuardrailValue,
    Ids,
    PlanRecord,
    Report,
    Request,
    SummaryRecord,
    UnitCounts,
    UnitKey,
    UnitRecord,
)
from bestarm.records import Plan, Summary

# The least and the largest there are, digits to the last, and sums that are not what they seem.
FLOATS = [
    5e-324,
    -2.225073858507201e-308,
    2.2250738585072014e-308,
    1e100,
    -1e100,
    1 / 3,
    0.1 + 0.2,
    math.pi * 1e-17,
    1.0 - 2**-53,
    123456789.12345679,
    9007199254740993.0,
    0.0,
    -1.0,
]
TEXTS = [
    "a",
    "A ",
    "é",
    "e\u0301",
    "日本語",
    "🙂",
    '"quoted" null {}',
    "100% %s %(name)s %%",
    ":name ::text",
    "$1 ? @x",
    "a\\b\\",
    "x'; DROP TABLE bestarm_events; --",
    "a,b;c\td",
    "x" * 200,
]
_KEYS = [UnitKey("zoe", at) for at in ("", "9:00", "18:00")]
_NAMES = ("a", "b", "kept", "more", "meanwhile")  # of requests that rules make

Make = Callable[[], Ledger]
Reopen = Callable[[Ledger], Ledger]
Contents = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """What the rules are tested on."""

    make: Make
    reopen: Reopen | None
    many: int

    def ledger(self) -> Ledger:
        """A new ledger in which the first phase is open."""
        ledger = self.make()
        with ledger.transaction() as tx:
            open_phase(tx, Plan.randomised([0.25, 0.75, 0.0], 8, phase=1, open=True))
        return ledger

    def views(self, ledger: Ledger) -> Iterator[tuple[str, Ledger]]:
        """The ledger, and the ledger as others see it."""
        yield "", ledger
        if self.reopen is not None:
            other = self.reopen(ledger)
            yield " when opened again", other
            other.close()

    def snapshots(self, ledger: Ledger) -> Iterator[tuple[str, Snapshot]]:
        """A snapshot of each view."""
        for how, view in self.views(ledger):
            with view.snapshot() as snapshot:
                yield how, snapshot


# --- writing -----------------------------------------------------------------------------------


def ids_of(numbers: Any) -> NDArray[np.int64]:
    """Ids as an array."""
    return np.array(list(numbers), dtype=np.int64)


def open_phase(tx: Transaction, plan: Plan) -> None:
    """Open a phase at the next id."""
    tx.head.phase, tx.head.first, tx.head.planned = plan.phase, tx.head.assigned, True
    tx.head.size = plan.size
    tx.add(PlanRecord(plan, tx.head.assigned, tx.head.rounds))


def assign(
    tx: Transaction,
    arms: list[int],
    *,
    at: float = 1.0,
    request: str | None = None,
    forecasts: list[float] | None = None,
) -> None:
    """Give assignments out, under the name of a request if there is one."""
    first, size = tx.head.assigned, len(arms)
    tx.add_assignments(
        ids_of(arms),
        np.full(size, 0.25),
        at=at,
        forecasts=None if forecasts is None else np.array(forecasts),
    )
    if request is not None:
        tx.add(Request(request, size + 1, first, size, tx.head.phase))
    tx.head.assigned += size
    tx.head.rounds += size // tx.head.size


def about(
    number: int,
    unit: str | None = None,
    decision_point: str | None = None,
    covariates: str | None = None,
) -> UnitRecord:
    """What is known of a round of one assignment."""
    known = unit, decision_point, covariates
    return UnitRecord(number, number, 1, f"{number:064}", f"{number:032}", *known)


def tell(
    tx: Transaction,
    ids: Sequence[int],
    rewards: Sequence[float],
    *,
    late: Any = None,
    at: float = 2.0,
) -> None:
    """Tell outcomes."""
    flags = [False] * len(ids) if late is None else np.array(late).tolist()
    tx.add_outcomes(ids, rewards, at=at, late=flags)


def report(
    tx: Transaction,
    ids: Sequence[int],
    rewards: Sequence[float],
    *,
    late: bool = False,
    at: float = 2.0,
) -> None:
    """Report outcomes that have a window."""
    pairs = enumerate(zip(ids, rewards, strict=True), tx.head.reports)
    tx.add(*(Report(number, *told, at, late) for number, told in pairs))
    tx.head.reports += len(ids)


def guard(
    tx: Transaction, values: Sequence[tuple[int, int, float]], *, at: float = 2.0
) -> list[GuardrailValue]:
    """Tell values of guardrails: ids, guardrails and values."""
    added = [
        GuardrailValue(place, number, 1, number % 2, guardrail, value, at)
        for place, (number, guardrail, value) in enumerate(values, tx.head.values)
    ]
    tx.add(*added)
    tx.head.values += len(added)
    return added


def lose(tx: Transaction, ids: Sequence[int], *, reason: str = "", at: float = 3.0) -> None:
    """Give outcomes up."""
    tx.add_losses(ids, reason=reason, at=at)
    tx.head.losses += len(ids)


def summarize(tx: Transaction) -> SummaryRecord:
    """Add a summary of the open phase."""
    summary = Summary(
        counts=np.array([1, 0, 2]),
        sums=np.array([0.1, 0.0, -3.0]),
        squares=np.array([0.01, 0.0, 4.5]),
        missing=np.array([0, 1, 0]),
        least=np.array([0.1, 0.0, -2.0]),
        largest=np.array([0.1, 0.0, -1.0]),
        forecast_sum=1 / 3,
        cubes=np.array([0.001, 0.0, -9.0]),
    )
    plain = replace(summary, sums=np.array([0.2, 0.0, 1 / 3]), center=0.5)
    record = SummaryRecord(tx.head.summaries, tx.head.phase, 0, 4, False, summary, "d" * 64, plain)
    tx.add(record)
    tx.head.summaries += 1
    return record


def change(tx: Transaction, kind: str, label: str, **known: Any) -> Change:
    """Add a change of the options."""
    data = {"reason": "", "features": None, "made_by": "hand", "at": 6.0} | known
    record = Change(tx.head.changes, tx.head.phase, kind, label, **data)
    tx.add(record)
    tx.head.changes += 1
    return record


WRITES: dict[str, Callable[[Transaction], Any]] = {
    "asking": lambda tx: assign(tx, [1, 1, 0], request="more", forecasts=[1.0, 2.0, 3.0]),
    "naming": lambda tx: tx.add(about(7, "zoe", ""), about(8, None, None, "{}")),
    "erasing": lambda tx: tx.erase_units(ids_of([1])),
    "telling": lambda tx: tell(tx, [3, 4], [4.0, 5.0], late=[True, False], at=50.0),
    "reporting": lambda tx: report(tx, [7, 1], [0.5, 2.0], late=True, at=55.0),
    "guarding": lambda tx: guard(tx, [(2, 0, 0.5), (2, 1, 1 / 3)], at=56.0),
    "losing": lambda tx: lose(tx, [7, 6], reason="gone too", at=60.0),
    "summing up": summarize,
    "planning": lambda tx: open_phase(tx, Plan.fixed([2, 0, 1], phase=2)),
    "changing": lambda tx: change(tx, "added", "é", features=(0.5, 1 / 3)),
    "refusing": lambda tx: tx.add_refusals(ids_of([5, 6]), np.array([8.0, 9.0]), at=65.0),
    "deferring": lambda tx: tx.add_deferrals(ids_of([0, 4])),
    "covering": lambda tx: tx.settle_deferrals(ids_of([2]), summary=3),
    "logging": lambda tx: log(tx, "happened", 70.0, what="something"),
}


def write_everything(tx: Transaction) -> Contents:
    """Write records of every kind; return the contents that must be read back."""
    before, nan = list(tx.events()), math.nan
    plans = [Plan.randomised([0.5, 0.25, 0.25], 6, phase=1, open=True, most=9)]
    plans.append(Plan.fixed([1, 2, 0], phase=2))
    open_phase(tx, plans[0])
    assign(tx, [0, 2, 1], request="a")
    known = '{"name":"é","x":0.1}'
    assign(tx, [1], at=2.5, forecasts=[1 / 3])
    named = [about(1, "zoe", "9:00"), about(2, "zoe", "18:00"), about(3, None, None, known)]
    tx.add(*named)
    tx.erase_units(ids_of([2]))
    tell(tx, [3, 0], [0.5, -0.5], at=3.0)
    lose(tx, [2], reason="no answer", at=4.0)
    tell(tx, [2], [7.0], late=[True], at=5.0)
    report(tx, [3, 1], [0.25, 1 / 3], at=4.5)
    report(tx, [3], [0.5], late=True, at=5.5)
    values = guard(tx, [(3, 1, 0.25), (0, 0, 1 / 3), (3, 0, 1e100)], at=4.75)
    record = summarize(tx)
    tx.add_deferrals(ids_of([0, 1, 2]))
    tx.settle_deferrals(ids_of([2]), summary=0)
    open_phase(tx, plans[1])
    assign(tx, [0, 1], at=6.0, request="b", forecasts=[-2.0, 0.5])
    changes = [change(tx, "retired", "tea, ‘hot’", reason="x\ny", made_by="refunds", at=1 / 3)]
    changes.append(change(tx, "added", "é", features=(0.1, -1 / 3)))
    changes.append(change(tx, "added", "own"))
    log(tx, "happened", 6.5, what={"list": [1, 2.5, None, True, "x"]})
    log(tx, "finished", 6.5)
    tx.head.state, tx.head.lease = "paused", 60.0
    events = list(tx.events())
    expect([event.number for event in events], list(range(len(before) + 2)), "events are numbered")
    expect([event.kind for event in events[-2:]], ["happened", "finished"], "events are")
    requests = [Request("a", 4, 0, 3, 1), Request("b", 3, 4, 2, 2)]
    erased: dict[str, Any] = dict.fromkeys(("salt", "unit", "decision_point", "covariates"))
    wanted = {
        "head": tx.head,
        "rows": [
            (0, 0, 1, 0, 0.25, 1.0, nan, -0.5, 3.0, False, nan),
            (1, 1, 1, 2, 0.25, 1.0, nan, nan, nan, False, nan),
            (2, 2, 1, 1, 0.25, 1.0, nan, 7.0, 5.0, True, 4.0),
            (3, 3, 1, 1, 0.25, 2.5, 1 / 3, 0.5, 3.0, False, nan),
            (4, 4, 2, 0, 0.25, 6.0, -2.0, nan, nan, False, nan),
            (5, 5, 2, 1, 0.25, 6.0, 0.5, nan, nan, False, nan),
        ],
        "units": [named[0], replace(named[1], **erased), named[2]],
        "units named": {UnitKey("zoe", "9:00"): named[0]},
        "rounds": {"zoe": [1], "ann": []},
        "unit counts": UnitCounts(1, 1, 1, 1),
        "answers": [
            (0, -0.5, 1.0, 3.0, nan, nan),
            (2, nan, 1.0, nan, nan, nan),
            (1, nan, 1.0, nan, 4.0, nan),
            (1, 0.5, 2.5, 3.0, nan, 1 / 3),
            (0, nan, 6.0, nan, nan, -2.0),
            (1, nan, 6.0, nan, nan, 0.5),
        ],
        "reports": [
            Report(0, 3, 0.25, 4.5, False),
            Report(1, 1, 1 / 3, 4.5, False),
            Report(2, 3, 0.5, 5.5, True),
        ],
        "last reports": {1: 1 / 3, 3: 0.5},
        "values": values,
        "values of": {0: [values[1]], 1: [], 3: [values[0], values[2]]},
        "asked": requests,
        "plans": [PlanRecord(plans[0], 0, 0), PlanRecord(plans[1], 4, 4)],
        "summaries": [record],
        "changes": changes,
        "last changes": changes[1:],
        "events": events,
        "deferrals": ([0, 1, 2], [-1, -1, 0]),
        "arrivals": [0],
        "lost arms": {1: [1], 2: []},
        "requests": {request.name: request for request in requests},
    }
    return {name: plain(part) for name, part in wanted.items()}


# --- reading -----------------------------------------------------------------------------------


def contents(snapshot: Snapshot) -> Contents:
    """All that can be read, as plain values."""
    assigned, plans = snapshot.head.assigned, list(snapshot.plans())
    found = {name: snapshot.request(name) for name in _NAMES}
    reported = snapshot.records_of(Report, range(assigned))
    _settlements(snapshot, np.arange(assigned))
    parts = {
        "head": snapshot.head,
        "rows": read_rows(snapshot, 0, assigned),
        "units": list(snapshot.records(UnitRecord, 0, assigned)),
        "units named": snapshot.units_named(_KEYS),
        "rounds": {name: np.sort(snapshot.rounds_of(name)) for name in ("zoe", "ann")},
        "unit counts": snapshot.unit_counts(),
        "answers": read_answers(snapshot, 0, assigned),
        "reports": list(snapshot.records(Report)),
        "last reports": {each.assignment: each.reward for each in reported},
        "values": list(snapshot.records(GuardrailValue)),
        "values of": {
            number: snapshot.records_of(GuardrailValue, [number]) for number in (0, 1, 3)
        },
        "asked": list(snapshot.records(Request)),
        "plans": plans,
        "summaries": list(snapshot.summaries()),
        "changes": list(snapshot.changes()),
        "last changes": list(snapshot.changes(1)),
        "events": list(snapshot.events()),
        "deferrals": snapshot.deferrals(),
        "arrivals": snapshot.arrivals(),
        "lost arms": {
            phase: snapshot.lost_arms(phase, 0, 100)
            for phase in (record.plan.phase for record in plans)
        },
        "requests": {name: request for name, request in found.items() if request is not None},
    }
    return {name: plain(part) for name, part in parts.items()}


def plain(value: Any) -> Any:
    """A value as numbers, texts, lists and dictionaries that are equal when the values are."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if is_dataclass(value):
        value = {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return "nan" if isinstance(value, float) and math.isnan(value) else value


def rewards_of(snapshot: Snapshot, ids: Ids) -> dict[int, float]:
    """The rewards of those of these assignments that have an outcome, late ones included."""
    return _settlements(snapshot, ids)[0]


def lost_of(snapshot: Snapshot, ids: Ids) -> set[int]:
    """Which of these assignments are lost."""
    return _settlements(snapshot, ids)[1]


def _settlements(snapshot: Snapshot, ids: Ids) -> tuple[dict[int, float], set[int]]:
    """Rewards and losses, for which `settlements` and `rows_of` must agree."""
    found, rows = snapshot.settlements(ids.tolist()), snapshot.rows_of(ids)
    told = rows[~np.isnan(rows["reward"])]
    rewards = dict(zip(told["id"].tolist(), told["reward"].tolist(), strict=True))
    lost = set(rows["id"][~np.isnan(rows["lost"])].tolist())
    require(found == (rewards, lost), f"settlements are {found}, and by row {(rewards, lost)}")
    return found


def read_rows(snapshot: Snapshot, first: int, end: int) -> NDArray[Any]:
    """Rows in one piece."""
    return np.concatenate([np.empty(0, dtype=ROW), *snapshot.rows(first, end)])


def read_answers(snapshot: Snapshot, first: int, end: int) -> NDArray[Any]:
    """Answers in one piece."""
    return np.concatenate([np.empty(0, dtype=ANSWER), *snapshot.answers(first, end)])


# --- saying what is wrong ----------------------------------------------------------------------


def require(condition: bool, otherwise: str) -> None:
    """Raise unless a rule is kept."""
    # Not a bare assert: the contract must hold under `python -O` too.
    if not condition:
        raise AssertionError(f"The ledger breaks its contract: {otherwise}.")


def expect(found: object, wanted: object, what: str) -> None:
    """Raise unless two values are equal, where NaN equals itself."""
    there, right = plain(found), plain(wanted)
    require(there == right, f"{what} {there}, not {right}")


def expect_contents(snapshot: Snapshot, wanted: Contents, where: str) -> None:
    """Raise unless everything that can be read is as wanted."""
    found = contents(snapshot)
    for name, value in wanted.items():
        require(found[name] == value, f"its {name} read {found[name]}, not {value}, {where}")
