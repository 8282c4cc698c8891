"""What the anytime rule assumes of rewards, which options fit, and totals that contradict them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bestarm.checks import choice, computable, finite, not_negative, suggestion
from bestarm.errors import InvalidInputError, ProtocolError
from bestarm.numerics.geometry import Array, linear_span
from bestarm.policies.anytime.bets import EPSILON, ROUNDINGS, Scale
from bestarm.problem import Problem
from bestarm.records import BlockPlan, Counts, Plan

Flags = NDArray[np.bool_]

CONTRADICTION_NATS = 30.0  # nats: what happens so rarely by chance contradicts what was declared
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
_SAME = "The same {options} at every moment."
_SAME_ORDER = "Of any two options the same one is the better at every moment."
_CHANGES = (
    "If that changes, the bound is for each option by itself, "
    "and for this: {error}, on a weighted average over the rounds until then."
)
_AVERAGED = "Until there is a winner, the interval of a lead is about its weighted average."
_ITEMS = (
    "The items, {items:,} in all, come in a random order, each once. What an option pays on an "
    "item does not depend on that order."
)
_DRAWN = (
    "What each option would pay, noise apart, is settled before one is drawn: its x·θ plus a "
    "baseline common to all options. It is drawn with the plan's probabilities."
)


@lru_cache(maxsize=128)
def has_unrestricted_means(problem: Problem) -> bool:
    """Whether every target is an arm of its own, and features restrict no arm's mean.

    Then Σ p w = 0 and Σ p w x = x_o − x_a have one solution, w = 1/p_o on o and −1/p_a on a; so
    has the second alone, where there is no baseline (docs/moving.md).
    """
    if problem.drifts:
        return problem.unstructured
    return problem.unstructured and linear_span(problem.source).rank == problem.arms


def check_options(
    problem: Problem,
    *,
    bounds: tuple[float, float] | None,
    missing: str,
    forecasts: bool,
    control: str | None,
    precision: float | None,
    block: int,
    items: int | None,
    max_pulls: int | None,
    level: float | None,
    single: bool,
    changes: bool,
    floors: Mapping[str, float] | None,
) -> None:
    """Raise unless the options of the rule fit each other."""
    choice(missing, ("ignorable", "worst-case"), "missing")
    rules: tuple[tuple[bool, str, str, object, str], ...] = (
        (
            missing == "worst-case" and bounds is None,
            "Without `bounds` a missing reward has no worst value.",
            *("missing", missing, "Give `bounds`, or missing='ignorable'."),
        ),
        (
            forecasts and not problem.drifts,
            "Without a baseline there is nothing to forecast.",
            *("forecasts", forecasts, "Declare a `baseline`, or leave forecasts out."),
        ),
        (
            precision is not None and control is None,
            "`precision` is that of the lead over the control, and there is no control.",
            *("precision", precision, "Name a `control`, or leave `precision` out."),
        ),
        (
            precision is not None and items is not None,
            "`precision` does not apply where every item is judged once.",
            *("precision", precision, "Leave `precision` or `items` out."),
        ),
        (
            items is not None and bounds is None,
            "Items of a finite population need bounds on their rewards.",
            *("bounds", bounds, "Give `bounds`, for example (0, 1)."),
        ),
        (
            items is not None and (block != problem.arms or not problem.unstructured),
            "With `items` every option is an arm of its own, and all are judged on each item.",
            *("items", block, f"Give block={problem.arms}, and one-hot features."),
        ),
        (
            block > 1 and forecasts,
            "Within a block forecasts cancel, as the baseline does.",
            *("forecasts", forecasts, "Leave forecasts or `block` out."),
        ),
        (
            block > 1 and not problem.drifts,
            "Without a baseline there is nothing that blocks could cancel, and they would cost.",
            *("block", block, "Declare a `baseline`, or leave `block` out."),
        ),
        (
            level is not None and bounds is None,
            "Without `bounds` the baseline is declared around 0.",
            *("level", level, "Leave `level` out, and subtract it from every reward."),
        ),
        (
            level is not None and (block > 1 or forecasts),
            "A known level of the baseline has no part where blocks or forecasts take it off.",
            *("level", level, "Leave `level`, or `block` and forecasts, out."),
        ),
        (
            level is not None and (not problem.drifts or problem.expresses_level),
            "A level says nothing where there is no baseline, or features express one themselves.",
            *("level", level, "Leave `level` out."),
        ),
        (
            changes and not (single and block == 1 and items is None),
            "Options can be added and retired where one best option is named and drawn singly.",
            *(
                "changes",
                changes,
                "Leave `changes`, or `top`, `tolerance`, `block` and `items`, out.",
            ),
        ),
        (
            changes and not problem.compares_arms,
            "Options can be added and retired where each is an arm that can be pulled.",
            *("changes", changes, "Leave `changes` out, or the targets."),
        ),
        (
            block > 1 and max_pulls is not None and max_pulls < block,
            f"One round alone has {block} pulls.",
            *("max_pulls", max_pulls, f"Allow at least {block}."),
        ),
    )
    for wrong, message, field, value, remedy in rules:
        if wrong:
            raise InvalidInputError(message, field=field, value=value, remedy=remedy)
    if floors is not None:
        _check_floors(floors, problem.source_labels, block)


def _check_floors(floors: object, labels: tuple[str, ...], block: int) -> None:
    if not isinstance(floors, Mapping) or block > 1:
        raise InvalidInputError(
            f"`floors` must be names of options with probabilities; got {floors!r}.",
            field="floors",
            value=floors,
            remedy='For example {"old": 0.2}; blocks have none.',
        )
    for name, floor in floors.items():
        if name not in labels:
            raise InvalidInputError(
                f"There is no option {name!r}.",
                field="floors",
                value=name,
                remedy=suggestion(str(name), labels) or f"The options are {', '.join(labels)}.",
            )
        not_negative(floor, "floors")
    if not sum(floors.values()) < 1:
        raise InvalidInputError(
            f"`floors` must sum to less than 1; got {sum(floors.values()):g}.",
            field="floors",
            value=dict(floors),
            remedy="The rest is what the policy chooses by what it learns.",
        )


def check_plan_options(plan: Plan, *, provisional: bool, forecasts: bool, blocks: bool) -> None:
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
        changed: whether options were added or retired.
    """

    top: int = 1
    tolerance: float = 0.0
    control: bool = False
    changed: bool = False

    @property
    def sentences(self) -> tuple[str, ...]:
        """What the answer is about where each option moves by itself."""
        options = "option is the best"
        error = "it is ruled out although those that led were not ahead"
        if self.top > 1 or self.tolerance:
            options = f"{self.top} options are the best" if self.top > 1 else options
            error = "it is left out although one that is named was not ahead of it"
            if self.tolerance:
                error = f"one that is named was more than {self.tolerance:g} behind it"
        same = _SAME_ORDER if self.changed else _SAME.format(options=options)
        changes = f"{same} {_CHANGES.format(error=error)}"
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
        level: float | None = None,
        tilted: bool = False,
    ) -> Assumptions:
        """From bounds on every reward, or else from the scales of the problem.

        With blocks the baseline plays no part. Items of a finite population have bounds. The
        baseline lies around 0, or with bounds around a `level`, or anywhere. If a bound on it is
        used (`tilted`), rewards have to be x·θ and that baseline.
        """
        if bounds is not None and mean_bound is not None:
            raise InvalidInputError(
                "`mean_bound` has no part where rewards are bounded.",
                field="mean_bound",
                value=mean_bound,
                remedy="Give `bounds` or `mean_bound`, not both.",
            )
        own, closing = has_unrestricted_means(problem) and not tilted, tuple[str, ...]()
        if items is not None:
            world = _ITEMS.format(items=items)
        elif own:
            world, closing = _OWN_BLOCKS if blocks else _OWN, question.sentences
        else:
            world = _BLOCKS if blocks else _DRAWN if problem.drifts else _STILL
        if bounds is not None:
            low, high = bounds[0] + 0.0, bounds[1] + 0.0  # −0.0 is printed as 0
            # Where Σ p w need not be 0, nothing but the level drops out of Lemma 1.
            center = low / 2 + high / 2 if problem.drifts else 0.0
            within = f"Every reward lies between {low:g} and {high:g}"
            if level is not None:
                center = finite(level, "level")
                within += f", and the baseline within {problem.baseline:g} of {level:g}"
            scale = Scale(low - center, high - center, center=center)
            return cls(scale, (world, f"{within}.", *closing), (low, high))
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

    def contradicted_by(
        self,
        sums: tuple[Array | Counts, Array, Array],
        extremes: tuple[Array, Array, Array] | None,
        *,
        low: Array,
        high: Array,
        shift: float,
        labels: tuple[str, ...],
    ) -> Flags:
        """In which runs no rewards within the limits have these totals, but for rare noise.

        Rewards at most h from the middle m have |Σ(r − m)| ≤ nh and Σ(r − m)² ≤ nh². Adding up n
        of them may lose nε of the sum of their sizes, so that much is let pass: where totals are
        about a number many times farther from m than h, squares say little, sums still much. Where
        the least and the largest reward are known, they must lie in the range themselves.

        Args:
            sums: counts, Σx and Σx² of rewards less a center; (runs, arms).
            extremes: the least and the largest x, and Σx³, where these are known.
            low: where rewards lie, less their forecasts and the center of the range; (runs,).
            high: the other end; (runs,).
            shift: the center of the totals less that of the range.
            labels: the arms' names.

        Raises:
            InvalidInputError: no rewards have these totals, or rewards are bounded, and these
                cannot be.
        """
        n, first, second = (np.asarray(part, dtype=float) for part in sums)
        relative = 4 * (n + ROUNDINGS) * EPSILON
        squares = np.maximum(second, 0.0)
        impossible = (second < 0) | (first * first > n * squares * (1 + relative))
        half, off = ((high - low) / 2)[:, None], (shift - (low + high) / 2)[:, None]
        size = half + np.abs(off)
        lost = EPSILON * (n + 8.0) * n * size
        total = first + off * n
        likely = self.scale.noise * math.sqrt(2 * CONTRADICTION_NATS)
        outside = np.abs(total) > half * n + likely * np.sqrt(n) + lost
        if self.bounds is not None:
            most = half * half * n + 4 * size * lost
            outside |= (n > 0) & (second + off * (first + total) > most)
        if extremes is not None:
            least, largest, _ = extremes
            slack = relative * np.sqrt(n * squares)
            impossible |= (n * least > first + slack) | (n * largest < first - slack)
            if self.bounds is not None:
                slack = 8 * EPSILON * size
                beyond = (least + off < -half - slack) | (largest + off > half + slack)
                outside |= (n > 0) & beyond
        if impossible.any():
            label = labels[np.argwhere(impossible)[0, 1]]
            raise InvalidInputError(
                f"The totals of option {label!r} contradict each other.",
                field="summary",
                value=label,
                remedy="Squares, cubes and extremes are of (reward − center), all of one center.",
            )
        if outside.any() and self.bounds is not None:
            label, (lowest, highest) = labels[np.argwhere(outside)[0, 1]], self.bounds
            raise InvalidInputError(
                f"The rewards of option {label!r} cannot all lie between {lowest:g} and "
                f"{highest:g}.",
                field="summary",
                value=label,
                remedy="Make the policy with `bounds` that hold for every reward.",
            )
        return np.asarray(outside.any(axis=1))
