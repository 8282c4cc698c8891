"""Pages: who sees them, what is in them, and that nothing users typed is ever more than text."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from html import unescape
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

import httpx
import numpy as np
import pytest
from served import HANG_TIMEOUT, Served, in_thread, post
from served import get as served_get

from bestarm import Problem
from bestarm.live import Experiment
from bestarm.live.watch.overview import overview
from bestarm.server.api.requests import COOKIE
from bestarm.server.pages.charts import charts
from bestarm.server.pages.panels import PANELS, charts_json, report, write_report
from bestarm.server.tokens import Role

NASTY = "<script>alert(1)</script>"
NAME = 'it\'s "a" <b>offer & ü #1 50% ?x=1'
LABELS = [NASTY, "{{ 7*7 }}", "' onmouseover='alert(1)", "%{y} </svg><img src=x onerror=alert(1)>"]


class Reader(HTMLParser):
    """Tags with their attributes, and the text outside of them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def fill(url: str, name: str = NAME, pulls: int = 400) -> None:
    problem = Problem(np.eye(4), delta=0.05, source_labels=LABELS)
    options = {"bounds": [0, 1]}
    with Experiment.create(
        url, name, problem, policy_options=options, description=NASTY, seed=0
    ) as experiment:
        given = experiment.ask(pulls)
        experiment.tell_many([(each.id, float((each.id + each.arm) % 3 == 0)) for each in given])
        experiment.pause()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = f"sqlite:///{tmp_path_factory.mktemp('pages') / 'store.db'}"
    fill(made)
    return made


@pytest.fixture(scope="module")
def served(url: str) -> Iterator[Served]:
    with in_thread(url) as running:
        yield running


@pytest.fixture(scope="module")
def outside(url: str) -> Iterator[Served]:
    """One that others can reach, so that looking needs a token."""
    with in_thread(url, local=False) as running:
        yield running


def get(served: Served, path: str, **options: object) -> httpx.Response:
    return served_get(f"{served.base}{path}", **options)


PLACE = f"/experiments/{quote(NAME, safe='')}"


@pytest.mark.parametrize("path", ["/", PLACE, f"{PLACE}/report", "/login", "/experiments/none"])
def test_what_users_typed_is_text(served: Served, path: str) -> None:
    answer = get(served, path)
    read = Reader(answer.text)
    for tag, attributes in read.tags:
        assert not any(name.startswith("on") for name in attributes), (tag, attributes)
        code = tag == "script" and attributes.get("type") != "application/json"
        assert not code or (attributes.get("src") or "").startswith("/static/")
        assert tag not in {"img", "b"} or "src" not in attributes
        for name in ("href", "src", "action"):
            assert (attributes.get(name) or "/").startswith(("/", "#", "data:,"))
    assert "49" not in [word.strip() for word in read.words]  # {{ 7*7 }} is not computed
    if path == PLACE:
        assert all(label in read.text for label in LABELS)
        assert NAME in read.text
    assert answer.headers["content-security-policy"].count("script-src 'self'") == 1
    assert "unsafe-eval" not in answer.headers["content-security-policy"]


def test_every_panel_is_there_and_the_same_in_page_update_and_report(served: Served) -> None:
    page = get(served, PLACE).text
    news = get(served, f"{PLACE}/panels").json()
    printed = get(served, f"{PLACE}/report").text
    assert list(news["panels"]) == [name for name in PANELS if name != "guardrails"]  # it has none
    for name, html in news["panels"].items():
        assert f'id="panel-{name}"' in page
        assert html in page
        if name not in {"health", "events"}:  # on paper nothing is folded or left out
            assert (html in printed) == (name != "snippets")  # nobody pastes from paper
    assert "<details" not in printed.replace('<details class="inner" id="health-ok" open>', "")
    assert set(news["charts"]) == {"leads", "evidence", "raw"}
    assert news["state"] == "paused"


