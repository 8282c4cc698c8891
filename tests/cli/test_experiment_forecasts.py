"""`bestarm experiment` with a forecaster: what is known of people comes from a file."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from bestarm.cli.app import app


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BESTARM_STORE", raising=False)
    (tmp_path / "names.csv").write_text("tea\ncoffee\n", encoding="utf-8")
    return tmp_path


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["experiment", *arguments])
    assert result.exit_code == code, result.output
    return result.output


def test_columns_of_a_file_are_what_is_known(folder: Path) -> None:
    run("create", "drinks", "names.csv", "--bounds", "0", "1", "--forecaster", "default")
    people = "age,country,member\n31,CH,true\n,PE,false\n"
    (folder / "people.csv").write_text(people, encoding="utf-8")
    asked = json.loads(run("ask", "drinks", "--covariates", "people.csv", "--json"))
    assert [each["id"] for each in asked["assignments"]] == [0, 1]
    run("export", "drinks", "--out", "all.csv")
    frame = pd.read_csv(folder / "all.csv")
    assert list(map(json.loads, frame["covariates"])) == [
        {"age": 31.0, "country": "CH", "member": True},
        {"country": "PE", "member": False},
    ]
    assert frame["forecast"].notna().all()
    assert "one row per assignment asked for" in run(
        "ask", "drinks", "3", "--covariates", "people.csv", code=2
    )


def test_forecasts_of_ones_own_are_a_column(folder: Path) -> None:
    (folder / "offer.toml").write_text(
        'source = ["tea", "coffee"]\nforecaster = "own"\npolicy = "sp-bai"\n', encoding="utf-8"
    )
    run("create", "drinks", "--problem", "offer.toml")
    (folder / "own.csv").write_text("forecast,age\n0.25,31\n0.75,32\n", encoding="utf-8")
    run("ask", "drinks", "--covariates", "own.csv")
    run("export", "drinks", "--out", "all.csv")
    frame = pd.read_csv(folder / "all.csv")
    assert frame["forecast"].tolist() == [0.25, 0.75]
    assert json.loads(frame["covariates"][1]) == {"age": 32.0}
    assert "your own" in run("ask", "drinks", code=2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("age\n", "no rows below a header"),
        ("", "no rows below a header"),
        ("age,age\n1,2\n", "no rows below a header of different names"),
        ("age,country\n1\n", "1 fields in line 2, and 2 columns"),
    ],
)
def test_files_that_cannot_be_read(folder: Path, text: str, said: str) -> None:
    run("create", "drinks", "names.csv", "--bounds", "0", "1", "--forecaster", "default")
    (folder / "people.csv").write_text(text, encoding="utf-8")
    said_so = run("ask", "drinks", "--covariates", "people.csv", code=2)
    assert said in " ".join(said_so.split())


def test_an_unknown_forecaster_is_refused() -> None:
    words = run("create", "drinks", "names.csv", "--forecaster", "best", code=2)
    assert "`forecaster`" in words
