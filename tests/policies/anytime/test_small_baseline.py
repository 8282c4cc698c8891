"""A small declared baseline (Lemma 5): weights, charges, adversaries, and what contradicts it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from anytime_runs import pays, play
from hypothesis import given, settings
from hypothesis import strategies as st

from bestarm import AnytimeBAI, Problem, simulate
from bestarm.design.bounded import best_sums
from bestarm.environments import Semiparametric, soare
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array
from bestarm.policies.anytime.assumptions import Assumptions, Question
from bestarm.policies.anytime.bets import STAKES, BatchOutcome, Frame, Scale, StakeGrid
from bestarm.policies.anytime.estimates import Estimates
from bestarm.policies.anytime.readout import (
    Belief,
    may_tilt,
    read,
    standard_errors,
    sums_of_weights,
    tilts,
)
from bestarm.policies.anytime.sampler import Config, Solved, solve_designs
from bestarm.records import Counts, Summary

ARMS = np.array([[1.0, 0.0], [0.0, 1.0], [0.9, 0.45], [0.3, -0.2]])
WITH_ORIGIN = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])  # the first arm pays the baseline


def frame(seed: int, bound: float, scale: Scale) -> Frame:
    """A frame with beliefs that a run might have."""
    rng = np.random.default_rng(seed)
    weights, spread = rng.dirichlet(np.full(4, 2.0))[None], rng.uniform(0.5, 1.5, (1, 4))
    pulls = rng.uniform(2_000, 20_000, 1)
    return Frame.under(
        scale,
        weights,
        guess=rng.uniform(-0.5, 0.5, (1, 4)),
        spread=spread,
        sizes=np.array([30]),
        pulls=np.zeros(1),
        reader=read(ARMS, weights, spread),
        grid=StakeGrid.around(0.06),
        leaders=np.array([[0, 1]]),
        belief=Belief(
            rng.normal(size=(1, 2)) * 0.3,
            rng.uniform(-bound, bound, 1),
            pulls[:, None, None] * np.eye(2),
            pulls,
            bound,
        ),
    )


@settings(deadline=None)
@given(
    m=st.floats(0.1, 50.0),
    b=st.floats(-0.99, 0.99),
    c=st.floats(0.1, 50.0),
    gap=st.floats(0.01, 2.0),
    level=st.floats(-1.0, 1.0),
    bound=st.floats(0.01, 1.0),
)
def test_the_sum_of_weights_has_the_least_variance_for_its_signal(
    m: float, b: float, c: float, gap: float, level: float, bound: float
) -> None:
    b, level = b * np.sqrt(m * c), level * bound

    def ratio(s: Array) -> Array:
        signal = gap + s * level - np.abs(s) * bound
        return np.where(
            signal > 1e-9, (m * s * s + 2 * b * s + c) / np.maximum(signal, 1e-9) ** 2, np.inf
        )

    inverse, row = np.array([[m, b], [b, c]]), np.ones((1, 1))
    [found], [value] = best_sums(inverse, row, np.array([gap]), bound, level=level, worth=0.8)
    least = ratio(np.linspace(-4, 4, 4001) * np.sqrt(c / m)).min()
    if found:
        assert ratio(np.array(found)) <= least * (1 + 1e-9)
        assert ratio(np.array(found)) == pytest.approx(value)
        assert ratio(np.array(found)) < 0.8 * ratio(np.array(0.0))
    else:
        assert least >= 0.8 * ratio(np.array(0.0)) * (1 - 1e-9)


@settings(deadline=None)
@given(seed=st.integers(0, 10_000), bound=st.floats(0.01, 1.0))
def test_tilted_weights_read_the_contrast_and_are_charged_for_their_sum(
    seed: int, bound: float
) -> None:
    made = frame(seed, bound, Scale(-3.0, 3.0, 1.0))
    contrasts = np.array([[0.1, -0.45], [0.7, 0.2], [-0.1, 0.45]])
    [p], [w], [charges] = made.weights, *made.weigh(contrasts[None])
    np.testing.assert_allclose((w * p) @ ARMS, contrasts, atol=1e-9)
    np.testing.assert_allclose(np.abs((w * p).sum(axis=1)) * bound, charges, atol=1e-9)
    np.testing.assert_allclose(w[2], -w[0], atol=1e-9)  # a contrast and its opposite
    [level] = made.reader.level
    np.testing.assert_allclose((level * p) @ ARMS, 0.0, atol=1e-9)
    assert level @ p == pytest.approx(1.0)


def expected_factor(made: Frame, w: Array, charge: float, means: Array, stake: float) -> float:
    """E[(1 + λz) exp(λ(Σ p w c − charge))] for rewards of −1 and 1 with these means."""
    [p], [c] = made.weights, made.guess
    offset = np.exp(stake * (p @ (w * c) - charge))
    high = (1 + means) / 2
    factors = high * (1 + stake * w * (1 - c)) + (1 - high) * (1 + stake * w * (-1 - c))
    return float(offset * (p @ factors))


@settings(deadline=None)
@given(seed=st.integers(0, 10_000), bound=st.floats(0.02, 0.3), side=st.sampled_from([-1.0, 1.0]))
def test_a_bet_is_unfavourable_under_every_baseline_within_the_bound(
    seed: int, bound: float, side: float
) -> None:
    """Exactly, over arms and two-point rewards; where y·θ = 0 and the baseline is ±R."""
    made = frame(seed, bound, Scale(-1.0, 1.0))
    theta = np.array([0.45, 0.1])  # (0.1, −0.45)·θ = 0
    [[w]], [[charge]] = made.weigh(np.array([[[0.1, -0.45]]]))
    means = ARMS @ theta + side * bound
    fall = np.abs(w).max() * 2.5
    for stake in (0.1 / fall, 0.5 / fall):
        assert expected_factor(made, w, charge, means, stake) <= 1 + 1e-12


def test_without_the_charge_such_a_bet_is_favourable() -> None:
    """A twin that charges nothing has expectations above 1."""
    worst = 0.0
    for seed in range(50):
        made = frame(seed, 0.3, Scale(-1.0, 1.0))
        [[w]], _ = made.weigh(np.array([[[0.1, -0.45]]]))
        for side in (-0.3, 0.3):
            means = ARMS @ np.array([0.45, 0.1]) + side
            factor = expected_factor(made, w, 0.0, means, 0.2 / (np.abs(w).max() * 2.5))
            worst = max(worst, factor)
    assert worst > 1.005


def pulls(bound: float, level: float, runs: int) -> tuple[float, int]:
    """Mean pulls and wrong answers on Soare's instance."""
    world = soare(5, 0.3, baseline=level, declared_baseline=bound)
    rule = partial(AnytimeBAI, mean_bound=2.0, max_pulls=60_000)
    results = simulate(rule, world, runs=runs, seed=5, delta=0.05)
    return results.mean_pulls, int((results.final & ~results.correct).sum())


