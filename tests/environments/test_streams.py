"""Runs: the fast paths against a plain loop over single pulls, closed forms, rounds of blocks.

Every comparison is at fixed seeds. Together the tests of this file would raise a false alarm with
probability below 1e-3 under fresh seeds. Seen to fail in development: a chi-square with n − 1
degrees of freedom; z₂ left out or given to single pulls; √S halved; Σν² wrong; a path cut at the
end of each plan; a phase shift of the sinusoid; cells that are not shared out; lanes that overlap
by a bit; an adversary that sees the present arm, or predicts the predecessor.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats
from single_pulls import Floats, add_up, assert_same_law, draw_arms, totals

from bestarm.environments import Ratings, Semiparametric, baselines, streams
from bestarm.environments.baselines import Baseline
from bestarm.errors import InvalidInputError
from bestarm.numerics.sampling import Categorical
from bestarm.records import BlockPlan, Plan, Rounds, Summary, round_robin

FALSE_ALARM = 1e-3 / 2000  # for one of fewer than 2000 comparisons
RUNS = 400
SINGLY = 2800  # simulated pull by pull: with 400 as powerful as 700 against 700
PULLS = 60  # more than any plan below needs
Path = Callable[[np.random.Generator], Floats]
SINE = 1 + np.sin(2 * np.arange(1, PULLS + 1))


def sine(rng: np.random.Generator) -> Floats:
    return np.tile(SINE, (SINGLY, 1))


def level(rng: np.random.Generator) -> Floats:
    return np.full((SINGLY, PULLS), 0.7)


def walk(rng: np.random.Generator) -> Floats:
    """Steps that are reflected at ±1.5, as often as it takes."""
    now, path = np.zeros(SINGLY), np.empty((SINGLY, PULLS))
    for pull in range(PULLS):
        now = now + rng.normal(0, 0.9, SINGLY)
        while (out := np.abs(now) > 1.5).any():
            now = np.where(out, np.sign(now) * 3 - now, now)
        path[:, pull] = now
    return path


def jumping(rng: np.random.Generator) -> Floats:
    """With probability 1/5, to one of the two other levels."""
    now, path = rng.integers(3, size=SINGLY), np.empty((SINGLY, PULLS))
    for pull in range(PULLS):
        jumps = rng.random(SINGLY) < 1 / 5
        now = (now + jumps * rng.integers(1, 3, size=SINGLY)) % 3
        path[:, pull] = np.array([-1.0, 0.5, 2.0])[now]
    return path


CASES: dict[str, tuple[Baseline, Path]] = {
    "constant": (baselines.constant(0.7), level),
    "sinusoid": (baselines.sinusoid(), sine),
    "random walk": (baselines.random_walk(0.9, bound=1.5), walk),
    "switches": (baselines.switches([-1.0, 0.5, 2.0], period=5), jumping),
}
MEANS = np.array([2.0, 0.0, -1.0, 0.5, 1.0])
NOISE = 0.8
RANDOMISED = [Plan.randomised([0.5, 0.25, 0.2, 0.05, 0.0], n, phase=1) for n in (7, 24)]
FIXED = [Plan.fixed([9, 2, 1, 0, 4], phase=1), Plan.fixed([0, 3, 5, 1, 2], phase=2)]


def pull_by_pull(plans: list[Plan], path: Path, rng: np.random.Generator) -> Floats:
    """Draw, reward and add up; the totals of the last plan."""
    values, start = path(rng), 0
    for plan in plans:
        arms = draw_arms(plan, SINGLY, rng)
        added = values[:, start : start + plan.pulls]
        start += plan.pulls
    rewards = MEANS[arms] + added + NOISE * rng.standard_normal(arms.shape)
    return add_up(arms, rewards, len(MEANS))


def features(found: Floats) -> Floats:
    """Totals, and products that show wrong dependence where margins cannot: one row per run."""
    n, s, q = found
    within = q - s**2 / np.maximum(n, 1)
    centered = s - n * MEANS
    products = (s[:, :, None] * q[:, None, :]).reshape(len(s), -1)
    return np.hstack([n, s, q, within, centered * within, centered * (q - n), products])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("plans", [RANDOMISED, FIXED], ids=["randomised", "fixed"])
def test_totals_have_the_law_of_single_pulls(case: str, plans: list[Plan]) -> None:
    baseline, path = CASES[case]
    rng, reference = np.random.default_rng(1), np.random.default_rng(2)
    fast = []
    for _ in range(RUNS):
        stream = baseline.begin(MEANS, noise=NOISE, rng=rng)
        summaries = [stream.pull(plan) for plan in plans]
        for plan, summary in zip(plans, summaries, strict=True):
            plan.check(summary)
        fast.append(summaries[-1])
    slow = pull_by_pull(plans, path, reference)
    assert_same_law(features(totals(fast)), features(slow), FALSE_ALARM)


@pytest.mark.parametrize(
    "baseline", [baselines.custom(lambda t: 1 + np.sin(2 * t)), baselines.custom(SINE)]
)
@pytest.mark.parametrize("plans", [RANDOMISED, FIXED], ids=["randomised", "fixed"])
def test_a_given_baseline_pays_what_the_same_sinusoid_pays(
    baseline: Baseline, plans: list[Plan]
) -> None:
    """To the last digits, whatever is drawn: what holds of one's law holds of the other's."""
    for seed in range(20):
        rngs = np.random.default_rng(seed), np.random.default_rng(seed)
        given = baseline.begin(MEANS, noise=NOISE, rng=rngs[0])
        sinusoid = baselines.sinusoid().begin(MEANS, noise=NOISE, rng=rngs[1])
        for plan in plans:
            left, right = given.pull(plan), sinusoid.pull(plan)
            np.testing.assert_array_equal(left.counts, right.counts)
            np.testing.assert_allclose(left.sums, right.sums, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(left.squares, right.squares, rtol=1e-9, atol=1e-9)


def test_adversary_totals_have_the_law_of_single_pulls() -> None:
    baseline = baselines.adversary(1.5)
    rng, reference = np.random.default_rng(3), np.random.default_rng(4)
    plan = RANDOMISED[-1]
    assert plan.weights is not None
    fast, slow = [], []
    for _ in range(700):
        fast.append(baseline.begin(MEANS, noise=NOISE, rng=rng).pull(plan))
        arms: list[int] = []
        rewards: list[float] = []
        for arm in np.searchsorted(np.cumsum(plan.weights), reference.random(plan.pulls)).tolist():
            nu = adversary_by_hand(arms, rewards, 1.5)
            arms.append(arm)
            rewards.append(MEANS[arm] + nu + NOISE * reference.standard_normal())
        slow.append(Summary.from_pulls(arms, rewards, size=len(MEANS)))
    assert_same_law(features(totals(fast)), features(totals(slow)), FALSE_ALARM)


def adversary_by_hand(arms: list[int], rewards: list[float], bound: float) -> float:
    """The adversary's rule, from the whole past and nothing else."""
    if len(arms) < 2:
        return bound
    counts = np.bincount(arms)
    sums = np.bincount(arms, weights=rewards)
    leader = np.argmax(np.where(counts, sums / np.maximum(counts, 1), -np.inf))
    followers = [arms[i + 1] for i in range(len(arms) - 1) if arms[i] == arms[-1]]
    return -bound if followers and followers[-1] == leader else bound


