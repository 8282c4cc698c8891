"""Any order of asking, telling, losing, pausing, crashing and opening again, beside a model.

Whatever is done, on whatever store, by whichever of two who have it open: the record is what the
model says, to the last bit, and the same history on another store gives the same record.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import numpy as np
import pytest
from chained_policies import PROBLEM, Chained, create_chained
from clocks import Clock
from experiment_model import Given, Model
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from bestarm.errors import (
    BestArmError,
    ConflictingOutcomeError,
    InvalidInputError,
    UnknownAssignmentError,
)
from bestarm.live import Batch, Experiment, Receipt
from bestarm.live.engine import Answer
from bestarm.live.store.ledger import Ledger
from bestarm.live.store.rows import Report, SummaryRecord, UnitRecord, as_data
from bestarm.live.tell import read_told

FORECASTABLE = {"provisional", "open", "randomised"}  # a fixed plan draws nothing
KINDS = (
    *("provisional", "open", "turning", "randomised", "fixed", "mixed"),
    *("blocks", "provisional blocks"),
)
NUMBERS = count()
NEVER = 10**9

Step = tuple[str, tuple[Any, ...]]


class CrashError(Exception):
    """The process died."""


class Crashing:
    """A ledger that dies within its n-th transaction, before anything of it is kept."""

    def __init__(self, ledger: Ledger, at: int) -> None:
        self._ledger, self.store = ledger, ledger.store
        self._at = at

    def snapshot(self) -> Any:
        return self._ledger.snapshot()

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        self._at -= 1
        with self._ledger.transaction() as tx:
            yield tx
            if self._at == 0:
                raise CrashError

    def purge(self) -> None:
        self._ledger.purge()

    def close(self) -> None:
        self._ledger.close()


class Machine(RuleBasedStateMachine):
    """One experiment, opened twice, beside a model of it.

    Args:
        url: where it is kept; None for memory, where it is opened once.
    """

    def __init__(self, url: str | None) -> None:
        super().__init__()
        self.url = url
        self.open: list[Experiment] = []
        self.sound = False

    @initialize(
        seed=st.integers(0, 2**70),
        kind=st.sampled_from(KINDS),
        sizes=st.lists(st.integers(1, 7), min_size=2, max_size=8),
        lease=st.sampled_from([None, 4.0, 10.0]),
        window=st.sampled_from([None, None, 4.0]),
        with_forecasts=st.booleans(),
        changes=st.booleans(),
    )
    def start(
        self,
        seed: int,
        kind: str,
        sizes: list[int],
        lease: float | None,
        window: float | None,
        with_forecasts: bool,
        changes: bool,
    ) -> None:
        self.with_forecasts = with_forecasts and kind in FORECASTABLE
        lease = lease if window is None else None
        self.seed = seed
        self.limits: dict[str, Any] = {"lease": lease, "window": window}
        if window is not None:
            self.limits["otherwise"] = Model.otherwise
        changes = changes and "blocks" not in kind
        self.options: dict[str, Any] = {"kind": kind, "sizes": sizes, "changes": changes}
        self.clock = Clock()
        self.name = f"offer {next(NUMBERS)}"
        self.open = [self.begin(self.url, self.clock)]
        self.model = Model(self.policy(), seed=seed, lease=lease, window=window)
        self.history: list[tuple[float, Step]] = []
        self.both()

    def policy(self) -> Chained:
        sizes = tuple(self.options["sizes"])
        return Chained(
            PROBLEM,
            kind=self.options["kind"],
            sizes=sizes,
            forecasts=self.with_forecasts,
            changes=self.options["changes"],
        )

    def begin(self, url: str | None, clock: Clock) -> Experiment:
        kind = "own" if self.with_forecasts else None
        if url is None:
            return Experiment(
                self.policy(), seed=self.seed, clock=clock, forecaster=kind, **self.limits
            )
        settings: dict[str, Any] = {"seed": self.seed, "clock": clock, "forecaster": kind}
        return create_chained(url, self.name, **self.options, **settings, **self.limits)

    def both(self) -> None:
        """Two have it open, where that can be."""
        while self.url is not None and len(self.open) < 2:
            known: dict[str, Any] = {"clock": self.clock, "allow_modules": ["chained_policies"]}
            self.open.append(Experiment.open(self.url, self.name, **known))

    def on(self, who: int) -> Experiment:
        return self.open[who % len(self.open)]

    def do(self, who: int, name: str, *arguments: Any) -> Any:
        """Do something, and remember that it was done."""
        result = self.call(self.on(who), name, *arguments)
        self.history.append((self.clock.now, (name, arguments)))
        return result

    def call(self, experiment: Experiment, name: str, *arguments: Any) -> Any:
        if name == "ask":
            amount, request = arguments
            forecasts = self.forecasts(amount)
            return experiment.ask(amount, request_id=request, forecasts=forecasts)
        if name == "retire":
            return experiment.retire(arguments[0], reason=arguments[1])
        if name in {"commit", "advance"}:
            return getattr(experiment.engine, name)(*arguments)
        if name == "add":
            return experiment.add(arguments[0], features=arguments[1])
        if name == "ask_units":
            (keys,) = arguments
            points = [point or None for _, point in keys]
            given: Any = {"decision_point": points, "forecasts": self.forecasts(len(keys))}
            return experiment.ask(unit=[unit for unit, _ in keys], **given)
        return getattr(experiment, name)(*arguments)

    def forecasts(self, amount: int) -> list[float] | None:
        """Some lie beyond what plans allow."""
        return [1.7 * math.sin(amount + i) for i in range(amount)] if self.with_forecasts else None

    def expect(self, amount: int, request: str | None = None) -> Given:
        return self.model.ask(amount, self.clock.now, request, self.forecasts(amount))

    def refused(self, who: int, error: type[BestArmError], name: str, *arguments: Any) -> None:
        """Both refuse, and for the same reason; that nothing changed is an invariant."""
        with pytest.raises(error):
            self.call(self.on(who), name, *arguments)

    # --- what people do ------------------------------------------------------------------------

    who = st.integers(0, 1)

    @rule(seconds=st.sampled_from([0.5, 1.0, 3.0, 10.0, -0.5, -6.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule(who=who, amount=st.integers(1, 9))
    def ask(self, who: int, amount: int) -> None:
        self.same(self.do(who, "ask", amount, None), self.expect(amount))

    @rule(who=who, amount=st.integers(1, 5), name=st.sampled_from("abcd"))
    def ask_by_name(self, who: int, amount: int, name: str) -> None:
        known = self.model.requests.get(name)
        if known is not None and known[0] != amount:
            self.refused(who, InvalidInputError, "ask", amount, name)
            amount = known[0]
        batch = self.do(who, "ask", amount, name)
        self.same(batch, self.expect(amount, name))

    keys = st.tuples(st.sampled_from("stuv"), st.sampled_from(["", "1", "2"]))

    @rule(who=who, keys=st.lists(keys, min_size=1, max_size=4, unique=True))
    def ask_by_unit(self, who: int, keys: list[tuple[str, str]]) -> None:
        batch = self.do(who, "ask_units", keys)
        given = self.model.ask_units(keys, self.clock.now, self.forecasts(len(keys)))
        self.same(batch, given)
        for each in batch if batch.experiment else ():
            assert each.id in self.model.units[each.unit, each.decision_point or ""]
            assert each.phase == self.model.rows[each.id].phase

    @rule(who=who, key=keys)
    def tell_by_unit(self, who: int, key: tuple[str, str]) -> None:
        """Again, what was told before; of several assignments nobody knows which is meant."""
        ids = self.model.units.get(key, [])
        named = {"unit": key[0], "decision_point": key[1] or None}
        if self.model.over and (len(ids) != 1 or self.model.rows[ids[0]].reward is not None):
            receipt = self.on(who).tell(reward=0.5, **named)  # type: ignore[arg-type]
            assert receipt == Receipt(0, 0, 0, served=1)
            return
        if len(ids) != 1:
            error = InvalidInputError if ids else UnknownAssignmentError
            with pytest.raises(error):
                self.on(who).tell(reward=0.5, **named)  # type: ignore[arg-type]
            return
        told = self.model.told(ids[0])
        reward = reward_of(ids[0]) if told is None else told
        receipt = self.on(who).tell(reward=reward, **named)  # type: ignore[arg-type]
        self.history.append((self.clock.now, ("tell_many", ([(ids[0], reward)],))))
        assert receipt == self.model.tell_many([(ids[0], reward)], self.clock.now)
        self.model.advance()

    @rule(who=who, unit=st.sampled_from("stuv"))
    def erase(self, who: int, unit: str) -> None:
        rounds = self.model.erase(unit)
        if rounds:
            assert self.do(who, "erase", unit) == rounds
        else:
            self.refused(who, UnknownAssignmentError, "erase", unit)
        # No step is taken: the next call takes the one that an `ask` may have left pending.

    def same(self, batch: Batch, given: Given) -> None:
        if batch.finished and not given.ids:  # what is served is not part of the experiment
            assert set(batch.ids) == {None}
            assert (batch.experiment, batch.state) == (False, given.state)
            assert batch[0].label == self.open[0].recommendation().label
            return
        assert batch.experiment
        assert list(batch.ids) == given.ids
        assert batch.arms.tolist() == given.arms
        assert batch.probabilities.tolist() == given.probabilities
        assert batch.rounds.tolist() == given.rounds
        assert (batch.phase, batch.waiting, batch.state) == (
            given.phase,
            given.waiting,
            given.state,
        )

    @precondition(lambda self: self.model.rows)
    @rule(who=who, data=st.data(), reward=st.floats(-1e3, 1e3))
    def tell(self, who: int, data: st.DataObject, reward: float) -> None:
        number = data.draw(st.integers(0, len(self.model.rows) - 1))
        before = self.model.rows[number].reward
        reward += 0.0
        if before is not None and before != reward and self.model.window is None:
            self.refused(who, ConflictingOutcomeError, "tell", number, reward)
            reward = before
        self.tells(who, [(number, reward)])

    @precondition(lambda self: self.model.unsettled)
    @rule(who=who, data=st.data())
    def tell_what_is_awaited(self, who: int, data: st.DataObject) -> None:
        """In any order: the more of them in one go, the more phases can close at once."""
        some = data.draw(st.lists(st.sampled_from(self.model.unsettled), unique=True, min_size=1))
        self.tells(who, [(number, reward_of(number)) for number in some])

    @rule(who=who, amount=st.integers(3, 12), behind=st.integers(0, 12), after=st.integers(0, 3))
    def work(self, who: int, amount: int, behind: int, after: int) -> None:
        """Ask, and tell all that is awaited but one and the last few: that one is told later."""
        self.ask(who, amount)
        awaited = self.model.unsettled
        answered = [n for place, n in enumerate(awaited) if place != behind]
        answered = answered[: len(answered) - after]
        if answered:
            self.tells(who + 1, [(number, reward_of(number)) for number in reversed(answered)])

    @precondition(lambda self: self.model.rows)
    @rule(who=who, data=st.data())
    def tell_old_and_new(self, who: int, data: st.DataObject) -> None:
        ids = data.draw(st.lists(st.integers(0, len(self.model.rows) - 1), max_size=8))
        rewards = [self.model.told(number) for number in ids]
        outcomes = [
            (number, reward_of(number) if known is None else known)
            for number, known in zip(ids, rewards, strict=True)
        ]
        self.tells(who, outcomes)
        conflicting = outcomes if self.model.window is None else []
        for wrong, error in (
            ((len(self.model.rows), 0.0), UnknownAssignmentError),
            ((-1, 0.0), UnknownAssignmentError),
            *(((number, reward + 1.0), ConflictingOutcomeError) for number, reward in conflicting),
        ):
            fresh = [(n, 1.0) for n in self.model.unsettled]
            self.refused(who, error, "tell_many", [*fresh, wrong])

    @precondition(lambda self: self.model.rows)
    @rule(who=who, data=st.data())
    def several_tell(self, who: int, data: st.DataObject) -> None:
        """At once, each a few, some of them something wrong, some the same or the contrary."""
        ids = st.integers(-1, len(self.model.rows))
        pair = st.tuples(ids, st.booleans()).map(
            lambda drawn: (drawn[0], reward_of(drawn[0]) + drawn[1])
        )
        several = data.draw(
            st.lists(
                st.lists(pair, max_size=4, unique_by=lambda each: each[0]), min_size=1, max_size=4
            )
        )
        calls = [read_told(outcomes) for outcomes in several]
        found = self.do(who, "commit", calls)
        expected = self.model.tell_each(several, self.clock.now)
        assert expected == [
            each.receipt if isinstance(each, Answer) else type(each) for each in found
        ]
        self.do(who, "advance")
        self.model.advance()

    def tells(self, who: int, outcomes: list[tuple[int, float]]) -> None:
        receipt = self.do(who, "tell_many", outcomes)
        assert receipt == self.model.tell_many(outcomes, self.clock.now)
        self.model.advance()

    @precondition(lambda self: self.model.rows)
    @rule(who=who, data=st.data())
    def fail(self, who: int, data: st.DataObject) -> None:
        ids = data.draw(st.lists(st.integers(0, len(self.model.rows) - 1), max_size=4))
        told = [number for number in ids if self.model.failed_too_late(number, self.clock.now)]
        if told:
            self.refused(who, ConflictingOutcomeError, "fail_many", ids)
            ids = [number for number in ids if number not in told]
        self.refused(who, UnknownAssignmentError, "fail_many", [*ids, len(self.model.rows)])
        self.do(who, "fail_many", ids)
        self.model.fail_many(ids, self.clock.now)
        self.model.advance()

    @rule(who=who)
    def expire(self, who: int) -> None:
        self.do(who, "expire")
        self.model.expire(self.clock.now)
        self.model.advance()

    @precondition(lambda self: self.model.state != "running" or len(self.history) > 8)
    @rule(who=who, how=st.sampled_from(["pause", "resume", "resume"]))
    def halt(self, who: int, how: str) -> None:
        self.change(who, how)

    @precondition(lambda self: len(self.history) > 20)
    @rule(who=who)
    def stop(self, who: int) -> None:
        if self.model.window is not None:  # outcomes whose window has ended are used
            self.model.expire(self.clock.now)
            self.model.advance()
        self.change(who, "stop")

    def change(self, who: int, how: str) -> None:
        kind = {"pause": "paused", "resume": "resumed", "stop": "stopped"}[how]
        try:
            self.model.change(kind)
        except InvalidInputError:
            self.refused(who, InvalidInputError, how)
        else:
            self.do(who, how)
            self.model.advance()

    @rule(who=who, lease=st.sampled_from([None, 2.0, 20.0]))
    def change_lease(self, who: int, lease: float | None) -> None:
        try:
            self.model.change_lease(lease)
        except InvalidInputError:
            self.refused(who, InvalidInputError, "change_lease", lease)
        else:
            self.do(who, "change_lease", lease)
            self.model.advance()

    @precondition(lambda self: self.options["changes"])
    @rule(who=who, number=st.integers(0, 5), reason=st.sampled_from(["dull", "broken"]))
    def retire(self, who: int, number: int, reason: str) -> None:
        label = (*PROBLEM.source_labels, "up", "down")[number]
        self.changes_options(who, "retire", label, reason)

    @precondition(lambda self: self.options["changes"])
    @rule(who=who, label=st.sampled_from(["up", "down", "east"]), own=st.booleans())
    def add(self, who: int, label: str, own: bool) -> None:
        row = {"up": 1.5, "down": 2.5, "east": 3.5}[label]
        features = None if own else [row] + [0.5] * (self.model.problem.dimension - 1)
        self.changes_options(who, "add", label, features)

    def changes_options(self, who: int, how: str, label: str, data: Any) -> None:
        try:
            getattr(self.model, how)(label, data)
        except InvalidInputError:
            self.refused(who, InvalidInputError, how, label, data)
        else:
            self.do(who, how, label, data)
            self.model.advance()
        labels = self.model.problem.source_labels
        assert [each.problem.source_labels for each in self.open] == [labels] * len(self.open)

    # --- what happens to them ------------------------------------------------------------------

    @precondition(lambda self: self.url is not None)
    @rule(who=who)
    def open_again(self, who: int) -> None:
        self.open.pop(who % len(self.open)).close()
        self.both()

    @precondition(lambda self: self.model.unsettled)
    @rule(who=who, data=st.data(), at=st.integers(1, 4))
    def crash_telling(self, who: int, data: st.DataObject, at: int) -> None:
        """An outcome that was not acknowledged is there, or not; phases it closes close later."""
        number = data.draw(st.sampled_from(self.model.unsettled))
        outcome = (number, reward_of(number))
        crashed = self.crash(who, at, "tell_many", [outcome])
        if not crashed or at > 1:
            self.model.tell_many([outcome], self.clock.now)
            self.history.append((self.clock.now, ("tell_many", ([outcome],))))
        self.go_on(who)

    @rule(who=who, amount=st.integers(1, 5), at=st.integers(1, 4))
    def crash_asking(self, who: int, amount: int, at: int) -> None:
        """Nothing is given out to somebody who died before the answer, or all of it."""
        name = f"crash {len(self.history)} {amount}"
        if not self.crash(who, at, "ask", amount, name):
            self.expect(amount, name)
            self.history.append((self.clock.now, ("ask", (amount, name))))
        self.go_on(who)
        self.same(self.do(who, "ask", amount, name), self.expect(amount, name))

    @precondition(lambda self: self.options["changes"])
    @rule(who=who, at=st.integers(1, 4))
    def crash_retiring(self, who: int, at: int) -> None:
        """A change that was not acknowledged is there, or not; what follows from it follows."""
        left = [each for each in self.model.problem.target_labels if each not in self.model.retired]
        if self.model.over or len(left) < 2:
            return
        crashed = self.crash(who, at, "retire", left[-1], "crash")
        if not crashed or at > 1:
            self.model.retire(left[-1], "crash")
            self.history.append((self.clock.now, ("retire", (left[-1], "crash"))))
        if not crashed:  # the steps that follow were taken too, and may have ended it
            self.model.advance()
        self.go_on(who)

    def crash(self, who: int, at: int, name: str, *arguments: Any) -> bool:
        experiment = self.on(who)
        ledger = experiment.engine.ledger
        # In memory the policy dies with the program: there only the first transaction can fail.
        last = at if self.url is not None or at == 1 else NEVER
        experiment.engine.ledger = Crashing(ledger, last)  # type: ignore[assignment]
        try:
            self.call(experiment, name, *arguments)
        except CrashError:
            return True
        finally:
            experiment.engine.ledger = ledger
            if self.url is not None:
                self.open.remove(experiment)
                experiment.close()
                self.both()
        return False

    def go_on(self, who: int) -> None:
        self.do(who, "expire")
        self.model.expire(self.clock.now)
        self.model.advance()

    # --- what must be so -----------------------------------------------------------------------

    @invariant()
    def the_record_is_that_of_the_model(self) -> None:
        if not self.open:
            return
        model, self.sound = self.model, False
        for experiment in self.open:
            assert experiment.status() == model.status()
            recommendation, expected = experiment.recommendation(), model.policy.recommend()
            reason = expected.reason
            if model.state == "stopped" and reason == "running":
                reason = "stopped"
            assert (recommendation.target, recommendation.pulls, recommendation.active) == (
                expected.target,
                expected.pulls,
                expected.active,
            )
            assert recommendation.reason == reason
        with self.open[0].read() as snapshot:
            head = snapshot.head
            pieces = list(snapshot.rows(0, head.assigned))
            rows = [row for piece in pieces for row in piece.tolist()]
            assert [clean(row) for row in rows] == [tuple(vars(row).values()) for row in model.rows]
            assert head.rounds == len({row.round for row in model.rows})
            plans = [(as_data(each.plan), each.first) for each in snapshot.plans()]
            assert plans == [(as_data(plan), first) for plan, first in model.plans]
            entries = list(snapshot.summaries())
            told = [(e.phase, e.first, e.end, e.late, as_data(e.summary)) for e in entries]
            assert told == [
                (h.phase, h.first, h.end, h.late, as_data(h.summary)) for h in model.handed
            ]
            assert [e.number for e in entries] == list(range(len(entries)))
            # The counters, counted anew.
            used = [row for row in model.rows if row.reward is not None and not row.late]
            assert (head.outcomes, head.summaries, head.lease) == (
                len(used),
                len(entries),
                model.lease,
            )
            assert head.assigned == len(rows)
            reports = [(r.assignment, r.reward, r.told, r.late) for r in snapshot.records(Report)]
            assert reports == model.reports
            changes = [(each.kind, each.label) for each in snapshot.changes()]
            assert [kind for kind, _ in changes] == [
                kind for kind in model.kinds if kind in {"added", "retired"}
            ]
            retired = {each.label: each.reason for each in snapshot.changes() if each.reason}
            assert retired == model.retired
            known = [row.reward for row in model.rows if row.reward is not None]
            assert head.lowest == min(known, default=math.inf)
            assert head.highest == max(known, default=-math.inf)
            out = [row.asked for row in model.rows if not row.settled]
            assert model.over or head.oldest <= min(out, default=math.inf)
            events = list(snapshot.events())
        assert [event.kind for event in events] == model.kinds
        tip = ""
        for number, event in enumerate(events):
            assert event.number == number
            entry = [number, event.at, event.kind, event.data, tip]
            text = json.dumps(entry, sort_keys=True, separators=(",", ":"))
            tip = hashlib.sha256(text.encode()).hexdigest()
            assert event.hash == tip
        assert (head.last_hash, head.events) == (tip, len(events))
        self.sound = True

    @invariant()
    def phases_have_exactly_their_members(self) -> None:
        if not self.open:
            return
        model = self.model
        for number, (plan, first) in enumerate(model.plans):
            end = model.plans[number + 1][1] if number + 1 < len(model.plans) else len(model.rows)
            mine = model.rows[first:end]
            assert [row.phase for row in mine] == [plan.phase] * len(mine)
            if plan.open or number + 1 == len(model.plans):
                continue
            used = [row for row in mine if row.lost is None]
            if len(used) < plan.pulls and self.options["changes"]:
                continue  # an option came or went
            assert len(used) == plan.pulls
            if plan.counts is not None:
                arms = np.bincount([row.arm for row in used], minlength=plan.arms)
                assert arms.tolist() == plan.counts.tolist()

    def teardown(self) -> None:
        """To the end; then the same history, on snapshot in memory, to the same snapshot."""
        if not self.open or not self.sound:
            return
        assert self.open[0].verify().findings == ()  # as it stands, before it comes to its end
        self.clock.now = max(self.clock.now, 1_800_001_000.0)
        if self.model.state == "paused":
            self.change(0, "resume")
        for _ in range(200):
            if self.model.over:
                break
            self.ask(0, 5)
            self.clock.now += self.model.window or 0.0
            if self.model.unsettled:
                self.tells(1, [(n, reward_of(n)) for n in reversed(self.model.unsettled)])
            self.the_record_is_that_of_the_model()
        assert self.model.over
        assert self.open[0].verify().findings == ()
        if self.url is not None:
            assert (
                self.open[0].replay().recommendation.target == self.model.policy.recommend().target
            )
        clock = Clock()
        again = self.begin(None, clock)
        for now, (name, arguments) in self.history:
            clock.now = now
            self.call(again, name, *arguments)
        assert everything(again) == everything(self.open[0])
        for experiment in self.open:
            experiment.close()


def reward_of(number: int) -> float:
    """Magnitudes so far apart that the order of a sum shows in its last bits."""
    return math.sin(number + 1.0) * 10.0 ** (number % 9 - 4)


def clean(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row with None for what is not known."""
    return tuple(None if isinstance(x, float) and math.isnan(x) else x for x in row)


