"""Forecasts in live experiments: fixed before the arm is drawn, stored, and never made again."""

from __future__ import annotations

import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from foreseen import OPTIONS, PROBLEM, Create, Echo, answer, in_memory, reopen, rows_of

from bestarm import Experiment
from bestarm.errors import ConflictingRequestError, InvalidInputError
from bestarm.live.draws import PlanDraws
from bestarm.policies import AnytimeBAI


@pytest.fixture
def create(tmp_path: Path) -> Create:
    return Create(tmp_path)


def test_forecasts_take_most_of_what_people_differ_by_off() -> None:
    experiment = in_memory()
    answer(experiment, 400)
    rows = rows_of(experiment)[200:]
    assert (rows["outcome"] - rows["forecast"]).var() < 0.2 * rows["outcome"].var()
    assert json.loads(rows["covariates"].iloc[0]).keys() == {"age", "country"}
    assert experiment.verify().sound


def noon() -> float:
    return 1_800_000_000.0


def test_a_database_forecasts_what_memory_forecasts(store_url: str) -> None:
    """To the last digit, and so does who opens it later."""
    settings: dict[str, Any] = {"options": OPTIONS, "seed": 1, "forecaster": "default"}
    experiment = Experiment.create(store_url, "people", PROBLEM, clock=noon, **settings)
    kept = in_memory(clock=noon)
    for each in (experiment, kept):
        answer(each, 80)
    assert experiment.verify().sound
    assert experiment.replay().remarks == ()
    with reopen(experiment, clock=noon) as again:
        for each in (again, kept):
            answer(each, 40, seed=1)
        foreseen = rows_of(again)["forecast"]
        assert foreseen.nunique() > 60
        pd.testing.assert_series_equal(foreseen, rows_of(kept)["forecast"], check_exact=True)
        assert again.verify().sound
    experiment.close()


def test_a_forecast_is_fixed_before_the_arm_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    echo = Echo()
    order: list[str] = []
    draw, forecast = PlanDraws.arms, Echo.forecast

    def drawing(*given: Any) -> Any:
        order.append("draw")
        return draw(*given)

    def forecasting(*given: Any) -> float:
        order.append("forecast")
        return forecast(*given)

    monkeypatch.setattr(PlanDraws, "arms", drawing)
    monkeypatch.setattr(Echo, "forecast", forecasting)
    experiment = in_memory(echo)
    experiment.ask(3, covariates=[{"x": 1.0}, {"x": 2.0}, {"x": 3.0}])
    assert order[-4:] == ["forecast", "forecast", "forecast", "draw"]
    assert echo.heard == [("forecast", 0, 1.0), ("forecast", 1, 2.0), ("forecast", 2, 3.0)]


def test_forecasts_lie_where_the_plan_allows() -> None:
    experiment = in_memory("own")
    experiment.ask(2, forecasts=[-1e9, 1e9])
    with experiment.read() as snapshot:
        low, high = snapshot.plan(1).plan.forecasts or (np.nan, np.nan)
    assert rows_of(experiment)["forecast"].tolist() == [low, high]


def test_summaries_are_of_outcomes_less_their_forecasts() -> None:
    experiment = in_memory("own")
    rng = np.random.default_rng(0)
    while experiment.phase < 6:
        batch = experiment.ask(7, forecasts=rng.normal(size=7))
        experiment.tell_many(zip(batch.ids, rng.normal(size=7).tolist(), strict=True))
    rows = rows_of(experiment)
    with experiment.read() as snapshot:
        records = list(snapshot.summaries())
    for record in records:
        part = rows[record.first : record.end]
        less = part["outcome"] - part["forecast"]
        assert record.summary.forecast_sum == pytest.approx(part["forecast"].sum())
        assert record.plain is not None
        for arm in range(2):
            mine = part["arm"] == arm
            assert record.summary.sums[arm] == pytest.approx(less[mine].sum())
            assert record.plain.sums[arm] == pytest.approx(part["outcome"][mine].sum())
            if mine.any():
                assert record.summary.least is not None
                assert record.summary.least[arm] == pytest.approx(less[mine].min())
    assert records[-1].summary.forecast_sum != 0.0


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE bestarm_assignments SET forecast = forecast + 1e-9 WHERE number = 20",
        "UPDATE bestarm_assignments SET forecast = NULL WHERE number = 20",
        "UPDATE bestarm_summaries SET plain = replace(plain, '0.0', '0.5') WHERE number = 1",
        "UPDATE bestarm_summaries SET plain = NULL WHERE number = 1",
    ],
)
def test_the_audit_finds_a_changed_forecast(change: str, create: Create, tmp_path: Path) -> None:
    experiment = create()
    answer(experiment, 60)
    assert experiment.verify().sound
    experiment.close()
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection, connection:
        assert connection.execute(change).rowcount == 1
    connection.close()
    assert not experiment.verify().sound


