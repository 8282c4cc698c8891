"""Notifications: what happened in experiments is sent to a receiver, at least once.

What is to be sent is read off the logs of experiments, and how far that has come is a row per
experiment in the database. So a server that is killed loses nothing: the next one continues, and
repeats at most the notification whose delivery was not recorded yet, under the same id. One process
sends at a time, in a thread of its own: no outcome waits for it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import http.client
import ipaddress
import json
import logging
import re
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from threading import Timer
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

import sqlalchemy as sa

from bestarm import __version__
from bestarm.errors import BestArmError, InvalidInputError
from bestarm.live.store import Session, Snapshot, schema
from bestarm.live.store.rows import Event
from bestarm.live.watch.overview import describe_lead
from bestarm.live.watch.story import describe
from bestarm.server.experiments import OpenExperiments, repeat
from bestarm.units import Unit, plural

# The events that are sent: an option is out, a guardrail, an alarm or a stall, and the end.
KINDS = ("eliminated", "retired", "guardrail", "alarm", "stalled", "finished")

_EVERY = 2.0  # seconds between two looks at the logs
_TIMEOUT = 30.0  # seconds for a delivery, from looking up the address to the end of the answer
_DAY = 86_400.0  # seconds for which a notification is tried
_BACKOFF = 5.0, 3600.0  # seconds until the second attempt, and at most until the next
_LEAST_SECRET = 24  # bytes
_LONGEST = 1500  # characters of a message; Discord takes 2,000, with the link
_HOST = re.compile(r"[a-z0-9_-][a-z0-9._-]*|[0-9a-f:.]+(%[\w.-]+)?", re.IGNORECASE | re.ASCII)
_UNQUOTED = "!$%&'()*+,/:;=?@~"  # in a path or a query, beside letters, digits and "_.-"
_log = logging.getLogger("bestarm.server")

_metadata = sa.MetaData()
_cursors = sa.Table(  # row 0 says that notifications have begun
    "bestarm_notifications",
    _metadata,
    sa.Column("experiment", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("next", sa.BigInteger, nullable=False),  # the first event that is not dealt with
    sa.Column("attempts", sa.Integer, nullable=False),  # that have failed since one succeeded
    sa.Column("failing", sa.Float(53), nullable=False),  # since when
    sa.Column("due", sa.Float(53), nullable=False),  # when to try again
)
_experiments, _events = schema.experiments.c, schema.events.c
_next = sa.func.coalesce(_cursors.c.next, 0)
_DUE = (
    sa.select(_experiments.id, _experiments.name, _experiments.events, _next)
    .add_columns(*(sa.func.coalesce(_cursors.c[name], 0) for name in ("attempts", "failing")))
    .outerjoin_from(schema.experiments, _cursors, _cursors.c.experiment == _experiments.id)
    .where(_experiments.events > _next, sa.func.coalesce(_cursors.c.due, 0) <= sa.bindparam("now"))
)
_NUMBER = (
    sa.select(_events.number)
    .where(
        _events.experiment == sa.bindparam("experiment"),
        _events.number >= sa.bindparam("start"),
        sa.or_(*(_events.kind == sa.literal_column(f"'{kind}'") for kind in KINDS)),
    )
    .order_by(_events.number)
    .limit(1)
)
_BEGUN = sa.select(_cursors.c.experiment).where(_cursors.c.experiment == sa.literal_column("0"))
_ALL = sa.select(_experiments.id, _experiments.events)
_FORGET = sa.delete(_cursors).where(_cursors.c.experiment == sa.bindparam("experiment"))


# --- where to -------------------------------------------------------------------------------------


class DeliveryError(Exception):
    """A notification did not arrive; the message says why."""


_EXPECTED = DeliveryError, BestArmError  # whose messages are for readers


class Receiver(Protocol):
    """Where notifications go."""

    def send(self, id: str, body: bytes) -> None:  # noqa: A002
        """Deliver a notification, or raise DeliveryError."""


@dataclass(frozen=True)
class Command:
    """A program on this machine, which gets a notification as JSON on its standard input.

    It is run without a shell, and has taken the notification if its exit code is 0.
    """

    arguments: tuple[str, ...]

    def send(self, id: str, body: bytes) -> None:  # noqa: A002, ARG002  (it is in the body too)
        """Run the program."""
        try:
            done = subprocess.run(
                self.arguments,
                input=body,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=_TIMEOUT,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise DeliveryError(f"The command failed ({error}).") from error
        if done.returncode:
            errors = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
            why = f" ({errors[0][:200]})" if errors else ""
            raise DeliveryError(f"The command ended with exit code {done.returncode}{why}.")


@dataclass(frozen=True)
class Webhook:
    """An address that gets a notification as a POST, signed as https://www.standardwebhooks.com.

    Args:
        url: the address; `https`, unless private networks are allowed.
        secret: the bytes that the signature is made with.
        private: whether the address may be one of this machine or of a private network. It is
            looked up for every attempt, and the connection is made to the address that was checked.
    """

    url: str
    secret: bytes = field(repr=False)
    private: bool = False

    def __post_init__(self) -> None:
        try:
            parts, (host, _) = urlsplit(self.url), self._request
            known = parts.scheme in {"http", "https"} and parts.port != 0
            known = known and bool(_HOST.fullmatch(host))
        except ValueError:
            known = False
        if not known or parts.username is not None or parts.password is not None:
            raise InvalidInputError(
                f"`notify` must be an address without a password; got {self.url!r}.",
                field="notify",
                value=self.url,
                remedy="For example https://example.org/bestarm.",
            )
        if parts.scheme == "http" and not self.private:
            raise InvalidInputError(
                "`notify` must begin with https: others could read what is sent.",
                field="notify",
                value=self.url,
                remedy="Use https, or --notify-private for an address of your own network.",
            )

    @property
    def _request(self) -> tuple[str, str]:
        """The host, and what is asked for there, as they are sent: in ASCII."""
        parts = urlsplit(self.url)
        host = (parts.hostname or "").encode("idna").decode()
        target = quote(parts.path or "/", _UNQUOTED)
        return host, f"{target}?{quote(parts.query, _UNQUOTED)}" if parts.query else target

    def check(self) -> None:
        """Raise InvalidInputError if the address is known now, and must not be used."""
        try:
            self._addresses()
        except _PrivateAddressError as error:
            raise InvalidInputError(
                str(error),
                field="notify",
                value=self.url,
                remedy="Use --notify-private if that is intended.",
            ) from None
        except DeliveryError:
            pass  # it may be known later

    def _addresses(self) -> list[str]:
        """The addresses that a connection may be made to."""
        host, port = self._request[0], urlsplit(self.url).port or 443
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise DeliveryError(f"{host} has no address ({error}).") from error
        every = [str(each[4][0]) for each in found]
        allowed = [each for each in every if self.private or is_public(each)]
        if not allowed:
            what = f"{host} is an address of a private network ({every[0]})."
            raise _PrivateAddressError(what)
        return allowed

    def send(self, id: str, body: bytes) -> None:  # noqa: A002
        """Post the notification. Redirects are not followed."""
        deadline = time.monotonic() + _TIMEOUT
        at = str(int(time.time()))
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"bestarm/{__version__}",
            "Webhook-Id": id,
            "Webhook-Timestamp": at,
            "Webhook-Signature": sign(self.secret, id, at, body),
        }
        error: Exception | None = None
        (host, target), addresses = self._request, self._addresses()
        for untried, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
            patience = (deadline - time.monotonic()) / untried
            if patience <= 0:
                break
            try:
                with _connect(self.url, host, address, patience, deadline) as connection:
                    connection.request("POST", target, body, headers)
                    status = connection.getresponse().status
            except (OSError, http.client.HTTPException) as failed:
                error = failed
                continue
            if time.monotonic() >= deadline:
                break  # it was cut short
            if 200 <= status < 300:
                return
            moved = "; redirects are not followed" if 300 <= status < 400 else ""
            raise DeliveryError(f"The receiver answered with status {status}{moved}.")
        if time.monotonic() >= deadline:
            raise DeliveryError(f"The receiver did not answer within {_TIMEOUT:g} seconds.")
        raise DeliveryError(f"The receiver cannot be reached ({error}).") from error


class _PrivateAddressError(DeliveryError):
    """An address that must not be used."""


@contextmanager
def _connect(
    url: str, host: str, address: str, patience: float, deadline: float
) -> Iterator[http.client.HTTPConnection]:
    """A connection to an address that was checked, whatever the name says by now.

    It is cut at the deadline: a time limit of sockets is one for each byte.
    """
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    with closing(kind(host, parts.port)) as connection:
        connection.sock = socket.create_connection((address, connection.port), patience)
        connection.sock.settimeout(_TIMEOUT)
        with _cut_off(connection.sock, deadline):
            if secure:
                context = ssl.create_default_context()
                connection.sock = context.wrap_socket(connection.sock, server_hostname=host)
            yield connection


@contextmanager
def _cut_off(connected: socket.socket, deadline: float) -> Iterator[None]:
    """Shut a connection down at a deadline, also after a socket with TLS has replaced this one."""

    def shut() -> None:
        with suppress(OSError):  # it has ended
            same.shutdown(socket.SHUT_RDWR)

    with connected.dup() as same:
        timer = Timer(max(deadline - time.monotonic(), 0), shut)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()  # or it might shut what gets the number of this socket next


_UNICAST = ipaddress.IPv6Network("2000::/3")  # of IPv6, all that is given out for the internet


def is_public(address: str) -> bool:
    """Whether an address is one of the public internet.

    >>> is_public("1.1.1.1"), is_public("10.0.0.7"), is_public("::ffff:127.0.0.1")
    (True, False, False)
    """
    read = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(read, ipaddress.IPv6Address) and (
        read not in _UNICAST or read.sixtofour is not None or read.teredo is not None
    ):
        return False  # outside are all other forms that an IPv4 address has in IPv6
    return read.is_global and not read.is_multicast


def read_secret(text: str) -> bytes:
    """The bytes of a secret, in base64 and with `whsec_` in front or not.

    Raises:
        InvalidInputError: it is not base64, or too short.
    """
    try:
        secret = base64.b64decode(text.strip().removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if len(secret) < _LEAST_SECRET:
        raise InvalidInputError(
            f"The secret of notifications must be at least {_LEAST_SECRET} bytes in base64.",
            field="notify",
            remedy="Make one with openssl rand -base64 32, and keep it in BESTARM_NOTIFY_SECRET "
            "or in a file for --notify-secret-file.",
        )
    return secret


def sign(secret: bytes, id: str, at: str, body: bytes) -> str:  # noqa: A002
    """The signature of a notification that is sent at a time, in seconds since 1970."""
    signed = hmac.new(secret, f"{id}.{at}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(signed).decode()}"


# --- what to send ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Due:
    """An experiment that may have something to send."""

    experiment: int
    name: str
    events: int  # in its log
    next: int  # the first that is not dealt with
    attempts: int
    failing: float


class Notifier:
    """Sends the notifications of all experiments of a server, those of one in order.

    What happens from its construction on is sent, also by the notifier of a later process.
    """

    def __init__(self, experiments: OpenExperiments, receiver: Receiver, address: str) -> None:
        self._experiments, self._store, self._receiver = experiments, experiments.store, receiver
        self._address = address  # where the pages are, without a slash at the end
        self._begun = False  # whether the table is there
        self._searched: dict[int, int] = {}  # events before which there is nothing to send
        self._begin()

    async def run(self) -> None:
        """Send what there is to send until cancelled."""
        await repeat(self.run_once, every=_EVERY, failure="Notifications are postponed")

    def run_once(self) -> None:
        """Send pending notifications, unless another process does."""
        self._begin()
        if all(self._find(each) is None for each in self._due()):
            return
        with self._store.try_lock("notifications") as alone:
            if alone:
                for each in self._due():
                    self._send_all(each)

    def _begin(self) -> None:
        """Make the table, unless it is there. What happened before it was is not sent."""
        if self._begun:
            return
        self._store.create_tables(_metadata)
        with self._store.transaction() as session:
            if not session.fetch(_BEGUN):
                known = zip((0, 0), *session.fetch(_ALL), strict=True)
                _add_cursors(session, *map(list, known))
        self._begun = True

    def _due(self) -> list[_Due]:
        now = self._store.now()
        with self._store.snapshot() as session:
            found = [_Due(*row) for row in session.fetch(_DUE, now=now)]
        return [each for each in found if self._searched.get(each.experiment, 0) < each.events]

    def _find(self, due: _Due, start: int = 0) -> int | None:
        """The number of the next event to send, or None."""
        start = max(start, due.next, self._searched.get(due.experiment, 0))
        with self._store.snapshot() as session:
            found = session.fetch(_NUMBER, experiment=due.experiment, start=start)
        self._searched[due.experiment] = found[0][0] if found else due.events
        return found[0][0] if found else None

    def _send_all(self, due: _Due) -> None:
        """Send what there is of an experiment, until one does not arrive."""
        attempts, failing, number = due.attempts, due.failing, self._find(due)
        while number is not None:
            event: Event | None = None
            try:
                event = self._read(due.experiment, number)
                self._receiver.send(event.hash, self._body(due.name, event))
                attempts, failing = 0, 0.0
            except Exception as error:  # a record may be damaged in any way
                now = self._store.now()
                attempts, failing = attempts + 1, failing or now
                why = str(error) if isinstance(error, _EXPECTED) else repr(error)
                if now - max(failing, 0.0 if event is None else event.at) < _DAY:
                    due_at = now + min(_BACKOFF[0] * 2.0 ** min(attempts - 1, 20), _BACKOFF[1])
                    _log.warning(
                        "Notification of event %d of %r: attempt %d failed. %s",
                        *(number, due.name, attempts, why),
                    )
                    self._set(due.experiment, number, attempts, failing, due_at)
                    return
                self._give_up(due.name, number, event, attempts, why)
            self._set(due.experiment, number + 1, attempts, failing, 0.0)
            number = self._find(due, number + 1)

    def _read(self, experiment: int, number: int) -> Event:
        with self._store.snapshot() as session:
            [event] = Snapshot(session, experiment).events(number, number + 1)
        return event

    def _give_up(
        self, name: str, number: int, event: Event | None, attempts: int, why: str
    ) -> None:
        """Say so in the server's log, and in that of the experiment, which the page shows."""
        tried = plural(attempts, "attempt")
        kind = "" if event is None else f" ({event.kind})"
        text = f"The notification of event {number}{kind} was given up after {tried}"
        _log.error("%s of %r. %s", text, name, why)
        try:
            self._experiments.open(name).note(f"{text}.", event=number, attempts=attempts)
        except Exception as unnoted:
            _log.error("It cannot be noted: %s", unnoted)

    def _body(self, name: str, event: Event) -> bytes:
        """A notification: with `text`, Slack and Mattermost show it, with `content`, Discord."""
        url = f"{self._address}/experiments/{quote(name, safe='')}"
        words = f"{name}: {self._sentences(name, event)}"
        # Nobody is called by what an option is named: Slack reads <!here>, Discord @everyone.
        words = words.replace("<", "‹").replace(">", "›")
        shown = f"{words[:_LONGEST]} {url}"
        body = {
            "id": event.hash,
            "experiment": name,
            "number": event.number,
            "kind": event.kind,
            "at": event.at,
            "text": shown,
            "content": shown,
            "allowed_mentions": {"parse": []},
            "url": url,
            "data": event.data,
        }
        return json.dumps(body, ensure_ascii=False).encode()

    def _sentences(self, name: str, event: Event) -> str:
        """What happened, and how far the leader leads by now."""
        watch = self._experiments.watch(name)
        experiment = watch.experiment
        with experiment.read() as snapshot:
            problem = experiment.options_at(snapshot).problem
        try:
            seen = watch.overview()
        except BestArmError:  # of a policy that this server cannot make
            unit = Unit(percent=experiment.traits.bounds == (0, 1))
            return describe(event, problem, experiment.traits, unit)
        if event.kind == "finished":
            return seen.verdict
        return f"{describe(event, problem, experiment.traits, seen.unit)} {describe_lead(seen)}"

    def _set(self, experiment: int, number: int, *counts: float) -> None:
        """Record which event is the next of an experiment, and its attempts so far."""
        with self._store.transaction() as session:
            session.execute(_FORGET, experiment=experiment)
            _add_cursors(session, experiment, number, *counts)


def _add_cursors(session: Session, *columns: Any) -> None:
    """Add rows: a list per column, or one value; those that are not given are 0."""
    names = [column.name for column in _cursors.c]
    given = dict(zip(names, columns, strict=False))
    session.insert(_cursors, dict.fromkeys(names, 0) | given, or_ignore=True)
