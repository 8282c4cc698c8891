"""The betting of the anytime rule: exact expectations, and what would break it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from anytime_runs import make_frame
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from bestarm import Summary
from bestarm.numerics.geometry import Array
from bestarm.policies.anytime.bets import (
    STAKES,
    BatchOutcome,
    Bets,
    Frame,
    Scale,
    StakeGrid,
    Totals,
    cost,
    log_loss,
)
from bestarm.policies.anytime.intervals import lower_ends
from bestarm.policies.anytime.readout import read
from bestarm.records import Counts


def frame_of(
    rng: np.random.Generator, scale: Scale, *, arms: int = 5, rank: int = 2, pulls: int = 100
) -> tuple[Frame, Array]:
    """A frame with nothing special about it, and its arms' coordinates."""
    coordinates = rng.normal(size=(arms, rank))
    weights, guess = rng.dirichlet(np.ones(arms)), rng.uniform(scale.low, scale.high, arms)
    spread = rng.uniform(0.2, 2.0, arms)
    made = make_frame(coordinates, weights, guess=guess, spread=spread, scale=scale, pulls=pulls)
    return made, coordinates


def one_pull(arm: int, reward: float, arms: int) -> Summary:
    return Summary.from_pulls([arm], [reward], size=arms)


def factor(bets: Bets, arm: int, reward: float, arms: int) -> Array:
    """exp of the log growth that one pull brings: contrasts × stakes."""
    return np.exp(bets.log_growth(BatchOutcome(bets.frame, one_pull(arm, reward, arms))))


@pytest.mark.parametrize("seed", range(20))
def test_wealth_does_not_grow_on_average_under_any_baseline_with_bounded_rewards(
    seed: int,
) -> None:
    """The expectation over arm and reward, exactly: rewards are at one of the two bounds.

    That law has the largest variance, and baselines at either end make z as skewed as it gets.
    """
    rng = np.random.default_rng(seed)
    frame, coordinates = frame_of(rng, Scale(-1.0, 3.0))
    theta = rng.normal(size=2)
    theta *= 2.0 / np.ptp(coordinates @ theta)
    means = coordinates @ theta
    contrasts = rng.normal(size=(6, 2))
    # y·θ = 0 is the border of the hypothesis, y·θ < 0 its inside.
    contrasts -= np.outer(contrasts @ theta + rng.choice([0.0, 0.3], 6), theta) / (theta @ theta)
    bets = frame.bets(contrasts)
    for level in np.linspace(-1.0 - means.min(), 3.0 - means.max(), 5):
        expectation = np.zeros((6, len(STAKES)))
        for arm, weight in enumerate(frame.weights[0]):
            high = (means[arm] + level + 1.0) / 4.0
            for reward, chance in ((-1.0, 1 - high), (3.0, high)):
                expectation += weight * chance * factor(bets, arm, reward, 5)
        assert (expectation <= 1 + 1e-12).all()
        assert expectation.max() > 0.9  # stakes small enough to matter lose next to nothing


@pytest.mark.parametrize("noise", [0.3, 1.0])
@pytest.mark.parametrize("level", [-2.0, 0.0, 2.0])
def test_wealth_does_not_grow_on_average_under_gaussian_noise(level: float, noise: float) -> None:
    """By quadrature over the noise, with guesses at the far end and a baseline at its bound."""
    nodes, chances = np.polynomial.hermite_e.hermegauss(120)
    chances = chances / chances.sum()
    rng = np.random.default_rng(1)
    coordinates = rng.normal(size=(4, 2))
    theta = np.array([1.0, 0.5]) / np.abs(coordinates @ [1.0, 0.5]).max()
    scale = Scale(-3.0, 3.0, noise)
    for pulls in (0, 10_000):
        frame = make_frame(
            coordinates,
            np.array([0.4, 0.3, 0.2, 0.1]),
            guess=np.full(4, -3.0 * np.sign(level)),
            spread=np.full(4, 1.0),
            scale=scale,
            pulls=pulls,
        )
        bets = frame.bets(np.array([[0.5, -1.0], [-0.5, 1.0]]))  # both have y·θ = 0
        expectation = np.zeros((2, len(STAKES)))
        for arm, weight in enumerate(frame.weights[0]):
            for node, chance in zip(nodes, chances, strict=True):
                reward = float(coordinates[arm] @ theta) + level + noise * node
                expectation += weight * chance * factor(bets, arm, reward, 4)
        assert (expectation <= 1 + 1e-9).all()


def exact_growth(bets: Bets, arms: Counts, rewards: Array, stakes: Array) -> Array:
    """Σ log(1 + λz) + λ(Σ p w c + margin − κ), pull by pull."""
    frame = bets.frame
    weights, guess = frame.weights[0], frame.guess[0]
    z = bets.w[:, arms] * (rewards - guess[arms])
    size = np.abs(bets.w) @ weights
    offset = bets.w @ (weights * guess) + bets.margin - frame.tail * size
    logs = np.log1p(stakes[:, :, None] * z[:, None, :]).sum(axis=2)
    return np.asarray(logs + len(arms) * stakes * offset[:, None])