@pytest.mark.parametrize("noise", [0.0, 1.0])
@pytest.mark.parametrize("arms", [1, 2, 5, 7])
def test_adversary_looks_at_the_past_alone(arms: int, noise: float) -> None:
    means = np.linspace(0, 0.3, arms)
    order = np.random.default_rng(5).integers(arms, size=150).tolist()
    plans = [Plan.fixed(np.eye(arms, dtype=int)[arm], phase=i) for i, arm in enumerate(order, 1)]
    stream = baselines.adversary(2.0).begin(means, noise=noise, rng=np.random.default_rng(6))
    past: list[float] = []
    residuals = []
    for i, plan in enumerate(plans):
        nu = adversary_by_hand(order[:i], past, 2.0)
        reward = float(stream.pull(plan).sums[order[i]])
        residuals.append(reward - means[order[i]] - nu)
        past.append(reward)
    # What the rule, replayed from the past, does not explain is noise: none, or standard normal.
    if noise == 0:
        assert np.abs(residuals).max() < 1e-12
    else:
        assert stats.kstest(residuals, "norm").pvalue > FALSE_ALARM


def test_adversary_ruins_arm_means_of_a_fixed_order_but_not_of_independent_draws() -> None:
    means = np.array([0.5, 0.0, 0.0, 0.0])
    wrong = {"fixed": 0, "randomised": 0}
    plans = {
        "fixed": Plan.fixed(np.full(4, 1000), phase=1),
        "randomised": Plan.randomised(np.full(4, 0.25), 4000, phase=1),
    }
    for seed in range(100):
        for name, plan in plans.items():
            stream = baselines.adversary(1.0).begin(
                means, noise=0.5, rng=np.random.default_rng(seed)
            )
            summary = stream.pull(plan)
            wrong[name] += int(np.argmax(summary.sums / summary.counts)) != 0
    # A gap of 0.5 is 12 standard errors of a difference of means on independent draws.
    assert wrong["randomised"] == 0
    assert wrong["fixed"] > 50


