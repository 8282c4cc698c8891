"""How the options of an experiment stand: for notebooks, as a table, a frame or a picture."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from bestarm.errors import MissingDependencyError
from bestarm.figures import Distance, shorten
from bestarm.live.options import Options
from bestarm.live.replay import recommend
from bestarm.policies.policy import Look, Policy, Rates
from bestarm.recommendation import Recommendation
from bestarm.tables import TextTable
from bestarm.units import Unit

if TYPE_CHECKING:
    import pandas as pd

_RATED = 200  # options up to which means are computed: it takes a pass over all batches
_PLACES = {"best": 0, "named": 0, "leads": 0, "possible": 1, "ruled out": 2, "retired": 3}
Interval = tuple[float, float, float]  # an estimate and the ends of its interval
_UNKNOWN: Interval = (math.nan, math.nan, math.nan)


class Standing(NamedTuple):
    """How one option stands; NaN where nothing is known."""

    option: str
    status: str  # a key of `_PLACES`
    mean: Interval  # what it would have paid on average in the rounds so far
    behind: Interval  # the leader's mean − its own


@dataclass(frozen=True)
class Standings:
    """How all options stand, the leader first, and what is recommended."""

    recommendation: Recommendation
    rows: tuple[Standing, ...]
    control: str | None
    unit: Unit

    @classmethod
    def of(cls, policy: Policy, state: str, options: Options) -> Standings:
        """The standings of an experiment in this state, with these options."""
        labels, control = options.problem.target_labels, options.traits.control
        recommendation = recommend(policy, state)
        look = policy.look() if recommendation.pulls else None
        rates = rates_of(policy, len(labels))
        rows = []
        for target, label in enumerate(labels):
            status = _status(target, recommendation, options)
            mean, behind = _UNKNOWN, _UNKNOWN
            if rates is not None and target < len(rates.estimate) and status != "retired":
                mean = rates.estimate[target], rates.low[target], rates.high[target]
            if status in {"possible", "ruled out"}:
                behind = _behind(target, look, recommendation)
            rows.append(Standing(label, status, mean, behind))
        return cls(
            recommendation,
            tuple(sorted(rows, key=lambda row: (_PLACES[row.status], row.behind[0]))),
            None if control is None else labels[control],
            Unit(percent=rates is not None and rates.binary),
        )

    def to_frame(self) -> pd.DataFrame:
        """The options as a data frame."""
        try:
            import pandas as pd  # noqa: PLC0415 - optional
        except ImportError:
            raise MissingDependencyError.of("`to_frame`", "pandas", extra="frames") from None
        columns = [f"{name}{end}" for name in ("mean", "behind") for end in ("", "_low", "_high")]
        return pd.DataFrame(
            [(row.status, *row.mean, *row.behind) for row in self.rows],
            index=pd.Index([row.option for row in self.rows], name="option"),
            columns=["status", *columns],
        )

    def to_table(self, title: str) -> TextTable:
        """The options as a table of text."""

        def known(write: Callable[[float], str], values: Interval) -> str:
            estimate, low, high = values
            if not math.isfinite(estimate):
                return "–"
            return f"{write(estimate)} ({self.unit.interval(low, high, estimate)})"

        def texts(row: Standing) -> tuple[str, ...]:
            name = f"{row.option} (control)" if row.option == self.control else row.option
            mean, behind = known(self.unit.value, row.mean), known(self.unit.difference, row.behind)
            return name, row.status, mean, behind

        mean = "rate" if self.unit.percent else "mean outcome"
        headings = ("option", "status", mean, "behind the leader")
        return TextTable.of(headings, map(texts, self.rows), title=title)

    def distances(self) -> list[Distance]:
        """The options as a picture has them: the leader at 0, worse ones on its left."""
        drawn = []
        for row in self.rows:
            leads = row.status in {"best", "named", "leads"}
            estimate, low, high = (0.0, 0.0, 0.0) if leads else row.behind
            label = f"{shorten(row.option)}, {row.status}"
            drawn.append(Distance(label, -estimate, -high, -low, leads or row.status == "possible"))
        return drawn


def rates_of(policy: Policy, targets: int) -> Rates | None:
    """What each target would have paid on average, unless there are too many to compute it."""
    return policy.rates() if targets <= _RATED else None


def _status(target: int, recommendation: Recommendation, options: Options) -> str:
    if target in options.retired:
        return "retired"
    leads = recommendation.final or (recommendation.leads and recommendation.pulls)
    if leads and target in (recommendation.chosen or (recommendation.target,)):
        best = recommendation.error_bound is not None and options.traits.names_the_best
        named = "best" if best and not recommendation.tied else "named"
        return named if recommendation.final else "leads"
    return "possible" if target in recommendation.active else "ruled out"


def _behind(target: int, look: Look | None, recommendation: Recommendation) -> Interval:
    effect = recommendation.effect
    if effect is not None and effect.control == target:  # narrower, and part of the verdict
        return effect.estimate, effect.lower, effect.upper
    if look is not None and target < len(look.estimate):
        return look.estimate[target], look.low[target], look.high[target]
    for phase in reversed(recommendation.trace):
        if target in phase.active:
            place = phase.active.index(target)
            contrast, radius = phase.contrasts[place], phase.radii[place]
            return contrast, contrast - radius, contrast + radius
    return _UNKNOWN