def _entry(record: SummaryRecord) -> dict[str, Any]:
    plain = None if record.plain is None else as_data(record.plain)
    return {**vars(record), "summary": as_data(record.summary), "plain": plain}


def unsalted(data: dict[str, Any]) -> dict[str, Any]:
    """Without what a random salt is part of."""
    return {key: data[key] for key in data if key not in {"units", "told", "digest", "salt"}}


def everything(experiment: Experiment) -> dict[str, object]:
    """All there is on record, in plain values, except what the first event says."""
    with experiment.read() as snapshot:
        rows = [row for piece in snapshot.rows(0, snapshot.head.assigned) for row in piece.tolist()]
        recommendation = experiment.recommendation()
        return {
            "rows": [clean(row) for row in rows],
            "plans": [(as_data(each.plan), each.first) for each in snapshot.plans()],
            "reports": [vars(each) for each in snapshot.records(Report)],
            "entries": [_entry(e) for e in snapshot.summaries()],
            "events": [(e.number, e.at, e.kind, unsalted(e.data)) for e in snapshot.events(1)],
            "units": [unsalted(vars(each)) for each in snapshot.records(UnitRecord)],
            "head": {
                name: value
                for name, value in vars(snapshot.head).items()
                if name not in {"last_hash", "oldest"}
            },
            "recommendation": (
                recommendation.target,
                recommendation.final,
                recommendation.reason,
                recommendation.pulls,
                recommendation.active,
            ),
        }