@pytest.mark.parametrize(
    ("scale", "spread"),
    [(Scale(0.0, 1.0), 0.4), (Scale(-50.0, 50.0), 0.5), (Scale(-50.0, 50.0), 40.0)],
    ids=["bounds within reach", "bounds far out", "bounds far out, and rewards there"],
)
def test_totals_never_say_more_than_the_pulls_do(scale: Scale, spread: float) -> None:
    """Whatever the rewards, far falls included: what totals show is a lower bound on the wealth."""
    rng = np.random.default_rng(2)
    for _ in range(50):
        frame, _ = frame_of(rng, scale)
        bets = frame.bets(rng.normal(size=(3, 2)))
        arms = rng.integers(0, 5, 50)
        noise = rng.uniform(-spread, spread, 50)
        rewards = np.clip(frame.guess[0, arms] + noise, scale.low, scale.high)
        summary = Summary.from_pulls(arms, rewards, size=5)
        stakes, growth = bets.settle(BatchOutcome(frame, summary))
        exact = exact_growth(bets, arms, rewards, stakes)
        assert (growth <= exact + 1e-9).all()
        np.testing.assert_allclose(growth[:, 12:], exact[:, 12:], atol=0.02)  # and hardly less


def test_falls_that_totals_rule_out_cost_nothing() -> None:
    """Bounds far wider than the rewards: the largest stake pays for the squares that were seen."""
    rng = np.random.default_rng(3)
    even, unit = np.full(2, 0.5), np.full(2, 1.0)
    frame = make_frame(
        np.array([[-0.5], [0.5]]),
        even,
        guess=np.zeros(2),
        spread=unit,
        scale=Scale(-300.0, 300.0),
    )
    arms, rewards = rng.integers(0, 2, 50), rng.normal(size=50)
    bets = frame.bets(np.array([[1.0]]))
    stakes, growth = bets.settle(BatchOutcome(frame, Summary.from_pulls(arms, rewards, size=2)))
    z = bets.w[0, arms] * rewards
    largest = stakes[0, 0]
    assert largest * 600 == pytest.approx(0.9)  # λC
    cost = largest * z.sum() - growth[0, 0]
    assert 1 <= cost / (largest**2 * (z @ z) / 2) < 1.02


NOISY = Scale(-0.5, 0.5, noise=0.1)


def noisy_batch(lowest: float) -> tuple[Bets, Counts, Array]:
    """Bets on two arms with noise, and pulls: many rises, and one fall of the second arm."""
    frame = make_frame(
        np.array([[-0.5], [0.5]]),
        np.full(2, 0.5),
        guess=np.zeros(2),
        spread=np.full(2, 0.1),
        scale=NOISY,
    )
    rng = np.random.default_rng(6)
    arms = np.repeat([0, 1], 25)
    rewards = np.concatenate([rng.uniform(-0.5, 0.1, 25), rng.uniform(-0.1, 0.5, 25)])
    rewards[-1] = lowest
    return frame.bets(np.array([[1.0]])), arms, rewards


def farthest_falls(bets: Bets) -> Array:
    """C of each contrast: how far z can fall below zero before noise is charged for."""
    frame = bets.frame
    below = frame.guess[0] - (frame.low - frame.reach)
    above = frame.high + frame.reach - frame.guess[0]
    return np.asarray(np.maximum(bets.w * below, -bets.w * above).max(axis=1))


def forms(bets: Bets, arms: Counts, rewards: Array, stakes: Array) -> tuple[Array, Array, Array]:
    """Log wealth of one contrast for each stake (docs/anytime.md): what is bet, with G of Lemma 3,
    and what either form of Lemma 2 shows of it."""
    frame, w = bets.frame, bets.w[0]
    weights, guess, tail = frame.weights[0], frame.guess[0], frame.tail[0]
    fall = farthest_falls(bets)[0]  # C
    residuals = rewards - guess[arms]
    z = w[arms] * residuals
    deepest = min(-z.min(), fall)  # F
    even = len(z) * (w @ (weights * guess))
    even -= len(z) * tail * (np.abs(w) @ weights)
    highest, inside = z.max(), z >= -fall  # M
    logs = np.array([np.log1p(stake * z[inside]).sum() for stake in stakes])
    logs -= h(-stakes * fall) * stakes**2 * (z[~inside] ** 2).sum()
    logs += stakes * z[~inside].sum()
    one = h(-stakes * deepest) * (z**2).sum()
    two = h(-stakes * deepest) * (z**2 * (highest - z)).sum()
    two += h(stakes * highest) * (z**2 * (z + deepest)).sum()
    taken = one, two / (deepest + highest)
    first, second = (stakes * z.sum() - stakes**2 * each for each in taken)
    return logs + stakes * even, first + stakes * even, second + stakes * even


