"""Frank–Wolfe sampling: its choices and its end, computed once more from the paper's formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from linear_runs import PROBLEMS, closest, drive, least_squares, rewards_of
from plans import next_counts
from scipy.optimize import linprog

from bestarm import Plan, Problem, Summary
from bestarm.field.fws import FrankWolfeSampling, solve_game
from bestarm.numerics.geometry import Array
from bestarm.presampled import PresampledRewards


def _maximin(payoffs: Array) -> tuple[Array, float]:
    """Weights of rows with the largest least payoff over columns, and that payoff."""
    rows, columns = payoffs.shape
    found = linprog(
        np.append(np.zeros(rows), -1.0),
        A_ub=np.column_stack([-payoffs.T, np.ones(columns)]),
        b_ub=np.zeros(columns),
        A_eq=np.append(np.ones(rows), 0.0)[None, :],
        b_eq=[1.0],
        bounds=[(0, None)] * rows + [(None, None)],
    )
    best = np.asarray(found.x, dtype=float)
    return best[:-1], float(best[-1])


def _towards(problem: Problem, share: Array, theta: Array, radius: float) -> tuple[Array, int]:
    """The step z(t) of the paper, and how many alternatives were within the radius."""
    design = problem.source.T @ (share[:, None] * problem.source)
    inverse = np.asarray(np.linalg.pinv(design, rcond=1e-10, hermitian=True), dtype=float)
    leader, leads, norms = closest(problem, inverse, theta)
    others = np.delete(np.arange(problem.targets), leader)
    values = leads[others] ** 2 / (2 * norms[others])
    near = others[values < values.min() + radius]
    gradients = []
    for b in near:
        away = inverse @ (problem.target[leader] - problem.target[b]) * leads[b] / norms[b]
        gradients.append(0.5 * (problem.source @ away) ** 2)
    table = np.column_stack(gradients)
    return _maximin(table - share @ table)[0], len(near)


def _by_hand(
    problem: Problem, presampled: PresampledRewards, sigma: float
) -> tuple[list[int], bool, int]:
    """The arms pulled, whether it stopped, and how often several alternatives were close."""
    arms = problem.arms
    level = FrankWolfeSampling(problem)._rule[2]
    counts, sums, pulled = np.zeros(arms), np.zeros(arms), list(range(arms))
    total, several = np.ones(arms), 0
    for t, noise in enumerate(presampled.common, start=1):
        counts[pulled[t - 1]] += 1
        sums[pulled[t - 1]] += (presampled.table[0, pulled[t - 1]] + noise) / sigma
        if t < arms:
            continue
        inverse, theta = least_squares(problem, counts, sums, ridge=0.0)
        leader, leads, norms = closest(problem, inverse, theta)
        others = np.arange(problem.targets) != leader
        wanted = level + 2 * np.log(4 + np.log(counts)).sum()
        if (leads[others] ** 2 / (2 * norms[others])).min() > wanted:
            return pulled, True, several
        if math.isqrt(t // arms) ** 2 == t // arms:
            total += 1 / arms
        else:
            step, near = _towards(problem, total / t, theta, t**-0.9 / arms)
            several += near > 1
            total += step
        pulled.append(int(np.argmax(np.round(total / counts, 9))))
    return pulled[:-1], False, several


@pytest.mark.parametrize("name", ["soare", "flat", "transductive"])
def test_every_pull_is_the_one_that_the_paper_prescribes(name: str) -> None:
    """For 80 pulls, or to the end. (Two arms that are the targets are tied all the time.)"""
    problem, sigma = PROBLEMS[name], 0.5
    presampled = rewards_of(problem, 80)
    policy = FrankWolfeSampling(problem, sigma=sigma)
    expected, stopped, several = _by_hand(problem, presampled, sigma)
    assert drive(policy, presampled) == expected
    assert policy.recommend().final == stopped
    assert several > 0 or name != "soare"  # so matrix games were part of it


def test_matrix_games_have_the_value_that_a_linear_programme_finds() -> None:
    """Of many sizes and scales, with ties and without."""
    rng = np.random.default_rng(3)
    for rows, columns in ((2, 2), (7, 2), (7, 6), (30, 5), (3, 12)):
        for scale in (1e-6, 1.0, 1e4):
            for payoffs in (
                rng.normal(size=(rows, columns)) * scale,
                rng.integers(3, size=(rows, columns)) * scale,
                np.full((rows, columns), scale),
            ):
                weights = solve_game(np.asarray(payoffs, dtype=float))
                assert weights.min() >= 0
                assert weights.sum() == pytest.approx(1)
                value = _maximin(np.asarray(payoffs / scale, dtype=float))[1]
                assert (weights @ payoffs).min() / scale == pytest.approx(value, abs=1e-7)


def test_the_first_step_may_come_late() -> None:
    """After adopted pulls of one arm, six pulls of two arms: no step went to all arms before."""
    policy = FrankWolfeSampling(PROBLEMS["two"])
    for phase, arm in enumerate((0, 0, 0, 0, 0, 1), start=1):
        counts = np.eye(2, dtype=np.int64)[arm]
        policy.adopt(Plan.fixed(counts, phase=phase))
        policy.update(Summary(counts, 0.3 * phase * counts, counts.astype(float)))
    assert next_counts(policy).tolist() == [0, 1]
