"""Effects against a control: they hold together with the decision, and never contradict it."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from first_runs import FIRST

from bestarm import AnytimeBAI, Problem
from bestarm.bounds import control_shares
from bestarm.environments import Semiparametric, baselines
from bestarm.errors import InvalidInputError
from bestarm.policies.anytime.bets import BatchOutcome
from bestarm.policies.anytime.intervals import ControlEffect
from bestarm.simulation import run_once

THETA = np.array([0.9, 0.5, 0.1])
LABELS = ["new", "old", "other"]
WORLD = Semiparametric(np.eye(3), THETA, baseline=baselines.sinusoid(), source_labels=LABELS)
RULE = partial(AnytimeBAI, mean_bound=1.0)


def test_shares_of_delta_add_up() -> None:
    shares = control_shares(0.05, targets=7)
    assert shares.decision + shares.behind + 12 * shares.pair == pytest.approx(0.05)


def test_effects_hold_and_agree_with_the_decision() -> None:
    """150 experiments: a miss in one of them has probability at most δ = 0.1.

    So more than 30 misses have probability below 2e-4 at worst. Contradictions have none at all.
    Where none of the first 35 misses, they decide: with a miss in 15 % that has probability 3e-3.
    """
    misses = 0
    for run in range(150):
        answer = run_once(partial(RULE, control="old"), WORLD, run=run, delta=0.1)
        effect = answer.effect
        assert answer.final
        assert effect is not None
        assert effect.label == "old"
        truth = THETA[answer.target] - THETA[1]
        misses += not (answer.target == 0 and effect.lower <= truth <= effect.upper)
        assert effect.lower <= effect.estimate <= effect.upper
        assert effect.lower >= 0
        if answer.target == 1:
            assert (effect.lower, effect.upper) == (0, 0)
        if run + 1 == FIRST and not misses:
            break
    assert misses <= 30


def test_the_control_is_shown_to_be_behind_the_best_without_a_union() -> None:
    """Long after the decision, the lower end comes near the truth, for one level of log(1/δ)."""
    policy = RULE(WORLD.problem(0.1), control="old", tolerance=0.0, seed=0)
    stream = WORLD.begin(np.random.default_rng(4))
    while (plan := policy.plan()) is not None:
        policy.update(stream.pull(plan))
    assert policy._effects is not None
    behind = policy._effects.behind(policy._past)
    pair = policy._effects.effect(
        0, policy._estimates.slope, policy._past, learned=policy._learned, margin=None
    )
    assert behind > pair.lower  # the pair's level is higher by log(2(H − 1))
    assert behind < THETA[0] - THETA[1]


def test_an_effect_is_shown_to_be_positive_once_its_share_of_delta_is_reached() -> None:
    """The decision rests on evidence for the same pair: it must be as large as the share asks."""
    policy = RULE(Problem(np.eye(2), delta=1e-4), control="1", seed=0)
    stream = Semiparametric(np.eye(2), [0.4, 0.0], baseline=1.0).begin(np.random.default_rng(5))
    own = policy._effects
    assert own is not None
    easier = policy.problem.with_delta(0.5)  # whose share is reached before the decision
    effects = ControlEffect(easier, 1, own._arms, own._targets, own._grid)
    needed, shown = -math.log(effects.shares.pair), []
    while (plan := policy.plan()) is not None:
        policy.update(stream.pull(plan))
        found = effects.effect(
            0, policy._estimates.slope, policy._past, learned=policy._learned, margin=None
        )
        shown.append((np.log(policy.evidence()[1]) - needed, found.lower > 0))
    assert len({positive for _, positive in shown}) == 2
    for beyond, positive in shown:
        assert positive == (beyond > 0), beyond


def test_a_control_that_is_the_best_is_not_shown_to_be_behind() -> None:
    """Each of 20 times with probability at least 1 − 0.05 δ; all of them with 1 − δ = 0.9."""
    for run in range(20):
        answer = run_once(partial(RULE, control="new"), WORLD, run=run, delta=0.1)
        assert answer.target == 0
        assert answer.effect is not None
        assert (answer.effect.lower, answer.effect.upper) == (0, 0)


def test_opponents_chosen_after_the_batch_would_be_wrong() -> None:
    """A broken twin bets along whoever did best in the batch, and claims leads that are none."""

    def peeking(self: ControlEffect, past: list[BatchOutcome]) -> float:
        rows = np.delete(self._targets, self.control, axis=0) - self._targets[self.control]
        growth = [batch.frame.bets(rows).log_growth(batch).max(axis=0) for batch in past]
        return float(np.sum(growth, axis=0).max() - math.log(1 / self.shares.behind))

    world = Semiparametric(np.eye(6), [1e-9, 0, 0, 0, 0, 0], declared_baseline=0.5)
    rule = partial(AnytimeBAI, mean_bound=0.5, max_pulls=6000, control="0")
    honest = twin = 0
    for run in range(6):
        policies: list[AnytimeBAI] = []
        run_once(rule, world, run=run, delta=0.1, observe=policies.append)  # type: ignore[arg-type]
        policy = policies[-1]
        assert policy._effects is not None
        honest += policy._effects.behind(policy._past) > 0
        twin += peeking(policy._effects, policy._past) > 0
    assert honest == 0
    assert twin >= 5


def test_equivalent_is_a_verdict_of_its_own() -> None:
    near = Semiparametric(
        np.eye(3), [0.3, 0.27, 0.29], baseline=1.0, noise=0.3, source_labels=LABELS
    )
    rule = partial(AnytimeBAI, mean_bound=0.5, control="old", tolerance=0.2)
    answer = run_once(rule, near, delta=0.1)
    assert (answer.reason, answer.label, answer.final) == ("equivalent", "old", True)
    assert answer.error_bound == 0.1
    assert answer.statement.startswith("No option is better than 'old', the control, by more than")


def test_with_a_tolerance_and_a_clear_winner_the_winner_is_named() -> None:
    answer = run_once(partial(RULE, control="old", tolerance=0.2), WORLD, delta=0.1)
    assert (answer.reason, answer.label) == ("identified", "new")
    assert answer.effect is not None
    assert answer.effect.upper > 0.4


def test_relative_effects_need_a_positive_level() -> None:
    high = Semiparametric(np.eye(2), [1.0, 0.2], baseline=4.0, source_labels=["a", "b"])
    low = Semiparametric(np.eye(2), [1.0, 0.2], baseline=-4.0, source_labels=["a", "b"])
    rule = partial(AnytimeBAI, mean_bound=1.0, control="b")
    above, below = (run_once(rule, world, delta=0.1).effect for world in (high, low))
    assert above is not None
    assert below is not None
    assert above.relative == pytest.approx(above.estimate / 4.2, rel=0.2)
    assert below.relative is None


@pytest.mark.parametrize(("options", "match"), [({"control": "nwe"}, "new"), ({"top": 2}, "top")])
def test_wrong_controls_are_refused(options: dict[str, object], match: str) -> None:
    problem = Problem(np.eye(3), source_labels=LABELS)
    with pytest.raises(InvalidInputError, match=match) as error:
        AnytimeBAI(problem, **({"control": "old"} | options))  # type: ignore[arg-type]
    assert error.value.field == "control"


def test_a_name_that_looks_like_a_number_is_a_name() -> None:
    assert AnytimeBAI(Problem(np.eye(3)), control=2)._effects.control == 2  # type: ignore[arg-type,union-attr]


def test_intervals_never_contradict_the_decision() -> None:
    for run in range(20):
        policies: list[AnytimeBAI] = []
        run_once(RULE, WORLD, run=run, delta=0.1, observe=policies.append)  # type: ignore[arg-type]
        found = policies[-1].intervals()
        assert (found.low >= 0).all()
        assert (found.high >= found.low).all()
