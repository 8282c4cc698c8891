"""Preferences: which option beats all others, if one does?"""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bestarm.checks import not_negative, whole
from bestarm.errors import InvalidInputError, ProtocolError
from bestarm.numerics.geometry import Array
from bestarm.policies.policy import Policy, Traits, check_adoptable, has_stopped, same_plan
from bestarm.policies.stepwise import require_pullable_targets
from bestarm.problem import Problem, as_problem
from bestarm.recommendation import Recommendation
from bestarm.records import BlockPlan, Plan, Summary

#: What comes of a comparison: one option beats all others; one is within the tolerance of that;
#: none does; or that is not decided.
Outcome = Literal["winner", "within tolerance", "cycle", "undecided"]

# λ of the bets, with equal shares: small ones find small leads.
STAKES: Array = np.geomspace(0.9, 0.015, 10)
_FIRST, _GROWTH = 8, 10  # comparisons of a plan: so many, and later a tenth of those of its pair


def log_wealth(wins: Array, neither: Array, lost: Array, tolerance: float = 0.0) -> Array:
    """log W_ij: the evidence that i is preferred to j more often than j to i, less a tolerance m.

    A comparison gives s = 1, 0 or −1 as i, neither or j was preferred, −1 if its outcome was lost.
    Given the past, E s ≤ q_ij whatever the pair, if its item and its order are drawn at random. So
    Π (1 + λ(s + m)) is a supermartingale as long as q_ij ≤ −m, and so is its average over stakes.

    Args:
        wins: how often i was preferred to j, in the last two axes.
        neither: how often neither was.
        lost: how often the outcome was lost.
        tolerance: m.
    """
    losses = np.swapaxes(wins, -1, -2) + lost
    total = sum(
        count[..., None] * np.log1p(STAKES * (value + tolerance))
        for count, value in ((wins, 1.0), (neither, 0.0), (losses, -1.0))
    )
    return np.asarray(np.logaddexp.reduce(total, axis=-1) - np.log(len(STAKES)))


class Standing(NamedTuple):
    """What comparisons show, and which pair comes next; arrays have one entry per run.

    Attributes:
        unbeaten: by option, whether it is shown to beat all others, or to be within the tolerance.
        beaten: by option, whether another is shown to beat it.
        leader: the option that lacks least evidence.
        first: an option of the next pair, or −1 if no pair is left to compare.
        second: the other one.
    """

    unbeaten: NDArray[np.bool_]
    beaten: NDArray[np.bool_]
    leader: NDArray[np.intp]
    first: NDArray[np.intp]
    second: NDArray[np.intp]


def read_standing(
    wins: Array, neither: Array, lost: Array, *, delta: float, tolerance: float, items: int
) -> Standing:
    """Decide, with an error of at most δ for all answers together.

    Of H options, i is named when min_j W_ij ≥ H/δ, and none when for every i some W_ji ≥ H/δ. If c
    beats all others, each wrong answer needs W_jc ≥ H/δ for some j ≠ c: H − 1 events. If none does,
    naming i needs W_ij ≥ H/δ for one j with q_ij ≤ 0, fixed by i: H events. With a tolerance both
    families can be needed at once, and the threshold is 2H/δ.

    Next come the option that lacks least evidence, and the opponent against whom it lacks most. No
    pair is left once no answer is possible any more.
    """
    options = wins.shape[-1]
    needed = np.log((2 if tolerance else 1) * options / delta)
    itself = np.eye(options, dtype=np.bool_)
    beats = log_wealth(wins, neither, lost)
    within = log_wealth(wins, neither, lost, tolerance) if tolerance else beats
    shown = (within >= needed) | itself
    beaten = ((beats >= needed) & ~itself).any(axis=-2)
    missing = np.where(shown, 0.0, needed - within + np.swapaxes(beats, -1, -2))
    total = np.maximum(missing, 0.0).sum(axis=-1) + np.where(beaten, 1e9, 0.0)
    compared = wins + np.swapaxes(wins, -1, -2) + neither + lost
    is_open = ~shown & (compared < items)
    # An option that is not beaten and has no pair left rules out that none beats all. What others
    # do matters then only as long as one of them may still be named.
    over = (~beaten & ~is_open.any(axis=-1)).any(axis=-1, keepdims=True)
    possible = (shown | is_open).all(axis=-1) & ~beaten
    left = np.where(is_open.any(axis=-1) & (possible | ~over), total, np.inf)
    first = left.argmin(axis=-1)
    rows = np.take_along_axis(np.where(is_open, missing, -np.inf), first[..., None, None], axis=-2)[
        ..., 0, :
    ]
    none = np.isinf(left.min(axis=-1))
    return Standing(
        shown.all(axis=-1),
        beaten,
        total.argmin(axis=-1),
        np.where(none, -1, first),
        np.where(none, -1, rows.argmax(axis=-1)),
    )


