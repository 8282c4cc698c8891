"""All there is to see of a trial, as plain values: what a page or a report shows, and no more."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from bestarm import bounds as thresholds
from bestarm.live import verdicts
from bestarm.live.check import Check
from bestarm.live.experiment import Experiment
from bestarm.live.following import Follower, Look, Slice, State
from bestarm.live.forecast import Forecast, from_evidence, from_phases
from bestarm.live.snippets import Snippets, snippets
from bestarm.problem import Problem
from bestarm.records import Phase

__all__ = [
    "Allocated",
    "Baseline",
    "Guarantee",
    "Happening",
    "Line",
    "Numbers",
    "Option",
    "Overview",
    "Progress",
    "Timeline",
    "headline",
    "overview",
]

_DRAWN = 24  # targets with a line in the timeline
_RAW = 4  # options whose raw outcomes are shown over time
_ENOUGH = 60  # outcomes an arm in a stretch, for its mean to say something
_LEAST = 10  # outcomes of an arm in a stretch, to be shown at all
_DECLARED = {"range", "scale"}  # checks of what was declared of rewards
_RARELY = 10  # times as long as health checks take they are not made again

Numbers = tuple[float | None, ...]


@dataclass(frozen=True)
class Guarantee:
    """What is promised, and what the promise rests on.

    Attributes:
        delta: the error probability allowed.
        confidence: 1 − δ in words.
        policy: the policy's name.
        options: what it was made with.
        proven: whether an error probability is proven under the assumptions.
        constants: the same in words.
        bounds: between what rewards must lie, or None.
        noise: the declared scale of the noise; of no matter where there are bounds.
        baseline: the declared bound on the baseline, likewise.
        assumptions: one sentence each.
        statement: what the policy says may be said now; may be empty.
        contradictions: assumptions that the data contradict, one sentence each.
    """

    delta: float
    confidence: str
    policy: str
    options: Mapping[str, Any]
    proven: bool
    constants: str
    bounds: tuple[float, float] | None
    noise: float
    baseline: float
    assumptions: tuple[str, ...]
    statement: str
    contradictions: tuple[str, ...]


@dataclass(frozen=True)
class Option:
    """One target on the leaderboard.

    Attributes:
        target: its index.
        label: its name.
        status: `"best"` once shown, `"leads"`, `"in"` or `"out"`.
        phase_out: the phase in which it was dropped, or None.
        arm: the source arm that is this very target, or None.
        pulls: pulls of that arm with an outcome, or None.
        behind: estimated leader − target, in reward units; None where nothing is known.
        radius: what was added to and taken from it, where a phase has one radius.
        low: the lower end of what `behind` may be; None if it has none.
        high: the upper end.
        known_in: the phase from which this is, where not from the last.
        evidence: how much of the evidence needed to drop it there is, from 0 to 1, or None.
        raw_mean: the mean of its outcomes. The baseline is in it: no decision rests on it.
    """

    target: int
    label: str
    status: str
    phase_out: int | None
    arm: int | None
    pulls: int | None
    behind: float | None
    radius: float | None
    low: float | None
    high: float | None
    known_in: int | None
    evidence: float | None
    raw_mean: float | None


@dataclass(frozen=True)
class Line:
    """One option over time; None where there is no value.

    Attributes:
        label: whose it is.
        rank: its place on the leaderboard, from 0; −1 for what is no option.
        out: whether the line ends because it was dropped.
        x: pulls.
        y: values.
        low: lower ends, or empty.
        high: upper ends, or empty.
    """

    label: str
    rank: int
    out: bool
    x: tuple[float, ...]
    y: Numbers
    low: Numbers = ()
    high: Numbers = ()


@dataclass(frozen=True)
class Timeline:
    """How the options fell behind.

    Attributes:
        kind: `"phases"` where each phase estimates afresh, `"looks"` where evidence gathers, or
            `"none"`.
        phases: the phase of each x.
        lines: estimated leader − option, with the leader of the moment.
        radius: for phases: the least and the largest radius, as two lines.
        evidence: for looks: the log of the e-value against each option, in units of what is
            needed to drop it.
    """

    kind: str
    phases: tuple[tuple[float, int], ...]
    lines: tuple[Line, ...]
    radius: tuple[Line, ...]
    evidence: tuple[Line, ...]


@dataclass(frozen=True)
class Baseline:
    """Raw outcomes beside what is left once the baseline is taken out, stretch by stretch.

    Attributes:
        level: the mean of all outcomes of each stretch.
        raw: the mean outcome of single arms.
        contrasts: estimated leader − option from the differences within all stretches so far:
            free of the baseline.
        leader: whose lead that is.
        swing: how far `level` went up and down.
        gap: the estimated lead over the closest option left, or None.
    """

    level: Line
    raw: tuple[Line, ...]
    contrasts: tuple[Line, ...]
    leader: str
    swing: float | None
    gap: float | None


@dataclass(frozen=True)
class Allocated:
    """How often an arm was to be drawn, and was, of all pulls the policy was told of."""

    arm: int
    label: str
    planned: float
    drawn: int
    answered: int


@dataclass(frozen=True)
class Progress:
    """How far it is.

    Attributes:
        given: assignments given out in all.
        used: pulls the policy has been told of.
        outstanding: assignments that await their outcome.
        lost: assignments given up.
        late: outcomes that came too late.
        phase_answered: of the open phase.
        phase_pulls: what it asks for.
        left: options not dropped.
        options: all of them.
        decided: how much of the evidence needed to drop the closest competitor there is, from 0 to
            1; None where a policy gathers none.
        pace: outcomes an hour, lately; None if unknown.
        forecast: how many pulls there may be to come; None if it is over or nothing is known.
        hours: what that takes at this pace: the middle, the low and the high end.
    """

    given: int
    used: int
    outstanding: int
    lost: int
    late: int
    phase_answered: int
    phase_pulls: int
    left: int
    options: int
    decided: float | None
    pace: float | None
    forecast: Forecast | None
    hours: tuple[float | None, float | None, float | None] | None


@dataclass(frozen=True)
class Happening:
    """An event of the log, in words."""

    number: int
    at: float
    kind: str
    words: str


@dataclass(frozen=True)
class Overview:
    """A trial as it stands.

    Attributes:
        name: its name; empty in memory.
        description: what it is about.
        state: `"running"`, `"paused"`, `"stopped"` or `"finished"`.
        phase: the open one, or the last.
        created: when it began, in seconds since 1970.
        updated: when anything was last written.
        revision: changes whenever anything is recorded.
        verdict: one sentence.
        guarantee: what is promised.
        health: the checks.
        leaderboard: the options, the leader first.
        timeline: how they fell behind.
        baseline: raw outcomes, and what is made of them.
        allocation: an arm a row.
        progress: how far it is.
        events: the last ones that tell something, newest first.
        snippets: lines to paste.
    """

    name: str
    description: str
    state: str
    phase: int
    created: float
    updated: float
    revision: str
    verdict: str
    guarantee: Guarantee
    health: tuple[Check, ...]
    leaderboard: tuple[Option, ...]
    timeline: Timeline
    baseline: Baseline
    allocation: tuple[Allocated, ...]
    progress: Progress
    events: tuple[Happening, ...]
    snippets: Snippets

    def to_dict(self) -> dict[str, Any]:
        """As plain data that JSON can carry."""
        return asdict(self)


class _Watched:
    """What is kept between two looks at an experiment."""

    def __init__(self, problem: Problem) -> None:
        self.follower = Follower(problem)
        self.due = -math.inf  # when health is to be looked at again
        self.health: tuple[Check, ...] = ()


_watched: WeakKeyDictionary[Experiment, _Watched] = WeakKeyDictionary()
_watching = Lock()


def _of(experiment: Experiment) -> _Watched:
    with _watching:
        return _watched.setdefault(experiment, _Watched(experiment.problem))


def headline(experiment: Experiment) -> str:
    """The verdict in one sentence, from counters and log alone: for lists of many trials."""
    glance = _of(experiment).follower.glance(experiment)
    document = experiment._document
    options = {} if document is None else document.options
    return verdicts.from_log(glance, experiment.problem, options)


def overview(experiment: Experiment, *, address: str = "http://127.0.0.1:8000") -> Overview:
    """All there is to see of a trial.

    What it takes is kept for the next time, so following a trial costs what has happened since.

    Args:
        experiment: the trial.
        address: where its server is, for the lines to paste.
    """
    watched = _of(experiment)
    revision = experiment.revision  # read first: what is shown may be newer, never older
    state = watched.follower.state(experiment)
    problem, head, said = experiment.problem, state.head, state.said
    document = experiment._document
    options = {} if document is None else document.options
    health = _health(experiment, watched, head.over)
    board = _leaderboard(state, problem, _level(state, problem, options))
    store = getattr(experiment._ledger, "_store", None)
    return Overview(
        name=experiment.name,
        description=experiment.description,
        state=head.state,
        phase=head.phase,
        created=state.created,
        updated=head.at,
        revision=revision,
        verdict=verdicts.verdict(head, said, problem, options),
        guarantee=_guarantee(experiment, state, health),
        health=health,
        leaderboard=board,
        timeline=_timeline(state, board, _level(state, problem, options)),
        baseline=_baseline(state, problem, board),
        allocation=_allocation(state, problem),
        progress=_progress(state, problem, options),
        events=tuple(
            Happening(event.number, event.at, event.kind, verdicts.happened(event))
            for event in reversed(state.events)
        ),
        snippets=snippets(
            experiment.name,
            address=address.rstrip("/"),
            store=None if store is None else store.place,
        ),
    )


def _health(experiment: Experiment, watched: _Watched, over: bool) -> tuple[Check, ...]:
    """The checks, made again unless that would take too much of the time: they read many rows."""
    now = time.monotonic()
    if over or now >= watched.due:
        watched.health = experiment.health()
        done = time.monotonic()
        watched.due = done + _RARELY * (done - now)
    return watched.health


def _guarantee(experiment: Experiment, state: State, health: Sequence[Check]) -> Guarantee:
    problem, said, document = experiment.problem, state.said, experiment._document
    against = [said.statement] if verdicts.contradicted(said) else []
    against += [each.finding for each in health if each.name in _DECLARED and each.level != "ok"]
    return Guarantee(
        delta=problem.delta,
        confidence=verdicts.percent(problem.delta),
        policy="" if document is None else document.policy,
        options={} if document is None else document.options,
        proven=bool(said.assumptions) and not verdicts.contradicted(said),
        constants=verdicts.constants(said, problem.delta),
        bounds=experiment._bounds,
        noise=problem.noise,
        baseline=problem.baseline,
        assumptions=said.assumptions,
        statement=said.statement,
        contradictions=tuple(against),
    )


def _level(state: State, problem: Problem, options: Mapping[str, Any]) -> float:
    """The log of the e-value that drops a target."""
    top = max(1, len(state.said.chosen))
    if top == 1 and not options.get("tolerance"):
        return -math.log(problem.delta)
    return -math.log(thresholds.set_delta(problem.delta, targets=problem.targets, top=top))


def _plain(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _own_arms(problem: Problem) -> list[int | None]:
    """For each target the source arm of the same features."""
    rows = {row.tobytes(): arm for arm, row in reversed(list(enumerate(problem.source)))}
    return [rows.get(row.tobytes()) for row in problem.target]


@dataclass(frozen=True)
class _Known:
    """What is known of one target's distance to the leader."""

    behind: float | None = None
    radius: float | None = None
    low: float | None = None
    high: float | None = None
    phase: int | None = None
    evidence: float | None = None


