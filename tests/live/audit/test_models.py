"""Means that fit what was declared are left alone at all looks; means that do not are found."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from bestarm import AnytimeBAI, Experiment, Problem
from bestarm.live.audit.evidence import LevelTest, LinearTest
from bestarm.live.audit.health import _unchecked
from bestarm.live.values import Check
from bestarm.numerics.geometry import Array
from bestarm.records import Plan, Summary

FEATURES = np.random.default_rng(0).normal(size=(8, 2))
SLOPE = np.array([0.3, 0.2])
UNIT = (0.0, 1.0)
SIZE, PHASES = 60, 60
# Where none of the first so many is below 1/20, they decide: of tests that err in 15 %, 4 % get
# through this way, and 57 % by all 60.
FIRST = 20
Level = Callable[[np.ndarray, float], np.ndarray]  # of the pulls' numbers, and the last outcome


def still(times: np.ndarray, last: float) -> np.ndarray:
    return 0 * times


def wave(times: np.ndarray, last: float) -> np.ndarray:
    return np.asarray(np.sin(times / 100))


def spite(times: np.ndarray, last: float) -> np.ndarray:
    """It reacts to the last outcome."""
    return np.full(len(times), -1.0 if last > 0 else 1.0)


def phases(
    means: Array,
    rng: np.random.Generator,
    *,
    level: Level,
    bounded: bool,
    count: int = PHASES,
) -> Iterator[tuple[Plan, Summary]]:
    """Phases with changing probabilities, some of them 0, and a level that may move."""
    last, arms = 0.0, len(means)
    for phase in range(1, count + 1):
        if phase % 7 == 1:
            weights = rng.dirichlet(np.ones(arms))
            weights[weights < 0.02] = 0.0
            weights /= weights.sum()
        drawn = rng.choice(arms, SIZE, p=weights)
        mean = means[drawn] + level(SIZE * phase + np.arange(SIZE), last) * (0.1 if bounded else 1)
        if bounded:
            rewards = (rng.random(SIZE) < mean).astype(float)
        else:
            rewards = mean + rng.normal(size=SIZE)
        last = float(rewards[-1] - mean.mean())
        plan = Plan.randomised(weights, SIZE, phase=phase, open=True, center=0.3)
        yield plan, Summary.from_pulls(drawn, rewards, size=arms, center=0.3)


def means_of(bounded: bool) -> Array:
    return np.asarray(0.5 + 0.2 * FEATURES @ SLOPE if bounded else FEATURES @ SLOPE)


@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("level", [still, wave, spite])
def test_a_linear_model_that_holds_is_left_alone(level: Level, bounded: bool) -> None:
    """Ever below 1/20 in at most 1 of 20: of 60, more than 9 have probability below 1e-3.

    Without bounds a wrong test takes longer to err.
    """
    ever, count = 0, PHASES // 2 if bounded else PHASES
    for seed in range(60):
        test = LinearTest(Problem(FEATURES), UNIT if bounded else None, 1.5)
        assert test.free == 5
        rng = np.random.default_rng(seed)
        told = phases(means_of(bounded), rng, level=level, bounded=bounded, count=count)
        for plan, summary in told:
            test.add(plan, summary)
        assert test.pulls > SIZE * count / 2
        ever += test.p_value <= 1 / 20
        if seed + 1 == FIRST and not ever:
            break
    assert ever <= 9


def test_the_limits_of_forecasts_do_not_narrow_what_rewards_can_be() -> None:
    """Rewards are as they were told, whatever was subtracted from them for the policy."""
    found = []
    for limits in (None, (0.4, 0.45)):
        test, rng = LinearTest(Problem(FEATURES), UNIT, 1.5), np.random.default_rng(0)
        for phase in range(1, PHASES + 1):
            drawn = rng.integers(8, size=SIZE)
            rewards = 0.1 + 0.1 * (drawn % 3) + (rng.random(SIZE) < 0.01) * 0.7
            plan = Plan.randomised(np.full(8, 1 / 8), SIZE, phase=phase, forecasts=limits)
            test.add(plan, Summary.from_pulls(drawn, rewards, size=8))
        found.append(test.log_evidence)
    assert found[0] == found[1] > 1


@pytest.mark.parametrize("level", [still, wave])
def test_how_far_from_zero_rewards_are_makes_no_difference(level: Level) -> None:
    source = np.column_stack([FEATURES, np.ones(8)])
    found = []
    for origin in (0.0, 1e8):
        bounds = (origin, origin + 1)
        linear = LinearTest(Problem(FEATURES), bounds, 1.0)
        steady = LevelTest(Problem(source, baseline=0), bounds)
        rng = np.random.default_rng(0)
        for phase in range(1, PHASES + 1):
            drawn = rng.integers(8, size=SIZE)
            moved = 0.2 * level(SIZE * phase + np.arange(SIZE), 0.0)
            rewards = origin + np.where(drawn == 3, 0.7, 0.3) + moved + 0.1 * rng.random(SIZE)
            plan = Plan.randomised(np.full(8, 1 / 8), SIZE, phase=phase, center=origin + 0.5)
            linear.add(plan, Summary.from_pulls(drawn, rewards, size=8, center=plan.center))
            steady.add(plan, Summary.from_pulls(drawn, rewards, size=8))
        found.append([linear.log_evidence, steady.log_evidence])
    assert found[0][0] > 1
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("bounded", "off"), [(True, 0.25), (False, 1.5)])
def test_an_option_that_is_off_the_model_is_found(bounded: bool, off: float) -> None:
    means = means_of(bounded)
    means[3] += off
    means[5] -= off
    test = LinearTest(Problem(FEATURES), UNIT if bounded else None, 2.5)
    rng = np.random.default_rng(1)
    for plan, summary in phases(means, rng, level=wave, bounded=bounded):
        test.add(plan, summary)
    assert test.p_value < 1e-6
    arm, distance = test.largest_residual
    assert arm in {3, 5}
    assert (distance > 0) == (arm == 3)


@pytest.mark.parametrize(("level", "slope"), [(9.0, 0.0), (-9.0, 0.0), (0.0, 3.0), (0.0, -3.0)])
def test_no_baseline_and_no_slope_leak_into_the_evidence(level: float, slope: float) -> None:
    """A phase that fits the model exactly, drawn exactly as planned, is worth nothing.

    Weights have mean zero under the plan, and so has their product with every feature. Otherwise a
    level or a slope that was not there before would be evidence.
    """
    test, rng = LinearTest(Problem(FEATURES), None, 12.0), np.random.default_rng(4)
    counts = np.array([80, 40, 30, 20, 10, 10, 5, 5])
    for phase in range(1, 5):  # so that there are residuals to bet on
        plan, drawn = Plan.randomised(counts / 200, 200, phase=phase), np.repeat(range(8), counts)
        test.add(plan, Summary.from_pulls(drawn, rng.normal(size=200), size=8))
    before, drawn = test.log_evidence, np.repeat(range(8), 1000 * counts)
    rewards = level + slope * FEATURES[drawn].sum(axis=1)
    plan = Plan.randomised(counts / 200, 200_000, phase=5)
    test.add(plan, Summary.from_pulls(drawn, rewards, size=8))
    assert test.pulls > 200_000
    assert test.log_evidence == before


def test_where_every_option_has_its_own_mean_there_is_nothing_to_doubt() -> None:
    assert LinearTest(Problem(np.eye(4)), UNIT, 1.0).free == 0
    # Two options of the plan fit every line.
    test = LinearTest(Problem([[0.0], [1.0], [2.0]]), UNIT, 1.0)
    for phase in range(1, 30):
        plan = Plan.randomised([0.5, 0.5, 0.0], 20, phase=phase)
        test.add(plan, Summary.from_pulls([0, 1] * 10, [0.0, 1.0] * 10, size=3))
    assert (test.pulls, test.p_value) == (0, 1.0)


def test_bets_settled_on_the_same_phase_would_be_wrong() -> None:
    """A broken twin learns from a phase before it bets on it, and doubts what is true."""

    class Hindsight(LinearTest):
        def add(self, plan: Plan, summary: Summary) -> None:
            self._seen = summary.counts.astype(float) * 1e3
            level = summary.rewards.sum() / summary.pulls
            self._residuals = 1e3 * (summary.rewards - summary.counts * level)
            super().add(plan, summary)

    wrong = 0
    for seed in range(20):
        test = Hindsight(Problem(FEATURES), UNIT, 1.5)
        rng = np.random.default_rng(seed)
        for plan, summary in phases(means_of(True), rng, level=still, bounded=True):
            test.add(plan, summary)
        wrong += test.p_value <= 1 / 20
    assert wrong > 9


def test_where_parts_of_a_phase_end_makes_no_difference() -> None:
    problem, rng = Problem(FEATURES, baseline=0), np.random.default_rng(3)
    whole = LinearTest(problem, UNIT, 1.0), LevelTest(problem, UNIT)
    parts = LinearTest(problem, UNIT, 1.0), LevelTest(problem, UNIT)
    for phase in range(1, 20):
        plan = Plan.randomised(np.full(8, 1 / 8), 40, phase=phase, open=True)
        drawn, rewards = rng.integers(8, size=40), rng.random(40)
        for test in whole:
            test.add(plan, Summary.from_pulls(drawn, rewards, size=8))
        for cut in (slice(0, 7), slice(7, 7), slice(7, 40)):
            for test in parts:
                test.add(plan, Summary.from_pulls(drawn[cut], rewards[cut], size=8))
    np.testing.assert_allclose(parts[0]._lead, whole[0]._lead)
    np.testing.assert_allclose(parts[1]._losses, whole[1]._losses)


@pytest.mark.parametrize("source", [np.eye(3), FEATURES])
@pytest.mark.parametrize("bounded", [True, False])
def test_a_level_that_stays_is_left_alone(source: Array, bounded: bool) -> None:
    """Ever below 1/20 in at most 1 of 20: of 60, more than 9 have probability below 1e-3."""
    means = source @ np.full(source.shape[1], 0.2)
    means = (0.4 + 0.1 * means) if bounded else means
    source = np.column_stack([source, np.ones(len(source))]) if bounded else source
    ever = 0
    for seed in range(60):
        test = LevelTest(Problem(source, baseline=0), UNIT if bounded else None)
        rng = np.random.default_rng(seed)
        told = phases(means, rng, level=still, bounded=bounded, count=PHASES // 2)
        for plan, summary in told:
            test.add(plan, summary)
        ever += test.p_value <= 1 / 20
        if seed + 1 == FIRST and not ever:
            break
    assert ever <= 9


def step(times: np.ndarray, last: float) -> np.ndarray:
    return np.asarray(np.where(times > SIZE * PHASES / 2, 1.5, 0.0))


@pytest.mark.parametrize("source", [np.eye(3), FEATURES])
@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("level", [wave, step])
def test_a_level_that_moves_is_found(source: Array, bounded: bool, level: Level) -> None:
    means = 0.5 + 0.1 * source @ np.full(source.shape[1], 0.2)
    source = np.column_stack([source, np.ones(len(source))])

    def wide(times: np.ndarray, last: float) -> np.ndarray:
        return 2.5 * level(times, last) if bounded else level(times, last)

    test = LevelTest(Problem(source, baseline=0), UNIT if bounded else None)
    for plan, summary in phases(means, np.random.default_rng(2), level=wide, bounded=bounded):
        test.add(plan, summary)
    assert test.p_value < 1e-6


@pytest.mark.parametrize(("bounds", "scale"), [(None, 0.7), ((-1.0, 3.0), 2.0)])
def test_a_level_that_moves_is_worth_what_its_squares_say(
    bounds: tuple[float, float] | None, scale: float
) -> None:
    """Without noise, a level of ±h that stays for long: the fit in hindsight leaves h² a pull.

    Forecasts leave less than nothing never, and here next to nothing. So Σ h² / 2α² is the most
    that the evidence may be, and nearly what it is.
    """
    test, height = LevelTest(Problem(np.eye(2), baseline=0, noise=0.7), bounds), 0.5
    signs = np.repeat([1.0, -1.0, 1.0, -1.0, 1.0, -1.0], 20)
    told = []
    for phase, sign in enumerate(signs, start=1):
        plan = Plan.randomised([0.5, 0.5], 10, phase=phase)
        told.append(1.0 + height * sign)
        test.add(plan, Summary.from_pulls([0, 1] * 5, [told[-1]] * 10, size=2))
    most = 10 * np.var(told[1:]) * len(told[1:]) / (2 * scale**2)
    assert 0.7 * most < test.log_evidence <= most


def checks(
    policy: AnytimeBAI, reward: Callable[[np.ndarray, np.ndarray], np.ndarray], pulls: int
) -> dict[str, Check]:
    """The health of an experiment; a tenth of the outcomes of a batch come after the next ones."""
    experiment, rng = Experiment(policy, seed=0), np.random.default_rng(0)
    late: list[tuple[int, float]] = []
    while not experiment.finished and experiment.status().pulls < pulls:
        given = experiment.ask(400)
        told = reward(given.arms, np.array(given.ids)) + 0.05 * rng.normal(size=len(given))
        pairs = list(zip(given.ids, np.clip(told, 0, 1).tolist(), strict=True))
        experiment.tell_many(late)
        late, now = pairs[::10], [pair for at, pair in enumerate(pairs) if at % 10]
        experiment.tell_many(now)
    return {check.name: check for check in experiment.health()}


@pytest.mark.parametrize(("bounds", "pulls"), [(None, 120_000), (UNIT, 40_000)])
def test_health_asks_both(bounds: tuple[float, float] | None, pulls: int) -> None:
    """Designs draw three of these options in one pull of 200, so that a misfit takes long."""
    line = np.column_stack([np.ones(5), np.linspace(-1, 1, 5)])
    declared, means = Problem(line, baseline=0, noise=0.2, delta=1e-9), np.full(5, 0.5)

    def moving(arms: np.ndarray, ids: np.ndarray) -> np.ndarray:
        return np.asarray(means[arms] + 0.3 * np.sin(ids / 1500))

    def bent(arms: np.ndarray, ids: np.ndarray) -> np.ndarray:
        return np.asarray(moving(arms, ids) + np.where(arms % 2, 0.2, -0.2))

    sound = checks(AnytimeBAI(declared, bounds=bounds), lambda arms, _: means[arms], 6000)
    assert (sound["model"].level, sound["level"].level) == ("ok", "ok")
    moved = checks(AnytimeBAI(declared, bounds=bounds), moving, 6000)
    assert moved["level"].level == "alarm"
    assert "bound on the baseline" in moved["level"].action
    drifting = declared.with_baseline(0.5)
    fit = checks(AnytimeBAI(drifting, bounds=bounds), moving, pulls)
    crooked = checks(AnytimeBAI(drifting, bounds=bounds), bent, pulls)
    assert [each["model"].level for each in (fit, crooked)] == ["ok", "alarm"]
    assert "names alone" in crooked["model"].action
    assert crooked["level"].finding == "A baseline is allowed for, so the level may move."


MISFIT = Problem([[0.0], [1.0], [2.0]], source_labels=["low", "middle", "high"], delta=0.05)
HUMP = np.array([0.3, 0.9, 0.5])


def test_a_hump_is_found_once_the_middle_has_outcomes() -> None:
    """With equal shares it took 140 outcomes, the median of 30 runs, and 220 at most."""
    for seed in range(10):
        test, rng = LinearTest(MISFIT, UNIT, 1.0), np.random.default_rng(seed)
        for phase in range(1, 17):
            plan, arms = Plan.randomised(np.ones(3) / 3, 20, phase=phase), rng.integers(3, size=20)
            rewards = (rng.random(20) < HUMP[arms]).astype(float)
            test.add(plan, Summary.from_pulls(arms, rewards, size=3))
        assert test.p_value < 1e-3
        assert test.largest_residual[0] == 1


def test_options_that_were_hardly_tried_are_said_to_rest_on_their_features() -> None:
    """The rule tries the ends of the line and names one of them; the check cannot see the hump."""
    rng = np.random.default_rng(0)
    experiment = Experiment(AnytimeBAI(MISFIT, bounds=UNIT), seed=1)
    while not experiment.finished:
        for each in experiment.ask(50):
            experiment.tell(each.id, float(rng.random() < HUMP[each.arm]))
    assert experiment.recommendation().label == "high"
    [found] = [check for check in experiment.health() if check.name == "model"]
    assert found.level == "ok"
    assert ". Option 'middle' has only " in found.finding
    assert found.finding.endswith("what is claimed of it rests on its features alone.")


@pytest.mark.parametrize(
    ("outcomes", "words"),
    [
        ([50, 1, 50], "Option 'b' has only 1 outcome, too few"),
        ([50, 0, 39], "2 options have fewer than 40 outcomes each, too few"),
        ([50, 40, 90], ""),
        ([3, 0, 5], ""),
    ],
)
def test_few_outcomes_in_words(outcomes: list[int], words: str) -> None:
    found = _unchecked(np.array(outcomes, dtype=float), ["a", "b", "c"])
    assert words in found
    assert bool(found) is bool(words)
