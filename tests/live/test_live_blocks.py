"""Rounds of several options: drawn, lost, late, audited and shown as what they are."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from chained_policies import PROBLEM as COMPASS
from chained_policies import Scripted
from tampering import changed_copy, findings

from bestarm import AnytimeBAI, Experiment, Problem
from bestarm.errors import InvalidInputError
from bestarm.live import Batch, draw_block
from bestarm.live.watch.overview import overview
from bestarm.policies import PairedTests
from bestarm.records import BlockPlan

RATES = np.array([0.2, 0.8, 0.4, 0.3])
DRINKS = Problem(np.eye(4), source_labels=["tea", "coffee", "water", "juice"], delta=0.1)


def begin(url: str, *, seed: int = 1, **options: Any) -> Experiment:
    options = {"bounds": [0, 1], "block": 2, **options}
    return Experiment.create(url, "drinks", DRINKS, policy_options=options, seed=seed)


def rate(batch: Batch, rng: np.random.Generator) -> dict[int, float]:
    """Everybody's mood moves what they rate, all options alike."""
    mood = rng.uniform(-0.2, 0.2, size=int(batch.rounds.max(initial=0)) + 1)[batch.rounds]
    rewards = (rng.random(len(batch)) < RATES[batch.arms] + mood) + 0.0
    return dict(zip(batch.ids, rewards.tolist(), strict=True))


def work(
    experiment: Experiment, *, rounds: int = 2000, late: float = 0.0, lost: float = 0.0
) -> None:
    """Ask and tell; some outcomes come when a third of the rounds is over, some never."""
    rng, waiting = np.random.default_rng(2), dict[int, float]()
    while not experiment.finished and experiment.status().rounds < rounds:
        told = rate(experiment.ask(4), rng)
        gone = [number for number in told if rng.random() < lost]
        slow = {number for number in told if rng.random() < late}.difference(gone)
        waiting |= {number: told[number] for number in slow}
        experiment.fail_many(gone)
        experiment.tell_many({each: told[each] for each in told if each not in {*gone, *slow}})
        if len(waiting) > 12:
            experiment.tell_many({number: waiting.pop(number) for number in list(waiting)[:9]})


def test_a_batch_has_whole_rounds(sqlite_url: str) -> None:
    """How they are drawn is compared with `draw_block` in `test_stateful.py`."""
    batch = begin(sqlite_url).ask(6)
    blocks = list(batch.blocks())
    assert [len(block) for block in blocks] == [2] * 6
    assert [{each.round for each in block} for block in blocks] == [{n} for n in range(6)]
    assert [each.id for block in blocks for each in block] == list(batch.ids)


def test_a_request_that_is_repeated_waits_only_while_no_round_can_be_made() -> None:
    """A plan allows fewer until the rounds before it are settled, and then its own after all."""
    blocks = [[0, 1], [1, 2]]
    plans = (
        BlockPlan.drawn(blocks, [0.5, 0.5], rounds, arms=4, phase=phase, open=True, most=most)
        for phase, (rounds, most) in enumerate([(2, None), (3, 10)], start=1)
    )
    experiment = Experiment(Scripted(*plans), seed=4)
    experiment.ask(6)
    experiment.tell_many(dict.fromkeys(range(4), 1.0))
    given = experiment.ask(2, request_id="a")
    assert (len(given), given.waiting) == (2, 10)
    assert experiment.ask(2, request_id="a").waiting == 10
    experiment.tell_many(dict.fromkeys(range(4, 12), 1.0))
    assert experiment.ask(2, request_id="a").waiting == 0
    assert len(experiment.ask(9)) == 4


def test_what_is_left_to_assign_is_whole_rounds(sqlite_url: str) -> None:
    """A limit that no round fits into any more leaves nothing, while outcomes are outstanding."""
    experiment = begin(sqlite_url, block=3, max_pulls=40)
    rng = np.random.default_rng(3)
    while batch := experiment.ask(4):
        told = rate(batch, rng)
        told.pop(2, None)
        experiment.tell_many(told)
    status = experiment.status()
    assert (status.pulls, status.outstanding, status.remaining) == (39, 1, 0)
    assert batch.waiting == 1
    experiment.tell(2, 1.0)
    assert experiment.recommendation().reason == "max_pulls"


def test_nobody_gets_more_assignments_at_a_time_for_asking_in_rounds() -> None:
    experiment = Experiment(AnytimeBAI(DRINKS, bounds=(0, 1), block=4))
    with pytest.raises(InvalidInputError, match="count"):
        experiment.ask(2_500_001)
    assert experiment.status().pulls == 0


def test_blocks_and_orders_are_as_likely_as_the_plan_says() -> None:
    blocks, weights, rounds = [[0, 1, 2], [0, 2, 3]], [0.25, 0.75], 4800
    drawn = Counter(tuple(draw_block(5, 3 * n, blocks, weights)) for n in range(rounds))
    expected = {
        order: rounds * weight / 6
        for block, weight in zip(blocks, weights, strict=True)
        for order in permutations(block)
    }
    assert drawn.keys() == expected.keys()
    # χ² of 11 degrees of freedom: 31 is exceeded once in a thousand times.
    assert sum((drawn[each] - wanted) ** 2 / wanted for each, wanted in expected.items()) < 31


