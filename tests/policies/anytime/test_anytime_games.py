"""The anytime rule against an adversary who knows everything, solved backwards.

Pulls come one at a time, with rewards of 0 or 1. Before each the adversary, who has seen all that
happened, sets the baseline; it may also retire an option, or decide that the outcome is lost, and
when it is told. It may stop at any time, and has then what the rule shows against a target
that is right: more than 1 on average would break Lemma 4. Chances are exact fractions. The mean is
linear in the baseline, so that its two ends are enough: the value is that of all baselines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from anytime_runs import made_for_short_runs

from bestarm import AnytimeBAI, Problem, Summary
from bestarm.numerics.geometry import Array
from bestarm.policies.anytime import bets
from bestarm.policies.anytime.bets import Frame
from bestarm.policies.anytime.certificates import GoodEnoughEvidence
from bestarm.policies.anytime.evidence import Account, BestTargetEvidence
from bestarm.policies.anytime.sampler import IndependentSampler

NEVER = 1e-12  # δ so small that nothing is ruled out: wealth can be read off at every look
ROUNDED = Fraction(1, 10**12)

# A pull whose outcome is outstanding: its phase, its arm, and its reward, or None if it is lost.
Waiting = tuple[tuple[int, int, int | None], ...]


@pytest.fixture(autouse=True)
def one_pull_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans of one pull, and stakes that are large enough to matter within a few."""
    made_for_short_runs(monkeypatch)
    monkeypatch.setattr(IndependentSampler, "sizes", lambda _, pulls: np.ones_like(pulls))


def rule(
    features: object = ("a", "b", "c"), *, baseline: float = 1.0, **options: Any
) -> AnytimeBAI:
    named = list(features) if isinstance(features, tuple) else features
    problem = Problem(named, delta=NEVER, baseline=baseline)
    return AnytimeBAI(problem, bounds=(0, 1), **options)


def copied(policy: AnytimeBAI) -> AnytimeBAI:
    """A copy to go on with; what never changes is shared."""
    shared = (policy.problem, policy._grid, policy._assumptions, *policy._past)
    return deepcopy(policy, {id(each): each for each in shared})


@dataclass(frozen=True)
class Game:
    """What the adversary may do, and what it has when it stops.

    Attributes:
        means: x·θ of every arm.
        gain: what it has.
        retired: options that it may retire.
        late: whether the outcome of the last pull comes late, or is lost.
        naive: whether options are retired as if they had been ruled out.
        levels: between which the baseline has to stay, or None: anything that fits the bounds.
    """

    means: tuple[Fraction, ...]
    gain: Callable[[AnytimeBAI], float]
    retired: tuple[int, ...] = ()
    late: bool = False
    naive: bool = False
    levels: tuple[Fraction, Fraction] | None = None

    def value(self, policy: AnytimeBAI, pulls: int, waiting: Waiting = ()) -> Fraction:
        """The largest mean of the gain, with so many pulls to come."""
        best = Fraction(self.gain(policy))
        for after, still in self._choices(policy, waiting):
            best = max(best, self.value(after, pulls, still))
        if pulls:
            for lost in (False, True) if self.late and pulls == 1 else (False,):
                best = max(best, self._pull(policy, pulls, waiting, lost))
        return best

    def _choices(
        self, policy: AnytimeBAI, waiting: Waiting
    ) -> Iterator[tuple[AnytimeBAI, Waiting]]:
        """What may be done before a pull."""
        left = policy._targets.present
        for option in self.retired:
            if option in left and len(left) > 2:
                after = copied(policy)
                if self.naive:
                    after._evidence.left[0, option] = False  # type: ignore[union-attr]
                after.retire(option)
                yield after, waiting
        for place, (phase, arm, reward) in enumerate(waiting):
            after = copied(policy)
            after.plan()
            after.amend(outcome(after, arm, reward), phase=phase)
            yield after, waiting[:place] + waiting[place + 1 :]

    def _pull(self, policy: AnytimeBAI, pulls: int, waiting: Waiting, lost: bool) -> Fraction:
        """The mean of the value after a pull, under the baseline for which it is largest."""
        plan = policy.plan()
        assert plan is not None
        assert plan.weights is not None
        chances = {a: Fraction(float(p)) for a, p in enumerate(plan.weights) if p > 0}
        worth = {}
        for arm in chances:
            for reward in (0, 1):
                after, known = copied(policy), None if lost else reward
                if self.late and pulls == 1:
                    after.update(outcome(after, arm, None, pending=True))
                    still = (*waiting, (plan.phase, arm, known))
                else:
                    after.update(outcome(after, arm, reward))
                    still = waiting
                worth[arm, reward] = self.value(after, pulls - 1, still)
        means = {arm: self.means[arm] for arm in chances}
        ends = self.levels or (-min(means.values()), 1 - max(means.values()))
        return max(self._mean(chances, means, worth, level) for level in ends)

    @staticmethod
    def _mean(
        chances: dict[int, Fraction],
        means: dict[int, Fraction],
        worth: dict[tuple[int, int], Fraction],
        level: Fraction,
    ) -> Fraction:
        total = Fraction(0)
        for arm, chance in chances.items():
            rate = level + means[arm]
            total += chance * (rate * worth[arm, 1] + (1 - rate) * worth[arm, 0])
        return total / sum(chances.values())