def next_pulls(made: int, items: int) -> int:
    """The comparisons of the next plan of a pair, after those made of it."""
    return min(max(_FIRST, made // _GROWTH), items - made)


class Preferences(Policy):
    """Compare two options at a time until one is shown to beat all others, or none to.

    A plan is of one pair. The arm that is drawn is the option that is shown first: each of the two
    with probability ½, so that a preference for a place drops out of the mean. The reward is 1 if
    the first one was preferred, −1 if the second, and 0 if neither.

    Args:
        problem: the problem; its targets must be its source arms, and its features are not used.
        items: how often a pair is compared at most.
        tolerance: how much more often than it wins, relative to all comparisons, the named option
            may lose against another.
        seed: accepted like every policy's; nothing is drawn.

    Attributes:
        pairs: the two options of each plan so far.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.evaluation.preferences import Preferences
        >>> Preferences(Problem(["a", "b", "c"]), items=9).plan().weights.tolist()
        [0.5, 0.5, 0.0]
    """

    version: ClassVar[int] = 1

    def __init__(
        self,
        problem: Problem,
        *,
        items: int,
        tolerance: float = 0.0,
        seed: int = 0,  # noqa: ARG002
    ) -> None:
        self.problem = as_problem(problem)
        require_pullable_targets(problem, "A comparison of preferences")
        self._items = whole(items, "items", least=1)
        self._tolerance = below_one(tolerance)
        self._wins, self._neither, self._lost = np.zeros((3, problem.arms, problem.arms))
        self._open: Plan | None = None
        self._pulls = 0
        self.pairs: list[tuple[int, int]] = []
        self._told = 0
        self._read()

    @property
    def traits(self) -> Traits:
        """What the policy declares about itself."""
        return Traits(version=self.version, bounds=(-1.0, 1.0), margin=self._tolerance)

    @property
    def outcome(self) -> Outcome:
        """What is shown so far."""
        if self._standing.unbeaten.any():
            return "within tolerance" if self._tolerance else "winner"
        return "cycle" if self._standing.beaten.all() else "undecided"

    @property
    def beaten(self) -> tuple[int, ...]:
        """The options that another one is shown to beat."""
        return tuple(np.flatnonzero(self._standing.beaten).tolist())

    def plan(self) -> Plan | None:
        """The next comparisons, of one pair."""
        if self._open is None and self._stopped is None:
            first, second = int(self._standing.first), int(self._standing.second)
            weights = np.zeros(self.problem.arms)
            weights[[first, second]] = 0.5
            made = self._compared(first, second)
            pulls = next_pulls(made, self._items)
            phase = len(self.pairs) + 1
            self._begin(Plan.randomised(weights, pulls, phase=phase, open=True, most=pulls))
        return self._open

    def update(self, summary: Summary) -> None:
        """Take the outcome of the plan, and go on or stop."""
        plan = self.plan()
        if plan is None:
            raise has_stopped()
        plan.check(summary)
        pair = self.pairs[-1]
        # Of rewards 1, 0 and −1 the sum and the sum of squares tell how many there are of each.
        won, lost = (summary.squares + summary.rewards) / 2, (summary.squares - summary.rewards) / 2
        if not all(np.array_equal(part, np.round(part)) for part in (won, lost)):
            raise InvalidInputError(
                "The outcome of a comparison is 1, 0 or −1.",
                field="summary",
                value=summary,
                remedy="Tell 1 if the option shown first was preferred, −1 if the other one was.",
            )
        for one, other in (pair, pair[::-1]):
            self._wins[one, other] += won[one] + lost[other]
            self._neither[one, other] += summary.counts[list(pair)].sum() - summary.squares.sum()
            self._lost[one, other] += summary.missing_pulls
        self._pulls += summary.pulls
        self._told += 1
        self._open = None
        self._read()

    def adopt(self, plan: Plan) -> None:
        """Make a recorded plan the current one."""
        phase = None if self._stopped is not None else self._told + 1
        check_adoptable(plan, self.problem, phase=phase, kind="randomised")
        if self._open is not None and same_plan(self._open, plan):
            return
        pair = np.flatnonzero(plan.shares).tolist()
        fits = not isinstance(plan, BlockPlan) and len(pair) == 2
        fits = fits and bool((plan.probabilities[pair] == 0.5).all())
        if not fits or plan.pulls > self._items - self._compared(*pair) or plan.provisional:
            raise ProtocolError(
                f"The plan of phase {plan.phase} is not one of a comparison of preferences.",
                field="plan",
                value=plan.phase,
                remedy="Adopt a plan that this policy made, with the same `items`.",
            )
        self._begin(plan)

    def _begin(self, plan: Plan) -> None:
        first, second = np.flatnonzero(plan.shares).tolist()
        self.pairs[self._told :] = [(first, second)]
        self._open = plan

    def _compared(self, one: int, other: int) -> int:
        parts = self._wins[one, other], self._wins[other, one]
        return int(sum(parts) + self._neither[one, other] + self._lost[one, other])

    def _read(self) -> None:
        self._standing = read_standing(
            self._wins,
            self._neither,
            self._lost,
            delta=self.problem.delta,
            tolerance=self._tolerance,
            items=self._items,
        )
        self._stopped: str | None = None
        if self.outcome != "undecided":
            self._stopped = "cycle" if self.outcome == "cycle" else "identified"
        elif self._standing.first < 0:
            self._stopped = "exhausted"

    def recommend(self) -> Recommendation:
        """The option that is shown to beat all others, or the one that lacks least evidence.

        If none beats all others, that is what the statement says, and the answer is not final: no
        option is the best.
        """
        final = self._stopped == "identified"
        standing, claims = self._standing, self.problem.delta
        target = int(standing.unbeaten.argmax() if final else standing.leader)
        active = tuple(np.setdiff1d(np.arange(self.problem.arms), self.beaten).tolist())
        return Recommendation(
            target=target,
            label=self.problem.target_labels[target],
            final=final,
            reason=self._stopped or "running",
            pulls=self._pulls,
            error_bound=claims if final else None,
            active=active or tuple(range(self.problem.arms)),
            assumptions=(
                "Items are drawn at random, with replacement, and the order of the two options by "
                "a fair coin.",
            ),
            statement=self._statement(target),
            claims=claims,
            leads=bool(self._pulls),
        )

    def _statement(self, target: int) -> str:
        name, options = self.problem.target_labels[target], self.problem.arms
        others = f"each of the {options - 1} other options" if options > 2 else "the other option"
        found = {
            "winner": f"{name!r} beats {others}.",
            "within tolerance": f"{name!r} beats {others}, or loses to it by at most "
            f"{self._tolerance:g} (share of comparisons lost less share won).",
            "cycle": "No option beats all others: each one is beaten by another.",
        }
        if self.outcome in found:
            return (
                f"{found[self.outcome]} The probability that this rule ever says so wrongly, at "
                f"any of its looks, is at most {self.problem.delta:g}."
            )
        if not self._pulls:
            return "Nothing is compared yet."
        ended = ", and all items are used up" if self._stopped == "exhausted" else ""
        return f"Not decided after {self._pulls:,} comparisons{ended}: {name!r} leads."


def below_one(tolerance: float) -> float:
    """A tolerance of preferences, which must lie below 1."""
    if not_negative(tolerance, "tolerance") < 1:
        return float(tolerance)
    raise InvalidInputError(
        f"`tolerance` must be below 1 where options are compared; got {tolerance!r}.",
        field="tolerance",
        value=tolerance,
        remedy="It is by how much of all comparisons the losses may exceed the wins, as 0.05.",
    )
