"""Long lists come in parts: over HTTP, and on the page, which asks again only for what is new."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

import httpx
import numpy as np
import pytest
from served import Served, in_thread

from bestarm import Problem
from bestarm.live import Experiment
from bestarm.live.store import Store
from bestarm.live.values import Check
from bestarm.live.watch.overview import Watch
from bestarm.server.experiments import Maintenance, OpenExperiments
from bestarm.server.pages.routes import listing
from bestarm.server.tokens import Role

NASTY = "<script>alert(1)</script> 50%_off\\"
MANY = 130  # three pages


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    url = f"sqlite:///{tmp_path_factory.mktemp('lists') / 'store.db'}"
    store = Store(url)
    problem = Problem(np.eye(2))
    for number in range(MANY):
        about = NASTY if number == 7 else ""
        made = Experiment.create(store, f"offer {number:03}", problem, description=about)
        if number >= 100:
            made.stop()
        elif number >= 90:
            made.pause()
    store.close()
    with pytest.MonkeyPatch.context() as patched:
        # Its findings are news at any time.
        patched.setattr(Maintenance, "run_once", lambda _: None)
        with in_thread(url) as running:
            yield running


def names(text: str) -> list[str]:
    return [unescape(each) for each in re.findall(r'<h2><a href="[^"]*">(.*?)</a></h2>', text)]


def looking(served: Served) -> httpx.Client:
    return httpx.Client(base_url=served.base, timeout=60)


def test_parts_of_any_size_are_together_the_whole(served: Served) -> None:
    with served.client(Role.VIEW) as client:
        assert len(client.get("/experiments").json()["experiments"]) == 100
        for limit in (1000, MANY, MANY - 1, 43):
            found = list[str]()
            after: dict[str, str] | None = {}
            while after is not None:
                part = client.get("/experiments", params={"limit": limit, **after}).json()
                found += [each["name"] for each in part["experiments"]]
                after = None if part["next"] is None else {"after": part["next"]}
                assert after is None or len(part["experiments"]) == limit
            assert found == [f"offer {number:03}" for number in range(MANY)]


def test_who_is_unknown_is_no_place_to_go_on(served: Served) -> None:
    with served.client(Role.VIEW) as client:
        for name, status in (("", 422), ("nobody", 404), ("x" * 201, 422), ("a\0b", 422)):
            found = client.get("/experiments", params={"after": name})
            assert (found.status_code, found.json()["field"]) == (status, "after")


def test_the_page_has_fifty_and_leads_to_the_others(served: Served) -> None:
    with looking(served) as client:
        first = client.get("/").text
        assert names(first) == [f"offer {number:03}" for number in range(89, 39, -1)]  # they run
        assert "Page 1 of 3 · 130 experiments" in first
        assert 'rel="prev"' not in first
        following = re.search(r'rel="next" href="([^"]*)"', first)
        assert following is not None
        second = client.get(f"/{following[1]}").text
        expected = [*range(39, -1, -1), *range(99, 89, -1)]  # those that are paused come after
        assert names(second) == [f"offer {number:03}" for number in expected]
        third = client.get("/?page=3").text
        assert names(third) == [f"offer {number:03}" for number in range(129, 99, -1)]
        assert 'rel="next"' not in third
        assert 'rel="prev" href="?page=2"' in third
        found = client.get("/", params={"search": "offer 0"}).text
        assert "Page 1 of 2 · 100 experiments" in found
        following = re.search(r'rel="next" href="([^"]*)"', found)
        assert following is not None
        assert "Page 2 of 2" in client.get(f"/{unescape(following[1])}").text


@pytest.mark.parametrize("page", ["4", "999999999", "0", "-1", "x", "", "1" * 50, "²"])
def test_a_page_that_is_not_there_is_the_nearest_one(served: Served, page: str) -> None:
    with looking(served) as client:
        found = client.get("/", params={"page": page})
    assert found.status_code == 200
    assert ("Page 3 of 3" if page in {"4", "999999999"} else "Page 1 of 3") in found.text


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        ("OFFER 12", [129, 128, 127, 126, 125, 124, 123, 122, 121, 120]),
        ("<script>", [7]),
        ("50%_off\\", [7]),
        ("50%off", []),
        ("5__", []),
        ("nobody", []),
    ],
)
def test_the_page_finds_by_name_or_description(
    served: Served, search: str, expected: list[int]
) -> None:
    with looking(served) as client:
        found = client.get("/", params={"search": search})
    assert found.status_code == 200
    assert names(found.text) == [f"offer {number:03}" for number in expected]
    assert "<script>alert" not in found.text
    assert ("No experiment has" in found.text) == (not expected)
    assert "Show all" in found.text


def test_what_is_known_is_not_sent_again_nor_read(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    with looking(served) as client, served.client() as api:
        page = client.get("/?page=2").text
        tag = re.search(r'data-tag="([^"]*)"', page)
        assert tag is not None
        known = {"If-None-Match": unescape(tag[1])}
        read: list[str] = []

        def counted(watch: Watch) -> str:
            read.append(watch.experiment.name)
            return headline(watch)

        headline = Watch.headline
        monkeypatch.setattr(Watch, "headline", counted)
        same = client.get("/list?page=2", headers=known)
        assert (same.status_code, same.content, same.headers["etag"]) == (
            304,
            b"",
            known["If-None-Match"],
        )
        assert read == []
        # Another page is another thing; so is a search.
        for other in ("/list", "/list?page=3", "/list?page=2&search=offer"):
            assert client.get(other, headers=known).status_code == 200
        # What happens on another page leaves this one as it was; what happens on it does not.
        api.post("/experiments/offer 080/ask", json={"count": 1})
        assert client.get("/list?page=2", headers=known).status_code == 304
        api.post("/experiments/offer 020/ask", json={"count": 1})
        changed = client.get("/list?page=2", headers=known)
        assert changed.status_code == 200
        assert changed.headers["etag"] != known["If-None-Match"]
        assert "1 assignment" in changed.json()["html"]


def test_an_alarm_is_news(served: Served) -> None:
    """Health is seen to by the server itself; what it finds changes no counter of an experiment."""
    store = Store(served.url)
    experiments = OpenExperiments(store)
    asked = {"search": "offer 000"}
    calm, _ = listing(experiments, asked, {}, None)
    assert listing(experiments, asked, {"offer 000": ()}, calm) == (calm, None)
    alarm = Check("allocation", "alarm", "It is off.", "Stop.")
    found, part = listing(experiments, asked, {"offer 000": (alarm,)}, calm)
    assert found != calm
    assert part is not None
    assert part.rows[0][2] == alarm
    store.close()
