"""The lift that so many visitors find is the lift whose plan takes so many."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from bestarm import AnytimeBAI, Problem, simulate
from bestarm.errors import InvalidInputError
from bestarm.planning import (
    POWERS,
    DetectableLifts,
    Drift,
    LiftPoint,
    PlanRequest,
    detectable_lifts,
    lifts,
)
from bestarm.planning.worlds import PlannedWorld

PROBLEM = Problem(["old", "new", "bold"], delta=0.05, noise=0.5)
REQUEST = PlanRequest(PROBLEM, base="20 %", bounds=(0, 1), runs=200, seed=3)
VISITORS = 400
QUICK = replace(REQUEST, runs=8, drift="none")


@pytest.fixture(scope="module")
def found() -> DetectableLifts:
    return detectable_lifts(REQUEST, visitors=VISITORS)


@pytest.mark.parametrize("power", [0.5, 0.8, 0.95])
def test_the_lift_is_found_as_often_by_other_experiments(
    found: DetectableLifts, power: float
) -> None:
    """Simulated forward and uncut, with other seeds.

    Both shares are binomial, of 200 and of 600 runs: their difference exceeds 3.5 standard errors
    with probability 0.0005. The isotonic regression only makes the first one more precise.
    """
    lift = found.curves[0].at(power).lift
    assert lift is not None
    world, assumed = PlannedWorld(REQUEST, Drift("sine"), lift).make()
    assert assumed.gap == pytest.approx(lift)
    method = partial(AnytimeBAI, bounds=(0, 1), max_pulls=10**6, changes=True)
    results = simulate(method, world, runs=600, seed=987, delta=0.05)
    share = np.mean(results.correct & results.final & (results.pulls <= VISITORS))
    error = math.sqrt(power * (1 - power) * (1 / 200 + 1 / 600))
    assert abs(share - power) < 3.5 * error


def test_the_figures_belong_together(found: DetectableLifts) -> None:
    (curve,) = found.curves
    assert (found.visitors, found.runs, found.base, found.days) == (VISITORS, 200, 0.2, None)
    assert [each.power for each in curve.lifts] == list(POWERS)
    tried = [each.lift for each in curve.points]
    assert tried == sorted(tried)
    assert len(tried) == 8
    smallest = [each.lift for each in curve.lifts]
    assert smallest == sorted(smallest)  # type: ignore[type-var]
    for each in curve.lifts:
        low, high = each.interval
        assert low < each.lift < high  # type: ignore[operator]
        assert high / low < 1.3  # type: ignore[operator]
    assert curve.world.gap == pytest.approx(curve.at(0.8).lift)
    assert not found.warnings
    assert all(each.wrong <= 10 for each in curve.points)  # δ = 0.05 of 200, and never so often


def test_a_document_has_relative_lifts_and_probabilities(found: DetectableLifts) -> None:
    document = json.loads(json.dumps(found.to_dict()))
    (curve,) = document["curves"]
    for each in curve["lifts"]:
        assert each["relative"] == pytest.approx(each["lift"] / 0.2)
        assert each["relative_interval"] == pytest.approx([end / 0.2 for end in each["interval"]])
    point = curve["points"][5]
    assert point["probability"] == point["found"] / 200
    assert point["interval"][0] < point["probability"] < point["interval"][1]
    assert (document["visitors"], document["days"]) == (VISITORS, None)


def counted(share: Callable[[float], float], *, runs: int = 10**6) -> list[LiftPoint]:
    return [
        LiftPoint(lift, runs, round(runs * share(lift)), 0)
        for lift in np.geomspace(0.1, 0.4, 12).tolist()
    ]


def test_the_inverse_of_a_known_curve() -> None:
    """A normal curve in the log of the lift has its quantile as the inverse."""
    normal = NormalDist(math.log(0.2), 0.2)
    points = counted(lambda lift: normal.cdf(math.log(lift)))
    for power in POWERS:
        each = lifts.detectable_lift(points, power)
        assert each.lift == pytest.approx(math.exp(normal.inv_cdf(power)), rel=1e-4)
        assert each.interval == pytest.approx((each.lift, each.lift), rel=5e-3)
    fewer = counted(lambda lift: normal.cdf(math.log(lift)), runs=100)
    # A share of 80 of 100 has an interval from 71.1 to 86.7 %.
    low, high = lifts.detectable_lift(fewer, 0.8).interval
    assert low == pytest.approx(math.exp(normal.inv_cdf(0.711)), rel=0.03)
    assert high == pytest.approx(math.exp(normal.inv_cdf(0.867)), rel=0.03)


def test_a_curve_that_falls_somewhere_is_made_monotone() -> None:
    shares = [0.1, 0.3, 0.2, 0.9, 0.7, 1.0]
    points = [LiftPoint(1.0 + n, 10, round(10 * share), 0) for n, share in enumerate(shares)]
    # 0.9 and 0.7 are 0.8 both, which the fourth reaches first.
    assert lifts.detectable_lift(points, 0.8).lift == pytest.approx(4.0)
    half = lifts.detectable_lift(points, 0.5)
    assert half.lift is not None
    assert 3 < half.lift < 4


def test_what_is_not_reached_is_none() -> None:
    points = counted(lambda _: 0.7, runs=50)
    assert lifts.detectable_lift(points, 0.8).lift is None
    assert lifts.detectable_lift(points, 0.8).interval == (None, None)
    assert lifts.detectable_lift(points, 0.5).interval == (
        None,
        0.1,
    )  # found by all that were tried


def test_who_makes_the_runs_does_not_matter() -> None:
    with ThreadPoolExecutor(3) as pool:
        shared = detectable_lifts(QUICK, visitors=100, executor=pool)
    assert shared == detectable_lifts(QUICK, visitors=100)


def test_too_few_visitors_find_nothing_and_the_largest_lift_is_tried() -> None:
    (curve,) = detectable_lifts(QUICK, visitors=5).curves
    assert curve.points[-1].lift == pytest.approx(0.8)  # a rate of 100 %
    assert [each.lift for each in curve.lifts] == [None] * len(POWERS)


def test_without_bounds_or_a_base_rate_leads_are_in_units_of_the_outcome() -> None:
    scores = PlanRequest(Problem(["a", "b"], noise=2.0), runs=12, drift="none", seed=1)
    few, many = (detectable_lifts(scores, visitors=n).curves[0] for n in (100, 400))
    ratio = few.at(0.8).lift / many.at(0.8).lift  # type: ignore[operator]
    assert ratio == pytest.approx(2, rel=0.35)  # outcomes grow with 1/gap²
    document = detectable_lifts(replace(scores, runs=2), visitors=300).to_dict()
    assert document["curves"][0]["lifts"][0]["relative"] is None


def test_blocks_are_counted_in_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifts, "_PILOT", 4)
    pairs = replace(QUICK, block=2, drift=None, per_day=100, runs=4, base=0.5)
    found = detectable_lifts(pairs, visitors=100)
    assert (found.block, found.days) == (2, 1.0)
    (curve,) = found.curves
    assert curve.scenario == "people"
    world, _ = PlannedWorld(pairs, Drift("people"), curve.points[-1].lift).make()
    method = partial(AnytimeBAI, bounds=(0, 1), block=2, max_pulls=10**5)
    results = simulate(method, world, runs=4, seed=3, delta=0.05)
    within = results.correct & results.final & (results.rounds <= 100)
    assert curve.points[-1].found == within.sum() > 0


def test_policies_and_drifts_have_a_curve_each() -> None:
    request = replace(
        QUICK, policies=["anytime", "sp-bai"], drift=["none", "sine"], runs=2, base="40 %"
    )
    found = detectable_lifts(request, visitors=300)
    names = [(each.scenario, each.policy) for each in found.curves]
    assert names == [(d, p) for d in ("none", "sine") for p in ("anytime", "sp-bai")]


def test_progress_and_interruption() -> None:
    calls: list[tuple[int, int]] = []
    request = replace(QUICK, runs=10)

    def stop_after(runs: int) -> Callable[[int, int], None]:
        def stop(done: int, total: int) -> None:
            calls.append((done, total))
            if done == runs:
                raise KeyboardInterrupt

        return stop

    whole = detectable_lifts(request, visitors=400, progress=stop_after(-1))
    assert (whole.interrupted, whole.timed_out) == (False, False)
    assert calls[0] == (0, 4 * 20 + 8 * 10)
    dones = [done for done, _ in calls]
    assert dones == sorted(dones)
    assert calls[-1][0] == calls[-1][1]  # all that were announced were made
    pilots = calls[-1][0] - 80
    # Six experiments of each lift come first, then four more of each; the fourth lift is cut.
    cut = detectable_lifts(request, visitors=400, progress=stop_after(pilots + 48 + 3 * 4 + 2))
    assert (cut.interrupted, cut.timed_out) == (True, False)
    assert "partial, from 6 of 10 simulated" in cut.warnings[0]
    points = cut.curves[0].points
    assert [each.runs for each in points] == [10] * 3 + [6] * 5
    assert points[:3] == whole.curves[0].points[:3]
    with pytest.raises(KeyboardInterrupt):
        detectable_lifts(request, visitors=400, progress=stop_after(20))
    with pytest.raises(InvalidInputError, match=r"Within 0\.001 seconds too few") as caught:
        detectable_lifts(replace(QUICK, base=0.5), visitors=10**6, seconds=0.001)
    assert caught.value.field == "seconds"


def test_a_policy_that_errs_is_reported() -> None:
    """SP-BAI needs the bound on the baseline that it is told, and has another one here."""
    jumps = Drift("switches", size=30.0, period=400)
    problem = Problem(["old", "new"])
    request = PlanRequest(problem, drift=jumps, policies=["sp-bai"], runs=30)
    warnings = detectable_lifts(request, visitors=1000).warnings
    assert any("more often than δ = 0.05 allows" in each for each in warnings)
    assert any("beyond the 1 that policies are told" in each for each in warnings)


@pytest.mark.parametrize(
    ("options", "visitors", "field", "words"),
    [
        ({}, 0, "visitors", "must be a whole number of at least 1; got 0"),
        ({}, 2.5, "visitors", "must be a whole number"),
        ({"gap": 0.1}, 100, "gap", "`gap` does not go with `visitors`"),
        ({"max_pulls": 10}, 100, "max_pulls", "`max_pulls` does not go with `visitors`"),
        ({}, 10**9, "visitors", "the limit is 1e.11"),
        ({"base": "200 %"}, 100, "base", "must lie between the bounds"),
        ({"base": "ten"}, 100, "base", "a percentage like '2 %'"),
        ({"block": 2, "policies": ["sp-bai"]}, 100, "policies", "does not take `block`"),
        ({"drift": ["none", "none"]}, 100, "drift", "planned for once"),
    ],
)
def test_wrong_input(options: dict[str, Any], visitors: Any, field: str, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words) as caught:
        detectable_lifts(replace(REQUEST, **options), visitors=visitors)
    assert caught.value.field == field
    assert caught.value.remedy
