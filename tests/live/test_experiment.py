"""What could lose an outcome, give one out twice, or let arrival or batching change the result?"""

from __future__ import annotations

import math
import random
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from chained_policies import SIZES, Chained, Scripted, create_chained
from recorded import given_out, told

from bestarm.errors import ConflictingOutcomeError, InvalidInputError, UnknownAssignmentError
from bestarm.live import Assignment, Batch, Experiment
from bestarm.live.watch.story import count_routine, describe, routine_words
from bestarm.policies import SPBAI, AnytimeBAI
from bestarm.problem import Problem
from bestarm.records import Plan, Summary
from bestarm.units import Unit


def reward_of(number: int) -> float:
    """Magnitudes so far apart that the order of a sum shows in its last bits."""
    return math.sin(number + 1.0) * 10.0 ** (number % 9 - 4)


def finish(experiment: Experiment, *, batch: int = 1, shuffle: random.Random | None = None) -> None:
    while not experiment.finished:
        awaited = list(experiment.ask(batch))
        while shuffle is not None and (more := experiment.ask(shuffle.randint(1, 5))):
            awaited.extend(more)
        if shuffle is not None:
            shuffle.shuffle(awaited)
        assert awaited, "nothing is outstanding, so a phase must be open or the end reached"
        for assignment in awaited:
            experiment.tell(assignment.id, reward_of(assignment.id))


def everything(experiment: Experiment) -> tuple[object, ...]:
    policy = cast(Chained, experiment.engine._replayer._policy)
    totals = [(s.counts.tobytes(), s.sums.tobytes(), s.squares.tobytes()) for s in policy.summaries]
    recommendation = experiment.recommendation()
    return given_out(experiment), told(experiment), totals, recommendation.target


@pytest.mark.parametrize("seed", range(5))
def test_neither_batching_nor_arrival_changes_a_bit(seed: int) -> None:
    one_by_one = Experiment(Chained(sizes=(40, 30, 50)), seed=7)
    finish(one_by_one)
    shuffled = Experiment(Chained(sizes=(40, 30, 50)), seed=7)
    finish(shuffled, batch=3, shuffle=random.Random(seed))
    assert everything(one_by_one) == everything(shuffled)


def test_the_order_of_summation_would_have_shown() -> None:
    # The test above has teeth: these rewards, summed as they arrive, give other bits.
    ids = np.arange(40)
    rewards = np.array([reward_of(i) for i in range(40)])
    orders = [Summary.from_pulls(i % 4, rewards[i], size=4) for i in (ids, ids[::-1])]
    assert orders[0].sums.tobytes() != orders[1].sums.tobytes()


def test_draws_follow_the_weights() -> None:
    """χ² test with four degrees of freedom: P(statistic > 23.5) < 10⁻⁴; the seed is fixed.

    The second χ² test is over pairs of successive draws: P(χ²(24) > 61) < 10⁻⁴.
    """
    weights = np.array([0.05, 0.3, 0.15, 0.1, 0.4])
    problem, pulls = Problem(np.eye(5)), 100_000
    policy = Scripted(Plan.randomised(weights, pulls, phase=1))
    policy.problem = problem
    arms = Experiment(policy, seed=3).ask(pulls).arms
    expected = pulls * weights
    assert np.sum((np.bincount(arms, minlength=5) - expected) ** 2 / expected) < 23.5
    pairs = np.bincount(5 * arms[::2] + arms[1::2], minlength=25)
    expected = pulls / 2 * np.outer(weights, weights).ravel()
    assert np.sum((pairs - expected) ** 2 / expected) < 61


def test_probability_and_label_travel_with_the_assignment() -> None:
    experiment = Experiment(Scripted(Plan.randomised([0, 0, 1, 0], 2, phase=1)), seed=0)
    assert experiment.ask()[0] == Assignment(0, 2, "south", probability=1.0, phase=1, round=0)


def test_a_batch_says_what_it_is_waiting_for() -> None:
    experiment = Experiment(Chained(sizes=(4, 2)), seed=0)
    first = experiment.ask(4)
    assert (first.waiting, first.finished) == (0, False)
    assert str(first) == "4 assignments of phase 1 (ids 0 to 3)"
    experiment.tell(2, 0.5)
    empty = experiment.ask(10)
    assert (len(empty), empty.waiting, empty.finished) == (0, 3, False)
    assert str(empty) == "waiting for 3 outcomes of phase 1"
    assert repr(empty) == "<Batch: waiting for 3 outcomes of phase 1>"
    experiment.tell_many({0: 1, 1: 2, 3: 4})
    short = experiment.ask(3)
    assert short.waiting == 2
    assert str(short).endswith("(ids 4 to 5), waiting for 2 outcomes of phase 2")
    experiment.tell(4, 0.0)
    assert str(experiment.ask()) == "waiting for 1 outcome of phase 2"
    experiment.tell(5, 0.0)
    last = experiment.ask(3)
    assert (len(last), last.waiting, last.finished, last.experiment) == (3, 0, True, False)
    assert str(last) == f"3 assignments of {last[0].label!r} after the end, finished"
    assert str(experiment.status()) == "finished with 6 assignments in 2 phases"
    assert "finished" in repr(experiment)


