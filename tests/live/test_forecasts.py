"""Forecasts in live experiments: fixed before the arm is drawn, stored, and never made again."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from people import OPTIONS, PROBLEM, Echo, answer, in_memory, reopen, rows_of
from tampering import change

from bestarm import Experiment
from bestarm.errors import ConflictingRequestError, DamagedStoreError, InvalidInputError
from bestarm.live.draws import PlanDraws
from bestarm.live.watch.overview import overview
from bestarm.numerics.geometry import Array
from bestarm.policies import SPBAI, AnytimeBAI

Create = Callable[..., Experiment]


@pytest.fixture
def create(sqlite_url: str) -> Create:
    def make(forecaster: Any = "default", **settings: Any) -> Experiment:
        given: dict[str, Any] = {"policy_options": OPTIONS, "seed": 1} | settings
        return Experiment.create(sqlite_url, "drinks", PROBLEM, forecaster=forecaster, **given)

    return make


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
    settings: dict[str, Any] = {"policy_options": OPTIONS, "seed": 1, "forecaster": "default"}
    experiment = Experiment.create(store_url, "people", PROBLEM, clock=noon, **settings)
    kept = in_memory(clock=noon)
    for each in (experiment, kept):
        answer(each, 80)
    assert experiment.verify().sound
    assert experiment.replay().remarks == ()
    with reopen(experiment, clock=noon) as again:
        for each in (again, kept):
            answer(each, 40, seed=1)
        forecasts = rows_of(again)["forecast"]
        assert forecasts.nunique() > 60
        pd.testing.assert_series_equal(forecasts, rows_of(kept)["forecast"], check_exact=True)
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


def test_a_forecaster_learns_what_is_on_record_when_it_is_opened_again(create: Create) -> None:
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
    experiment = create(policy="sp-bai", policy_options={})
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
    experiment = create(policy="bernstein", policy_options={"bounds": [5, 9]})
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
            if layout == "assignments":
                assert json.loads(frame["covariates"].iloc[2]) == {"name": 'é "x"', "age": 31}
            else:
                assert (frame["name"].iloc[2], frame["age"].iloc[2]) == ('é "x"', 31)
            assert frame["forecast"].notna().all()
            assert frame["outcome"].iloc[2] == 0.5
    assert experiment.assignments()["forecast"].notna().all()


def test_without_a_forecaster_nothing_is_said_of_forecasts(tmp_path: Path) -> None:
    experiment = Experiment(AnytimeBAI(PROBLEM, bounds=(-10, 10)), seed=0)
    experiment.tell_many(dict.fromkeys(experiment.ask(40).ids, 0.5))
    experiment.export(tmp_path / "all.csv")
    assert "forecast" not in pd.read_csv(tmp_path / "all.csv")
    assert "forecast" not in experiment.assignments()
    assert experiment.status().variance_left is None
    assert "forecasts" not in {check.name for check in experiment.health()}


def test_rows_of_a_frame_and_lists_of_numbers_are_welcome() -> None:
    experiment = in_memory()
    experiment.ask(2, covariates=pd.DataFrame({"age": [31, 32], "member": [True, False]}))
    experiment.ask(2, covariates=np.array([[1.0, 2.0], [3.0, 4.0]]))
    ages: Any = pd.array([31, None], dtype="Int64")  # a frame may have gaps
    experiment.ask(2, covariates=pd.DataFrame({"age": ages, "country": ["CH", None]}))
    known = [json.loads(text) for text in rows_of(experiment)["covariates"]]
    assert known[0] == {"age": 31.0, "member": True}
    assert known[3] == {"x1": 3.0, "x2": 4.0}
    assert known[4:] == [{"age": 31.0, "country": "CH"}, {"age": None, "country": None}]


# --- covariates --------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["{", "[1]", '{"age": [1]}'])
def test_covariates_that_cannot_be_read_are_damage(
    text: str, create: Create, tmp_path: Path
) -> None:
    experiment = create()
    experiment.ask(covariates={"age": 31.0})
    change(tmp_path / "store.db", f"UPDATE bestarm_units SET covariates = '{text}'")
    with reopen(experiment) as again, pytest.raises(DamagedStoreError, match="assignment 0"):
        again.ask()
    experiment.close()


def test_an_ask_that_gets_nothing_skips_nothing(create: Create) -> None:
    """What others were assigned meanwhile is learned all the same."""
    echo = Echo()
    first = create(policy="sp-bai", policy_options={}, forecaster="own")
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


@pytest.mark.parametrize("number", [2, 2.0, np.float64(2), np.int64(2)])
def test_one_forecast_may_be_a_number(number: Any) -> None:
    experiment = in_memory("own")
    experiment.tell_many(dict.fromkeys(experiment.ask(40, forecasts=[0.0] * 40).ids, 1.5))
    experiment.ask(forecasts=number)
    assert rows_of(experiment)["forecast"].iloc[-1] == 2.0


# --- what is refused ---------------------------------------------------------------------------

REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    ("default", {"covariates": [{"x": 1.0}]}, "covariates"),
    ("default", {"covariates": [{"x": 1.0}, {"x": float("nan")}]}, "covariates['x']"),
    ("default", {"covariates": [{"x": 1.0}, {"x": [1]}]}, "covariates['x']"),
    ("default", {"covariates": ["a", "b"]}, "covariates"),
    ("default", {"covariates": 3}, "covariates"),
    ("default", {"covariates": [{"x": "y" * 20_000}] * 2}, "covariates"),
    ("default", {"forecasts": [1.0, 2.0]}, "forecasts"),
    ("own", {"forecasts": [1.0]}, "forecasts"),
    ("own", {"forecasts": [1.0, float("inf")]}, "forecasts"),
    ("own", {"forecasts": "ab"}, "forecasts"),
    ("own", {"covariates": [{"x": 1.0}] * 2}, "forecasts"),
    ("own", {}, "forecasts"),
    *(("own", {"forecasts": wrong}, "forecasts") for wrong in ({0: 1.0}, b"a", np.array(1.0))),
    *(
        ("default", {"covariates": wrong}, "covariates")
        for wrong in (pd.Series({"age": 31.0}), np.array(3.0), b"ab", [b"ab", b"ab"])
    ),
]


@pytest.mark.parametrize(("forecaster", "given", "field"), REFUSED)
def test_what_cannot_be_used_is_refused_and_nothing_is_assigned(
    forecaster: str, given: dict[str, Any], field: str
) -> None:
    experiment = in_memory(forecaster)
    with pytest.raises(InvalidInputError) as refused:
        experiment.ask(2, **given)
    assert refused.value.field == field
    assert refused.value.remedy
    assert experiment.status().pulls == 0


def test_a_forecast_that_is_no_number_assigns_nothing() -> None:
    class Nowhere(Echo):
        def forecast(self, number: int, moment: float | None, covariates: Array | None) -> float:
            return float("nan")

    experiment = in_memory(Nowhere())
    with pytest.raises(InvalidInputError, match="not a number"):
        experiment.ask()
    assert experiment.status().pulls == 0


def test_an_experiment_without_a_forecaster_says_so() -> None:
    experiment = Experiment(AnytimeBAI(PROBLEM, bounds=(-10, 10)))
    with pytest.raises(InvalidInputError, match="no forecaster") as refused:
        experiment.ask(forecasts=[1.0])
    assert "forecaster='own'" in refused.value.remedy


def test_a_forecaster_of_ones_own_is_given_again(create: Create) -> None:
    experiment = create(Echo())
    with reopen(experiment) as again:
        with pytest.raises(InvalidInputError) as refused:
            again.ask()
        assert "Experiment.open(…, forecaster=…)" in refused.value.remedy
        assert again.status().pulls == 0
        again.ask(forecasts=0.5)  # or the forecasts themselves
    with pytest.raises(InvalidInputError, match="created with forecaster='own'"):
        reopen(experiment, forecaster="default")


def test_policy_and_forecaster_must_fit(create: Create) -> None:
    with pytest.raises(InvalidInputError, match="there is no forecaster"):
        in_memory(None)
    with pytest.raises(InvalidInputError, match="there is no forecaster"):
        create(None, policy_options=OPTIONS | {"forecasts": True})
    with pytest.raises(InvalidInputError, match="was not made for") as refused:
        Experiment(SPBAI(PROBLEM), forecaster="default")
    assert refused.value.field == "policy"
    with pytest.raises(InvalidInputError, match="must be 'default'"):
        in_memory("another")


# --- what forecasts save -----------------------------------------------------------------------


def test_status_and_health_say_what_forecasts_save(create: Create) -> None:
    experiment = create()
    assert experiment.status().variance_left is None
    answer(experiment, 300)
    status = experiment.status()
    assert status.variance_left is not None
    assert status.variance_left < 0.6
    assert f"forecasts take {1 - status.variance_left:.0%}".removesuffix("%") in str(status)
    check = experiment.health()[-1]
    assert (check.name, check.level) == ("forecasts", "ok")
    shown = overview(experiment)
    assert shown.savings in check.finding[:1].lower() + check.finding[1:]
    # What the page shows of outcomes is what was told, not what is left of it.
    rows = rows_of(experiment)[: shown.used]
    for option in shown.leaderboard:
        told = rows[rows["arm"] == option.arm]["outcome"]
        assert option.raw_mean == pytest.approx(told.mean())


def test_the_share_of_variance_left_is_what_rows_add_up_to() -> None:
    experiment, rng = in_memory("own"), np.random.default_rng(0)
    while experiment.status().pulls < 300:
        level = rng.normal(size=10)
        batch = experiment.ask(10, forecasts=level * 0.5)
        experiment.tell_many(zip(batch.ids, (level + rng.normal(size=10)).tolist(), strict=True))
    with experiment.read() as snapshot:
        ends = [record.end for record in snapshot.summaries()]
    rows = rows_of(experiment)[: ends[-1]]
    part = pd.cut(rows["id"], [-1, *(end - 1 for end in ends)])
    groups = [part, rows["arm"]]
    told = rows["outcome"]
    left = told - rows["forecast"]
    sums = [
        ((x - x.groupby(groups, observed=True).transform("mean")) ** 2).sum() for x in (left, told)
    ]
    assert experiment.status().variance_left == pytest.approx(sums[0] / sums[1])


def test_health_warns_when_forecasts_do_harm() -> None:
    experiment, rng = in_memory("own"), np.random.default_rng(0)
    while experiment.status().pulls < 400:
        batch = experiment.ask(10, forecasts=5 * rng.normal(size=10))
        experiment.tell_many(zip(batch.ids, rng.normal(size=10).tolist(), strict=True))
    check = experiment.health()[-1]
    assert (check.name, check.level) == ("forecasts", "warning")
    assert "forecasts add" in check.finding.lower()
    assert "stay valid" in check.action
    assert "forecasts add" in str(experiment.status())
