"""Gates: what they let through, how often they are wrong, and that no earlier run passes one."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from workers_started import HANG_TIMEOUT, processes

from bestarm import Experiment, Problem, evaluate
from bestarm.errors import InvalidInputError, ProtocolError
from bestarm.evaluation import Evaluation
from bestarm.evaluation.effort import judge_table
from bestarm.evaluation.evidence import MeanEvidence
from bestarm.evaluation.gate import Gate
from bestarm.numerics.geometry import Array
from bestarm.records import BlockPlan, Rounds

Evaluator = Callable[..., Evaluation]
ITEMS = [{"id": f"q{number}", "text": str(number)} for number in range(120)]


@pytest.fixture
def gated(sqlite_url: str) -> Evaluator:
    usual: dict[str, Any] = {"name": "gate", "store": sqlite_url, "seed": 3, "control": "main"}
    usual |= {"gate": True, "concurrency": 2}
    return lambda judge, options=("main", "branch"), items=ITEMS, **other: evaluate(
        judge, options, items, **usual | other
    )


def judge_with(**rates: float) -> Callable[[str, Any], float]:
    """A judge of 0 and 1; an option that is better is right wherever a worse one is."""

    def judge(option: str, item: Any) -> float:
        return float((int(item["text"]) * 37 % 120) / 120 < rates[option])

    return judge


def play(table: Array, order: Any, **options: Any) -> Gate:
    """A gate over a table of scores, whose last column is the control."""
    labels = [f"o{column}" for column in range(table.shape[1])]
    problem = Problem(labels, delta=options.pop("delta", 0.05))
    gate = Gate(problem, bounds=(0, 1), items=len(table), control=labels[-1], **options)
    judge_table(gate, table[order])
    return gate


@pytest.mark.parametrize(("true", "wrong"), [(0.0, "worse"), (-0.1, "not worse")])
def test_a_gate_is_wrong_at_most_as_often_as_stated(true: float, wrong: str) -> None:
    """At the two ends: an option that is just as good, and one that is worse by the tolerance.

    With 300 runs that are each wrong with probability 0.1, 47 or more happen once in 900 times.
    """
    rng, found = np.random.default_rng(5), list[str]()
    control = (np.arange(200) < 100).astype(float)
    lost = round(-true * 200)
    option = np.roll(control, 40)
    option[np.flatnonzero(option)[:lost]] = 0.0
    table = np.column_stack([option, control])
    for _ in range(300):
        gate = play(table, rng.permutation(200), tolerance=0.1, delta=0.1)
        found.append(gate.verdicts[0].state)
    assert found.count(wrong) < 47
    assert "undecided" not in found


def test_bounds_on_a_mean_hold_at_all_steps_at_once() -> None:
    """A bound with an error of 0.2 misses one of 400 lists in 110 cases or more once in 10⁴."""
    rng = np.random.default_rng(2)
    lists = rng.choice([-1.0, 0.0, 0.3, 1.0], size=(400, 90), p=[0.2, 0.4, 0.2, 0.2])
    evidence = MeanEvidence(400, items=90, reach=1.0)
    missed, means = np.zeros(400, np.bool_), lists.mean(axis=1)
    for step in range(90):
        evidence.add(lists[:, [step]], np.ones((400, 1)))
        missed |= evidence.lower(share=0.2) > means + 1e-9
    assert missed.sum() < 110
    assert np.allclose(evidence.lower(share=0.2), means)  # once all are drawn it is known


def test_a_step_of_several_numbers_is_valid_however_they_are_ordered() -> None:
    """The mean wealth over all subsets of a list is at most 1 where its mean is as bet against."""
    values = np.array([-1.0, -1.0, 0.0, 1.0, 1.0])
    rng = np.random.default_rng(0)
    wealth = []
    for _ in range(4000):
        drawn = rng.permutation(values)
        evidence = MeanEvidence(1, items=5, reach=1.0)
        for part in (drawn[:2], drawn[2:4]):
            evidence.add(part[None], np.ones((1, len(part))))
        wealth.append(float(np.exp(evidence._wealth + 0).mean()))
    # Its deviation is about 0.4: chance exceeds this once in 10⁵ times.
    assert np.mean(wealth) <= 1 + 4.3 * 0.4 / np.sqrt(4000)


def test_a_better_option_passes_and_a_worse_one_fails(gated: Evaluator) -> None:
    better = gated(judge_with(main=0.3, branch=0.8))
    assert [(each.option, each.state) for each in better.verdicts] == [("branch", "not worse")]
    assert (better.exit_code, better.recommendation.label) == (0, "branch")
    assert better.judgements < 150
    assert better.verdicts[0].low > 0
    worse = gated(judge_with(main=0.8, branch=0.3), name="other")
    assert (worse.verdicts[0].state, worse.exit_code) == ("worse", 1)
    assert (worse.recommendation.label, worse.recommendation.final) == ("main", True)
    assert str(worse).startswith("'branch' is worse than 'main', the control.")


def test_a_tolerance_lets_equals_through_early(gated: Evaluator) -> None:
    judge = judge_with(main=0.7, branch=0.7)
    tolerant = gated(judge, tolerance=0.3)
    assert (tolerant.verdicts[0].state, tolerant.exit_code) == ("not worse", 0)
    assert tolerant.judgements < 120
    strict = gated(judge, name="strict")  # all is judged, and they tie
    assert (strict.verdicts[0].state, strict.judgements) == ("not worse", 240)


def test_each_option_is_judged_until_it_is_decided(gated: Evaluator) -> None:
    judge = judge_with(main=0.6, branch=0.1, third=0.59)
    found = gated(judge, ("main", "branch", "third"), tolerance=0.05)
    judged = {each.label: each.judged for each in found.scores}
    assert judged["branch"] < judged["third"] <= judged["main"]
    assert {each.option: each.state for each in found.verdicts} == {
        "branch": "worse",
        "third": "not worse",
    }
    assert found.exit_code == 1
    assert found.to_frame()["status"].tolist() == ["control", "worse", "not worse"]


def test_at_the_cap_a_gate_is_undecided(gated: Evaluator) -> None:
    found = gated(judge_with(main=0.5, branch=0.5), max_cost=20)
    assert (found.verdicts[0].state, found.exit_code) == ("undecided", 3)
    assert found.recommendation.error_bound is None
    later = gated(judge_with(main=0.5, branch=0.5))  # it did not finish, so it is resumed
    assert (later.name, later.exit_code, later.judged_now) == ("gate", 0, 220)
    assert "Judged now: 220; 20 earlier, in a run that did not finish." in str(later)


def test_no_gate_passes_because_of_one_that_finished_earlier(gated: Evaluator) -> None:
    assert gated(judge_with(main=0.3, branch=0.8)).exit_code == 0
    again = gated(judge_with(main=0.8, branch=0.3))  # which the judge's file does not show
    assert (again.exit_code, again.name) == (1, "gate-2")
    assert again.judged_now == again.judgements > 0


def test_a_gate_that_cannot_be_resumed_starts_anew(gated: Evaluator) -> None:
    judge = judge_with(main=0.5, branch=0.5)
    gated(judge, max_cost=20)
    changed = [{"name": "main"}, {"name": "branch", "text": "edited"}]
    found = gated(lambda option, item: judge(option["name"], item), changed)
    assert (found.name, found.judged_now) == ("gate-2", 240)
    with pytest.raises(InvalidInputError, match="'gate-2' was created with different `gate`"):
        gated(judge, gate=False)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"control": None}, "A gate compares options with a control"),
        ({"control": "mian"}, "There is no option 'mian' to be the control. Did you mean main"),
        ({"tolerance": -1}, "`tolerance` must"),
        ({"price": {"main": 1}}, "'branch' has no price"),
    ],
)
def test_what_makes_no_gate_is_refused(other: Any, words: str, gated: Evaluator) -> None:
    with pytest.raises(InvalidInputError, match=words):
        gated(judge_with(main=1, branch=1), **other)


def judge_until_killed(url: str, folder: Path, call: int) -> None:
    calls = count(1)

    def judge(option: str, item: Any) -> float:
        with open(folder / "calls", "a") as log:
            log.write(f"{option} {item['id']}\n")
        if next(calls) == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return judge_with(main=0.5, branch=0.5)(option, item)

    options: dict[str, Any] = {"control": "main", "gate": True, "concurrency": 1, "seed": 1}
    evaluate(judge, ["main", "branch"], ITEMS[:30], name="killed", store=url, **options)


def test_a_gate_that_was_killed_goes_on(sqlite_url: str, tmp_path: Path) -> None:
    for call in (1, 7, 20, 100):
        process = processes.Process(target=judge_until_killed, args=(sqlite_url, tmp_path, call))
        process.start()
        process.join(HANG_TIMEOUT)
        assert process.exitcode == (0 if call == 100 else -signal.SIGKILL)
    calls = (tmp_path / "calls").read_text().split("\n")[:-1]
    assert len(set(calls)) == 60
    assert len(calls) == 63  # those that were in flight are made again
    with Experiment.open(sqlite_url, "killed") as experiment:
        assert experiment.finished
        experiment.replay()  # the policy is of bestarm: no module is to be allowed
        assert set(experiment.assignments()["unit"]) == {item["id"] for item in ITEMS[:30]}


def test_a_result_is_written_for_people_and_for_machines(gated: Evaluator, tmp_path: Path) -> None:
    judge = judge_with(**{"main": 0.9, "<b>": 0.2, "same": 0.9})

    def answering(option: str, item: Any) -> tuple[float, str]:
        return judge(option, item), f"{option} says <i>&"

    found = gated(answering, ("main", "<b>", "same"), tolerance=0.3)
    page = found.write(tmp_path / "new" / "report.html").read_text(encoding="utf-8")
    assert "main says &lt;i&gt;&amp;" in page
    assert "<b>" not in page.replace("<body>", "")
    markdown = found.write(tmp_path / "summary.md").read_text(encoding="utf-8")
    assert markdown.startswith("❌ ")
    assert "| same | " in markdown
    tree = ElementTree.parse(found.write(tmp_path / "junit.xml")).getroot()
    cases = {case.get("name"): case for case in tree.iter("testcase")}
    assert tree.get("failures") == "1"
    assert cases["<b>"].find("failure") is not None
    assert cases["same"].find("failure") is cases["same"].find("error") is None
    with pytest.raises(InvalidInputError, match=r"ends in \.html, \.md or \.xml; got 'a\.txt'"):
        found.write(tmp_path / "a.txt")
    assert "lead over main" in found._repr_html_()
    assert len(found.plot().lines) > 0


def test_a_plan_of_another_gate_is_not_adopted() -> None:
    problem = Problem(["a", "b", "c"])
    gate = Gate(problem, bounds=(0, 1), items=9, control="a")
    plan = BlockPlan.drawn([[0, 1]], [1.0], 2, arms=3, phase=1)
    with pytest.raises(ProtocolError, match="is not one of this gate"):
        gate.adopt(plan)


def test_an_option_that_is_worse_by_just_the_tolerance_passes_on_all_items() -> None:
    table = np.ones((10, 2))
    table[3, 0] = 0.0
    gate = play(table, np.arange(10), tolerance=0.1)
    verdict = gate.verdicts[0]
    assert (verdict.items, verdict.state) == (10, "not worse")
    assert verdict.low == pytest.approx(-0.1)


def test_an_outcome_that_never_comes_counts_against_both_claims() -> None:
    gate = Gate(Problem(["a", "b"]), bounds=(0, 1), items=4, control="a")
    plan = gate.plan()
    assert isinstance(plan, BlockPlan)
    assert plan.rounds == 4
    table = np.array([[1.0, np.nan], [1, 1], [1, 1], [1, 1]])
    gate.update(Rounds.of(plan, np.zeros(4, dtype=int), table))
    verdict, answer = gate.verdicts[0], gate.recommend()
    assert (verdict.low, verdict.high) == pytest.approx((-0.25, 0.0))
    assert (verdict.state, answer.final, answer.reason) == ("undecided", False, "exhausted")