def test_a_batch_is_an_immutable_sequence() -> None:
    batch = Experiment(Chained(), seed=0).ask(5)
    assert isinstance(batch, Batch)
    assert batch[-1] == list(batch)[4]
    assert batch[1:3] == tuple(batch)[1:3]
    assert batch[2] in batch
    assert [a.id for a in reversed(batch)] == [4, 3, 2, 1, 0]
    with pytest.raises(IndexError):
        batch[5]
    with pytest.raises(AttributeError):
        batch.waiting = 9  # type: ignore[misc]
    for column in (batch.arms, batch.probabilities):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 0


def test_outcomes_may_be_told_again_as_they_are_returned() -> None:
    experiment = Experiment(Chained(), seed=0)
    finish(experiment)
    before = everything(experiment)
    experiment.tell_many(experiment.outcomes())
    assert everything(experiment) == before


def test_tell_many_is_all_or_nothing() -> None:
    experiment = Experiment(Chained(), seed=0)
    experiment.ask(4)
    experiment.tell(0, 1.0)
    bad: list[list[tuple[Any, Any]]] = [
        [(1, 2.0), (1, 3.0)],
        [(1, 2.0), (0, 3.0)],
        [(1, 2.0), (4, 3.0)],
        [(1, 2.0), (2, math.nan)],
        [(1, 2.0), (2,)],  # type: ignore[list-item]
    ]
    for outcomes in bad:
        with pytest.raises(InvalidInputError):
            experiment.tell_many(outcomes)
        assert told(experiment) == {0: 1.0}
    experiment.tell_many([(1, 2.0), (1, 2.0), (0, 1.0)])
    experiment.tell_many({})
    assert told(experiment) == {0: 1.0, 1: 2.0}
    assert experiment.status().outstanding == 2


def test_a_failing_source_of_outcomes_records_nothing() -> None:
    def broken() -> Any:
        yield 0, 1.0
        raise OSError("connection lost")

    experiment = Experiment(Chained(), seed=0)
    experiment.ask(2)
    with pytest.raises(OSError, match="connection lost"):
        experiment.tell_many(broken())
    assert told(experiment) == {}


NOT_FINITE = [math.nan, math.inf, -math.inf, np.float64("nan"), 1e101, 10**400]
NOT_NUMBERS = ["0.5", b"1", None, "true", 1j, [1.0], Decimal(1), np.array(1.0)]


@pytest.mark.parametrize("reward", [*NOT_FINITE, *NOT_NUMBERS])
def test_rewards_that_are_no_numbers_are_refused(reward: Any) -> None:
    experiment = Experiment(Chained(), seed=0)
    experiment.ask()
    with pytest.raises(InvalidInputError, match="`reward` must be a finite number") as caught:
        experiment.tell(0, reward)
    assert caught.value.field == "reward"
    assert caught.value.remedy
    assert told(experiment) == {}


@pytest.mark.parametrize("yes", [True, np.True_])
def test_true_and_false_are_rewards(yes: Any) -> None:
    for told_as in (
        lambda given: [(given[0].id, yes), (given[1].id, not yes)],
        lambda given: {given[0].id: yes, given[1].id: not yes},
        lambda given: pd.DataFrame({"id": given.ids, "reward": [yes, not yes]}),
        lambda given: pd.DataFrame({"id": given.ids, "reward": pd.array([yes, not yes])}),
        lambda given: np.array([(number, number == given.ids[0]) for number in given.ids]),
    ):
        experiment = Experiment(Chained(sizes=(2, 1)))
        experiment.tell_many(told_as(experiment.ask(2)))
        assert told(experiment) == {0: 1.0, 1: 0.0}
    experiment = Experiment(Chained(sizes=(2, 1)))
    experiment.ask(2)
    experiment.tell(0, yes)
    experiment.tell(0, 1)  # the same outcome
    assert told(experiment) == {0: 1.0}


