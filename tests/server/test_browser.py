"""A real browser begins an experiment, watches it to its winner, and runs nothing users typed."""

from __future__ import annotations

import asyncio
import math
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal
from urllib.parse import quote

import httpx
import pytest
from browsing import HANG_TIMEOUT, chromium, tab
from plan_processes import begin, settled
from playwright.sync_api import Browser, Page, expect
from served import Served, create, in_thread, outcomes

from bestarm import Problem
from bestarm.live import Experiment
from bestarm.live.watch.overview import Overview, overview
from bestarm.planning import PlanRequest, detectable_lifts, plan_experiment
from bestarm.policies.guardrail import Guardrail
from bestarm.server.pages.charts import charts
from bestarm.server.pages.panels import snippets
from bestarm.server.tokens import Role

NASTY = "<script>alert(1)</script>"
NAME = "tea & ‘cake’ 1"
LABELS = ["green tea", NASTY, '<b>black</b> "tea" %{y}', "it's coffee"]
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
DARK = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g)[0] < 128"
SETTLED = """() => [...document.querySelectorAll(".plot")].filter(plot => plot.clientWidth).every(
  plot => Math.abs(plot.clientWidth - plot.querySelector(".uplot canvas")?.clientWidth) < 3)"""
UNFOLD = "() => document.querySelectorAll('details').forEach(each => { each.open = true; })"
# Panels are replaced whenever news arrive: what is done to a part of one is done in one script.
TOUCH = """label => {
  const { chart } = document.getElementById("plot-leads");
  const at = chart.series.findIndex(series => series.label === label);
  const last = chart.data[at].findLastIndex(y => y !== null && y !== undefined);
  const left = chart.valToPos(chart.data[0][last], "x");
  chart.setCursor({ left, top: chart.valToPos(chart.data[at][last], "y") });
  return chart.over.querySelector(".chart-tip").textContent.includes(label);
}"""
BOTTOM = """place => {
  const box = document.querySelector(place).getBoundingClientRect();
  return box.height > 0 ? box.bottom : Infinity;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as launched:
        expect.set_options(timeout=HANG_TIMEOUT)
        yield launched


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('browser') / 'store.db'}"


@pytest.fixture(scope="module")
def served(url: str) -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch, in_thread(url) as running:
        patch.setattr(asyncio, "create_subprocess_exec", begin)  # for plans
        yield running


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[httpx.Client]:
    with served.client() as made:
        yield made


def place(served: Served) -> str:
    return f"{served.base}/experiments/{quote(NAME, safe='')}"


def words(text: str) -> str:
    return " ".join(text.split())


def panel(page: Page, name: str) -> str:
    return words(page.locator(f"#panel-{name}").inner_text())


def carry_out(client: httpx.Client, rounds: float) -> None:
    """Ask and tell over HTTP: the third of four is the best, while all of them drift."""
    path, draw = f"/experiments/{quote(NAME, safe='')}", random.Random(3)
    while rounds > 0:
        given = client.post(f"{path}/ask", json={"count": 150}).raise_for_status().json()
        if given["state"] != "running":
            break
        rewards = {}
        for each in given["assignments"]:
            level = 0.35 + 0.15 * math.sin(each["id"] / 150) + 0.22 * (each["arm"] == 2)
            rewards[each["id"]] = float(draw.random() < level)
        client.post(f"{path}/tell", json=outcomes(rewards)).raise_for_status()
        rounds -= 1


@pytest.fixture(scope="module")
def finished(browser: Browser, served: Served, client: httpx.Client, url: str) -> Overview:
    """The experiment, created and watched in a browser while others ask and tell."""
    token = served.token(Role.MANAGE)
    with tab(browser) as page:
        page.goto(served.base)
        page.get_by_label("Name", exact=True).fill(NAME)
        page.get_by_label("Options, one per line").fill("\n".join(f'"{quoted(x)}"' for x in LABELS))
        submit = page.get_by_role("button", name="Create experiment")
        submit.click()
        expect(page.get_by_role("alert")).to_have_text(
            "Creating an experiment needs an access token (role: manage)."
        )
        page.get_by_label("Access token (role: manage)").fill("bestarm-1-wrong")
        submit.click()
        expect(page.get_by_role("alert")).to_contain_text("valid access token")
        page.get_by_label("Access token (role: manage)").fill(served.token(Role.VIEW))
        submit.click()
        expect(page.get_by_role("alert")).to_contain_text("needs an access token of role manage")
        page.get_by_label("Access token (role: manage)").fill(token)
        submit.click()
        page.wait_for_url(place(served))
        verdict = page.locator("#verdict")
        expect(verdict).to_have_text("Ready: 4 options wait for their first assignment.")
        expect(page.locator("#live")).to_have_text("Live")

        page.get_by_role("button", name="Pause").click()
        expect(verdict).to_contain_text("Paused, no winner yet")
        page.get_by_role("button", name="Resume").click()
        expect(verdict).to_have_text(re.compile("^Ready"))
        expect(page.get_by_role("button", name="Pause")).to_be_visible()

        carry_out(client, 3)  # the page changes by itself, before and when there is a winner
        expect(verdict).to_contain_text(" leads, ")
        expect(page.locator("#plot-leads .uplot").first).to_be_attached()
        carry_out(client, math.inf)
        expect(verdict).to_contain_text("is the best of 4 options, at 95 %")
        expect(page.get_by_role("button", name="Pause")).to_have_count(0)
        with Experiment.open(url, NAME) as experiment:
            seen = overview(experiment)
            assert experiment.recommendation().final
        expect(verdict).to_have_text(seen.sentences[0])
    return seen


def quoted(label: str) -> str:
    return label.replace('"', '""')


def test_every_panel_shows_the_librarys_numbers(
    browser: Browser, served: Served, finished: Overview
) -> None:
    seen, unit = finished, finished.unit
    assert unit.percent
    with tab(browser) as page:
        page.goto(place(served))
        expect(page.locator("#plot-leads .uplot").first).to_be_attached()
        page.evaluate(UNFOLD)
        assert words(page.locator("h1").inner_text()) == NAME
        assert words(page.locator("#verdict").inner_text()) == seen.sentences[0]
        assert seen.leaderboard[0].label == LABELS[2]

        message = panel(page, "guarantee")
        assert "Proven" in message
        for text in ("0.05", "anytime", "bounds = [0, 1]", *seen.recommendation.assumptions):
            assert text in message

        message = panel(page, "health")
        assert page.locator("#panel-health li.check").count() == len(seen.health)
        for check in seen.health:
            assert check.name in message.lower()

        rows = page.locator("#panel-leaderboard tbody tr")
        assert rows.count() == 4
        for at, option in enumerate(seen.leaderboard):
            row = rows.nth(at)
            assert row.get_attribute("data-target") == str(option.target)
            cells = [words(text) for text in row.locator("th, td").all_inner_texts()]
            assert cells[0] == option.label
            rate, rates = option.rate, [each.rate for each in seen.leaderboard]
            ends = unit.interval(option.rate_low, option.rate_high, *rates)
            assert cells[1] == f"{unit.value(rate, *rates)} {ends}"
            if option.status == "best":
                assert cells[4] == "the best"
            else:
                assert cells[4] == "ruled out"
                behind, all_of = option.behind, [each.behind for each in seen.leaderboard]
                ends = unit.interval(option.low, option.high, *all_of)
                assert cells[2] == f"{unit.difference(behind, *all_of)} {ends}"
                assert cells[3] == "100 %"
            assert cells[5] == f"{option.pulls:,}"

        for key, chart in charts(seen).items():
            page.locator(f".views label:has(#view-{key})").click()
            expect(page.locator(f"#plot-{key} .uplot").first).to_be_visible()
            drawn = page.evaluate(
                "key => { const { chart } = document.getElementById(`plot-${key}`);"
                " return chart.data.filter((_, at) => at && chart.series[at].stroke(chart, at))"
                ".map(ys => [...ys].filter(y => y !== undefined)); }",
                key,
            )
            assert len(drawn) == len(chart.lines)
            for ys, series in zip(drawn, chart.lines, strict=True):
                assert ys == pytest.approx(list(series.y), nan_ok=True)

        page.locator(".views label").first.click()
        for label in LABELS:  # text, even where a chart is touched
            page.wait_for_function(TOUCH, arg=label)
        assert not page.locator("main script, #panel-leaderboard b, .chart-tip *").count()

        rows = page.locator("#panel-allocation tbody tr")
        for at, arm in enumerate(seen.allocation):
            cells = [words(text) for text in rows.nth(at).locator("th, td").all_inner_texts()]
            assert cells[:3] == [arm.label, f"{arm.planned:,.0f}", f"{arm.drawn:,}"]

        message = panel(page, "progress")
        assert "The experiment is over" in message
        for name, count in (
            ("Outcomes", seen.head.outcomes),
            ("used so far", seen.outcomes_used),
            ("Awaited", seen.head.outstanding),
        ):
            assert f"{name} {count:,}" in message

        events = page.locator("#panel-events li span").all_inner_texts()
        assert [words(text) for text in events] == [words(e.words) for e in seen.story[:60]]

        for title, code in snippets(NAME, address=served.base).items():
            assert page.locator(f"#code-{title.lower()}").text_content() == code


@pytest.mark.usefixtures("finished")
def test_the_lines_to_paste_work(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BESTARM_TOKEN", served.token(Role.TELL))
    name = "to paste"
    with Experiment.create(served.url, name, ["old", "new"], bounds=(0, 1)) as made:
        names: dict[str, Any] = {}
        exec(snippets(name, address=served.base)["Python"], names)
        shown = names["choose"]("visitor-81")
        assert names["choose"]("visitor-81") == shown
        names["tell"]("visitor-81", 1)
        names["experiment"].close()
        told = made.outcomes()
        assert (shown in {"old", "new"}, told["reward"].tolist()) == (True, [1.0])
        assert made.status().pulls == 1


def test_a_token_that_may_only_view_manages_nothing(
    browser: Browser, served: Served, client: httpx.Client, url: str
) -> None:
    running = "still running"
    create(client, running)
    with tab(browser) as page:
        page.goto(f"{served.base}/experiments/{quote(running)}")
        controls = page.locator("#manage-buttons button")
        assert controls.count() == 0
        page.get_by_role("button", name="Manage…").click()
        expect(page.get_by_label("Access token (role: manage)")).to_be_focused()
        for token, answer in (
            ("bestarm-1-nonsense", "This access token is not valid."),
            (NASTY, "This access token is not valid."),
            (served.token(Role.VIEW), "This token has role view, not manage."),
            (served.token(Role.TELL), "This token has role tell, not manage."),
        ):
            page.get_by_label("Access token (role: manage)").fill(token)
            with page.expect_response("**/role"):  # the message before may be the same
                page.keyboard.press("Enter")
            expect(page.get_by_role("alert")).to_have_text(answer)
            assert controls.count() == 0
            assert page.evaluate("sessionStorage.getItem('bestarm-token')") is None
        for token, status in (("", 403), (served.token(Role.VIEW), 403), ("bestarm-1-x", 401)):
            message = page.evaluate(
                """([place, token]) => fetch(place, {
                  method: "POST", headers: token ? { Authorization: `Bearer ${token}` } : {},
                }).then(answer => answer.status)""",
                [f"/api/v1/experiments/{quote(running)}/stop", token],
            )
            assert message == status
        with Experiment.open(url, running) as experiment:
            assert experiment.state == "running"
        page.get_by_label("Access token (role: manage)").fill(served.token(Role.MANAGE))
        page.keyboard.press("Enter")
        expect(page.get_by_role("button", name="Pause")).to_be_focused()
        assert served.token(Role.MANAGE) not in page.content()
        page.get_by_role("button", name="Add option…").click()
        page.get_by_label("Name", exact=True).fill(NASTY)
        page.get_by_role("button", name="Add it").click()
        row = page.locator("#panel-leaderboard tbody tr").filter(has_text=NASTY)
        expect(row).to_contain_text("possible")
        page.get_by_role("button", name="Retire option…").click()
        page.get_by_label("Option", exact=True).select_option(NASTY)
        page.get_by_role("button", name="Retire it").click()
        expect(page.get_by_label("Reason", exact=True)).to_be_focused()  # it is needed
        page.get_by_label("Reason", exact=True).fill("refunds")
        page.get_by_role("button", name="Retire it").click()
        expect(row).to_contain_text("retired refunds")
        expect(page.locator("#panel-events")).to_contain_text(f"‘{NASTY}’ was retired: refunds.")
        with Experiment.open(url, running) as experiment:
            assert experiment.problem.source_labels[-1] == NASTY
        page.get_by_role("button", name="Stop…").click()
        page.get_by_label("Reason", exact=True).fill(NASTY)
        page.get_by_role("button", name="Stop the experiment").click()
        expect(page.locator("#verdict")).to_contain_text("Stopped by hand, without a winner")
        expect(page.locator("#panel-events")).to_contain_text(f"Stopped by hand: {NASTY}")
        expect(page.locator("#live")).to_be_hidden()
        page.get_by_role("button", name="Lock").click()
        assert page.evaluate("sessionStorage.getItem('bestarm-token')") is None


def test_it_fits_in_both_themes_and_on_a_phone(
    browser: Browser, served: Served, finished: Overview
) -> None:
    experiment = place(served).removeprefix(served.base)
    with tab(browser) as page:
        for name, path in (
            ("list", "/"),
            ("login", "/login"),
            ("report", f"{experiment}/report"),
            ("offer", experiment),
        ):
            page.goto(f"{served.base}{path}")
            if name in {"offer", "report"}:
                expect(page.locator("#plot-leads .uplot").first).to_be_attached()
            for theme in THEMES:
                page.emulate_media(color_scheme=theme)
                for width in (1280, 360):
                    page.set_viewport_size({"width": width, "height": 800})
                    page.wait_for_function(SETTLED)
                    assert page.evaluate("document.documentElement.scrollWidth") <= width, name
                assert page.evaluate(DARK) == (theme == "dark")


def test_the_first_screen_says_what_matters(browser: Browser, served: Served) -> None:
    """Verdict, lead, rates, counts and health of an A/B/n experiment, at 1280 by 800."""
    problem = Problem(["one page", "two steps", "express", "guest"])
    options = {"bounds": [0, 1], "control": "one page"}
    with Experiment.create(
        served.url, "checkout", problem, policy_options=options, description="Which page?", seed=0
    ) as made:
        given = made.ask(400)
        made.tell_many([(each.id, float(each.id % 10 < 3 + each.arm)) for each in given])
    with tab(browser) as page:
        page.set_viewport_size({"width": 1280, "height": 800})
        page.goto(f"{served.base}/experiments/checkout")
        for place in ("#verdict", "#lead", "#glance-health", ".facts", "#panel-leaderboard table"):
            assert page.evaluate(BOTTOM, place) <= 800, place
        assert page.evaluate("document.documentElement.scrollHeight") < 2600


def test_with_a_keyboard_and_the_other_theme(
    browser: Browser, served: Served, finished: Overview
) -> None:
    with tab(browser) as page:
        page.goto(place(served))
        page.keyboard.press("Tab")
        expect(page.get_by_text("Skip to the content")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("#main")).to_be_focused()
        page.get_by_role("button", name="Change between light and dark").press("Enter")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        page.reload()
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        page.locator("#fold-snippets > summary").press("Enter")
        summary = page.locator("#snippet-curl summary")
        summary.press("Enter")
        expect(page.locator("#code-curl")).to_be_visible()
        expect(summary).to_have_css("outline-style", "solid")  # focus can be seen


def test_without_scripts_there_is_everything_but_the_charts(
    browser: Browser, served: Served, finished: Overview
) -> None:
    with tab(browser, scripts=False) as page:
        page.goto(place(served))
        assert words(page.locator("#verdict").inner_text()) == finished.sentences[0]
        message = page.get_by_text("This chart needs JavaScript.")
        assert message.count() == len(charts(finished))
        for dead in ("#theme", "#manage-show", ".copy >> nth=0"):
            expect(page.locator(dead)).to_be_hidden()


def test_where_a_token_is_needed_one_signs_in_and_follows(browser: Browser, url: str) -> None:
    with in_thread(url, local=False) as outside, tab(browser) as page:
        page.goto(f"{outside.base}/")
        page.get_by_label("Access token").fill("bestarm-1-nonsense")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_have_text("This access token is not valid.")
        page.get_by_label("Access token").fill(outside.token(Role.VIEW))
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator("h1")).to_have_text("Experiments")
        with outside.client() as client:
            create(client, "seen")
            page.get_by_role("link", name="seen").click()  # the list is brought up to date
            expect(page.locator("#live")).to_have_text("Live")
            client.post("/experiments/seen/pause").raise_for_status()
            expect(page.locator("#verdict")).to_contain_text("Paused")
        page.get_by_role("button", name="Sign out").click()
        expect(page.locator("h1")).to_have_text("Sign in")


def test_a_wrong_entry_is_named_in_a_sentence(browser: Browser, served: Served) -> None:
    """Nothing typed is turned into something else, and what is wrong is named with its field."""
    token = served.token(Role.MANAGE)
    table = 'name,size,hue\n"small, red",1,0.5\nlarge,2,0.1\nblue,0,3'
    with tab(browser) as page:
        page.goto(f"{served.base}/")
        if page.locator("#create").get_attribute("open") is None:
            page.locator("#create > summary").click()
        page.locator("#create .more > summary").click()
        good = {"name": "typed", "manage": token, "source": table, "seed": "", "policy_options": ""}
        page.locator("#outcome").select_option("number")
        good |= {"tolerance": "", "low": "0", "delta": "0.05"}
        for name, value in good.items():
            page.locator(f"#{name}").fill(value)
        for field, text, message in (
            ("delta", "0,05", "Error probability δ: “0,05” is not a number; write 2000"),
            ("delta", "1.5", "delta"),
            ("delta", "0x1", "is not a number."),
            ("seed", "12345678901234567890", "Seed of the draws"),
            ("policy_options", "3", "must be names with values"),
            ("policy_options", "null", "must be names with values"),
            ("policy_options", "[1]", "must be names with values"),
            ("policy_options", "{", "are not JSON"),
            ("tolerance", "a little", "Difference that does not matter: “a little” is not"),
            ("low", "", "both bounds"),
            ("source", "a,1\nb,1,2", "Line 2 of options has 3 values, the first has 2."),
        ):
            page.locator(f"#{field}").fill(text)
            page.locator("#create-go").click()
            expect(page.locator("#create-error")).to_contain_text(message)
            beside = page.locator("[aria-invalid] + #create-error, #bounds #create-error")
            assert beside.count() == 1, field
            page.locator(f"#{field}").fill(good[field])
        page.locator("#control").select_option("large")
        page.locator("#tolerance").fill("0.1")
        page.locator("#create-go").click()
        expect(page.locator("#verdict")).to_contain_text("Ready: 3 options")
        for option in ('control = "large"', "tolerance = 0.1"):
            expect(page.locator("#panel-guarantee")).to_contain_text(option)
        # Bounds say how wide the noise is where a policy does not go by them.
        page.goto(f"{served.base}/")
        page.get_by_role("link", name="New experiment").click()
        page.locator("#outcome").select_option("number")
        page.locator("#create .more > summary").click()
        entries = {"name": "scaled", "source": table, "low": "-3", "high": "1"}
        for name, value in entries.items():
            page.locator(f"#{name}").fill(value)
        page.locator("#policy").select_option("sp-bai")
        page.get_by_label("Subtract a forecast from every outcome").check()
        page.locator("#create-go").click()
        expect(page.locator("#panel-guarantee .pairs dd")).to_have_text(
            ["0.05", "sp-bai", "2", "±3", "by the default forecaster"]
        )
        page.goto(f"{served.base}/plan")
        page.locator("#source").fill(table)
        page.locator("#gap").fill("0.4")
        page.locator("#per-day").fill("2,000")
        page.locator("#plan-go").click()
        expect(page.locator("#plan-error")).to_contain_text("Outcomes per day: “2,000” is not")


def test_guardrails_are_typed_row_by_row(browser: Browser, served: Served, url: str) -> None:
    with tab(browser) as page:
        page.goto(f"{served.base}/")
        if page.locator("#create").get_attribute("open") is None:
            page.locator("#create > summary").click()
        entries = {"name": "guarded", "manage": served.token(Role.MANAGE), "source": "old\nnew"}
        for name, value in entries.items():
            page.locator(f"#{name}").fill(value)
        page.locator("#control").select_option("old")
        page.locator("#create .more > summary").click()
        add, go = page.locator("#guardrail-add"), page.locator("#create-go")
        rows, wrong = page.locator(".guardrail"), page.locator("#create-error")
        for _ in range(3):
            add.click()
        rows.nth(1).get_by_role("button", name="Remove").click()
        expect(add).to_be_focused()
        refund, revenue = rows.nth(0), rows.nth(1)
        go.click()
        expect(wrong).to_have_text("Give every guardrail a name, or remove it.")
        for row in (refund, revenue):
            row.get_by_label("Name", exact=True).fill("refund")
            row.get_by_label("How much worse it may be").fill("0.02")
        go.click()
        expect(wrong).to_have_text("There are two guardrails “refund”.")
        revenue.get_by_label("Name", exact=True).fill("revenue")
        revenue.get_by_label("Highest value").fill("")
        go.click()
        expect(wrong).to_have_text("Guardrail “revenue” lacks a number: Highest value.")
        revenue.get_by_label("Highest value").fill("50")
        revenue.get_by_label("Worse values are").select_option("lower")
        revenue.get_by_label("Action").select_option("report it only")
        refund.get_by_label("False alarm probability").fill("7")
        go.click()
        expect(wrong).to_contain_text("alpha")
        refund.get_by_label("False alarm probability").fill("0.1")
        refund.get_by_label("Window").fill("14d")
        go.click()
        expect(page.locator("#verdict")).to_contain_text("Ready: 2 options")
    with Experiment.open(url, "guarded") as experiment:
        assert experiment.spec is not None
        assert experiment.spec.guardrails == (
            Guardrail("refund", (0, 1), 0.02, 0.1, "retire", window=14 * 86_400, otherwise=0),
            Guardrail("revenue", bounds=(0, 50), worse_by=0.02, action="alert", worse="lower"),
        )


def test_the_keyboard_stays_where_it_was_when_the_buttons_change(
    browser: Browser, served: Served, client: httpx.Client
) -> None:
    create(client, "keys")
    with tab(browser) as page:
        page.goto(f"{served.base}/experiments/keys")
        page.get_by_role("button", name="Manage…").press("Enter")
        page.get_by_label("Access token (role: manage)").fill(served.token(Role.MANAGE))
        page.keyboard.press("Enter")
        for now, then in (("Pause", "Resume"), ("Resume", "Pause")):
            expect(page.get_by_role("button", name=now)).to_be_focused()
            page.keyboard.press("Enter")
            expect(page.get_by_role("button", name=then)).to_be_focused()


def test_archiving_leaves_it_out_of_the_list(
    browser: Browser, served: Served, client: httpx.Client
) -> None:
    create(client, "old news")
    with tab(browser) as page:
        page.goto(f"{served.base}/experiments/old%20news")
        page.get_by_role("button", name="Manage…").click()
        page.get_by_label("Access token (role: manage)").fill(served.token(Role.MANAGE))
        page.get_by_role("button", name="Unlock").click()
        page.get_by_role("button", name="Describe…").click()
        page.get_by_label("Description").fill(NASTY)
        page.get_by_role("button", name="Save").click()
        expect(page.locator("#about")).to_have_text(NASTY)
        expect(page.locator("#panel-events")).to_contain_text(f"Described as: {NASTY}")
        page.get_by_role("button", name="Archive…").click()
        expect(page.get_by_role("dialog")).to_contain_text("bestarm experiment delete old news")
        page.get_by_role("button", name="Archive it").click()
        expect(page.locator("#panel-verdict")).to_contain_text("Archived")
        page.goto(f"{served.base}/")
        expect(page.get_by_role("link", name="old news")).to_have_count(0)
        page.go_back()
        page.get_by_role("button", name="Show in lists again").click()
        expect(page.locator("#panel-verdict")).not_to_contain_text("Archived")
        expect(page.get_by_role("button", name="Archive…")).to_be_visible()


def test_a_browser_plans_and_stops_without_running_what_users_typed(
    browser: Browser, served: Served
) -> None:
    with tab(browser) as page:
        page.goto(f"{served.base}/plan")
        page.fill("#source", f"{NASTY}\nnew")
        page.fill("#gap", "0.4")
        page.fill("#token", "bestarm-1-wrong")
        page.click("#plan-go")
        page.wait_for_selector("#plan-error:has-text('valid access token')")
        page.fill("#token", served.token(Role.TELL))
        page.fill("#window", "2d")
        page.click("summary")
        assert page.locator("[name=policies]:checked").count() == 1
        page.check("[value=sp-bai]")
        page.fill("#runs", "10")
        page.click("#plan-go")
        page.wait_for_selector("#plan-error:has-text('A window needs `per_day`')")
        page.fill("#per-day", "100")
        patience = 4 * HANG_TIMEOUT
        page.click("#plan-go")
        page.wait_for_selector("#plan-result table", timeout=patience)
        with_window = page.inner_text("#plan-words")
        expect(page.locator("#plan-curve .uplot")).to_be_visible()
        page.fill("#window", "")
        page.fill("#block", "2")
        assert page.is_disabled("[value=sp-bai]")
        assert page.is_checked("[value=people]")
        assert page.is_visible("text=Rounds per day")
        page.uncheck("[value=sine]")
        page.click("#plan-go")
        page.wait_for_selector("#plan-result th:has-text('anytime ×2')", timeout=patience)
        in_blocks = page.inner_text("#plan-words")
        expect(page.locator("#plan-curve")).to_be_hidden()  # a test of fixed size is another one
        page.fill("#block", "1")
        page.fill("#visitors", "300")
        page.fill("#base", "20 %")
        assert page.is_disabled("#gap")
        page.click("#plan-go")
        page.wait_for_selector("#plan-words .verdict", timeout=patience)
        lifts = page.inner_text("#plan-words")
        page.fill("#visitors", "")
        assert page.is_enabled("#gap")
        page.fill("#gap", "0.01")
        page.fill("#runs", "2000")
        page.click("#plan-go")
        page.wait_for_selector("#plan-status:has-text(' of ')")
        page.click("#plan-stop")
        page.wait_for_selector("#plan-status:has-text('Stopped.')")
    assert settled()
    problem = Problem([NASTY, "new"], delta=0.05, noise=0.5)
    asked = PlanRequest(problem, gap=0.4, bounds=(0, 1), per_day=100, runs=10)
    policies = ["anytime", "sp-bai"]
    plan = plan_experiment(replace(asked, policies=policies, window="2d"))
    assert f"{plan.scenarios[0].describe('outcomes', rates=True)}." in with_window
    assert NASTY in with_window
    assert "A window of 2 days at 100 outcomes per day: 200 are always under way." in with_window
    for each in plan.forecasts:
        pulls = each.pulls
        row = f"{each.policy}\t{pulls.median:,.0f}\t{pulls.low:,.0f}–{pulls.high:,.0f}\t"
        assert row in with_window
    waiting = plan.waiting(plan.forecasts[1])
    assert waiting is not None
    days = f"{waiting:.0f}" if waiting >= 10 else f"{waiting:.1f}"
    assert f"sp-bai assigns nothing on {days} of its days" in with_window
    assert "anytime assigns" not in with_window
    found = detectable_lifts(replace(asked, gap=None, base=0.2, drift="people"), visitors=300)
    lift = found.curves[0].at(0.5).lift
    assert lift is not None
    share, rate = (f"{float(f'{100 * each:.3g}'):g} %" for each in (lift / 0.2, 0.2 + lift))
    assert f"50 %\t+{share} (20 % → {rate})\t" in lifts
    assert "With 300 visitors " in lifts
    plan = plan_experiment(replace(asked, block=2))
    for each in plan.forecasts:
        rounds = each.rounds
        row = f"{each.name}\t{rounds.median:,.0f}\t{rounds.low:,.0f}–{rounds.high:,.0f}\t"
        assert f"{row}{each.pulls.median:,.0f}\t" in in_blocks