def test_totals_have_the_means_and_covariances_of_the_closed_form() -> None:
    # Arm 0 of a fixed plan: n pulls with known μ_t. Then E Σr = Σμ, Var Σr = nσ²,
    # E Σr² = Q + nσ², Var Σr² = 4σ²Q + 2nσ⁴, Cov(Σr, Σr²) = 2σ²Σμ, with Q = Σμ².
    plan = Plan.fixed([5, 5], phase=1)
    nu = 1 + np.sin(2 * np.arange(1, 11))
    mu = 2.0 + nu[::2]
    n, var, total, square = 5, NOISE**2, mu.sum(), (mu**2).sum()
    rng = np.random.default_rng(8)
    draws = []
    for _ in range(2_000):
        stream = baselines.sinusoid().begin(np.array([2.0, 0.0]), noise=NOISE, rng=rng)
        summary = stream.pull(plan)
        draws.append((summary.sums[0], summary.squares[0], summary.sums[1]))
    data = np.array(draws)
    # In units of its standard error each deviation is normal: 5 is a false alarm of 6e-7.
    assert abs(data[:, 0].mean() - total) < 5 * np.sqrt(n * var / len(data))
    spread = 4 * var * square + 2 * n * var**2
    assert abs(data[:, 1].mean() - (square + n * var)) < 5 * np.sqrt(spread / len(data))
    expected = np.array(
        [[n * var, 2 * var * total, 0], [2 * var * total, spread, 0], [0, 0, n * var]]
    )
    products = np.einsum("ti,tj->tij", data - data.mean(axis=0), data - data.mean(axis=0))
    error = products.std(axis=0) / np.sqrt(len(data))
    assert (np.abs(products.mean(axis=0) - expected) < 5 * error).all()


@pytest.mark.parametrize("count", [0, 1, 2, 3, 50])
def test_noise_alone_is_chi_square_around_a_normal(count: int) -> None:
    rng = np.random.default_rng(9)
    stream = baselines.ConstantStream(np.zeros(5001), noise=2.0, rng=rng)
    summary = stream.pull(Plan.fixed([1, *[count] * 5000], phase=1))
    sums, squares = summary.sums[1:], summary.squares[1:]
    if count == 0:
        assert not sums.any()
        assert not squares.any()
        return
    assert stats.kstest(sums / (2 * np.sqrt(count)), "norm").pvalue > FALSE_ALARM
    assert stats.kstest(squares / 4, "chi2", args=(count,)).pvalue > FALSE_ALARM
    within = squares - sums**2 / count
    if count == 1:
        assert np.abs(within).max() < 1e-12
    else:
        assert stats.kstest(within / 4, "chi2", args=(count - 1,)).pvalue > FALSE_ALARM


def weights_of(arms: int) -> Floats:
    weights = np.random.default_rng(10).dirichlet(np.full(arms, 0.3)) if arms > 1 else np.ones(1)
    weights[weights < 1e-4] = 0
    return np.asarray(weights / weights.sum())


