"""All there is to see of an experiment, as plain values: what a page or a report shows."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise
from threading import Lock
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from bestarm.live.events import log
from bestarm.live.experiment import Experiment
from bestarm.live.guardrails import GuardrailRow
from bestarm.live.spec import Spec
from bestarm.live.store.head import Head
from bestarm.live.store.rows import Event
from bestarm.live.values import Checks, savings, shown_state
from bestarm.live.watch import story, wording
from bestarm.live.watch.alarms import news
from bestarm.live.watch.follower import Follower, Log, PolicySnapshot, Slice, joined
from bestarm.numerics.geometry import Array
from bestarm.policies.policy import Look, Traits
from bestarm.problem import Problem
from bestarm.recommendation import Phase, Recommendation
from bestarm.records import Plan
from bestarm.units import Unit

_PRICE = 1.0  # nats that a bet on all stakes at once costs, about, against the best of them
_NEAR = (
    0.2  # nats that are always taken to be lacking: a batch must close before anything is reported
)
_RANGE = (0.2, 0.5, 0.8)  # quantiles
_SCORES: Array = ndtri((np.arange(61) + 0.5) / 61)  # of a normal deviate, equally likely each
_FAR = 300.0  # times the pulls so far: beyond that nothing is predicted
_LONGEST_DURATION = 10 * 365 * 24.0  # hours: beyond that a duration says nothing
_DRAWN = 40  # targets with a line in the timeline
_RAW = 4  # options whose raw outcomes are shown over time
_ENOUGH = 60  # outcomes per arm in a stretch, for its mean to say something
_OUTSTANDING = 0.05  # of a stretch, up to which its mean is shown
_LEAST = 30  # outcomes of an arm in a stretch, to be shown at all
_DECLARED = {"range", "scale", "model", "level"}  # checks of what was declared of rewards
_HEALTH_COST_RATIO = 50  # rerun health checks at most every 50 × their own duration

Numbers = tuple[float | None, ...]


# --- plain values ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class EndForecast:
    """How many more pulls there may be: rough by nature, so always with a range."""

    expected: int | None  # a middling guess, if there is one
    low: int  # it may well be as few as this
    high: int | None  # and as many as this; None if no end can be predicted
    basis: str  # what it is made from, in words


@dataclass(frozen=True)
class Option:
    """One option on the leaderboard. What is not known is None."""

    target: int
    label: str
    status: str  # "best" once shown, "leads", "in", "out" or "retired"
    reason: str = ""  # why it was retired
    arm: int | None = None  # the source arm that is this very target
    pulls: int | None = None  # pulls of that arm with an outcome
    behind: float | None = None  # estimated leader − target, in reward units
    radius: float | None = None  # of that estimate, where a phase has one radius
    low: float | None = None  # the ends of what `behind` may be
    high: float | None = None
    known_in: int | None = None  # the phase from which this is, where not from the last
    evidence: float | None = None  # the share collected of the evidence needed to drop it
    # The mean of its outcomes. The baseline is in it: no decision rests on it, unless the policy is
    # blind to the baseline.
    raw_mean: float | None = None
    # What it would have paid on average in the rounds so far: see `Rates`.
    rate: float | None = None
    rate_low: float | None = None
    rate_high: float | None = None


@dataclass(frozen=True)
class Line:
    """One option over time; None where there is no value."""

    label: str
    option: int  # the target, or an arm that is not one: its colour, for good
    rank: int  # its place on the leaderboard, from 0; −1: an arm that is no option, −2: a reference
    out: bool  # whether the line ends because it was dropped
    x: tuple[float, ...] = ()  # pulls
    y: Numbers = ()
    low: Numbers = ()  # the ends of an interval, or empty
    high: Numbers = ()


@dataclass(frozen=True)
class Timeline:
    """How far apart the options were, over the outcomes."""

    kind: str  # "phases" where each phase estimates afresh, "looks" where evidence gathers, "none"
    control: str | None = None  # what leads are over; None: distances from the leader of the time
    lines: tuple[Line, ...] = ()  # estimated option − control, or option − leader
    # For looks: the log of the evidence against each option, in units of what drops it.
    evidence: tuple[Line, ...] = ()
    changes: tuple[tuple[float, str], ...] = ()  # options added and retired, and after how many


@dataclass(frozen=True)
class BaselineView:
    """Outcomes as they were told, stretch by stretch: the baseline is in them."""

    level: Line  # the mean of all outcomes of each stretch
    raw: tuple[Line, ...]  # the mean outcome of single arms


@dataclass(frozen=True)
class ArmAllocation:
    """How often an arm was to be drawn, and was, of all pulls the policy was told of."""

    arm: int
    label: str
    planned: float
    drawn: int
    answered: int
    floor: float | None = None  # the least probability that it is drawn with
    retired: bool = False


@dataclass(frozen=True)
class EventView:
    """An event of the log, in words and as it is on record, but for secrets."""

    event: Event
    words: str


@dataclass(frozen=True, eq=False)
class Overview:
    """A stored experiment as it stands."""

    name: str
    description: str
    spec: Spec
    head: Head
    recommendation: Recommendation  # what the policy recommends
    created: float  # when it began, in seconds since 1970
    sentences: tuple[str, ...]  # the verdict, of which the first says what it comes to
    leaders: tuple[str, ...]  # the options named, or those that lead so far
    standing: str  # what each of them is, or would be, called
    proven: bool  # whether an error probability is proven under the assumptions
    reliability: str  # the same in words
    contradictions: tuple[str, ...]  # assumptions that the data contradict, one sentence each
    health: Checks
    leaderboard: tuple[Option, ...]  # the leader first
    timeline: Timeline
    baseline: BaselineView
    allocation: tuple[ArmAllocation, ...]  # one row per arm
    used: int  # assignments of the phases that are closed, outstanding ones included
    outcomes_used: int  # outcomes that the verdict rests on
    unit: Unit  # how outcomes are written
    rated: int | None  # rounds that the options' rates are averages over; None if there are none
    savings: str  # what forecasts save, in words; empty where there are none
    decided: float | None  # the share collected of the evidence needed to drop the closest rival
    pace: float | None  # recent outcomes per hour
    forecast: EndForecast | None  # None if it is over or nothing is known
    hours: tuple[float | None, ...] | None  # what that takes at this pace: middle, low, high
    guardrails: tuple[GuardrailRow, ...]  # one per guardrail and option
    block: int  # the most options that a round tried: fewer are left when some are ruled out
    story: tuple[EventView, ...]  # the events that tell something, newest first
    routine: str  # what happened besides, counted

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        return " ".join(self.sentences)

    @property
    def state(self) -> str:
        """The state for people."""
        return shown_state(self.head.state, self.health)


# --- how many more pulls there may be -------------------------------------------------------------


def from_evidence(pulls: int, evidence: float, level: float) -> EndForecast:
    """Pulls until the evidence against the hardest competitor, a log, reaches its level.

    The log of an e-value that bets well is a random walk of drift g per pull and variance 2g, so
    the pulls that are lacking follow an inverse Gaussian law. g itself is known through the score
    z = √(2 g n), which is off by a normal deviate. Quantiles are those of the mixture.
    """
    lacking = max(level - evidence, _NEAR)
    score = math.sqrt(2 * max(evidence + _PRICE, 0.1)) + _SCORES
    growth = np.square(score[score > 0])[:, None] / (2 * pulls)
    ahead = np.geomspace(1e-3 * pulls, _FAR * pulls, 300)
    mean, shape = lacking / growth, lacking**2 / (2 * growth)
    root = np.sqrt(shape / ahead)
    reflected = np.minimum(2 * shape / mean + log_ndtr(-root * (ahead / mean + 1)), 0.0)
    chance = (ndtr(root * (ahead / mean - 1)) + np.exp(reflected)).sum(axis=0) / len(_SCORES)
    low, middle, high = (
        math.ceil(np.interp(q, chance, ahead)) if chance[-1] >= q else None for q in _RANGE
    )
    basis = "From how the evidence against the closest competitor has grown. Rough: four in five "
    basis += "of the experiments this was tried on ended within their range."
    return EndForecast(middle, low or 0, high, basis)


def from_width(pulls: int, half: float, precision: float) -> EndForecast:
    """Pulls until half the width of an interval, which falls as 1/√pulls, is the precision."""
    more = max(pulls * ((half / precision) ** 2 - 1), 1.0)
    basis = "The interval of the lead narrows as 1/√outcomes."
    return EndForecast(math.ceil(more), math.ceil(more / 2), math.ceil(1.5 * more), basis)


def from_phases(trace: Sequence[Phase], plan: Plan | None, *, left: int) -> EndForecast | None:
    """Pulls of this phase, and of those after it that the smallest estimated contrast asks for.

    A phase of half the radius needs four times the pulls, so phases grow as they did before. Of the
    pulls of the open plan, some are `left` to be settled.
    """
    if plan is None:
        return None
    basis = "This phase as planned; it may be the last."
    if not trace or math.inf in trace[-1].radii:
        return EndForecast(None, left, None, f"{basis} What follows depends on its outcome.")
    last = trace[-1]
    rivals = [
        (contrast, radius)
        for target, contrast, radius in zip(last.active, last.contrasts, last.radii, strict=True)
        if target != last.leader and target not in last.eliminated and radius > 0
    ]
    ratio = max((radius / max(contrast, 1e-12) for contrast, radius in rivals), default=1.0)
    growth = max(plan.pulls / last.pulls, 1.1)
    # The open phase and k more after it shrink the radius by growth^(−(k + 1)/2).
    wanted = math.ceil(max(0.0, 2 * math.log(max(ratio, 1.0)) / math.log(growth) - 1))
    if wanted > 12:
        basis += " The closest competitor is too close to say more."
        return EndForecast(None, left, None, basis)
    basis += " If the closest competitor is as close as it looks, "
    basis += f"{wanted} more may follow" if wanted else "it is"
    basis += "; the range allows for one more than that."
    total = left + sum(plan.pulls * growth**k for k in range(1, wanted + 1))
    most = math.ceil(total + plan.pulls * growth ** (wanted + 1))
    return EndForecast(math.ceil(total), left, most, basis)


# --- where the options stand ----------------------------------------------------------------------


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def leaders(recommendation: Recommendation) -> tuple[int, ...]:
    """The targets that are named, and those that tie with them."""
    return tuple(
        dict.fromkeys((*(recommendation.chosen or (recommendation.target,)), *recommendation.tied))
    )


def leaderboard(follower: Follower, level: float, *, radii: bool = True) -> tuple[Option, ...]:
    """All options, those that lead first, then by how far they are behind; retired ones last.

    The evidence that drops an option is `level`; `radii` says whether the radii of phases tell how
    sure an estimate is.
    """
    problem, retired = follower.options.problem, follower.options.retired
    recommendation, dropped = follower.recommendation, follower.log.eliminated
    new = range(follower.known, problem.targets)
    leading, active = leaders(recommendation), {*recommendation.active, *new}
    arms = {row.tobytes(): arm for arm, row in reversed(list(enumerate(problem.source)))}

    def option(target: int) -> Option:
        status = "in" if target in active else "out"
        if (
            target in leading
            and follower.counts.any()
            and (recommendation.leads or recommendation.final)
        ):
            status = "best" if recommendation.final else "leads"
        if target in retired:
            status = "retired"
        known = _known(target, follower.looks, level, radii=radii)
        if (
            recommendation.effect is not None
            and target == recommendation.effect.control not in leading
        ):
            # Of the control, what the verdict says: narrower, and part of its promise.
            effect = recommendation.effect
            known |= {"behind": effect.estimate, "low": effect.lower, "high": effect.upper}
        if status == "retired":
            known = {"reason": retired[target].reason}  # what is known is about those that stay
        if status == "out" and "evidence" in known:
            known["evidence"] = 1.0  # what was dropped stays so, though evidence may ebb away later
        arm = arms.get(problem.target[target].tobytes())
        if follower.rates is not None and status != "retired":
            rates = follower.rates
            ends = rates.estimate, rates.low, rates.high
            names = ("rate", "rate_low", "rate_high")
            known |= dict(zip(names, (_finite(each[target]) for each in ends), strict=True))
        if arm is not None:
            count = int(follower.counts[arm])
            known |= {"arm": arm, "pulls": count}
            known["raw_mean"] = float(follower.sums[arm] / count) if count else None
        return Option(target, problem.target_labels[target], status, **known)

    def place(option: Option) -> tuple[int, int, float]:
        far = math.inf if option.behind is None else option.behind
        if option.status == "retired":
            return 3, -retired[option.target].number, far
        if option.target in leading:
            return 0, leading.index(option.target), 0.0
        if option.target in active:
            return 1, 0, far
        return 2, -dropped.get(option.target, 0), far

    return tuple(sorted(map(option, range(problem.targets)), key=place))


def _known(
    target: int, looks: Sequence[PolicySnapshot], level: float, *, radii: bool
) -> dict[str, Any]:
    """What the last snapshot that knew anything of a target says of it."""
    for snapshot in reversed(looks):
        look, phase = snapshot.look, snapshot.phase
        if phase is not None and target not in snapshot.active:
            continue
        behind, low, high = (_finite(part[target]) for part in (look.estimate, look.low, look.high))
        if phase is None:
            share = float(np.clip(look.log_evidence[target] / level, 0.0, 1.0))
            return {"behind": behind, "low": low, "high": high, "evidence": share}
        known = {"behind": behind, "known_in": None if snapshot is looks[-1] else phase}
        if radii and behind is not None and high is not None:
            known |= {"radius": high - behind, "low": low, "high": high}
        return known
    return {}


def timeline(
    follower: Follower, board: Sequence[Option], level: float, control: int | None
) -> Timeline:
    """How far apart the options on the board were; `level` is the evidence that drops one."""
    looks = follower.looks
    if not looks:
        return Timeline("none")
    phased = looks[0].phase is not None
    if control is not None and not any(np.isfinite(each.look.estimate[control]) for each in looks):
        control = None
    # The interval is that of the leader over the control, or of the closest rival.
    banded = next((each.target for each in board if each.target != control), None)
    if control is None and len(board) > 1:
        banded = board[1].target
    lines, evidence = [], []
    for rank, option in enumerate(board[:_DRAWN]):
        target, out, seen = option.target, option.status in {"out", "retired"}, looks
        active = [target in each.active for each in looks]
        if phased:
            seen = list(compress(looks, active))
        elif out and not all(active):
            seen = looks[: active.index(False) + 1]  # as far as the look that dropped it
        x = tuple(float(each.pulls) for each in seen)
        leads = [_lead(each.look, target, control) for each in seen]
        if target == banded and follower.recommendation.effect is not None and seen == looks:
            effect = follower.recommendation.effect  # narrower, and part of the verdict
            if target == follower.recommendation.target and effect.control == control:
                leads[-1] = effect.estimate, effect.lower, effect.upper
        y, low, high = zip(*leads, strict=True) if leads else ((), (), ())
        ends = (low, high) if target == banded else ((), ())
        lines.append(Line(option.label, target, rank, out, x, y, *ends))
        share = tuple(_finite(each.look.log_evidence[target] / level) for each in seen)
        evidence.append(Line(option.label, target, rank, out, x, share))
    labels, changed = follower.options.problem.target_labels, []
    for event in follower.log.story:
        if event.kind in {"added", "retired"}:
            sign = "+" if event.kind == "added" else "−"
            changed.append((float(event.data["assigned"]), f"{sign} {event.data['label']}"))
    over = None if control is None else labels[control]
    shares = () if phased else tuple(evidence)
    return Timeline("phases" if phased else "looks", over, tuple(lines), shares, tuple(changed))


def _lead(look: Look, target: int, control: int | None) -> tuple[float | None, ...]:
    """The estimated lead of a target over the control, or over the leader, and its interval.

    A look has intervals of the leader's distances alone.
    """
    if control is None or look.leader == control:
        parts = look.estimate[target], look.high[target], look.low[target]
        estimate, low, high = (_finite(-part) for part in parts)
        return estimate, low, high
    estimate = _finite(look.estimate[control] - look.estimate[target])
    if look.leader != target:
        return estimate, None, None
    return estimate, _finite(look.low[control]), _finite(look.high[control])


def baseline_lines(follower: Follower, problem: Problem, board: Sequence[Option]) -> BaselineView:
    """Outcomes over time, as they were told."""

    def short(stretch: Slice) -> bool:
        return bool(stretch.counts.sum() < _ENOUGH * problem.arms)

    def told(stretch: Slice) -> bool:
        # Where many outcomes are outstanding, those that came are the quick ones.
        return bool(stretch.pending <= _OUTSTANDING * (stretch.counts.sum() + stretch.pending))

    slices = joined(filter(told, follower.slices), lambda last, _: short(last))
    if len(slices) > 1 and short(slices[-1]):
        slices[-2:] = [slices[-2].join(slices[-1])]
    x = tuple((each.first + each.end) / 2 for each in slices)
    means = tuple(_ratio(each.sums.sum(), each.counts.sum()) for each in slices)
    arms = [
        (rank, option.target, option.arm)
        for rank, option in enumerate(board[:_RAW])
        if option.arm is not None
    ]
    if not arms:
        often = np.argsort(-follower.counts, kind="stable")[:_RAW].tolist()
        arms = [(-1, arm, arm) for arm in often if follower.counts[arm]]
    raw = []
    for rank, target, arm in arms:
        y = tuple(_ratio(each.sums[arm], each.counts[arm], least=_LEAST) for each in slices)
        raw.append(Line(problem.source_labels[arm], target, rank, False, x, y))
    return BaselineView(Line("all outcomes", -1, -2, False, x, means), tuple(raw))


def _ratio(sums: float, counts: float, *, least: int = 1) -> float | None:
    return float(sums / counts) if counts >= least else None


# --- all of it ------------------------------------------------------------------------------------


class Watch:
    """Looks at one experiment, and keeps what it found: the next look costs what is new."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self._spec = experiment.stored_spec("watched")
        self._lock = Lock()
        self._follower = Follower(self._spec)
        self._log_lock = Lock()  # of its own: a headline does not wait for a policy
        self._log = Log()
        self._health_due = -math.inf  # when health is to be checked again
        self._health = Checks()

    def headline(self) -> str:
        """The verdict in one sentence, from counters and log alone: for lists of many."""
        with self._log_lock, self.experiment.read() as snapshot:
            self._log.read(snapshot)
            problem = self.experiment.options_at(snapshot).problem
            return wording.headline(self._log, problem, self.experiment.traits)

    def health(self, *, over: bool = False) -> Checks:
        """The health checks, which read many rows: repeated where the experiment is over, or else
        unless that would take too much time."""
        now = time.monotonic()
        if over or now >= self._health_due:
            self._health = self.experiment.health()
            done = time.monotonic()
            self._health_due = done + _HEALTH_COST_RATIO * (done - now)
        return self._health

    def record_alarms(self) -> None:
        """Add alarms and a stall to the log as they begin: once, whoever else looks."""
        checks, engine = self.health(), self.experiment.engine
        with self._log_lock:
            with engine.read() as snapshot:
                self._log.read(snapshot)
                if not list(news(self._log, snapshot, checks, engine.now(snapshot))):
                    return
            with engine.changing() as (tx, now):
                self._log.read(tx)  # others may have added them meanwhile
                for kind, data in list(news(self._log, tx, checks, now)):
                    log(tx, kind, now, **data)

    def overview(self) -> Overview:
        """All there is to see of the experiment."""
        with self._lock:
            try:
                self._follower.update(self.experiment)
            except BaseException:
                self._follower = Follower(self._spec)
                raise
            return self._overview(self._follower)

    def _overview(self, follower: Follower) -> Overview:
        experiment, log, recommendation = self.experiment, follower.log, follower.recommendation
        problem, traits, head = follower.options.problem, experiment.traits, log.head
        retired = follower.options.retired
        health = self.health(over=head.over)
        proven = recommendation.claims is not None and not recommendation.contradicted
        found = [each.finding for each in health if each.name in _DECLARED and each.level != "ok"]
        if recommendation.contradicted:
            found.insert(0, recommendation.statement or "Outcomes contradict the declared scales.")
        level = traits.evidence_needed or -math.log(problem.delta)
        board = leaderboard(follower, level, radii=not traits.budgeted)
        floors: Mapping[str, float] = self._spec.options.get("floors") or {}
        columns = (problem.source_labels, follower.planned, follower.drawn, follower.counts)
        forecast, decided = _forecast(follower, traits, level)
        unit = Unit(percent=follower.binary)
        pace, hours = _pace(log.closings, experiment.now()), None
        if forecast is not None and pace and head.state == "running":
            ends = (forecast.expected, forecast.low, forecast.high)
            if (forecast.expected or forecast.low) / pace <= _LONGEST_DURATION:
                hours = tuple(None if end is None else end / pace for end in ends)
        return Overview(
            name=experiment.name,
            description=experiment.description,
            spec=self._spec,
            head=head,
            recommendation=recommendation,
            created=log.created,
            sentences=tuple(
                wording.verdict(
                    head,
                    recommendation,
                    problem,
                    traits,
                    unit=unit,
                    retired=len(retired),
                    waits_for=follower.waits_for,
                )
            ),
            leaders=tuple(problem.target_labels[each] for each in leaders(recommendation)),
            standing=wording.standing(recommendation, traits, proven=proven, unit=unit),
            proven=proven,
            reliability=wording.reliability(recommendation, traits, problem.delta),
            contradictions=tuple(found),
            health=health,
            leaderboard=board,
            timeline=timeline(follower, board, level, traits.control),
            baseline=baseline_lines(follower, problem, board),
            allocation=tuple(
                ArmAllocation(
                    arm,
                    label,
                    float(planned),
                    int(drawn),
                    int(count),
                    floors.get(label),
                    retired=arm in retired,
                )
                for arm, (label, planned, drawn, count) in enumerate(zip(*columns, strict=True))
            ),
            used=int(follower.drawn.sum()),
            outcomes_used=int(follower.counts.sum()),
            unit=unit,
            rated=None if follower.rates is None else follower.rates.rounds,
            savings=savings(head.variance_left),
            decided=decided,
            pace=pace,
            forecast=forecast,
            hours=hours,
            guardrails=follower.guardrails,
            block=follower.block,
            story=tuple(
                EventView(story.without_seed(each), story.describe(each, problem, traits, unit))
                for each in reversed(log.story)
            ),
            routine=story.routine_words(log.routine),
        )


