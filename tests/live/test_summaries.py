"""Summaries of assignments: the same to the last bit, whatever the pieces they are added up in."""

from __future__ import annotations

import numpy as np
import pytest

from bestarm.live.store.rows import ANSWER, Rows, as_data, canonical
from bestarm.live.summaries import total
from bestarm.records import Plan, Summary

SIZE, ARMS, CENTER = 1000, 3, 0.25
FIRST = 40  # the id of the first
PIECES = (1, 2, 7, 64, 999, SIZE)


def make_plan(**options: bool) -> Plan:
    weights = [0.5, 0.3, 0.2]
    return Plan.randomised(weights, SIZE, phase=1, center=CENTER, forecasts=(-2.0, 2.0), **options)


def make_answers(*, forecasts: bool) -> tuple[Rows, Rows]:
    """Answers of which a tenth is lost, and the ids of a tenth that is outstanding.

    Numbers of many sizes: their sums depend on the order in which they are added.
    """
    rng = np.random.default_rng(3)
    answers = np.empty(SIZE, dtype=ANSWER)
    answers["arm"] = rng.integers(ARMS, size=SIZE)
    answers["reward"] = rng.normal(size=SIZE) * 10.0 ** rng.integers(-6, 4, size=SIZE)
    answers["asked"], answers["told"] = np.arange(SIZE), np.arange(SIZE) + 0.5
    answers["lost"] = answers["forecast"] = np.nan
    if forecasts:
        answers["forecast"] = rng.uniform(-2, 2, size=SIZE) * 10.0 ** -rng.integers(6, size=SIZE)
    lost = rng.random(SIZE) < 0.1
    answers["lost"][lost] = 1.0
    answers["reward"][lost] = answers["told"][lost] = np.nan
    return answers, FIRST + np.flatnonzero(rng.random(SIZE) < 0.1)


def add_up(answers: Rows, pending: Rows, plan: Plan, size: int) -> object:
    pieces = (answers[start : start + size] for start in range(0, SIZE, size))
    less, digest, plain = total(pieces, plan, first=FIRST, pending=pending)
    return as_data(less), digest, plain and as_data(plain)


@pytest.mark.parametrize("provisional", [False, True])
@pytest.mark.parametrize("forecasts", [False, True])
def test_totals_do_not_depend_on_the_pieces(forecasts: bool, provisional: bool) -> None:
    plan = make_plan(open=True, provisional=provisional)
    answers, pending = make_answers(forecasts=forecasts)
    whole = add_up(answers, pending, plan, SIZE)
    for size in PIECES:
        assert add_up(answers, pending, plan, size) == whole


@pytest.mark.parametrize("size", PIECES)
def test_forecasts_are_subtracted_one_row_after_the_other(size: int) -> None:
    """Compared with a loop over rows, to the last bit."""
    answers, pending = make_answers(forecasts=True)
    sums, plain_sums = [0.0] * ARMS, [0.0] * ARMS
    counts, predicted = [0] * ARMS, 0.0
    for number, row in enumerate(answers, start=FIRST):
        if number in pending or np.isnan(row["reward"]):
            continue
        arm, reward, forecast = int(row["arm"]), float(row["reward"]), float(row["forecast"])
        counts[arm] += 1
        sums[arm] += reward - forecast - CENTER
        plain_sums[arm] += reward - CENTER
        predicted += forecast
    pieces = (answers[start : start + size] for start in range(0, SIZE, size))
    less, _, plain = total(pieces, make_plan(open=True), first=FIRST, pending=pending)
    assert plain is not None
    assert (less.counts.tolist(), plain.counts.tolist()) == (counts, counts)
    assert (less.sums.tolist(), plain.sums.tolist()) == (sums, plain_sums)
    assert (less.forecast_sum, plain.forecast_sum) == (predicted, 0.0)


def test_the_stored_form_of_a_summary_stays() -> None:
    """The log's digests cover it: with another name, no database of before could be verified."""
    zeros = np.zeros(2)
    summary = Summary(
        np.array([1, 2]), zeros, zeros, least=zeros, largest=zeros, cubes=zeros, forecast_sum=6.0
    )
    assert canonical(as_data(summary)) == (
        '{"center":0.0,"counts":[1,2],"cubes":[0.0,0.0],"foreseen":6.0,"largest":[0.0,0.0],'
        '"least":[0.0,0.0],"missing":[0,0],"pending":[0,0],"squares":[0.0,0.0],"sums":[0.0,0.0]}'
    )
