"""The connections of a server ask for durability as those of the library do."""

from __future__ import annotations

from databases import name_of, read_on_begin, run_sql
from served import ARMS, in_thread


def use(url: str) -> None:
    with in_thread(url) as served, served.client() as api:
        for path, body in {
            "": {"name": "offer", **ARMS},
            "/offer/ask": {"count": 2},
            "/offer/tell": {"outcomes": [{"id": 0, "reward": 1}]},
        }.items():
            assert api.post(f"/experiments{path}", json=body).is_success
        assert api.get("/experiments/offer/recommendation").is_success


def test_a_server_s_connections_ask_postgresql_for_durability(postgres_url: str) -> None:
    run_sql(postgres_url, f"ALTER DATABASE {name_of(postgres_url)} SET synchronous_commit = off")
    with read_on_begin("SHOW synchronous_commit") as seen:
        use(postgres_url)
    assert len(seen) > 5
    assert set(seen) == {"on"}


def test_a_server_s_connections_have_sqlite_wait_for_the_disk(sqlite_url: str) -> None:
    with read_on_begin("PRAGMA synchronous") as seen:
        use(sqlite_url)
    assert len(seen) > 5
    assert set(seen) == {2}  # FULL
