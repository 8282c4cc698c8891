"""The simplest account of an experiment: a list of assignments, and rules read off one by one.

Written without regard to how an experiment keeps its record: no counters, everything is counted
anew. It is given the same policy, and what it says is compared with what an experiment says.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from bestarm.errors import (
    ConflictingOutcomeError,
    InvalidInputError,
    UnknownAssignmentError,
)
from bestarm.live import Receipt, Status, draw, draw_block
from bestarm.problem import Problem
from bestarm.recommendation import Recommendation
from bestarm.records import BlockPlan, Plan, Rounds, Summary, round_robin

__all__ = ["Given", "HandedOver", "Model", "Row"]


class _Policy(Protocol):
    problem: Problem

    def plan(self) -> Plan | None: ...
    def update(self, summary: Summary) -> None: ...
    def amend(self, summary: Summary, *, phase: int) -> None: ...
    def retire(self, target: int) -> None: ...
    def add(self, problem: Problem) -> None: ...
    def recommend(self) -> Recommendation: ...


@dataclass
class Row:
    """An assignment and what became of it."""

    id: int
    round: int
    phase: int
    arm: int
    probability: float
    asked: float
    forecast: float | None = None
    reward: float | None = None
    told: float | None = None
    late: bool = False
    lost: float | None = None

    @property
    def settled(self) -> bool:
        return self.reward is not None or self.lost is not None


@dataclass(frozen=True)
class Given:
    """What an ask is answered with."""

    ids: list[int]
    arms: list[int]
    probabilities: list[float]
    rounds: list[int]
    phase: int
    waiting: int
    state: str


@dataclass(frozen=True)
class HandedOver:
    """A summary the policy was told."""

    phase: int
    first: int
    end: int
    late: bool
    summary: Summary


@dataclass
class Model:
    """An experiment.

    Attributes:
        policy: what plans.
        seed: of the draws.
        lease: seconds until an assignment is lost, or None.
        window: seconds until an outcome enters, or None if it does when told.
    """

    policy: _Policy
    seed: int
    lease: float | None
    window: float | None = None
    otherwise: float = 0.25
    state: str = "running"
    rows: list[Row] = field(default_factory=list)
    reports: list[tuple[int, float, float, bool]] = field(default_factory=list)
    losses: list[int] = field(default_factory=list)  # in the order lost
    requests: dict[str, tuple[int, Given]] = field(default_factory=dict)
    units: dict[tuple[str, str], list[int]] = field(default_factory=dict)  # ids of their rounds
    handed: list[HandedOver] = field(default_factory=list)
    plans: list[tuple[Plan, int]] = field(default_factory=list)  # with their first ids
    planned: bool = False
    out: int = 0  # drawn under the plan before, and not handed over when the last one was made
    deferred: dict[int, int | None] = field(default_factory=dict)  # outstanding then: told with
    amended: int = 0  # of those, told since the plan was made
    retired: dict[str, str] = field(default_factory=dict)  # reasons by option
    added: dict[str, list[float] | None] = field(default_factory=dict)  # features by option
    news: list[tuple[str, str]] = field(default_factory=list)  # changes the policy is to be told of
    kinds: list[str] = field(default_factory=lambda: ["created"])

    def __post_init__(self) -> None:
        self.problem = self.policy.problem
        self.advance()

    @property
    def over(self) -> bool:
        return self.state in {"stopped", "finished"}

    @property
    def plan(self) -> Plan:
        return self.plans[-1][0]

    @property
    def first(self) -> int:
        return self.plans[-1][1] if self.plans else 0

    @property
    def size(self) -> int:
        return self.plan.size if self.plans else 1

    @property
    def handed_end(self) -> int:
        return max((each.end for each in self.handed), default=0)

    @property
    def unsettled(self) -> list[int]:
        return [row.id for row in self.rows if not row.settled]

    # --- what people do ------------------------------------------------------------------------

    def ask(
        self,
        count: int,
        now: float,
        request: str | None = None,
        forecasts: list[float] | None = None,
    ) -> Given:
        if request in self.requests:
            asked, given = self.requests[request]
            if asked != count:
                raise InvalidInputError("another count", field="request_id")
            short = len(given.ids) < count * self.size and given.phase == self.plan.phase
            still = short and self.planned and self.state == "running" and self._room(1) < self.size
            return replace(given, state=self.state, waiting=len(self.unsettled) if still else 0)
        self.expire(now)
        self.advance()
        wanted, start, size = count * self.size, len(self.rows), 0
        if self.planned and self.state == "running":
            size = min(wanted, self._room(wanted)) // self.size * self.size
        for place in range(size):
            arm, probability = self._draw()
            forecast = None
            if forecasts is not None:
                assert self.plan.forecasts is not None
                low, high = self.plan.forecasts
                forecast = max(low, min(high, forecasts[place]))
            number, turn = len(self.rows), 0
            if self.rows:
                turn = self.rows[-1].round + ((number - self.first) % self.size == 0)
            self.rows.append(Row(number, turn, self.plan.phase, arm, probability, now, forecast))
        new = self.rows[start:]
        waits = size < wanted and self.state == "running"
        given = Given(
            ids=[row.id for row in new],
            arms=[row.arm for row in new],
            probabilities=[row.probability for row in new],
            rounds=[row.round for row in new],
            phase=self.plan.phase if self.plans else 0,
            waiting=len(self.unsettled) if waits else 0,
            state=self.state,
        )
        if request is not None and new:
            self.requests[request] = count, given
        return given

    def ask_units(
        self, keys: list[tuple[str, str]], now: float, forecasts: list[float] | None = None
    ) -> Given:
        known = {} if self.over else self.units
        new = [place for place, key in enumerate(keys) if key not in known]
        given = Given([], [], [], [], self.plan.phase if self.plans else 0, 0, self.state)
        if new:
            some = None if forecasts is None else [forecasts[place] for place in new]
            given = self.ask(len(new), now, forecasts=some)
            turns = [given.ids[at : at + self.size] for at in range(0, len(given.ids), self.size)]
            made = zip((keys[place] for place in new), turns, strict=False)
            self.units |= dict(made)
        if len(new) == len(keys):
            return given
        rows = [self.rows[number] for key in keys for number in self.units.get(key, ())]
        return replace(
            given,
            ids=[row.id for row in rows],
            arms=[row.arm for row in rows],
            probabilities=[row.probability for row in rows],
            rounds=[row.round for row in rows],
        )

    def erase(self, unit: str) -> int:
        mine = [key for key in self.units if key[0] == unit]
        for key in mine:
            del self.units[key]
        self.kinds += ["erased"] if mine else []
        return len(mine)

    def _room(self, count: int) -> int:
        if self.news:  # nothing more under a plan that knows nothing of them
            return 0
        given = len(self.rows) - self.first
        if not self.plan.open:
            return self.plan.pulls + self._lost_of_phase() - given
        if self.plan.most is None:
            return count
        limit = max(0, self.plan.most - self.out)
        if self.handed_end >= self.first and not self.plan.provisional:
            limit = max(limit, self.plan.pulls)
        return max(0, limit - given)

    def _lost_of_phase(self) -> int:
        return sum(row.lost is not None for row in self.rows[self.first :])

    def _draw(self) -> tuple[int, float]:
        number = len(self.rows)
        if isinstance(self.plan, BlockPlan):
            place = (number - self.first) % self.size
            drawn = self.plan.blocks, self.plan.block_weights
            arm = draw_block(self.seed, number - place, *drawn)[place]
            holds = [chance for block, chance in zip(*drawn, strict=True) if arm in block]
            return arm, sum(holds, 0.0)
        if self.plan.weights is not None:
            arm = draw(self.seed, number, self.plan.weights)
            return arm, float(self.plan.weights[arm])
        assert self.plan.counts is not None
        order = round_robin(self.plan.counts).tolist()
        # One by one: whatever was lost of the phase is pulled again, in the order lost.
        order += [self.rows[lost].arm for lost in self.losses if lost >= self.first]
        return order[number - self.first], 1.0

    def tell_many(self, outcomes: Iterable[tuple[int, float]], now: float) -> Receipt:
        news = dict(outcomes)
        self._check_known(news)
        if self.window is not None:
            return self._report(news, now)
        fresh = {}
        for number, reward in news.items():
            before = self.rows[number].reward
            if before is None:
                fresh[number] = reward
            elif before != reward:
                raise ConflictingOutcomeError("another reward", field="reward")
        self.expire(now)
        late = 0
        if any(self.over or self.rows[number].lost is not None for number in fresh):
            self.kinds.append("late")
        for number, reward in fresh.items():
            row = self.rows[number]
            row.reward, row.told = reward, now
            row.late = self.over or row.lost is not None
            late += row.late
        return Receipt(len(fresh), len(news) - len(fresh), late)

    def _report(self, news: dict[int, float], now: float) -> Receipt:
        self.expire(now)
        fresh = {n: reward for n, reward in news.items() if self.told(n) != reward}
        late = [n for n in fresh if self.over or self.rows[n].settled]
        self.reports += [(n, reward, now, n in late) for n, reward in fresh.items()]
        self.kinds += ["late"] if late else []
        return Receipt(len(fresh), len(news) - len(fresh), len(late), len(fresh) - len(late))

    def told(self, number: int) -> float | None:
        """What was told last of an assignment, or entered for it."""
        of = [reward for n, reward, _, _ in self.reports if n == number]
        return of[-1] if of else self.rows[number].reward

    def failed_too_late(self, number: int, now: float) -> bool:
        """Whether it has an outcome, or will have one as soon as anything happens."""
        known = self.told(number) is not None
        ends = self.window is not None and number in self._overdue(now)
        return (known or ends) and self.rows[number].lost is None

    def tell_each(
        self, several: Iterable[Iterable[tuple[int, float]]], now: float
    ) -> list[Receipt | type[InvalidInputError]]:
        self.expire(now)
        answers: list[Receipt | type[InvalidInputError]] = []
        for outcomes in several:
            try:
                answers.append(self.tell_many(outcomes, now))
            except InvalidInputError as error:
                answers.append(type(error))
        return answers

    def fail_many(self, ids: Iterable[int], now: float) -> None:
        numbers = list(dict.fromkeys(ids))
        self._check_known(numbers)
        for number in numbers:
            if self.failed_too_late(number, now):
                raise ConflictingOutcomeError("it was told", field="id")
        self.expire(now)
        fresh = [number for number in numbers if self.rows[number].lost is None]
        for number in fresh:
            self._lose(number, now)
        if fresh and self.over:
            self.kinds.append("failed")

    def _check_known(self, ids: Iterable[int]) -> None:
        if any(not 0 <= number < len(self.rows) for number in ids):
            raise UnknownAssignmentError("never given out", field="id")

    def _overdue(self, now: float) -> list[int]:
        limit = self.lease if self.window is None else self.window
        if limit is None or self.over:
            return []
        return [n for n in self.unsettled if self.rows[n].asked + limit <= now]

    def expire(self, now: float) -> None:
        for number in self._overdue(now):
            if self.window is None:
                self._lose(number, now)
                continue
            row, told = self.rows[number], self.told(number)
            row.reward, row.told = self.otherwise if told is None else told, now

    def _lose(self, number: int, now: float) -> None:
        self.rows[number].lost = now
        self.losses.append(number)

    def change(self, kind: str) -> None:
        becomes = {"paused": "paused", "resumed": "running", "stopped": "stopped"}[kind]
        if self.state == becomes:
            return
        allowed = {"paused": {"running"}, "resumed": {"paused"}, "stopped": {"running", "paused"}}
        if self.state not in allowed[kind]:
            raise InvalidInputError("not from this state", field="state")
        self.state = becomes
        self.kinds.append(kind)

    def change_lease(self, lease: float | None) -> None:
        if self.over or self.window is not None:
            raise InvalidInputError("it is over, or has a window", field="state")
        if lease != self.lease:
            self.lease = lease
            self.kinds.append("changed")

    def retire(self, label: str, reason: str) -> None:
        if self.retired.get(label) == reason:
            return
        left = [each for each in self.problem.target_labels if each not in self.retired]
        if self.over or label not in left or len(left) == 1:
            raise InvalidInputError("it cannot be retired", field="option")
        self.retired[label] = reason
        self.news.append(("retired", label))
        self.kinds.append("retired")

    def add(self, label: str, features: list[float] | None) -> None:
        known = label in self.problem.target_labels
        if known and label not in self.retired and self.added.get(label, "") == features:
            return
        if self.over or known:
            raise InvalidInputError("it cannot be added", field="option")
        self.problem = self.problem.with_option(label, features)
        self.added[label] = features
        self.news.append(("added", label))
        self.kinds.append("added")

    # --- what follows --------------------------------------------------------------------------

    def advance(self) -> None:
        """Close and open phases until there is nothing to do."""
        while not self.over and self._step():
            pass

    def _step(self) -> bool:
        if not self.planned:
            self._tell_news()
            plan = self.policy.plan()
            if plan is None:
                self._finish()
            else:
                self.plans.append((plan, len(self.rows)))
                self.out = len(self.rows) - self.handed_end
                self.planned, self.amended = True, 0
                self.kinds.append("planned")
            return True
        if self.news and self.plan.open:
            return self._close_early()
        if self.plan.provisional:
            return self._provisional_step()
        start = self.handed_end
        if start < self.first:
            # Drawn under a plan before, after it had closed.
            if not all(row.settled for row in self.rows[start : self.first]):
                return False
            phase = self.rows[start].phase
            end = self.plans[phase][1]
            self._hand_over(start, end, late=True)
            if self.policy.plan() is None:
                self._finish()
            return True
        return self._close()

    def _close(self) -> bool:
        """Close the open phase, once it has what it asks for."""
        mine, enough = self.rows[self.first :], self.plan.pulls
        if self.plan.open:
            gaps = [place for place, row in enumerate(mine) if not row.settled]
            answered = (gaps[0] if gaps else len(mine)) // self.size * self.size
        else:
            # As many answers as it asks for, and nothing of it still out.
            used = sum(row.reward is not None and row.lost is None for row in mine)
            answered = len(mine) if used == self.plan.pulls else 0
            if self.news and all(row.settled for row in mine):
                answered, enough = len(mine), 0
        if answered < enough:
            return False
        self._hand_over(self.first, self.first + answered, late=False)
        self.planned = False
        return True

    def _close_early(self) -> bool:
        """Options changed: what was assigned, or what is settled of it without a gap, is told."""
        mine, start = self.rows[self.first :], self.handed_end
        if self.plan.provisional:
            for row in mine:
                if not row.settled:
                    self.deferred[row.id] = None
            summary = self._summary(mine, self.plan)
            self._tell(self.plan.phase, self.first, len(self.rows), False, summary)
        elif start < self.first:  # some of a phase before are not told yet
            self._tell(self.plan.phase, start, start, False, self._summary([], self.plan))
        else:
            gaps = [place for place, row in enumerate(mine) if not row.settled]
            prefix = gaps[0] if gaps else len(mine)
            self._hand_over(self.first, self.first + prefix, late=False)
        self.planned = False
        return True

    def _tell_news(self) -> None:
        for kind, label in self.news:
            problem = self.policy.problem
            if kind == "added":
                self.policy.add(problem.with_option(label, self.added[label]))
            else:
                self.policy.retire(problem.target_labels.index(label))
        self.news = []

    def _provisional_step(self) -> bool:
        """Outcomes of earlier phases first: as many as the plan asks for, or nearly all."""
        mine = self.rows[self.first :]
        fresh = [n for n, e in self.deferred.items() if e is None and self.rows[n].settled]
        behind = [n for n in self.unsettled if n < self.first]
        news = sum(row.settled for row in mine) + len(fresh) + self.amended
        closable = len(mine) >= self.plan.pulls and news >= self.plan.pulls
        if fresh and (closable or len(fresh) >= min(self.plan.pulls, 16 * len(behind))):
            for phase in sorted({self.rows[n].phase for n in fresh}):
                part = sorted(n for n in fresh if self.rows[n].phase == phase)
                self.deferred.update(dict.fromkeys(part, len(self.handed)))
                self.amended += len(part)
                rows, first, end = [self.rows[n] for n in part], part[0], part[-1] + 1
                if self.plans[phase - 1][0].size > 1:  # all rounds once more
                    rows = [row for row in self.rows if row.phase == phase]
                    first, end = rows[0].id, rows[-1].id + 1
                plan = self.plans[phase - 1][0]
                self._tell(phase, first, end, True, self._summary(rows, plan))
                if self.policy.plan() is None:
                    self._finish()
                    break
            return True
        if closable:
            for row in mine:
                if not row.settled:
                    self.deferred[row.id] = None
            summary = self._summary(mine, self.plan)
            self._tell(self.plan.phase, self.first, len(self.rows), False, summary)
            self.planned = False
        return closable

    def _finish(self) -> None:
        self.state, self.planned = "finished", False
        self.kinds.append("finished")

    def _hand_over(self, first: int, end: int, *, late: bool) -> None:
        rows = self.rows[first:end]
        phase = rows[0].phase if late else self.plan.phase
        assert all(row.phase == phase and row.settled for row in rows)
        self._tell(phase, first, end, late, self._summary(rows, self.plans[phase - 1][0]))

    def _summary(self, rows: list[Row], plan: Plan) -> Summary:
        if isinstance(plan, BlockPlan):
            return self._rounds(plan, rows)
        counts, missing, pending = np.zeros((3, plan.arms), dtype=np.int64)
        sums, squares, cubes, least, largest = np.zeros((5, plan.arms))
        forecast_sum = 0.0
        for row in rows:
            if not row.settled:
                pending[row.arm] += 1
            elif row.lost is not None:
                missing[row.arm] += plan.open
            else:
                assert row.reward is not None
                assert not row.late
                forecast_sum += row.forecast or 0.0
                reward = row.reward - (row.forecast or 0.0) - plan.center
                counts[row.arm] += 1
                sums[row.arm] += reward
                squares[row.arm] += reward * reward
                cubes[row.arm] += reward * reward * reward
                least[row.arm] = min(reward, least[row.arm]) if counts[row.arm] > 1 else reward
                largest[row.arm] = max(reward, largest[row.arm]) if counts[row.arm] > 1 else reward
        known = counts, sums, squares, missing, pending, plan.center
        return Summary(*known, least, largest, forecast_sum, cubes)

    def _rounds(self, plan: BlockPlan, rows: list[Row]) -> Rounds:
        kinds, table, awaited = [], [], []
        for number in sorted({row.round for row in rows}):
            members = sorted((row for row in rows if row.round == number), key=lambda row: row.arm)
            kinds.append(plan.blocks.tolist().index([row.arm for row in members]))
            known = [None if row.lost is not None else row.reward for row in members]
            table.append([math.nan if reward is None else reward for reward in known])
            awaited.append([not row.settled for row in members])
        return Rounds.of(plan, kinds, table, awaited)

    def _tell(self, phase: int, first: int, end: int, late: bool, summary: Summary) -> None:
        active = set(self.policy.recommend().active)
        if late:
            self.policy.amend(summary, phase=phase)
        else:
            self.policy.update(summary)
        self.handed.append(HandedOver(phase, first, end, late, summary))
        self.kinds.append("answered" if late else "closed")
        if active - set(self.policy.recommend().active):
            self.kinds.append("eliminated")

    # --- what is reported of it -----------------------------------------------------------------

    def status(self) -> Status:
        mine = self.rows[self.first :]
        remaining = 0
        if not self.over and self.planned and not self.news:
            wanted = self.plan.pulls + (0 if self.plan.open else self._lost_of_phase())
            remaining = max(0, wanted - len(mine))
            if self.plan.provisional and self.plan.most is not None:
                remaining = min(remaining, max(0, self.plan.most - len(mine)))
        return Status(
            phase=self.plan.phase if self.plans else 0,
            given=len(mine),
            answered=sum(row.settled for row in mine),
            outstanding=len(self.unsettled),
            remaining=remaining // self.size * self.size,
            pulls=len(self.rows),
            rounds=len({row.round for row in self.rows}),
            state=self.state,
            lost=sum(row.lost is not None for row in self.rows),
            late=sum(row.late for row in self.rows) + sum(late for *_, late in self.reports),
            early=len({n for n, _, _, late in self.reports if not late} & {*self.unsettled}),
            needs_lease=self._needs_lease(),
        )

    def _needs_lease(self) -> bool:
        plan = self.plans[-1][0] if self.plans else None
        waits = plan is not None and plan.open and not plan.provisional
        return waits and self.lease is None and self.window is None and not self.over