def h(u: Array) -> Array:
    """(u − log(1 + u))/u²."""
    return np.asarray((u - np.log1p(u)) / u**2)


@pytest.mark.parametrize("lowest", [-0.3, -0.7, -0.8, -0.9, -1.5, -4.0])
def test_totals_never_say_more_than_the_pulls_do_with_noise_beyond_what_is_allowed_for(
    lowest: float,
) -> None:
    """Lemma 4: rewards below −0.788 make z fall below −C. Then the form with M is not used, though
    it would show more (docs/anytime.md, Lemma 3)."""
    bets, arms, rewards = noisy_batch(lowest)
    summary = Summary.from_pulls(arms, rewards, size=2)
    (stakes,), (growth,) = bets.settle(BatchOutcome(bets.frame, summary))
    exact, first, second = forms(bets, arms, rewards, stakes)
    assert (growth <= exact + 1e-12).all()
    beyond = lowest < -0.5 - NOISY.reach(np.array(0))[0]
    assert beyond == (lowest < -0.788)
    if lowest > -1.0:
        assert (second > first).all()
    np.testing.assert_allclose(growth, first if beyond else second, rtol=1e-6, atol=1e-9)


def test_what_totals_show_of_rewards_at_either_end_is_all_there_is() -> None:
    """Lemma 2 is an equality where every z is −F or M."""
    frame = make_frame(
        np.array([[-0.5], [0.5]]),
        np.full(2, 0.5),
        guess=np.zeros(2),
        spread=np.ones(2),
        scale=Scale(-1.0, 1.0),
    )
    rng = np.random.default_rng(7)
    arms, rewards = rng.integers(0, 2, 40), rng.choice([-1.0, 1.0], 40)
    bets = frame.bets(np.array([[1.0]]))
    stakes, growth = bets.settle(BatchOutcome(frame, Summary.from_pulls(arms, rewards, size=2)))
    exact = exact_growth(bets, arms, rewards, stakes)
    assert (growth <= exact).all()
    np.testing.assert_allclose(growth, exact, atol=1e-8)


@pytest.mark.parametrize("mean", [-1e-3, 0.0, 1e-3])
def test_series_and_closed_form_of_the_cost_agree(mean: float) -> None:
    """On both sides of where one takes over from the other, and never below h."""
    for u in mean + np.linspace(-1e-5, 1e-5, 21):
        exact = math.fsum((-u) ** k / (k + 2) for k in range(12))
        assert exact <= cost(np.array(u)) < exact + 1e-8


@settings(max_examples=200)
@given(
    z=st.lists(st.floats(-1.0, 30.0), min_size=1, max_size=12),
    stake=st.floats(1e-4, 0.9),
    wider=st.floats(0.0, 5.0),
)
def test_the_second_form_of_the_lemma_lies_between_the_first_and_the_truth(
    z: list[float], stake: float, wider: float
) -> None:
    """Lemma 2, for F and M that z reaches and for wider ones: those show less."""
    values = np.array(z)
    fall, rise = max(-values.min(), 1e-6), max(values.max(), 1e-6) + wider
    squares = values**2
    parts = (squares * (rise - values)).sum(), (squares * (values + fall)).sum()

    def loss(falling: float, rising: float) -> float:
        given = (np.array(part) for part in (fall, rise, falling, rising))
        return float(log_loss(np.array([stake]), *given)[0])

    shown = stake * values.sum() - loss(parts[0] / (fall + rise), parts[1] / (fall + rise))
    exact, first = np.log1p(stake * values).sum(), stake * values.sum()
    first -= loss(squares.sum(), 0.0)
    size = 1e-9 * (1 + stake**2 * squares.sum())
    assert first - size <= shown <= exact + size


def test_stakes_are_signals_over_the_deviation_of_z_short_of_ruin() -> None:
    """λ = min(S/D, 0.9/C): the same bet whatever the units of rewards and of the contrast."""
    rng = np.random.default_rng(8)
    coordinates, weights = rng.normal(size=(5, 2)), rng.dirichlet(np.ones(5))
    guess, spread = rng.uniform(-1.0, 1.0, 5), rng.uniform(0.2, 2.0, 5)
    contrasts, shares = rng.normal(size=(3, 2)), []
    none = Summary(np.zeros(5, dtype=int), np.zeros(5), np.zeros(5))
    for unit, size in ((1.0, 1.0), (1e3, 1.0), (1.0, 1e-3)):
        frame = make_frame(
            coordinates,
            weights,
            guess=unit * guess,
            spread=unit**2 * spread,
            scale=Scale(-unit, unit),
        )
        bets = frame.bets(size * contrasts)
        stakes = bets.settle(BatchOutcome(frame, none)).stakes
        deviation = np.sqrt(np.square(bets.w) @ (weights * unit**2 * spread))
        fall = farthest_falls(bets)
        capped = STAKES / deviation[:, None] > 0.9 / fall[:, None]
        assert capped.any()
        assert not capped.all()
        np.testing.assert_allclose((stakes * fall[:, None])[capped], 0.9)
        np.testing.assert_allclose((stakes * deviation[:, None] / STAKES)[~capped], 1.0)
        shares.append(stakes * deviation[:, None])
    np.testing.assert_allclose(shares[1:], [shares[0]] * 2)