@pytest.mark.parametrize("options", [{}, {"missing": "worst-case"}, {"block": 3}])
def test_late_and_lost_outcomes_change_neither_the_answer_nor_its_proof(
    store_url: str, options: dict[str, Any]
) -> None:
    with begin(store_url, **options) as experiment:
        work(experiment, late=0.15)
        answer = experiment.recommendation()
        assert (answer.label, answer.final, answer.error_bound) == ("coffee", True, 0.1)
        assert answer.rounds is not None
        assert answer.pulls >= 2 * answer.rounds
        assert experiment.verify().findings == ()
        assert experiment.replay().recommendation.label == "coffee"
        assert {check.level for check in experiment.health()} == {"ok"}


@pytest.mark.parametrize(
    ("options", "most"),
    [
        ({"block": 3, "max_pulls": 61}, 20),
        ({"block": 3, "max_pulls": 61, "bounds": None, "mean_bound": 1.0}, 20),
        ({"block": 4, "items": 11}, 11),
    ],
)
def test_limits_hold_whatever_is_late_or_lost(
    store_url: str, options: dict[str, Any], most: int
) -> None:
    """Rounds are whole, and no more than there may be; the end comes with the last outcome."""
    with begin(store_url, **options) as experiment:
        rng, waiting = np.random.default_rng(8), dict[int, float]()
        while not experiment.finished:
            waiting |= rate(experiment.ask(int(rng.integers(1, 9))), rng)
            some = [number for number in waiting if rng.random() < 0.4]
            told = {number: waiting.pop(number) for number in some}
            gone = [number for number in told if rng.random() < 0.1]
            experiment.fail_many(gone)
            experiment.tell_many({each: told[each] for each in told if each not in gone})
            assert experiment.status().rounds <= most
        assert experiment.recommendation().reason in {"max_pulls", "exact", "exhausted"}
        assert (experiment.status().rounds, waiting) == (most, {})
        assert experiment.verify().findings == ()
        assert experiment.replay().remarks == ()


def test_a_round_that_lost_an_option_is_the_smaller_round(sqlite_url: str) -> None:
    experiment = begin(sqlite_url, block=3)
    work(experiment, lost=0.1)
    assert experiment.recommendation().label == "coffee"
    status = experiment.status()
    assert status.lost > 10
    assert f"{status.pulls:,} assignments in {status.rounds:,} rounds" in str(status)
    assert experiment.verify().findings == ()


def test_items_are_never_drawn_more_often_than_there_are(sqlite_url: str) -> None:
    """However many are asked for; in the end the answer is exact."""
    experiment = begin(sqlite_url, block=4, items=30)
    rng, judged = np.random.default_rng(5), rng_table(30)
    while not experiment.finished:
        batch = experiment.ask(int(rng.integers(1, 40)))
        for block in batch.blocks():
            for each in block:
                experiment.tell(each.id, judged[each.round, each.arm])
    answer, status = experiment.recommendation(), experiment.status()
    assert status.rounds == 30
    assert (answer.reason, answer.target) == ("exact", int(judged.mean(axis=0).argmax()))


def test_a_lost_judgement_does_not_end_an_experiment_with_items(sqlite_url: str) -> None:
    """It is at its worst for good: the rest goes on."""
    experiment = begin(sqlite_url, block=4, items=200)
    batch = experiment.ask(2)
    experiment.fail(batch[3])
    experiment.tell_many({each.id: float(each.arm == 1) for each in batch if each.id != 3})
    while not experiment.finished:
        batch = experiment.ask(3)
        experiment.tell_many({each.id: float(each.arm == 1) for each in batch})
    answer = experiment.recommendation()
    assert (answer.label, answer.reason, answer.error_bound) == ("coffee", "identified", 0.1)


def rng_table(items: int) -> Any:
    """Judgements so close that nothing is shown before all are in."""
    table = (np.random.default_rng(0).random((items, 4)) < 0.5) + 0.0
    assert len(set(table.mean(axis=0))) == 4
    return table


def test_losses_that_depend_on_the_option_are_noticed(sqlite_url: str) -> None:
    levels = {}
    for name, fails in (("alike", 0.2), ("unlike", 0.6)):
        problem = Problem(np.eye(4))
        experiment = Experiment.create(
            sqlite_url, name, problem, policy_options={"bounds": [0, 1], "block": 2}, seed=3
        )
        rng = np.random.default_rng(6)
        for _ in range(24):
            batch = experiment.ask(40)
            chance = np.where(batch.arms == 2, fails, 0.2)
            lost = rng.random(len(batch)) < chance
            experiment.fail_many(np.array(batch.ids)[lost].tolist())
            told = np.array(batch.ids)[~lost].tolist()
            experiment.tell_many(zip(told, rng.integers(2, size=len(told)), strict=True))
        levels[name] = {check.name: check.level for check in experiment.health()}
    assert set(levels["alike"].values()) == {"ok"}
    assert levels["unlike"]["missing"] == "alarm"
    assert levels["unlike"]["assignments"] == "ok"