def _known(state: State, problem: Problem, level: float) -> list[_Known]:
    known = [_Known()] * problem.targets
    if state.looks:
        look = state.looks[-1]
        for target in range(problem.targets):
            known[target] = _Known(
                _plain(look.behind[target]),
                None,
                _plain(look.low[target]),
                _plain(look.high[target]),
                None,
                float(np.clip(look.evidence[target] / level, 0.0, 1.0)),
            )
        return known
    trace = state.said.trace
    for phase in trace:
        for target, contrast, radius in zip(
            phase.active, phase.contrasts, phase.radii, strict=True
        ):
            about = None if phase is trace[-1] else phase.phase
            size = _plain(radius)
            low, high = (None, None) if size is None else (contrast - size, contrast + size)
            known[target] = _Known(_plain(contrast), size, low, high, about)
    return known


def _leaderboard(state: State, problem: Problem, level: float) -> tuple[Option, ...]:
    said, arms = state.said, _own_arms(problem)
    leading = said.chosen or (said.target,)
    active, known = set(said.active), _known(state, problem, level)

    def place(target: int) -> tuple[int, int, int, float]:
        if target in leading:
            return 0, leading.index(target), 0, 0.0
        behind = known[target].behind
        far = math.inf if behind is None else behind
        if target in active:
            return 1, 0, 0, far
        return 2, 0, -state.eliminated.get(target, 0), far

    board = []
    for target in sorted(range(problem.targets), key=place):
        found, arm = known[target], arms[target]
        status = "in" if target in active else "out"
        if target in leading and said.pulls:
            status = "best" if said.final else "leads"
        count = 0.0 if arm is None else state.counts[arm]
        board.append(
            Option(
                target=target,
                label=problem.target_labels[target],
                status=status,
                phase_out=state.eliminated.get(target) if status == "out" else None,
                arm=arm,
                pulls=None if arm is None else int(count),
                behind=found.behind,
                radius=found.radius,
                low=found.low,
                high=found.high,
                known_in=found.phase,
                evidence=found.evidence,
                raw_mean=float(state.sums[arm] / count) if arm is not None and count else None,
            )
        )
    return tuple(board)


