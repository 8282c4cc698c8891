"""The assumptions of the anytime rule about rewards, and whether totals contradict them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from bestarm.checks import choice, computable, not_negative
from bestarm.errors import InvalidInputError, ProtocolError
from bestarm.numerics.geometry import linear_span
from bestarm.policies.anytime.bets import Scale
from bestarm.policies.anytime.block_options import each_its_own
from bestarm.problem import Problem
from bestarm.records import BlockPlan, Plan, Summary

UNLIKELY = 30.0  # nats: what happens so rarely by chance contradicts what was declared
_STILL = "Noise apart, each option always pays its x·θ: there is no baseline."
_BLOCKS = (
    "In a round each option pays its x·θ plus a baseline that all options of the round share, "
    "whatever it is. Which options a round has is drawn with the plan's probabilities."
)
_OWN = (
    "What each option pays on average may move in any way, each on its own, as long as it is "
    "settled before the draw. Options are drawn with the plan's probabilities."
)
_OWN_BLOCKS = (
    "What each option pays on average may move in any way, each on its own. Apart from a baseline "
    "that all options of a round share, it does not depend on which options the round has. These "
    "are drawn with the plan's probabilities."
)
_CHANGES = (
    "The same {options} at every moment. If that changes, the bound is for each option by itself, "
    "and for this: {error}, on a weighted average over the rounds until then."
)
_AVERAGED = "Until there is a winner, the interval of a lead is about its weighted average."
_ITEMS = (
    "There are {items} items, which come in a random order, each once. What an option pays on an "
    "item does not depend on that order."
)
_DRAWN = (
    "What each option would pay, noise apart, is settled before one is drawn: its x·θ plus a "
    "baseline common to all options. It is drawn with the plan's probabilities."
)


def check_options(
    problem: Problem, *, missing: str, bounds: tuple[float, float] | None, forecasts: bool
) -> None:
    """Raise unless the options of the rule fit each other."""
    choice(missing, ("ignorable", "worst-case"), "missing")
    if missing == "worst-case" and bounds is None:
        raise InvalidInputError(
            "Without `bounds` a missing reward has no worst value.",
            field="missing",
            value=missing,
            remedy="Give `bounds`, or missing='ignorable'.",
        )
    if forecasts and not problem.drifts:
        raise InvalidInputError(
            "Without a baseline there is nothing to forecast.",
            field="forecasts",
            value=forecasts,
            remedy="Declare a `baseline`, or leave forecasts out.",
        )


def check_precision(precision: float | None, *, control: str | None, items: int | None) -> None:
    """Raise unless a precision fits the other options."""
    if precision is None:
        return
    if control is None:
        raise InvalidInputError(
            "`precision` is that of the lead over the control, and there is no control.",
            field="precision",
            value=precision,
            remedy="Name a `control`, or leave `precision` out.",
        )
    if items is not None:
        raise InvalidInputError(
            "`precision` does not apply where every item is judged once.",
            field="precision",
            value=precision,
            remedy="Leave `precision` or `items` out.",
        )


def check_options_of(plan: Plan, *, provisional: bool, forecasts: bool, blocks: bool) -> None:
    """Raise unless a plan is of a rule with these options."""
    options = plan.provisional, plan.forecasts is not None, isinstance(plan, BlockPlan)
    if options != (provisional, forecasts, blocks):
        raise ProtocolError(
            f"The plan of phase {plan.phase} is of a policy with other options.",
            field="plan",
            value=plan.phase,
            remedy="Adopt a plan that this policy made.",
        )


class Question(NamedTuple):
    """What is asked about the targets.

    Attributes:
        top: how many are to be named.
        tolerance: how much worse than the best a named one may be.
        control: whether effects are measured against a control.
    """

    top: int = 1
    tolerance: float = 0.0
    control: bool = False

    @property
    def sentences(self) -> tuple[str, ...]:
        """What the answer is about where each option moves by itself."""
        options, error = (
            "option is the best",
            "it is ruled out although those that led were not ahead",
        )
        if self.top > 1 or self.tolerance:
            options = f"{self.top} options are the best" if self.top > 1 else options
            error = "it is left out although one that is named was not ahead of it"
            if self.tolerance:
                error = f"one that is named was more than {self.tolerance:g} behind it"
        changes = _CHANGES.format(options=options, error=error)
        return (changes, _AVERAGED) if self.control else (changes,)


@dataclass(frozen=True)
class Assumptions:
    """Where rewards lie.

    Attributes:
        scale: the range of means and the scale of the noise.
        sentences: the assumptions, one sentence each.
        bounds: the interval outside of which rewards are refused, or None.
    """

    scale: Scale
    sentences: tuple[str, ...]
    bounds: tuple[float, float] | None = None

    @classmethod
    def make(
        cls,
        problem: Problem,
        bounds: tuple[float, float] | None,
        mean_bound: float | None,
        *,
        question: Question,
        blocks: bool = False,
        items: int | None = None,
    ) -> Assumptions:
        """From bounds on every reward, or else from the scales of the problem.

        With blocks the baseline plays no part. Items of a finite population have bounds.
        """
        if bounds is not None and mean_bound is not None:
            raise InvalidInputError(
                "`mean_bound` has no part where rewards are bounded.",
                field="mean_bound",
                value=mean_bound,
                remedy="Give `bounds` or `mean_bound`, not both.",
            )
        own, closing = has_own_means(problem), tuple[str, ...]()
        if items is not None:
            world = _ITEMS.format(items=items)
        elif own:
            world, closing = _OWN_BLOCKS if blocks else _OWN, question.sentences
        else:
            world = _BLOCKS if blocks else _DRAWN if problem.drifts else _STILL
        if bounds is not None:
            low, high = bounds[0] + 0.0, bounds[1] + 0.0  # −0.0 is printed as 0
            # Without a baseline Σ p w need not be 0, and a center would not drop out of Lemma 1.
            center = low / 2 + high / 2 if problem.drifts else 0.0
            within = f"Every reward lies between {low:g} and {high:g}."
            scale = Scale(low - center, high - center, center=center)
            return cls(scale, (world, within, *closing), (low, high))
        means = problem.scale if mean_bound is None else not_negative(mean_bound, "mean_bound")
        size = means + (0.0 if blocks else problem.baseline)
        computable(size + problem.noise, "mean_bound")
        noise = f"The noise has mean 0 and is sub-Gaussian with scale {problem.noise:g}."
        within = f"x·θ of every option lies within ±{means:g}."
        if own and blocks:
            within = f"What the options of a round pay on average differs by at most {2 * means:g}."
        elif own:
            within = f"What each option pays on average lies within ±{size:g}."
        elif size > means:
            moving = f"The baseline lies within ±{problem.baseline:g}, and x·θ of every option"
            within = f"{moving} within ±{means:g}."
        scale = Scale(-size, size, problem.noise)
        return cls(scale, (world, noise, within, *closing))

    def with_losses(self, missing: int) -> tuple[str, ...]:
        """The sentences, with one about this many outcomes that never came, if any."""
        if not missing:
            return self.sentences
        return (
            *self.sentences,
            f"Which outcomes never came ({missing:,} so far), and when that is known, depends "
            "neither on the option drawn nor on the reward.",
        )

    def contradicted_by(self, summary: Summary, labels: tuple[str, ...], scale: Scale) -> bool:
        """Whether no rewards within the scale have these totals, but for rare noise.

        Rewards at most h from the middle m have |Σ(r − m)| ≤ nh and Σ(r − m)² ≤ nh². Adding up n
        of them may lose nε of the sum of their sizes, so that much is let pass: where totals are
        about a number many times farther from m than h, squares say little, sums still much. Where
        the least and the largest reward are known, they must lie in the range themselves.

        Args:
            summary: the totals.
            labels: the arms' names.
            scale: where they lie, less their forecasts.

        Raises:
            InvalidInputError: no rewards have these totals, or rewards are bounded, and these
                cannot be.
        """
        from bestarm.policies.anytime import kernels  # noqa: PLC0415 - compiles

        arm = kernels.contradiction(*summary.totals, self.limits(scale, summary.center))
        return self.judge(arm, labels)

    def limits(self, scale: Scale, center: float) -> tuple[float, float, float, bool]:
        """The limits of `kernels.contradiction` for totals about this center."""
        half = (scale.high - scale.low) / 2
        shift = center - scale.center - scale.middle
        likely = scale.noise * math.sqrt(2 * UNLIKELY)
        return half, shift, likely, self.bounds is not None

    def judge(self, arm: int, labels: tuple[str, ...]) -> bool:
        """Whether totals contradict the assumptions, by what `kernels.contradiction` said of them.

        Raises:
            InvalidInputError: see `contradicted_by`.
        """
        if arm < -1:
            label = labels[-2 - arm]
            raise InvalidInputError(
                f"The totals of option {label!r} contradict each other.",
                field="summary",
                value=label,
                remedy="Squares, cubes and extremes are of (reward − center), all of one center.",
            )
        if arm < 0 or self.bounds is None:
            return arm >= 0
        label, (low, high) = labels[arm], self.bounds
        raise InvalidInputError(
            f"The rewards of option {label!r} cannot all lie between {low:g} and {high:g}.",
            field="summary",
            value=label,
            remedy="Make the policy with `bounds` that hold for every reward.",
        )


@lru_cache(maxsize=128)
def has_own_means(problem: Problem) -> bool:
    """Whether every target is an arm of its own, and features restrict no arm's mean.

    Then Σ p w = 0 and Σ p w x = x_o − x_a have one solution, w = 1/p_o on o and −1/p_a on a; so
    has the second alone, where there is no baseline (docs/moving.md).
    """
    if problem.drifts:
        return each_its_own(problem)
    return each_its_own(problem) and linear_span(problem.source).rank == problem.arms
