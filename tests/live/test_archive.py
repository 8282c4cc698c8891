"""Archived experiments are left out of lists, and stay; deleted ones leave nothing behind."""

from __future__ import annotations

import numpy as np
import pytest

from bestarm import Experiment, Problem
from bestarm.errors import DamagedStoreError, UnknownExperimentError
from bestarm.live.store import Ledger, Store, listing, schema

PROBLEM = Problem(np.eye(3))


def begin(url: str, name: str) -> Experiment:
    return Experiment.create(url, name, PROBLEM, policy_options={"bounds": (0, 1)})


def names(url: str, *, archived: bool = False) -> list[str]:
    return [each.name for each in Experiment.list(url, archived=archived)]


def test_an_archived_experiment_goes_on_and_is_not_listed(store_url: str) -> None:
    with begin(store_url, "tea") as tea, begin(store_url, "coffee"):
        tea.archive()
        tea.archive()  # once
        assert names(store_url) == ["coffee"]
        assert names(store_url, archived=True) == ["tea", "coffee"]
        store = Store(store_url)
        found, total = listing.search(store, "", first=0, limit=9)
        assert ([each.name for each in found], total) == (["coffee"], 1)
        assert listing.search(store, "tea", first=0, limit=9)[1] == 0
        store.close()
        ids = tea.ask(2).ids
        assert tea.tell(ids[0], 1.0).recorded == 1
        tea.archive(undo=True)
        assert names(store_url) == ["tea", "coffee"]
        kinds = [event.kind for event in tea.events()]
        assert (kinds.count("archived"), kinds.count("restored")) == (1, 1)
        assert tea.verify().sound


def test_a_new_description_is_in_lists_and_on_record_and_the_audit_accepts_it(
    store_url: str,
) -> None:
    with begin(store_url, "tea") as tea, Experiment.open(store_url, "tea") as other:
        tea.describe("Which tea?")
        tea.describe("Which tea?")  # once
        tea.describe("Which tea\nof three?")
        # Whoever has it open sees the new one, and so does its audit.
        assert other.description == tea.description == "Which tea\nof three?"
        assert [each.description for each in Experiment.list(store_url)] == [other.description]
        descriptions = [event.data for event in other.events() if event.kind == "described"]
        assert [data["description"] for data in descriptions] == [
            "Which tea?",
            "Which tea\nof three?",
        ]
        for each in (tea, other):
            assert each.verify().sound
        tea.tell(tea.ask(1).ids[0], 1.0)
        tea.replay()
        with tea.engine.ledger.transaction() as tx:  # behind the log's back
            tx.describe("Which tea?")
        assert tea.verify().findings == ("The description is not the one that the log has.",)
        tea.describe("")
        assert (tea.description, tea.verify().sound) == ("", True)


def test_a_deleted_experiment_is_gone_and_nobody_meets_another(store_url: str) -> None:
    with begin(store_url, "tea") as tea, begin(store_url, "coffee") as coffee:
        for each in (tea, coffee):
            ids = each.ask(unit=["ann", "bob"], covariates=[{"age": 1}, {"age": 2}]).ids
            each.tell(ids[0], 1.0)
        store = Store(store_url)
        Ledger.open(store, "coffee").delete()
        store.close()
        assert names(store_url, archived=True) == ["tea"]
        with pytest.raises(UnknownExperimentError):
            Experiment.open(store_url, "coffee")
        with begin(store_url, "coffee") as another:
            with pytest.raises(DamagedStoreError):
                coffee.tell(1, 1.0)
            assert another.status().pulls == 0
        assert tea.status().pulls == 2
        assert tea.verify().sound
        with tea.engine.ledger.snapshot() as snapshot:
            raw = snapshot.session.raw
            there = set(raw.execute("SELECT id FROM bestarm_experiments").fetchall())
            assert len(there) == 2
            for table in schema.metadata.tables.values():
                if "experiment" in table.c:
                    found = raw.execute(f"SELECT DISTINCT experiment FROM {table}").fetchall()
                    assert set(found) <= there