def _timeline(state: State, board: Sequence[Option], level: float) -> Timeline:
    shown = board[:_DRAWN]
    if state.looks:
        return _from_looks(state.looks, shown, level)
    if state.said.trace:
        return _from_trace(state.said.trace, shown)
    return Timeline("looks" if state.watched else "none", (), (), (), ())


def _from_looks(looks: Sequence[Look], shown: Sequence[Option], level: float) -> Timeline:
    lines, evidence = [], []
    for rank, option in enumerate(shown):
        target, seen = option.target, []
        for look in looks:
            seen.append(look)
            if option.status == "out" and target not in look.active:
                break
        x = tuple(float(look.pulls) for look in seen)
        y, low, high = (
            tuple(_plain(values[target]) for values in column)
            for column in (
                [look.behind for look in seen],
                [look.low for look in seen],
                [look.high for look in seen],
            )
        )
        out = option.status == "out"
        lines.append(Line(option.label, rank, out, x, y, low, high))
        share = tuple(_plain(look.evidence[target] / level) for look in seen)
        evidence.append(Line(option.label, rank, out, x, share))
    phases = tuple((float(look.pulls), look.phase) for look in looks)
    return Timeline("looks", phases, tuple(lines), (), tuple(evidence))


def _from_trace(trace: Sequence[Phase], shown: Sequence[Option]) -> Timeline:
    ends = np.cumsum([phase.pulls for phase in trace]).astype(float).tolist()
    lines = []
    for rank, option in enumerate(shown):
        x, y, low, high = [], [], [], []
        for end, phase in zip(ends, trace, strict=True):
            if option.target in phase.active:
                place = phase.active.index(option.target)
                contrast, radius = phase.contrasts[place], phase.radii[place]
                x.append(end)
                y.append(_plain(contrast))
                low.append(_plain(contrast - radius))
                high.append(_plain(contrast + radius))
        out = option.status == "out"
        lines.append(Line(option.label, rank, out, *map(tuple, (x, y, low, high))))
    least, most = [], []
    for phase in trace:
        radii = [
            radius
            for target, radius in zip(phase.active, phase.radii, strict=True)
            if target != phase.leader and math.isfinite(radius)
        ]
        least.append(min(radii, default=None))
        most.append(max(radii, default=None))
    band = tuple(
        Line(name, -1, False, tuple(ends), tuple(values))
        for name, values in (("least radius", least), ("largest radius", most))
    )
    phases = tuple((end, phase.phase) for end, phase in zip(ends, trace, strict=True))
    return Timeline("phases", phases, tuple(lines), band, ())


