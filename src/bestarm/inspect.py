"""Races in Inspect: several models or solvers on one dataset, each stopped once it is out.

Inspect asks an `EarlyStopping` before each sample. A `Race` has one per option, all of which ask
the same rule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bestarm.checks import interval
from bestarm.errors import InvalidInputError, MissingDependencyError
from bestarm.evaluation.inputs import Question
from bestarm.live import Experiment
from bestarm.policies import AnytimeBAI
from bestarm.problem import Problem
from bestarm.recommendation import Recommendation
from bestarm.tables import TextTable
from bestarm.units import plural

try:
    from inspect_ai.dataset import Dataset, MemoryDataset
    from inspect_ai.scorer import value_to_float
    from inspect_ai.util import EarlyStop
except ImportError:
    raise MissingDependencyError.of("`bestarm.inspect`", "inspect_ai", extra="inspect") from None

if TYPE_CHECKING:
    from inspect_ai.dataset import Sample
    from inspect_ai.log import EvalSpec
    from inspect_ai.scorer import SampleScore

__all__ = ["Race"]


class Race:
    """One evaluation of several options with Inspect, which ends as soon as it is decided.

    Make one task per option, with the dataset of the race and the option's `stopping`, and give all
    of them to one `eval`. Samples of an option that is out are skipped, and so are all once the
    best option is clear. No option ever waits for another one: slots for samples are shared,
    and an option that waited in one could keep those that it waits for from starting. So let all
    tasks run at the same time (`max_tasks`), with few samples at a time (`max_samples`).

    Args:
        dataset: the samples. The answer is about the mean score over all of them.
        options: the names of what is compared, at least two.
        delta: the allowed probability of naming a wrong option.
        tolerance: how much worse than the best the named option may be, in units of the score.
        control: the name of the option in use now: the result has the winner's lead over it.
        bounds: the lowest and the highest score. `"C"` is 1 and `"I"` is 0, as in Inspect.
        scorer: which score counts, where a task has several.
        seed: fixes the order of the samples; random if left out.

    Attributes:
        dataset: the samples in random order. Tasks must use it as it is.
        judged: how many samples of each option have a score.

    Raises:
        InvalidInputError: an argument is invalid.

    Example::

        from inspect_ai import Task, eval
        from bestarm.inspect import Race
        race = Race(dataset, ["plain", "steps"])
        logs = eval(
            [
                Task(race.dataset, solver=solvers[name], scorer=match(), name=name,
                     early_stopping=race.stopping(name))
                for name in ("plain", "steps")
            ],
            model="openai/gpt-4o-mini",
            max_tasks=2,
        )
        print(race)
    """

    def __init__(
        self,
        dataset: Dataset | Sequence[Sample],
        options: Sequence[str],
        *,
        delta: float = 0.05,
        tolerance: float = 0.0,
        control: str | None = None,
        bounds: tuple[float, float] = (0.0, 1.0),
        scorer: str | None = None,
        seed: int | None = None,
    ) -> None:
        samples = list(dataset)
        for number, sample in enumerate(samples, start=1):
            sample.id = number if sample.id is None else sample.id
        ids = [{"id": each.id} for each in samples]
        low, high = interval(bounds, "bounds")
        question = Question(list(options), ids, delta, (low, high), tolerance, control)
        policy = AnytimeBAI(
            Problem(question.labels, delta=delta),
            bounds=(low, high),
            block=len(question.labels),
            items=len(samples),
            tolerance=tolerance,
            control=control,
        )
        self._experiment = Experiment(policy, seed=seed)
        self._bounds, self._scorer, self.options = (low, high), scorer, question.labels
        order = question.order(self._experiment.seed).tolist()
        self.dataset = MemoryDataset([samples[place] for place in order])
        self._ids = [samples[place].id for place in order]
        self._places = {name: place for place, name in enumerate(self._ids)}
        self._rounds: list[dict[int, int]] = []  # the assignments of each round, by option
        self._open: list[set[int]] = [set() for _ in self.options]  # places not yet scored
        self.judged = dict.fromkeys(self.options, 0)

    def stopping(self, option: str) -> OptionStopping:
        """The `early_stopping` of the task of an option."""
        if option not in self.options:
            raise InvalidInputError(
                f"There is no option {option!r} in this race.",
                field="option",
                value=option,
                remedy=f"Its options are {', '.join(self.options)}.",
            )
        return OptionStopping(self, self.options.index(option))

    @property
    def recommendation(self) -> Recommendation:
        """The option to choose, and what is proven about it."""
        return self._experiment.recommendation()

    def __str__(self) -> str:
        rows = ([name, f"{made:,}"] for name, made in self.judged.items())
        made, all_samples = sum(self.judged.values()), len(self._ids) * len(self.options)
        return (
            f"{self.recommendation.statement}\n\n{TextTable.of(['option', 'samples'], rows)}\n\n"
            f"{made:,} of {plural(all_samples, 'sample')}."
        )

    # --- for the options ---

    def _start(self, option: int, samples: Sequence[Sample], epochs: int) -> None:
        if [each.id for each in samples] != self._ids:
            raise InvalidInputError(
                f"The task of {self.options[option]!r} has other samples than the race, or another "
                "order.",
                field="dataset",
                remedy="Make the task with `race.dataset`, without `limit`, `sample_id` or "
                "`sample_shuffle`.",
            )
        if epochs != 1:
            raise InvalidInputError(
                f"The task of {self.options[option]!r} has {epochs} epochs; a race has one.",
                field="epochs",
                value=epochs,
                remedy="Repeat samples in the dataset instead.",
            )

    def _wants(self, option: int, place: int) -> bool:
        """Whether an option is to be judged on a sample."""
        while len(self._rounds) <= place and not self._experiment.finished:
            batch = self._experiment.ask(unit=self._ids[len(self._rounds)])
            if not batch.experiment:
                break
            self._rounds.append({each.arm: each.id for each in batch})
        wanted = place < len(self._rounds) and option in self._rounds[place]
        wanted = wanted and self._in_race(option)
        if wanted:
            self._open[option].add(place)
        return wanted

    def _in_race(self, option: int) -> bool:
        if self._experiment.finished:
            return False
        return option in self.recommendation.active

    def _tell(self, option: int, place: int, scores: dict[str, SampleScore]) -> None:
        name = self._scorer
        if name is None and len(scores) == 1:
            [name] = scores
        if name not in scores:
            raise InvalidInputError(
                f"Samples have the scores {', '.join(scores) or 'of no scorer'}, and the race is "
                f"about {'one of them' if name is None else repr(name)}.",
                field="scorer",
                value=name,
                remedy="Name the one that counts: `Race(…, scorer='match')`.",
            )
        value = scores[name].score.value
        number = value_to_float()(value) if isinstance(value, (str, int, float, bool)) else math.nan
        low, high = self._bounds
        if not low <= number <= high:
            raise InvalidInputError(
                f"{self.options[option]!r} has the score {value!r} on sample "
                f"{self._ids[place]!r}, which is not a number from {low:g} to {high:g}.",
                field="bounds",
                value=value,
                remedy="Give the race `bounds` that hold all scores.",
            )
        self._experiment.tell(self._rounds[place][option], number)
        self._open[option].discard(place)
        self.judged[self.options[option]] += 1

    def _end(self, option: int) -> dict[str, Any]:
        """Note that a task has ended: what has no score counts against its option."""
        lost = [self._rounds[place][option] for place in self._open[option]]
        if lost and not self._experiment.finished:
            self._experiment.fail_many(lost, "the sample has no score")
        self._open[option].clear()
        return {
            "option": self.options[option],
            "samples": self.judged[self.options[option]],
            "skipped": len(self._ids) - self.judged[self.options[option]] - len(lost),
            "verdict_so_far": self.recommendation.statement,
        }


class OptionStopping:
    """What Inspect asks before each sample of one option; a race makes it.

    Args:
        race: the race.
        option: the number of the option.
    """

    def __init__(self, race: Race, option: int) -> None:
        self._race, self._option = race, option

    async def start_task(self, task: EvalSpec, samples: list[Sample], epochs: int) -> str:  # noqa: ARG002
        """Check that the task has the samples of the race, in their order."""
        self._race._start(self._option, samples, epochs)
        return "bestarm"

    async def schedule_sample(self, id: str | int, epoch: int) -> EarlyStop | None:  # noqa: A002
        """Skip the sample if the option is out, or the race is decided."""
        if self._race._wants(self._option, self._race._places[id]):
            return None
        over = self._race._experiment.finished
        name = self._race.options[self._option]
        reason = "The race is decided." if over else f"{name!r} is out of the race."
        return EarlyStop(id=id, epoch=epoch, reason=reason)

    async def complete_sample(
        self,
        id: str | int,  # noqa: A002
        epoch: int,  # noqa: ARG002
        scores: dict[str, SampleScore],
    ) -> None:
        """Take the score of a sample."""
        self._race._tell(self._option, self._race._places[id], scores)

    async def complete_task(self) -> dict[str, Any]:
        """Note that the task has ended; Inspect keeps what is returned in its log."""
        return self._race._end(self._option)