def test_an_assignment_stands_for_its_id() -> None:
    experiment = Experiment(Chained(sizes=(6, 1)))
    given = experiment.ask(6)
    experiment.tell(given[0], 1)
    experiment.tell_many([(given[1], 0.5), (2, 0.25)])
    experiment.tell_many({given[3]: 2.0})
    assert told(experiment) == {0: 1.0, 1: 0.5, 2: 0.25, 3: 2.0}
    experiment.fail(given[4])
    experiment.fail_many([given[5], given[4]])
    assert experiment.status().lost == 2
    with pytest.raises(InvalidInputError, match="`id` must be a whole number"):
        experiment.tell(given, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "reward", [1, 1.0, np.float32(1), np.int8(1), np.longdouble(1), 1e100, Fraction(1, 3)]
)
def test_numbers_of_every_kind_are_rewards_and_told_twice_agree(reward: Any) -> None:
    experiment = Experiment(Chained(sizes=(1, 1)), seed=0)
    experiment.ask()
    for _ in range(2):
        experiment.tell(np.uint8(0), reward)  # type: ignore[arg-type]
    assert told(experiment) == {0: float(reward)}
    assert experiment.phase == 2


@pytest.mark.parametrize("number", ["0", 0.0, True, (0,)])
def test_ids_are_whole_numbers(number: Any) -> None:
    experiment = Experiment(Chained(), seed=0)
    experiment.ask()
    with pytest.raises(InvalidInputError, match="`id` must be a whole number"):
        experiment.tell(number, 1.0)


@pytest.mark.parametrize(
    "outcomes", [5, None, [1, 2], [(0, 1, 2)], "ab", ["01"], [{"id": 0, "reward": 1}]]
)
def test_outcomes_are_a_mapping_or_pairs(outcomes: Any) -> None:
    experiment = Experiment(Chained(), seed=0)
    experiment.ask()
    with pytest.raises(InvalidInputError, match="`outcomes` must be a mapping"):
        experiment.tell_many(outcomes)


def test_unknown_and_conflicting_ids_are_named() -> None:
    experiment = Experiment(Chained(), seed=0)
    with pytest.raises(UnknownAssignmentError, match="there are none yet"):
        experiment.tell(0, 1.0)
    experiment.ask(3)
    with pytest.raises(UnknownAssignmentError, match=r"Assignment 3 .* the last id is 2"):
        experiment.tell(3, 1.0)
    experiment.tell(0, 1.0)
    with pytest.raises(ConflictingOutcomeError, match="0 was already told 1, now 2"):
        experiment.tell(0, 2.0)
    with pytest.raises(ConflictingOutcomeError, match="0 has the outcome 1; it has not failed"):
        experiment.fail_many([1, 0])


@pytest.mark.parametrize("count", [0, -1, 1.0, 2.5, True, np.float64(2), 10_000_001, 10**20])
def test_counts_are_whole_numbers_that_others_can_wait_for(count: Any) -> None:
    experiment = Experiment(Chained(), seed=0)
    with pytest.raises(InvalidInputError, match="`count` must be a whole number from 1 to"):
        experiment.ask(count)
    with pytest.raises(InvalidInputError, match=r"unit: ask\(unit='visitor-81'\)"):
        experiment.ask("visitor-81")  # type: ignore[arg-type]
    assert given_out(experiment) == []
    assert len(experiment.ask(np.int32(2))) == 2  # type: ignore[arg-type]


def test_names_are_enough() -> None:
    named = Experiment(["old", "new"], bounds=(0, 1), control="old", seed=3)
    rule = AnytimeBAI(Problem(["old", "new"]), bounds=(0, 1), control="old", changes=True, seed=3)
    same = Experiment(rule, seed=3)
    for each in (named, same):
        each.tell_many([(pull.id, float(pull.id % 3 == 0)) for pull in each.ask(200)])
    assert repr(named.recommendation()) == repr(same.recommendation())
    assert Experiment(iter(["a", "b"]), forecaster="default", bounds=(0, 1)).problem.targets == 2
    with pytest.raises(InvalidInputError, match=r"There is no option 'odd'|'odd'"):
        Experiment(["old", "new"], bounds=(0, 1), control="odd")


@pytest.mark.parametrize("given", [{"bounds": (0, 1)}, {"control": "a"}])
def test_a_policy_that_is_made_has_its_bounds_and_its_control(given: Any) -> None:
    with pytest.raises(InvalidInputError, match="Make the policy with it: Chained"):
        Experiment(Chained(), **given)