def test_a_margin_is_that_much_of_a_head_start() -> None:
    rng = np.random.default_rng(3)
    frame, _ = frame_of(rng, Scale(0.0, 1.0))
    contrasts = rng.normal(size=(3, 2))
    summary = Summary.from_pulls(rng.integers(0, 5, 50), rng.uniform(size=50), size=5)
    plain, presampled = frame.bets(contrasts), frame.bets(contrasts, margin=0.2)
    batch = BatchOutcome(frame, summary)
    difference = presampled.log_growth(batch) - plain.log_growth(batch)
    np.testing.assert_allclose(difference, 50 * 0.2 * plain.settle(batch).stakes)


def test_a_missing_outcome_in_the_worst_case_is_no_better_than_any_it_could_have_had() -> None:
    rng = np.random.default_rng(4)
    frame, _ = frame_of(rng, Scale(-2.0, 1.0))
    bets = frame.bets(rng.normal(size=(4, 2)))
    none = np.zeros(5)
    for arm in range(5):
        lost = (np.arange(5) == arm).astype(int)
        batch = BatchOutcome(frame, Summary(none.astype(int), none, none, lost), worst_case=True)
        worst = bets.log_growth(batch)
        could = [np.log(factor(bets, arm, r, 5)) for r in np.linspace(-2.0, 1.0, 31)]
        np.testing.assert_allclose(worst, np.min(could, axis=0), atol=1e-12)
        assert batch.pulls == 1
        ignored = BatchOutcome(frame, batch.summary)
        assert not bets.log_growth(ignored).any()
        assert ignored.pulls == 0


def exact_pending(bets: Bets, row: int, stake: float) -> Decimal:
    """Σ over arms of the log of the least factor that one outcome each can have, to 50 digits."""
    weights, guess, low, high = bets.frame.weights[0], bets.frame.guess[0], -1.0, 3.0
    w = [Fraction(x) for x in bets.w[row]]
    guesses, chances = map(Fraction, guess), map(Fraction, weights)
    parts = (p * x * c for p, x, c in zip(chances, w, guesses, strict=True))
    offset, total = sum(parts, Fraction(bets.margin)), Decimal(0)
    with localcontext(prec=50):
        for x, c in zip(w, map(Fraction, guess), strict=True):
            least = 1 + Fraction(stake) * min(x * (Fraction(r) - c) for r in (low, high))
            total += (Decimal(least.numerator) / Decimal(least.denominator)).ln()
            more = Fraction(stake) * offset
            total += Decimal(more.numerator) / Decimal(more.denominator)
        return +total


@pytest.mark.parametrize("margin", [0.0, 0.3, -0.3])
@pytest.mark.parametrize("guess", [0.0, 0.01, 1.0])
def test_outstanding_outcomes_are_rounded_downwards(guess: float, margin: float) -> None:
    """Guesses of 0 leave nothing else that is rounded. Guardrails have margins below 0."""
    rng = np.random.default_rng(3)
    frame, _ = frame_of(rng, Scale(-1.0, 3.0), arms=60)
    frame = frame.with_guess(guess * frame.guess)
    bets = frame.bets(rng.normal(size=(4, 2)), margin=margin)
    none = np.zeros(60)
    summary = Summary(none.astype(int), none, none, pending=np.ones(60, dtype=int))
    stakes, growth = bets.settle(BatchOutcome(frame, summary, worst_case=True))
    for row, stake in np.ndindex(*growth.shape):
        exact, found = (
            exact_pending(bets, row, float(stakes[row, stake])),
            float(growth[row, stake]),
        )
        assert Decimal(found) <= exact
        assert float(exact) - found < 1e-12 * (1 + abs(found))


@pytest.mark.parametrize("margin", [0.3, -0.3])
def test_a_margin_is_rounded_downwards(margin: float) -> None:
    """Rewards and guesses of 0 leave nothing else. Guardrails have margins below 0."""
    rng = np.random.default_rng(4)
    frame, _ = frame_of(rng, Scale(-1.0, 3.0), arms=60)
    frame = frame.with_guess(0.0 * frame.guess)
    summary = Summary.from_pulls(rng.integers(0, 60, 1000), np.zeros(1000), size=60)
    bets = frame.bets(rng.normal(size=(4, 2)), margin=margin)
    stakes, growth = bets.settle(BatchOutcome(frame, summary))
    for stake, found in zip(stakes.ravel(), growth.ravel(), strict=True):
        assert Fraction(float(found)) <= 1000 * Fraction(float(stake)) * Fraction(margin)
    np.testing.assert_allclose(growth, 1000 * margin * stakes, rtol=1e-10)


