"""The connections of a server ask for durability as those of the library do."""

from __future__ import annotations

import pytest
from databases import name_of, read_on_begin, run_sql
from served import create, in_thread, outcomes


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
