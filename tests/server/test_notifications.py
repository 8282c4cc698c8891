"""Notifications: each arrives at least once, whatever is killed, and goes nowhere it must not."""

from __future__ import annotations

import json
import re
import socket
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest
import sqlalchemy as sa
from databases import wait_until
from receiving import SECRET, Receiver, answering_with, receiving, verified
from served import HANG_TIMEOUT, create, forked, in_thread, outcomes

from bestarm import Experiment, Problem
from bestarm.errors import InvalidInputError
from bestarm.live.store import Store
from bestarm.live.watch.overview import overview
from bestarm.server import experiments, notifications
from bestarm.server.experiments import OpenExperiments
from bestarm.server.notifications import Command, Notifier, Webhook, is_public, read_secret

DAY = 86_400.0
ADDRESS = "https://experiments.example.org"


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers in this process and its forks look often: nobody waits for seconds."""
    for module in (experiments, notifications):
        monkeypatch.setattr(module, "_EVERY", 0.05)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


class Sender:
    """A notifier on a store of its own, with a clock of ours."""

    def __init__(self, url: str, to: notifications.Receiver) -> None:
        self.url, self.store = url, Store(url)
        self.store.prepare()
        self.to, self.notifier = to, Notifier(OpenExperiments(self.store), to, ADDRESS)

    def restart(self) -> None:
        self.notifier = Notifier(OpenExperiments(self.store), self.to, ADDRESS)

    def set_clock(self, monkeypatch: pytest.MonkeyPatch, ahead: float) -> None:
        monkeypatch.setattr(Store, "now", lambda _: time.time() + ahead)

    def make(self, name: str) -> Experiment:
        problem = Problem(["old", "new", "odd"])
        return Experiment.create(self.store, name, problem, bounds=(0, 1), seed=1)


@pytest.fixture
def sender(store_url: str, receiver: Receiver) -> Iterator[Sender]:
    made = Sender(store_url, Webhook(receiver.url, read_secret(SECRET), private=True))
    yield made
    made.store.close()


def finish(experiment: Experiment) -> None:
    while not experiment.finished:
        batch = experiment.ask(64)
        experiment.tell_many({each.id: float(each.arm == 1) for each in batch})


def notable(experiment: Experiment) -> list[str]:
    """The ids of what is to be sent."""
    return [each.hash for each in experiment.events() if each.kind in notifications.KINDS]


def test_what_is_sent_is_what_the_log_says_signed(sender: Sender, receiver: Receiver) -> None:
    experiment = sender.make("checkout – δ")
    finish(experiment)
    sender.notifier.run_once()
    sender.notifier.run_once()
    sent = receiver.notifications
    assert [each["id"] for each in sent] == notable(experiment)
    assert [each["kind"] for each in sent][-1] == "finished"
    assert {each["kind"] for each in sent} == {"eliminated", "finished"}
    last, event = sent[-1], experiment.events()[-1]
    assert (last["experiment"], last["number"], last["at"]) == (
        "checkout – δ",
        event.number,
        event.at,
    )
    assert last["data"] == event.data
    url = f"{ADDRESS}/experiments/checkout%20%E2%80%93%20%CE%B4"
    assert (last["url"], last["content"]) == (url, last["text"])
    assert last["text"] == f"checkout – δ: {overview(experiment).verdict} {url}"
    assert "‘new’ is the best of 3 options, at 95 %" in last["text"]
    first = sent[0]["text"]
    assert first.startswith("checkout – δ: ‘")
    assert " is ruled out. ‘new’ leads ‘" in first
    assert re.search(r"by \+[\d.]+ points \([−\d.]+ to [\d.]+\)\. https", first)
    headers, body = receiver.arrived[-1]
    assert headers["webhook-id"] == event.hash
    assert headers["content-type"] == "application/json"
    changed = body.replace(b"new", b"old")
    with pytest.raises(ValueError, match="not from our server"):
        verified(headers, changed)
    with pytest.raises(ValueError, match="not from our server"):
        verified({**headers, "webhook-timestamp": "1"}, body)
    with pytest.raises(ValueError, match="not from our server"):
        verified({**headers, "webhook-id": "x"}, body)
    with pytest.raises(ValueError, match="not from our server"):
        verified(headers, body, f"{SECRET[:-4]}abcd")


def test_names_call_nobody_in_a_chat(sender: Sender, receiver: Receiver) -> None:
    """Slack reads <!here> as a call to all; Discord @everyone, unless it is told not to."""
    options = ["old", "<!here> @everyone", "odd"]
    made = Experiment.create(sender.store, "chat", options, bounds=(0, 1), control="old", seed=1)
    made.retire("<!here> @everyone", reason="loud")
    sender.notifier.run_once()
    [sent] = receiver.notifications
    assert sent["text"].startswith("chat: ‘‹!here› @everyone’ was retired: loud. ")
    assert sent["allowed_mentions"] == {"parse": []}


def test_the_signature_is_that_of_standard_webhooks() -> None:
    """The example of the specification, and of its libraries."""
    signed = notifications.sign(
        read_secret(SECRET),
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "1614265330",
        b'{"test": 2432232314}',
    )
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_what_happened_before_it_was_switched_on_is_not_sent(
    store_url: str, receiver: Receiver
) -> None:
    with Experiment.create(store_url, "before", ["old", "new"], bounds=(0, 1), seed=1) as before:
        finish(before)
    sender = Sender(store_url, Webhook(receiver.url, read_secret(SECRET), private=True))
    after = sender.make("after")
    finish(after)  # while no notifier looks
    sender.restart()
    sender.notifier.run_once()
    assert [each["id"] for each in receiver.notifications] == notable(after)
    sender.store.close()


def test_a_failure_is_tried_again_later_with_the_same_id_and_body(
    sender: Sender, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver.answer = lambda _: 302  # a redirect is not followed
    experiment = sender.make("slow")
    other = sender.make("other")
    finish(experiment)
    ahead = 0.0
    for attempt in range(4):
        sender.set_clock(monkeypatch, ahead)
        sender.notifier.run_once()
        sender.notifier.run_once()  # not yet
        sender.restart()  # what failed is on record
        sender.notifier.run_once()
        assert len(receiver.arrived) == attempt + 1
        ahead += 5.5 * 2**attempt
    assert len({body for _, body in receiver.arrived}) == 1
    finish(other)  # which does not wait for the first
    sender.notifier.run_once()
    assert len(receiver.arrived) == 5
    receiver.answer = lambda _: 204
    sender.set_clock(monkeypatch, ahead + 3600)
    sender.notifier.run_once()
    counts = Counter(each["id"] for each in receiver.notifications)
    assert set(counts) == {*notable(experiment), *notable(other)}
    sender.notifier.run_once()
    assert sum(counts.values()) == len(receiver.arrived)


def test_after_a_day_it_is_given_up_and_the_log_says_so(
    sender: Sender, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver.answer = lambda _: 500
    experiment = sender.make("lost")
    finish(experiment)
    first, *rest = notable(experiment)
    sender.notifier.run_once()
    sender.set_clock(monkeypatch, DAY - 60)
    sender.notifier.run_once()
    sender.set_clock(monkeypatch, DAY + 3600)
    sender.notifier.run_once()
    noted = [each.data for each in experiment.events() if each.kind == "noted"]
    assert len(noted) == len([first, *rest])  # all are as old
    assert noted[0]["event"] == receiver.notifications[0]["number"]
    assert "was given up after 3 attempts." in noted[0]["text"]
    assert experiment.verify().sound
    receiver.answer = lambda _: 200
    before = len(receiver.arrived)
    sender.notifier.run_once()
    assert len(receiver.arrived) == before


def test_a_receiver_that_is_gone_is_a_failure(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    gone = Webhook(f"http://127.0.0.1:{port}/", read_secret(SECRET), private=True)
    with pytest.raises(notifications.DeliveryError, match="cannot be reached"):
        gone.send("id", b"{}")
    unknown = Webhook("https://nowhere.invalid/", read_secret(SECRET))
    with pytest.raises(notifications.DeliveryError, match="has no address"):
        unknown.send("id", b"{}")
    unknown.check()  # it may be known later


def test_one_of_several_processes_sends(sender: Sender, receiver: Receiver) -> None:
    finish(sender.make("shared"))
    other = Notifier(OpenExperiments(Store(sender.url)), sender.to, ADDRESS)
    with other._store.try_lock("notifications") as alone:
        assert alone
        sender.notifier.run_once()
        assert receiver.arrived == []
    other.run_once()
    sender.notifier.run_once()
    ids = [each["id"] for each in receiver.notifications]
    assert len(ids) == len(set(ids)) > 1
    other._store.close()


def test_an_experiment_that_cannot_be_read_holds_up_no_other(
    sqlite_url: str, receiver: Receiver, tmp_path: Path
) -> None:
    sender = Sender(sqlite_url, Webhook(receiver.url, read_secret(SECRET), private=True))
    sender.notifier.run_once()
    broken, sound = sender.make("broken"), sender.make("sound")
    finish(broken)
    finish(sound)
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection, connection:
        connection.execute("UPDATE bestarm_documents SET document = 'x' WHERE experiment = 1")
    sender.restart()
    sender.notifier.run_once()
    assert [each["id"] for each in receiver.notifications] == notable(sound)
    sender.store.close()


@pytest.mark.parametrize("value", ["{", "[]"])
def test_a_damaged_event_holds_up_no_other_experiment(
    sqlite_url: str,
    receiver: Receiver,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    value: str,
) -> None:
    sender = Sender(sqlite_url, Webhook(receiver.url, read_secret(SECRET), private=True))
    broken, sound = sender.make("broken"), sender.make("sound")
    finish(broken)
    first, *rest = notable(broken)
    finish(sound)
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection, connection:
        set_value = "UPDATE bestarm_events SET data = ? WHERE hash = ?"
        connection.execute(set_value, (value, first))
    sender.notifier.run_once()
    sender.notifier.run_once()
    assert [each["id"] for each in receiver.notifications] == notable(sound)
    receiver.arrived.clear()
    sender.set_clock(monkeypatch, DAY + 60)  # it is given up, and those after it are sent
    sender.restart()
    sender.notifier.run_once()
    assert [each["id"] for each in receiver.notifications] == rest
    sender.store.close()


def test_any_failure_of_a_receiver_is_a_failed_attempt(sender: Sender) -> None:
    """Also one that nobody thought of; and attempts go on however many have failed."""
    attempts = list[str]()

    class Odd:
        def send(self, id: str, body: bytes) -> None:  # noqa: A002
            attempts.append(json.loads(body)["experiment"])
            raise ZeroDivisionError

    sender.to = Odd()
    sender.restart()
    first, second = sender.make("first"), sender.make("second")
    finish(first)
    finish(second)
    sender.notifier.run_once()
    sender.notifier.run_once()
    assert sorted(attempts) == ["first", "second"]
    with sender.store.transaction() as session:
        session.execute(sa.text("UPDATE bestarm_notifications SET attempts = 5000, due = 0"))
    sender.notifier.run_once()
    assert sorted(attempts) == ["first", "first", "second", "second"]


TRICKLE = [b"HTTP/1.1 200 OK\r\nX-Slow: ", *[b"x"] * 150, b"\r\n\r\n"]


@pytest.mark.parametrize(
    "parts",
    [
        TRICKLE,
        [b"HTTP/1.1 100 Continue\r\n\r\n"] * 150 + [b"HTTP/1.1 200 OK\r\n\r\n"],
        [b"HTTP/1.1 ", *[b" "] * 150, b"200 OK\r\n\r\n"],
        [b""] * 150 + [b"HTTP/1.1 200 OK\r\n\r\n"],
    ],
    ids=["header", "continue", "status", "silent"],
)
def test_a_delivery_has_one_deadline(parts: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """However the receiver spends it: every answer would take 15 s, with no pause above 0.1 s."""
    monkeypatch.setattr(notifications, "_TIMEOUT", 0.5)
    with answering_with(parts, 0.1) as url:
        hook = Webhook(url, read_secret(SECRET), private=True)
        with pytest.raises(notifications.DeliveryError, match=r"not answer within 0\.5 seconds"):
            hook.send("id", b"{}")


def test_the_deadline_holds_while_encryption_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifications, "_TIMEOUT", 0.5)
    with answering_with([b"\x16\x03\x03\x40\x00", *[b"\x00"] * 150], 0.1) as url:
        hook = Webhook(url.replace("http:", "https:"), read_secret(SECRET), private=True)
        with pytest.raises(notifications.DeliveryError, match=r"not answer within 0\.5 seconds"):
            hook.send("id", b"{}")


def test_a_command_gets_it_on_standard_input(store_url: str, tmp_path: Path) -> None:
    code = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read() + '\\n')"
    sender = Sender(store_url, Command((sys.executable, "-c", code, str(tmp_path / "sent; x"))))
    sender.notifier.run_once()
    experiment = sender.make("command")
    finish(experiment)
    sender.notifier.run_once()
    lines = (tmp_path / "sent; x").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["id"] for line in lines] == notable(experiment)
    sender.store.close()
    for arguments, why in (
        ((sys.executable, "-c", "import sys; sys.exit('no mail today')"), "no mail today"),
        (("no-such-program",), "No such file"),
    ):
        with pytest.raises(notifications.DeliveryError, match=why):
            Command(arguments).send("id", b"{}")


# --- where it must not go -------------------------------------------------------------------------

PRIVATE = [
    *("127.0.0.1", "127.8.8.8", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254"),
    *("100.64.0.1", "0.0.0.0", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
    *("::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fec0::1", "ff02::1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::", "2001::1"),
    *("::127.0.0.1", "::10.0.0.1", "64:ff9b:1::7f00:1", "64:ff9b:1:ffff::1", "5f00::1"),
]


@pytest.mark.parametrize("address", PRIVATE)
def test_addresses_of_private_networks_are_refused(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    assert not is_public(address)
    entry = (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [entry])
    hook = Webhook("https://example.org/", read_secret(SECRET))
    with pytest.raises(InvalidInputError, match="an address of a private network") as caught:
        hook.check()
    assert "--notify-private" in caught.value.remedy
    with pytest.raises(notifications.DeliveryError, match="an address of a private network"):
        hook.send("id", b"{}")


@pytest.mark.parametrize("address", ["1.1.1.1", "2606:4700:4700::1111"])
def test_public_addresses_are_not(address: str) -> None:
    assert is_public(address)


def test_the_connection_is_made_to_the_address_that_was_checked(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name leads to this machine when it is looked up once, and nowhere after that."""
    looked, real = [], socket.getaddrinfo

    def lookup(host: Any, *rest: Any, **named: Any) -> Any:
        if host == "example.org":
            looked.append(host)
            assert len(looked) == 1, "looked up again after the check"
            host = "127.0.0.1"
        return real(host, *rest, **named)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    hook = Webhook(f"http://example.org:{receiver.port}/hook?to=me", read_secret(SECRET), True)
    hook.send("id", b"{}")
    assert receiver.arrived[0][0]["host"] == f"example.org:{receiver.port}"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("example.org/hook", "an address without a password"),
        ("ftp://example.org", "an address without a password"),
        ("https://", "an address without a password"),
        ("https://me:secret@example.org", "an address without a password"),
        ("https://example.org:port", "an address without a password"),
        ("https://exa mple.org", "an address without a password"),
        ("https://example..org", "an address without a password"),
        (f"https://{'a' * 64}.org", "an address without a password"),
        ("https://example.org/\udcff", "an address without a password"),
        ("http://example.org", "must begin with https"),
    ],
)
def test_what_is_not_an_address_is_refused(url: str, why: str) -> None:
    with pytest.raises(InvalidInputError, match=why) as caught:
        Webhook(url, read_secret(SECRET))
    assert (caught.value.field, caught.value.value) == ("notify", url)