def test_digits_lost_to_a_huge_level_are_not_evidence() -> None:
    """A level whose square swallows the noise: rounding alone must not make anybody rich."""
    level = 1e9
    frame = make_frame(
        np.array([[-1.0], [1.0]]),
        np.array([0.5, 0.5]),
        guess=np.full(2, level),
        spread=np.full(2, 1e-12),
        scale=Scale(0.0, 2 * level),
    )
    bets = frame.bets(np.array([[1.0], [-1.0]]))
    rng = np.random.default_rng(5)
    wealth = np.zeros((2, len(STAKES)))
    for _ in range(200):
        arms = rng.integers(0, 2, 50)
        summary = Summary.from_pulls(arms, level + 1e-3 * rng.normal(size=50), size=2)
        wealth += bets.log_growth(BatchOutcome(frame, summary))
    assert (StakeGrid.around(0.04).log_value(wealth) < 1.0).all()


@pytest.mark.parametrize("likely", [1e-9, 0.01, 0.04, 0.06, 0.3, 1e6])
def test_shares_add_up_to_one_at_most(likely: float) -> None:
    """After rounding too: with more, wealth would begin above 1. Little less, and none is lost."""
    grid = StakeGrid.around(likely)
    shares = np.exp(grid.log_shares)
    assert len(grid) == len(shares) == len(grid.signals)
    assert 1 - 1e-12 < math.fsum(shares) <= 1
    values = grid.log_value(np.zeros((2, 3, len(grid))))
    assert values.shape == (2, 3)
    assert (values > -1e-12).all()
    assert (values <= 0).all()


def test_shares_reach_every_scale_and_are_largest_where_stakes_are_likely() -> None:
    assert STAKES.max() / STAKES.min() > 1e4
    for likely in STAKES[[0, 4, 14]]:
        shares = np.exp(StakeGrid.around(likely).log_shares)
        assert STAKES[shares.argmax()] == likely
        assert shares.min() > 1e-9


def test_an_average_of_stakes_is_that_of_their_wealth() -> None:
    """Also where the wealth of some stakes is too large, or too small, to be a number."""
    grid = StakeGrid.around(0.04)
    logs = np.random.default_rng(9).uniform(-5.0, 5.0, (4, len(grid)))
    exact = np.log(np.exp(logs) @ np.exp(grid.log_shares))
    np.testing.assert_allclose(grid.log_value(logs), exact)
    np.testing.assert_allclose(grid.log_value(logs + 2000.0), exact + 2000.0)
    np.testing.assert_allclose(grid.log_value(logs - 2000.0), exact - 2000.0)


@pytest.mark.parametrize("capped", [False, True])
def test_bets_of_runs_side_by_side_are_settled_as_each_by_itself(capped: bool) -> None:
    """Batches that lack outcomes of some runs, and totals without extremes, among them."""
    rng = np.random.default_rng(10)
    contrasts, frames, totals = rng.normal(size=(6, 3, 2)), [], []
    contrasts[4, 1] = 0.0  # bets nothing
    for run in range(6):
        frame, _ = frame_of(rng, Scale(-2.0, 2.0, noise=0.3), pulls=100 * run)
        arms = rng.integers(0, 5, 50)
        summary = Summary.from_pulls(arms, rng.uniform(-2.0, 2.0, 50), size=5)
        if run == 2:
            summary = replace(summary, least=None, largest=None, cubes=None)
        if run == 3:
            summary = replace(summary, pending=np.arange(5))
        frames.append(frame)
        totals.append(BatchOutcome(frame, summary).totals)
    grid = frames[0].grid
    frames = [replace(frame, grid=grid) for frame in frames]
    given: dict[str, Any] = {"margin": 0.1, "capped": capped}
    together = Frame.stacked(frames).settle(contrasts, Totals.stacked(totals), **given)
    assert together.growth.shape == (6, 3, len(grid))
    for run, (frame, each) in enumerate(zip(frames, totals, strict=True)):
        [stakes], [growth] = frame.settle(contrasts[[run]], each, **given)
        np.testing.assert_allclose(together.stakes[run], stakes, rtol=1e-12)
        np.testing.assert_allclose(together.growth[run], growth, rtol=1e-9, atol=1e-12)
        assert growth.any(axis=1).tolist() == [True, run != 4, True]


RUNS, BATCHES, SIZE, DELTA = 400, 25, 40, 0.1
FEW = 120  # runs: a broken copy shows in far fewer
STAKE = 3  # 0.075: what counts within a thousand pulls
EACH_OTHER = np.array([[1.0], [-1.0]])  # of two arms, each bets that the other is better
Sums = tuple[Array, Array, Array]  # counts, Σr and Σr² of the arms in each of many batches
Growth = Callable[[Sums], Array]


