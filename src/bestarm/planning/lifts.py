"""The inverse of a plan: which lifts can be found with so many visitors, how often."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression

from bestarm.checks import whole
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array
from bestarm.planning.forecasts import INTERRUPTED, AssumedWorld, about_scales, about_wrong_winners
from bestarm.planning.plan import MOST_PULLS, Effort, Job, Runs, capped, estimate_effort
from bestarm.planning.request import DEFAULT_POLICIES, PlanRequest
from bestarm.planning.worlds import ScenarioWorld
from bestarm.policies import Method
from bestarm.simulation.progress import Progress, reporting
from bestarm.simulation.results import wilson

#: The probabilities for which the smallest lift is stated.
POWERS = (0.5, 0.8, 0.9, 0.95)
_PILOT = 40  # runs per lift while the range is searched
_PILOTS = 4  # lifts that this usually takes
_POINTS = 12  # lifts of a curve
_RARE = 0.3  # found so often at the lower end of the range; always at the upper end
_STEP = math.sqrt(2)  # from one lift to the next beyond the range
_LEAST = 1e-6  # the smallest lift tried, as a share of the largest that fits
_HALVINGS = 40  # until the largest lift that fits is known
_NORMAL = NormalDist()


@dataclass(frozen=True)
class LiftPoint:
    """How often one lift was found in simulated experiments.

    Attributes:
        lift: by how much the best option leads, in units of the outcome.
        runs: simulated experiments.
        found: those that named the best option within the visitors.
        wrong: those that named another one.
    """

    lift: float
    runs: int
    found: int
    wrong: int

    @property
    def probability(self) -> float:
        """The share of experiments that found it."""
        return self.found / self.runs

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval for the probability to find it."""
        return wilson(self.found, self.runs)


@dataclass(frozen=True)
class DetectableLift:
    """The smallest lift that is found with some probability.

    Attributes:
        power: the probability.
        lift: the lift, in units of the outcome; None where none that was tried reaches it.
        interval: its 95 % interval; an end is None where it lies beyond the lifts that were tried.
    """

    power: float
    lift: float | None
    interval: tuple[float | None, float | None]


@dataclass(frozen=True)
class LiftCurve:
    """Which lifts one policy finds in one scenario.

    Attributes:
        scenario: the scenario's name.
        policy: the policy's name.
        world: the assumed world with the lift that is found with 80 %, or the largest one tried.
        lifts: the smallest lift per probability, from `points`.
        points: how often lifts were found, from the smallest to the largest.
    """

    scenario: str
    policy: str
    world: AssumedWorld
    lifts: tuple[DetectableLift, ...]
    points: tuple[LiftPoint, ...]

    def at(self, power: float) -> DetectableLift:
        """The smallest lift that is found with this probability, one of `POWERS`."""
        return next(each for each in self.lifts if each.power == power)


@dataclass(frozen=True)
class DetectableLifts:
    """Which lifts can be found with so many visitors, per scenario and policy.

    Attributes:
        arms: the number of options.
        delta: the error probability asked for.
        visitors: how many there are; each has one outcome, or with blocks several.
        bounds: the lowest and the highest outcome, or None.
        base: the base rate, or None.
        block: options per round.
        per_day: visitors per day, or None.
        runs: simulated experiments per lift.
        seed: the seed of the simulation.
        curves: one per scenario and policy.
        interrupted: whether it was stopped early; curves are then missing or have fewer points,
            and a lift that was being simulated is left out.
        warnings: sentences to read before relying on it.
    """

    arms: int
    delta: float
    visitors: int
    bounds: tuple[float, float] | None
    base: float | None
    block: int
    per_day: float | None
    runs: int
    seed: int
    curves: tuple[LiftCurve, ...]
    interrupted: bool
    warnings: tuple[str, ...]

    @property
    def days(self) -> float | None:
        """The days in which so many visitors come; None if visitors per day are not known."""
        return None if self.per_day is None else self.visitors / self.per_day

    @property
    def rates(self) -> bool:
        """Whether outcomes are yes and no, so that means are rates."""
        return self.bounds == (0, 1)

    def relative(self, lift: float | None) -> float | None:
        """A lift as a share of the base rate; None without a positive one."""
        if lift is None or self.base is None or self.base <= 0:
            return None
        return lift / self.base

    def to_dict(self) -> dict[str, Any]:
        """A plain dictionary for JSON, with days and relative lifts where these are known."""
        document = asdict(self) | {"days": self.days}
        for curve, words in zip(self.curves, document["curves"], strict=True):
            for lift, each in zip(curve.lifts, words["lifts"], strict=True):
                each["relative"] = self.relative(lift.lift)
                each["relative_interval"] = [self.relative(end) for end in lift.interval]
            for point, each in zip(curve.points, words["points"], strict=True):
                each["relative"] = self.relative(point.lift)
                each |= {"probability": point.probability, "interval": point.interval}
        return document


