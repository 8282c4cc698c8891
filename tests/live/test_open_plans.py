"""Open plans: nobody waits, nothing is lost, told twice or out of turn, whatever arrives when."""

from __future__ import annotations

import random

import numpy as np
import pytest
from chained_policies import PROBLEM as COMPASS
from chained_policies import Chained
from recorded import given_out, told
from recorders import PROBLEM, SIZES, Recorder

from bestarm import AnytimeBAI, Problem
from bestarm.errors import ConflictingOutcomeError, InvalidInputError, UnknownAssignmentError
from bestarm.live import Experiment, Receipt
from bestarm.policies.anytime.evidence import TopTargetsEvidence
from bestarm.records import Summary


def test_nobody_waits_for_the_last_outcome() -> None:
    experiment = Experiment(Recorder(), seed=0)
    first = experiment.ask(5)
    more = experiment.ask(20)
    assert len(more) == 20
    assert more.phase == first.phase == 1
    assert not more.waiting
    experiment.tell_many(dict.fromkeys(range(1, 25), 0.0))
    assert experiment.phase == 1  # all but the first are in: it holds up everything
    experiment.tell(0, 0.0)
    assert experiment.phase == 2


def test_what_is_beyond_a_gap_counts_when_the_gap_closes() -> None:
    policy = Recorder()
    experiment = Experiment(policy, seed=0)
    experiment.ask(12)
    experiment.tell_many(dict.fromkeys((0, 1, 2, 3, 4, 5, 6, 8, 9), 1.0))
    assert [(phase, late, s.pulls) for phase, late, s in policy.told] == [(1, False, 7)]
    second = experiment.ask(4)
    assert second.phase == 2
    experiment.tell_many(dict.fromkeys((7, 10), 1.0))
    assert len(policy.told) == 1
    experiment.tell(11, 1.0)
    assert [(phase, late, s.pulls) for phase, late, s in policy.told[1:]] == [(1, True, 5)]
    experiment.tell_many(dict.fromkeys(second.ids, 1.0))
    assert [(phase, late, s.pulls) for phase, late, s in policy.told[2:]] == [(2, False, 4)]


@pytest.mark.parametrize("seed", range(30))
def test_every_outcome_is_handed_over_once_in_order_and_under_its_own_plan(seed: int) -> None:
    """Random asking, telling and giving up; each summary is made of the next ids, of one phase."""
    rng = random.Random(seed)
    policy = Recorder()
    experiment = Experiment(policy, seed=seed)
    out: list[int] = []
    lost: set[int] = set()
    while not experiment.finished:
        if rng.random() < 0.2:  # fewer than are told, or the first gap might never close
            out += experiment.ask(rng.randint(1, 6)).ids
        elif out:
            number = out.pop(rng.randrange(len(out)))
            if rng.random() < 0.15:
                experiment.fail(number)
                lost.add(number)
            else:
                experiment.tell(number, float(number))
    assignments, outcomes, at = given_out(experiment), told(experiment), 0
    for phase, late, summary in policy.told:
        size = summary.pulls + int(summary.missing.sum())
        assert late or size >= SIZES[phase - 1]
        rows, at = assignments[at : at + size], at + size
        assert {row.phase for row in rows} == {phase}
        for row in rows:
            assert row.probability == policy.weights(phase)[row.arm]
        kept = [row for row in rows if row.id not in lost]
        expected = Summary.from_pulls(
            [row.arm for row in kept], [outcomes[row.id] for row in kept], size=3
        )
        np.testing.assert_array_equal(summary.counts, expected.counts)
        np.testing.assert_array_equal(summary.sums, expected.sums)
        gone = [row.arm for row in rows if row.id in lost]
        np.testing.assert_array_equal(summary.missing, np.bincount(gone, minlength=3))


def test_a_plan_is_not_extended_beyond_its_most() -> None:
    experiment = Experiment(Recorder(most=8), seed=0)
    assert len(experiment.ask(20)) == 8
    batch = experiment.ask(20)
    assert len(batch) == 0
    assert batch.waiting == 8


def test_giving_up_is_final_and_checked() -> None:
    experiment = Experiment(Recorder(), seed=0)
    experiment.ask(5)
    experiment.tell(0, 1.0)
    with pytest.raises(ConflictingOutcomeError, match="already told 1, now it has failed"):
        experiment.fail_many([1, 0])
    with pytest.raises(UnknownAssignmentError):
        experiment.fail_many([99])
    assert experiment.status().outstanding == 4
    experiment.fail_many([1])
    experiment.fail_many([1])
    assert experiment.status().outstanding == 3
    assert experiment.tell(1, 2.0) == Receipt(recorded=1, repeated=0, late=1)
    assert experiment.status().outstanding == 3
    assert told(experiment) == {0: 1.0, 1: 2.0}
    assert experiment.outcomes()["late"].tolist() == [False, True]


def test_a_single_reward_outside_the_bounds_is_refused() -> None:
    experiment = Experiment(AnytimeBAI(PROBLEM, bounds=(0, 1)), seed=0)
    experiment.ask(2)
    with pytest.raises(InvalidInputError, match="between 0 and 1; got 7"):
        experiment.tell(0, 7.0)
    experiment.tell(0, 1.0)