def test_a_large_baseline_alarms_nobody(sqlite_url: str) -> None:
    problem = Problem(np.eye(3), noise=0.5, baseline=1)
    options = {"mean_bound": 1.0, "block": 2}
    experiment = Experiment.create(sqlite_url, "far", problem, policy_options=options, seed=3)
    rng = np.random.default_rng(7)
    while not experiment.finished:
        batch = experiment.ask(20)
        level = 1e6 * rng.normal(size=batch.rounds.max() + 1)[batch.rounds]
        noise = rng.normal(scale=0.5, size=len(batch))
        experiment.tell_many(dict(zip(batch.ids, level + batch.arms / 2 + noise, strict=True)))
    answer = experiment.recommendation()
    assert (answer.target, answer.contradicted) == (2, False)
    assert {check.level for check in experiment.health()} == {"ok"}


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("blocks") / "store.db"
    with begin(f"sqlite:///{path}") as experiment:
        work(experiment, rounds=60, late=0.3)
        with experiment.read() as snapshot:
            assert any(each.late for each in snapshot.summaries())
    return path


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        ("UPDATE bestarm_assignments SET round = 7 WHERE number = 12", "in another round"),
        ("UPDATE bestarm_assignments SET arm = 3 - arm WHERE number = 4", "the draw gives"),
        ("UPDATE bestarm_experiments SET rounds = rounds - 1", "rounds, the counter says"),
        ("UPDATE bestarm_outcomes SET reward = 1 - reward WHERE number = 3", "was changed since"),
        ("DELETE FROM bestarm_outcomes WHERE number = 5", "neither told nor lost"),
        ("DELETE FROM bestarm_assignments WHERE number = 9", "are missing"),
    ],
)
def test_the_audit_notices_what_was_changed(
    damaged: Path, tmp_path: Path, change: str, finding: str
) -> None:
    found = findings(changed_copy(damaged, tmp_path, change), name="drinks")
    assert any(finding in each for each in found)


@pytest.mark.parametrize("piece", [1, 3, 7])
def test_rounds_may_be_read_in_pieces_that_cut_them(
    damaged: Path, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bestarm.live.store.ledger._PIECE", piece)
    with Experiment.open(f"sqlite:///{damaged}", "drinks") as experiment:
        assert experiment.verify().findings == ()
        table = damaged.with_name("rounds.csv")
        experiment.export(table, probabilities=True)
        chances = pd.read_csv(table).filter(like="probability_")
        assert chances.sum(axis=1).to_numpy() == pytest.approx(2.0)


def test_what_is_shown_counts_every_outcome_once(sqlite_url: str) -> None:
    experiment = begin(sqlite_url, block=3)
    work(experiment, late=0.2)
    shown = overview(experiment)
    with experiment.read() as snapshot:
        rows = np.concatenate(list(snapshot.rows(0, snapshot.head.summary_end)))
        waiting = snapshot.deferrals(waiting=True)[0]
        assert any(each.late for each in snapshot.summaries())
    used = ~np.isnan(rows["reward"]) & ~rows["late"] & ~np.isin(rows["id"], waiting)
    counts = np.bincount(rows["arm"][used], minlength=4)
    assert [each.answered for each in shown.allocation] == counts.tolist()
    assert [each.drawn for each in shown.allocation] == np.bincount(rows["arm"]).tolist()
    assert shown.outcomes_used == counts.sum()
    [level] = {line.x for line in (shown.baseline.level, *shown.baseline.raw)}
    assert level
    assert "rounds" in shown.verdict


def test_exports_say_which_round_an_assignment_was_in(sqlite_url: str, tmp_path: Path) -> None:
    experiment = begin(sqlite_url, block=3)
    experiment.tell_many(rate(experiment.ask(5), np.random.default_rng(0)))
    experiment.export(tmp_path / "all.csv", probabilities=True)
    experiment.export(tmp_path / "mrt.csv", layout="mrt")
    rows, points = pd.read_csv(tmp_path / "all.csv"), pd.read_csv(tmp_path / "mrt.csv")
    assert rows["round"].tolist() == [n // 3 for n in range(15)]
    assert points["decision_point"].tolist() == [1 + n // 3 for n in range(15)]
    chances = rows[[f"probability_{label}" for label in DRINKS.source_labels]]
    assert chances.sum(axis=1).tolist() == pytest.approx([3.0] * 15)


def test_what_live_experiments_cannot_do_is_refused(sqlite_url: str) -> None:
    with pytest.raises(InvalidInputError, match="closed plans"):
        Experiment(PairedTests(COMPASS, bounds=(0, 1)))
    with pytest.raises(InvalidInputError, match="forecast"):
        Experiment.create(
            sqlite_url,
            "x",
            DRINKS,
            policy_options={"bounds": [0, 1], "block": 2},
            forecaster="default",
        )
    with pytest.raises(InvalidInputError, match="block"):
        begin(sqlite_url, block=5)