@pytest.mark.parametrize("arms", [1, 2, 11, 500, 20_000])
@pytest.mark.parametrize("pulls", [3, 1000, 2_000_001])
@pytest.mark.parametrize(
    "baseline",
    [baselines.constant(1.0), baselines.sinusoid(), baselines.adversary()],
    ids=lambda value: type(value).__name__,
)
def test_arms_are_drawn_with_their_probabilities(arms: int, pulls: int, baseline: Baseline) -> None:
    weights = weights_of(arms)
    if baseline == baselines.adversary():
        pulls = min(pulls, 100_001)
    stream = baseline.begin(np.zeros(arms), noise=1.0, rng=np.random.default_rng(11))
    plan = Plan.randomised(weights, pulls, phase=1)
    counts = stream.pull(plan).counts
    assert counts.sum() == pulls
    assert not counts[weights == 0].any()
    if pulls > 1000 and np.count_nonzero(weights) > 1:
        drawn = weights > 0
        rare = pulls * weights < 20  # together, as the test needs more of each
        drawn &= ~rare
        observed = np.append(counts[drawn], counts[rare].sum())
        expected = np.append(pulls * weights[drawn], pulls * weights[rare].sum())
        some = expected > 0
        result = stats.chisquare(observed[some], expected[some])
        assert FALSE_ALARM < result.pvalue < 1 - FALSE_ALARM


def test_successive_draws_are_independent() -> None:
    # Four draws share a word, so pairs at distances 1 to 5 are where a defect would show.
    weights = np.array([0.3, 0.5, 0.2])
    stream = baselines.sinusoid().begin(np.zeros(3), noise=1.0, rng=np.random.default_rng(12))
    assert isinstance(stream, streams.BaseStream)
    plan = Plan.randomised(weights, 600_000, phase=1)
    arms = np.concatenate(list(stream._arms_in_order(plan)))
    for lag in range(1, 6):
        pairs = np.bincount(arms[lag::6][:99_000] * 3 + arms[::6][:99_000], minlength=9)
        expected = 99_000 * np.outer(weights, weights).ravel()
        assert stats.chisquare(pairs, expected).pvalue > FALSE_ALARM


def test_each_generator_of_a_stream_is_a_child_of_one_sequence() -> None:
    """Whichever of them a run uses, and in whatever order: results do not depend on it."""
    entropy = np.random.default_rng(5).integers(0, 2**32, size=4).tolist()
    arms, noise, baseline, kinds = np.random.SeedSequence(entropy).spawn(4)

    def words(sequence: np.random.SeedSequence) -> list[int]:
        return list(np.random.SFC64(sequence).random_raw(3).tolist())

    for drift in (baselines.sinusoid(), baselines.random_walk(), baselines.none()):
        world = Semiparametric(np.eye(3), [1.0, 0.5, 0.0], noise=2.0, baseline=drift, block=2)
        stream = world.begin(np.random.default_rng(5))
        assert isinstance(stream, streams.BlockStream)
        assert stream._arms_rng.bit_generator.random_raw(3).tolist() == words(arms)
        assert stream._noise_rng.bit_generator.random_raw(3).tolist() == words(noise)
        drawn = world.begin(np.random.default_rng(5)).pull(
            BlockPlan.drawn([[0, 1], [1, 2]], [0.5, 0.5], 50, arms=3, phase=1)
        )
        assert isinstance(drawn, Rounds)
        drawing = np.random.Generator(np.random.SFC64(kinds))
        assert np.array_equal(drawn.kinds, Categorical(np.full(2, 0.5)).draw(drawing, 50))
    walk_of = baselines.random_walk()
    assert isinstance(walk_of, baselines.Moving)
    path = next(walk_of.chunks(np.random.Generator(np.random.SFC64(baseline))))
    paid = path + 2.0 * np.random.Generator(np.random.SFC64(noise)).standard_normal(len(path))
    run = walk_of.begin(np.zeros(3), noise=2.0, rng=np.random.default_rng(5))
    assert isinstance(run, baselines.MovingStream)
    presampled = run.presample(len(path))
    assert presampled is not None
    assert np.array_equal(presampled.common, paid)