def run(machine: Callable[[], Machine], *, examples: int, steps: int) -> None:
    run_state_machine_as_test(
        machine,  # type: ignore[arg-type]
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            # To make a failure small takes longer than to read it.
            phases=[Phase.explicit, Phase.reuse, Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_erasing_takes_no_step_that_an_ask_left_pending() -> None:
    """The one assignment of phase 2 comes after an outcome of phase 1, which is enough for it."""
    machine = Machine(None)
    machine.start(
        seed=0,
        kind="provisional",
        sizes=[1, 1, 2],
        lease=None,
        window=None,
        with_forecasts=False,
        changes=False,
    )
    machine.ask_by_unit(who=0, keys=[("s", "")])
    machine.ask(who=0, amount=1)
    for number in (0, 1):
        machine.tells(0, [(number, reward_of(number))])
    machine.ask(who=0, amount=1)
    for unit in ("v", "s"):  # unknown, and known
        machine.erase(who=0, unit=unit)
        machine.the_record_is_that_of_the_model()
    assert machine.open[0].phase == 2
    machine.expire(who=0)
    machine.the_record_is_that_of_the_model()
    assert machine.open[0].phase == 3
    machine.teardown()


def test_an_experiment_in_memory_is_the_model() -> None:
    run(lambda: Machine(None), examples=60, steps=40)


def test_an_experiment_in_a_file_is_the_model(sqlite_url: str) -> None:
    run(lambda: Machine(sqlite_url), examples=8, steps=30)


def test_an_experiment_on_a_server_is_the_model(postgres_url: str) -> None:
    run(lambda: Machine(postgres_url), examples=4, steps=30)
