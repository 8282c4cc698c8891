"""Weighted and centered least squares, held against R, statsmodels and a trial with a known truth.

Reference values are those of R 4.2.2 with geepack 1.3.9 on the trials below, which R can draw as
well. For two options they come from `wcls` and its `summary` in the package MRTAnalysis 0.3.0,
by whose authors the estimator is, with numerator_prob = 0.45; for three from geepack's `geeglm` and
the formula of Mancl and DeRouen (2001), eq. 5, with the inverse of I − Hᵢ written out.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from bestarm import Experiment
from bestarm.analysis import ExcursionEffect, wcls
from bestarm.errors import InvalidInputError


def trial(*options: str, persons: int = 14, points: int = 12) -> pd.DataFrame:
    """A trial drawn by the generator of Park and Miller, which any language can repeat."""
    state = 20180605

    def draw() -> float:
        nonlocal state
        state = 16807 * state % 2147483647
        return state / 2147483647

    rows = []
    for person in range(persons):
        usual = draw()
        for point in range(points):
            evening, available = int(point % 3 == 2), int(draw() < 0.85)
            parts = [1 + draw() for _ in options]
            chances = [part / sum(parts) for part in parts]
            left, chosen = draw(), 0
            while left > chances[chosen] and chosen < len(chances) - 1:
                left -= chances[chosen]
                chosen += 1
            before = draw()
            effect = 0.3 * chosen * (1 + evening)
            outcome = usual + 0.5 * before + effect + (draw() + draw() - 1)
            known = (person, point, available, evening, before)
            rows.append((*known, options[chosen], chances[chosen], outcome))
    names = ["person", "decision_point", "available", "evening", "before"]
    return pd.DataFrame(rows, columns=[*names, "label", "probability", "outcome"])


TWO = trial("none", "message")
SHARES = {"none": 0.55, "message": 0.45}
_R = 1e-9


def test_the_average_effect_is_that_of_r() -> None:
    found = wcls(TWO, control="none", controls=["before"], shares=SHARES)
    [effect] = found.coefficients
    assert effect[2:] == pytest.approx(
        (0.418351960791, 0.0651520407419, 0.274953285968, 0.561750635613, 4.93425641526e-05), rel=_R
    )
    assert (found.degrees_of_freedom, found.persons, found.unavailable) == (11, 14, 31)
    assert found.at() == (effect,)


def test_effects_by_moderator_are_those_of_r() -> None:
    found = wcls(
        TWO, control="none", moderators=["evening"], controls=["evening", "before"], shares=SHARES
    )
    effect, change = found.coefficients
    assert effect[2:] == pytest.approx(
        (0.204503845449, 0.0770806686198, 0.0301352588174, 0.378872432080, 0.0263413819475), rel=_R
    )
    assert change[2:] == pytest.approx(
        (0.562690902488, 0.1762326964007, 0.1640248460063, 0.961356958970, 0.0109556899083), rel=_R
    )
    assert found.degrees_of_freedom == 9
    # MRTAnalysis has another quantile for a combination, F with two degrees of freedom.
    [evening] = found.at(evening=1)
    assert evening[2:4] == pytest.approx((0.767194747937, 0.1339709955106), rel=_R)
    assert evening.term == "effect at evening = 1"


def test_three_options_are_compared_with_the_control_as_in_r() -> None:
    shares = {"none": 0.4, "message": 0.35, "walk": 0.25}
    frame = trial("none", "message", "walk", persons=20)
    found = wcls(frame, control="none", controls=["before"], shares=shares)
    assert found.options == ("message", "walk")
    assert found.estimates == pytest.approx([0.450660793407, 0.769271071786], rel=_R)
    errors = [each.standard_error for each in found.coefficients]
    assert errors == pytest.approx([0.0856295976734, 0.0739123523769], rel=_R)


def test_errors_are_those_of_statsmodels() -> None:
    """With weights in the rows, its GEE has the same correction, by inverses of another size."""
    found = wcls(TWO, control="none", moderators=["evening"])
    rows = TWO[TWO["available"] == 1]
    sent = (rows["label"] == "message").to_numpy(dtype=float)
    share, evening = sent.mean(), rows["evening"].to_numpy(dtype=float)
    root = np.sqrt(np.where(sent == 1, share, 1 - share) / rows["probability"])
    columns = np.column_stack([np.ones(len(rows)), evening])
    design = np.column_stack([columns, (sent - share)[:, None] * columns])
    model = sm.GEE(rows["outcome"] * root, design * root.to_numpy()[:, None], groups=rows["person"])
    fit = model.fit(cov_type="bias_reduced")
    assert found.estimates == pytest.approx(fit.params.to_numpy()[2:], rel=1e-9)
    assert found.covariance == pytest.approx(fit.cov_params().to_numpy()[2:, 2:], rel=1e-7)


def test_intervals_cover_the_effect_where_the_regression_is_wrong() -> None:
    """Chances depend on a covariate that moves the outcome too, and is not in the regression.

    Of 300 intervals at 95 % between 270 and 297 cover, but for a chance below 1 in 10,000 each way;
    the difference of plain means is off by 0.2. The seed is fixed.
    """
    rng, covered, plain = np.random.default_rng(5), 0, []
    for _ in range(300):
        person = np.repeat(np.arange(25), 20)
        state = rng.random(500)
        chance = 0.2 + 0.6 * state
        sent = rng.random(500) < chance
        level = rng.normal(size=25)[person] + np.sin(3 * state) + state
        frame = pd.DataFrame(
            {
                "person": person,
                "available": 1,
                "probability": np.where(sent, chance, 1 - chance),
                "label": np.where(sent, "message", "none"),
                "outcome": level + (0.5 + rng.normal(0, 0.5, 500)) * sent,
            }
        )
        [effect] = wcls(frame, control="none").coefficients
        covered += effect.low < 0.5 < effect.high
        plain.append(level[sent].mean() + 0.5 - level[~sent].mean())
    assert 270 <= covered <= 297
    assert np.mean(plain) > 0.7


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_an_export_is_read_as_it_is(tmp_path: Path, suffix: str) -> None:
    protocol = {"none": 0.5, "message": 0.3, "=walk": 0.2}
    study = Experiment.create(
        f"sqlite:///{tmp_path / 'a.db'}",
        "a",
        list(protocol),
        bounds=(0, 1),
        policy="fixed",
        policy_options={"probabilities": protocol},
        seed=3,
    )
    people = [f"p{number}" for number in range(12)]
    for point in range(10):
        study.ask(unit="away", decision_point=point, available=False)
        known = [{"evening": point % 2 == 0, "place": "home", "time": 1.5} for _ in people]
        batch = study.ask(unit=people, decision_point=point, covariates=known)
        lift = {"none": 0.2, "message": 0.4, "=walk": 0.5}
        told = {each.id: lift[each.label] + (each.id or 0) % 7 / 100 for each in batch[point % 3 :]}
        study.tell_many(told)
    study.erase("p3")
    path = tmp_path / f"out{suffix}"
    study.export(path, layout="mrt", probabilities=True)
    frame = pd.read_csv(path) if suffix == ".csv" else pd.read_parquet(path)
    assert frame["place"].dropna().unique().tolist() == ["home"]
    assert frame["covariate_time"].dropna().unique().tolist() == [1.5]
    drawn = frame["available"] == 1
    times = pd.to_datetime(frame["time"][drawn], utc=True)
    assert times.is_monotonic_increasing
    assert times.notna().all()
    assert times.iloc[0] == study.assignments()["asked"][0]

    found = wcls(frame, control="none", moderators=["evening"])
    walk = "'=walk" if suffix == ".csv" else "=walk"  # safe from spreadsheets
    assert set(found.options) == {"message", walk}
    by_option = {each.option: each.estimate for each in found.at(evening=0)}
    assert by_option["message"] == pytest.approx(0.2, abs=0.03)
    assert by_option[walk] == pytest.approx(0.3, abs=0.03)
    assert (found.persons, found.unavailable, found.missing) == (11, 10, 9 + 10)
    assert "message instead of none changes the outcome by +0.2" in str(found)
    assert "<table" in found._repr_html_()
    assert isinstance(found, ExcursionEffect)
    with pytest.raises(InvalidInputError, match="'place' holds texts"):
        wcls(frame, control="none", moderators=["place"])


CASES: dict[str, tuple[pd.DataFrame, dict[str, object], str]] = {
    "no person": (TWO.drop(columns="person"), {}, "no column 'person'"),
    "unknown column": (TWO, {"moderators": ["mood"]}, "no column 'mood'"),
    "unknown control": (TWO, {"control": "nothing"}, "control"),
    "one option": (TWO[TWO["label"] == "none"], {}, "nothing to compare"),
    "few people": (TWO[TWO["person"] < 2], {}, "2 persons cannot tell of the 2 coefficients"),
    "hole": (TWO.assign(evening=np.nan), {"moderators": ["evening"]}, "not known at"),
    "constant": (TWO.assign(evening=1), {"moderators": ["evening"]}, "computed from the others"),
    "one of them": (
        TWO.assign(evening=TWO["person"] == 1),
        {"moderators": ["evening"]},
        "rests on one person alone",
    ),
    "certain": (TWO.assign(probability=1.0), {}, "certain"),
    "unknown chance": (TWO.assign(probability=np.nan), {}, "unknown"),
    "blocks": (TWO.assign(decision_point=1), {}, "several rows at one decision point"),
    "retired": (TWO.assign(probability_walk=0.0), {}, "added or retired"),
    "shares of others": (TWO, {"shares": {"none": 1.0}}, "must have one for each"),
    "shares above 1": (TWO, {"shares": {"none": 0.9, "message": 0.9}}, "must sum to 1"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_cannot_be_analysed_is_refused(name: str) -> None:
    frame, options, words = CASES[name]
    with pytest.raises(InvalidInputError, match=words):
        wcls(frame, **{"control": "none", **options})  # type: ignore[arg-type]


def test_a_moderator_needs_a_value_and_must_be_known() -> None:
    found = wcls(TWO, control="none", moderators=["evening"])
    with pytest.raises(InvalidInputError, match="has no value"):
        found.at()
    with pytest.raises(InvalidInputError, match="moderators"):
        found.at(morning=1)