def test_an_arm_of_probability_zero_never_collects_rounding() -> None:
    # 0.1 ten times sums to less than 1: what is missing, too little to be seen in draws, must not
    # fall to the last arm.
    weights = np.append(np.full(10, 0.1), 0.0)
    assert np.cumsum(weights)[-1] < 1
    for baseline in (baselines.none(), baselines.sinusoid()):
        stream = baseline.begin(np.zeros(11), noise=1.0, rng=np.random.default_rng(13))
        assert isinstance(stream, streams.BaseStream)
        arms = stream._categorical(Plan.randomised(weights, 1, phase=1))
        assert arms.outcomes.tolist() == list(range(10))
        assert stream.pull(Plan.randomised(weights, 10**6, phase=1)).counts[10] == 0


@pytest.mark.parametrize("baseline", [baselines.none(), baselines.sinusoid()])
def test_draws_do_not_depend_on_the_last_digit_of_a_probability(baseline: Baseline) -> None:
    """One half is one arm's, and half of what is left another's: there NumPy's draws turn over."""

    def counts(*directions: int) -> tuple[int, ...]:
        near = np.nextafter([0.5, 0.25, 0.125, 0.125], directions)
        stream = baseline.begin(np.zeros(4), noise=1.0, rng=np.random.default_rng(13))
        return tuple(stream.pull(Plan.randomised(near, 10_000, phase=1)).counts)

    assert counts(0, 1, 1, 1) == counts(1, 0, 0, 0) == counts(1, 1, 0, 0)


def test_probabilities_far_below_a_cell_are_kept() -> None:
    # 2⁻¹⁸ is finer than the bits of a cell: the cells left must be shared out.
    weights = np.array([2.0**-18, 1 - 2.0**-17, 2.0**-18])
    stream = baselines.sinusoid().begin(np.zeros(3), noise=1.0, rng=np.random.default_rng(14))
    pulls = 20_000_000
    counts = stream.pull(Plan.randomised(weights, pulls, phase=1)).counts
    for arm in (0, 2):
        assert stats.binomtest(int(counts[arm]), pulls, 2.0**-18).pvalue > FALSE_ALARM


@pytest.mark.parametrize(
    "counts", [[1, 3, 2, 0, 0, 1], [0, 0, 9, 0, 0, 0], [5] * 6, [1, 0, 0, 0, 0, 40], [20_000, 5]]
)
def test_a_fixed_plan_is_dealt_in_its_order(counts: list[int]) -> None:
    dealt = np.concatenate(list(streams.deal_round_robin(np.array(counts))))
    assert np.array_equal(dealt, round_robin(np.array(counts)))


def test_rounds_continue_across_plans() -> None:
    # Without noise the sum is Σμ itself: ν_1 … ν_3, then ν_4 … ν_7, then across several chunks.
    nu = np.cos(np.arange(1, 200_001) / 7)
    world = Semiparametric([[1.0], [0.0]], [3.0], baseline=nu, noise=0.0)
    stream = world.begin(np.random.default_rng(17))
    start = 0
    for pulls in (3, 4, 5000, 1, 100_000):
        summary = stream.pull(Plan.fixed([pulls, 0], phase=1))
        expected = 3 + nu[start : start + pulls]
        np.testing.assert_allclose(summary.sums, [expected.sum(), 0], rtol=1e-12)
        np.testing.assert_allclose(summary.squares, [(expected**2).sum(), 0], rtol=1e-12)
        start += pulls


def test_running_past_the_end_of_an_array_is_refused_before_anything_is_drawn() -> None:
    world = Semiparametric([[1.0], [0.0]], [3.0], baseline=np.zeros(10))
    streams_pair = [world.begin(np.random.default_rng(18)) for _ in range(2)]
    plan = Plan.randomised([0.5, 0.5], 6, phase=1)
    first = [stream.pull(plan) for stream in streams_pair]
    with pytest.raises(InvalidInputError, match=r"values for 10 rounds.*reach round 12.*longer"):
        streams_pair[0].pull(plan)
    last = Plan.randomised([0.5, 0.5], 4, phase=2)
    second = [stream.pull(last) for stream in streams_pair]
    for left, right in (first, second):
        np.testing.assert_array_equal(left.sums, right.sums)


