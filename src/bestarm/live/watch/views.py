"""What there is to see of an experiment, as plain values that pages and reports show."""

from __future__ import annotations

from dataclasses import dataclass

from bestarm.live.spec import Spec
from bestarm.live.store.contract import Head
from bestarm.live.values import Check
from bestarm.live.watch.forecast import EndForecast
from bestarm.recommendation import Recommendation

Numbers = tuple[float | None, ...]


@dataclass(frozen=True)
class Option:
    """One option on the leaderboard. What is not known is None.

    Attributes:
        status: `"best"` once shown, `"leads"`, `"in"` or `"out"`.
        phase_out: the phase in which it was dropped.
        arm: the source arm that is this very target.
        pulls: pulls of that arm with an outcome.
        behind: estimated leader − target, in reward units.
        radius: what was added to and taken from it, where a phase has one radius.
        low: the lower end of what `behind` may be.
        high: the upper end.
        known_in: the phase from which this is, where not from the last.
        evidence: the share collected of the evidence needed to drop it.
        raw_mean: the mean of its outcomes. The baseline is in it: no decision rests on it, unless
            the policy is blind to the baseline.
    """

    target: int
    label: str
    status: str
    phase_out: int | None = None
    arm: int | None = None
    pulls: int | None = None
    behind: float | None = None
    radius: float | None = None
    low: float | None = None
    high: float | None = None
    known_in: int | None = None
    evidence: float | None = None
    raw_mean: float | None = None


@dataclass(frozen=True)
class Line:
    """One option over time; None where there is no value.

    Attributes:
        rank: its place on the leaderboard, from 0; −1 for an arm that is not an option, −2 for a
            line of reference.
        out: whether the line ends because it was dropped.
        x: pulls, or phases.
        y: values.
        low: lower ends, or empty.
        high: upper ends, or empty.
    """

    label: str
    rank: int
    out: bool
    x: tuple[float, ...] = ()
    y: Numbers = ()
    low: Numbers = ()
    high: Numbers = ()


@dataclass(frozen=True)
class Timeline:
    """How the options fell behind.

    Attributes:
        kind: `"phases"` where each phase estimates afresh, `"looks"` where evidence gathers, or
            `"none"`.
        lines: estimated leader − option, with the leader of the moment, over phases or pulls.
        radius: for phases: the largest radius.
        evidence: for looks: the log of the e-value against each option, in units of what is
            needed to drop it.
    """

    kind: str
    lines: tuple[Line, ...] = ()
    radius: Line | None = None
    evidence: tuple[Line, ...] = ()


@dataclass(frozen=True)
class BaselineView:
    """Raw outcomes beside what is left once the baseline is taken out, stretch by stretch.

    Attributes:
        level: the mean of all outcomes of each stretch.
        raw: the mean outcome of single arms.
        contrasts: estimated leader − option from the differences within all stretches so far:
            free of the baseline.
        leader: whose lead that is.
        swing: how far `level` went up and down; None before a second stretch.
        gap: the estimated lead over the closest option that is not named with the leader, or None.
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
class Happening:
    """An event of the log, in words."""

    at: float
    kind: str
    words: str


@dataclass(frozen=True, eq=False)
class Overview:
    """A stored experiment as it stands.

    Attributes:
        said: what the policy recommends.
        created: when it began, in seconds since 1970.
        leaders: the options named, or those that lead so far.
        standing: what each of them is, or would be, said to be.
        proven: whether an error probability is proven under the assumptions.
        reliability: the same in words.
        contradictions: assumptions that the data contradict, one sentence each.
        leaderboard: the options, the leader first.
        timeline: how they fell behind.
        baseline: raw outcomes, and what is made of them.
        allocation: one row per arm.
        used: pulls the policy has been told of: what the verdict rests on.
        savings: what forecasts save, in words; empty where there are none.
        decided: the share collected of the evidence needed to drop the closest competitor; None
            where a policy gathers none.
        pace: recent outcomes per hour; None if unknown.
        forecast: how many pulls there may be to come; None if it is over or nothing is known.
        hours: what that takes at this pace: the middle, the low and the high end; None while
            nothing is given out.
        events: the last ones that tell something, newest first.
    """

    name: str
    description: str
    spec: Spec
    head: Head
    said: Recommendation
    created: float
    verdict: str
    leaders: tuple[str, ...]
    standing: str
    proven: bool
    reliability: str
    contradictions: tuple[str, ...]
    health: tuple[Check, ...]
    leaderboard: tuple[Option, ...]
    timeline: Timeline
    baseline: BaselineView
    allocation: tuple[Allocated, ...]
    used: int
    savings: str
    decided: float | None
    pace: float | None
    forecast: EndForecast | None
    hours: tuple[float | None, ...] | None
    events: tuple[Happening, ...]