@pytest.mark.parametrize(
    ("path", "arrives"),
    [
        ("/hôok ü?to=é&a=%20+b#end", "/h%C3%B4ok%20%C3%BC?to=%C3%A9&a=%20+b"),
        ("", "/"),
        ("?to=me", "/?to=me"),
        ("/a//b;c=1/%2F", "/a//b;c=1/%2F"),
    ],
)
def test_the_address_is_sent_in_ascii(path: str, arrives: str) -> None:
    with receiving(arrives) as made:
        Webhook(made.url.removesuffix(arrives) + path, read_secret(SECRET), True).send("i", b"{}")
        assert len(made.arrived) == 1


def test_hosts_with_other_letters_are_looked_up_in_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = list[str]()

    def lookup(host: str, *_: Any, **__: Any) -> Any:
        hosts.append(host)
        raise OSError("none")

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    Webhook("https://Bücher.example/", read_secret(SECRET)).check()
    assert hosts == ["xn--bcher-kva.example"]


@pytest.mark.parametrize("text", ["", "secret", "whsec_", "c2hvcnQ=", "ü" * 40])
def test_a_weak_secret_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="at least 24 bytes in base64") as caught:
        read_secret(text)
    assert "openssl rand -base64 32" in caught.value.remedy


def test_the_secret_is_not_shown() -> None:
    assert "secret" not in repr(Webhook("https://example.org/", read_secret(SECRET)))


