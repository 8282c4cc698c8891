"""All there is to see of an experiment, as plain values: what a page or a report shows."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from bestarm.live.experiment import Experiment
from bestarm.live.values import Check
from bestarm.live.watch import wording
from bestarm.live.watch.follower import Follower, State
from bestarm.live.watch.forecast import EndForecast, from_evidence, from_phases
from bestarm.live.watch.leaderboard import leaderboard
from bestarm.live.watch.timeline import baseline_lines, timeline
from bestarm.live.watch.views import Allocated, Guarantee, Happening, Overview, Progress
from bestarm.policies.policy import Traits
from bestarm.problem import Problem

__all__ = ["Watch", "overview"]

_DECLARED = {"range", "scale"}  # checks of what was declared of rewards
_HEALTH_COST_RATIO = 10  # rerun health checks at most every 10 × their own duration


class Watch:
    """Looks at one experiment, and keeps what a look took: the next costs what has happened since.

    Args:
        experiment: the experiment.
    """

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self._follower = Follower(experiment.problem)
        self._health_due = -math.inf  # when health is to be checked again
        self._health: tuple[Check, ...] = ()

    def headline(self) -> str:
        """The verdict in one sentence, from counters and log alone: for lists of many."""
        glance = self._follower.glance(self.experiment)
        return wording.headline(glance, self.experiment.problem, self.experiment.traits)

    def health(self, *, over: bool = False) -> tuple[Check, ...]:
        """The health checks, repeated unless that would take too much time: they read many rows.

        Args:
            over: whether the experiment is over: then they are repeated.
        """
        now = time.monotonic()
        if over or now >= self._health_due:
            self._health = self.experiment.health()
            done = time.monotonic()
            self._health_due = done + _HEALTH_COST_RATIO * (done - now)
        return self._health

    def overview(self) -> Overview:
        """All there is to see of the experiment."""
        experiment = self.experiment
        revision = experiment.revision  # read first: what is shown may be newer, never older
        state = self._follower.state(experiment)
        problem, head, said = experiment.problem, state.head, state.said
        traits = experiment.traits
        health = self.health(over=head.over)
        needed = traits.evidence_needed
        level = -math.log(problem.delta) if needed is None else needed
        board = leaderboard(state, problem, level, radii=not traits.budgeted)
        guarantee = _guarantee(experiment, state, health)
        return Overview(
            name=experiment.name,
            description=experiment.description,
            state=head.state,
            phase=head.phase,
            created=state.created,
            updated=head.last_time,
            revision=revision,
            verdict=wording.verdict(head, said, problem, traits, waits_for=state.waits_for),
            leaders=tuple(
                problem.target_labels[target] for target in said.chosen or (said.target,)
            ),
            standing=wording.standing(said, traits, proven=guarantee.proven),
            sole_best=guarantee.proven and traits.names_the_best,
            guarantee=guarantee,
            health=health,
            leaderboard=board,
            timeline=timeline(state, board, level),
            baseline=baseline_lines(state, problem, board),
            allocation=_allocation(state, problem),
            progress=_progress(state, problem, traits, level, experiment.now()),
            events=tuple(
                Happening(
                    event.number,
                    event.at,
                    event.kind,
                    wording.describe(event, problem, open_plans=head.open),
                )
                for event in reversed(state.events)
            ),
        )


def overview(experiment: Experiment) -> Overview:
    """All there is to see of an experiment, for one look. Who looks again keeps a `Watch`."""
    return Watch(experiment).overview()


def _guarantee(experiment: Experiment, state: State, health: Sequence[Check]) -> Guarantee:
    problem, said, document = experiment.problem, state.said, experiment.spec
    options = {} if document is None else document.options
    against = (
        [said.statement or "Outcomes contradict the declared scales."] if said.contradicted else []
    )
    against += [each.finding for each in health if each.name in _DECLARED and each.level != "ok"]
    return Guarantee(
        delta=problem.delta,
        confidence=wording.percent(problem.delta),
        policy="" if document is None else document.policy,
        options=options,
        proven=said.claims is not None and not said.contradicted,
        blind=experiment.traits.blind,
        constants=wording.reliability(said, experiment.traits, problem.delta),
        bounds=experiment.traits.bounds,
        noise=problem.noise,
        baseline=problem.baseline,
        assumptions=said.assumptions,
        statement=said.statement,
        contradictions=tuple(against),
    )


def _allocation(state: State, problem: Problem) -> tuple[Allocated, ...]:
    return tuple(
        Allocated(arm, label, float(planned), int(drawn), int(count))
        for arm, (label, planned, drawn, count) in enumerate(
            zip(problem.source_labels, state.planned, state.drawn, state.counts, strict=True)
        )
    )


def _progress(state: State, problem: Problem, traits: Traits, level: float, now: float) -> Progress:
    head, said = state.head, state.said
    pace = _pace(state.closings, now)
    forecast, decided = _forecast(state, level, traits)
    hours = None
    if forecast is not None and pace and head.state == "running":
        ends = (forecast.expected, forecast.low, forecast.high)
        hours = tuple(None if end is None else end / pace for end in ends)
    return Progress(
        given=head.assigned,
        answered=head.outcomes,
        used=int(state.drawn.sum()),
        outstanding=head.outstanding,
        lost=head.losses,
        late=head.late,
        phase_answered=head.phase_outcomes + head.phase_losses,
        phase_pulls=head.needed,
        left=len(said.active),
        options=problem.targets,
        decided=decided,
        pace=pace,
        forecast=forecast,
        hours=hours,  # type: ignore[arg-type]
    )


def _forecast(
    state: State, level: float, traits: Traits
) -> tuple[EndForecast | None, float | None]:
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
    elif not head.over and traits.evidence_needed is None:
        forecast = from_phases(said.trace, state.plan, left=head.remaining + head.outstanding)
    if forecast is not None and traits.max_pulls is not None:
        forecast = _capped(forecast, max(0, traits.max_pulls - int(state.drawn.sum())))
    return forecast, decided


def _capped(forecast: EndForecast, most: int) -> EndForecast:
    if forecast.high is not None and forecast.high <= most:
        return forecast
    expected = None if forecast.expected is None else min(forecast.expected, most)
    basis = f"{forecast.basis} The experiment ends after {most:,} more in any case."
    return EndForecast(expected, min(forecast.low, most), most, basis)


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
