"""Tokens: made once, kept as digests, compared in constant time, and never seen again."""

from __future__ import annotations

import hmac
import json
import logging
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from served import ARMS, create, get, in_thread
from typer.testing import CliRunner, Result

from bestarm.cli.app import app
from bestarm.errors import InvalidInputError
from bestarm.live.store import Store
from bestarm.server.errors import hide_tokens
from bestarm.server.tokens import (
    Role,
    _view_proof,
    create_token,
    create_view_session,
    digest,
    find_role,
    is_view_session,
    list_tokens,
    revoke_token,
)


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    made = Store(store_url)
    yield made
    made.close()


def bestarm(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_a_token_allows_its_role_until_it_is_revoked(store: Store) -> None:
    made = {role: create_token(store, f"for {role.word}", role) for role in Role}
    assert [find_role(store, text) for text in made.values()] == list(Role)
    assert all(re.fullmatch(r"bestarm-\d+-[\w-]{43}", text) for text in made.values())
    listed = list_tokens(store)
    assert [(each.role, each.name) for each in listed] == [(r, f"for {r.word}") for r in Role]
    first = revoke_token(store, listed[1].id)
    assert first.revoked is not None
    assert revoke_token(store, listed[1].id) == first  # when it was first revoked stays known
    assert [find_role(store, text) for text in made.values()] == [Role.VIEW, None, Role.MANAGE]
    with pytest.raises(InvalidInputError, match="There is no token 99"):
        revoke_token(store, 99)


def test_what_is_no_token_is_nobody(store: Store) -> None:
    text = create_token(store, "x", Role.MANAGE)
    number, secret = text.split("-", 2)[1:]
    for wrong in (
        "",
        "-",
        "bestarm",
        "bestarm--",
        f"bestarm-{number}-",
        f"bestarm-{number}-{secret}-",
        f"bestarm-{number}-{secret.swapcase()}",
        f"bestarm-{number} OR 1=1-{secret}",
        f"bestarm-{int(number) + 1}-{secret}",
        f"bestarm-²-{secret}",
        f"bestarm-{10**12}-{secret}",
        f"Bestarm-{number}-{secret}",
        text + "\ud800",
        text + "\0",
        "x" * 100_000,
    ):
        assert find_role(store, wrong) is None


def test_a_session_holds_until_its_token_is_revoked_and_cannot_be_made_without_it(
    store: Store,
) -> None:
    token, other = (create_token(store, "me", Role.MANAGE) for _ in range(2))
    kept, another = create_view_session(store, token), create_view_session(store, other)
    assert kept is not None
    assert another is not None
    assert is_view_session(store, kept)
    number, proof = kept.split("-")
    for wrong in (
        "",
        "-",
        token,
        proof,
        f"{number}-",
        f"{number}-{proof[:-1]}",
        f"{number}-{another.split('-')[1]}",
        f"99-{proof}",
        f"{number}-ü\udc80",
        f"99-{_view_proof(digest(''))}",  # what is compared with where there is no such token
    ):
        assert not is_view_session(store, wrong)
    assert create_view_session(store, token[:-1]) is None
    assert create_view_session(store, kept) is None
    revoke_token(store, int(number))
    assert not is_view_session(store, kept)
    assert create_view_session(store, token) is None
    assert is_view_session(store, another)


def test_nobody_is_found_where_nothing_is_yet(sqlite_url: str) -> None:
    store = Store(sqlite_url)
    assert list_tokens(store) == []
    assert find_role(store, "bestarm-1-x") is None
    with pytest.raises(InvalidInputError):
        revoke_token(store, 1)


def test_only_a_digest_is_stored(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'store.db'}")
    secret = create_token(store, "x", Role.VIEW).split("-", 2)[2]
    store.close()
    for file in tmp_path.iterdir():
        assert secret.encode() not in file.read_bytes()
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        assert len(connection.execute("SELECT * FROM bestarm_tokens").fetchall()) == 1


def test_digests_are_compared_in_constant_time_also_where_there_is_no_such_token(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(sqlite_url)
    text = create_token(store, "x", Role.VIEW)
    compared: list[tuple[int, int]] = []
    same = hmac.compare_digest

    def compare(one: str, other: str) -> bool:
        compared.append((len(one), len(other)))
        return same(one, other)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    find_role(store, text)
    find_role(store, f"{text}x")
    find_role(store, "bestarm-77-x")
    assert compared == [(64, 64)] * 3


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb", "a\0b"])
def test_a_token_has_an_owner(sqlite_url: str, name: str) -> None:
    with pytest.raises(InvalidInputError, match="who uses the token"):
        create_token(Store(sqlite_url), name, Role.VIEW)


def test_secrets_are_cut_out_of_texts() -> None:
    token = "bestarm-12-" + "aB_-" * 10
    hidden = hide_tokens(f"GET /{token}?x={token}, {token}.")
    assert hidden == "GET /bestarm-12-…?x=bestarm-12-…, bestarm-12-…."


def test_no_log_and_no_answer_shows_a_token(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Wherever a caller puts it by mistake."""
    caplog.set_level(logging.DEBUG, logger="bestarm")
    caplog.set_level(logging.DEBUG, logger="uvicorn")
    with in_thread(sqlite_url) as served:
        token = served.token(Role.MANAGE)
        with served.client() as client:
            create(client, "x")
            answers = [
                client.get("/experiments", params={"token": token}),
                client.get(f"/experiments/{token}"),
                client.get(f"/{token}"),
                client.get("/experiments/x/events", params={"after": token}),
                client.post("/experiments", json={"name": "y", **ARMS, "policy": token}),
                client.post("/experiments", json={"name": "y", **ARMS, token: token}),
                client.post(
                    "/experiments", json={"name": "y", **ARMS, "policy_options": {token: 1}}
                ),
                client.post("/experiments/x/ask", json={"count": token}),
                client.post("/experiments/x/tell", json={"outcomes": token}),
                client.post("/experiments/x/ask", content=b"x", headers={"Content-Type": token}),
                client.get("/experiments", headers={"Authorization": f"Basic {token}"}),
                client.get("/experiments", headers={"Authorization": f"Bearer {token}x"}),
                client.get("/experiments", headers={"Host": token}),
                client.request("PUT", f"/experiments/{token}"),
            ]
        get(f"{served.base}/{token}%7f%0a%0dfake", params={token: token})
        served.raw(f"GET /{token} NONSENSE\r\n\r\n".encode())
    secret = token.split("-", 2)[2]
    assert {each.status_code for each in answers} == {200, 401, 404, 405, 415, 421, 422}
    for each in answers:
        assert secret not in each.text
        assert secret not in str(each.headers)
    assert len(caplog.records) > len(answers)
    assert secret not in caplog.text
    lines = [record.getMessage() for record in caplog.records if record.name == "bestarm.access"]
    assert any(
        re.fullmatch(r"127\.0\.0\.1 GET /api/v1/experiments 200 [\d.]+ ms", x) for x in lines
    )
    assert not any("?" in line or "\n" in line or "\r" in line for line in lines)


def test_the_commands(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'store.db'}"
    none = bestarm("token", "list", "--store", store)
    assert "no tokens yet" in none.stdout
    made = bestarm("token", "create", "ci <b>[red]", "--role", "tell", "--store", store)
    assert made.exit_code == 0
    token = made.stdout.strip()
    assert find_role(Store(store), token) is Role.TELL
    assert token not in made.stderr
    assert "cannot be shown again" in made.stderr
    as_json = bestarm("token", "create", "me", "--role", "manage", "--store", store, "--json")
    data = json.loads(as_json.stdout)
    assert {**data, "token": ""} == {"id": 2, "name": "me", "role": "manage", "token": ""}
    assert find_role(Store(store), data["token"]) is Role.MANAGE

    listed = bestarm("token", "list", "--store", store)
    assert "ci <b>[red]" in listed.stdout
    assert token.split("-", 2)[2] not in listed.stdout
    revoked = bestarm("token", "revoke", "1", "--store", store)
    assert revoked.stdout == "Token 1 (ci <b>[red]) is revoked and no longer allows anything.\n"
    assert find_role(Store(store), token) is None
    found = json.loads(bestarm("token", "list", "--json", "--store", store).stdout)
    assert [(each["id"], each["revoked"] is None) for each in found] == [(1, False), (2, True)]
    assert set(found[0]) == {"id", "name", "role", "created", "revoked"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["create", "x", "--role", "root"], "`role` must be view, tell or manage; got 'root'."),
        (["create", "", "--role", "view"], "`name` must say who uses the token"),
        (["revoke", "7"], "There is no token 7. `bestarm token list` shows them."),
    ],
)
def test_mistakes_are_one_line(sqlite_url: str, arguments: list[str], message: str) -> None:
    result = bestarm("token", *arguments, "--store", sqlite_url)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("bestarm: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
