"""Following an experiment: events for all, one reader, and an end when the server stops."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Event
from typing import Any

import httpx
import pytest
from databases import wait_until
from served import HANG_TIMEOUT, Served, create, get, in_thread, outcomes, wrong

from bestarm import compiling
from bestarm.errors import StoreUnavailableError
from bestarm.live import Experiment
from bestarm.live.store.sql import Store
from bestarm.server import streams
from bestarm.server.guard import Limits
from bestarm.server.tokens import Role, revoke_token, token_number


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_POLL_INTERVAL", 0.05)


@pytest.fixture
def served(sqlite_url: str) -> Iterator[Served]:
    limits = Limits(rate=1e6, burst=1_000_000, streams=3)
    with in_thread(sqlite_url, limits=limits) as running, running.client() as client:
        create(client)
        yield running


class Follower:
    """Reads a stream's events, one at a time, and not for ever: signs of life do not end."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._all = response.iter_lines()

    @property
    def _lines(self) -> Iterator[str]:
        latest = time.monotonic() + HANG_TIMEOUT
        for line in self._all:
            yield line
            assert time.monotonic() < latest, "what is waited for does not come"

    def comment(self) -> str:
        """The next comment."""
        return next(line for line in self._lines if line.startswith(":"))

    def status(self) -> tuple[str, dict[str, int]]:
        """The next event: its id and its data."""
        fields = {}
        for line in self._lines:
            if not line and "data" in fields:
                break
            name, _, value = line.partition(": ")
            fields[name] = value
        assert fields.pop("retry", "2000") == "2000"
        assert fields["event"] == "status"
        return fields["id"], json.loads(fields["data"])

    def ends(self) -> bool:
        """Whether it ends in order, whatever comes before."""
        list(self._lines)
        return True


def follow(stack: ExitStack, served: Served, **options: object) -> Follower:
    client = stack.enter_context(served.client(Role.VIEW))
    response = stack.enter_context(client.stream("GET", "/experiments/offer/stream", **options))  # type: ignore[arg-type]
    assert response.status_code == 200, response.read()
    assert response.headers["content-type"].startswith("text/event-stream")
    return Follower(response)