def test_the_level_is_bet_on_beyond_the_bound_alone() -> None:
    """That ν > R, and that ν < −R: fair at the bound, unfavourable within it, for any θ."""
    made = frame(3, 0.2, Scale(-1.0, 1.0))
    [p] = made.weights
    for theta in (np.array([0.3, 0.2]), np.array([-0.4, 0.1])):
        for level, above, below in ((0.2, 1.0, 0.0), (-0.2, 0.0, 1.0), (0.0, 0.0, 0.0)):
            means, worth = ARMS @ theta + level, np.zeros((2, len(STAKES)))
            for arm, reward in ((arm, reward) for arm in range(4) for reward in (-1.0, 1.0)):
                chance = p[arm] * (1 + reward * means[arm]) / 2
                told = Summary.from_pulls([arm], [reward], size=4)
                stakes, growth = made.settle_level(BatchOutcome(made, told).totals)
                worth += chance * np.exp(growth[0])
            assert (worth <= 1 + 1e-9).all()
            # One pull loses little for a small stake where the mean of z is 0, and more elsewhere.
            loss = (1 - worth[:, -1]) / stakes[0, :, -1]
            np.testing.assert_allclose(loss < 0.1, [above, below])


def test_a_charge_comes_off_the_signal_that_a_stake_is_for_but_half_stays() -> None:
    """Stakes small enough that falls do not matter: λ is the signal over the deviation of z."""
    fixed = frame(8, 0.02, Scale(-0.01, 0.01))
    contrast = np.array([[1.0, -1.0]])
    [[w]], [[charge]] = fixed.weigh(contrast[None])
    none = np.zeros(4)
    empty = BatchOutcome(fixed, Summary(none.astype(int), none, none))
    deviation = np.sqrt(fixed.weights[0] @ (w**2 * fixed.spread[0]))
    expected = np.maximum(STAKES - charge / deviation, STAKES / 2) / deviation
    assert charge > 0
    assert (2 * charge / deviation < STAKES).any()
    assert (2 * charge / deviation > STAKES).any()
    stakes, growth = fixed.bets(contrast).settle(empty)
    np.testing.assert_allclose(stakes[0], expected)
    assert not growth.any()