def test_updates_are_asked_for_cheaply(served: Served) -> None:
    first = get(served, f"{PLACE}/panels")
    tag = first.headers["etag"]
    again = get(served, f"{PLACE}/panels", headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")
    assert first.headers["content-encoding"] == "gzip"
    plain = get(served, f"{PLACE}/panels", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.json() == first.json()
    with served.client() as client:
        client.post(f"/experiments/{quote(NAME, safe='')}/resume")
        client.post(f"/experiments/{quote(NAME, safe='')}/pause")
    news = get(served, f"{PLACE}/panels", headers={"If-None-Match": tag})
    assert news.status_code == 200
    assert news.headers["etag"] != tag


def test_assets_are_served_from_packages_and_kept(served: Served) -> None:
    page = get(served, PLACE).text
    found = set(re.findall(r"/static/[\w.]+\?v=[\w.]+", page))
    assert {path.split("?")[0] for path in found} >= {
        "/static/style.css",
        "/static/theme.js",
        "/static/charts.js",
        "/static/experiment.js",
        "/static/uplot.min.js",
    }
    for path in found:
        answer = get(served, path)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        name = path.split("/")[2].split("?")[0]
        content = resources.files("bestarm.server").joinpath("static", name).read_bytes()
        assert answer.content == content
        assert ("content-encoding" in answer.headers) == (len(content) > 1000)
        raw = get(served, path, headers={"Accept-Encoding": "identity"})
        assert raw.content == content
    for path in (
        "/static/pages.py",
        "/static/..%2fpages.py",
        "/static/..%2f..%2f..%2fetc%2fpasswd",
    ):
        assert get(served, path).status_code == 404


def test_where_looking_needs_a_token_it_is_asked_for(outside: Served) -> None:
    for path in ("/", PLACE, f"{PLACE}/report"):
        answer = get(outside, path)
        assert answer.status_code == 303
        goal = parse_qs(urlsplit(answer.headers["location"]).query)["next"][0]
        assert unquote(goal) == unquote(path)
        with httpx.Client(
            timeout=HANG_TIMEOUT, base_url=outside.base, follow_redirects=True
        ) as browser:
            form = {"token": outside.token(Role.VIEW), "next": goal}
            assert browser.post("/login", data=form).url.raw_path.decode() == goal
        assert NASTY not in answer.text
    for path in ("/list", f"{PLACE}/panels", "/role"):
        answer = get(outside, path)
        assert answer.status_code == 401
        assert answer.json()["kind"] == "unauthorized"


@pytest.mark.parametrize("role", list(Role))
def test_a_token_once_entered_allows_looking_and_nothing_else(outside: Served, role: Role) -> None:
    token = outside.token(role)
    with httpx.Client(timeout=HANG_TIMEOUT, base_url=outside.base) as browser:
        answer = browser.post("/login", data={"token": f" {token} ", "next": PLACE})
        assert (answer.status_code, answer.headers["location"]) == (303, PLACE)
        cookie = answer.headers["set-cookie"].lower()
        assert f"{COOKIE}=" in cookie
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        # A program on another port of this machine would see the cookie: it is not the token.
        kept = browser.cookies[COOKIE]
        assert token.split("-", 2)[2] not in kept
        for text in (kept, f"bestarm-{kept}"):
            bearer = {"Authorization": f"Bearer {text}"}
            assert get(outside, "/role", headers=bearer).status_code == 401
        page = browser.get(PLACE)
        assert page.status_code == 200
        assert token not in page.text
        assert token not in browser.get("/").text
        assert browser.get("/role").json() == {"role": "view"}
        message = browser.post(f"/api/v1{PLACE}/stop")
        assert message.status_code == 403
        assert browser.post("/logout").status_code == 303
        assert browser.get(PLACE).status_code == 303


def test_a_wrong_token_is_refused_and_not_repeated(outside: Served) -> None:
    token = outside.token(Role.VIEW)
    for wrong in ("", "bestarm-1-x", token[:-1], token + "x", NASTY, "\x00", "ü" * 1000):
        answer = post(f"{outside.base}/login", data={"token": wrong})
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers
        assert len(wrong) < 3 or wrong not in answer.text
    big = post(f"{outside.base}/login", data={"token": "x" * 20_000})
    assert big.status_code == 413


@pytest.mark.parametrize(
    "goal",
    [
        "//evil.com",
        "https://evil.com",
        "/\\evil.com",
        "\\\\evil",
        "javascript:alert(1)",
        "",
        "/\n/x",
    ],
)
def test_signing_in_never_leads_elsewhere(outside: Served, goal: str) -> None:
    form = {"token": outside.token(Role.VIEW), "next": goal}
    answer = post(f"{outside.base}/login", data=form)
    assert answer.headers["location"] == "/"
    asked = get(outside, f"/login?next={quote(goal, safe='')}")
    [field] = [
        a for tag, a in Reader(asked.text).tags if tag == "input" and a.get("name") == "next"
    ]
    assert field["value"] == "/"


def test_another_site_cannot_sign_anybody_in_or_out(outside: Served) -> None:
    foreign = {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.com"}
    form = {"token": outside.token(Role.VIEW)}
    for path in ("/login", "/logout"):
        answer = post(f"{outside.base}{path}", data=form, headers=foreign)
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers


def test_the_role_of_a_token_can_be_asked_for(served: Served) -> None:
    for role in Role:
        answer = get(served, "/role", headers={"Authorization": f"Bearer {served.token(role)}"})
        assert answer.json() == {"role": role.word}


def test_an_experiment_that_cannot_be_replayed_is_listed_and_explained(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'broken.db'}"
    fill(url, "sound")
    fill(url, "other")
    with closing(sqlite3.connect(tmp_path / "broken.db")) as connection, connection:
        changed = "UPDATE bestarm_plans SET plan = replace(plan, '\"pulls\":', '\"pulls\":99999')"
        assert connection.execute(f"{changed} WHERE phase = 1").rowcount == 2
    with in_thread(url) as running:
        answer = get(running, "/experiments/sound")
        assert answer.status_code == 503
        assert "the policy refuses summary 0" in Reader(answer.text).text
        assert "sound" in Reader(get(running, "/").text).text


def test_the_report_needs_nothing_else(tmp_path: Path, url: str) -> None:
    experiment = Experiment.open(url, NAME)
    path = write_report(experiment, tmp_path / "report.html")
    text = path.read_text(encoding="utf-8")
    read = Reader(text)
    assert not [tag for tag, _ in read.tags if tag in {"iframe", "object", "form"}]
    loaded = [a for _, a in read.tags for name in ("src", "href") if (a.get(name) or "").strip()]
    assert all((a.get("href") or "").startswith("data:") for a in loaded)
    assert [a.get("id") for tag, a in read.tags if tag == "script"] == ["charts", None, None]
    assert sum(a.get("class") == "plot" for _, a in read.tags) == 3
    assert overview(experiment).verdict in unescape(text).replace("\xa0", " ")


def test_charts_hold_what_the_overview_says(url: str) -> None:
    with Experiment.open(url, NAME) as experiment:
        seen = overview(experiment)
    drawn = charts(seen)
    gaps = {drawn_line.label: drawn_line for drawn_line in drawn["leads"].lines}
    for line in seen.timeline.lines:
        shown = gaps[line.label]
        assert shown.y == pytest.approx([y and 100 * y for y in line.y[-len(shown.y) :]])  # points
        assert shown.x == line.x[-len(shown.x) :]
        assert shown.rank == line.rank
    assert drawn["leads"].y_range[0] < 0 < drawn["leads"].y_range[1]  # down is worse
    text = report(seen, whole=False)
    assert text.count('class="plot"') == len(drawn) == 3
    assert NASTY not in text
    numbers = re.search(r'<script type="application/json" id="charts">(.*?)</script>', text)
    assert numbers is not None
    assert json.loads(numbers[1]) == json.loads(charts_json(seen))


def test_a_page_that_is_not_there_is_a_page_to_browsers_alone(served: Served) -> None:
    answer = get(served, "/experiments/nothing")
    assert answer.status_code == 404
    assert "There is no experiment 'nothing'" in Reader(answer.text).text
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    for path in ("/nothing", f"{PLACE}/", "/static/../x", "/experiments/"):
        shown = get(served, path, headers=browser)
        assert shown.status_code == 404
        assert "There is no such page" in Reader(shown.text).text
        assert get(served, path).json()["kind"] == "not_found"
    assert get(served, "/api/v1/nothing", headers=browser).json()["kind"] == "not_found"


def test_nobody_is_told_where_the_database_is(
    served: Served, outside: Served, tmp_path: Path
) -> None:
    assert "store.db" not in get(served, PLACE).text
    shown = {"Authorization": f"Bearer {outside.token(Role.VIEW)}"}
    for path in (PLACE, f"{PLACE}/report", f"{PLACE}/panels", "/"):
        answer = get(outside, path, headers=shown)
        assert answer.status_code == 200
        assert "store.db" not in answer.text
        assert "sqlite" not in answer.text
    # Nor where it is gone.
    fill(f"sqlite:///{tmp_path / 'secret.db'}")
    with in_thread(f"sqlite:///{tmp_path / 'secret.db'}") as running:
        shutil.rmtree(tmp_path)
        for path in ("/", PLACE):
            answer = get(running, path)
            assert answer.status_code == 503
            assert "secret" not in answer.text
            assert "The database cannot be used now" in Reader(answer.text).text
