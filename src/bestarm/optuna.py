"""Confirm the best trial of a noisy Optuna study: evaluate the best ones anew until it is clear."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bestarm import checks
from bestarm.errors import InvalidInputError, MissingDependencyError
from bestarm.live import Experiment
from bestarm.policies import AnytimeBAI
from bestarm.problem import Problem
from bestarm.recommendation import Recommendation
from bestarm.tables import TextTable
from bestarm.units import plural

try:
    import optuna
except ImportError:
    raise MissingDependencyError.of("`bestarm.optuna`", "optuna", extra="optuna") from None

if TYPE_CHECKING:
    from optuna.trial import BaseTrial, FrozenTrial

__all__ = ["Confirmation", "confirm"]


@dataclass(frozen=True)
class Confirmation:
    """What came of it. Printed, it says so in words.

    Attributes:
        trial: the trial to choose, as it is in the study.
        recommendation: what is proven about it; options are named by the trials' numbers.
        evaluations: how often each trial was evaluated anew, by its number.
        means: the mean of these evaluations, by the trial's number; NaN without any.
        values: what the study has for each trial: the best of many noisy values, so too good.
    """

    trial: FrozenTrial
    recommendation: Recommendation
    evaluations: dict[int, int]
    means: dict[int, float]
    values: dict[int, float]

    def __str__(self) -> str:
        rows = (
            [f"trial {number}", f"{value:.4g}", f"{self.means[number]:.4g}", f"{made:,}"]
            for (number, value), made in zip(
                self.values.items(), self.evaluations.values(), strict=True
            )
        )
        table = TextTable.of(["", "in the study", "evaluated anew", "evaluations"], rows)
        made = plural(sum(self.evaluations.values()), "evaluation")
        return f"{self.recommendation.statement}\n\n{table}\n\n{made}."


def confirm(
    study: optuna.Study,
    objective: Callable[[BaseTrial], float],
    *,
    bounds: tuple[float, float],
    top: int = 10,
    delta: float = 0.05,
    tolerance: float = 0.0,
    max_evaluations: int | None = None,
    seed: int | None = None,
) -> Confirmation:
    """Evaluate the best trials of a study anew, until one is shown to be the best of them.

    The best value of a noisy study is that of a lucky trial. So the values of the study only select
    the trials; what is compared are new evaluations. They are made in rounds, one of every trial
    that is left, in which whatever evaluations share cancels: `trial.number` is that of the round,
    for an objective that takes its random seed from it.

    Args:
        study: the study, with one objective; either direction.
        objective: called with an `optuna.trial.FixedTrial` that has the parameters of a trial.
        bounds: the lowest and the highest value that it can return.
        top: how many of the best trials are compared. Trials with equal parameters count as one.
        delta: the allowed probability of naming a wrong one.
        tolerance: how much worse than the best of them the named one may be.
        max_evaluations: stop, undecided, before exceeding this many.
        seed: kept for the record; nothing else is drawn from it.

    Raises:
        InvalidInputError: the study has several objectives or too few finished trials, or the
            objective returned something that is not a number within the bounds.
        MissingDependencyError: Optuna is not installed.

    Example::

        import optuna, random
        from bestarm.optuna import confirm
        def objective(trial):
            return min(1, max(0, trial.suggest_float("x", 0, 1) + random.gauss(0, 0.1)))
        study = optuna.create_study(direction="maximize")
        study.optimize(objective, n_trials=50)
        print(confirm(study, objective, bounds=(0, 1)))
    """
    low, high = checks.interval(bounds, "bounds")
    trials = _best_trials(study, checks.whole(top, "top", least=2))
    sign = 1.0 if study.direction == optuna.study.StudyDirection.MAXIMIZE else -1.0
    names = [f"trial {each.number}" for each in trials]
    policy = AnytimeBAI(
        Problem(names, delta=delta),
        bounds=(low, high) if sign > 0 else (-high, -low),
        block=len(trials),
        tolerance=tolerance,
        max_pulls=max_evaluations,
    )
    experiment = Experiment(policy, seed=seed)
    counts, sums = np.zeros((2, len(trials)))
    while batch := experiment.ask():
        if not batch.experiment:
            break
        told = {}
        for each in batch:
            fixed = optuna.trial.FixedTrial(trials[each.arm].params, number=each.round)
            value = _checked(objective(fixed), trials[each.arm], low, high)
            told[each.id] = sign * value
            counts[each.arm] += 1
            sums[each.arm] += value
        experiment.tell_many(told)
    recommendation = experiment.recommendation()
    means = np.where(counts > 0, sums / np.maximum(counts, 1), math.nan).tolist()
    numbers = [each.number for each in trials]
    return Confirmation(
        trials[recommendation.target],
        recommendation,
        dict(zip(numbers, map(int, counts.tolist()), strict=True)),
        dict(zip(numbers, means, strict=True)),
        {each.number: float(each.value or 0.0) for each in trials},
    )


def _best_trials(study: optuna.Study, top: int) -> list[FrozenTrial]:
    """The best finished trials with different parameters, the best first."""
    if len(study.directions) > 1:
        raise InvalidInputError(
            f"The study has {len(study.directions)} objectives.",
            field="study",
            value=study,
            remedy="Confirm trials of a study with one.",
        )
    states = (optuna.trial.TrialState.COMPLETE,)
    sign = -1.0 if study.direction == optuna.study.StudyDirection.MAXIMIZE else 1.0
    finished = study.get_trials(deepcopy=False, states=states)
    found: list[FrozenTrial] = []
    for trial in sorted(finished, key=lambda each: sign * float(each.value or 0.0)):
        if len(found) < top and all(trial.params != each.params for each in found):
            found.append(trial)
    if len(found) < 2:
        raise InvalidInputError(
            f"The study has {plural(len(found), 'finished trial')} with different parameters, and "
            "two are needed to compare.",
            field="study",
            value=study,
            remedy="Run `study.optimize(…)` first.",
        )
    return found


def _checked(value: object, trial: FrozenTrial, low: float, high: float) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not low <= number <= high:
        raise InvalidInputError(
            f"For trial {trial.number} the objective returned {value!r}, which is not a number "
            f"from {low:g} to {high:g}.",
            field="objective",
            value=value,
            remedy="Give `bounds` that hold all values, or clip values to them.",
        )
    return number