# --- a server that is killed ----------------------------------------------------------------------


def test_a_server_that_is_killed_loses_no_notification(
    store_url: str, receiver: Receiver, tmp_path: Path
) -> None:
    """It is killed as a notification arrives, before it knows so, four times: those four arrive
    again under their id, and all others once."""
    secret, kills = tmp_path / "secret", 4
    secret.write_text(f"{SECRET}\n", encoding="utf-8")
    options = ("--notify", receiver.url, "--notify-private", "--notify-secret-file", str(secret))
    started, killed, running = Flag(), Flag(), list[Any]()

    def answer(_: dict[str, Any]) -> int:
        if len(receiver.arrived) in {1, 4, 5, 8}:
            assert started.wait(HANG_TIMEOUT)
            running[-1].kill()
            killed.set()
        return 200

    with forked(store_url, *options):
        problem = Problem(["old", "new", "odd"])
    made = [
        Experiment.create(store_url, f"{number}", problem, bounds=(0, 1), seed=number)
        for number in range(5)
    ]
    receiver.answer = answer
    finish(made[0])
    for turn in range(kills):
        killed.clear()
        started.clear()
        with forked(store_url, *options) as served:
            running.append(served.process)
            started.set()
            finish(made[turn + 1])
            assert killed.wait(HANG_TIMEOUT)
    expected = Counter(each for experiment in made for each in notable(experiment))
    with forked(store_url, *options) as served:
        running.append(served.process)
        wait_until(lambda: {each["id"] for each in receiver.notifications} == set(expected))
    counts = Counter(each["id"] for each in receiver.notifications)
    assert set(counts) == set(expected)
    assert sum(counts.values()) == len(expected) + kills
    # The lead may be newer, and each of these servers has a port of its own.
    facts = ("experiment", "number", "kind", "at", "data")
    told = {
        (each["id"], json.dumps([each[name] for name in facts])) for each in receiver.notifications
    }
    assert len(told) == len(expected)
    for experiment in made:
        assert experiment.verify().sound
        experiment.close()


