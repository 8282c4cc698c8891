"""The rules by which an experiment moves on, written once for every kind of book-keeping.

Each function is one step inside a transaction. Whoever is killed between two steps leaves the
books in order, and whoever comes next goes on from there.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bestarm.checks import finite
from bestarm.geometry import Array
from bestarm.live import digests
from bestarm.live.draws import choose, uniforms
from bestarm.live.events import digest, log, plan_data, summary_data
from bestarm.live.ledger import Entry, Head, Opened, Reading, Writing
from bestarm.live.replay import Player, tell
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
    "turns",
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
    head.behind = head.given - head.first - head.phase_told - head.phase_lost
    head.phase, head.first, head.planned = plan.phase, head.given, True
    head.open, head.pulls = plan.open, plan.pulls
    head.most = extent(plan, head.first - head.handed)
    head.phase_told = head.phase_lost = 0
    tx.open_phase(Opened(plan, head.first))
    data = plan_data(plan)
    log(tx, "planned", at, phase=plan.phase, pulls=plan.pulls, first=head.first, plan=digest(data))


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
    head, problem = tx.head, policy.problem
    phase = head.phase - 1 if late else head.phase
    plan = tx.opened(phase).plan
    summary, rows = total(tx, head.handed, end, plan=plan, arms=problem.arms)
    active = policy.recommend().active
    tell(policy, summary, late=late)
    entry = Entry(head.summaries, phase, head.handed, end, late, summary, rows)
    tx.add_entry(entry)
    head.handed, head.summaries = end, head.summaries + 1
    player.told(head.summaries)
    log(
        tx,
        "answered" if late else "closed",
        at,
        phase=phase,
        first=entry.first,
        end=end,
        summary=digest(summary_data(summary)),
        rows=rows,
        times=digests.times(tx, entry.first, end),
        requests=head.requests,
    )
    gone = sorted(set(active) - set(policy.recommend().active))
    if gone:
        labels = [problem.target_labels[target] for target in gone]
        log(tx, "eliminated", at, phase=phase, targets=gone, labels=labels)


def total(books: Reading, first: int, end: int, *, plan: Plan, arms: int) -> tuple[Summary, str]:
    """The totals of the assignments from `first` up to `end`, and a digest of what they are.

    In order of id: floating-point sums would otherwise depend on the order of arrival. Under a
    plan that is closed, lost ones are left out, as others were drawn in their place.
    """
    counts = np.zeros(arms, dtype=np.int64)
    missing = np.zeros(arms, dtype=np.int64)
    sums: Array = np.zeros(arms)
    squares: Array = np.zeros(arms)
    running = hashlib.sha256()
    every = np.arange(arms)
    for arms_drawn, rewards in books.answers(first, end):
        # Row by row, so that it does not matter in what pieces they are read.
        pairs = np.empty(len(rewards), dtype=[("arm", "<i8"), ("reward", "<f8")])
        pairs["arm"], pairs["reward"] = arms_drawn, rewards
        running.update(pairs.tobytes())
        lost = np.isnan(rewards)
        if lost.any():
            missing += np.bincount(arms_drawn[lost], minlength=arms)
        arm, reward = arms_drawn[~lost], rewards[~lost]
        counts += np.bincount(arm, minlength=arms)
        # The totals so far go first, so that pieces add up as one row after the other would.
        arm = np.concatenate([every, arm])
        sums = np.bincount(arm, np.concatenate([sums, reward])).astype(float)
        squares = np.bincount(arm, np.concatenate([squares, reward * reward])).astype(float)
    summary = Summary(counts, sums, squares)
    if plan.open and missing.any():
        summary = replace(summary, missing=missing)
    return summary, running.hexdigest()


def turns(plan: Plan) -> NDArray[np.int64] | None:
    """The order in which a fixed plan is pulled."""
    return None if plan.counts is None else round_robin(plan.counts)