def _baseline(state: State, problem: Problem, board: Sequence[Option]) -> Baseline:
    slices, leader = _stretches(state.slices, problem.arms), board[0]
    x = tuple((each.first + each.end) / 2 for each in slices)
    means = [_ratio(each.sums.sum(), each.counts.sum()) for each in slices]
    level = Line("all outcomes", -1, False, x, tuple(means))
    shown = board[:_RAW]
    arms = [(rank, option.arm) for rank, option in enumerate(shown) if option.arm is not None]
    if not arms:
        often = np.argsort(-state.counts, kind="stable")[:_RAW].tolist()
        arms = [(-1, arm) for arm in often if state.counts[arm]]
    raw = tuple(
        Line(
            problem.source_labels[arm],
            rank,
            False,
            x,
            tuple(
                _ratio(each.sums[arm], each.counts[arm]) if each.counts[arm] >= _LEAST else None
                for each in slices
            ),
        )
        for rank, arm in arms
    )
    targets = problem.target[[option.target for option in shown]]
    rows = problem.span.contrast_coordinates(problem.target[leader.target] - targets)
    so_far = accumulate(slices, Slice.join)
    found = np.array([each.contrasts(rows) for each in so_far]).reshape(len(slices), len(shown))
    contrasts = tuple(
        Line(option.label, rank, option.status == "out", x, tuple(map(_plain, found[:, rank])))
        for rank, option in enumerate(shown)
    )
    seen = [mean for mean in means if mean is not None]
    rivals = [o.behind for o in board if o.status == "in" and o.behind is not None]
    if not rivals:
        rivals = [o.behind for o in board[1:] if o.behind is not None]
    return Baseline(
        level,
        raw,
        contrasts,
        leader.label,
        max(seen) - min(seen) if seen else None,
        min(rivals, default=None),
    )


