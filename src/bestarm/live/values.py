"""The values that an experiment returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from bestarm.numerics.geometry import Array
from bestarm.tables import Column, Entry, Line, TextTable
from bestarm.units import plural

LEVELS = ("ok", "warning", "alarm")
_MARKS = {"ok": "ok", "warning": "WARNING", "alarm": "ALARM"}
JUDGING = "judging"  # the name of the check of whether an evaluation goes on

# None only after the end, and `tell` takes it: programs that do arithmetic on ids of a running
# experiment need no branch for type checkers.
if TYPE_CHECKING:
    MaybeId = int | Any
    Ids = Sequence[int] | Any
else:
    MaybeId = int | None
    Ids = Sequence[int | None]


@dataclass(frozen=True)
class Assignment:
    """One option to try.

    Attributes:
        id: its number: 0, 1, 2, … in the order asked for; None where it is not of the experiment.
        arm: the option's row in the source; −1 for a winner that is not there.
        label: the option's name.
        probability: the probability that it was in its round; 1 under a fixed plan.
        phase: the phase it belongs to, whenever its outcome arrives.
        round: the number of its round: 0, 1, 2, … Those of one round were drawn together; without
            blocks, each is a round of its own.
        unit: the unit that it was asked for, or None.
        decision_point: that of the unit, or None.
        covariates: what was known of it before the draw, or None.
        experiment: whether it is part of the experiment. False once that is over: it is the option
            to use from then on, and nothing is recorded of it.
    """

    id: MaybeId
    arm: int
    label: str
    probability: float
    phase: int
    round: int
    unit: str | None = None
    decision_point: str | None = None
    covariates: Mapping[str, Any] | None = field(default=None, hash=False)
    experiment: bool = True


class Known(NamedTuple):
    """What is known of an assignment before its draw."""

    unit: str | None = None
    decision_point: str | None = None
    covariates: Mapping[str, Any] | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Batch(Sequence[Assignment]):
    """The assignments of one `ask`: an immutable sequence, empty while waiting.

    All are of one phase, but for those of units that had theirs before.

    Once the experiment is over, they are all of the option to use: see `Experiment.ask`.

    Attributes:
        ids: the ids of the assignments; None for each that is not of the experiment.
        arms: the source arm of each, read-only.
        probabilities: the probability of each arm to be in its round, read-only.
        rounds: the number of the round of each, read-only.
        labels: the name of each source arm of the problem, to be indexed by `arms`.
        phase: the phase that was open.
        waiting: when the batch is shorter than asked for because the phase is assigned in full,
            the number of outstanding outcomes; 0 otherwise. If the request is repeated, it is
            the number outstanding by then.
        state: of the experiment: `"running"`, `"paused"`, `"stopped"` or `"finished"`.
        phases: the phase of each, where units had theirs before; else None.
        known: the unit, decision point and covariates of each; None where there are none.
        experiment: whether they are part of the experiment: see `Assignment`.
    """

    ids: Ids
    arms: NDArray[np.int64]
    probabilities: Array
    rounds: NDArray[np.int64]
    labels: tuple[str, ...]
    phase: int
    waiting: int
    state: str = "running"
    phases: Sequence[int] | None = None
    known: Sequence[Known] | None = None
    experiment: bool = True

    @property
    def finished(self) -> bool:
        """Whether the experiment is over: there will be no more assignments of it."""
        return self.state in {"stopped", "finished"}

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> Assignment: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Assignment, ...]: ...
    def __getitem__(self, index: int | slice) -> Assignment | tuple[Assignment, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        arm, number = int(self.arms[index]), int(self.rounds[index])
        chance = float(self.probabilities[index])
        phase = self.phase if self.phases is None else self.phases[index]
        known = Known() if self.known is None else self.known[index]
        parts = self.ids[index], arm, self.labels[arm], chance, phase, number
        return Assignment(*parts, *known, self.experiment)

    def blocks(self) -> Iterator[tuple[Assignment, ...]]:
        """The assignments round by round, each in the random order in which to try its options."""
        for _, block in groupby(self, key=attrgetter("round")):
            yield tuple(block)

    def __str__(self) -> str:
        parts = []
        if self and not self.experiment:
            parts.append(f"{plural(len(self), 'assignment')} of {self[0].label!r} after the end")
        elif self:
            made = in_rounds(len(self), len(set(self.rounds.tolist())))
            parts.append(made if self.phases else f"{made} of phase {self.phase}")
            parts[0] += f" (ids {min(self.ids)} to {max(self.ids)})"
        if self.waiting:
            parts.append(f"waiting for {plural(self.waiting, 'outcome')} of phase {self.phase}")
        if self.state != "running":
            parts.append(self.state)
        return ", ".join(parts)

    def __repr__(self) -> str:
        return f"<Batch: {self}>"


@dataclass(frozen=True)
class Receipt:
    """The result of telling outcomes.

    Attributes:
        recorded: how many were recorded, late ones included.
        repeated: how many were on record already, with the same reward.
        late: how many of the recorded came after their assignment was lost, after the end of its
            window or of the experiment. They are kept and flagged, and no decision depends on them.
            Values of guardrails that come after their window are counted here too, and not kept.
        held: how many of the recorded count once their window ends, and may be corrected before.
        values: how many values of guardrails were recorded.
        served: how many were of assignments made after the end (`Assignment.experiment` is False),
            and are not recorded.
    """

    recorded: int
    repeated: int
    late: int
    held: int = 0
    values: int = 0
    served: int = 0

    def __str__(self) -> str:
        text = f"{plural(self.recorded, 'outcome')} recorded"
        if self.values:
            text = f"{plural(self.recorded, 'outcome')} and "
            text += f"{plural(self.values, 'guardrail value')} recorded"
        if self.repeated:
            text += f", {self.repeated} known before"
        if self.held:
            text += f"; {self.held} to be counted at the end of the window"
        if self.late:
            verb = "is" if self.late == 1 else "are"
            text += f"; {self.late} came too late to be used and {verb} flagged"
        if self.served:
            text += f"; {self.served} of assignments made after the end, not recorded"
        return text


@dataclass(frozen=True)
class Status:
    """The status of an experiment.

    Attributes:
        phase: the open phase, or the last one when finished.
        given: assignments of that phase.
        answered: how many of those have an outcome or are lost.
        outstanding: assignments without either, of all plans that still matter.
        remaining: assignments that the phase still needs.
        pulls: assignments of all phases together.
        rounds: the rounds they were made in: as many, unless they come in blocks.
        state: `"running"`, `"paused"`, `"stopped"` (by its owner) or `"finished"` (by the policy).
        lost: assignments of all phases whose outcome was given up.
        late: outcomes that came too late to be used.
        early: outstanding assignments whose outcome was told, and counts when its window ends.
        needs_lease: whether an outcome that is never told would hold up the decision for ever: the
            policy knows no worst reward to assume for it, and there is no lease or window.
        waits_for: the assignment whose outcome holds up the decision now, or None.
        waits_since: when it was asked for.
        variance_left: the variance of outcomes less their forecasts, as a share of that of outcomes
            alone, within options and phases; None without a forecaster or outcomes.
    """

    phase: int
    given: int
    answered: int
    outstanding: int
    remaining: int
    pulls: int
    rounds: int
    state: str = "running"
    lost: int = 0
    late: int = 0
    early: int = 0
    needs_lease: bool = False
    waits_for: int | None = field(default=None, compare=False)
    waits_since: float | None = field(default=None, compare=False)
    variance_left: float | None = field(default=None, compare=False)

    @property
    def finished(self) -> bool:
        """Whether the experiment is over: stopped by its owner or by the policy."""
        return self.state in {"stopped", "finished"}

    def __str__(self) -> str:
        made = in_rounds(self.pulls, self.rounds)
        lost = f"; {self.lost} lost" if self.lost else ""
        if saved := savings(self.variance_left):
            lost += f"; {saved}"
        if self.finished:
            return f"{self.state} with {made} in {plural(self.phase, 'phase')}{lost}"
        paused = "paused in " if self.state == "paused" else ""
        waits = held_up(self.waits_for, self.waits_since)
        early = f" ({self.early} told before the end of their window)" if self.early else ""
        return (
            f"{paused}phase {self.phase}: {self.answered} of {self.given + self.remaining} "
            f"answered, {self.outstanding} outstanding{early}, {self.remaining} to assign; "
            f"{made} in all{lost}{f'; {waits}' if waits else ''}"
        )


@dataclass(frozen=True)
class ExperimentListing:
    """An experiment of a database, as a list of them shows it.

    Attributes:
        name: its name.
        description: what it is about, in words.
        created: when it was created, in seconds since 1970.
        status: its status.
        revision: a text that changes whenever anything is recorded.
    """

    name: str
    description: str
    created: float
    status: Status
    revision: str


@dataclass(frozen=True)
class Check:
    """The result of one check of an experiment or a database.

    Attributes:
        name: what was checked, in a word.
        level: `"ok"`, `"warning"` or `"alarm"`.
        finding: the result, in a sentence.
        action: what to do about it; empty if nothing.
    """

    name: str
    level: str
    finding: str
    action: str = ""

    @property
    def told(self) -> str:
        """The finding, and what to do about it."""
        return f"{self.finding} {self.action}".rstrip()

    def __str__(self) -> str:
        return f"{self.level}: {self.name}: {self.told}"


class Checks(tuple[Check, ...]):
    """The results of all checks of an experiment or a database; printed, a table of them."""

    def __str__(self) -> str:
        width = max((len(check.name) for check in self), default=0)
        rows = (f"{_MARKS[check.level]:<7} {check.name:<{width}}  {check.told}" for check in self)
        return "\n".join(rows)

    def _repr_html_(self) -> str:
        columns = tuple(Column(name, align="l") for name in ("check", "level", "finding"))
        lines = (Line(each.name, (Entry(each.level), Entry(each.told))) for each in self)
        return TextTable(columns, tuple(lines)).to_html()


def worst(checks: Sequence[Check]) -> str:
    """The highest level among checks."""
    return max((check.level for check in checks), key=LEVELS.index, default="ok")


def shown_state(state: str, checks: Sequence[Check]) -> str:
    """The state of an experiment for people: "interrupted" where nobody goes on with an evaluation.

    It is still running as far as anybody may go on with it.
    """
    silent = any(check.name == JUDGING and check.level != "ok" for check in checks)
    return "interrupted" if silent and state == "running" else state


def held_up(number: int | None, since: float | None) -> str:
    """A clause on the outcome that holds up the decision; empty if none does."""
    if number is None or since is None:
        return ""
    return f"the decision waits for the outcome of assignment {number}, made {in_utc(since)}"


def in_utc(seconds: float) -> str:
    """A time as people read it.

    >>> in_utc(0)
    '1970-01-01 00:00 UTC'
    """
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def in_rounds(assignments: int, rounds: int) -> str:
    """A number of assignments, and of their rounds where these are fewer.

    >>> in_rounds(240, 120), in_rounds(1, 1)
    ('240 assignments in 120 rounds', '1 assignment')
    """
    made = plural(assignments, "assignment")
    return made if assignments == rounds else f"{made} in {plural(rounds, 'round')}"


def in_time(seconds: float) -> str:
    """A length of time in words.

    >>> in_time(1), in_time(7200), in_time(604_800)
    ('1 second', '2 hours', '7 days')
    """
    for unit, size in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * size:
            return f"{round(seconds / size, 1):g} {unit}"
    return "1 second" if seconds == 1 else f"{seconds:.3g} seconds"


def savings(variance_left: float | None) -> str:
    """What forecasts save, in words; empty if nothing is known of it.

    >>> savings(0.63)
    'forecasts take 37 % off the variance of outcomes'
    """
    if variance_left is None:
        return ""
    change = f"{abs(1 - variance_left):.0%}".replace("%", " %")
    if variance_left > 1:
        return f"forecasts add {change} to the variance of outcomes"
    return f"forecasts take {change} off the variance of outcomes"
