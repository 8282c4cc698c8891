"""The inverse of a plan: which lifts can be found with so many visitors, how often."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, field
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression

from bestarm.checks import whole
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array
from bestarm.planning.forecasts import about_scales, about_wrong_winners
from bestarm.planning.request import Drift, PlanRequest
from bestarm.planning.simulating import (
    MOST_PULLS,
    Job,
    Simulator,
    batches,
    capped,
)
from bestarm.planning.worlds import AssumedWorld, PlannedWorld
from bestarm.policies import Method
from bestarm.simulation.progress import Progress
from bestarm.simulation.results import Results, wilson

#: The probabilities for which the smallest lift is stated.
POWERS = (0.5, 0.8, 0.9, 0.95)
_PILOT = 20  # runs per lift while the range is searched
_PILOTS = 4  # lifts that this usually takes
_POINTS = 8  # lifts of a curve
_RARE = 0.3  # found so often at the lower end of the range; always at the upper end
_BEYOND = 1.2  # how far the range goes beyond a lift that was always found
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
    """Which lifts one policy finds under one drift.

    Attributes:
        scenario: the kind of drift.
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
    """Which lifts can be found with so many visitors, per drift and policy.

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
        curves: one per drift and policy; if it is partial, some are missing, or from fewer runs.
        interrupted: whether it was stopped early, as with Ctrl-C.
        timed_out: whether its time limit stopped it.
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
    timed_out: bool
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
    seconds: float | None = None,
    executor: Executor | None = None,
    progress: Progress = False,
) -> DetectableLifts:
    """Which lift can be found with so many visitors, with which probability.

    It inverts `plan_experiment`. A lift is found in a simulated experiment that names the best
    option, with error probability δ, within the visitors; all others have the base rate. Lifts are
    tried from the one at which the lower bound equals the visitors, doubling and halving, with 20
    experiments each, until they are found rarely and always. Eight lifts in this range then get
    `runs` experiments each, all with the same seeds. The curve is that of an isotonic regression,
    interpolated on the normal scale. Intervals are Wilson's, inverted.

    Args:
        request: the problem, the assumptions, the policies and the size of the simulation, without
            a gap.
        visitors: how many visitors there are; with blocks, rounds.
        seconds: the time limit, after which the curves known by then are returned; None for none.
        executor: as in `plan_experiment`.
        progress: it is called with (runs done, runs in total); the total may change a little.

    Raises:
        InvalidInputError: the request is invalid, there would be too many pulls to simulate, or the
            time was up before there was a curve.
        KeyboardInterrupt: it was interrupted before there was a curve.

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
    methods, drifts = request.methods(), request.drifts
    cap = visitors * request.block
    most = cap * request.runs * _POINTS * len(methods) * len(drifts)
    if most > MOST_PULLS:
        what = (
            f"Simulating {visitors:,} visitors, {request.runs:,} times per lift, takes {most:.2g} "
            f"pulls; the limit is {MOST_PULLS:.0g}."
        )
        remedy = "Give fewer visitors, fewer runs or fewer policies."
        raise InvalidInputError(what, field="visitors", value=visitors, remedy=remedy)
    searches = [
        _Search(request, drift, name, capped(method, request, cap=cap), visitors)
        for drift in drifts
        for name, method in methods.items()
    ]
    starts = [each.job(each.start).assumed for each in searches]  # refuses what is wrong
    simulator = Simulator(request, seconds, executor)
    with simulator.running(progress, len(searches) * (_PILOTS * _PILOT + _POINTS * request.runs)):
        for each in searches:
            each.find_range(simulator)
        for runs in batches(request.runs):
            for each in searches:
                each.refine(simulator, runs)
    curves = tuple(each.curve() for each in searches if each.results)
    simulator.check_found(curves, starts)
    fewest = min(each.fewest_runs for each in searches)
    return DetectableLifts(
        arms=request.problem.arms,
        delta=request.problem.delta,
        visitors=visitors,
        bounds=request.bounds,
        base=request.base_rate,
        block=request.block,
        per_day=request.per_day,
        runs=request.runs,
        seed=request.seed,
        curves=curves,
        interrupted=simulator.interrupted,
        timed_out=simulator.timed_out,
        warnings=(*simulator.describe_end(fewest), *_warnings(request, curves)),
    )


