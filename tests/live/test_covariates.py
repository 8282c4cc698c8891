"""Covariates: in which forms they come, and that the record of them is under the log."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from foreseen import Create, Echo, answer, in_memory, reopen, rows_of

from bestarm.errors import DamagedStoreError, InvalidInputError


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(statement).rowcount == 1
    connection.close()


@pytest.mark.parametrize(
    "changed",
    [
        "covariates = replace(covariates, 'age', 'Age') WHERE number = 3",
        "covariates = NULL WHERE number = 3",
        "covariates = covariates || ' ' WHERE number = 11",  # of a phase that is open
        "covariates = '{}' WHERE number = 12",  # of an assignment without covariates
    ],
)
def test_the_audit_finds_changed_covariates(changed: str, tmp_path: Path) -> None:
    experiment = Create(tmp_path)(Echo())
    answer(experiment, 12)
    experiment.ask()
    assert experiment.verify().sound
    change(tmp_path / "store.db", f"UPDATE bestarm_assignments SET {changed}")
    [finding] = experiment.verify().findings
    assert "covariates" in finding
    experiment.close()


def test_the_log_covers_covariates_that_no_summary_covers(tmp_path: Path) -> None:
    experiment = Create(tmp_path)()
    experiment.ask(covariates={"age": 31.0})
    experiment.stop()
    assert experiment.verify().sound
    change(tmp_path / "store.db", "UPDATE bestarm_assignments SET covariates = '{\"age\":32.0}'")
    assert not experiment.verify().sound
    experiment.close()


@pytest.mark.parametrize("text", ["{", "[1]", '{"age": [1]}'])
def test_covariates_that_cannot_be_read_are_damage(text: str, tmp_path: Path) -> None:
    experiment = Create(tmp_path)()
    experiment.ask(covariates={"age": 31.0})
    change(tmp_path / "store.db", f"UPDATE bestarm_assignments SET covariates = '{text}'")
    with reopen(experiment) as again, pytest.raises(DamagedStoreError, match="assignment 0"):
        again.ask()
    experiment.close()


def test_an_ask_that_gets_nothing_skips_nothing(tmp_path: Path) -> None:
    """What others were assigned meanwhile is learned all the same."""
    echo = Echo()
    first = Create(tmp_path)(policy="sp-bai", options={}, forecaster="own")
    second = reopen(first, forecaster=echo)
    second.ask()
    given = [0]
    while batch := first.ask(100, forecasts=[0.0] * 100):
        given += batch.ids
    assert not second.ask()
    first.tell_many(dict.fromkeys(given, 0.25))
    second.ask()
    assert {entry[1] for entry in echo.heard if entry[0] == "learn"} == set(given)
    for each in (first, second):
        each.close()


def test_a_frame_may_have_gaps() -> None:
    experiment = in_memory()
    ages: Any = pd.array([31, None], dtype="Int64")
    experiment.ask(2, covariates=pd.DataFrame({"age": ages, "country": ["CH", None]}))
    known = [json.loads(text) for text in rows_of(experiment)["covariates"]]
    assert known == [{"age": 31.0, "country": "CH"}, {"age": None, "country": None}]


@pytest.mark.parametrize("number", [2, 2.0, np.float64(2), np.int64(2)])
def test_one_forecast_may_be_a_number(number: Any) -> None:
    experiment = in_memory("own")
    experiment.tell_many(dict.fromkeys(experiment.ask(40, forecasts=[0.0] * 40).ids, 1.5))
    experiment.ask(forecasts=number)
    assert rows_of(experiment)["forecast"].iloc[-1] == 2.0


@pytest.mark.parametrize("wrong", [{0: 1.0}, b"a", np.array(1.0), {1.0: 2.0}])
def test_what_is_not_a_list_of_forecasts_is_refused(wrong: Any) -> None:
    experiment = in_memory("own")
    with pytest.raises(InvalidInputError) as refused:
        experiment.ask(1, forecasts=wrong)
    assert refused.value.field == "forecasts"


@pytest.mark.parametrize("wrong", [pd.Series({"age": 31.0}), np.array(3.0), b"ab", [b"ab"]])
def test_what_is_not_rows_of_covariates_is_refused(wrong: Any) -> None:
    experiment = in_memory()
    with pytest.raises(InvalidInputError) as refused:
        experiment.ask(1, covariates=wrong)
    assert refused.value.field == "covariates"
