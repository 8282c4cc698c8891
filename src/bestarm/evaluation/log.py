"""The stored experiment of an evaluation, and what came of it."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bestarm.errors import InvalidInputError, UnknownExperimentError
from bestarm.evaluation.inputs import Limits, Question, cost_of
from bestarm.live import Experiment
from bestarm.live.inputs import connected
from bestarm.live.store.contract import Rows
from bestarm.problem import Problem
from bestarm.recommendation import Recommendation
from bestarm.units import plural

if TYPE_CHECKING:
    from bestarm.live.store.sql import Store


JUDGE_CHANGED = "The judge's file has changed since the first scores were recorded"
_FRESH = "To judge everything anew, use `fresh=True` (`--fresh`)."


@dataclass(frozen=True)
class Score:
    """What an option was given.

    Attributes:
        label: the option's name.
        judged: on how many items it was judged.
        mean: its mean score on these; None if there are none. Options that dropped out were judged
            on fewer items than others.
        possible: whether it may still be the best, or is as good as the best.
    """

    label: str
    judged: int
    mean: float | None
    possible: bool


@dataclass(frozen=True)
class Evaluation:
    """What came of an evaluation. Printed, it says so in words.

    Attributes:
        name: of the experiment in the store.
        store: the URL of the store, without a password.
        state: of the experiment: `"finished"`, `"running"` if it can go on, or `"paused"` or
            `"stopped"` by hand.
        recommendation: the option to choose, and what is proven about it.
        scores: what each option was given, in the order of the options.
        judgements: how many pairs of an option and an item were judged, by earlier runs too.
        judged_now: how many of them this run judged: 0 if the evaluation had finished earlier.
        unjudged: how many of them could not be judged, and have the score `on_failure`.
        judge_changed: whether some scores were recorded when the judge's file was another.
        all_judgements: how many pairs there are.
        failures: calls of the judge in this run that failed, without the last one of each pair
            that has the score `on_failure`.
        lost: calls, also of earlier runs, in flight when their process was killed or left them.
        price: the price of a call.
        max_cost: the cost that was not to be exceeded, or None.
        capped: whether it stopped because one more call would have exceeded that.
        seconds: how long this run took.
    """

    name: str
    store: str
    state: str
    recommendation: Recommendation
    scores: tuple[Score, ...]
    judgements: int
    judged_now: int
    unjudged: int
    judge_changed: bool
    all_judgements: int
    failures: int
    lost: int
    price: float
    max_cost: float | None
    capped: bool
    seconds: float

    @property
    def cost(self) -> float:
        """The price of all judgements, of the calls of this run that failed, and of lost calls."""
        return cost_of(self.judgements + self.failures + self.lost, self.price)

    @property
    def saved(self) -> float:
        """The share of all pairs that need not be judged; 0 as long as nothing is decided."""
        return self.saved_judgements / self.all_judgements

    @property
    def saved_cost(self) -> float:
        """What judging the other pairs would cost."""
        return cost_of(self.saved_judgements, self.price)

    @property
    def saved_judgements(self) -> int:
        """How many pairs need not be judged; 0 as long as nothing is decided."""
        return self.all_judgements - self.judgements if self.recommendation.final else 0

    def __str__(self) -> str:
        statement = self.recommendation.statement
        if self.state == "finished" and not self.judged_now:
            statement = f"Finished earlier: nothing was judged. {_FRESH}\n{statement}"
        return "\n".join([statement, "", *self._table(), "", *self._figures()])

    def _table(self) -> Iterator[str]:
        width = max(len("option"), *(len(score.label) for score in self.scores))
        yield f"{'option':<{width}}  mean score  judged"
        best, tied = self.recommendation.target, self.recommendation.tied
        for place, score in enumerate(self.scores):
            mean = "–" if score.mean is None else f"{score.mean:.4g}"
            note = "" if score.possible else "  out"
            if place == best and self.judgements:
                note = "  best" if self.recommendation.final else "  leads"
            if place in tied:
                note = "  ties"
            yield f"{score.label:<{width}}  {mean:>10}  {score.judged:>6,}{note}"

    def _figures(self) -> Iterator[str]:
        share = _percent(self.judgements / self.all_judgements)
        costs = f", which cost {self.cost:,.6g}" if self.price != 1 else ""
        yield f"{self.judgements:,} of {plural(self.all_judgements, 'judgement')} ({share}){costs}."
        if self.judge_changed:
            yield f"{JUDGE_CHANGED}."
        if self.unjudged:
            pairs = plural(self.unjudged, "pair")
            yield f"{pairs} could not be judged, and counted with the score given for that case."
        if self.lost:
            calls = "1 call was" if self.lost == 1 else f"{self.lost:,} calls were"
            yield f"{calls} in flight when the evaluation was killed or left; they count as paid."
        if self.recommendation.final and self.saved_judgements:
            worth = f", and {self.saved_cost:,.6g} of the cost" if self.price != 1 else ""
            saved = _percent(self.saved)
            yield f"Saved: {plural(self.saved_judgements, 'judgement')} ({saved}){worth}."
        elif self.capped:
            yield (
                f"Stopped at the cost cap of {self.max_cost:g}. All judgements are kept: to "
                "continue, start the same evaluation with a larger cap."
            )
        elif self.state in ("paused", "stopped"):
            yield f"It was {self.state} by hand. All judgements are kept."


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")


class Pair(NamedTuple):
    """An option to judge on an item, by their places; `id` is that of the assignment."""

    id: int
    option: int
    item: int


def _assignments(experiment: Experiment) -> Rows:
    with experiment.read() as snapshot:
        return snapshot.rows_of(np.arange(snapshot.head.assigned))


def _notes(experiment: Experiment) -> list[dict[str, Any]]:
    return [each.data for each in experiment.events() if each.kind == "noted"]


class JudgementLog:
    """Asks the stored experiment of a question for pairs, and tells it their scores.

    Args:
        experiment: the stored experiment.
        question: what it is about.
        judge: a fingerprint of the judge's file, or None if there is none.

    Attributes:
        question: what it is about.
        judge_changed: whether the judge's file was another in an earlier run.
        unjudged: how many pairs could not be judged.
        judged: how many pairs were judged, by earlier runs too.
        lost: how many further calls earlier runs have made, or may have: those that were in flight
            when a process was killed, or left them. The log of the experiment has it, so that they
            count towards a cap however often a run is killed.
        remaining: how many options are judged on the next item.
        finished: whether no more pairs will be asked for.
    """

    def __init__(self, experiment: Experiment, question: Question, judge: int | None) -> None:
        self._experiment, self.question, self._judge = experiment, question, judge
        self._order = question.order(experiment.seed).tolist()
        rows = _assignments(experiment)
        told, lost = ~np.isnan(rows["reward"]), ~np.isnan(rows["lost"])
        self.judged = self._judged_before = int((told & ~lost).sum())
        self._rounds = int(rows["round"].max(initial=-1)) + 1
        self.remaining = int((rows["round"] == self._rounds - 1).sum()) or len(question.options)
        self.finished = experiment.finished
        pending = rows[["id", "arm", "round"]][~told & ~lost].tolist()
        self.pending = [Pair(number, arm, self._order[turn]) for number, arm, turn in pending]
        self._outstanding = len(self.pending)
        notes = _notes(experiment)
        judges = {data["judge"] for data in notes if "judge" in data}
        self.judge_changed = judge is not None and not judges <= {judge}
        self.unjudged = sum(data.get("unjudged", 0) for data in notes)
        last: dict[str, Any] = ([{}] + [data for data in notes if "in_flight" in data])[-1]
        self.lost = last.get("lost", 0) + min(last.get("in_flight", 0), self._outstanding)

    def note_start(self, concurrency: int) -> None:
        """Record that so many calls may be in flight from now on, before any is made."""
        text = f"Judging began, with {plural(concurrency, 'call')} at a time."
        judge = {} if self._judge is None else {"judge": self._judge}
        self._experiment.note(text, in_flight=concurrency, lost=self.lost, **judge)

    def note_end(self, in_flight: int) -> None:
        """Record that no more calls are made; those in flight are not waited for."""
        self.lost += in_flight
        if not self.finished:
            self._experiment.note("Judging ended for now.", in_flight=0, lost=self.lost)

    @property
    def max_judgements(self) -> int:
        """How many pairs will have been judged if no further option drops out."""
        if self.finished:
            return self.judged
        further = self.remaining * (len(self.question.items) - self._rounds)
        return self.judged + self._outstanding + further

    def ask(self) -> list[Pair]:
        """The pairs of the next item; none if the experiment is over or paused."""
        if self._rounds == len(self.question.items):
            return []
        # Items are numbered from 1, as in files of them.
        batch = self._experiment.ask(unit=self._order[self._rounds] + 1)
        self.finished = batch.finished
        if not batch.experiment:
            return []
        if batch:
            self._rounds, self.remaining = self._rounds + 1, len(batch)
            self._outstanding += len(batch)
        return [Pair(each.id, each.arm, self._order[each.round]) for each in batch]

    def tell(self, scores: Mapping[int, float], *, unjudged: int = 0) -> None:
        """Record scores, by the ids of pairs; so many of these pairs could not be judged."""
        if unjudged:
            pairs = plural(unjudged, "pair")
            self._experiment.note(f"No score came of {pairs}.", unjudged=unjudged)
            self.unjudged += unjudged
        self._experiment.tell_many(scores)
        self.judged += len(scores)
        self._outstanding -= len(scores)
        self.finished = self._experiment.finished

    def result(self, limits: Limits, *, failures: int, capped: bool, seconds: float) -> Evaluation:
        """What came of a run."""
        recommendation, state = self._experiment.recommendation(), self._experiment.state
        return Evaluation(
            name=self._experiment.name,
            store=str(self._experiment.place),
            state=state,
            recommendation=recommendation,
            scores=self._scores(recommendation),
            judgements=self.judged,
            judged_now=self.judged - self._judged_before,
            unjudged=self.unjudged,
            judge_changed=self.judge_changed,
            all_judgements=self.question.pairs,
            failures=failures,
            lost=self.lost,
            price=limits.price,
            max_cost=limits.max_cost,
            capped=capped and state == "running",
            seconds=seconds,
        )

    def _scores(self, recommendation: Recommendation) -> tuple[Score, ...]:
        rows, options = _assignments(self._experiment), len(self.question.options)
        told = rows[~np.isnan(rows["reward"])]
        counts = np.bincount(told["arm"], minlength=options).tolist()
        sums = np.bincount(told["arm"], told["reward"], minlength=options).tolist()
        return tuple(
            Score(label, judged, total / judged if judged else None, place in recommendation.active)
            for place, (label, judged, total) in enumerate(
                zip(self.question.labels, counts, sums, strict=True)
            )
        )


@contextmanager
def open_log(
    url: str | Store,
    name: str,
    question: Question,
    *,
    delta: float,
    bounds: tuple[float, float],
    seed: int | None,
    judge: int | None,
    fresh: bool,
) -> Iterator[JudgementLog]:
    """Create the experiment of an evaluation, or open it to resume it; no other process may.

    `judge` is a fingerprint of the judge's file; if `fresh`, a new experiment takes the place of
    what was judged under this name.

    Raises:
        InvalidInputError: another process has it open, or it is of something else.
    """
    problem = Problem(question.labels, delta=delta)
    options = {"bounds": list(bounds), "block": problem.arms, "items": len(question.items)}
    with connected(url) as (store, _):

        def open_or_create(name: str) -> Experiment:
            try:
                return Experiment.open(store, name)
            except UnknownExperimentError:
                return Experiment.create(
                    store,
                    name,
                    problem,
                    policy_options=options,
                    seed=seed,
                    description=f"Which of {problem.arms} options is best on "
                    f"{plural(len(question.items), 'item')}? Each option that is left is judged on "
                    "each item drawn.",
                )

        experiment = open_or_create(name)
        current = _current_name(store, experiment, fresh=fresh)
        if current != experiment.name:
            experiment = open_or_create(current)
        with closing(experiment), store.try_lock(f"evaluation {experiment.name}") as acquired:
            if not acquired:
                raise InvalidInputError(
                    f"Another process runs the evaluation {experiment.name!r} now.",
                    field="name",
                    value=experiment.name,
                    remedy="Wait for it, or give another name.",
                )
            _check(experiment, problem, options, question, seed)
            yield JudgementLog(experiment, question, judge)


def _current_name(store: Store, first: Experiment, *, fresh: bool) -> str:
    """The name of the experiment that has the scores of an evaluation.

    It is that of the first one, until the evaluation is started anew: the log of the first one then
    has the number of the last one, `judge-2` say.
    """
    notes = _notes(first)
    number = max((data["evaluation"] for data in notes if "evaluation" in data), default=1)
    if fresh and any("items" in data for data in notes):
        taken = {each.name for each in Experiment.list(store, archived=True)}
        number = next(n for n in count(number + 1) if f"{first.name}-{n}" not in taken)
        first.note(f"Started anew as {first.name}-{number}.", evaluation=number)
    return first.name if number == 1 else f"{first.name}-{number}"


def _check(
    experiment: Experiment,
    problem: Problem,
    options: Mapping[str, object],
    question: Question,
    seed: int | None,
) -> None:
    """Raise unless an experiment is of this question, in every letter, and of these settings."""
    spec = experiment.stored_spec("resumed")
    compared: list[tuple[str, object, object]] = [
        ("options", list(spec.problem.source_labels), question.labels),
        ("delta", spec.problem.delta, problem.delta),
        ("bounds", spec.options.get("bounds"), options["bounds"]),
        ("seed", experiment.seed, experiment.seed if seed is None else seed),
        ("items", spec.options.get("items"), options["items"]),
    ]
    now = {field: question.fingerprint(field) for field in ("options", "items")}
    before = next((each for each in _notes(experiment) if now.keys() <= each.keys()), None)
    if before is not None:
        compared += [(each, f"text {before[each]}", f"text {now[each]}") for each in now]
    for field, then, given in compared:
        if then != given:
            raise InvalidInputError(
                f"The experiment {experiment.name!r} was created with different `{field}` "
                f"({reprlib.repr(then)}, not {reprlib.repr(given)}).",
                field=field,
                value=given,
                remedy=f"To resume it, give the same `{field}`; for another evaluation, give "
                "another name, or start anew with `fresh=True` (`--fresh`).",
            )
    if before is None:  # before its first pair: it was created just now, or killed just then
        experiment.note("The fingerprints of options and items are kept, to compare.", **now)