def detectable_lifts(
    request: PlanRequest,
    *,
    visitors: int,
    executor: Executor | None = None,
    progress: Progress = False,
    on_estimate: Callable[[Effort], object] | None = None,
) -> DetectableLifts:
    """Which lift can be found with so many visitors, with which probability.

    It inverts `plan_experiment`. A lift is found in a simulated experiment that names the best
    option, with error probability δ, within the visitors; all others have the base rate. Lifts are
    tried from the one at which the lower bound equals the visitors, doubling and halving, with 40
    experiments each, until they are found rarely and nearly always. Twelve lifts in this range then
    get `runs` experiments each, all with the same seeds. The curve is that of an isotonic
    regression, interpolated on the normal scale. Intervals are Wilson's, inverted.

    Args:
        request: the problem, the assumptions, the policies and the size of the simulation, without
            a gap. Without policies, it is `anytime` alone.
        visitors: how many visitors there are; with blocks, rounds.
        executor: as in `plan_experiment`, and so are the next two.
        progress: it is called with (runs done, runs in total); the total may change a little.
        on_estimate: called once with the estimated cost, before anything is simulated.

    Raises:
        InvalidInputError: the request is invalid, or there would be too many pulls to simulate.
        KeyboardInterrupt: it was interrupted before any lift had been simulated.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.planning import PlanRequest, detectable_lifts
        >>> problem = Problem(["old", "new"], noise=0.5)
        >>> request = PlanRequest(problem, base="20 %", bounds=(0, 1), runs=20)
        >>> found = detectable_lifts(request, visitors=2000).curves[0].at(0.8)
        >>> 0.05 < found.lift < 0.2
        True
    """
    _check(request, visitors)
    cap, methods = visitors * request.block, request.methods()
    if request.policies is None:
        methods = {name: methods[name] for name in DEFAULT_POLICIES[:1]}
    searches = [
        _Search(request, place, name, capped(method, request, block=request.block, cap=cap), cap)
        for place in range(len(request.drifts))
        for name, method in methods.items()
    ]
    most = cap * request.runs * _POINTS * len(searches)
    if most > MOST_PULLS:
        what = (
            f"Simulating {visitors:,} visitors, {request.runs:,} times per lift, takes {most:.2g} "
            f"pulls; the limit is {MOST_PULLS:.0g}."
        )
        remedy = "Give fewer visitors, fewer runs or fewer policies."
        raise InvalidInputError(what, field="visitors", value=visitors, remedy=remedy)
    starts = [each.start(visitors) for each in searches]  # refuses before anything is simulated
    curves: list[LiftCurve] = []
    interrupted = False
    total = len(searches) * (_PILOTS * _PILOT + _POINTS * request.runs)
    with reporting(progress, total) as report:
        runs = Runs(request, executor, report, total=total)
        if on_estimate is not None:
            jobs = [each.job(lift) for each, lift in zip(searches, starts, strict=True)]
            many = replace(request, runs=_POINTS * request.runs)
            on_estimate(estimate_effort(jobs, many))
        try:
            for each, lift in zip(searches, starts, strict=True):
                points: list[LiftPoint] = []
                try:
                    for point in each.points(lift, runs):
                        points.append(point)  # noqa: PERF402 - it may be interrupted
                finally:
                    if points:
                        curves.append(each.curve(points))
        except KeyboardInterrupt:
            interrupted = True
            if not curves:
                raise
    return DetectableLifts(
        arms=request.problem.arms,
        delta=request.problem.delta,
        visitors=visitors,
        bounds=request.bounds,
        base=curves[0].world.base,
        block=request.block,
        per_day=request.per_day,
        runs=request.runs,
        seed=request.seed,
        curves=tuple(curves),
        interrupted=interrupted,
        warnings=tuple(_warnings(request, curves, partial=interrupted)),
    )


def _check(request: PlanRequest, visitors: int) -> None:
    whole(visitors, "visitors", least=1)
    for field in ("gap", "scenarios", "max_pulls"):
        value = getattr(request, field)
        if value:
            what = f"`{field}` does not go with `visitors`, which ask which lift can be found."
            remedy = "Leave one of them out."
            raise InvalidInputError(what, field=field, value=value, remedy=remedy)


def _simulate_point(job: Job, runs: Runs, many: int | None = None) -> LiftPoint:
    """How often the lift of a job is found, in many runs.

    Raises:
        KeyboardInterrupt: not all runs have finished.
    """
    results = runs.simulate(job, many)
    if results.interrupted:
        raise KeyboardInterrupt
    final, right = results.final, results.correct
    found, wrong = (int(np.count_nonzero(final & each)) for each in (right, ~right))
    return LiftPoint(job.assumed.gap, results.runs, found, wrong)