def _stretches(slices: Sequence[Slice], arms: int) -> list[Slice]:
    """Neighbours joined until there are enough outcomes in each."""
    joined: list[Slice] = []
    for each in slices:
        if joined and joined[-1].counts.sum() < _ENOUGH * arms:
            joined[-1] = joined[-1].join(each)
        else:
            joined.append(each)
    if len(joined) > 1 and joined[-1].counts.sum() < _ENOUGH * arms:
        last = joined.pop()
        joined[-1] = joined[-1].join(last)
    return joined


def _ratio(sums: float, counts: float) -> float | None:
    return float(sums / counts) if counts else None


def _allocation(state: State, problem: Problem) -> tuple[Allocated, ...]:
    return tuple(
        Allocated(arm, label, float(planned), int(drawn), int(count))
        for arm, (label, planned, drawn, count) in enumerate(
            zip(problem.source_labels, state.planned, state.drawn, state.counts, strict=True)
        )
    )


def _progress(state: State, problem: Problem, options: Mapping[str, Any]) -> Progress:
    head, said = state.head, state.said
    pace = _pace(state.closings)
    forecast, decided = _forecast(state, _level(state, problem, options), options)
    hours = None
    if forecast is not None and pace:
        ends = (forecast.expected, forecast.low, forecast.high)
        hours = tuple(None if end is None else end / pace for end in ends)
    return Progress(
        given=head.given,
        used=int(state.drawn.sum()),
        outstanding=head.outstanding,
        lost=head.lost,
        late=head.late,
        phase_answered=head.phase_told + head.phase_lost,
        phase_pulls=head.needed,
        left=len(said.active),
        options=problem.targets,
        decided=decided,
        pace=pace,
        forecast=forecast,
        hours=hours,  # type: ignore[arg-type]
    )


def _forecast(
    state: State, level: float, options: Mapping[str, Any]
) -> tuple[Forecast | None, float | None]:
    head, said = state.head, state.said
    decided = None
    forecast = None
    if state.looks:
        look = state.looks[-1]
        leading = said.chosen or (said.target,)
        rivals = [target for target in said.active if target not in leading]
        least = min((float(look.evidence[target]) for target in rivals), default=level)
        decided = float(np.clip(least / level, 0.0, 1.0))
        if not head.over:
            forecast = from_evidence(look.pulls, least, level)
    elif not head.over and not state.watched:
        forecast = from_phases(said.trace, state.plan, left=head.remaining + head.outstanding)
    cap = options.get("max_pulls")
    if forecast is not None and isinstance(cap, int):
        forecast = _capped(forecast, max(0, cap - int(state.drawn.sum())))
    return forecast, decided


def _capped(forecast: Forecast, most: int) -> Forecast:
    if forecast.high is not None and forecast.high <= most:
        return forecast
    expected = None if forecast.expected is None else min(forecast.expected, most)
    basis = f"{forecast.basis} The trial ends after {most:,} more in any case."
    return Forecast(expected, min(forecast.low, most), most, basis)


def _pace(closings: Sequence[tuple[float, int]]) -> float | None:
    """Outcomes an hour, from when the last summaries were closed."""
    if len(closings) < 2:
        return None
    (since, before), (until, after) = closings[0], closings[-1]
    return 3600 * (after - before) / (until - since) if until > since and after > before else None
