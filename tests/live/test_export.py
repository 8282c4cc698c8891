"""What is exported reads back to the same bits, and is there whole or not at all."""

from __future__ import annotations

import csv
import json
import math
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from clocks import Clock
from pyarrow import parquet

from bestarm import AnytimeBAI, Experiment, Problem
from bestarm.errors import InvalidInputError, MissingDependencyError
from bestarm.files import unguarded
from bestarm.live import export as exporting
from bestarm.live.store import ledger as sql_ledger
from bestarm.policies import Uniform

LABELS = ["tea", 'a "comma", quoted', "naïve\nline"]
ARMS = Problem(np.eye(3), source_labels=LABELS)
REWARDS = [0.1 + 0.2, 1e-300, -0.0, math.pi * 1e99, 5e-324, 1 / 3]
MRT = [
    *("id", "decision_point", "time", "phase", "available", "probability", "arm", "label"),
    *("outcome", "state"),
]


TIMES = partial(Clock, 1_700_000_000.123456, step=0.654321)


def fill(experiment: Experiment) -> None:
    ids = experiment.ask(30).ids
    experiment.tell_many(zip(ids[:6], REWARDS, strict=True))
    experiment.fail_many(ids[6:9])
    experiment.tell(ids[7], 2.5)  # late
    experiment.tell_many((n, float(n)) for n in ids[12:])
    experiment.ask(5)


@pytest.fixture
def experiment(tmp_path: Path) -> Any:
    url = f"sqlite:///{tmp_path}/store.db"
    with Experiment.create(url, "drinks", ARMS, clock=TIMES(), seed=0) as made:
        fill(made)
        yield made


