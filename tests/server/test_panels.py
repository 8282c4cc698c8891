"""Panels: numbers agree, in the unit of the outcomes, and promise no more than the policy keeps."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
from clocks import Clock
from markupsafe import Markup

from bestarm import Problem
from bestarm.live import Experiment
from bestarm.live.watch.overview import Overview, Watch, overview
from bestarm.server.pages.charts import COLOURS, charts, number, option_style
from bestarm.server.pages.panels import _lasting, report, snippets
from bestarm.server.pages.panels import panels as all_panels
from bestarm.units import Unit, decimal

MEANS = np.array([0.1, 0.9, 0.85, 0.2])
PASTED = snippets("t", address="http://127.0.0.1:8000")


def plain(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ")


def panels(seen: Overview) -> dict[str, Markup]:
    return all_panels(seen, PASTED)


@contextmanager
def experiment(url: str, policy: str, pulls: int = 0, **options: Any) -> Iterator[Experiment]:
    problem = Problem(np.eye(4), delta=0.05, source_labels=["a", "b", "c", "d"])
    with Experiment.create(
        url, f"t {policy}", problem, policy=policy, policy_options=options, seed=0
    ) as made:
        rng = np.random.default_rng(0)
        while made.status().pulls < pulls and not made.finished:
            given = made.ask(50)
            rewards = rng.random(len(given)) < MEANS[given.arms]
            made.tell_many(zip(given.ids, rewards.astype(float).tolist(), strict=True))
        yield made


@pytest.mark.parametrize("policy", ["lucb", "rage"])
def test_a_policy_that_the_baseline_misleads_is_shown_as_one(sqlite_url: str, policy: str) -> None:
    with experiment(sqlite_url, policy, 200, max_pulls=5000) as made:
        seen = overview(made)
    message = panels(seen)
    assert seen.spec.traits.blind
    assert "Not protected" in message["guarantee"]
    assert "can name a wrong winner" in message["guarantee"]
    assert "this policy decides by them" in message["leaderboard"]
    assert "Mean of its outcomes" in message["leaderboard"]
    told = "raw" in charts(seen)  # before a phase has closed, nothing is
    assert ("this policy decides by them" in message["timeline"]) == told
    assert "decides nothing" not in report(seen)


def test_the_page_says_what_forecasts_save(sqlite_url: str) -> None:
    problem = Problem(["a", "b"])
    settings: dict[str, Any] = {"policy_options": {"bounds": [0, 1]}, "seed": 0}
    with Experiment.create(sqlite_url, "t", problem, forecaster="own", **settings) as made:
        assert "progress" not in panels(overview(made))
        rng = np.random.default_rng(0)
        for _ in range(20):
            level = rng.random(10)
            given = made.ask(10, forecasts=level)
            made.tell_many(zip(given.ids, (level[: len(given)] > 0.5).tolist(), strict=True))
        message = panels(overview(made))["progress"]
    assert "Forecasts take " in message
    assert "off the variance of outcomes." in message


def test_one_that_is_proven_without_a_drift_says_so(sqlite_url: str) -> None:
    with experiment(sqlite_url, "lucb", 200, radius="certified", max_pulls=5000) as made:
        message = panels(overview(made))
    assert "as long as nothing drifts" in message["guarantee"]


@pytest.mark.parametrize("policy", ["anytime", "sp-bai"])
def test_one_that_it_cannot_mislead_is_not(sqlite_url: str, policy: str) -> None:
    options = {"bounds": [0, 1]} if policy == "anytime" else {}
    with experiment(sqlite_url, policy, 60, **options) as made:
        seen = overview(made)
    assert not seen.spec.traits.blind
    assert "Not protected" not in panels(seen)["guarantee"]
    assert "this policy decides by them" not in report(seen)


def test_what_is_within_a_tolerance_is_not_called_the_best(sqlite_url: str) -> None:
    with experiment(sqlite_url, "anytime", 9000, bounds=[0, 1], tolerance=0.3) as made:
        seen = overview(made)
    message = panels(seen)
    assert seen.head.state == "finished"
    assert "within 30 points of the best" in plain(message["leaderboard"])
    assert ">the best<" not in message["leaderboard"]
    assert "within 30 points of the best of 4 options" in plain(message["verdict"])


def test_all_that_are_named_are_named_everywhere(sqlite_url: str) -> None:
    with experiment(sqlite_url, "anytime", 9000, bounds=[0, 1], top=2) as made:
        seen = overview(made)
    message = panels(seen)
    assert seen.head.state == "finished"
    assert set(seen.leaders) == {"b", "c"}
    assert all(f"‘{each}’" in seen.sentences[0] for each in seen.leaders)
    assert message["leaderboard"].count("among the 2 best") == 2
    assert "are the 2 best" in seen.story[0].words
    # Nothing is held against either of them, and the band is that of the closest of the others.
    drawn = charts(seen)
    assert {each.label for each in drawn["evidence"].lines} == {"a", "d"}
    assert [each.label for each in drawn["leads"].lines if each.low] == [seen.leaderboard[1].label]


def test_one_stretch_says_nothing_of_how_the_level_moved(sqlite_url: str) -> None:
    with experiment(sqlite_url, "anytime", 60, bounds=[0, 1]) as made:
        seen = overview(made)
    assert len(seen.baseline.level.x) == 1


def test_pulls_that_no_phase_has_closed_over_are_not_denied(sqlite_url: str) -> None:
    with experiment(sqlite_url, "sp-bai", 100) as made:
        seen = overview(made)
    message = panels(seen)
    assert (seen.head.assigned, seen.used) == (100, 0)
    assert "No outcomes yet" not in message["allocation"]
    assert "once phase 1 closes" in message["allocation"]
    assert "once phase 1 closes" in message["leaderboard"]


def test_the_page_says_of_how_many_pulls_the_verdict_speaks(sqlite_url: str) -> None:
    with experiment(sqlite_url, "anytime", bounds=[0, 1]) as made:
        later: list[tuple[int, float]] = []
        while not made.finished:  # when it decides, the last 50 are out
            told = [(each.id, 1.0 - each.arm / 4) for each in (*made.ask(200), *made.ask(50))]
            made.tell_many(later + told[:200])
            later = told[200:]
        out = made.status().pulls
        seen = overview(made)
    message = panels(seen)
    used = seen.used
    assert used < out
    assert f"after {used:,} assignments" in seen.verdict
    assert f"<dt>Assignments</dt><dd>{out:,}</dd>" in message["verdict"]
    assert f"<dt>Outcomes</dt><dd>{seen.head.outcomes:,}</dd>" in message["progress"]
    # What is used of them is never more: assignments without an outcome do not count.
    assert seen.outcomes_used <= seen.head.outcomes < out
    assert f"<dt>used so far</dt><dd>{seen.outcomes_used:,}</dd>" in message["progress"]


@pytest.mark.parametrize(
    ("hours", "words"),
    [
        ((0.001, 0.0001, 0.01), "less than a minute"),
        ((0.001, 0.0001, 5.0), "less than a minute, up to 5 hours"),
        ((3.0, 1.0, 50.0), "about 3 hours, up to 2.1 days"),
        ((3.0, 1.0, None), "about 3 hours"),
        ((None, 1.0, None), "at least 1 hour"),
        ((None, 1.0, 30.0), "at least 1 hour, up to 1.2 days"),
    ],
)
def test_how_long_it_takes_in_words(
    hours: tuple[float | None, float, float | None], words: str
) -> None:
    assert _lasting(hours) == words


def test_what_is_paused_has_no_pace(sqlite_url: str) -> None:
    with experiment(sqlite_url, "anytime", 200, bounds=[0, 1]) as made:
        assert overview(made).hours is not None
        made.pause()
        assert overview(made).hours is None


def test_an_experiment_that_has_come_to_a_halt_has_no_pace_of_its_past(sqlite_url: str) -> None:
    clock = Clock()
    problem = Problem(np.eye(2), delta=0.05)
    options = {"bounds": [0, 1]}
    with Experiment.create(
        sqlite_url, "t", problem, policy_options=options, clock=clock, seed=0
    ) as made:
        for _ in range(20):
            clock.now += 60.0
            made.tell_many([(number, 1.0) for number in made.ask(10).ids])
        busy = overview(made).pace
        assert busy is not None
        assert busy == pytest.approx(600, rel=0.2)
        clock.now += 40 * 3600.0
        halted = overview(made).pace
    assert halted is not None
    assert halted < busy / 20


def test_a_budget_claims_no_error_probability_and_no_radius(sqlite_url: str) -> None:
    halving = "bestarm.policies.halving:SequentialHalving"
    with experiment(sqlite_url, halving, 1000, budget=400) as made:
        seen = overview(made)
    message = panels(seen)
    assert seen.head.state == "finished"
    assert "no error probability is claimed" in message["guarantee"]
    assert "tuned" not in seen.reliability
    assert all(option.radius is None and option.low is None for option in seen.leaderboard)
    assert any(option.behind is not None for option in seen.leaderboard)


def test_nobody_leads_before_there_is_an_outcome(sqlite_url: str) -> None:
    with experiment(sqlite_url, "anytime", bounds=[0, 1]) as made:
        for _ in range(2):
            seen = overview(made)
            assert {option.status for option in seen.leaderboard} == {"in"}
            assert "leads" not in panels(seen)["verdict"]
            made.fail_many(made.ask(100).ids)
        assert seen.head.assigned == 100


def test_a_new_experiment_shows_its_next_step_alone(sqlite_url: str) -> None:
    with experiment(sqlite_url, "anytime", bounds=[0, 1], control="b") as made:
        new = panels(overview(made))
        made.ask()
        begun = panels(overview(made))
    assert list(new) == ["verdict", "snippets", "leaderboard", "guarantee", "events"]
    assert "passed" not in "".join([*new.values(), begun["verdict"]])
    assert "Call <code>choose</code>" in new["snippets"]
    assert "Call <code>choose</code>" not in begun["snippets"]
    for shown in (new, begun):
        [row] = re.findall(r"<th role=.rowheader.*control.*</th>", shown["leaderboard"])
        assert '<span class="name">b</span>' in row


@pytest.mark.parametrize(
    "name", ["plain", "it's", 'a"b', "$(reboot) `x` \\", "-rf", "ü 🙂", "<b>&amp;", "%2e {x}"]
)
def test_names_are_quoted_as_their_language_requires(name: str) -> None:
    made = snippets(name, address="http://127.0.0.1:8000")
    texts = [
        node.value
        for node in ast.walk(ast.parse(made["Python"]))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    [place] = [text for text in texts if text.startswith("http")]
    assert unquote(urlsplit(place).path) == f"/api/v1/experiments/{name}"
    assert json.dumps(place) in made["JavaScript"]
    words = shlex.split(made["curl"].replace("\\\n", " "))
    places = [unquote(urlsplit(word).path) for word in words if word.startswith("http")]
    assert places == [f"/api/v1/experiments/{name}/{what}" for what in ("ask", "tell")]
    bodies = [words[at + 1] for at, word in enumerate(words) if word == "-d"]
    assert [list(json.loads(body)) for body in bodies] == [["unit"], ["outcomes"]]


@pytest.mark.parametrize(
    ("forecaster", "fields"),
    [("default", ["unit", "covariates"]), ("own", ["unit", "forecasts"])],
)
def test_what_a_forecaster_needs_comes_along(forecaster: str, fields: list[str]) -> None:
    made = snippets("offer", address="http://127.0.0.1:8000", forecaster=forecaster)
    words = shlex.split(made["curl"].replace("\\\n", " "))
    sent = words[words.index("-d") + 1]
    assert list(json.loads(sent)) == fields
    body = sent[1:-1].replace('"visitor-81"', "visitor")
    assert body in made["Python"]
    assert body in made["JavaScript"]
    ast.parse(made["Python"])


# --- numbers: in percent where outcomes are 0 or 1, one level, and all of them agree --------------

LABELS = ["old", "new", "other"]
RATES = np.array([0.3, 0.6, 0.2])


def play(
    url: str, pulls: int, *, share: float = 1.0, late_zeros: bool = True, **options: object
) -> Overview:
    """An experiment whose zeros come a hundred assignments late, unless all come at once."""
    problem = Problem(LABELS)
    settings = {"bounds": [0, 1], "control": "old"} | options
    with Experiment.create(url, "t", problem, policy_options=settings, seed=0) as made:
        rng = np.random.default_rng(0)
        late: list[tuple[int, float]] = []
        while not made.finished and made.status().pulls < pulls:
            given = made.ask(100)
            rewards = share * (rng.random(len(given)) < RATES[given.arms])
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
        assert "90 %" not in text.split("What happened")[0].split("Evidence")[0]


def test_a_verdict_never_uses_more_outcomes_than_there_are(early: Overview) -> None:
    assert early.head.outstanding > 0
    assert early.outcomes_used <= early.head.outcomes < early.head.assigned
    assert early.outcomes_used <= early.used  # what is drawn and awaited is not an outcome


def test_captions_and_charts_say_what_the_table_says(later: Overview) -> None:
    seen, drawn = later, charts(later)
    assert set(drawn) == {"leads", "evidence", "raw"}
    assert drawn["leads"].title.startswith("Lead over the control ‘old’, in points")
    lines = {line.label: line for line in drawn["leads"].lines}
    behind = {row.label: row.behind for row in seen.leaderboard}
    effect = seen.recommendation.effect
    assert effect is not None
    assert behind["old"] is not None
    assert lines["old"].y[-1] == 0
    assert lines["new"].y[-1] == pytest.approx(100 * effect.estimate)
    assert (lines["new"].low[-1], lines["new"].high[-1]) == pytest.approx(
        (100 * effect.lower, 100 * effect.upper)
    )
    other, old = behind["other"], behind["old"]
    assert other is not None
    assert old is not None
    assert lines["other"].out or lines["other"].y[-1] == pytest.approx(100 * (old - other))


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


def test_stretches_with_outcomes_outstanding_are_not_drawn(early: Overview) -> None:
    """Of the last hundred only ones were told: their mean would be far too high."""
    assert early.baseline.level.y
    assert max(early.baseline.level.x) < early.head.assigned / 2  # middles of stretches


def test_the_printed_log_has_every_event_that_says_something(sqlite_url: str) -> None:
    with Experiment.create(
        sqlite_url, "t", Problem(LABELS), policy_options={"bounds": [0, 1]}
    ) as made:
        for turn in range(90):
            made.note(f"remark {turn}")
        for _ in range(30):
            made.tell_many([(each.id, 1.0) for each in made.ask(40)])
        watch = Watch(made)
        seen = watch.overview()
        made.note("the last one")
        again, events = watch.overview(), made.events()
    printed, shown = text_of(seen), all_panels(again, {})["events"]
    assert all(f"remark {turn}" in printed for turn in range(90))
    assert "remark 5 " not in shown
    assert "the last one" in shown
    assert seen.story[0].words == "remark 89"
    kinds = Counter(event.kind for event in events)
    assert f"Besides: {kinds['planned']} phases planned, {kinds['closed']} phases" in printed
    assert events[-1].hash[:16] in shown
    assert all(event.hash[:16] not in printed for event in events)


def test_while_the_lead_is_measured_the_verdict_stands(sqlite_url: str) -> None:
    seen = play(sqlite_url, 1500, precision=0.08)
    assert (seen.head.state, seen.recommendation.reason) == ("running", "measuring")
    assert seen.verdict.startswith(
        "‘new’ is the best of 3 options. Its lead over the control ‘old’"
    )
    assert seen.verdict.endswith("The test goes on until the lead is known to ±8 points.")
    assert seen.leaderboard[0].status == "best"
    assert seen.forecast is not None
    assert seen.forecast.expected is not None
    with Experiment.open(sqlite_url, "t") as made:
        headline = Watch(made).headline()
        assert headline == "‘new’ is the best of 3 options; its lead is being measured."
        rng = np.random.default_rng(1)
        while not made.finished:
            given = made.ask(1000)
            rewards = (rng.random(len(given)) < RATES[given.arms]).astype(float)
            made.tell_many(zip(given.ids, rewards.tolist(), strict=True))
        message = made.recommendation()
        made.replay()
        assert made.verify().sound
    assert (message.reason, message.label, message.error_bound) == ("identified", "new", 0.05)
    assert message.effect is not None
    assert message.effect.upper - message.effect.lower <= 0.16


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
