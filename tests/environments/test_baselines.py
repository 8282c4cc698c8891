"""Paths of the baselines, their bounds, and what is refused."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from itertools import islice

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from bestarm.environments import baselines
from bestarm.environments.baselines import Baseline, Moving
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array

Floats = NDArray[np.float64]


def path(baseline: Baseline, chunks: int, seed: int = 0) -> Floats:
    assert isinstance(baseline, Moving)
    pieces = islice(baseline.chunks(np.random.default_rng(seed)), chunks)
    return np.concatenate(list(pieces))


def cosine(rounds: Floats) -> Floats:
    return np.asarray(np.cos(rounds))


def test_sinusoid_is_the_formula_for_millions_of_rounds() -> None:
    values = path(baselines.sinusoid(), 300)
    t = np.arange(1, len(values) + 1)
    assert len(values) > 2**22  # beyond what is remembered
    assert np.abs(values - (1 + np.sin(2.0 * t))).max() < 1e-14
    general = path(baselines.sinusoid(3.0, offset=-1.0, frequency=0.1), 20)
    t = np.arange(1, len(general) + 1)
    assert np.abs(general - (-1 + 3 * np.sin(0.1 * t))).max() < 1e-10
    assert baselines.sinusoid(3.0, offset=-1.0).bound == 4.0


def test_function_is_called_once_for_many_runs() -> None:
    calls = 0

    def counted(rounds: Floats) -> Floats:
        nonlocal calls
        calls += 1
        return rounds % 7

    baseline = baselines.custom(counted, bound=6)
    first, second = path(baseline, 3), path(baseline, 3, seed=1)
    np.testing.assert_array_equal(first, np.arange(1, len(first) + 1) % 7)
    np.testing.assert_array_equal(first, second)
    assert calls == 3
    assert baseline.bound == 6


def test_random_walk_stays_inside_and_steps_as_told() -> None:
    baseline = baselines.random_walk(0.1, bound=2.0)
    values = path(baseline, 30)
    assert np.abs(values).max() <= baseline.bound == 2.0
    assert np.abs(values).max() > 1.95
    steps = np.diff(values)[np.abs(values[1:]) < 1.2]  # far from reflection
    # 6 standard errors of a variance: a false alarm of 2e-9
    assert abs(steps.var() / 0.01 - 1) < 6 * math.sqrt(2 / len(steps))
    # Reflected at both ends, its long-run law is uniform. Far apart, values are independent.
    long = path(baselines.random_walk(1.0, bound=2.0), 100)[::50]
    assert stats.kstest(long, "uniform", args=(-2, 4)).pvalue > 1e-8


def test_a_walk_stays_about_its_level() -> None:
    baseline = baselines.RandomWalk(0.01, 0.1, level=0.3)
    values = np.concatenate([path(baseline, 1, seed) for seed in range(20)])
    assert 0.2 <= values.min() < 0.22
    assert 0.38 < values.max() <= 0.4
    assert baseline.bound == pytest.approx(0.4)


def test_independent_levels_are_uniform_and_nothing_is_left_in_the_next_round() -> None:
    baseline = baselines.Independent(0.1, level=0.3)
    values = path(baseline, 1)
    assert 0.2 <= values.min() < 0.21
    assert 0.39 < values.max() <= 0.4
    assert baseline.bound == pytest.approx(0.4)
    apart = (values - 0.3) / 0.1  # each below 4 standard errors
    assert abs(np.mean(apart**2) - 1 / 3) < 4 * np.sqrt(4 / 45 / len(apart))
    assert abs(np.mean(apart[1:] * apart[:-1])) < 4 / 3 / np.sqrt(len(apart))


@pytest.mark.parametrize("levels", [(-1.0, 1.0), (-1.0, 0.0, 3.0)])
def test_switches_jump_to_another_level_at_the_rate_told(levels: tuple[float, ...]) -> None:
    baseline = baselines.switches(levels, period=20)
    values = path(baseline, 30)
    assert set(values.tolist()) == set(levels)
    assert baseline.bound == max(map(abs, levels))
    jumps = np.flatnonzero(np.diff(values))
    assert stats.binomtest(len(jumps), len(values) - 1, 1 / 20).pvalue > 1e-8
    _, counts = np.unique(np.stack([values[jumps], values[jumps + 1]]), axis=1, return_counts=True)
    assert len(counts) == len(levels) * (len(levels) - 1)  # every pair, never to itself
    expected = np.full(len(counts), len(jumps) / len(counts))
    assert stats.chisquare(counts, expected).pvalue > 1e-8


@pytest.mark.parametrize(
    ("value", "bound"),
    [(0.0, 0.0), (-2, 2.0), ([1.0, -3.0], 3.0), (cosine, math.inf), (baselines.adversary(4), 4.0)],
)
def test_anything_sensible_is_a_baseline(value: object, bound: float) -> None:
    assert baselines.as_baseline(value).bound == bound


@pytest.mark.parametrize(
    ("one_round", "many_rounds"),
    [
        (lambda t: math.cos(t) / 3, lambda t: np.cos(t) / 3),
        (lambda t: 1.0 if t < 1500 else 2.0, lambda t: np.where(t < 1500, 1.0, 2.0)),
        (lambda t: 0.5, lambda t: np.full(t.shape, 0.5)),
        (lambda t: max(t, 9.0), lambda t: np.maximum(t, 9.0)),
    ],
)
def test_a_function_of_one_round_is_called_round_by_round(
    one_round: Callable[[float], float], many_rounds: Callable[[Array], Array]
) -> None:
    expected = path(baselines.custom(many_rounds), 3)
    np.testing.assert_allclose(path(baselines.custom(one_round), 3), expected, rtol=1e-12)


def test_what_a_function_raises_itself_passes_through() -> None:
    with pytest.raises(ValueError, match="round 1 is not known"):
        path(baselines.custom(_unknown), 1)


def _unknown(rounds: object) -> object:
    raise ValueError(f"round {rounds:g} is not known" if isinstance(rounds, float) else "arrays")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: baselines.constant(math.nan), "`level` must be a finite number; got nan"),
        (lambda: baselines.as_baseline("high"), "`baseline` must be a finite number; got 'high'"),
        (lambda: baselines.as_baseline(None), "`baseline` must be a finite number; got None"),
        (lambda: baselines.sinusoid(frequency=math.inf), "`frequency` must be a finite number"),
        (lambda: baselines.random_walk(-1), "`step` must be positive; got -1"),
        (lambda: baselines.random_walk(bound=0), "`bound` must be positive; got 0"),
        (lambda: baselines.switches([1.0]), "at least two different numbers"),
        (lambda: baselines.switches([1.0, 1.0]), "at least two different numbers"),
        (lambda: baselines.switches(period=0.5), "`period` must be at least 1; got 0.5"),
        (lambda: baselines.custom([]), "one value per round"),
        (lambda: baselines.custom([[1.0]]), r"one value per round.*\(1, 1\)"),
        (lambda: baselines.custom([1.0, 5.0], bound=2), "within its bound"),
        (lambda: baselines.custom([1.0, math.nan]), "`baseline` is nan at 1. Every value"),
        (lambda: baselines.adversary(0), "`bound` must be positive"),
        (lambda: path(baselines.custom(lambda t: [t, t]), 1), "one number per round.*shape"),
        (lambda: path(baselines.custom(lambda t: "high"), 1), "could not be read as numbers"),
        (lambda: path(baselines.custom(lambda t: None), 1), "`baseline` is nan at 1"),
        (lambda: path(baselines.custom(lambda t: t, bound=5), 1), "6 at round 6, beyond its bound"),
        (lambda: path(baselines.custom(lambda t: np.where(t == 9, np.inf, t)), 1), "is inf at 9"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(
    make: Callable[[], object], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make()


@pytest.mark.parametrize(
    "baseline",
    [
        baselines.none(),
        baselines.sinusoid(),
        baselines.random_walk(),
        baselines.switches(),
        baselines.custom([1.0, 2.0]),
        baselines.custom(cosine),
        baselines.adversary(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_pickles_travel_light(baseline: Baseline) -> None:
    if isinstance(baseline, Moving) and baseline.horizon == math.inf:
        path(baseline, 5)
    sent = pickle.dumps(baseline)
    assert len(sent) < 1000
    copy = pickle.loads(sent)
    assert repr(copy) == repr(baseline)
    assert copy.bound == baseline.bound
    if isinstance(baseline, Moving):
        np.testing.assert_array_equal(path(copy, 1), path(baseline, 1))
