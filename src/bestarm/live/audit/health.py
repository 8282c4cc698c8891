"""Health checks of an experiment: each has a level, a finding and what to do."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from bestarm.errors import ProtocolError
from bestarm.live.audit.evidence import (
    Bounds,
    DelayTest,
    LevelTest,
    LinearTest,
    RatioTest,
    ScaleTest,
)
from bestarm.live.draws import first_members
from bestarm.live.options import Options
from bestarm.live.store.head import Head
from bestarm.live.store.ledger import Snapshot
from bestarm.live.store.rows import (
    ROW,
    Event,
    Ids,
    PlanRecord,
    Rows,
    UnitCounts,
    check_arms,
    check_size,
    damaged,
    is_outstanding,
)
from bestarm.live.values import JUDGING, Check, in_time, in_utc, savings
from bestarm.numerics.geometry import Array
from bestarm.problem import Problem
from bestarm.records import Counts, Plan, Rounds, Summary
from bestarm.units import plural

_FEW_OF_ONE = 40  # outcomes of an option by which a misfit of 0.5 on a scale of 0 to 1 is found
_FEW = 20  # outcomes needed to know how long they take, or to speak of shares
_TAIL = 200_000  # assignments that no summary covers, read one by one
_WINDOW = 10_000  # settled assignments before them, for how long outcomes take
_FIRST = 4_000  # assignments from the first on, for whether quick outcomes differ from slow ones
_LEAST_OVERDUE = 60.0  # seconds
_OVERDUE_RATIO = 10  # an outcome is overdue after 10 × the time that 95 % of them take
_LEAST_SILENT = 600.0  # seconds without a score after which an evaluation counts as interrupted
_WARNING, _ALARM = 1e-3, 1e-6  # probabilities under which a sound experiment shows a finding
_ENOUGH, _HARM = 200, 1.1  # outcomes, and the variance that forecasts leave, to speak of harm
_BUSY, _BUSY_RATIO = 20, 10  # decision points of a unit, and of it for each of another
_MANY_LOST, _MOST_LOST = 0.5, 0.9  # of all outcomes; most experiments lose far fewer

_Split = NDArray[np.int64]  # three rows: told, lost and outstanding assignments, per arm


def examine(snapshot: Snapshot, options: Options, *, now: float, seed: int) -> tuple[Check, ...]:
    """Check an experiment by its counters, its summaries and the rows that no summary covers.

    The seed of the draws says in which order the options of a round were tried.
    """
    problem, traits = options.problem, options.traits
    head, labels, judging = snapshot.head, problem.source_labels, _last_judging(snapshot)
    tail = _Tail(snapshot, problem.arms, now, resumable=judging is not None)
    bounds, mean_bound = traits.bounds, traits.mean_bound
    largest = problem.scale if mean_bound is None else mean_bound
    scales, models = ScaleTest(problem, largest), _Models(problem, bounds, largest)
    arms = _count(snapshot, options, tail, seed, scales, models)
    given, told = ("assignment", ""), ("settled outcome", "")
    if head.size > 1:
        given, told = ("round", ", by the option tried first"), (told[0], " of options tried first")
    verify = "Call `Experiment.verify`: the record was changed, or the draws were."
    find_out = "Find out why outcomes of some options are missing: conclusions may be biased."
    return (
        _split("assignments", "Traffic", given, arms.given, labels, verify),
        _split("outcomes", "Outcome", told, arms.told, labels, find_out),
        _missing(arms, labels, head.losses),
        _overdue(head, tail),
        *(() if judging is None else _judging(head, tail, judging, now)),
        _late(head),
        _delays(snapshot, bounds),
        _range(head, bounds, scales),
        _scale(head, bounds, scales, labels),
        models.linear(labels, in_blocks=head.size > 1),
        models.level(),
        _clock(head),
        *_units(snapshot.unit_counts()),
        *_forecasts(head),
        *_guardrails(snapshot),
    )


def _count(
    snapshot: Snapshot,
    options: Options,
    tail: _Tail,
    seed: int,
    scales: ScaleTest,
    models: _Models,
) -> _ArmCounts:
    """Count assignments per arm, and show all summaries to the tests of scales and models.

    Plans and summaries from before an option was added have none of it.
    """
    arms = _ArmCounts(tail.arms)
    provisional: dict[int, Summary] = {}

    @cache
    def plan_of(phase: int) -> PlanRecord:
        planned = snapshot.plan(phase)
        check_size(f"The plan of phase {phase}", planned.plan.arms, options.arms(phase))
        return replace(planned, plan=planned.plan.widened(tail.arms))

    def show(plan: Plan, summary: Summary) -> None:
        if plan.size == 1:
            scales.add(summary)
            models.add(plan, summary)

    for record in snapshot.summaries():
        plan, summary = plan_of(record.phase).plan, record.observed  # scales are of rewards as told
        check_size(f"Summary {record.number}", len(summary.counts), options.arms(record.phase))
        summary = summary.widened(tail.arms)
        if plan.provisional:
            try:
                before = provisional.get(plan.phase)
                provisional[plan.phase] = before.amended(summary) if before else summary
            except ProtocolError:
                what = f"Summary {record.number} amends what was not outstanding."
                raise damaged(what, record.number) from None
            continue
        every = _split_of(summary)
        if snapshot.head.losses and not plan.open:  # replaced, and therefore in no summary
            every[1] = _count_arms(snapshot.lost_arms(plan.phase, 0, 2**40), tail.arms)
        arms.add(plan, every, _first_of(summary, record.first, seed) if plan.size > 1 else every)
        show(plan, summary)
    for phase in sorted({*provisional, *tail.rows["phase"].tolist()}):
        planned = plan_of(phase)
        every, first = tail.counts(planned), tail.counts(planned, first=True)
        if phase in provisional:
            summary = provisional[phase]
            show(planned.plan, summary)
            every[:2] += _split_of(summary)[:2]  # outstanding ones are in the tail
            first[:2] += _first_of(summary, planned.first, seed)[:2]
        arms.add(planned.plan, every, first)
    return arms


def _count_arms(arms: Ids, size: int) -> Counts:
    check_arms(arms, size)
    return np.bincount(arms, minlength=size)


def _split_of(summary: Summary) -> _Split:
    return np.array([summary.counts, summary.missing, summary.pending])


def _first_of(summary: Summary, first: int, seed: int) -> _Split:
    """The split of the first assignments of all rounds; the first of all has the id `first`.

    A block is drawn, and its arms are tried in random order: so the arms of these assignments are
    drawn independently with the plan's weights, as single pulls are.
    """
    if not isinstance(summary, Rounds):
        return _split_of(summary)
    number, size = summary.table.shape
    column = first_members(seed, start=first, rounds=number, size=size)
    every = np.arange(number)
    arms, awaited = summary.blocks[summary.kinds, column], summary.awaited[every, column]
    told = ~np.isnan(summary.table[every, column])
    kinds, least = (told, ~told & ~awaited, awaited), len(summary.counts)
    return np.array([np.bincount(arms[kind], minlength=least) for kind in kinds])


class _ArmCounts:
    """Counts of arms assigned, told and lost, with the recorded probabilities.

    A phase is one batch of the tests, however many summaries it has: when it begins is settled
    before its arms are drawn, whereas where a summary ends depends on which outcomes have come. So
    the evidence on what was assigned and told holds at all looks at once. What was lost includes
    overdue outcomes, which may come after all: of those it holds at the look at hand. Of blocks,
    the tests are of the first assignment of every round.
    """

    def __init__(self, arms: int) -> None:
        self._phase = 0
        self.given, self.told, self.lost = RatioTest(arms), RatioTest(arms), RatioTest(arms)
        # Told or lost, and those of them that are lost.
        self.settled, self.missing = np.zeros((2, arms), dtype=np.int64)

    def add(self, plan: Plan, every: _Split, first: _Split) -> None:
        """Add a batch of one plan: all assignments, and the first of each round, to be tested."""
        told, lost, waiting = first
        if plan.provisional and waiting.any():
            # Among the outcomes so far, quick ones would be too many.
            assert plan.weights is not None
            self.given.add(plan.weights, told + lost + waiting)
            return
        self.settled += every[0] + every[1]
        self.missing += every[1]
        more, self._phase = plan.phase == self._phase, plan.phase
        if plan.weights is None:
            # The arms are fixed, but which of them are lost should be random.
            assert plan.counts is not None
            self.lost.add(plan.counts / plan.pulls, np.minimum(lost, plan.counts), more=more)
            return
        self.given.add(plan.weights, told + lost + waiting, more=more)
        self.told.add(plan.weights, told, more=more)
        self.lost.add(plan.weights, lost, more=more)


class _Tail:
    """Assignments that no summary covers, and how long outcomes take, in seconds.

    95 % came within the `usual` time, if that is known; later than `overdue_after` one is overdue;
    `ages` are those of outstanding outcomes. None is overdue if they are `resumable`: if who asks
    for assignments carries out those that are outstanding first.
    """

    def __init__(self, snapshot: Snapshot, arms: int, now: float, *, resumable: bool) -> None:
        head, self.arms, self._now = snapshot.head, arms, now
        start, end = max(0, head.summary_end - _WINDOW), head.summary_end + _TAIL
        pieces = snapshot.rows(start, min(head.assigned, end))
        window: Rows = np.concatenate([np.empty(0, dtype=ROW), *pieces])
        delays = (window["told"] - window["asked"])[np.isnan(window["lost"]) & ~window["late"]]
        delays = delays[~np.isnan(delays)]
        self.usual = float(np.quantile(delays, 0.95)) if len(delays) >= _FEW else None
        usual = np.inf if self.usual is None else self.usual
        limit, self._windows = head.time_limit, head.window is not None
        self.overdue_after = max(_LEAST_OVERDUE, _OVERDUE_RATIO * usual) if limit is None else limit
        if resumable:
            self.overdue_after = math.inf
        deferred = snapshot.rows_of(snapshot.deferrals(waiting=True)[0])
        self.rows = rows = np.concatenate([deferred, window[window["id"] >= head.summary_end]])
        outstanding = is_outstanding(rows)
        self.ages = now - rows["asked"][outstanding]
        ids = rows["id"][outstanding & (rows["id"] >= head.summary_end)]
        self._settled_end = ids.min(initial=head.assigned)

    def counts(self, record: PlanRecord, *, first: bool = False) -> _Split:
        """Told, lost and outstanding assignments of a plan, or the first of each of its rounds.

        Only those that had their time count as told or lost: beyond the first outstanding one,
        quick outcomes and losses would be too many. What is overdue counts as lost; with a window
        it is not, as its outcome enters with the next call.
        """
        rows = self.rows[self.rows["phase"] == record.plan.phase]
        if first:
            rows = rows[(rows["id"] - record.first) % record.plan.size == 0]
        lost = ~np.isnan(rows["lost"])
        told = ~np.isnan(rows["reward"]) & ~lost
        early = rows["id"] < self._settled_end
        gone = lost & early
        if not self._windows:
            gone |= ~told & (self._now - rows["asked"] > self.overdue_after)
        told = told & early
        kinds = (told, gone, ~told & ~gone)
        return np.array([_count_arms(rows["arm"][kind], self.arms) for kind in kinds])


class _Models:
    """What was declared of mean rewards, as far as there is something to doubt.

    Under provisional plans quick outcomes come first, so that it stops at the first phase with an
    outcome that is outstanding: how far it has come may depend on anything.
    """

    def __init__(self, problem: Problem, bounds: Bounds, largest: float) -> None:
        self._linear = LinearTest(problem, bounds, largest)
        self._level = None if problem.drifts else LevelTest(problem, bounds)
        self._settled = True

    def add(self, plan: Plan, summary: Summary) -> None:
        """Add outcomes; phases come in order."""
        self._settled = self._settled and not summary.pending.any()
        if self._settled and self._linear.free and plan.weights is not None:
            self._linear.add(plan, summary)
        if self._settled and self._level is not None:
            self._level.add(plan, summary)

    def linear(self, labels: Sequence[str], *, in_blocks: bool) -> Check:
        """Whether mean outcomes are linear in the features."""
        test = self._linear
        if not test.free:
            return Check("model", "ok", "Each option has a mean of its own; no model is assumed.")
        if in_blocks:
            several = "Features are not checked where rounds hold several options."
            return Check("model", "ok", several)
        finding = f"Nothing contradicts the features ({plural(test.pulls, 'outcome')} looked at)."
        if (level := _level(test.p_value)) == "ok":
            return Check("model", "ok", finding + _unchecked(test.outcomes, labels))
        arm, off = test.largest_residual
        return Check(
            "model",
            level,
            f"Mean outcomes do not fit the features, those of option {labels[arm]!r} by about "
            f"{off:.2g}; by chance this happens {_by_chance(test.p_value)}.",
            "The winner may be wrong. Begin again with the feature that is missing, or with names "
            "alone.",
        )

    def level(self) -> Check:
        """Whether there is a baseline where none was declared."""
        test = self._level
        if test is None:
            return Check("level", "ok", "A baseline is allowed for, so the level may move.")
        if (level := _level(test.p_value)) == "ok":
            pulls = plural(test.pulls, "outcome")
            return Check("level", "ok", f"Outcomes show no baseline ({pulls} looked at).")
        moves = "The level of outcomes moves, though no baseline was declared"
        finding = f"{moves}; by chance this happens {_by_chance(test.p_value)}."
        action = "The winner may be wrong. Begin again with a bound on the baseline above 0."
        return Check("level", level, finding, action)


def _unchecked(outcomes: Array, labels: Sequence[str]) -> str:
    """Which options have too few outcomes to tell whether the features fit them."""
    few = np.flatnonzero(outcomes < _FEW_OF_ONE)
    if not len(few) or outcomes.max() < _FEW_OF_ONE:
        return ""
    which, its, count = "it", "its", int(outcomes[few[0]])
    told = f"Option {labels[few[0]]!r} has only {plural(count, 'outcome')}"
    if len(few) > 1:
        told = f"{len(few)} options have fewer than {_FEW_OF_ONE} outcomes each"
        which, its = "them", "their"
    return f" {told}, too few to check: what is claimed of {which} rests on {its} features alone."


def _by_chance(p_value: float) -> str:
    return "never" if p_value == 0 else f"in at most one experiment in {1 / p_value:,.0f}"


def _level(p_value: float) -> str:
    return "alarm" if p_value < _ALARM else "warning" if p_value < _WARNING else "ok"


def _split(
    name: str,
    split: str,
    counted: tuple[str, str],
    test: RatioTest,
    labels: Sequence[str],
    action: str,
) -> Check:
    """Whether options occur as often as planned among what is counted: a noun and its qualifier."""
    total, arm = int(test.observed.sum()), test.most_deviating_arm
    noun, rest = counted
    if not total:
        return Check(name, "ok", f"There are no {noun}s{rest} to check yet.")
    what = f"{plural(total, noun)}{rest}"
    if (level := _level(test.p_value)) == "ok":
        return Check(name, "ok", f"{split} split matches the plan ({what}).")
    finding = (
        f"Among {what}, option {labels[arm]!r} occurs {plural(test.observed[arm], 'time')} where "
        f"{test.expected[arm]:.1f} are expected; by chance this happens {_by_chance(test.p_value)}."
    )
    return Check(name, level, finding, action)


def _missing(arms: _ArmCounts, labels: Sequence[str], lost_yet: int) -> Check:
    lost, settled, arm = arms.missing, arms.settled, arms.lost.most_deviating_arm
    total, every = int(lost.sum()), int(settled.sum())
    if not total:
        return Check("missing", "ok", f"{plural(lost_yet, 'outcome')} lost so far.")
    verb = "is" if total == 1 else "are"
    finding = f"{total:,} of {plural(every, 'outcome')} {verb} missing, "
    if (level := _level(arms.lost.p_value)) != "ok":
        return Check(
            "missing",
            level,
            f"{finding}{lost[arm]} of the {settled[arm]} of option {labels[arm]!r}; if losses did "
            f"not depend on the option, this would happen {_by_chance(arms.lost.p_value)}.",
            "Losses depend on the option, so they may depend on the outcome: a policy that assumes "
            "the worst of missing outcomes (missing='worst-case') remains valid.",
        )
    finding += "of all options alike."
    if total < _FEW or total <= _MANY_LOST * every:
        return Check("missing", "ok", finding)
    action = "Check whether outcomes are reported at all: each loss takes another assignment."
    return Check("missing", "alarm" if total > _MOST_LOST * every else "warning", finding, action)


def _overdue(head: Head, tail: _Tail) -> Check:
    overdue = tail.ages[tail.ages >= tail.overdue_after]
    usual = "" if tail.usual is None else f"; 95 % came within {in_time(tail.usual)}"
    if not len(overdue) or head.over:
        count = plural(len(tail.ages), "outcome")
        return Check("overdue", "ok", f"{count} outstanding, none overdue{usual}.")
    action = "Decisions wait for the first of them: tell them, `fail` them, or set a lease."
    if head.time_limit is not None:
        settles = "gives them up" if head.window is None else "counts them"
        action = f"Check whether the workers run: the next `ask` or `tell` {settles}."
    elif head.provisional:
        action = "Each costs evidence, as it may be the worst: tell or `fail` it, or set a lease."
    count, longest = plural(len(overdue), "outcome"), float(overdue.max())
    finding = f"{count} overdue, the oldest after {in_time(longest)}{usual}."
    return Check(
        "overdue", "alarm" if longest > 10 * tail.overdue_after else "warning", finding, action
    )


def _last_judging(snapshot: Snapshot) -> Event | None:
    """The last note of an evaluation on how many calls of the judge may be in flight; None if it
    is none, or is over.

    Evaluations draw blocks, so that the log of other experiments need not be read.
    """
    if snapshot.head.over or snapshot.head.size == 1:
        return None
    last = None
    for event in snapshot.events():
        if event.kind == "noted" and "in_flight" in event.data:
            last = event
    return last


def _judging(head: Head, tail: _Tail, last: Event, now: float) -> Iterator[Check]:
    """Whether an evaluation goes on. One that was killed cannot say so, but falls silent."""
    if head.state == "paused":
        return
    since = max(last.at, head.last_told)
    silent = max(_LEAST_SILENT, _OVERDUE_RATIO * (tail.usual or 0.0))
    if last.data["in_flight"] and now - since < silent:
        yield Check(JUDGING, "ok", f"The evaluation goes on, last at {in_utc(since)}.")
        return
    finding = f"The evaluation was interrupted: nothing is judged since {in_utc(since)}."
    action = "To continue, start the same evaluation again: all scores so far are kept."
    yield Check(JUDGING, "warning", finding, action)


def _late(head: Head) -> Check:
    every = head.outcomes + head.late
    finding = f"{head.late} of {plural(every, 'outcome')} came too late to be used."
    if head.over or head.late <= max(2, 0.05 * every):
        return Check("late", "ok", finding)
    action = "Outcomes take longer than the lease allows: lengthen it."
    if head.window is not None:
        action = "They are told after their window: is it long enough for the question asked?"
    return Check("late", "warning", finding, action)


def _delays(snapshot: Snapshot, bounds: Bounds) -> Check:
    """Whether quick outcomes differ from slow ones, where phases close before all are in.

    It reads whole phases up to the first outcome that is outstanding.
    """
    head = snapshot.head
    if head.window is not None:
        return Check("delays", "ok", "Outcomes count when their window ends, quick and slow.")
    if not head.provisional or bounds is None:
        return Check("delays", "ok", "Phases wait for their outcomes, quick and slow.")
    pieces = snapshot.rows(0, min(head.summary_end, _FIRST))
    rows: Rows = np.concatenate([np.empty(0, dtype=ROW), *pieces])
    lost = ~np.isnan(rows["lost"])
    waiting = rows["phase"][is_outstanding(rows)]
    # Of the last phase some may be among the assignments that are not read.
    end = int(waiting.min(initial=rows["phase"].max(initial=0)))
    rows = rows[~lost & (rows["phase"] < end)]
    test = DelayTest(
        bounds[1] - bounds[0],
        phases=rows["phase"],
        arms=rows["arm"],
        delays=rows["told"] - rows["asked"],
        rewards=rows["reward"],
    )
    if _level(test.p_value) == "ok":
        outcomes = plural(test.outcomes, "outcome")
        finding = f"Quick and slow outcomes do not differ ({outcomes} looked at)."
        return Check("delays", "ok", finding)
    quick, slow = test.means
    return Check(
        "delays",
        "warning",
        f"Quick outcomes average {quick:.3g}, slow ones {slow:.3g}; if delays did not depend on "
        f"the outcome, such a difference would occur {_by_chance(test.p_value)}.",
        "The verdict stays valid, but means of young outcomes mislead, and it may take longer: "
        "begin the next experiment with the time that outcomes take (`window=`), or tell all of "
        "them when that time is over.",
    )


def _range(head: Head, bounds: Bounds, scales: ScaleTest) -> Check:
    told, refused = head.outcomes + head.late, head.refusals
    if bounds is not None:
        low, high = bounds
        if not refused:
            return Check("range", "ok", f"All rewards lie between {low:g} and {high:g}.")
        often = refused >= 3 and refused > 0.01 * (told + refused)
        return Check(
            "range",
            "alarm" if often else "warning",
            f"Rewards outside {low:g} to {high:g} were refused for "
            f"{plural(refused, 'assignment')}; {plural(told, 'reward')} "
            f"{'was' if told == 1 else 'were'} accepted.",
            "Correct their unit; if such rewards occur, begin a new experiment with wider bounds.",
        )
    if not told:
        return Check("range", "ok", "There are no rewards yet.")
    rewards = f"Rewards from {head.lowest:g} to {head.highest:g}"
    if head.size > 1:
        return Check("range", "ok", f"{rewards}; they are compared within rounds.")
    level = scales.level_of_reward(max(abs(head.lowest), abs(head.highest)), told)
    if level == "ok":
        return Check("range", "ok", f"{rewards} fit the declared scales.")
    finding, unit = f"{rewards} do not fit {scales.declared}.", "Correct their unit"
    action = "or begin again with scales that fit: the error probability depends on them."
    return Check("range", level, finding, f"{unit}, {action}")


def _guardrails(snapshot: Snapshot) -> Iterator[Check]:
    """What guardrails found, and values that they refused; nothing if none was told a value."""
    head = snapshot.head
    if head.refused_values:
        refused = plural(head.refused_values, "assignment")
        finding = f"Values of guardrails outside their bounds were refused for {refused}."
        action = "Correct their unit; if such values occur, begin again with wider bounds."
        yield Check("guardrails", "warning", finding, action)
    if not head.values:
        return
    found = [event.data for event in snapshot.events() if event.kind == "guardrail"]
    for data in found:
        worse = f"Option {data['label']!r} is worse than the control in {data['guardrail']!r}"
        retired = data["action"] == "retire"
        action = "It was retired." if retired else "Retire it, or stop the experiment."
        level = "warning" if retired else "alarm"
        yield Check("guardrails", level, f"{worse} by more than {data['worse_by']:g}.", action)
    if not found and not head.refused_values:
        values = plural(head.values, "value")
        yield Check("guardrails", "ok", f"No option is found worse than the control ({values}).")


def _scale(head: Head, bounds: Bounds, scales: ScaleTest, labels: Sequence[str]) -> Check:
    if bounds is not None:
        return Check("scale", "ok", "Rewards are bounded; no other scale is needed.")
    if head.size > 1:
        return Check("scale", "ok", "The level of a round plays no part, whatever it is.")
    level, finding = scales.verdict(labels)
    action = "Begin again with a baseline and a noise that fit."
    return Check("scale", level, finding, "" if level == "ok" else action)


def _clock(head: Head) -> Check:
    back, limit = head.clock_setback, head.time_limit
    least, most = (1.0, 3600.0) if limit is None else (0.1 * limit, 0.5 * limit)
    if not back:
        return Check("clock", "ok", "The clock was never set back.")
    finding = f"The clock was set back by {in_time(back)}."
    if back <= min(1.0, least):
        return Check("clock", "ok", finding)
    action = "Set the clocks of all machines by one server: leases and windows end by them."
    return Check("clock", "alarm" if back > most else "warning", finding, action)


def _units(counts: UnitCounts) -> Iterator[Check]:
    """Whether one unit has far more decision points than others: a plain comparison, not a test."""
    if not counts.units:
        return
    most, others = counts.most, counts.units - 1
    usual = (counts.rounds - most) / others if others else 0.0
    finding = f"{plural(counts.units, 'unit')}, with {plural(most, 'decision point')} at most."
    if most < _BUSY or not others or most <= _BUSY_RATIO * usual:
        yield Check("units", "ok", finding)
        return
    what = f"One unit has {most:,} decision points, others {usual:.2g} on average"
    finding = f"{what} (its last is round {counts.last})."
    action = (
        "Check whether it is a person, or a program. Decisions stay valid, but are about its "
        "moments more than about those of others."
    )
    yield Check("units", "warning", finding, action)


def _forecasts(head: Head) -> Iterator[Check]:
    """Whether forecasts do harm: what was observed so far, compared plainly, and not a test.

    Decisions stay valid whatever the forecasts are; bad ones only take longer.
    """
    if (left := head.variance_left) is not None:
        text = savings(left)
        harm = head.outcomes >= _ENOUGH and left > _HARM
        finding = f"{text[:1].upper()}{text[1:]}, within options and phases."
        action = (
            "Decisions stay valid but take longer: give covariates that tell more of the outcome, "
            "or do without a forecaster in the next experiment."
        )
        yield Check("forecasts", "warning" if harm else "ok", finding, action if harm else "")