@dataclass(frozen=True)
class _Search:
    """The lifts that one policy finds in one scenario, the one at `place` of the request."""

    request: PlanRequest
    place: int
    policy: str
    method: Method
    cap: int

    def world(self, lift: float) -> ScenarioWorld:
        request = replace(self.request, gap=lift)
        return ScenarioWorld(request, request.resolved_scenarios()[self.place])

    def job(self, lift: float) -> Job:
        environment, assumed = self.world(lift).make()
        return Job(self.policy, self.request.block, self.method, environment, assumed, self.cap)

    @cached_property
    def largest(self) -> float | None:
        """The largest lift for which all means stay within the bounds; None without bounds."""
        if self.request.bounds is None:
            return None
        high = self.request.bounds[1] - self.request.bounds[0]
        low = _LEAST * high
        self.world(low).make()  # says what is wrong
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self.world(middle).fits() else (low, middle)
        return low

    def start(self, visitors: int) -> float:
        """About the lift whose lower bound are so many visitors."""
        largest = self.largest or math.inf
        lift = min(self.request.problem.noise, largest / 2)
        for _ in range(3):  # once, but for bounded rewards, whose noise depends on the lift
            bound = self.world(lift).make()[1].lower_bound / self.request.block
            lift = min(max(lift * math.sqrt(bound / visitors), _LEAST * lift), largest / 2)
        return lift

    def points(self, start: float, runs: Runs) -> Iterator[LiftPoint]:
        """The points of the curve, not in order."""
        low, high, most = self._range(start, runs)
        lifts = np.geomspace(low, high, _POINTS).tolist()
        for lift in lifts[::2] + lifts[1::2]:  # the whole range first
            point = _simulate_point(self.job(lift), runs)
            yield point
        while point.probability < POWERS[-1] and high < most:  # the pilot was lucky
            high = min(_STEP * high, most)
            runs.total += runs.request.runs
            point = _simulate_point(self.job(high), runs)
            yield point

    def _range(self, start: float, runs: Runs) -> tuple[float, float, float]:
        """Lifts that are found rarely and always, as far as there are such, and the largest."""
        most, least = self.largest or start * 2.0**10, start * 2.0**-10
        shares: dict[float, float] = {}

        def share(lift: float) -> float:
            if lift not in shares:
                shares[lift] = _simulate_point(self.job(lift), runs, _PILOT).probability
            return shares[lift]

        low = high = start
        while share(low) > _RARE and low > least:
            low /= 2
        while share(high) < 1 and high < most:
            low = high if share(high) <= _RARE else low
            high = min(2 * high, most)
        runs.total += (len(shares) - _PILOTS) * _PILOT
        return low, high, most

    def curve(self, points: Sequence[LiftPoint]) -> LiftCurve:
        """What at least one point says."""
        ordered = tuple(sorted(points, key=lambda each: each.lift))
        lifts = tuple(detectable_lift(ordered, power) for power in POWERS)
        shown = next(each.lift for each in lifts if each.power == 0.8) or ordered[-1].lift
        world = self.world(shown).make()[1]
        return LiftCurve(world.scenario, self.policy, world, lifts, ordered)


def detectable_lift(points: Sequence[LiftPoint], power: float) -> DetectableLift:
    """The smallest lift that is found with this probability, from points in order of their lifts.

    The probability grows with the lift: shares are those of an isotonic regression. Between two
    points the lift is interpolated, log lift against the normal quantile of the probability.
    """
    runs = np.array([each.runs for each in points])
    shares = isotonic_regression([each.probability for each in points]).x
    ends = [wilson(share * n, int(n)) for share, n in zip(shares.tolist(), runs, strict=True)]
    lows, highs = np.array(ends).T
    lifts = np.array([each.lift for each in points])

    def crossing(values: Array, *, beyond: float | None) -> float | None:
        place = int(np.argmax(values >= power))
        if values[place] < power:
            return None
        if place == 0:
            return beyond
        margin = np.minimum(0.5 / (runs[place - 1 : place + 1] + 1), 0.01)  # within the powers
        clipped = np.clip(values[place - 1 : place + 1], margin, 1 - margin).tolist()
        before, after = (_NORMAL.inv_cdf(each) for each in clipped)
        share = (_NORMAL.inv_cdf(power) - before) / (after - before)
        first, second = np.log(lifts[place - 1 : place + 1]).tolist()
        return math.exp(first + share * (second - first))

    smallest = float(lifts[0])
    interval = (crossing(highs, beyond=None), crossing(lows, beyond=smallest))
    return DetectableLift(power, crossing(shares, beyond=smallest), interval)


def _warnings(request: PlanRequest, curves: Sequence[LiftCurve], *, partial: bool) -> Iterator[str]:
    if partial:
        yield INTERRUPTED
    for each in curves:
        worst = max(each.points, key=lambda point: point.wrong / point.runs)
        yield from about_wrong_winners(
            each.policy, each.scenario, worst.wrong, worst.runs, request.problem.delta
        )
    yield from dict.fromkeys(about_scales(request.problem, [each.world for each in curves]))