def outcome(policy: AnytimeBAI, arm: int, reward: int | None, *, pending: bool = False) -> Summary:
    """One pull: its reward; or that there is none, or none yet."""
    plan = policy.plan()
    assert plan is not None
    if reward is not None:
        return Summary.from_pulls([arm], [float(reward)], size=plan.arms, center=plan.center)
    none, one = np.zeros(plan.arms), (np.arange(plan.arms) == arm).astype(np.int64)
    parts = (0 * one, one) if pending else (one, 0 * one)
    return Summary(0 * one, none, none, *parts, plan.center, none, none, 0.0, none)


def wealth_of(account: Account, policy: AnytimeBAI) -> Array:
    """Against every target, after all pulls."""
    *_, last = (each.copy() for each in account.prefixes())
    return np.asarray(np.exp(policy._grid.log_value(last.sum(axis=0))))


def against(target: int) -> Callable[[AnytimeBAI], float]:
    """The wealth against a target."""

    def gain(policy: AnytimeBAI) -> float:
        assert isinstance(policy._evidence, BestTargetEvidence)
        return float(wealth_of(policy._evidence._account, policy)[target])

    return gain


PLAIN = ("a", "b", "c")
NONE, SOME, ALL = Fraction(0), Fraction(1, 4), Fraction(1)
WITH_FEATURES = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]


@pytest.mark.parametrize(
    ("features", "means"),
    [
        (PLAIN, (NONE, NONE, NONE)),
        (PLAIN, (NONE, SOME, NONE)),
        (PLAIN, (NONE, ALL, NONE)),  # then rewards tell the baseline, and lie at their bounds
        (WITH_FEATURES, (NONE, SOME, Fraction(0.8) * SOME)),
    ],
    ids=["tied", "ahead", "far ahead", "with features"],
)
def test_nobody_gains_by_the_wealth_against_the_best(
    features: object, means: tuple[Fraction, ...]
) -> None:
    """Plans, guesses and opponents follow the rewards."""
    assert Game(means, against(1)).value(rule(features), 3) <= 1 + ROUNDED


def test_by_that_against_another_somebody_does() -> None:
    """So that the test above can fail."""
    assert Game((SOME, NONE, NONE), against(1)).value(rule(), 3) > 1.02


# --- a small baseline -----------------------------------------------------------------------------


NO_ORIGIN = [[1.0, 0.0], [0.0, 1.0], [0.9, 0.45], [0.3, -0.2]]
SMALL = 0.125  # R, about a level of ½