def test_a_forecaster_learns_what_is_on_record_when_it_is_opened_again(
    create: Create,
) -> None:
    experiment = create(Echo())
    for value in range(3):
        experiment.ask(covariates={"x": float(value)})
    experiment.tell_many({0: 0.5, 2: 0.25})
    arms = rows_of(experiment)["arm"].tolist()
    echo = Echo()
    with reopen(experiment, forecaster=echo) as again:
        again.ask(covariates={"x": 7.0})
        again.tell(1, 0.75)
    assert echo.heard == [
        ("forecast", 0, 0.0),
        ("learn", 0, arms[0], 0.5),
        ("forecast", 1, 1.0),
        ("forecast", 2, 2.0),
        ("learn", 2, arms[2], 0.25),
        ("forecast", 3, 7.0),
        ("learn", 1, arms[1], 0.75),
    ]


def test_each_of_several_learns_what_the_others_did(create: Create) -> None:
    one, other = Echo(), Echo()
    first = create(one)
    second = reopen(first, forecaster=other)
    first.ask(covariates={"x": 1.0})
    second.ask(covariates={"x": 2.0})
    first.tell(1, 0.5)
    second.tell(0, 0.25)
    first.ask(covariates={"x": 3.0})
    second.ask(covariates={"x": 4.0})
    for echo in (one, other):
        learned = {entry[1]: entry[3] for entry in echo.heard if entry[0] == "learn"}
        assert learned == {0: 0.25, 1: 0.5}
        assert [entry[1] for entry in echo.heard if entry[0] == "forecast"] in (
            [0, 1, 2],
            [0, 1, 2, 3],
        )
    assert first.verify().sound
    second.close()


@pytest.mark.parametrize("stored", [False, True])
def test_threads_forecast_and_learn_each_assignment_once(stored: bool, create: Create) -> None:
    echo = Echo()
    experiment = create(echo) if stored else in_memory(echo)

    def work(thread: int) -> None:
        for value in range(8):
            batch = experiment.ask(2, covariates=[{"x": 0.1 * thread}, {"x": 0.1 * value}])
            experiment.tell_many(dict.fromkeys(batch.ids, 0.5))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    heard = {
        kind: sorted(entry[1] for entry in echo.heard if entry[0] == kind)
        for kind in ("forecast", "learn")
    }
    assert heard["forecast"] == list(range(64))
    assert heard["learn"] == list(range(64))
    assert experiment.verify().sound


def test_late_and_lost_outcomes_are_not_learned() -> None:
    now = [1_800_000_000.0]
    echo, policy = Echo(), AnytimeBAI(PROBLEM, bounds=(-10, 10), forecasts=True)
    experiment = Experiment(policy, lease=10, clock=lambda: now[0], forecaster=echo)
    experiment.ask(2)
    now[0] += 60
    assert experiment.tell(0, 1.0).late == 1
    experiment.ask()
    experiment.tell(2, 0.5)
    assert [entry[1] for entry in echo.heard if entry[0] == "learn"] == [2]