def test_a_baseline_far_from_zero_loses_no_digits() -> None:
    level, wiggle = 1e8, 1e-3
    world = Semiparametric(
        [[1.0], [0.0]],
        [1.0],
        baseline=lambda t: level + wiggle * np.sin(t),
        noise=1e-6,
        declared_baseline=level + wiggle,
    )
    summary = world.begin(np.random.default_rng(19)).pull(Plan.fixed([0, 10_000], phase=1))
    assert summary.sums[1] / 10_000 - level == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize(
    "world",
    [
        Semiparametric(np.eye(3), [0.5, 0.2, 0.0], baseline=1.0, noise=0.5),
        Semiparametric(np.eye(3), [0.5, 0.2, 0.0], baseline=baselines.sinusoid(), noise=0.5),
        Semiparametric(np.eye(3), [0.5, 0.2, 0.0], baseline=baselines.switches(period=50)),
        Semiparametric(np.eye(3), [0.5, 0.2, 0.0], baseline=baselines.adversary(2.0)),
        Ratings(np.random.default_rng(3).integers(-3, 4, (500, 3)) + np.arange(3)),
        Ratings(np.random.default_rng(3).normal(size=(500, 3)), replacement=False),
    ],
    ids=repr,
)
def test_streams_tell_extremes_where_a_plan_asks_for_them(world: Ratings | Semiparametric) -> None:
    stream = world.begin(np.random.default_rng(3))
    for phase in range(1, 4):
        plan = Plan.randomised([0.5, 0.3, 0.2], 60, phase=phase, center=0.25, extremes=True)
        summary = stream.pull(plan)
        assert summary.least is not None
        assert summary.largest is not None
        means = summary.sums / summary.counts
        assert (summary.least < means).all()
        assert (means < summary.largest).all()
        # Σ(x − least)(largest − x) ≥ 0, and equality would need rewards at the two ends alone.
        ends = summary.least + summary.largest
        inside = ends * summary.sums - summary.counts * summary.least * summary.largest
        assert (inside > summary.squares - 1e-9).all()


def test_a_plan_for_another_world_is_refused() -> None:
    stream = baselines.none().begin(np.zeros(3), noise=1.0, rng=np.random.default_rng(20))
    with pytest.raises(InvalidInputError, match="over 2 arms; this world has 3"):
        stream.pull(Plan.fixed([1, 1], phase=1))


# --- rounds of several pulls ---------------------------------------------------------------------

ANSWERS = np.array([[1, 2, 0, 5], [11, 13, 12, 15], [-4, -3, -5, -2], [40, 45, 42, 41.0]])
BLOCKS = [[0, 1, 2], [0, 1, 3], [1, 2, 3]]
CHANCES = [0.5, 0.3, 0.2]
BLOCK_ALARM = 1e-4  # the chance of a false alarm, under a fresh seed


def block_plan(rounds: int, phase: int = 1) -> BlockPlan:
    return BlockPlan.drawn(BLOCKS, CHANCES, rounds, arms=4, phase=phase, center=2.0)


def pull_rounds(world: Ratings | Semiparametric, *sizes: int) -> list[Rounds]:
    stream = world.begin(np.random.default_rng(5))
    found = [stream.pull(block_plan(size)) for size in sizes]
    assert all(isinstance(each, Rounds) for each in found)
    return found  # type: ignore[return-value]


def test_a_user_answers_all_of_a_block() -> None:
    weights = np.array([0.4, 0.3, 0.2, 0.1])
    [rounds] = pull_rounds(Ratings(ANSWERS, weights, block=3), 20_000)
    arms = rounds.blocks[rounds.kinds]
    fits = (ANSWERS[:, arms] == rounds.table).all(axis=2)
    assert fits.any(axis=0).all()  # every row is of one user
    users = fits.argmax(axis=0)
    together = np.zeros((4, 3))
    np.add.at(together, (users, rounds.kinds), 1)
    expected = 20_000 * np.outer(weights, CHANCES)
    assert stats.chisquare(together.ravel(), expected.ravel()).pvalue > BLOCK_ALARM