def test_nobody_gains_by_a_level_within_the_declared_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights sum to what was learned in the first pull, and are charged for it (Lemma 5)."""
    half, bound = Fraction(1, 2), Fraction(SMALL)
    game = Game((NONE, NONE, NONE, NONE), against(2), levels=(half - bound, half + bound))
    policy = rule(NO_ORIGIN, baseline=SMALL, level=0.5)
    assert game.value(policy, 2) <= 1 + ROUNDED
    honest = Frame.weigh

    def free_of_charge(frame: Frame, contrasts: Array, margin: float = 0.0) -> tuple[Array, Array]:
        w, charges = honest(frame, contrasts, margin)
        return w, 0.0 * charges

    monkeypatch.setattr(Frame, "weigh", free_of_charge)
    assert game.value(policy, 2) > 1.005


# --- retired --------------------------------------------------------------------------------------


def once_the_better_ones_left(target: int, means: tuple[Fraction, ...]) -> Callable[..., float]:
    """The wealth against a target, as it counts, once no option that is left is better; else 0."""

    def gain(policy: AnytimeBAI) -> float:
        evidence = policy._evidence
        assert isinstance(evidence, BestTargetEvidence)
        if any(means[each] > means[target] for each in policy._targets.present):
            return 0.0
        return math.exp(evidence.log_evidence()[target] - evidence._capital[target])

    return gain


def after_one_pull(policy: AnytimeBAI, arm: int, reward: int) -> AnytimeBAI:
    policy.update(outcome(policy, arm, reward))
    return policy


def test_nobody_gains_by_retiring_a_better_one() -> None:
    """Whoever retires c may wait for when that hurts b most; where nothing is counted it gains.

    After the first pull, in which b bets against a alone.
    """
    means = (NONE, NONE, ALL)
    start = after_one_pull(rule(changes=True), 0, 1)
    wealth = Fraction(against(1)(start))
    gain = once_the_better_ones_left(1, means)
    assert Game(means, gain, retired=(2,)).value(start, 2) <= wealth * (1 + ROUNDED)
    assert Game(means, gain, retired=(2,), naive=True).value(start, 2) > wealth * Fraction(1.03)


# --- good enough ----------------------------------------------------------------------------------


def certificate_of(candidate: int, best: int) -> Callable[[AnytimeBAI], float]:
    """The wealth against "the best is better by more than ε", or 0 while none was begun."""

    def gain(policy: AnytimeBAI) -> float:
        evidence = policy._evidence
        assert isinstance(evidence, GoodEnoughEvidence)
        found = [each for each in evidence._led if each.candidate == candidate]
        return float(wealth_of(found[0].account, policy)[best]) if found else 0.0

    return gain


def test_nobody_gains_by_when_a_certificate_begins() -> None:
    """It begins when its candidate first leads; at the tolerance itself it is only just fair."""
    game = Game((NONE, SOME), certificate_of(0, 1))
    assert game.value(rule(("a", "b"), tolerance=float(SOME)), 3) <= 1 + ROUNDED
    assert game.value(rule(("a", "b"), tolerance=2 * float(SOME)), 3) > 1.01


# --- late and lost --------------------------------------------------------------------------------


def test_nobody_gains_by_delays_and_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether an outcome is lost is settled before the draw; when it is told follows from it.

    A pull that is outstanding counts for 1 at most: of an option that a bet is not about it could
    else be more than it is when it is lost.
    """
    game, start = Game((NONE, NONE, NONE), against(1), late=True), after_one_pull(rule(), 1, 0)
    wealth, honest = Fraction(against(1)(start)), bets.bet_losses
    assert game.value(start, 2) <= wealth * (1 + ROUNDED)

    def uncapped(*given: Any, capped: bool) -> Array:
        return honest(*given, capped=False)

    monkeypatch.setattr(bets, "bet_losses", uncapped)
    assert game.value(start, 2) > wealth * Fraction(1.01)
