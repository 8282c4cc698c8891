"""Experiment: give out a policy's pulls one batch at a time, and take the outcomes as they come."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from threading import RLock
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from bestarm.checks import whole
from bestarm.errors import (
    ConflictingOutcomeError,
    InvalidInputError,
    UnknownAssignmentError,
)
from bestarm.geometry import Array
from bestarm.live.draws import choose, uniforms
from bestarm.policies.policy import Policy
from bestarm.problem import Problem
from bestarm.records import Plan, Recommendation, Summary, round_robin

__all__ = ["Assignment", "Batch", "Experiment", "Status"]

# Beyond this size the square of a reward, summed over a phase, could overflow, and a phase whose
# totals are not finite could never close.
_LARGEST_REWARD = 1e100

# One row an assignment, its id the row's number. A reward that is NaN has not been told yet, one
# that is infinite never will be.
_ROW = np.dtype([("phase", np.int32), ("arm", np.int32), ("probability", float), ("reward", float)])


@dataclass(frozen=True)
class Assignment:
    """One pull, given out once.

    Attributes:
        id: its number: 0, 1, 2, … in the order given out.
        arm: the index of the source arm to pull.
        label: that arm's name.
        probability: the probability with which the arm was drawn; 1 under a fixed plan.
        phase: the phase it belongs to, whenever its outcome arrives.
    """

    id: int
    arm: int
    label: str
    probability: float
    phase: int


@dataclass(frozen=True, eq=False, repr=False)
class Batch(Sequence[Assignment]):
    """The assignments of one `ask`, all of one phase: an immutable sequence, empty while waiting.

    Attributes:
        ids: the ids of the assignments.
        arms: the source arm of each, read-only.
        probabilities: the probability of each arm when it was drawn, read-only.
        labels: the name of each source arm of the problem, to be indexed by `arms`.
        phase: the phase that was open.
        waiting: when the batch is shorter than asked for because the phase is fully given out,
            the number of its outcomes still to come; 0 otherwise.
        finished: whether the experiment is over, so that nothing more will be given out.
    """

    ids: range
    arms: NDArray[np.int64]
    probabilities: Array
    labels: tuple[str, ...]
    phase: int
    waiting: int
    finished: bool

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> Assignment: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Assignment, ...]: ...
    def __getitem__(self, index: int | slice) -> Assignment | tuple[Assignment, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        arm = int(self.arms[index])
        return Assignment(
            self.ids[index], arm, self.labels[arm], float(self.probabilities[index]), self.phase
        )

    def __str__(self) -> str:
        parts = []
        if self:
            parts.append(f"{_plural(len(self), 'assignment')} of phase {self.phase}")
            parts[0] += f" (ids {self.ids[0]} to {self.ids[-1]})"
        if self.waiting:
            parts.append(f"waiting for {_plural(self.waiting, 'outcome')} of phase {self.phase}")
        if self.finished:
            parts.append("finished")
        return ", ".join(parts)

    def __repr__(self) -> str:
        return f"<Batch: {self}>"


@dataclass(frozen=True)
class Status:
    """Where an experiment stands.

    Attributes:
        phase: the open phase, or the last one when finished.
        given: assignments of that phase given out.
        answered: how many of those have their outcome.
        outstanding: how many have not, of all given out under plans that matter still.
        remaining: assignments of that phase still to give out.
        pulls: assignments given out in all phases together.
        finished: whether the policy has stopped.
    """

    phase: int
    given: int
    answered: int
    outstanding: int
    remaining: int
    pulls: int
    finished: bool

    def __str__(self) -> str:
        if self.finished:
            return f"finished after {_plural(self.pulls, 'pull')} in {_plural(self.phase, 'phase')}"
        return (
            f"phase {self.phase}: {self.answered} of {self.given + self.remaining} answered, "
            f"{self.outstanding} outstanding, {self.remaining} to give out; "
            f"{_plural(self.pulls, 'pull')} in all"
        )


class Experiment:
    """Ask for assignments, carry them out, tell their outcomes: in any order, any number at a time.

    The arm of an assignment is drawn when it is given out, after the plan is fixed, and is never
    drawn again: that is what makes the method valid under a moving baseline. A phase closes when
    every one of its own assignments is answered. Neither the order in which outcomes arrive nor
    the sizes of the batches asked for change any later plan or the recommendation by a single bit.

    A plan that is open never makes anybody wait: while its last outcomes are awaited, further
    assignments are drawn under it. It closes as soon as its share is answered without a gap, with
    all that follows without a gap; what was given out beyond counts once it is answered too. How
    many those are, and with them later plans, then depends on when outcomes arrive.

        experiment = Experiment(policy, seed=7)
        while not experiment.finished:
            for assignment in experiment.ask(100):
                experiment.tell(assignment.id, measure(assignment.label))
        print(experiment.recommendation())

    Should the policy fail while a phase closes, its exception passes through `tell` and every
    outcome told is kept: the next `ask`, or telling any outcome again, tries once more.

    Everything is held in memory, and any number of threads may ask and tell.

    Args:
        policy: a policy that has not been given any outcome yet.
        seed: fixes the draws; `bestarm.live.draw` recomputes each from the seed and its id.
    """

    def __init__(self, policy: Policy, *, seed: int = 0) -> None:
        if isinstance(policy, type) or not isinstance(policy, Policy):
            raise InvalidInputError(
                f"`policy` must be a policy made for a problem; got {policy!r}.",
                field="policy",
                value=policy,
                remedy="Make one first, for example `SPBAI(problem)`.",
            )
        self._policy = policy
        self._seed = whole(seed, "seed", least=0)
        self._lock = RLock()
        self._rows = np.empty(0, dtype=_ROW)
        self._given = 0  # rows in use
        self._plan: Plan | None = None  # the open plan; None between phases and at the end
        self._order: NDArray[np.int64] | None = None  # the arms of an open fixed plan, in turn
        self._phase = 0
        self._first = 0  # the id of the phase's first assignment
        self._handed = 0  # assignments whose outcomes the policy has
        self._answered = 0  # assignments of the phase that are settled: told or given up
        self._behind = 0  # assignments of the phase before that are not
        self._finished = False
        self._advance()
        if self._phase > 1:
            raise InvalidInputError(
                f"`policy` is already in phase {self._phase}.",
                field="policy",
                value=policy,
                remedy="Start from a fresh policy: numbers drawn before must not be used again.",
            )

    @property
    def problem(self) -> Problem:
        """The problem the policy was made for."""
        return self._policy.problem

    @property
    def seed(self) -> int:
        """The seed of the draws."""
        return self._seed

    @property
    def phase(self) -> int:
        """The open phase, or the last one when finished."""
        return self._phase

    @property
    def finished(self) -> bool:
        """Whether the policy has stopped: nothing more will be given out."""
        return self._finished

    def ask(self, count: int = 1) -> Batch:
        """Give out up to `count` assignments of the open phase; fewer where its plan ends."""
        count = whole(count, "count", least=1)
        with self._lock:
            self._advance()
            start, size = self._given, min(count, self._available(count))
            arms, probabilities = self._choose(start, size)
            self._record(arms, probabilities)
            return Batch(
                ids=range(start, start + size),
                arms=arms,
                probabilities=probabilities,
                labels=self.problem.source_labels,
                phase=self._phase,
                waiting=self._outstanding() if size < count else 0,
                finished=self._finished,
            )

    def tell(self, id: int, reward: float) -> None:  # noqa: A002  (the field's name)
        """Record the outcome of one assignment. Telling the same outcome again is harmless.

        Raises:
            UnknownAssignmentError: the id was never given out.
            ConflictingOutcomeError: another reward was told for it before.
            InvalidInputError: the reward is not a finite number, or outside the policy's bounds.
        """
        self.tell_many([(id, reward)])

    def tell_many(self, outcomes: Mapping[int, float] | Iterable[tuple[int, float]]) -> None:
        """Record outcomes, as a mapping from id to reward or as pairs: all of them or, on an error,
        none.

        Raises what `tell` raises.
        """
        pairs = _pairs(outcomes)
        with self._lock:
            rewards = self._rows["reward"]
            fresh: dict[int, float] = {}
            for number, reward in pairs:
                self._check_known(number)
                told = fresh.get(number, float(rewards[number]))
                if math.isnan(told):
                    fresh[number] = self._within_bounds(reward)
                elif told != reward:
                    before = "given up" if math.isinf(told) else f"told {told:g}"
                    raise ConflictingOutcomeError(
                        f"Assignment {number} was already {before}, now {reward:g}.",
                        field="reward",
                        value=reward,
                        remedy="Outcomes cannot be changed: the plans after them rest on them.",
                    )
            self._settle(fresh)

    def give_up(self, ids: Iterable[int]) -> None:
        """Record that the outcomes of these assignments will never come: all of them or, on an
        error, none.

        What that means is up to the policy. Only one whose plans are open can do without outcomes.

        Raises:
            UnknownAssignmentError: an id was never given out.
            ConflictingOutcomeError: an outcome was told for it before.
            InvalidInputError: the policy needs every outcome.
        """
        numbers = [whole(number, "id") for number in ids]
        with self._lock:
            if self._plan is not None and not self._plan.open:
                raise InvalidInputError(
                    "The policy needs every one of the outcomes.",
                    field="id",
                    value=numbers,
                    remedy="Take a policy with open plans, such as AnytimeBAI.",
                )
            for number in numbers:
                self._check_known(number)
                told = float(self._rows["reward"][number])
                if math.isfinite(told):
                    raise ConflictingOutcomeError(
                        f"Assignment {number} was already told {told:g}, now given up.",
                        field="id",
                        value=number,
                        remedy="Outcomes cannot be changed: the plans after them rest on them.",
                    )
            lost = {n for n in numbers if math.isnan(self._rows["reward"][n])}
            self._settle(dict.fromkeys(lost, math.inf))

    def _settle(self, fresh: dict[int, float]) -> None:
        self._rows["reward"][list(fresh)] = list(fresh.values())
        behind = sum(number < self._first for number in fresh)
        self._behind -= behind
        self._answered += len(fresh) - behind
        self._advance()

    def _within_bounds(self, reward: float) -> float:
        bounds = getattr(self._policy, "bounds", None)
        if bounds is not None and not bounds[0] <= reward <= bounds[1]:
            raise InvalidInputError(
                f"`reward` must lie between {bounds[0]:g} and {bounds[1]:g}; got {reward:g}.",
                field="reward",
                value=reward,
                remedy="The policy's guarantee rests on the bounds that it was made with.",
            )
        return reward

    def recommendation(self) -> Recommendation:
        """The target the policy would name now, from the phases closed so far."""
        with self._lock:
            return self._policy.recommend()

    def status(self) -> Status:
        """Where the experiment stands."""
        with self._lock:
            return Status(
                phase=self._phase,
                given=self._given - self._first,
                answered=self._answered,
                outstanding=self._outstanding(),
                remaining=self._remaining(),
                pulls=self._given,
                finished=self._finished,
            )

    def assignments(self) -> list[Assignment]:
        """Every assignment given out, by id."""
        labels = self.problem.source_labels
        with self._lock:
            return [
                Assignment(number, arm, labels[arm], probability, phase)
                for number, (phase, arm, probability, _) in enumerate(
                    self._rows[: self._given].tolist()
                )
            ]

    def outcomes(self) -> dict[int, float]:
        """Every outcome told, by id; `tell_many` takes it as it is."""
        with self._lock:
            rewards = self._rows["reward"][: self._given]
            answered = np.flatnonzero(np.isfinite(rewards))
            return dict(zip(answered.tolist(), rewards[answered].tolist(), strict=True))

    def __repr__(self) -> str:
        return f"<Experiment, seed {self._seed}: {self.status()}>"

    def _outstanding(self) -> int:
        return self._given - self._first - self._answered + self._behind

    def _remaining(self) -> int:
        return 0 if self._plan is None else max(0, self._plan.pulls - (self._given - self._first))

    def _available(self, count: int) -> int:
        """How many of so many assignments the plan allows to give out now."""
        plan = self._plan
        if plan is None or not plan.open:
            return self._remaining()
        return count if plan.most is None else max(0, plan.most - (self._given - self._first))

    def _choose(self, start: int, size: int) -> tuple[NDArray[np.int64], Array]:
        """The arms of the next `size` assignments, with their probabilities; both read-only."""
        if self._plan is None or self._plan.weights is None:
            order = np.empty(0, dtype=np.int64) if self._order is None else self._order
            arms = order[start - self._first :][:size].copy()
            probabilities = np.ones(size)
        else:
            weights = self._plan.weights
            arms = choose(weights, uniforms(self._seed, start=start, count=size))
            probabilities = weights[arms]
        arms.flags.writeable = False
        probabilities.flags.writeable = False
        return arms, probabilities

    def _record(self, arms: NDArray[np.int64], probabilities: Array) -> None:
        end = self._given + len(arms)
        if end > len(self._rows):
            grown = np.empty(max(end, 2 * len(self._rows)), dtype=_ROW)
            grown[: self._given] = self._rows[: self._given]
            self._rows = grown
        rows = self._rows[self._given : end]
        rows["phase"], rows["arm"] = self._phase, arms
        rows["probability"], rows["reward"] = probabilities, math.nan
        self._given = end

    def _advance(self) -> None:
        """Hand over what is answered without a gap; close the phase and open the next when due.

        Each step is recorded before the next begins, so that after a failure of the policy the
        same call resumes there: no summary is handed over twice.
        """
        if self._handed < self._first and not self._behind and not self._finished:
            self._hand_over(self._first, late=True)
            if self._policy.plan() is None:
                self._finished, self._plan = True, None
        if self._plan is not None and not self._behind and self._answered >= self._plan.pulls:
            end = self._gapless()
            if end - self._first >= self._plan.pulls:
                self._hand_over(end)
                self._plan = None
        if self._plan is None and not self._finished:
            plan = self._policy.plan()
            if plan is None:
                self._finished = True
                return
            self._order = None if plan.counts is None else round_robin(plan.counts)
            self._behind = self._given - self._first - self._answered
            self._phase, self._first, self._answered = plan.phase, self._given, 0
            self._plan = plan

    def _gapless(self) -> int:
        """The id of the first assignment that is not settled."""
        rewards = self._rows["reward"]
        end = max(self._handed, self._first)
        while end < self._given and not math.isnan(rewards[end]):
            end += 1
        return end

    def _hand_over(self, end: int, *, late: bool = False) -> None:
        """Tell the policy the outcomes up to an id; late if they were drawn under the plan before.

        In order of id: floating-point sums would otherwise depend on the order of arrival.
        """
        rows = self._rows[self._handed : end]
        lost = np.isinf(rows["reward"])
        arms = self.problem.arms
        summary = Summary.from_pulls(rows["arm"][~lost], rows["reward"][~lost], size=arms)
        if lost.any():
            missing = np.bincount(rows["arm"][lost], minlength=arms)
            summary = replace(summary, missing=missing)
        if late:
            self._policy.update(summary, late=True)  # type: ignore[call-arg]
        else:
            self._policy.update(summary)
        self._handed = end

    def _check_known(self, number: int) -> None:
        if 0 <= number < self._given:
            return
        last = f"the last id is {self._given - 1}" if self._given else "there is none yet"
        raise UnknownAssignmentError(
            f"Assignment {number} was never given out; {last}.",
            field="id",
            value=number,
            remedy="Tell outcomes under the ids that `ask` returned.",
        )


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _reward(value: object) -> float:
    try:
        number = float(value) if isinstance(value, Real) else math.nan
    except OverflowError:
        number = math.inf
    # The comparison is false for NaN as well. True and False are numbers to Python, not to us.
    if isinstance(value, bool) or not abs(number) <= _LARGEST_REWARD:
        raise InvalidInputError(
            f"`reward` must be a finite number of size at most {_LARGEST_REWARD:g}; got {value!r}.",
            field="reward",
            value=value,
            remedy="Tell nothing until the outcome is known.",
        )
    return number


def _pairs(outcomes: object) -> list[tuple[int, float]]:
    """Read and check outcomes to the end, before anything is touched."""
    items: object = outcomes.items() if isinstance(outcomes, Mapping) else outcomes
    entries: Iterable[Any] = items if isinstance(items, Iterable) else [items]
    pairs = []
    for item in entries:
        try:
            number, reward = item
        except (TypeError, ValueError):
            raise InvalidInputError(
                f"`outcomes` must be a mapping from id to reward, or pairs of them; got {item!r}.",
                field="outcomes",
                value=item,
                remedy="For example {0: 1.5, 1: 0.2} or zip(ids, rewards).",
            ) from None
        if isinstance(number, np.floating) and number.is_integer():
            number = int(number)  # a row of a table of ids and rewards
        pairs.append((whole(number, "id"), _reward(reward)))
    return pairs
