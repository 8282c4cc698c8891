"""Health checks of an experiment: each has a level, a finding and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from bestarm.errors import ProtocolError
from bestarm.geometry import Array
from bestarm.live.audit.ratios import RatioTest
from bestarm.live.audit.scales import Scales
from bestarm.live.replay import recorded_plans
from bestarm.live.store.contract import ROW, Head, Reading, Rows, SummaryRecord
from bestarm.live.store.damage import check_arms, check_plan, check_summary, damaged
from bestarm.live.summaries import waiting_ids
from bestarm.live.values import Check, plural
from bestarm.problem import Problem
from bestarm.records import Counts, Plan, Summary

__all__ = ["examine"]

_WARNING, _ALARM = 1e-3, 1e-6  # probabilities under which a sound experiment shows a finding
_TAIL = 200_000  # assignments that no summary covers, read one by one
_WINDOW = 10_000  # settled assignments before them, for how long outcomes take
_FEW = 20  # outcomes needed to know that
_LEAST_PATIENCE = 60.0  # seconds
_SLOW = 10  # an outcome is overdue after 10 × the time that 95 % of them take


def examine(
    books: Reading,
    *,
    problem: Problem,
    bounds: tuple[float, float] | None,
    mean_bound: float | None,
    now: float,
) -> tuple[Check, ...]:
    """Check an experiment by its counters, its summaries and the rows that no summary covers.

    Args:
        books: a transaction.
        problem: what is declared of noise and baseline.
        bounds: the least and the largest reward there can be, or None.
        mean_bound: what is declared of the size of x·θ; the problem's scale if None.
        now: the time.
    """
    head = books.head
    largest = problem.scale if mean_bound is None else mean_bound
    scales = Scales(problem, largest)
    arms = _Arms(problem.arms)
    provisional: dict[int, Summary] = {}
    plan_of = recorded_plans(books)
    for record in books.summaries():
        plan, summary = plan_of(record.phase), record.summary
        check_plan(plan, problem.arms)
        check_summary(record.number, summary, problem.arms)
        if plan.provisional:
            provisional[plan.phase] = _amended(provisional.get(plan.phase), record)
            continue
        lost = summary.missing
        if head.losses and not plan.open:  # replaced, and therefore in no summary
            again = books.lost_arms(plan.phase, 0, 2**40)
            if ((again < 0) | (again >= problem.arms)).any():
                raise damaged(f"Phase {plan.phase} has losses on record of arms that are not.")
            lost = _counted(again, problem.arms)
        arms.add(plan, told=summary.counts, lost=lost)
        scales.add(summary)
    tail = _Tail(books, now)
    for phase, summary in provisional.items():
        check_arms(tail.waiting["id"], tail.waiting["arm"], problem.arms)
        scales.add(summary)
        rows = tail.waiting[tail.waiting["phase"] == phase]
        told, lost = ~np.isnan(rows["reward"]) & np.isnan(rows["lost"]), ~np.isnan(rows["lost"])
        late = now - rows["asked"] > tail.patience
        arms.add(
            plan_of(phase),
            told=summary.counts + _counted(rows["arm"][told], problem.arms),
            lost=summary.missing + _counted(rows["arm"][lost | (~told & late)], problem.arms),
            waiting=_counted(rows["arm"][~told & ~lost & ~late], problem.arms),
        )
    check_arms(tail.rows["id"], tail.rows["arm"], problem.arms)
    for plan, rows, told in tail.parts():
        check_plan(plan, problem.arms)
        kept, gone = rows["arm"][told], rows["arm"][tail.gone(rows)]
        waiting = _counted(rows["arm"], problem.arms) - _counted(kept, problem.arms)
        arms.add(
            plan,
            told=_counted(kept, problem.arms),
            lost=_counted(gone, problem.arms),
            waiting=waiting - _counted(gone, problem.arms),
        )
    labels = problem.source_labels
    return (
        _ratio("assignments", arms.given, labels, "assignments"),
        _ratio("outcomes", arms.told, labels, "settled outcomes"),
        _missing(arms, labels, head.losses),
        _overdue(head, tail, now),
        _late(head),
        _range(head, bounds, scales),
        _scale(bounds, scales, labels),
        _clock(head),
    )


def _counted(arms: Array | Counts, size: int) -> Counts:
    return np.bincount(arms.astype(np.int64), minlength=size)


def _amended(before: Summary | None, record: SummaryRecord) -> Summary:
    """The totals of a phase that closed while outcomes were outstanding, with a later summary."""
    try:
        return record.summary if before is None else before.amended(record.summary)
    except ProtocolError:
        raise damaged(
            f"Summary {record.number} amends what was not outstanding.", record.number
        ) from None


class _Arms:
    """Counts of arms assigned, told and lost, with the recorded probabilities.

    A phase is one batch of the tests, however many summaries it has: when it begins is settled
    before its arms are drawn, whereas where a summary ends depends on which outcomes have come. So
    the evidence on what was assigned and told holds at all looks at once. What was lost includes
    overdue outcomes, which may come after all: of those it holds at the look at hand.
    """

    def __init__(self, arms: int) -> None:
        self._phase = 0
        self.given, self.told, self.lost = RatioTest(arms), RatioTest(arms), RatioTest(arms)
        self.settled: Counts = np.zeros(arms, dtype=np.int64)

    def add(self, plan: Plan, *, told: Counts, lost: Counts, waiting: Counts | None = None) -> None:
        """Add a batch of one plan.

        Args:
            plan: the plan.
            told: outcomes per arm.
            lost: lost assignments per arm.
            waiting: outstanding assignments per arm.
        """
        if plan.provisional and waiting is not None and waiting.any():
            # Among the outcomes so far, quick ones would be too many.
            assert plan.weights is not None
            self.given.add(plan.weights, told + lost + waiting)
            return
        self.settled = self.settled + told + lost
        more, self._phase = plan.phase == self._phase, plan.phase
        if plan.weights is None:
            # The arms are fixed, but which of them are lost should be random.
            assert plan.counts is not None
            self.lost.add(plan.counts / plan.pulls, np.minimum(lost, plan.counts), more=more)
            return
        every = told + lost + (0 if waiting is None else waiting)
        self.given.add(plan.weights, every, more=more)
        self.told.add(plan.weights, told, more=more)
        self.lost.add(plan.weights, lost, more=more)


class _Tail:
    """Assignments that no summary covers, and how long outcomes take."""

    def __init__(self, books: Reading, now: float) -> None:
        head = books.head
        self._books = books
        self._now = now
        start = max(0, head.summary_end - _WINDOW)
        pieces = list(books.rows(start, min(head.assigned, head.summary_end + _TAIL)))
        window: Rows = np.concatenate(pieces) if pieces else np.empty(0, dtype=ROW)
        delays = (window["told"] - window["asked"])[np.isnan(window["lost"]) & ~window["late"]]
        delays = delays[~np.isnan(delays)]
        self.usual = float(np.quantile(delays, 0.95)) if len(delays) >= _FEW else None
        self.rows = window[window["id"] >= head.summary_end]
        self.waiting = books.rows_of(waiting_ids(books))
        waiting = np.isnan(self.rows["reward"]) & np.isnan(self.rows["lost"])
        before = np.isnan(self.waiting["reward"]) & np.isnan(self.waiting["lost"])
        asked = [self.waiting["asked"][before], self.rows["asked"][waiting]]
        self.ages = now - np.concatenate(asked)
        self._settled = self.rows["id"][waiting].min(initial=head.assigned)

    @property
    def patience(self) -> float:
        """The number of seconds after which an outcome is overdue."""
        lease = self._books.head.lease
        if lease is not None:
            return lease
        return np.inf if self.usual is None else max(_LEAST_PATIENCE, _SLOW * self.usual)

    def gone(self, rows: Rows) -> NDArray[np.bool_]:
        """Which of them are lost or overdue.

        Only those that had their time count: before, losses of quick arms would be too many.
        """
        told = ~np.isnan(rows["reward"]) & np.isnan(rows["lost"])
        old = (rows["id"] < self._settled) | (self._now - rows["asked"] > self.patience)
        gone: NDArray[np.bool_] = ~told & old
        return gone

    def parts(self) -> Iterator[tuple[Plan, Rows, NDArray[np.bool_]]]:
        """Their rows by plan, and which of them were told before the first outstanding one: beyond
        it, quick outcomes would be too many."""
        for phase in np.unique(self.rows["phase"]).tolist():
            rows = self.rows[self.rows["phase"] == phase]
            told = ~np.isnan(rows["reward"]) & np.isnan(rows["lost"])
            yield self._books.plan(phase).plan, rows, told & (rows["id"] < self._settled)


def _by_chance(chance: float) -> str:
    return "never" if chance == 0 else f"in at most one experiment in {1 / chance:,.0f}"


def _level(chance: float) -> str:
    return "alarm" if chance < _ALARM else "warning" if chance < _WARNING else "ok"


def _ratio(name: str, test: RatioTest, labels: Sequence[str], what: str) -> Check:
    level, total, arm = _level(test.chance), int(test.observed.sum()), test.oddest
    if not total:
        return Check(name, "ok", f"There are no {what} to check yet.")
    if level == "ok":
        matches = "Traffic" if name == "assignments" else "Outcome"
        return Check(name, "ok", f"{matches} split matches the plan ({total:,} {what}).")
    return Check(
        name,
        level,
        f"Among {total:,} {what}, option {labels[arm]!r} occurs {test.observed[arm]} times where "
        f"{test.expected[arm]:.1f} are expected; by chance this happens "
        f"{_by_chance(test.chance)}.",
        "Call `Experiment.verify`: the record was changed, or the draws were."
        if name == "assignments"
        else "Find out why outcomes of some options are missing: conclusions may be biased.",
    )


_MANY_LOST, _MOST_LOST = 0.5, 0.9  # of all outcomes; most experiments lose far fewer


def _missing(arms: _Arms, labels: Sequence[str], lost_yet: int) -> Check:
    lost, settled = arms.lost.observed, arms.settled
    level, total = _level(arms.lost.chance), int(lost.sum())
    if not total:
        early = "; it is too early to compare options" if lost_yet else ""
        known = f"{plural(lost_yet, 'outcome')} lost" if lost_yet else "No outcome is missing"
        return Check("missing", "ok", f"{known}{early}.")
    share = f"{total} of {int(settled.sum())}"
    part = total / max(1, int(settled.sum()))
    if level == "ok" and total >= 20 and part > _MANY_LOST:
        return Check(
            "missing",
            "alarm" if part > _MOST_LOST else "warning",
            f"{share} outcomes are missing, in all arms alike.",
            "Check whether outcomes are reported at all: each loss takes another pull.",
        )
    if level == "ok":
        return Check("missing", "ok", f"{share} outcomes are missing, in all arms alike.")
    arm = arms.lost.oddest
    return Check(
        "missing",
        level,
        f"{share} outcomes are missing, {lost[arm]} of the {settled[arm]} of arm {labels[arm]!r}; "
        f"if losses did not depend on the arm, this would happen {_by_chance(arms.lost.chance)}.",
        "Losses depend on the arm, so they may depend on the outcome: a policy that assumes the "
        "worst of missing outcomes (missing='worst-case') remains valid.",
    )


def _overdue(head: Head, tail: _Tail, now: float) -> Check:
    patience = tail.patience
    late = tail.ages >= patience if head.lease is not None else tail.ages > patience
    overdue = tail.ages[late]
    if head.over or not len(overdue):
        usual = "" if tail.usual is None else f"; 95 % came within {_time(tail.usual)}"
        waiting = plural(len(tail.ages), "outcome")
        return Check("overdue", "ok", f"{waiting} outstanding, none overdue{usual}.")
    longest = float(overdue.max())
    level = "alarm" if longest > 10 * patience else "warning"
    if head.lease is not None:
        return Check(
            "overdue",
            level,
            f"{plural(len(overdue), 'outcome')} overdue, for up to {_time(longest - patience)}: "
            f"the last call was {_time(max(0.0, now - head.last_time))} ago.",
            "Check whether the workers run; the next `ask` or `tell` gives up overdue outcomes.",
        )
    return Check(
        "overdue",
        level,
        f"{plural(len(overdue), 'outcome')} outstanding for up to {_time(longest)}, where 95 % "
        f"came within {_time(tail.usual or 0.0)}.",
        "The policy assumes the worst of each, which costs evidence: tell them, `fail` them, "
        "or set a lease."
        if head.provisional
        else "Decisions wait for the first of them: tell them, `fail` them, or set a lease.",
    )


def _late(head: Head) -> Check:
    every = head.outcomes + head.late
    said = f"{head.late} of {plural(every, 'outcome')} came too late to be used"
    if head.over or head.late <= max(2, 0.05 * every):
        return Check("late", "ok", f"{said}.")
    return Check(
        "late",
        "warning",
        f"{said}.",
        "Outcomes take longer than the lease allows: lengthen it.",
    )


def _range(head: Head, bounds: tuple[float, float] | None, scales: Scales) -> Check:
    told = head.outcomes + head.late
    if bounds is not None:
        low, high = bounds
        if not head.refusals:
            return Check("range", "ok", f"All rewards lie between {low:g} and {high:g}.")
        often = head.refusals >= 3 and head.refusals > 0.01 * (told + head.refusals)
        return Check(
            "range",
            "alarm" if often else "warning",
            f"Rewards outside {low:g} to {high:g} were refused for "
            f"{plural(head.refusals, 'assignment')}; {told} were accepted.",
            "Correct their unit; if such rewards occur, begin a new experiment with wider bounds.",
        )
    if not told:
        return Check("range", "ok", "There are no rewards yet.")
    size = max(abs(head.lowest), abs(head.highest))
    level = scales.level_of_reward(size, told)
    rewards = f"Rewards from {head.lowest:g} to {head.highest:g}"
    if level == "ok":
        return Check(
            "range",
            "ok",
            f"Rewards from {head.lowest:g} to {head.highest:g} fit the declared scales.",
        )
    return Check(
        "range",
        level,
        f"{rewards} do not fit {scales.declared}.",
        "Correct their unit, or begin again with scales that fit: the error probability depends "
        "on them.",
    )


def _scale(bounds: tuple[float, float] | None, scales: Scales, labels: Sequence[str]) -> Check:
    if bounds is not None:
        return Check("scale", "ok", "Rewards are bounded; no other scale is needed.")
    level, finding = scales.verdict(labels)
    action = "" if level == "ok" else "Begin again with a baseline and a noise that fit."
    return Check("scale", level, finding, action)


def _clock(head: Head) -> Check:
    back = head.clock_setback
    said = f"The clock was set back by {_time(back)}"
    if back <= 1.0 and (head.lease is None or back <= 0.1 * head.lease):
        return Check("clock", "ok", f"{said}." if back else "The clock was never set back.")
    limit = 3600.0 if head.lease is None else 0.5 * head.lease
    return Check(
        "clock",
        "alarm" if back > limit else "warning",
        f"{said}.",
        "Set the clocks of all machines by one server: leases end by them.",
    )


def _time(seconds: float) -> str:
    for unit, size in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.3g} seconds"