@pytest.mark.parametrize("policy", [Chained, None, 3, "old"])
def test_only_options_or_a_policy_can_be_run(policy: Any) -> None:
    with pytest.raises(InvalidInputError):
        Experiment(policy, seed=0)


def test_a_policy_that_was_already_told_something_is_refused() -> None:
    policy = Chained()
    finish(Experiment(policy, seed=0))
    policy.summaries.pop()
    with pytest.raises(InvalidInputError, match="already in phase 4"):
        Experiment(policy, seed=0)


def test_a_policy_with_nothing_to_ask_is_finished() -> None:
    experiment = Experiment(Chained(sizes=()), seed=0)
    assert experiment.finished
    assert experiment.ask().finished
    assert experiment.status().pulls == 0


def test_a_failing_update_loses_nothing() -> None:
    policy = Scripted(*[Plan.fixed([1, 1, 0, 0], phase=phase) for phase in (1, 2)])
    experiment = Experiment(policy, seed=0)
    experiment.ask(2)
    experiment.tell(1, 2.0)
    policy.fail_update = True
    with pytest.raises(RuntimeError, match="out of memory"):
        experiment.tell(0, 1.0)
    assert told(experiment) == {0: 1.0, 1: 2.0}
    with pytest.raises(RuntimeError, match="out of memory"):
        experiment.ask()
    policy.fail_update = False
    experiment.tell(0, 1.0)
    assert experiment.phase == 2
    assert [s.sums.tolist() for s in policy.summaries] == [[1.0, 2.0, 0.0, 0.0]]


def test_a_failing_plan_does_not_hand_a_summary_over_twice() -> None:
    policy = Scripted(*[Plan.fixed([1, 0, 0, 0], phase=phase) for phase in (1, 2)])
    policy.update = policy.summaries.append  # type: ignore[assignment, method-assign]
    experiment = Experiment(policy, seed=0)
    experiment.ask()
    policy.fail_plan = True
    for attempt in (lambda: experiment.tell(0, 1.0), experiment.ask):
        with pytest.raises(RuntimeError, match="no design"):
            attempt()
        assert not experiment.finished
    policy.fail_plan = False
    assert experiment.ask()[0].phase == 2
    assert len(policy.summaries) == 1


def test_a_hundred_thousand_may_be_outstanding() -> None:
    size = 140_000
    experiment = Experiment(Chained(sizes=(size, 3)), seed=5)
    batches = [experiment.ask(n) for n in (1, 70_000, size)]
    assert np.array_equal(
        np.concatenate([batch.arms for batch in batches]),
        Experiment(Chained(sizes=(size, 3)), seed=5).ask(size).arms,
    )
    assert experiment.status().outstanding == size
    order = np.random.default_rng(0).permutation(size)
    experiment.tell_many(zip(order.tolist(), np.sqrt(order).tolist(), strict=True))
    assert experiment.phase == 2
    assert len(told(experiment)) == size


def test_threads_share_the_assignments_without_overlap() -> None:
    experiment = Experiment(Chained(sizes=(300, 300)), seed=0)

    def work(_: int) -> list[int]:
        mine: list[int] = []
        while (batch := experiment.ask(7)) and batch.experiment:
            mine.extend(a.id for a in batch)
            experiment.tell_many({a.id: reward_of(a.id) for a in batch})
        return mine

    with ThreadPoolExecutor(8) as pool:
        ids = [number for mine in pool.map(work, range(8)) for number in mine]
    assert len(ids) == len(set(ids))
    finish(experiment)
    alone = Experiment(Chained(sizes=(300, 300)), seed=0)
    finish(alone)
    assert everything(experiment) == everything(alone)


def test_a_table_of_ids_and_rewards_is_a_way_to_tell() -> None:
    experiment = Experiment(SPBAI(Problem([[1.0, 0.0], [0.0, 1.0]])), seed=0)
    batch = experiment.ask(3)
    experiment.tell_many(np.column_stack([batch.ids, [0.5, 1.5, 2.5]]))
    assert told(experiment) == {0: 0.5, 1: 1.5, 2: 2.5}
    with pytest.raises(InvalidInputError, match="`id` must be a whole number"):
        experiment.tell_many(np.array([[0.5, 1.0]]))