def test_all_who_follow_see_every_change_and_the_experiment_is_looked_at_once(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, several = 0, Event()
    read: Callable[[streams.StatusStreams, str, Any], None] = vars(streams.StatusStreams)["_read"]

    def counted_read(self: streams.StatusStreams, name: str, latest: Any) -> None:
        nonlocal looks
        looks += 1
        if looks > 5:
            several.set()
        read(self, name, latest)

    with ExitStack() as stack:
        followers = [follow(stack, served) for _ in range(3)]
        assert [each.status()[1]["pulls"] for each in followers] == [0, 0, 0]
        with served.client() as client:
            client.post("/experiments/offer/ask", json={"count": 5})
            seen = [each.status() for each in followers]
            assert [status["pulls"] for _, status in seen] == [5, 5, 5]
            assert len({id_ for id_, _ in seen}) == 1
            expected = client.get("/experiments/offer")
            assert seen[0][1] == expected.json()
            assert f'W/"{seen[0][0]}"' == expected.headers["etag"]
            client.post("/experiments/offer/tell", json=outcomes(dict.fromkeys(range(5), 1)))
            assert [each.status()[1]["answered"] for each in followers] == [5, 5, 5]
        # From now on each look serves all three: there is one per pulse at most.
        began = time.monotonic()
        monkeypatch.setattr(streams.StatusStreams, "_read", counted_read)
        assert several.wait(HANG_TIMEOUT)
        assert looks <= (time.monotonic() - began) / streams._POLL_INTERVAL + 1


def test_the_page_and_those_who_follow_are_told_what_is_being_compiled(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = "Compiling the <step> of a policy."
    with ExitStack() as stack:
        follower = follow(stack, served)
        follower.status()
        for words in (message, ""):
            monkeypatch.setattr(compiling, "in_progress", lambda words=words: words, raising=False)
            lines = follower._lines
            assert next(line for line in lines if line.startswith("event:")) == "event: compiling"
            assert next(lines).rstrip() == f"data: {words}".rstrip()
            page = get(f"{served.base}/experiments/offer").text
            assert ("Compiling the &lt;step&gt; of a policy." in page) == bool(words)


def test_who_comes_back_is_told_only_what_is_new(served: Served) -> None:
    with ExitStack() as stack:
        seen, _ = follow(stack, served).status()
    with ExitStack() as stack, served.client() as client:
        follower = follow(stack, served, headers={"Last-Event-ID": seen})
        client.post("/experiments/offer/ask", json={"count": 1})
        assert follower.status()[1]["pulls"] == 1


def test_one_too_many_is_refused_before_its_stream_begins_and_leaving_makes_room(
    served: Served,
) -> None:
    with served.client(Role.VIEW) as client:
        with ExitStack() as stack:
            followers = [follow(stack, served) for _ in range(3)]
            for each in followers:
                each.status()
            error = wrong(client.get("/experiments/offer/stream"), 503, "too_many_streams")
            assert "token" in error["remedy"]

        def has_room() -> bool:
            with client.stream("GET", "/experiments/offer/stream") as again:
                return again.status_code == 200

        wait_until(has_room)


def test_what_is_not_there_cannot_be_followed(served: Served) -> None:
    with served.client(Role.VIEW) as client:
        wrong(client.get("/experiments/nobody/stream"), 404, "unknown_experiment")


def test_a_sign_of_life_when_there_is_no_news(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "_PING_INTERVAL", 0.1)
    with ExitStack() as stack:
        follower = follow(stack, served)
        follower.status()
        assert follower.comment() == ": still here"


@pytest.mark.parametrize("busy", [False, True])
def test_a_revoked_token_follows_no_longer(
    served: Served, monkeypatch: pytest.MonkeyPatch, busy: bool
) -> None:
    """Not even a busy experiment: news that never stop leave no silence in which to look."""
    monkeypatch.setattr(streams, "_PING_INTERVAL", 0.5 if busy else 0.1)
    monkeypatch.setattr(streams, "_POLL_INTERVAL", 0.02)
    over, until = Event(), time.monotonic() + HANG_TIMEOUT

    def keep_busy() -> None:
        with served.client(Role.TELL) as client:
            while busy and not over.is_set() and time.monotonic() < until:
                client.post("/experiments/offer/ask", json={"count": 1})

    with ThreadPoolExecutor(1) as pool, ExitStack() as stack:
        asking = pool.submit(keep_busy)
        stack.callback(over.set)
        follower = follow(stack, served)
        follower.status()
        store = Store(served.url)
        revoke_token(store, token_number(served.token(Role.VIEW)) or 0)
        store.close()
        assert follower.ends()
        assert not busy or asking.running()


def test_streams_end_when_the_server_does(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given_at_most = 10 * HANG_TIMEOUT
    monkeypatch.setattr(streams, "_SHUTDOWN_GRACE", given_at_most)
    with ExitStack() as stack, ThreadPoolExecutor(1) as pool:
        running = stack.enter_context(ExitStack())
        served = running.enter_context(in_thread(sqlite_url))
        with served.client() as client:
            create(client)
        followers = [follow(stack, served) for _ in range(5)]
        for each in followers:
            each.status()
        stopping = pool.submit(running.close)
        assert all(each.ends() for each in followers)
        stopping.result(HANG_TIMEOUT)


@pytest.mark.parametrize("error", [StoreUnavailableError("Not now.", field="url"), ValueError()])
def test_what_cannot_be_read_for_a_while_ends_no_stream(
    error: Exception,
    served: Served,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A database, or a policy that fails."""
    looked = Event()

    def fail(self: Experiment) -> str:
        looked.set()
        raise error

    with ExitStack() as stack, served.client() as client:
        follower = follow(stack, served)
        follower.status()
        monkeypatch.setattr(Experiment, "revision", property(fail))
        client.post("/experiments/offer/ask", json={"count": 2})
        for _ in range(3):
            looked.clear()
            assert looked.wait(HANG_TIMEOUT)
        monkeypatch.undo()
        assert follower.status()[1]["pulls"] == 2
        message = [each for each in caplog.records if "cannot be read" in each.message]
        assert len(message) == isinstance(error, ValueError)  # once, however often it fails


def test_two_hundred_who_follow_leave_threads_for_others(sqlite_url: str) -> None:
    with ExitStack() as stack:
        served = stack.enter_context(in_thread(sqlite_url))
        with served.client() as client:
            for number in range(4):
                create(client, f"offer {number}")
        held = stack.enter_context(
            served.client(Role.VIEW, limits=httpx.Limits(max_connections=None))
        )

        def begin(number: int) -> httpx.Response:
            address = f"/experiments/offer {number % 4}/stream"
            return held.send(held.build_request("GET", address), stream=True)

        with ThreadPoolExecutor(16) as threads:
            streams = list(threads.map(begin, range(200), timeout=HANG_TIMEOUT))
        for stream in streams:
            stack.callback(stream.close)
        assert {each.status_code for each in streams} == {200}
        with served.client() as client:
            assert client.get("/experiments/offer 0/stream").status_code == 503
            for number in range(4):
                client.post(f"/experiments/offer {number}/ask", json={"count": 3})

        def news(stream: httpx.Response) -> bool:
            return any('"pulls": 3' in line for line in Follower(stream)._lines)

        with ThreadPoolExecutor(16) as threads:
            assert all(threads.map(news, streams, timeout=HANG_TIMEOUT))


def anonymous(
    stack: ExitStack, served: Served, *, source: str = "127.0.0.1", **headers: str
) -> httpx.Response:
    """A stream without a token, from an address of this machine."""
    transport = httpx.HTTPTransport(local_address=source)
    client = stack.enter_context(
        httpx.Client(base_url=f"{served.base}/api/v1", transport=transport, timeout=HANG_TIMEOUT)
    )
    return stack.enter_context(
        client.stream("GET", "/experiments/offer/stream", headers=headers or None)
    )


def test_those_without_a_token_leave_streams_for_those_who_have_one(sqlite_url: str) -> None:
    limits = Limits(
        rate=1e6, burst=1_000_000, streams=6, anonymous_streams=4, anonymous_streams_per_address=3
    )
    with ExitStack() as stack:
        served = stack.enter_context(in_thread(sqlite_url, limits=limits))
        with served.client() as client:
            create(client)

        def begin(source: str) -> int:
            return anonymous(stack, served, source=source).status_code

        assert [begin("127.0.0.1") for _ in range(4)] == [200, 200, 200, 503]
        assert [begin("127.0.0.2") for _ in range(2)] == [200, 503]  # all together
        refused = anonymous(stack, served, source="127.0.0.3")
        refused.read()
        wrong(refused, 503, "too_many_streams")
        assert "retry-after" in refused.headers
        # A header that is not a token, or a made-up session, is anonymous or nobody.
        made_up = anonymous(stack, served, Authorization="Bearer bestarm-1-x")
        assert made_up.status_code == 401
        assert anonymous(stack, served, Cookie="bestarm_view=1-x").status_code == 503
        # Who has a token gets through, and who signed in on the page as well.
        follower = follow(stack, served)
        assert follower.status()[1]["pulls"] == 0
        page = stack.enter_context(httpx.Client(base_url=served.base, timeout=HANG_TIMEOUT))
        page.post("/login", data={"token": served.token(Role.VIEW)})
        known = stack.enter_context(page.stream("GET", "/api/v1/experiments/offer/stream"))
        assert known.status_code == 200
        # All of them together have their limit.
        one_more = stack.enter_context(served.client(Role.VIEW))
        beyond = stack.enter_context(one_more.stream("GET", "/experiments/offer/stream"))
        assert beyond.status_code == 503


def test_who_leaves_makes_room_for_others_without_a_token(sqlite_url: str) -> None:
    limits = Limits(rate=1e6, burst=1_000_000, anonymous_streams=1, anonymous_streams_per_address=1)
    with in_thread(sqlite_url, limits=limits) as served:
        with served.client() as client:
            create(client)
        with ExitStack() as stack:
            assert anonymous(stack, served).status_code == 200
            assert anonymous(stack, served).status_code == 503

        def has_room() -> bool:
            with ExitStack() as stack:
                return anonymous(stack, served).status_code == 200

        wait_until(has_room)