def describe_lead(seen: Overview) -> str:
    """How far the leader is ahead of the control, or else of the next option, in a sentence."""
    effect, leader = seen.recommendation.effect, seen.leaderboard[0]
    if leader.status not in {"best", "leads"}:
        return seen.sentences[0]
    if effect is not None and effect.control != leader.target:
        size = seen.unit.lead(effect.estimate, effect.lower, effect.upper, effect.relative)
        names = f"{story.quoted([leader.label])} leads the control {story.quoted([effect.label])}"
        return f"{names} by {size}."
    rivals = (each for each in seen.leaderboard[1:] if each.status in {"in", "out"})
    rival = next((each for each in rivals if each.behind is not None), None)
    if rival is None or rival.behind is None or rival.low is None or rival.high is None:
        return seen.sentences[0]
    control = ", the control," if leader.target == seen.spec.traits.control else ""
    size = seen.unit.lead(rival.behind, rival.low, rival.high)
    return f"{story.quoted([leader.label])}{control} leads {story.quoted([rival.label])} by {size}."


def overview(experiment: Experiment) -> Overview:
    """All there is to see of an experiment, for one look. Who looks again keeps a `Watch`."""
    return Watch(experiment).overview()


def _forecast(
    follower: Follower, traits: Traits, level: float
) -> tuple[EndForecast | None, float | None]:
    """How many more pulls there may be, and the share collected of the evidence needed."""
    head, recommendation = follower.log.head, follower.recommendation
    forecast = decided = None
    last = follower.looks[-1] if follower.looks else None
    effect = recommendation.effect
    if recommendation.reason == "measuring" and effect is not None and traits.precision is not None:
        forecast = from_width(
            recommendation.pulls, (effect.upper - effect.lower) / 2, traits.precision
        )
    elif last is not None and last.phase is None:
        rivals = set(recommendation.active).difference(leaders(recommendation))
        least = min((float(last.look.log_evidence[target]) for target in rivals), default=level)
        decided = float(np.clip(least / level, 0.0, 1.0))
        if least > 0 or not head.changes:  # after a change evidence starts below 0
            forecast = from_evidence(last.pulls, least, level)
    elif traits.evidence_needed is None:
        # A policy with a budget compares means alone: its radii say nothing of the pulls to come.
        trace = () if traits.budgeted else recommendation.trace
        forecast = from_phases(trace, follower.plan, left=head.remaining + head.outstanding)
    if head.over or forecast is None:
        return None, decided
    if traits.max_pulls is not None:
        most = max(0, traits.max_pulls - int(follower.drawn.sum()))
        if forecast.high is None or forecast.high > most:
            expected = None if forecast.expected is None else min(forecast.expected, most)
            basis = f"{forecast.basis} The experiment ends after {most:,} more in any case."
            forecast = EndForecast(expected, min(forecast.low, most), most, basis)
    return forecast, decided


def _pace(closings: Sequence[tuple[float, int]], now: float) -> float | None:
    """Outcomes per hour, from when the last summaries were closed.

    The time since the last of them counts once it is longer than that between any two: an
    experiment that has come to a halt slows down.
    """
    if len(closings) < 2:
        return None
    (since, before), (until, after) = closings[0], closings[-1]
    if now - until > max(later[0] - earlier[0] for earlier, later in pairwise(closings)):
        until = now
    return 3600 * (after - before) / (until - since) if until > since and after > before else None