def test_others_need_not_wait_while_a_plan_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, made = Chained._make, []

    def slowly(policy: Chained) -> Plan:
        """Somebody else writes to the same file meanwhile, and has no patience."""
        other = sqlite3.connect(tmp_path / "store.db", timeout=0, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        other.execute("ROLLBACK")
        other.close()
        made.append(policy.phase)
        return make(policy)

    monkeypatch.setattr(Chained, "_make", slowly)
    with create_chained(f"sqlite:///{tmp_path / 'store.db'}") as experiment:
        while not experiment.finished:
            experiment.tell_many([(number, 1.0) for number in experiment.ask(3).ids])
        assert experiment.status().state == "finished"
    assert set(made) == set(range(1, len(SIZES) + 1))


# --- ends, places and names --------------------------------------------------------------------

THREE = Problem(np.eye(3), delta=0.2)


def test_events_are_asked_for_by_numbers_there_can_be() -> None:
    with pytest.raises(InvalidInputError, match="`start`"):
        Experiment(AnytimeBAI(THREE, bounds=(0, 1)), seed=0).events(2**70)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u@h:abc/x",
        "sqlite+foo:///x.db",
        "sqlite+aiosqlite:///x.db",
        "sqlite:///file:zz?mode=memory&cache=shared&uri=true",
        "mysql://u:geheim@h/x",
        7,
    ],
)
def test_a_place_that_is_none_is_one_sentence_without_its_password(url: Any) -> None:
    with pytest.raises(InvalidInputError, match="`url`") as caught:
        Experiment.list(url)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("url", ["shop.db", Path("shop.db")])
def test_a_file_that_is_not_a_url_is_recognised(url: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"Did you mean sqlite:///shop\.db") as caught:
        Experiment.list(url)
    assert caught.value.value == "shop.db"


def test_the_short_name_of_postgresql_is_understood(postgres_url: str) -> None:
    short = postgres_url.replace("postgresql", "postgres", 1)
    Experiment.create(short, "t", THREE, policy_options={"bounds": [0, 1]}, seed=0).close()
    assert [each.name for each in Experiment.list(postgres_url)] == ["t"]


@pytest.mark.parametrize("label", [None, float("nan"), np.float64("nan")])
def test_labels_that_are_missing_are_refused(label: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"which is not a name\. Give every row a name"):
        Problem(np.eye(2), source_labels=["a", label])


def test_labels_that_no_file_can_hold_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="cannot be written as text"):
        Problem(np.eye(2), source_labels=["a", "\ud800"])


def test_an_experiment_that_loses_nearly_everything_says_so() -> None:
    experiment = Experiment(AnytimeBAI(THREE, bounds=(0, 1)), seed=0)
    experiment.fail_many(experiment.ask(200).ids)
    levels = {check.name: check.level for check in experiment.health()}
    assert levels["missing"] == "alarm"


def test_a_clock_that_is_not_a_function_is_refused(sqlite_url: str) -> None:
    policy, clock = AnytimeBAI(THREE, bounds=(0, 1)), cast("Any", 5)
    with pytest.raises(InvalidInputError, match=r"`clock` must be a function.*`time\.time`"):
        Experiment(policy, clock=clock)
    Experiment.create(sqlite_url, "t", THREE).close()
    with pytest.raises(InvalidInputError, match="`clock` must be a function"):
        Experiment.open(sqlite_url, "t", clock=clock)
    with pytest.raises(InvalidInputError, match="`clock` must be a function"):
        Experiment.create(sqlite_url, "u", THREE, clock=clock)


def test_a_whole_number_with_a_decimal_point_is_shown_without() -> None:
    with pytest.raises(InvalidInputError, match=r"got 1000000\.0\. Write 1000000\."):
        AnytimeBAI(THREE, max_pulls=cast("Any", 1e6))


def test_late_calls_are_told_in_words() -> None:
    experiment = Experiment(AnytimeBAI(THREE, bounds=(0, 1)), seed=0)
    experiment.ask(6)
    experiment.stop("enough")
    experiment.tell_many({0: 0.5, 4: 0.5})
    experiment.fail(1)
    stopped, *late = experiment.events()[-3:]
    assert describe(stopped, THREE, experiment.traits, Unit()) == "Stopped by hand: enough"
    words = routine_words({each.kind: count_routine(each) for each in late})
    assert words == "2 outcomes came too late to be used, 1 outcome given up."


def test_a_note_is_in_the_log_and_changes_nothing_else(store_url: str) -> None:
    with Experiment.create(store_url, "noted", THREE, seed=3) as experiment:
        before = experiment.status()
        experiment.note("Moved to the\0 cellar.", degrees=12)
        event = experiment.events()[-1]
        assert (event.kind, event.data) == (
            "noted",
            {"degrees": 12, "text": "Moved to the cellar."},
        )
        assert describe(event, THREE, experiment.traits, Unit()) == "Moved to the cellar."
        assert experiment.status() == before
        assert experiment.verify().sound