def test_a_small_bound_saves_most_of_the_pulls() -> None:
    """With any baseline it takes some 4 000; of 40 runs more than 8 are wrong by chance in 10⁻⁴."""
    for level in (-0.05, 0.0, 0.05):
        mean, wrong = pulls(0.05, level, 40)
        assert mean < 1_000
        assert wrong <= 8


def test_a_level_where_it_hurts_does_not_keep_the_rule_from_ending() -> None:
    """With sums for y·θ̂ − |s|R it would not end: y·θ − 2|s|R is below 0 here."""
    mean, wrong = pulls(0.2, 0.2, 30)
    assert mean < 12_000
    assert wrong <= 7


def test_a_twin_that_charges_nothing_errs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A level of −0.5 makes the second best look better, unless sums of weights are charged."""
    source = np.array([[1.0, 0.0], [0.0, 1.0], [np.cos(0.3), np.sin(0.3)]])
    world = Semiparametric(source, [0.6, 0.1], baseline=-0.5, declared_baseline=0.5)
    rule = partial(AnytimeBAI, mean_bound=0.7, max_pulls=1_500)

    def wrong() -> int:
        found = simulate(rule, world, runs=12, delta=0.05)
        return int((found.final & ~found.correct).sum())

    assert wrong() == 0
    charged = Frame.weigh

    def uncharged(made: Frame, contrasts: Array, margin: float = 0.0) -> tuple[Array, Array]:
        assert made.belief is not None
        return charged(replace(made, belief=replace(made.belief, bound=1e-12)), contrasts, margin)

    monkeypatch.setattr(Frame, "weigh", uncharged)
    assert wrong() >= 6


@pytest.mark.parametrize(("level", "contradicted"), [(0.1, False), (-0.1, False), (2.5, True)])
def test_a_baseline_beyond_the_bound_ends_the_claim(level: float, contradicted: bool) -> None:
    """Where an arm shows the level. Where none does, the data cannot tell it from θ."""
    rng, problem = np.random.default_rng(1), Problem(WITH_ORIGIN, baseline=0.1, delta=0.001)

    def reward(arms: Counts) -> Array:
        return np.asarray(
            WITH_ORIGIN[arms] @ np.array([0.3, 0.28]) + level + rng.normal(size=len(arms))
        )

    policy = AnytimeBAI(problem, mean_bound=3.0, max_pulls=4_000)
    play(policy, pays(reward, rng), plans=600)
    recommendation = policy.recommend()
    assert recommendation.contradicted is contradicted
    if contradicted:
        assert recommendation.error_bound is None


@pytest.mark.parametrize(("level", "contradicted"), [(0.1, False), (2.5, True)])
def test_a_baseline_beyond_the_bound_is_found_in_runs_side_by_side_too(
    level: float, contradicted: bool
) -> None:
    world = Semiparametric(WITH_ORIGIN, [0.3, 0.299], baseline=level, declared_baseline=0.1)
    rule = partial(AnytimeBAI, mean_bound=3.0, max_pulls=4_000)
    assert rule(world.problem(0.1)).traits.side_by_side
    found = simulate(rule, world, runs=3, delta=1e-6)
    assert (found.contradicted == contradicted).all()


def test_plans_depend_on_rewards_less_the_level() -> None:
    """Rewards, bounds and level moved alike: the same plans and evidence but for rounding."""
    found = []
    for level in (0.0, 7.0):
        rng, problem = np.random.default_rng(2), Problem(ARMS, baseline=0.1, delta=0.05)

        def reward(arms: Counts, rng: np.random.Generator = rng, level: float = level) -> Array:
            return np.asarray(
                ARMS[arms] @ np.array([0.5, 0.1]) + level + rng.uniform(-1, 1, size=len(arms))
            )

        policy = AnytimeBAI(problem, bounds=(level - 2, level + 2), level=level)
        play(policy, pays(reward, rng), plans=12)
        found.append((np.log(policy.evidence()), policy.recommend().pulls))
    np.testing.assert_allclose(found[0][0], found[1][0], atol=1e-6)
    assert found[0][1] == found[1][1]


@settings(deadline=None)
@given(st.integers(0, 10_000), st.floats(0.5, 4.0))
def test_gaps_are_believed_down_to_some_errors(seed: int, sure: float) -> None:
    """The error of y·θ̂ at a known level is √(yᵀ A⁻¹ y), A being the information."""
    rng = np.random.default_rng(seed)
    information = np.cov(rng.normal(size=(2, 9))) + np.eye(2)
    slope, rows = rng.normal(size=2), rng.normal(size=(3, 2))
    belief = Belief(slope[None], np.zeros(1), information[None], np.ones(1), 0.1)
    [gaps], [errors] = belief.gaps(rows[None], 0.0, sure)
    expected = np.sqrt(np.einsum("ij,jk,ik->i", rows, np.linalg.inv(information), rows))
    np.testing.assert_allclose(errors, expected, rtol=1e-9)
    np.testing.assert_allclose(np.abs(gaps), np.maximum(np.abs(rows @ slope), sure * errors))
    np.testing.assert_array_equal(gaps >= 0, rows @ slope >= 0)


def made_belief(rng: np.random.Generator, runs: int, rank: int, pulls: float) -> tuple[Array, Any]:
    """Arms and, for each run, how they are read and what a long run of such draws would know."""
    count = rank + 3
    arms = rng.normal(size=(count, rank)) + rng.normal(size=rank) * rng.choice([0.0, 1.0, 3.0])
    weights = rng.dirichlet(np.full(count, 0.7), size=runs)
    weights = 0.9 * weights + 0.1 / count
    spread = rng.uniform(0.5, 2.0, (runs, count)) ** rng.choice([0.0, 1.0, 2.0])
    bound = float(10 ** rng.uniform(-2.5, 0.5))
    information = pulls * np.einsum("ra,ai,aj->rij", weights / spread, arms, arms)
    slope = rng.normal(size=(runs, rank)) * 10 ** rng.uniform(-1.5, 0.5)
    level = np.clip(rng.normal(size=runs), -1, 1) * bound * rng.choice([0.0, 0.5, 1.0])
    belief = Belief(slope, level, information, np.full(runs, pulls), bound)
    return arms, (read(arms, weights, spread), belief)


def test_where_the_closed_form_finds_a_sum_it_is_asked() -> None:
    """`may_tilt` never passes over a run in which some contrast has a best sum other than 0.

    With many pulls, where errors hardly matter: 3,000 random problems, of which the exact form
    finds a sum in many, and `may_tilt` passes over many.
    """
    rng = np.random.default_rng(12)
    found, asked, runs = 0, 0, 12
    for _ in range(250):
        rank = int(rng.integers(1, 4))
        arms, (reader, belief) = made_belief(rng, runs, rank, 1e8)
        contrasts = arms[rng.integers(len(arms) - 1, size=(runs, 3))] - arms[-1]
        contrasts[:, 2] = 0.0  # of the leader to itself
        may = may_tilt(contrasts, 0.0, reader, belief)
        for sure in (0.0, 1.0, 2.0):
            gaps, _ = belief.gaps(contrasts, 0.0, sure)
            rows, sizes = (np.sign(gaps)[..., None] * contrasts)[:, :2], np.abs(gaps[:, :2])
            gain, _ = best_sums(reader.inverse, rows, sizes, belief.bound, level=belief.level)
            exact = tilts(contrasts, gaps, reader, belief)
            assert may[(gain != 0).any(axis=1) | (exact != 0).any(axis=1)].all()
        found, asked = found + int(exact.any(axis=1).sum()), asked + int(may.sum())
        for run in np.flatnonzero(may):  # and each run is what it would be alone
            alone = contrasts[[run]], 0.0, reader.select([run]), belief.select([run])
            together = sums_of_weights(contrasts, 0.0, reader, belief)[run]
            np.testing.assert_allclose(sums_of_weights(*alone)[0], together, rtol=1e-9)
    assert 300 < found <= asked < 2_700


def test_signals_may_be_some_errors_larger_than_they_look() -> None:
    """A gap that looks like 0 after few pulls: a sum is sought for one of an error or two."""
    rng = np.random.default_rng(13)
    sought = 0
    for _ in range(200):
        arms, (reader, belief) = made_belief(rng, 4, 2, 50.0)
        belief = replace(belief, slope=np.zeros((4, 2)))
        contrasts = arms[None, :1] - arms[None, 1:2] + np.zeros((4, 1, 1))
        errors = standard_errors(contrasts, reader.inverse[:, 1:, 1:] / 50.0)
        exact = tilts(contrasts, 2 * errors, reader, belief).any(axis=1)
        assert may_tilt(contrasts, 0.0, reader, belief)[exact].all()
        sought += int(exact.sum())
    assert sought > 50


def test_before_anything_is_known_no_sum_is_sought() -> None:
    arms, (reader, belief) = made_belief(np.random.default_rng(14), 3, 2, 1e4)
    contrasts = np.tile(arms[0] - arms[1], (3, 1, 1))
    unknown = replace(belief, pulls=np.zeros(3), bound=1e-6)
    assert not sums_of_weights(contrasts, 0.0, reader, unknown).any()
    assert sums_of_weights(contrasts, 0.0, reader, replace(belief, bound=1e-6)).any()


@pytest.mark.parametrize(
    ("pulls", "gap", "explored"), [(200, 0.3, True), (200, 0.6, True), (2000, 0.3, False)]
)
def test_designs_explore_cheap_sums_while_a_gap_is_not_known(
    pulls: int, gap: float, explored: bool
) -> None:
    """A gap of a fraction of its error may be large: what would then be cheap is still drawn for.

    `gap` is in errors. The level is where it hurts most: once many pulls show a gap too small for
    the bound, there is nothing to explore: the design is that for any baseline.
    """
    arms = np.array([[1.0, 0.0], [0.0, 1.0], [0.95, 0.3]])
    problem, scale = Problem(arms, baseline=0.1), Scale(-2.1, 2.1, 1.0)
    assumptions = Assumptions.make(
        problem, bounds=None, mean_bound=2.0, blocks=False, items=None, level=None, tilted=True,
        question=Question(),
    )  # fmt: skip
    designs = []
    for bound in (0.1, np.inf):
        estimates, centered = Estimates(arms, scale, bound=bound), arms - arms.mean(axis=0)
        estimates.information[:] = pulls * centered.T @ centered / 3
        estimates._arms[:] = pulls * arms.mean(axis=0)
        estimates.pulls[:], estimates._level[:], estimates.spread[:] = pulls, 0.1, 1.0
        row = (arms[0] - arms[2])[None]
        if (belief := estimates.belief) is not None:
            [[error]] = belief.gaps(row[None], 0.0, 1.0)[1]
        estimates.slope[:] = gap * error * row[0] / (row[0] @ row[0])
        features = np.column_stack([np.ones(3), arms])
        config = Config(
            problem, assumptions, arms, features, arms, StakeGrid.around(0.06), 0.0, False, bound
        )
        start = Solved(np.full((1, 3), 1 / 3), np.zeros((1, 1)))
        pairs = np.array([[[0, 2]]])
        designs.append(solve_designs(config, pairs, estimates, start, warm=False).weights)
    assert (np.abs(designs[0] - designs[1]).max() > 0.05) == explored


def _pulls_of_a_hard_contrast(level: float | None, seed: int) -> int:
    """Pulls until two arms that yes-or-no rewards hardly tell apart are told apart."""
    source = np.array([[1.0, 0.0], [0.0, 1.0], [np.cos(0.4), np.sin(0.4)]])
    rng = np.random.default_rng(seed)

    def pull(plan: object) -> Summary:
        counts = rng.multinomial(plan.pulls, plan.weights)  # type: ignore[attr-defined]
        yes = rng.binomial(counts, 0.5 + 0.35 * source[:, 0]).astype(float)
        repeats = np.column_stack([counts - yes, yes]).astype(int).ravel()
        arms, rewards = np.repeat([0, 0, 1, 1, 2, 2], repeats), np.repeat([0.0, 1.0] * 3, repeats)
        return Summary.from_pulls(arms, rewards, size=3, center=plan.center)  # type: ignore[attr-defined]

    problem = Problem(source, baseline=0.02, delta=0.05)
    policy = AnytimeBAI(problem, bounds=(0, 1), level=level, max_pulls=40_000)
    recommendation = play(policy, pull).recommend()
    assert recommendation.target == 0
    told = "the baseline within 0.02 of 0.5" in " ".join(recommendation.assumptions)
    assert told == (level is not None)
    return recommendation.pulls


def test_bounded_rewards_use_a_level_that_is_declared() -> None:
    """Told the level, the hard contrast takes a fraction of the pulls: on average a fifth."""
    seeds = range(4, 10)
    told = sum(_pulls_of_a_hard_contrast(0.5, seed) for seed in seeds)
    assert told < 0.5 * sum(_pulls_of_a_hard_contrast(None, seed) for seed in seeds)


def test_for_plain_names_no_bound_is_used() -> None:
    policy = AnytimeBAI(Problem(np.eye(3), baseline=0.01), mean_bound=0.5)
    assert not policy._tilted
    assert "each on its own" in " ".join(policy.recommend().assumptions)


@pytest.mark.parametrize(
    ("features", "baseline", "options"),
    [
        (ARMS, 0.1, {"bounds": (0, 1), "block": 2}),
        (ARMS, 0.1, {"bounds": (0, 1), "forecasts": True}),
        (ARMS, 0.1, {}),  # rewards less the level are what is declared
        (ARMS, 0.0, {"bounds": (0, 1)}),
        (np.eye(3), 0.1, {"bounds": (0, 1)}),
    ],
)
def test_a_level_is_refused_where_it_has_no_part(
    features: Array, baseline: float, options: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInputError, match="level") as refused:
        AnytimeBAI(Problem(features, baseline=baseline), level=0.5, **options)
    assert refused.value.field == "level"


def test_a_level_is_a_number() -> None:
    for level in (float("nan"), "half", [0.5]):
        with pytest.raises(InvalidInputError, match="level"):
            AnytimeBAI(Problem(ARMS), bounds=(0, 1), level=level)  # type: ignore[arg-type]


@pytest.mark.parametrize(("noise", "baseline"), [(1e-160, 1.0), (1.0, 1e-200), (1.0, 1e12)])
def test_extreme_scales_give_numbers(noise: float, baseline: float) -> None:
    rng = np.random.default_rng(0)
    policy = AnytimeBAI(Problem(ARMS, noise=noise, baseline=baseline), mean_bound=1.0)

    def reward(arms: Counts) -> Array:
        return np.asarray(ARMS[arms] @ np.array([0.5, 0.1]) + noise * rng.normal(size=len(arms)))

    play(policy, pays(reward, rng), plans=4)
    assert np.isfinite(policy.evidence()).all()


@pytest.mark.parametrize("offset", [1e7, 5.6e13])
def test_features_far_from_zero_express_a_level(offset: float) -> None:
    """What would tell their level from 1 is lost to rounding: the rule is that for any baseline."""
    source = WITH_ORIGIN + np.array([offset, 0.0])
    problem = Problem(source, baseline=0.1)
    assert problem.expresses_level
    assert AnytimeBAI(problem, mean_bound=1.0).plan() is not None


def test_a_bound_that_is_used_needs_the_model_of_means() -> None:
    """Three arms in the plane: with any baseline, means may move each on its own; not with this."""
    source = [[1, 0], [0, 1], [0.9, 0.4]]
    for problem, options, own in (
        (Problem(source), {"bounds": (0, 1)}, True),
        (Problem(source, baseline=0.05), {"bounds": (0, 1), "level": 0.2}, False),
        (Problem(source, baseline=0.05), {"mean_bound": 1.0}, False),
    ):
        policy = AnytimeBAI(problem, **options)
        sentences = " ".join(policy.recommend().assumptions)
        assert ("each on its own" in sentences) is own
        assert ("its x·θ plus a baseline common to all options" in sentences) is not own
