"""All there is to see of an experiment, as plain values: what a page or a report shows."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from itertools import pairwise
from threading import Lock

import numpy as np

from bestarm.live.experiment import Experiment
from bestarm.live.values import Check, savings
from bestarm.live.watch import wording
from bestarm.live.watch.follower import Follower, Log
from bestarm.live.watch.forecast import EndForecast, from_evidence, from_phases
from bestarm.live.watch.standings import baseline_lines, leaderboard, leaders, timeline
from bestarm.live.watch.views import Allocated, Happening, Overview
from bestarm.policies.policy import Traits

_DECLARED = {"range", "scale", "model", "level"}  # checks of what was declared of rewards
_HEALTH_COST_RATIO = 50  # rerun health checks at most every 50 × their own duration


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
        self._health: tuple[Check, ...] = ()

    def headline(self) -> str:
        """The verdict in one sentence, from counters and log alone: for lists of many."""
        with self._log_lock, self.experiment.read() as books:
            self._log.read(books)
            return wording.headline(self._log, self.experiment.problem, self.experiment.traits)

    def health(self, *, over: bool = False) -> tuple[Check, ...]:
        """The health checks, which read many rows: repeated where the experiment is over, or else
        unless that would take too much time."""
        now = time.monotonic()
        if over or now >= self._health_due:
            self._health = self.experiment.health()
            done = time.monotonic()
            self._health_due = done + _HEALTH_COST_RATIO * (done - now)
        return self._health

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
        experiment, log, said = self.experiment, follower.log, follower.said
        problem, traits, head = experiment.problem, experiment.traits, log.head
        health = self.health(over=head.over)
        proven = said.claims is not None and not said.contradicted
        found = [each.finding for each in health if each.name in _DECLARED and each.level != "ok"]
        if said.contradicted:
            found.insert(0, said.statement or "Outcomes contradict the declared scales.")
        level = traits.evidence_needed or -math.log(problem.delta)
        board = leaderboard(follower, problem, level, radii=not traits.budgeted)
        columns = (problem.source_labels, follower.planned, follower.drawn, follower.counts)
        forecast, decided = _forecast(follower, traits, level)
        pace, hours = _pace(log.closings, experiment.now()), None
        if forecast is not None and pace and head.state == "running":
            ends = (forecast.expected, forecast.low, forecast.high)
            hours = tuple(None if end is None else end / pace for end in ends)
        return Overview(
            name=experiment.name,
            description=experiment.description,
            spec=self._spec,
            head=head,
            said=said,
            created=log.created,
            verdict=wording.verdict(head, said, problem, traits, waits_for=follower.waits_for),
            leaders=tuple(problem.target_labels[each] for each in leaders(said)),
            standing=wording.standing(said, traits, proven=proven),
            proven=proven,
            reliability=wording.reliability(said, traits, problem.delta),
            contradictions=tuple(found),
            health=health,
            leaderboard=board,
            timeline=timeline(follower, board, level),
            baseline=baseline_lines(follower, problem, board),
            allocation=tuple(
                Allocated(arm, label, float(planned), int(drawn), int(count))
                for arm, (label, planned, drawn, count) in enumerate(zip(*columns, strict=True))
            ),
            used=int(follower.drawn.sum()),
            savings=savings(head.variance_left),
            decided=decided,
            pace=pace,
            forecast=forecast,
            hours=hours,
            events=tuple(
                Happening(each.at, each.kind, wording.describe(each, problem, open_plans=head.open))
                for each in reversed(log.events)
            ),
        )


def overview(experiment: Experiment) -> Overview:
    """All there is to see of an experiment, for one look. Who looks again keeps a `Watch`."""
    return Watch(experiment).overview()


def _forecast(
    follower: Follower, traits: Traits, level: float
) -> tuple[EndForecast | None, float | None]:
    """How many more pulls there may be, and the share collected of the evidence needed."""
    head, said = follower.log.head, follower.said
    forecast = decided = None
    last = follower.looks[-1] if follower.looks else None
    if last is not None and last.phase is None:
        rivals = set(said.active).difference(leaders(said))
        least = min((float(last.look.log_evidence[target]) for target in rivals), default=level)
        decided = float(np.clip(least / level, 0.0, 1.0))
        forecast = from_evidence(last.pulls, least, level)
    elif traits.evidence_needed is None:
        forecast = from_phases(said.trace, follower.plan, left=head.remaining + head.outstanding)
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
