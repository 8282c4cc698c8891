"""The rules by which an experiment moves on, written once for every kind of book-keeping.

Each function is one step inside a transaction. Whoever is killed between two steps leaves the
books in order, and whoever comes next goes on from there.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bestarm.checks import finite
from bestarm.geometry import Array
from bestarm.live import digests
from bestarm.live.draws import choose, uniforms
from bestarm.live.events import digest, log, plan_data, summary_data
from bestarm.live.replay import Player, tell
from bestarm.live.store.contract import Entry, Head, Ids, Opened, Reading, Rows, Writing
from bestarm.policies.policy import Policy
from bestarm.records import Plan, Recommendation, Summary, round_robin

__all__ = [
    "draw_arms",
    "ending",
    "expire",
    "extent",
    "finish",
    "finished_data",
    "look",
    "lose",
    "stamp",
    "step",
    "total",
    "total_of",
    "turns",
    "waits_for",
]


def stamp(head: Head, now: float) -> float:
    """Note the time of a transaction, and by how much the clock has gone back since the last."""
    now = finite(now, "clock")
    if now < head.at:
        head.setback = max(head.setback, head.at - now)
    head.at = max(head.at, now)
    return now


def expire(tx: Writing, now: float) -> None:
    """Give up the outcomes that are overdue."""
    head = tx.head
    if head.over or head.lease is None or head.oldest + head.lease > now:
        return
    look(tx)
    if head.settled == head.given:
        head.oldest = math.inf
        return
    head.oldest = _oldest(tx)
    if head.oldest + head.lease <= now:
        overdue = tx.unsettled(head.settled, head.given, asked_by=now - head.lease)
        lose(tx, overdue.tolist(), reason="expired", at=now)


def _oldest(tx: Writing) -> float:
    """When the first that is not settled was given out, or one given out earlier."""
    head = tx.head
    if not head.setback:
        return tx.asked(head.settled)
    # The clock once went back, so that the times are not in order of id.
    least = math.inf
    for rows in tx.rows(head.settled, head.given):
        free = np.isnan(rows["reward"]) & np.isnan(rows["lost"])
        least = min(least, rows["asked"][free].min(initial=math.inf))
    return least


def lose(tx: Writing, ids: list[int], *, reason: str, at: float) -> None:
    """Give up the outcomes of assignments that are not settled."""
    head = tx.head
    tx.lose(ids, reason=reason, at=at)
    behind = sum(number < head.first for number in ids)
    head.lost += len(ids)
    head.phase_lost += len(ids) - behind
    head.behind -= behind
    head.fresh += sum(number < head.handed for number in ids)
    look(tx)


def look(tx: Writing) -> None:
    """Find the first assignment that is not settled."""
    head = tx.head
    free = tx.unsettled(head.settled, head.given)
    head.settled = int(free[0]) if free.size else head.given


def draw_arms(
    books: Reading, opened: Opened, order: NDArray[np.int64] | None, *, seed: int, size: int
) -> tuple[NDArray[np.int64], Array]:
    """The arms of the next `size` assignments of a phase and their probabilities, read-only.

    A fixed plan goes in turn; what was lost of it is pulled again at its end.

    Args:
        books: the head says how many were given out before.
        opened: the phase.
        order: the turns of a fixed plan.
        seed: of the draws.
        size: how many.
    """
    start, weights = books.head.given, opened.plan.weights
    if weights is None:
        assert order is not None
        at = start - opened.first
        arms = order[at : at + size]
        if len(arms) < size:
            again = max(0, at - len(order))
            missed = books.lost_arms(opened.plan.phase, again, size - len(arms))
            arms = np.concatenate([arms, missed])
        arms, probabilities = arms.copy(), np.ones(size)
    else:
        arms = choose(weights, uniforms(seed, start=start, count=size))
        probabilities = weights[arms]
    arms.flags.writeable = False
    probabilities.flags.writeable = False
    return arms, probabilities


def step(tx: Writing, player: Player, at: float) -> None:
    """Do the next thing that is due: make a plan, or tell the policy what is answered."""
    head = tx.head
    policy = player.policy(tx)
    if not head.planned:
        _open(tx, policy, player.plan(), at)
    elif head.fresh:
        _amend(tx, player, policy, at)
    elif head.provisional:
        _close(tx, player, policy, at)
    elif head.handed < head.first:
        # Drawn under the plan before, beyond what it asked for, and all settled by now.
        _hand_over(tx, player, policy, head.first, at=at, late=True)
        if policy.plan() is None:
            finish(tx, policy, at)
    else:
        _hand_over(tx, player, policy, head.settled if head.open else head.given, at=at)
        head.planned = False


def _open(tx: Writing, policy: Policy, plan: Plan | None, at: float) -> None:
    head = tx.head
    if plan is None:
        finish(tx, policy, at)
        return
    head.behind += head.given - head.first - head.phase_told - head.phase_lost
    head.phase, head.first, head.planned = plan.phase, head.given, True
    head.open, head.provisional, head.pulls = plan.open, plan.provisional, plan.pulls
    head.most = extent(plan, head.first - head.handed)
    head.phase_told = head.phase_lost = head.amended = 0
    tx.open_phase(Opened(plan, head.first))
    data = plan_data(plan)
    log(tx, "planned", at, phase=plan.phase, pulls=plan.pulls, first=head.first, plan=digest(data))


def waits_for(books: Reading) -> tuple[int | None, float | None]:
    """The assignment whose outcome holds up the decision, and when it was given out.

    It does once as many outcomes are in as the plan asks for, and one before them is not.
    """
    head = books.head
    enough = head.behind or head.phase_told + head.phase_lost >= head.pulls
    if not head.waits or head.over or not head.planned or head.due or not enough:
        return None, None
    free = books.unsettled(head.settled, head.given)
    return (int(free[0]), books.asked(int(free[0]))) if free.size else (None, None)


def extent(plan: Plan, out: int) -> int | None:
    """How many pulls a plan may be extended to, where others are out that it does not know of."""
    return None if plan.most is None else max(0, plan.most - out)


def finish(tx: Writing, policy: Policy, at: float) -> None:
    """The policy has stopped."""
    tx.head.state, tx.head.planned = "finished", False
    log(tx, "finished", at, **finished_data(policy.recommend()), **ending(tx))


def ending(books: Reading) -> dict[str, Any]:
    """What the log says, at the end, of all that no earlier event covers."""
    return {**digests.rest(books), "requests": books.head.requests}


def finished_data(said: Recommendation) -> dict[str, Any]:
    """What the log says of the end."""
    return {
        "target": said.target,
        "label": said.label,
        "chosen": list(said.chosen),
        "final": said.final,
        "reason": said.reason,
        "pulls": said.pulls,
        "error_bound": said.error_bound,
    }


def _hand_over(
    tx: Writing, player: Player, policy: Policy, end: int, *, at: float, late: bool = False
) -> None:
    """Tell the policy the outcomes up to an id; late if they were drawn under the plan before."""
    head = tx.head
    phase = head.phase - 1 if late else head.phase
    plan = tx.opened(phase).plan
    summary, rows = total(tx, head.handed, end, plan=plan, arms=policy.problem.arms)
    entry = Entry(head.summaries, phase, head.handed, end, late, summary, rows)
    head.handed = end
    _tell(tx, player, policy, entry, times=digests.times(tx, entry.first, end), at=at)


def _close(tx: Writing, player: Player, policy: Policy, at: float) -> None:
    """Tell the policy of all that was drawn under its plan; what is outstanding follows later."""
    head = tx.head
    first, end = head.handed, head.given
    pending = tx.unsettled(first, end, asked_by=math.inf)
    if pending.size:
        tx.defer(pending)
    plan, arms = tx.opened(head.phase).plan, policy.problem.arms
    summary, rows = total(tx, first, end, plan=plan, arms=arms, pending=pending)
    entry = Entry(head.summaries, head.phase, first, end, False, summary, rows)
    head.handed, head.planned = end, False
    _tell(tx, player, policy, entry, times=digests.times(tx, first, end), at=at)


def _amend(tx: Writing, player: Player, policy: Policy, at: float) -> None:
    """Tell the policy the outcomes that were outstanding and are in by now, phase by phase."""
    head = tx.head
    ids = tx.arrived()
    rows = digests.rows_of(tx, ids)
    head.fresh = 0
    head.amended += len(rows)
    for phase in np.unique(rows["phase"]).tolist():
        part = rows[rows["phase"] == phase]
        plan = tx.opened(phase).plan
        summary, digested = total_of(part, plan=plan, arms=policy.problem.arms)
        first, end = int(part["id"][0]), int(part["id"][-1]) + 1
        entry = Entry(head.summaries, phase, first, end, True, summary, digested)
        tx.amend(part["id"], entry=entry.number)
        times = digests.digest_of([digests.times_of(part)])
        _tell(tx, player, policy, entry, times=times, at=at)
        if policy.plan() is None:
            # The rest is told to nobody: it was decided without it.
            head.fresh = int((rows["phase"] > phase).sum())
            head.amended -= head.fresh
            finish(tx, policy, at)
            return


def _tell(
    tx: Writing, player: Player, policy: Policy, entry: Entry, *, times: str, at: float
) -> None:
    """Tell the policy a summary, and put it on record."""
    head, problem = tx.head, policy.problem
    active = policy.recommend().active
    tell(policy, entry.summary, phase=entry.phase, late=entry.late)
    tx.add_entry(entry)
    head.summaries += 1
    player.told(entry)
    log(
        tx,
        "answered" if entry.late else "closed",
        at,
        phase=entry.phase,
        first=entry.first,
        end=entry.end,
        drawn=int(entry.summary.drawn.sum()),
        summary=digest(summary_data(entry.summary)),
        rows=entry.digest,
        times=times,
        requests=head.requests,
    )
    gone = sorted(set(active) - set(policy.recommend().active))
    if gone:
        labels = [problem.target_labels[target] for target in gone]
        log(tx, "eliminated", at, phase=entry.phase, targets=gone, labels=labels)


def total(
    books: Reading,
    first: int,
    end: int,
    *,
    plan: Plan,
    arms: int,
    pending: NDArray[np.int64] | None = None,
) -> tuple[Summary, str]:
    """The totals of the assignments from `first` up to `end`, and a digest of what they are.

    In order of id: floating-point sums would otherwise depend on the order of arrival. Under a
    plan that is closed, lost ones are left out, as others were drawn in their place.

    Args:
        books: what has the outcomes.
        first: the first id.
        end: the id after the last.
        plan: the plan that they were drawn under.
        arms: the number of source arms.
        pending: ids that are outstanding, or that were when this was first added up.
    """
    sums = _Totals(plan, arms)
    for arms_drawn, rewards in books.answers(first, end):
        outstanding = np.zeros(len(rewards), dtype=bool)
        if pending is not None:
            here = pending[(pending >= first) & (pending < first + len(rewards))]
            outstanding[here - first] = True
        sums.add(arms_drawn, rewards, outstanding)
        first += len(rewards)
    return sums.summary(), sums.digest()


def total_of(rows: Rows, *, plan: Plan, arms: int) -> tuple[Summary, str]:
    """The same of rows that are all settled."""
    sums = _Totals(plan, arms)
    rewards = np.where(np.isnan(rows["lost"]), rows["reward"], np.nan)
    sums.add(rows["arm"], rewards, np.zeros(len(rows), dtype=bool))
    return sums.summary(), sums.digest()


class _Totals:
    """Adds assignments up, one row after the other, in whatever pieces they come."""

    def __init__(self, plan: Plan, arms: int) -> None:
        self._plan, self._arms = plan, arms
        self._counts, self._missing, self._pending = np.zeros((3, arms), dtype=np.int64)
        self._sums, self._squares = np.zeros((2, arms))
        self._running = hashlib.sha256()

    def add(self, arms: Ids, rewards: Array, pending: NDArray[np.bool_]) -> None:
        """Add assignments; a reward that is NaN was lost, unless it is pending."""
        rewards = np.where(pending, np.nan, rewards)
        pairs = np.empty(len(rewards), dtype=[("arm", "<i8"), ("reward", "<f8")])
        pairs["arm"], pairs["reward"] = arms, rewards
        self._running.update(pairs.tobytes())
        without = np.isnan(rewards)
        if without.any():
            self._missing += np.bincount(arms[without & ~pending], minlength=self._arms)
            self._pending += np.bincount(arms[pending], minlength=self._arms)
        arm, reward = arms[~without], rewards[~without] - self._plan.center
        self._counts += np.bincount(arm, minlength=self._arms)
        # The totals so far go first, so that pieces add up as one row after the other would.
        arm = np.concatenate([np.arange(self._arms), arm])
        self._sums = np.bincount(arm, np.concatenate([self._sums, reward])).astype(float)
        squares = np.concatenate([self._squares, reward * reward])
        self._squares = np.bincount(arm, squares).astype(float)

    def summary(self) -> Summary:
        """What they add up to."""
        nothing = np.zeros(0, dtype=np.int64)
        return Summary(
            self._counts,
            self._sums,
            self._squares,
            self._missing if self._plan.open else nothing,
            self._pending,
            self._plan.center,
        )

    def digest(self) -> str:
        """Of what they are."""
        return self._running.hexdigest()


def turns(plan: Plan) -> NDArray[np.int64] | None:
    """The order in which a fixed plan is pulled."""
    return None if plan.counts is None else round_robin(plan.counts)