def _check(request: PlanRequest, visitors: int) -> None:
    whole(visitors, "visitors", least=1)
    for name in ("gap", "max_pulls"):
        value = getattr(request, name)
        if value:
            what = f"`{name}` does not go with `visitors`, which ask which lift can be found."
            remedy = "Leave one of them out."
            raise InvalidInputError(what, field=name, value=value, remedy=remedy)


@dataclass(eq=False)
class _Search:
    """The lifts that one policy finds under one drift.

    Attributes:
        lifts: those of the curve, ascending, once their range is known.
        results: what was simulated of them.
    """

    request: PlanRequest
    drift: Drift
    policy: str
    method: Method
    visitors: int
    lifts: list[float] = field(default_factory=list)
    results: dict[float, Results] = field(default_factory=dict)

    def job(self, lift: float) -> Job:
        environment, assumed = PlannedWorld(self.request, self.drift, lift).make()
        return Job(self.policy, self.method, environment, assumed)

    @cached_property
    def largest(self) -> float | None:
        """The largest lift for which all means stay within the bounds; None without bounds."""
        if self.request.bounds is None:
            return None
        high = self.request.bounds[1] - self.request.bounds[0]
        low = _LEAST * high
        self.job(low)  # says what is wrong
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            fits = PlannedWorld(self.request, self.drift, middle).fits()
            low, high = (middle, high) if fits else (low, middle)
        return low

    @cached_property
    def start(self) -> float:
        """About the lift at which the lower bound equals the visitors."""
        largest = self.largest or math.inf
        lift = min(self.request.problem.noise, largest / 2)
        for _ in range(3):  # once, but for bounded rewards, whose noise depends on the lift
            bound = self.job(lift).assumed.lower_bound / self.request.block
            lift = min(max(lift * math.sqrt(bound / self.visitors), _LEAST * lift), largest / 2)
        return lift

    @property
    def fewest_runs(self) -> int:
        """The runs of the lift that was simulated least; 0 where one was not simulated."""
        runs = [self.results[each].runs if each in self.results else 0 for each in self.lifts]
        return min(runs, default=0)

    def find_range(self, simulator: Simulator) -> None:
        """Choose the lifts: from one that is found rarely to one that is always found, if any."""
        most, least = self.largest or self.start * 2.0**10, self.start * 2.0**-10
        shares: dict[float, float] = {}

        def share(lift: float) -> float:
            if lift not in shares:
                pilot = simulator.simulate(self.job(lift), _PILOT)
                shares[lift] = _point(lift, pilot).probability
            return shares[lift]

        low = high = self.start
        while share(low) > _RARE and low > least:
            low /= 2
        while share(high) < 1 and high < most:
            low = high if share(high) <= _RARE else low
            high = min(2 * high, most)
        high = min(_BEYOND * high, most)  # the pilot may have been lucky
        simulator.total += (len(shares) - _PILOTS) * _PILOT
        self.lifts = np.geomspace(low, high, _POINTS).tolist()

    def refine(self, simulator: Simulator, runs: int) -> None:
        """Simulate all lifts so often, without repeating what is known."""
        for lift in self.lifts:
            known = self.results.get(lift)
            self.results[lift] = simulator.simulate(self.job(lift), runs, known)

    def curve(self) -> LiftCurve:
        """What the lifts simulated so far say: at least one."""
        points = tuple(_point(lift, self.results[lift]) for lift in sorted(self.results))
        lifts = tuple(detectable_lift(points, power) for power in POWERS)
        shown = next(each.lift for each in lifts if each.power == 0.8) or points[-1].lift
        world = self.job(shown).assumed
        return LiftCurve(world.scenario, self.policy, world, lifts, points)


def _point(lift: float, results: Results) -> LiftPoint:
    """How often a lift was found."""
    final, right = results.final, results.correct
    found, wrong = (int(np.count_nonzero(final & each)) for each in (right, ~right))
    return LiftPoint(lift, results.runs, found, wrong)


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


def _warnings(request: PlanRequest, curves: Sequence[LiftCurve]) -> Iterator[str]:
    for each in curves:
        worst = max(each.points, key=lambda point: point.wrong / point.runs)
        yield from about_wrong_winners(
            each.policy, each.scenario, worst.wrong, worst.runs, request.problem.delta
        )
    yield from dict.fromkeys(about_scales(request.problem, [each.world for each in curves]))
