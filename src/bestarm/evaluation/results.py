"""What came of an evaluation, as values and in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bestarm.evaluation.inputs import cost_of
from bestarm.recommendation import Recommendation


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
        all_judgements: how many pairs there are.
        failures: calls of the judge in this run that failed.
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
        return "\n".join([self.recommendation.statement, "", *self._table(), "", *self._figures()])

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
        yield f"{self.judgements:,} of {self.all_judgements:,} judgements ({share}){costs}."
        if self.lost:
            calls = "1 call was" if self.lost == 1 else f"{self.lost:,} calls were"
            yield f"{calls} in flight when the evaluation was killed or left; they count as paid."
        if self.recommendation.final and self.saved_judgements:
            worth = f", and {self.saved_cost:,.6g} of the cost" if self.price != 1 else ""
            saved = _percent(self.saved)
            yield f"Saved: {self.saved_judgements:,} judgements ({saved}){worth}."
        elif self.capped:
            yield (
                f"Stopped at the cost cap of {self.max_cost:g}. All judgements are kept: to "
                "continue, start the same evaluation with a larger cap."
            )
        elif self.state in ("paused", "stopped"):
            yield f"It was {self.state} by hand. All judgements are kept."


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")