def read(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        return list(parquet.read_table(path).to_pylist())
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("piece", [7, 50_000])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_all_that_is_on_record_reads_back(
    experiment: Experiment,
    tmp_path: Path,
    suffix: str,
    piece: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sql_ledger, "_PIECE", piece)
    path = tmp_path / f"out{suffix}"
    assert experiment.export(path) == 35
    rows = read(path)
    given = experiment.assignments()
    told: dict[Any, Any] = experiment.outcomes().set_index("id").to_dict("index")
    assert len(rows) == len(given) == 35
    for row, (_, known) in zip(rows, given.iterrows(), strict=True):
        number = int(row["id"])
        assert (number, int(row["arm"]), int(row["phase"])) == (
            known["id"],
            known["arm"],
            known["phase"],
        )
        assert row["label"] == known["label"]
        assert float(row["probability"]) == known["probability"]
        assert row["state"] == known["state"]
        assert pd.Timestamp(row["asked"]) == known["asked"].round("us")
        if number in told:
            outcome = told[number]
            assert float(row["outcome"]) == outcome["reward"]
            assert pd.Timestamp(row["told"]) == outcome["told"].round("us")
            assert bool(int(row["late"])) == outcome["late"]
        else:
            assert row["outcome"] in ("", None)
            assert row["told"] in ("", None)
        assert (row["lost"] in ("", None)) == (known["state"] != "lost")


@pytest.mark.parametrize("quotes", [False, True])
def test_every_byte_of_a_csv_file(tmp_path: Path, quotes: bool) -> None:
    """A text is in quotes if it needs them."""
    labels = ["tea", "a, b"] if quotes else ["tea", "maté"]
    problem = Problem(np.eye(2), source_labels=labels)
    experiment = Experiment(Uniform(problem, budget=4), seed=0, clock=TIMES())
    ids = experiment.ask(4).ids
    experiment.tell(ids[0], 0.1 + 0.2)
    experiment.tell(ids[1], 1e-300)
    experiment.fail(ids[2])
    experiment.tell(ids[2], 2.0)
    experiment.export(tmp_path / "out.csv")
    rows = experiment.assignments()
    asked = rows["asked"].iloc[0].strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    told = [
        time.strftime("%Y-%m-%dT%H:%M:%S.%fZ") for time in experiment.outcomes()["told"].tolist()
    ]
    (lost,) = {row["lost"] for row in read(tmp_path / "out.csv")} - {""}
    assert asked < told[1] < lost < told[2] < "2023-11-14T22:14"
    rest = [
        (0, "told", "0.30000000000000004", told[0], 0, ""),
        (1, "told", "1e-300", told[1], 0, ""),
        (0, "lost", "2", told[2], 1, lost),
        (1, "outstanding", "", "", 0, ""),
    ]

    written = ["tea", '"a, b"' if quotes else "maté"]
    expected = (
        "id,round,phase,arm,label,probability,asked,state,outcome,told,late,lost\n"
        + "".join(
            f"{number},{number},1,{arm},{written[arm]},1,{asked},{state},"
            f"{outcome},{time},{late},{end}\n"
            for number, (arm, state, outcome, time, late, end) in enumerate(rest)
        )
    )
    assert (tmp_path / "out.csv").read_bytes() == expected.encode()


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_the_layout_of_micro_randomised_experiments(
    experiment: Experiment, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"out{suffix}"
    experiment.export(str(path), layout="mrt")
    rows = read(path)
    assert list(rows[0]) == MRT
    assert [int(row["decision_point"]) for row in rows] == list(range(1, 36))
    states = {int(row["id"]): row["state"] for row in rows}
    assert states[0] == "told"
    assert states[6] == "lost"
    assert states[7] == "late"
    assert states[9] == "outstanding"
    for row in rows:
        used = row["state"] == "told"
        assert (row["outcome"] not in ("", None)) == used
        assert int(row["available"]) == 1
    assert [float(row["outcome"]) for row in rows[:6]] == [r + 0.0 for r in REWARDS]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_probabilities_of_all_arms(experiment: Experiment, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"out{suffix}"
    experiment.export(path, layout="mrt", probabilities=True)
    for row in read(path):
        every = [float(row[f"probability_{label}"]) for label in LABELS]
        assert sum(every) == pytest.approx(1)
        assert every[int(row["arm"])] == float(row["probability"])


def test_what_comes_in_turn_is_certain(tmp_path: Path) -> None:
    experiment = Experiment(Uniform(ARMS, budget=9), seed=0)
    experiment.ask(9)
    experiment.export(tmp_path / "out.csv", probabilities=True)
    for row in read(tmp_path / "out.csv"):
        assert [float(row[f"probability_{label}"]) for label in LABELS] == [
            float(int(row["arm"]) == arm) for arm in range(3)
        ]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("layout", exporting.LAYOUTS)
def test_an_empty_experiment_is_a_table_of_no_rows(
    tmp_path: Path, suffix: str, layout: str
) -> None:
    path = tmp_path / f"out{suffix}"
    assert Experiment(AnytimeBAI(ARMS, bounds=(0, 1)), seed=0).export(path, layout=layout) == 0
    assert read(path) == []
    assert path.stat().st_size


def test_a_failure_leaves_the_old_file_and_no_other(
    experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    path = folder / "out.csv"
    path.write_text("old")

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("in the middle")

    monkeypatch.setattr(exporting, "_mrt", broken)
    with pytest.raises(RuntimeError):
        experiment.export(path, layout="mrt")
    monkeypatch.setattr(exporting, "_cells", broken)
    with pytest.raises(RuntimeError):
        experiment.export(path)
    assert path.read_text() == "old"
    assert list(folder.iterdir()) == [path]


def test_a_link_is_followed(experiment: Experiment, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.csv"
    link.symlink_to(tmp_path / "real" / "goal.csv")
    experiment.export(link)
    assert link.is_symlink()
    assert len(read(tmp_path / "real" / "goal.csv")) == 35


def test_bad_places_and_names_are_refused(experiment: Experiment, tmp_path: Path) -> None:
    for path in (tmp_path / "out", tmp_path / "out.xlsx", tmp_path, "x", None, 5):
        with pytest.raises(InvalidInputError, match=r"`path` must end in \.csv or \.parquet"):
            experiment.export(path)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="'mrt'"):
        experiment.export(tmp_path / "out.csv", layout="wide")
    with pytest.raises(FileNotFoundError) as raised:
        experiment.export(tmp_path / "no" / "out.csv")
    assert raised.value.filename == str(tmp_path / "no" / "out.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(IsADirectoryError):
        experiment.export(tmp_path / "folder.csv")


def test_a_csv_file_needs_nothing_else_and_parquet_says_what_it_needs(
    experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pandas", "pyarrow"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependencyError, match="bestarmid\\[parquet\\]"):
        experiment.export(tmp_path / "out.parquet")
    assert not list(tmp_path.glob("out.*"))
    assert experiment.export(tmp_path / "out.csv") == 35
    with pytest.raises(MissingDependencyError, match="bestarmid\\[frames\\]"):
        experiment.assignments()


FORMULAS = ["=2+3", "+cmd", "-2+3", "@SUM(A1)", "'=x", "+49 170 12"]
PLAIN = ["-5", "+1.5e3", "tea", "'tis", "a=b"]


@pytest.mark.parametrize("layout", ["assignments", "mrt"])
def test_no_cell_of_a_csv_file_is_a_formula(tmp_path: Path, layout: str) -> None:
    names = [*FORMULAS, *PLAIN]
    experiment = Experiment(Problem(names), bounds=(-2, 3))
    for unit in names:
        batch = experiment.ask(unit=unit, decision_point=unit, covariates={unit: unit})
        experiment.tell(batch[0], -1.5)
    experiment.export(tmp_path / "out.csv", layout=layout, probabilities=True)
    experiment.export(tmp_path / "out.parquet", layout=layout)
    rows, unit = read(tmp_path / "out.csv"), "unit" if layout == "assignments" else "person"
    shown = [f"'{name}" for name in FORMULAS] + PLAIN
    whole = read(tmp_path / "out.parquet")
    for name in (unit, "decision_point"):
        assert [row[name] for row in rows] == shown
        assert [row[name] for row in whole] == names
    for row, real in zip(rows, whole, strict=True):
        assert row["outcome"] == "-1.5"
        assert unguarded(row["label"]) == real["label"]
        if layout == "assignments":
            assert json.loads(row["covariates"]) == {real[unit]: real[unit]}
        else:
            assert (row[row[unit]], real[real[unit]]) == (row[unit], real[unit])
        for cell in row.values():
            assert not cell.startswith(tuple("=+-@")) or float(cell)