def grown(weights: Array, sums: Sums) -> Array:
    """What both bets make of many batches of two arms side by side: (batches, 2, stakes)."""
    count = len(sums[0])
    weights, even = np.broadcast_to(weights, (count, 2)), np.full((count, 2), 0.25)
    frame = Frame.under(
        Scale(-1.5, 1.5),
        weights,
        guess=np.zeros((count, 2)),
        spread=even,
        sizes=np.full(count, SIZE),
        pulls=np.zeros(count),
        reader=read(np.array([[-0.5], [0.5]]), weights, even),
        grid=StakeGrid.around(0.04),
        leaders=np.tile([0, 1], (count, 1)),
    )
    totals = Totals.about(frame.guess, sums, None)
    return frame.settle(np.broadcast_to(EACH_OTHER, (count, 2, 1)), totals).growth


def honest(sums: Sums) -> Array:
    return grown(np.full(2, 0.5), sums)


def stake_after(sums: Sums) -> Array:
    """Broken: bets only where the batch turned out to be favourable."""
    return np.maximum(honest(sums), 0.0)


def opponent_after(sums: Sums) -> Array:
    """Broken: picks the side to bet on after the batch."""
    return np.asarray(honest(sums).max(axis=1, keepdims=True))


def estimated_design(sums: Sums) -> Array:
    """Broken: centers and whitens by the arms that happened to be drawn."""
    return grown(sums[0] / SIZE, sums)


def crossings(
    growth: Growth, baseline: Callable[[Array], Array], runs: int = RUNS
) -> tuple[float, float]:
    """A 99 % interval for how often the wealth of one of two equal arms ever reaches 1/δ."""
    rng = np.random.default_rng(6)
    arms = rng.integers(0, 2, size=(BATCHES, runs, SIZE))
    signs = 2.0 * arms - 1
    lead = np.cumsum(signs, axis=2) - signs  # of the second arm, before each draw
    rewards = baseline(lead) + rng.choice([-0.5, 0.5], size=arms.shape)
    drawn = np.stack([arms == 0, arms == 1], axis=2)
    paid = drawn * rewards[:, :, None]
    counts, first, second = (part.sum(axis=3).reshape(-1, 2) for part in (drawn, paid, paid**2))
    each = growth((counts, first, second))[:, 0, STAKE].reshape(BATCHES, runs)
    most = np.cumsum(each, axis=0).max(axis=0)
    return wilson(int(np.count_nonzero(most >= -np.log(DELTA))), runs)


def wilson(hits: int, runs: int) -> tuple[float, float]:
    z, rate = 2.5758, hits / runs
    center = (rate + z * z / (2 * runs)) / (1 + z * z / runs)
    half = z / (1 + z * z / runs) * np.sqrt(rate * (1 - rate) / runs + (z / (2 * runs)) ** 2)
    return center - half, center + half


BASELINES: dict[str, Callable[[Array], Array]] = {
    "none": np.zeros_like,
    "leaning": np.sign,  # knows which arm was drawn more often so far in the batch
    "leaning away": lambda lead: -np.sign(lead),
}


@pytest.mark.parametrize("name", BASELINES)
def test_no_baseline_makes_wealth_cross_more_often_than_delta(name: str) -> None:
    """A rule that crossed 10 % of the time would fail this 99.5 % of the time with fresh seeds."""
    assert crossings(honest, BASELINES[name])[1] < DELTA


@pytest.mark.parametrize(
    ("broken", "name"),
    [(stake_after, "none"), (opponent_after, "none"), (estimated_design, "leaning away")],
)
def test_broken_copies_are_caught(broken: Growth, name: str) -> None:
    """By the same measurement: even the lower end is above δ."""
    assert crossings(broken, BASELINES[name], FEW)[0] > DELTA


# --- extremes ------------------------------------------------------------------------------------


def random_bets(rng: np.random.Generator, noise: float) -> tuple[Bets, Array]:
    """Bets on three contrasts of five arms in two dimensions, with any guesses."""
    coordinates = rng.normal(size=(5, 2))
    weights = rng.dirichlet(np.ones(5))
    guess, spread = rng.uniform(0, 1, 5), rng.uniform(0.05, 0.3, 5)
    scale = Scale(0.0, 1.0, noise)
    frame = make_frame(
        coordinates, weights, guess=guess, spread=spread, scale=scale, size=80, pulls=100
    )
    return frame.bets(rng.normal(size=(3, 2))), weights


