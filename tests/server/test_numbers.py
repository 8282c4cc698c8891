"""Numbers on the page: in percent where outcomes are 0 or 1, one level, and all of them agree."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from bestarm import Problem
from bestarm.live import Experiment
from bestarm.live.watch.overview import Overview, Watch, overview
from bestarm.server.pages.charts import COLOURS, charts, number, option_style
from bestarm.server.pages.panels import panels, report
from bestarm.units import Unit, decimal

LABELS = ["old", "new", "other"]
MEANS = np.array([0.3, 0.6, 0.2])


def play(
    url: str, pulls: int, *, share: float = 1.0, late_zeros: bool = True, **options: object
) -> Overview:
    """An experiment whose zeros come a hundred assignments late, unless all come at once."""
    problem = Problem.named(LABELS)
    settings = {"bounds": [0, 1], "control": "old"} | options
    with Experiment.create(url, "t", problem, options=settings, seed=0) as made:
        rng = np.random.default_rng(0)
        late: list[tuple[int, float]] = []
        while not made.finished and made.status().pulls < pulls:
            given = made.ask(100)
            rewards = share * (rng.random(len(given)) < MEANS[given.arms])
            made.tell_many(late)
            told = list(zip(given.ids, rewards.tolist(), strict=True))
            made.tell_many([each for each in told if each[1] or not late_zeros])
            late = [each for each in told if late_zeros and not each[1]]
        return overview(made)


@pytest.fixture(scope="module")
def early(tmp_path_factory: pytest.TempPathFactory) -> Overview:
    return play(f"sqlite:///{tmp_path_factory.mktemp('early')}/store.db", 300)


@pytest.fixture(scope="module")
def later(tmp_path_factory: pytest.TempPathFactory) -> Overview:
    return play(f"sqlite:///{tmp_path_factory.mktemp('later')}/store.db", 1500)


def text_of(seen: Overview) -> str:
    words = re.sub(r"<[^>]+>", " ", report(seen).split("<body")[1].split("<script")[0])
    return " ".join(words.replace("\N{NO-BREAK SPACE}", " ").split())


def test_rates_are_in_percent_and_effects_in_points(sqlite_url: str) -> None:
    seen = play(sqlite_url, 20_000, late_zeros=False)
    text, effect = text_of(seen), seen.recommendation.effect
    assert effect is not None
    assert effect.relative is not None
    assert f"is +{100 * effect.estimate:.1f} points (" in seen.verdict
    assert f"+{100 * effect.relative:.0f} % relative" in seen.verdict
    rates = {row.label: row.rate for row in seen.leaderboard}
    for label, rate in rates.items():
        assert rate is not None
        assert f"{label} {'control ' if label == 'old' else ''}{100 * rate:.1f} %" in text
    assert rates["new"] is not None
    assert rates["old"] is not None
    assert rates["new"] - rates["old"] == pytest.approx(effect.estimate)
    assert effect.relative == pytest.approx(effect.estimate / rates["old"])
    assert "not used" not in text


def test_other_outcomes_stay_in_their_own_unit(sqlite_url: str) -> None:
    seen = play(sqlite_url, 2000, share=0.5)
    assert not seen.unit.percent
    assert "points" not in text_of(seen)
    assert "Mean outcome" in panels(seen)["leaderboard"]


def test_there_is_one_level_on_the_page(early: Overview, later: Overview) -> None:
    for seen in (early, later):
        text = text_of(seen)
        levels = re.findall(r"(\d+) % interval|at (\d+) %|Confidence (\d+) %", text)
        assert {level for found in levels for level in found if level} == {"95"}
        assert "90 %" not in text.split("Event log")[0].split("Evidence")[0]


def test_a_verdict_never_uses_more_outcomes_than_there_are(early: Overview) -> None:
    assert early.head.outstanding > 0
    assert early.outcomes_used <= early.head.outcomes < early.head.assigned
    assert early.outcomes_used <= early.used  # what is drawn and awaited is not an outcome


def test_captions_and_charts_say_what_the_table_says(later: Overview) -> None:
    seen, drawn = later, charts(later)
    assert set(drawn) == {"gaps", "evidence", "raw"}
    for line in drawn["gaps"].lines:
        [row] = [each for each in seen.leaderboard if each.target == line.option]
        if row.status not in {"best", "leads"} and row.label != "old" and not line.out:
            assert row.behind is not None
            assert line.y[-1] == pytest.approx(100 * row.behind)


def test_evidence_is_never_below_zero(early: Overview) -> None:
    assert min(y for line in early.timeline.evidence for y in line.y if y is not None) < 0
    chart = charts(early)["evidence"]
    assert chart.y_range[0] == 0
    assert all(y is None or y >= 0 for line in chart.lines for y in line.y)


def test_an_option_keeps_its_colour(later: Overview) -> None:
    for each in (later, replace(later, leaderboard=later.leaderboard[::-1])):
        html = panels(each)["leaderboard"]
        for target, label in enumerate(LABELS):
            assert (
                f'swatch c{target} s0" aria-hidden="true"></span><span class="name">{label}' in html
            )
    styles = [option_style(option, 0) for option in range(3 * COLOURS)]
    assert len(set(styles)) == len(styles)
    assert option_style(0, COLOURS) == "quiet"


def test_stretches_with_outcomes_outstanding_are_not_drawn(later: Overview) -> None:
    """The ones told early are all 1: their mean would be far too high."""
    level = [y for y in later.baseline.level.y if y is not None]
    assert level
    assert max(level) < 0.75


def test_the_printed_log_has_every_event_that_says_something(sqlite_url: str) -> None:
    with Experiment.create(
        sqlite_url, "t", Problem.named(LABELS), options={"bounds": [0, 1]}
    ) as made:
        for turn in range(90):
            made.note(f"remark {turn}")
        for _ in range(30):
            made.tell_many([(each.id, 1.0) for each in made.ask(40)])
        watch = Watch(made)
        seen = watch.overview()
        made.note("the last one")
        again = watch.overview()
    printed, shown = text_of(seen), panels(again, {})["events"]
    assert all(f"remark {turn}" in printed for turn in range(90))
    assert "remark 5 " not in shown
    assert "the last one" in shown
    assert f"{seen.routine_before:,} earlier routine events" in printed
    assert seen.routine_before > 10


def test_while_the_lead_is_measured_the_verdict_stands(sqlite_url: str) -> None:
    seen = play(sqlite_url, 1500, precision=0.04)
    assert (seen.head.state, seen.recommendation.reason) == ("running", "measuring")
    assert seen.verdict.startswith(
        "‘new’ is the best of 3 options. Its lead over the control ‘old’"
    )
    assert seen.verdict.endswith("The test goes on until the lead is known to ±4 points.")
    assert seen.leaderboard[0].status == "best"
    assert seen.forecast is not None
    assert seen.forecast.expected is not None
    with Experiment.open(sqlite_url, "t") as made:
        headline = Watch(made).headline()
        assert headline == "‘new’ is the best of 3 options; its lead is being measured."
        rng = np.random.default_rng(1)
        while not made.finished:
            given = made.ask(1000)
            rewards = (rng.random(len(given)) < MEANS[given.arms]).astype(float)
            made.tell_many(zip(given.ids, rewards.tolist(), strict=True))
        message = made.recommendation()
        made.replay()
        assert made.verify().sound
    assert (message.reason, message.label, message.error_bound) == ("identified", "new", 0.05)
    assert message.effect is not None
    assert message.effect.upper - message.effect.lower <= 0.08


@pytest.mark.parametrize(
    ("value", "text"), [(-0.0, "0"), (-1e-12, "−1e−12"), (-0.5, "−0.5"), (12345.6, "12,346")]
)
def test_zero_has_no_sign(value: float, text: str) -> None:
    assert number(value) == text
    assert decimal(-0.0, 2) == decimal(-0.001, 2) == "0"
    assert "−0" not in Unit(percent=True).interval(-0.0001, 0.2).split()


def test_decimals_follow_the_largest_of_a_group() -> None:
    rate = Unit(percent=True)
    assert rate.value(0.0032) == "0.32 %"
    assert rate.value(0.0032, 0.12) == "0.3 %"
    assert rate.lead(0.012, 0.004, 0.02, 0.09) == "+1.2 points (0.4 to 2.0), +9 % relative"
    assert Unit().lead(12.3, -4.0, 20.0) == "+12.3 (−4.0 to 20.0)"
    assert rate.declared(0.004) == "0.4 points"