def test_an_experiment_with_late_and_lost_answers_ends_with_the_best() -> None:
    """Good news comes late, one in fifty never: the anytime rule ends, and names the best."""
    rng = random.Random(3)
    policy = AnytimeBAI(PROBLEM, bounds=(0, 1), missing="worst-case")
    experiment = Experiment(policy, seed=3)
    late: list[tuple[int, float]] = []
    while not experiment.finished:
        for assignment in experiment.ask(20):
            reward = float(rng.random() < (0.9, 0.3, 0.2)[assignment.arm])
            if rng.random() < 0.02:
                experiment.fail_many([assignment.id])
            elif reward:
                late.append((assignment.id, reward))
            else:
                experiment.tell(assignment.id, reward)
        ready, late = late[:-30], late[-30:]
        experiment.tell_many(ready)
    answer = experiment.recommendation()
    assert answer.final
    assert answer.label == "tea"
    assert experiment.status().outstanding > 0  # some were out when it was decided


def test_sets_are_judged_by_one_wealth_a_pair_however_late_answers_come() -> None:
    """What a pair's wealth is must not depend on when its targets were among the chosen."""
    looks = changes = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        policy = AnytimeBAI(Problem(np.eye(4)), bounds=(0, 1), top=2)
        experiment = Experiment(policy, seed=seed)
        pending: list[tuple[float, int, float]] = []
        before: list[int] = []
        for step in range(60):
            for pull in experiment.ask(10):
                reward = float(rng.random() < (0.55, 0.5, 0.5, 0.45)[pull.arm])
                pending.append((step + rng.exponential(3), pull.id, reward))
            experiment.tell_many([(i, r) for when, i, r in pending if when <= step])
            pending = [entry for entry in pending if entry[0] > step]
            evidence = policy._evidence
            assert isinstance(evidence, TopTargetsEvidence)
            chosen = evidence.chosen.tolist()
            changes += bool(before) and set(before) != set(chosen)
            before = chosen
            for target in chosen if step % 3 == 0 else ():
                looks += 1
                pairs = evidence._pairs[target]
                wealth = np.zeros_like(pairs.wealth)
                for batch in policy._past[: evidence._finalized]:
                    wealth += evidence._bets(batch.frame, pairs).log_growth(batch)
                np.testing.assert_allclose(pairs.wealth, wealth, atol=1e-9)
    assert looks > 200
    assert changes > 5


def test_what_is_out_under_the_plan_before_counts_towards_the_limit() -> None:
    experiment = Experiment(AnytimeBAI(PROBLEM, bounds=(0, 1), max_pulls=1000), seed=0)
    first = experiment.ask(900)
    assert len(first) == 900
    experiment.tell_many(dict.fromkeys(first.ids[:30], 0.5))  # a phase closes, 870 are out
    assert experiment.phase > 1
    assert len(experiment.ask(5000)) == 100
    empty = experiment.ask(5000)
    assert (len(empty), empty.waiting, empty.state) == (0, 970, "running")
    experiment.tell_many(dict.fromkeys(range(30, 1000), 0.5))
    assert experiment.state == "finished"
    assert experiment.recommendation().pulls == experiment.status().pulls == 1000
    assert experiment.recommendation().reason == "max_pulls"


@pytest.mark.parametrize("seed", range(6))
def test_a_limit_is_exceeded_by_less_than_the_last_plan(seed: int) -> None:
    """However much is kept out: asked for in floods, told in any order, some of it never."""
    chance = random.Random(seed)
    limit = chance.choice([30, 200, 1000])
    experiment = Experiment(AnytimeBAI(PROBLEM, bounds=(0, 1), max_pulls=limit), seed=seed)
    out: list[int] = []
    for _ in range(3000):
        out += experiment.ask(chance.choice([1, 7, 10**6])).ids
        chance.shuffle(out)
        keep = chance.randint(0, len(out) - 1)
        done, out = out[keep:], out[:keep]
        experiment.fail_many(n for n in done if n % 11 == 0)
        experiment.tell_many({n: float(chance.random() < 0.5) for n in done if n % 11})
        if experiment.finished:
            break
    assert experiment.finished
    with experiment.read() as snapshot:
        last = snapshot.plan(snapshot.head.phase).plan.pulls
        assert snapshot.head.assigned < limit + last
    assert experiment.verify().findings == ()


def test_what_is_given_up_of_the_plan_before_is_no_longer_awaited() -> None:
    """Four of eight close the first phase, so four are out under its plan: two come, two do not."""
    experiment = Experiment(Chained(COMPASS, kind="open", sizes=(4, 3)), seed=1)
    assert list(experiment.ask(8).ids) == list(range(8))
    experiment.tell_many(dict.fromkeys(range(4), 0.5))
    assert (experiment.phase, experiment.status().outstanding) == (2, 4)
    experiment.fail_many([4, 6])
    assert experiment.status().outstanding == 2
    experiment.tell_many({5: 0.5, 7: 0.25})
    assert experiment.status().outstanding == 0
    with experiment.read() as snapshot:
        first, second = (entry.summary for entry in snapshot.summaries())
    assert (first.pulls, second.pulls, second.missing.sum()) == (4, 2, 2)
    assert experiment.verify().findings == ()