@pytest.mark.parametrize("noise", [0.0, 0.5])
@pytest.mark.parametrize("seed", range(40))
def test_evidence_from_totals_is_at_most_that_of_single_pulls(seed: int, noise: float) -> None:
    """Lemma 2, pull by pull: Σ log(1 + λz), which totals do not tell; z < −C as in Lemma 3."""
    rng = np.random.default_rng(seed)
    bets, weights = random_bets(rng, noise)
    arms = rng.choice(5, 80, p=weights)
    rewards = rng.beta(0.3, 0.3, 80) + noise * rng.normal(size=80)
    summary = Summary.from_pulls(arms, rewards, size=5)
    frame = bets.frame
    stakes, growth = bets.settle(BatchOutcome(frame, summary))
    z, fall = bets.w[:, arms] * (rewards - frame.guess[0, arms]), farthest_falls(bets)
    offset = bets.w @ (frame.weights[0] * frame.guess[0])
    offset -= frame.tail * np.abs(bets.w) @ frame.weights[0]
    for i in range(3):
        for s, stake in enumerate(stakes[i]):
            square = (-np.log1p(-stake * fall[i]) - stake * fall[i]) / fall[i] ** 2
            inside = np.log1p(stake * np.maximum(z[i], -fall[i]))
            exact = np.where(z[i] >= -fall[i], inside, stake * z[i] - square * z[i] ** 2).sum()
            assert growth[i, s] <= exact + 80 * stake * offset[i] + 1e-9


@pytest.mark.parametrize("seed", range(10))
def test_extremes_only_sharpen_evidence(seed: int) -> None:
    rng = np.random.default_rng(seed)
    bets, weights = random_bets(rng, 0.0)
    arms = rng.choice(5, 80, p=weights)
    summary = Summary.from_pulls(arms, rng.beta(2, 2, 80), size=5)
    blunt = replace(summary, least=None, largest=None, cubes=None)
    sharp, before = (bets.log_growth(BatchOutcome(bets.frame, s)) for s in (summary, blunt))
    assert (sharp >= before - 1e-12).all()
    assert (sharp > before).any()


# --- noise beyond the reach ----------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.3, 2.0])
@pytest.mark.parametrize("pulls", [0, 99, 10**6])
def test_the_charge_bounds_what_noise_beyond_the_reach_adds(noise: float, pulls: int) -> None:
    """E(η − k)₊ = ∫ P(η > t) dt from k on, and P(η > t) ≤ exp(−t²/2α²) for α-sub-Gaussian noise."""
    reach, charge = Scale(-1.0, 1.0, noise).reach(np.array(pulls))
    beyond, _ = quad(
        lambda t: math.exp(-((t / noise) ** 2) / 2), float(reach), math.inf, epsabs=0.0
    )
    assert float(charge) == pytest.approx(beyond, rel=1e-6)


def test_bounded_rewards_are_charged_nothing() -> None:
    reach, charge = Scale(-1.0, 1.0).reach(np.array([0, 100]))
    assert not reach.any()
    assert not charge.any()


def test_every_pull_is_charged_for_all_its_weights() -> None:
    """Clipping moves E[z] by at most κ Σ p|w|: stake λ pays λκ Σ p|w| per pull, in logs."""
    rng = np.random.default_rng(3)
    weights, spread = np.array([0.5, 0.3, 0.2]), np.full(3, 0.25)
    frame = make_frame(
        rng.normal(size=(3, 1)),
        weights,
        guess=np.zeros(3),
        spread=spread,
        scale=Scale(-1.0, 1.0, 0.5),
        pulls=100,
    )
    bets = frame.bets(np.array([[1.0], [-0.4]]))
    summary = Summary.from_pulls(rng.integers(0, 3, 50), rng.normal(size=50), size=3)
    stakes, charged = bets.settle(BatchOutcome(frame, summary))
    free = replace(frame, tail=np.zeros(1))
    uncharged = replace(bets, frame=free).log_growth(BatchOutcome(free, summary))
    size, [charge] = np.abs(bets.w) @ weights, frame.tail
    np.testing.assert_allclose(uncharged - charged, 50 * stakes * charge * size[:, None])
    assert charge > 0


@pytest.mark.parametrize("end", [-1.0, 1.0])
def test_no_reward_within_the_reach_takes_all_of_a_stake(end: float) -> None:
    """1 + λz > 0 for every reward that is not charged for, or the product is no wealth at all.

    Guesses are at an end of the range, where all falls are falls of the noise, and hardly any
    spread is predicted, so that nothing but the reach keeps the largest stakes small.
    """
    weights, spread, scale = np.array([0.9, 0.1]), np.full(2, 1e-4), Scale(-1.0, 1.0, 0.5)
    for pulls in (0, 10_000):
        frame = make_frame(
            np.array([[-0.5], [0.5]]),
            weights,
            guess=np.full(2, end),
            spread=spread,
            scale=scale,
            pulls=pulls,
        )
        bets = frame.bets(np.array([[1.0], [-1.0]]))
        stakes, _ = bets.settle(BatchOutcome(frame, Summary.from_pulls([0], [end], size=2)))
        reach = float(scale.reach(np.array(pulls))[0])
        for reward in (scale.low - reach, scale.high + reach):
            left = 1 + stakes[:, :, None] * (bets.w * (reward - frame.guess))[:, None, :]
            assert left.min() >= 0.1 - 1e-12  # a tenth is left of the largest