def test_no_outcome_waits_for_a_receiver_that_hangs(sqlite_url: str, receiver: Receiver) -> None:
    hanging, go_on = Flag(), Flag()

    def answer(_: dict[str, Any]) -> int:
        hanging.set()
        go_on.wait(HANG_TIMEOUT)
        return 200

    receiver.answer = answer
    hook = Webhook(receiver.url, read_secret(SECRET), private=True)
    with in_thread(sqlite_url, notify=hook) as served, served.client() as api:
        named = {"options": ["old", "new"], "bounds": [0, 1]}
        first, second = (create(api, name, **named) for name in ("first", "second"))
        with Experiment.open(sqlite_url, "first") as experiment:
            finish(experiment)
        assert hanging.wait(HANG_TIMEOUT)
        for _ in range(3):
            given = api.post(f"{second}/ask", json={"count": 2}).json()["assignments"]
            told = api.post(f"{second}/tell", json=outcomes({each["id"]: 1 for each in given}))
            assert told.json()["recorded"] == 2
        assert api.get(first).json()["state"] == "finished"
        go_on.set()


def test_an_alarm_is_sent_once(sqlite_url: str, receiver: Receiver) -> None:
    hook = Webhook(receiver.url, read_secret(SECRET), private=True)
    with in_thread(sqlite_url, notify=hook) as served, served.client() as api:
        path = create(api, "losing", options=["old", "new"], bounds=[0, 1])
        given = api.post(f"{path}/ask", json={"count": 200}).json()["assignments"]
        api.post(f"{path}/fail", json={"ids": [each["id"] for each in given]})
        wait_until(lambda: bool(receiver.arrived))
    kinds = Counter((each["kind"], each["data"].get("check")) for each in receiver.notifications)
    assert kinds == {("alarm", "missing"): 1}
