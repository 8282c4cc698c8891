"""The stored experiment of an evaluation: what is judged next, and what is on record."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from fractions import Fraction
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from bestarm.bounds import control_shares
from bestarm.errors import InvalidInputError, UnknownExperimentError
from bestarm.evaluation.evidence import bound_mean
from bestarm.evaluation.gate import Gate, Verdict
from bestarm.evaluation.inputs import Limits, Question
from bestarm.evaluation.preferences import Outcome, Preferences
from bestarm.evaluation.result import Difference, Evaluation, Lead, Score
from bestarm.live import Experiment
from bestarm.live.store.database import connected
from bestarm.live.store.rows import Rows
from bestarm.numerics.geometry import Array
from bestarm.problem import Problem
from bestarm.recommendation import Recommendation
from bestarm.units import plural

if TYPE_CHECKING:
    from bestarm.live.store import Store

GATE = "bestarm.evaluation.gate:Gate"
PREFERENCES = "bestarm.evaluation.preferences:Preferences"

T = TypeVar("T")


class Pair(NamedTuple):
    """An option to judge on an item, by their places; `id` is that of the assignment.

    Where options are compared, `option` is shown first and `second` second.
    """

    id: int
    option: int
    item: int
    second: int | None = None


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
        judged_before: on how many items earlier runs judged each option.
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
        judged_arms = rows["arm"][told & ~lost]
        self.judged_before = np.bincount(judged_arms, minlength=len(question.options)).tolist()
        self._rounds = int(rows["round"].max(initial=-1)) + 1
        self.remaining = int((rows["round"] == self._rounds - 1).sum()) or len(question.options)
        self.finished = experiment.finished
        pending = rows[["id", "arm", "round", "phase"]][~told & ~lost].tolist()
        self.pending = [self._pair(*each) for each in pending]
        self._outstanding = len(self.pending)
        notes = _notes(experiment)
        judges = {data["judge"] for data in notes if "judge" in data}
        self.judge_changed = judge is not None and not judges <= {judge}
        self.unjudged = sum(data.get("unjudged", 0) for data in notes)
        last: dict[str, Any] = ([{}] + [data for data in notes if "in_flight" in data])[-1]
        self.lost = last.get("lost", 0) + min(last.get("in_flight", 0), self._outstanding)

    def _pair(self, number: int, arm: int, turn: int, phase: int) -> Pair:
        if not self.question.compare:
            return Pair(number, arm, self._order[turn])
        item = self.question.drawn_item(self._experiment.seed, turn)
        one, other = self._preferences(lambda policy: policy.pairs[phase - 1])
        return Pair(number, arm, item, other if arm == one else one)

    def _preferences(self, read: Callable[[Preferences], T]) -> T:
        def inspect(policy: object, _: object) -> T:
            assert isinstance(policy, Preferences)
            return read(policy)

        return self._experiment.inspect(inspect)

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
        if self.question.compare:
            return self.question.pairs
        further = self.remaining * (len(self.question.items) - self._rounds)
        return self.judged + self._outstanding + further

    def ask(self) -> list[Pair]:
        """The pairs of the next item; none if the experiment is over or paused."""
        if self.question.compare:
            item = self.question.drawn_item(self._experiment.seed, self._rounds)
            # An item may be drawn again: it is another decision then.
            batch = self._experiment.ask(
                unit=self.question.ids[item], decision_point=self._rounds + 1
            )
        elif self._rounds == len(self.question.items):
            return []
        else:
            batch = self._experiment.ask(unit=self.question.ids[self._order[self._rounds]])
        self.finished = batch.finished
        if not batch.experiment:
            return []
        if batch:
            self._rounds, self.remaining = self._rounds + 1, len(batch)
            self._outstanding += len(batch)
        return [self._pair(each.id, each.arm, each.round, each.phase) for each in batch]

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

    def result(
        self,
        limits: Limits,
        *,
        failures: int,
        failed_cost: Fraction,
        answers: Mapping[tuple[int, int], Any],
        capped: bool,
        seconds: float,
    ) -> Evaluation:
        """What came of a run.

        Args:
            limits: what it was not to exceed.
            failures: calls of this run that failed, and are not the last one of an unjudged pair.
            failed_cost: what they cost.
            answers: what the judge returned besides a score, by option and item.
            capped: whether a call was not made because of its cost.
            seconds: how long it took.
        """
        recommendation, state = self._experiment.recommendation(), self._experiment.state
        question, verdicts = self.question, self._verdicts()
        wins: tuple[tuple[int, ...], ...] = ()
        differences: tuple[Difference, ...] = ()
        outcome: Outcome | None = None
        best: tuple[str, str] | None = None
        cost, price = failed_cost + self.lost * max(limits.prices), limits.prices[0]
        if question.compare:
            wins, scores = self._wins()
            outcome = self._preferences(lambda policy: policy.outcome)
            cost, saved = cost + price * self.judged, price * (question.pairs - self.judged)
        else:
            table = self._table()
            scores = self._scores(recommendation, table, verdicts)
            priced = list(zip(limits.prices, scores, strict=True))
            cost += sum(price * score.judged for price, score in priced)
            items = len(question.items)
            saved = sum((price * (items - score.judged) for price, score in priced), Fraction(0))
            two = self._two_best(scores, recommendation, verdicts)
            best = question.labels[two[0]], question.labels[two[1]]
            differences = self._differences(table, two, answers)
        return Evaluation(
            name=self._experiment.name,
            store=str(self._experiment.place),
            state=state,
            recommendation=recommendation,
            scores=scores,
            judgements=self.judged,
            judged_now=self.judged - self._judged_before,
            unjudged=self.unjudged,
            judge_changed=self.judge_changed,
            all_judgements=question.pairs,
            failures=failures,
            lost=self.lost,
            cost=float(cost),
            saved_cost=float(saved) if recommendation.final or outcome == "cycle" else 0.0,
            max_cost=limits.max_cost,
            capped=capped and state == "running",
            seconds=seconds,
            priced=any(price != 1 for price in limits.prices),
            control=question.control,
            tolerance=question.tolerance,
            verdicts=verdicts,
            two_best=best,
            differences=differences,
            outcome=outcome,
            wins=wins,
        )

    def _wins(self) -> tuple[tuple[tuple[int, ...], ...], tuple[Score, ...]]:
        """How often each option was preferred to each other one, and the share of wins of each."""
        count, pairs = len(self.question.options), self._preferences(lambda policy: policy.pairs)
        wins, judged = np.zeros((2, count, count), dtype=np.int64)
        rows = _told(_assignments(self._experiment))
        for arm, phase, reward in rows[["arm", "phase", "reward"]].tolist():
            one, other = pairs[phase - 1]
            second = other if arm == one else one
            judged[[arm, second], [second, arm]] += 1
            if reward:
                wins[(arm, second) if reward > 0 else (second, arm)] += 1
        beaten = self._preferences(lambda policy: policy.beaten)
        totals, scores = judged.sum(axis=1).tolist(), []
        for place, label in enumerate(self.question.labels):
            ties = totals[place] - wins[place].sum() - wins[:, place].sum()
            points = float(wins[place].sum() + ties / 2)
            mean = points / totals[place] if totals[place] else None
            scores.append(Score(label, totals[place], mean, place not in beaten))
        return tuple(map(tuple, wins.tolist())), tuple(scores)

    def _verdicts(self) -> tuple[Verdict, ...]:
        if not self.question.gate:
            return ()
        return self._experiment.inspect(
            lambda policy, _: policy.verdicts if isinstance(policy, Gate) else ()
        )

    def _table(self) -> Array:
        """Scores, one row per item in the order drawn, one column per option; NaN where not."""
        rows = _told(_assignments(self._experiment))
        table = np.full((len(self._order), len(self.question.options)), np.nan)
        table[rows["round"], rows["arm"]] = rows["reward"]
        return table

    def _scores(
        self, recommendation: Recommendation, table: Array, verdicts: tuple[Verdict, ...]
    ) -> tuple[Score, ...]:
        leads = self._leads(recommendation, table, verdicts)
        found = []
        for place, label in enumerate(self.question.labels):
            known = table[~np.isnan(table[:, place]), place]
            mean = float(known.mean()) if len(known) else None
            possible = place in recommendation.active
            found.append(Score(label, len(known), mean, possible, leads.get(place)))
        return tuple(found)

    def _leads(
        self, recommendation: Recommendation, table: Array, verdicts: tuple[Verdict, ...]
    ) -> dict[int, Lead]:
        """The lead of each option over the control; empty without one."""
        labels, name = self.question.labels, self.question.control
        if name is None:
            return {}
        if verdicts:
            named = {each.option: Lead(each.lead, each.low, each.high) for each in verdicts}
            return {place: named[each] for place, each in enumerate(labels) if each in named}
        share = control_shares(self.question.delta, targets=len(labels)).pair
        low, high = self.question.bounds
        found = {}
        for place, label in enumerate(labels):
            if label != name:
                leads = table[:, place] - table[:, labels.index(name)]
                found[place] = _lead(leads, reach=high - low, share=share)
        effect = recommendation.effect
        if effect is not None and recommendation.target in found:  # which may be narrower
            found[recommendation.target] = Lead(effect.estimate, effect.lower, effect.upper)
        return found

    def _two_best(
        self,
        scores: tuple[Score, ...],
        recommendation: Recommendation,
        verdicts: tuple[Verdict, ...],
    ) -> tuple[int, int]:
        """The option that is named, and the one after it among those judged on most items.

        Of a gate the control, and the option that is farthest behind it.
        """
        labels = self.question.labels
        if verdicts and self.question.control is not None:
            last = min(verdicts, key=lambda each: each.lead).option
            return labels.index(self.question.control), labels.index(last)
        others = [
            (score.judged, -np.inf if score.mean is None else score.mean, place)
            for place, score in enumerate(scores)
            if place != recommendation.target
        ]
        return recommendation.target, max(others)[2]

    def _differences(
        self, table: Array, best: tuple[int, int], answers: Mapping[tuple[int, int], Any]
    ) -> tuple[Difference, ...]:
        one, two = best
        apart = np.abs(table[:, one] - table[:, two])
        rows = [row for row in np.argsort(-apart, kind="stable").tolist() if apart[row] > 0]
        return tuple(
            Difference(
                self.question.ids[item],
                self.question.items[item],
                (float(table[row, one]), float(table[row, two])),
                (answers.get((one, item)), answers.get((two, item))),
            )
            for row, item in ((row, self._order[row]) for row in rows)
        )


def _told(rows: Rows) -> Rows:
    told: Rows = rows[~np.isnan(rows["reward"])]
    return told


def _lead(leads: Array, *, reach: float, share: float) -> Lead:
    """The mean lead over all items: an estimate, and bounds with an error of `share` each.

    Items without both scores after the first of them may depend on scores: bounds end there.
    """
    known = ~np.isnan(leads)
    if not known.any():
        return Lead(np.nan, -reach, reach)
    first = int(np.argmin(known)) if not known.all() else len(known)
    low, high = bound_mean(leads[:first], items=len(leads), reach=reach, share=share)
    return Lead(float(np.clip(leads[known].mean(), low, high)), low, high)


@contextmanager
def open_log(
    url: str | Store,
    name: str,
    question: Question,
    *,
    seed: int | None,
    judge: int | None,
    fresh: bool,
) -> Iterator[JudgementLog]:
    """Create the experiment of an evaluation, or open it to resume it; no other process may.

    `judge` is a fingerprint of the judge's file; if `fresh`, a new experiment takes the place of
    what was judged under this name. A gate resumes only what it can: an earlier run of the same
    gate, with the same judge, that did not finish. Anything else is no reason to pass, or to fail.

    Raises:
        InvalidInputError: another process has it open, or it is of something else.
    """
    problem = Problem(question.labels, delta=question.delta)
    policy, options = policy_of(question)
    with connected(url) as store:

        def open_or_create(name: str) -> Experiment:
            try:
                return Experiment.open(store, name)
            except UnknownExperimentError:
                return Experiment.create(
                    store,
                    name,
                    problem,
                    policy=policy,
                    policy_options=options,
                    seed=seed,
                    description=_describe(question),
                )

        first = experiment = open_or_create(name)
        current = _current_name(store, first, fresh=fresh)
        if current != first.name:
            experiment = open_or_create(current)
        if question.gate and not fresh and not _resumable(experiment, question, seed, judge):
            experiment = open_or_create(_current_name(store, first, fresh=True))
        with closing(experiment), store.try_lock(f"evaluation {experiment.name}") as acquired:
            if not acquired:
                raise InvalidInputError(
                    f"Another process runs the evaluation {experiment.name!r} now.",
                    field="name",
                    value=experiment.name,
                    remedy="Wait for it, or give another name.",
                )
            _check(experiment, question, seed)
            yield JudgementLog(experiment, question, judge)


def policy_of(question: Question) -> tuple[str, dict[str, Any]]:
    """The name of the policy that asks for pairs, and its options."""
    options: dict[str, Any] = {"items": len(question.items)}
    options |= {"tolerance": question.tolerance} if question.tolerance else {}
    if question.compare:
        return PREFERENCES, options
    options["bounds"] = list(question.bounds)
    options |= {} if question.control is None else {"control": question.control}
    if question.gate:
        return GATE, options
    return "anytime", options | {"block": len(question.options)}


def _describe(question: Question) -> str:
    items = plural(len(question.items), "item")
    if question.gate:
        return (
            f"Is each option not worse than {question.control!r} on {items}? Options are judged "
            "until that is shown, or the contrary."
        )
    if question.compare:
        return (
            f"Which of {len(question.options)} options is preferred to each other one on {items}? "
            "Two at a time are compared, in random order."
        )
    return (
        f"Which of {len(question.options)} options is best on {items}? Each option that is left is "
        "judged on each item drawn."
    )


def _resumable(
    experiment: Experiment, question: Question, seed: int | None, judge: int | None
) -> bool:
    judges = {data["judge"] for data in _notes(experiment) if "judge" in data}
    same = judge is None or judges <= {judge}
    return same and experiment.state == "running" and not any(_changes(experiment, question, seed))


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


def _changes(
    experiment: Experiment, question: Question, seed: int | None
) -> Iterator[tuple[str, object, object]]:
    """What an experiment was created with that differs from a question, in any letter."""
    spec = experiment.stored_spec("resumed")
    policy, options = policy_of(question)
    compared: list[tuple[str, object, object]] = [
        ("options", list(spec.problem.source_labels), question.labels),
        ("delta", spec.problem.delta, question.delta),
        ("seed", experiment.seed, experiment.seed if seed is None else seed),
        ("gate", spec.policy == GATE, policy == GATE),
        ("compare", spec.policy == PREFERENCES, policy == PREFERENCES),
    ]
    names = ("bounds", "items", "tolerance", "control")
    compared += [(name, spec.options.get(name), options.get(name)) for name in names]
    before, now = _recorded(experiment), _fingerprints(question)
    if before is not None:
        compared += [(each, f"text {before[each]}", f"text {now[each]}") for each in now]
    yield from (each for each in compared if each[1] != each[2])


def _fingerprints(question: Question) -> dict[str, int]:
    return {field: question.fingerprint(field) for field in ("options", "items")}


def _recorded(experiment: Experiment) -> dict[str, Any] | None:
    """The fingerprints on record, if there are any."""
    fields = {"options", "items"}
    return next((each for each in _notes(experiment) if fields <= each.keys()), None)


def _check(experiment: Experiment, question: Question, seed: int | None) -> None:
    """Raise unless an experiment is of this question, in every letter, and of these settings."""
    for field, then, given in _changes(experiment, question, seed):
        raise InvalidInputError(
            f"The experiment {experiment.name!r} was created with different `{field}` "
            f"({reprlib.repr(then)}, not {reprlib.repr(given)}).",
            field=field,
            value=given,
            remedy=f"To resume it, give the same `{field}`; for another evaluation, give "
            "another name, or start anew with `fresh=True` (`--fresh`).",
        )
    if _recorded(experiment) is None:  # before its first pair: just created, or killed just then
        text = "The fingerprints of options and items are kept, to compare."
        experiment.note(text, **_fingerprints(question))
