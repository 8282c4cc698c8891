"""`bestarm serve`: where it listens, how it stops, and that what was acknowledged is kept."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Event

import httpx
import pytest
from databases import name_of, read_on_begin, run_sql, wait_until
from needed import need
from served import ARMS, HANG_TIMEOUT, Served, create, forked, get, in_thread, outcomes
from typer.testing import CliRunner, Result

from bestarm.cli.app import app
from bestarm.live import Experiment
from bestarm.live.store import Store
from bestarm.server.tokens import Role, create_token


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def command(*arguments: str) -> Result:
    """Run a command that comes to its end, in this process."""
    return CliRunner().invoke(app, arguments)


def test_it_listens_nowhere_else_without_a_token(sqlite_url: str) -> None:
    refused = command("serve", "--store", sqlite_url, "--host", "0.0.0.0", "--port", "0")
    assert refused.exit_code == 2
    assert refused.stdout == ""
    assert refused.stderr.startswith("bestarm: Listening on 0.0.0.0 lets other machines in")
    assert f"bestarm token create NAME --role manage --store {sqlite_url}" in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert Store(sqlite_url).file_missing

    create_token(Store(sqlite_url), "me", Role.VIEW)
    with forked(sqlite_url, "--host", "0.0.0.0") as served:
        assert get(f"{served.base}/api/v1/experiments").status_code == 401
        with served.client(Role.VIEW) as client:
            assert client.get("/experiments").status_code == 200


def test_a_token_that_was_revoked_is_none(sqlite_url: str) -> None:
    create_token(Store(sqlite_url), "me", Role.VIEW)
    assert command("token", "revoke", "1", "--store", sqlite_url).exit_code == 0
    refused = command("serve", "--store", sqlite_url, "--host", "::", "--port", "0")
    assert refused.exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--workers", "2"], 2, "A SQLite file is served by one process"),
        (["--host", "no such host"], 2, "There is no address for 'no such host'."),
        (["--port", "70000"], 2, "`port` must be a whole number from 0 to 65535; got 70000."),
        (["--workers", "0"], 2, "`workers` must be a whole number from 1 to 64; got 0."),
        (["--store", "mysql://x/y"], 2, "`url` must name a SQLite file or a PostgreSQL database"),
        (["--store", "sqlite:////nowhere/x.db"], 2, "unable to open database file"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_mistakes_are_one_line(
    sqlite_url: str, arguments: list[str], code: int, message: str
) -> None:
    result = command("serve", "--store", sqlite_url, *arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_port_that_is_taken(sqlite_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = command("serve", "--store", sqlite_url, "--port", port)
    assert result.exit_code == 2
    assert result.stderr == (
        f"bestarm: Cannot listen on 127.0.0.1 port {port}: another program uses it. "
        "Stop that program, or choose another port; 0 takes any that is free.\n"
    )


@pytest.mark.parametrize(
    ("sent", "options"), [(signal.SIGINT, ["--quiet"]), (signal.SIGTERM, [])], ids=str
)
def test_it_says_where_it_is_and_stops_in_order_with_a_connection_open(
    sqlite_url: str, tmp_path: Path, sent: signal.Signals, options: list[str]
) -> None:
    port = free_port()
    with (tmp_path / "log").open("w+") as log, ExitStack() as stack:
        fresh = sent == signal.SIGINT  # once as a user starts it
        served = stack.enter_context(
            forked(sqlite_url, *options, port=port, stderr=log, fresh=fresh)
        )
        assert served.port == port
        process = served.process
        assert process is not None
        assert process.stdout is not None
        client = stack.enter_context(served.client())
        # Without a seed, which would be logged.
        create(client, "tea", options=["green", "black"], bounds=[0, 1])
        process.send_signal(sent)
        assert process.wait(HANG_TIMEOUT) in {0, -sent}
        assert sent != signal.SIGINT or process.returncode == 0
        # Read as the first line was: `communicate` would miss what was read ahead with it.
        message = process.stdout.read()
        log.seek(0)
        logged = log.read()
    assert message.startswith("The file did not exist: this is a new database.\nViewing needs no")
    assert f"bestarm token create NAME --role manage --store {sqlite_url}" in message
    if options:
        assert logged == "Stopped.\n"
    else:
        assert "Traceback" not in logged
        assert "/api/v1/experiments 201" in logged
        assert served.token(Role.MANAGE).split("-", 2)[2] not in logged


def ask_and_tell(served: Served, acknowledged: Counter[int], down: Event, worker: int) -> None:
    """Ask and tell until nobody answers, and count what was acknowledged."""
    number = 0
    with served.client(Role.TELL) as client:
        while not down.is_set():
            try:
                key = {"Idempotency-Key": f"{worker}-{number}-{served.port}"}
                given = client.post("/experiments/offer/ask", json={"count": 4}, headers=key)
                number += 1
                for each in given.json()["assignments"]:
                    body = outcomes({each["id"]: each["id"] % 2})
                    told = client.post("/experiments/offer/tell", json=body)
                    assert told.status_code == 200, told.text
                    acknowledged[each["id"]] += 1
            except httpx.TransportError:
                return


def reach(acknowledged: Counter[int], enough: int) -> bool:
    return acknowledged.total() >= enough


def test_what_was_acknowledged_is_there_once_after_a_kill(store_url: str) -> None:
    acknowledged: Counter[int] = Counter()
    for _ in range(2):
        with forked(store_url) as served, ThreadPoolExecutor(6) as threads:
            with served.client() as client:
                client.post(
                    "/experiments", json={"name": "offer", **ARMS, "policy_options": {}, "noise": 1}
                )
            served.token(Role.TELL)
            enough, down = acknowledged.total() + 40, Event()
            working = [
                threads.submit(ask_and_tell, served, acknowledged, down, worker)
                for worker in range(6)
            ]
            wait_until(partial(reach, acknowledged, enough))
            assert served.process is not None
            served.process.kill()
            down.set()
            for each in working:
                each.result()
    assert set(acknowledged.values()) == {1}  # no assignment was given twice
    with Experiment.open(store_url, "offer") as kept:
        frame = kept.outcomes()
    assert frame["id"].is_unique
    rewards = dict(zip(frame["id"], frame["reward"], strict=True))
    assert acknowledged.keys() <= rewards.keys()
    assert all(rewards[id_] == id_ % 2 for id_ in acknowledged)


def refuses(served: Served) -> bool:
    """Whether nobody answers any more."""
    try:
        get(f"{served.base}/api/v1/experiments")
    except httpx.TransportError:
        return True
    return False


def test_several_processes_on_one_database_never_give_an_assignment_twice(
    postgres_url: str,
) -> None:
    """Two servers, one of them of two processes."""
    given: Counter[int] = Counter()
    with ExitStack() as stack:
        one = stack.enter_context(forked(postgres_url))
        two = stack.enter_context(forked(postgres_url, "--workers", "2"))
        with one.client() as client:
            create(client)
        two.tokens[Role.TELL] = one.token(Role.TELL)

        def work(worker: int) -> list[int]:
            ids: list[int] = []
            with (one, two)[worker % 2].client(Role.TELL) as client:
                for number in range(12):
                    key = {"Idempotency-Key": f"{worker}-{number}"}
                    send = {"json": {"count": 3}, "headers": key}
                    asked = [client.post("/experiments/offer/ask", **send) for _ in range(2)]  # type: ignore[arg-type]
                    first, again = (each.json()["assignments"] for each in asked)
                    assert first == again  # an answer that got lost is given again
                    ids += [each["id"] for each in first]
                    if number % 2:
                        rewards = {each["id"]: 1.0 for each in first}
                        client.post("/experiments/offer/tell", json=outcomes(rewards))
            return ids

        with ThreadPoolExecutor(8) as threads:
            for ids in threads.map(work, range(8)):
                given.update(ids)
        with two.client() as client:
            status = client.get("/experiments/offer").json()
        assert two.process is not None
        two.process.send_signal(signal.SIGINT)  # to the first: all of its processes stop
        assert two.process.wait(HANG_TIMEOUT) == 0
        wait_until(lambda: refuses(two))
    assert set(given.values()) == {1}
    assert sorted(given) == list(range(status["pulls"]))
    assert len(given) > 100


@pytest.mark.parametrize(
    ("statement", "durable"),
    [("SHOW synchronous_commit", "on"), ("PRAGMA synchronous", 2)],  # 2 is FULL
    ids=["postgres", "sqlite"],
)
def test_a_server_s_connections_ask_for_durability(
    request: pytest.FixtureRequest, statement: str, durable: object
) -> None:
    url = request.getfixturevalue(f"{request.node.callspec.id}_url")
    if statement.startswith("SHOW"):
        run_sql(url, f"ALTER DATABASE {name_of(url)} SET synchronous_commit = off")
    with read_on_begin(statement) as seen, in_thread(url) as served, served.client() as api:
        offer = create(api)
        assert api.post(f"{offer}/ask", json={"count": 2}).is_success
        assert api.post(f"{offer}/tell", json=outcomes({0: 1})).is_success
        assert api.get(f"{offer}/recommendation").is_success
    assert len(seen) > 5
    assert set(seen) == {durable}


def test_the_documentation_runs(tmp_path: Path) -> None:
    """The session with curl, then the one with Python, as they stand there."""
    need("curl", package="curl")
    text = (Path(__file__).parents[2] / "docs" / "http.md").read_text(encoding="utf-8")
    shell = re.search(r"^```sh\n# session\n(.*?)^```$", text, re.M | re.S)
    python = re.search(r"^```py\n(.*?)^```$", text, re.M | re.S)
    assert shell is not None
    assert python is not None
    (tmp_path / "session.py").write_text(python[1], encoding="utf-8")
    script = tmp_path / "bestarm"
    script.write_text(
        f'#!/bin/sh\nexec {sys.executable} -c "from bestarm.cli import main; main()" "$@"\n'
    )
    script.chmod(0o755)
    url = f"sqlite:///{tmp_path / 'experiments.db'}"
    with forked(url) as served:
        commands = shell[1].replace("127.0.0.1:8000", f"127.0.0.1:{served.port}")
        ran = subprocess.run(
            ["bash", "-eu", "-c", f"{commands}\n{sys.executable} session.py"],
            cwd=tmp_path,
            env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=2 * HANG_TIMEOUT,
            check=False,
        )
    assert ran.returncode == 0, ran.stderr
    assert '"error"' not in ran.stdout
    assert '{"recorded":2,"repeated":0,"late":0,"held":0,"values":0,"served":0}' in ran.stdout
    assert "'new'" in ran.stdout.splitlines()[-1]
    assert len((tmp_path / "checkout.csv").read_text().splitlines()) == 3