def test_a_killed_process_leaves_its_forecasts(create: Create) -> None:
    """Whoever comes next tells the outcome, and nothing is forecast again."""
    experiment = create()
    answer(experiment, 40)
    batch = experiment.ask(3, covariates=[{"age": 1.0}] * 3, request_id="a")
    forecasts = rows_of(experiment)["forecast"].tolist()
    experiment.close()
    with reopen(experiment) as again:
        assert again.ask(3, covariates=[{"age": -1.0}] * 3, request_id="a").ids == batch.ids
        again.tell_many(dict.fromkeys(batch.ids, 0.5))
        assert rows_of(again)["forecast"].tolist() == forecasts
        assert again.verify().sound


def test_a_repeated_request_keeps_its_forecasts(create: Create) -> None:
    experiment = create("own")
    first = experiment.ask(2, forecasts=[0.5, 1.0], request_id="a")
    before = rows_of(experiment)
    assert experiment.ask(2, forecasts=[0.0, 0.0], request_id="a").ids == first.ids
    pd.testing.assert_frame_equal(rows_of(experiment), before)
    with pytest.raises(ConflictingRequestError):
        experiment.ask(3, forecasts=[0.0] * 3, request_id="a")


def test_any_policy_takes_forecasts(create: Create) -> None:
    """One that knows nothing of them is made for a baseline twice as large."""
    experiment = create(policy="sp-bai", options={})
    answer(experiment, 100)
    rows = rows_of(experiment)
    assert rows["forecast"].abs().max() > 1
    assert rows["forecast"].abs().max() <= PROBLEM.baseline
    with reopen(experiment) as again:
        assert again.spec == experiment.spec
        assert again.verify().sound
        assert again.replay().remarks == ()
    assert experiment.spec is not None
    assert experiment.spec.make().problem.baseline == 2 * PROBLEM.baseline


def test_bounds_are_those_of_rewards_as_they_are_told(create: Create) -> None:
    experiment = create(policy="bernstein", options={"bounds": [5, 9]})
    assert experiment.traits.bounds == (5.0, 9.0)
    batch = experiment.ask(1)
    assert 5.0 <= rows_of(experiment)["forecast"].iloc[0] <= 9.0
    with pytest.raises(InvalidInputError, match="between 5 and 9"):
        experiment.tell(batch[0], 2.0)
    experiment.tell(batch[0], 8.5)


def test_exports_have_what_was_known_beside_the_outcome(create: Create, tmp_path: Path) -> None:
    experiment = create()
    experiment.ask(2)
    experiment.ask(covariates={"name": 'é "x"', "age": 31})
    experiment.tell(2, 0.5)
    for layout in ("assignments", "mrt"):
        for suffix, read in ((".csv", pd.read_csv), (".parquet", pd.read_parquet)):
            path = tmp_path / f"{layout}{suffix}"
            assert experiment.export(path, layout=layout) == 3
            frame = read(path)
            assert json.loads(frame["covariates"].iloc[2]) == {"name": 'é "x"', "age": 31}
            assert frame["forecast"].notna().all()
            assert frame["outcome"].iloc[2] == 0.5
    assert experiment.assignments()["forecast"].notna().all()


def test_without_a_forecaster_there_are_no_columns_for_it(tmp_path: Path) -> None:
    experiment = Experiment(AnytimeBAI(PROBLEM, bounds=(-10, 10)), seed=0)
    experiment.ask(2)
    experiment.export(tmp_path / "all.csv")
    assert "forecast" not in pd.read_csv(tmp_path / "all.csv")
    assert "forecast" not in experiment.assignments()


def test_rows_of_a_frame_and_lists_of_numbers_are_welcome() -> None:
    experiment = in_memory()
    experiment.ask(2, covariates=pd.DataFrame({"age": [31, 32], "member": [True, False]}))
    experiment.ask(2, covariates=np.array([[1.0, 2.0], [3.0, 4.0]]))
    known = [json.loads(text) for text in rows_of(experiment)["covariates"]]
    assert known[0] == {"age": 31.0, "member": True}
    assert known[3] == {"x1": 3.0, "x2": 4.0}