# --- no baseline ---------------------------------------------------------------------------------


def test_weights_read_contrasts_off_rewards_without_a_baseline() -> None:
    """Σ p w x = y on the linear span; Σ p w may be anything (Lemma 1)."""
    rng = np.random.default_rng(3)
    arms, p = rng.normal(size=(7, 3)), rng.dirichlet(np.ones(7))
    contrasts = rng.normal(size=(4, 3))

    def weights_under(spread: Array, intercept: bool) -> Array:
        reader = read(arms, p[None], spread[None], intercept=intercept)
        return np.asarray(contrasts @ reader.contrasts[0])

    w = weights_under(rng.uniform(0.5, 2.0, 7), False)
    np.testing.assert_allclose((w * p) @ arms, contrasts, atol=1e-9)
    assert np.abs((w * p).sum(axis=1)).max() > 1e-3
    centered = weights_under(rng.uniform(0.5, 2.0, 7), True)
    np.testing.assert_allclose((centered * p) @ arms, contrasts, atol=1e-9)
    np.testing.assert_allclose((centered * p).sum(axis=1), 0.0, atol=1e-9)


# --- pending, then lost --------------------------------------------------------------------------


def pages_frame(rng: np.random.Generator) -> Frame:
    weights = rng.dirichlet(np.ones(4))
    coordinates = np.vstack([np.zeros(3), np.eye(3)])
    guess, spread = rng.uniform(0, 1, 4), np.full(4, 0.1)
    return make_frame(coordinates, weights, guess=guess, spread=spread, scale=Scale(0.0, 1.0))


def one_more(known: Summary, **where: Counts) -> Summary:
    """With further pulls that are pending or missing."""
    return replace(known, **where)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(20))
def test_a_pending_outcome_counts_no_more_than_whatever_becomes_of_it(seed: int) -> None:
    """So all looks are bounded by one supermartingale, in which what is lost has the factor 1.

    Where w(a) is about 0 and Σ p w c above it, the least factor of an outcome exceeds 1: it was
    counted while the outcome was pending, and taken back when it was lost.
    """
    rng = np.random.default_rng(seed)
    frame, exceeded = pages_frame(rng), False
    contrasts = np.vstack([np.eye(3), -np.eye(3)])
    bets = frame.bets(contrasts)
    arms = rng.choice(4, size=60, p=frame.weights[0])
    known = Summary.from_pulls(arms, (rng.random(60) < 0.3).astype(float), size=4)
    guess = frame.guess[0]
    offset = bets.w @ (frame.weights[0] * guess)
    for arm in range(4):
        one = (np.arange(4) == arm).astype(np.int64)
        pending = BatchOutcome(frame, one_more(known, pending=one))
        lost = BatchOutcome(frame, one_more(known, missing=one))
        stakes, growth = bets.settle(pending)
        base = bets.log_growth(lost)
        assert (growth <= base + 1e-12).all()
        for reward in (0.0, 1.0):
            z = bets.w[:, [arm]] * (reward - guess[arm])
            factor = np.log1p(stakes * z) + stakes * offset[:, None]
            assert (growth <= base + factor + 1e-9).all()
        ends = (np.log1p(stakes * bets.w[:, [arm]] * (r - guess[arm])) for r in (0.0, 1.0))
        least = np.minimum(*ends) + stakes * offset[:, None]
        exceeded |= bool((least > 1e-9).any())
        # Under "worst-case" it is never passed over, and the least factor is what it is.
        worst = BatchOutcome(frame, pending.summary, worst_case=True)
        np.testing.assert_allclose(bets.log_growth(worst), base + least, atol=1e-9)
    assert exceeded  # the case is there


@pytest.mark.parametrize("seed", range(5))
def test_the_lower_end_of_an_interval_allows_for_a_loss_too(seed: int) -> None:
    """At every v, above zero and below it: the end is no higher than after the loss."""
    rng = np.random.default_rng(seed)
    frame, grid = pages_frame(rng), StakeGrid.around(0.04)
    arms = rng.choice(4, size=80, p=frame.weights[0])
    known = Summary.from_pulls(arms, (rng.random(80) < 0.3).astype(float), size=4)
    contrasts = np.vstack([np.eye(3), -np.eye(3)])

    def ends_after(batch: BatchOutcome, level: float) -> Array:
        none = np.zeros(len(contrasts))
        return lower_ends(lambda *_: contrasts, [batch], threshold=level, grid=grid, capital=none)

    for level in (0.1, 3.0):
        lost = ends_after(BatchOutcome(frame, known), level)
        for arm in range(4):
            many = 40 * (np.arange(4) == arm)
            pending = BatchOutcome(frame, one_more(known, pending=many))
            assert (ends_after(pending, level) <= lost + 1e-9).all()