def test_totals_are_those_of_the_rounds() -> None:
    for world in (Ratings(ANSWERS, block=4), Semiparametric(np.eye(4), [1, 2, 3, 5.0], block=3)):
        [rounds] = pull_rounds(world, 500)
        same = Rounds.of(block_plan(500), rounds.kinds, rounds.table)
        for name in ("counts", "missing", "pending", "least", "largest"):
            assert np.array_equal(getattr(rounds, name), getattr(same, name))
        for name in ("sums", "squares", "cubes"):
            assert np.allclose(getattr(rounds, name), getattr(same, name), rtol=1e-12, atol=1e-9)
        block_plan(500).check(rounds)


def test_without_replacement_every_user_is_asked_once() -> None:
    world = Ratings(ANSWERS + np.arange(4)[:, None] * 100, block=3, replacement=False)
    first, second = pull_rounds(world, 3, 1)
    users = np.concatenate([(each.table[:, 0] + 50) // 100 for each in (first, second)])
    assert sorted(users.tolist()) == [0, 1, 2, 3]
    stream = world.begin(np.random.default_rng(0))
    stream.pull(Plan.randomised([1, 0, 0, 0], 2, phase=1))  # a round of one pull asks a user too
    with pytest.raises(InvalidInputError, match="reach round 5"):
        stream.pull(block_plan(3))


def test_the_baseline_of_a_round_is_one_and_goes_on() -> None:
    path = np.array([5.0, -3.0, 1e6, 0.25, 7.0])
    world = Semiparametric(np.eye(4), [1, 2, 3, 5.0], baseline=path, noise=0.0, block=3)
    first, second = pull_rounds(world, 2, 3)
    means = np.array([1, 2, 3, 5.0])
    for rounds, levels in ((first, path[:2]), (second, path[2:])):
        left = rounds.table - means[rounds.blocks[rounds.kinds]]
        assert np.array_equal(left, np.repeat(levels[:, None], 3, axis=1))
    stream = world.begin(np.random.default_rng(5))
    stream.pull(block_plan(4))
    with pytest.raises(InvalidInputError, match="reach round 6"):
        stream.pull(block_plan(2))


@pytest.mark.parametrize("baseline", [baselines.constant(3.0), baselines.sinusoid(1.0)])
def test_noise_is_drawn_for_every_pull(baseline: baselines.Baseline) -> None:
    world = Semiparametric(np.eye(4), [1, 2, 3, 5.0], baseline=baseline, noise=2.0, block=3)
    [rounds] = pull_rounds(world, 4_000)
    means = np.array([1, 2, 3, 5.0])[rounds.blocks[rounds.kinds]]
    left = rounds.table - means
    pairs = (left[:, 1:] - left[:, :1]) / (2.0 * np.sqrt(2))
    assert stats.kstest(pairs[:, 0], "norm").pvalue > BLOCK_ALARM
    assert stats.kstest(pairs[:, 1], "norm").pvalue > BLOCK_ALARM
    counts = np.bincount(rounds.kinds, minlength=3)
    assert stats.chisquare(counts, 4_000 * np.array(CHANCES)).pvalue > BLOCK_ALARM


def test_blocks_of_probability_zero_are_never_drawn() -> None:
    rare = BlockPlan.drawn(BLOCKS, [0.0, 1.0, 0.0], 3_000, arms=4, phase=1)
    rounds = Ratings(ANSWERS, block=3).begin(np.random.default_rng(0)).pull(rare)
    assert isinstance(rounds, Rounds)
    assert (rounds.kinds == 1).all()


def test_plans_with_larger_blocks_are_refused() -> None:
    worlds = (
        Ratings(ANSWERS),
        Ratings(ANSWERS, block=2, replacement=False),
        Semiparametric(np.eye(4), [1, 2, 3, 5.0], block=2),
        Semiparametric(np.eye(4), [1, 2, 3, 5.0], baseline=baselines.adversary(1.0)),
    )
    for world in worlds:
        with pytest.raises(InvalidInputError, match="asks for 3 pulls in a round"):
            world.begin(np.random.default_rng(0)).pull(block_plan(1))
