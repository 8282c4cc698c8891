"""A fixed randomisation: its probabilities never change, and every outcome counts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare

from bestarm import Experiment, Problem
from bestarm.errors import InvalidInputError
from bestarm.live.watch.overview import overview
from bestarm.policies import Fixed
from bestarm.server.pages.panels import panels

PROTOCOL = {"nothing": 0.5, "message": 0.3, "walk": 0.2}


def test_probabilities_stay_whatever_the_outcomes_are_and_no_pull_is_beyond_the_last(
    store_url: str,
) -> None:
    """Outcomes come in any order, some never, and one option is far better than the others.

    By chance alone the split would fail in one run of a thousand; the seed is fixed.
    """
    study = Experiment.create(
        store_url,
        "protocol",
        list(PROTOCOL),
        bounds=(0, 10),
        control="nothing",
        policy="fixed",
        policy_options={"probabilities": PROTOCOL, "max_pulls": 2000},
        guardrails={"tired": {"bounds": [0, 1], "worse_by": 0.1, "action": "alert"}},
        seed=3,
    )
    rng, waiting = np.random.default_rng(3), list[tuple[int | None, str]]()

    def tell(told: list[tuple[int | None, str]]) -> None:
        rewards = ((number, label == "walk") for number, label in told)
        study.tell_many([(number, {"reward": 10.0 * it, "tired": it}) for number, it in rewards])

    while batch := study.ask(150):
        waiting += [(each.id, each.label) for each in batch]
        rng.shuffle(waiting)
        tell(waiting[100:])
        waiting = waiting[:100]
    assert study.status().pulls == 2000
    assert study.status().outstanding == 100
    for number, _ in waiting[:3]:
        study.fail(number)
    tell(waiting[3:])
    assert study.finished

    seen = overview(study)
    assert seen.sentences[0] == (
        "Ended at its limit of assignments: 3 options were assigned with fixed probabilities; "
        "‘walk’ has the highest mean."
    )
    assert seen.reliability.endswith("names no winner: nothing is claimed.")
    assert "Confidence" not in panels(seen)["verdict"]
    assert "winner" not in panels(seen)["verdict"] + panels(seen)["events"]
    assert "Error probability" not in panels(seen)["guarantee"]
    answer = study.recommendation()
    assert (answer.label, answer.final, answer.reason) == ("walk", False, "max_pulls")
    assert answer.error_bound is answer.claims is None
    assert answer.active == (0, 1, 2)
    rows = study.assignments()
    assert rows["probability"].to_numpy() == pytest.approx(rows["label"].map(PROTOCOL).to_numpy())
    drawn = rows["label"].value_counts()
    expected = [2000 * PROTOCOL[label] for label in drawn.index]
    assert chisquare(drawn, expected).pvalue > 0.001
    assert not study.outcomes()["late"].any()
    assert study.verify().sound
    assert study.replay().recommendation.label == "walk"
    assert {check.name for check in study.health() if check.level == "alarm"} == {"guardrails"}
    assert [event.data["label"] for event in study.events() if event.kind == "guardrail"] == [
        "walk"
    ]


def test_without_a_limit_it_goes_on_until_it_is_stopped(store_url: str) -> None:
    options = {"probabilities": "equal"}
    study = Experiment.create(
        store_url,
        "open",
        ["a", "b"],
        bounds=(-1, 1),
        policy="fixed",
        policy_options=options,
        seed=1,
    )
    for _ in range(5):  # asks never wait for outcomes
        batch = study.ask(300)
        assert len(batch) == 300
    study.tell_many({each.id: -1.0 for each in batch})
    study.stop()
    assert study.recommendation().reason == "stopped"
    assert study.ask(1)[0].id is None


@pytest.mark.parametrize(
    "given", [{"a": 0.5}, {"a": 0.5, "c": 0.5}, {"a": 0.4, "b": 0.4}, {"a": 1, "b": 0}, [0.5, 0.5]]
)
def test_probabilities_are_of_every_option_and_sum_to_1(given: object) -> None:
    with pytest.raises(InvalidInputError, match="probabilities") as caught:
        Fixed(Problem(["a", "b"]), probabilities=given)  # type: ignore[arg-type]
    assert caught.value.field == "probabilities"
