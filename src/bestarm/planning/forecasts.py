"""What a plan says: figures with how far they can be trusted, in words and as JSON."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bestarm.simulation.results import Results, wilson

__all__ = ["Assumed", "Forecast", "TrialPlan", "forecast"]


@dataclass(frozen=True)
class Assumed:
    """The world of a scenario, in numbers.

    Attributes:
        scenario: its name.
        theta: the parameter.
        best: the label of the best target.
        gap: by how much it leads the next one.
        farthest: by how much it leads the last one.
        spread: how far apart the best and the worst source arm are.
        drift: the kind of drift.
        size: how far the baseline goes to either side of the level.
        period: over how many outcomes.
        level: the reward about which it moves.
        noise: the standard deviation of the noise; between bounds, where it changes with the
            level, the one at which as much is learnt as over time from the least noisy arm.
        bounded: whether rewards are at one bound or the other, rather than Gaussian.
        complexity: τ*, certified from below.
        lower_bound: no rule that is right with probability 1 − δ, whatever θ and the baseline, can
            take fewer pulls than this on average.
    """

    scenario: str
    theta: tuple[float, ...]
    best: str
    gap: float
    farthest: float
    spread: float
    drift: str
    size: float
    period: float
    level: float
    noise: float
    bounded: bool
    complexity: float
    lower_bound: float

    def __str__(self) -> str:
        lead = (
            f"{self.best!r} leads the next one by {self.gap:.4g}, the last by {self.farthest:.4g}"
        )
        if math.isclose(self.farthest, self.gap, rel_tol=1e-6):
            lead = f"{self.best!r} leads all others by {self.gap:.4g}"
        moves = {
            "none": f"the baseline stays at {self.level:.4g}",
            "sine": f"the baseline is a wave of ±{self.size:.4g} about {self.level:.4g} every "
            f"{self.period:,.0f} outcomes",
            "walk": f"the baseline walks within ±{self.size:.4g} of {self.level:.4g}, some "
            f"{self.size:.4g} in {self.period:,.0f} outcomes",
            "switches": f"the baseline jumps between {self.level - self.size:.4g} and "
            f"{self.level + self.size:.4g}, every {self.period:,.0f} outcomes or so",
        }[self.drift]
        law = "rewards are at a bound" if self.bounded else f"the noise is {self.noise:.4g}"
        return f"{lead}; {law}; {moves}"


@dataclass(frozen=True)
class Forecast:
    """What one policy needs in one scenario, from simulated trials.

    Attributes:
        scenario: the scenario's name.
        policy: the policy's name.
        runs: the number of simulated trials.
        mean: the mean number of pulls.
        mean_interval: its 95 % interval; None for a single run.
        low: the number of pulls that one trial in ten stays below.
        median: the number that half of them do.
        median_interval: its 95 % interval, from order statistics.
        high: the number that nine in ten do.
        capped: trials that were cut at the cap, with no winner. They count as that many pulls, so a
            mean is then too small, and so are quantiles among them.
        astray: those of them in which another than the best target was ahead.
        most: the pulls of the longest trial.
        wrong: trials that named a wrong winner.
        error_rate: their share.
        error_interval: Wilson's 95 % interval for the probability of one.
        ratio: the mean in units of the lower bound; None where that is 0.
    """

    scenario: str
    policy: str
    runs: int
    mean: float
    mean_interval: tuple[float, float] | None
    low: float
    median: float
    median_interval: tuple[float, float]
    high: float
    capped: int
    astray: int
    most: int
    wrong: int
    error_rate: float
    error_interval: tuple[float, float]
    ratio: float | None

    def __str__(self) -> str:
        return (
            f"{self.policy}: {self.median:,.0f} pulls in the middle, {self.low:,.0f} to "
            f"{self.high:,.0f} in eight of ten trials; wrong in {self.wrong} of {self.runs}"
            + (f", {self.capped} capped" if self.capped else "")
        )


def forecast(results: Results, *, policy: str, lower_bound: float) -> Forecast:
    """The figures of simulated trials, of which there is at least one."""
    low, median, high = results.quantiles((0.1, 0.5, 0.9)).values()
    wrong = int(np.count_nonzero(results.final & ~results.correct))
    half = 0.98 * math.sqrt(results.runs)  # of a 95 % interval for how many runs are below
    ends = (math.floor(results.runs / 2 - half), math.ceil(results.runs / 2 + half))
    ordered = np.sort(results.pulls)
    return Forecast(
        scenario=results.environment,
        policy=policy,
        runs=results.runs,
        mean=results.mean_pulls,
        mean_interval=results.pulls_interval() if results.runs > 1 else None,
        low=low,
        median=median,
        median_interval=(
            float(ordered[max(ends[0] - 1, 0)]),
            float(ordered[min(ends[1], results.runs - 1)]),
        ),
        high=high,
        capped=int(np.count_nonzero(~results.final)),
        astray=int(np.count_nonzero(~results.final & ~results.correct)),
        most=int(results.pulls.max()),
        wrong=wrong,
        error_rate=wrong / results.runs,
        error_interval=wilson(wrong, results.runs),
        ratio=results.mean_pulls / lower_bound if lower_bound > 0 else None,
    )


@dataclass(frozen=True)
class TrialPlan:
    """What a trial will take, under every scenario and by every policy.

    Attributes:
        arms: the number of source arms.
        targets: the number of targets.
        delta: the error probability asked for.
        bounds: the lowest and the highest reward, or None.
        per_day: outcomes a day, or None.
        runs: simulated trials asked for, of each policy in each scenario.
        seed: the figures depend on it and on the rest, on nothing else.
        scenarios: the worlds assumed.
        forecasts: one a scenario and policy.
        interrupted: whether it was stopped early: some forecasts are then missing or of fewer runs.
        warnings: what to know before relying on it, in sentences.
    """

    arms: int
    targets: int
    delta: float
    bounds: tuple[float, float] | None
    per_day: float | None
    runs: int
    seed: int
    scenarios: tuple[Assumed, ...]
    forecasts: tuple[Forecast, ...]
    interrupted: bool
    warnings: tuple[str, ...]

    def days(self, pulls: float) -> float | None:
        """How many days so many pulls take; None where outcomes a day are not known."""
        return None if self.per_day is None else pulls / self.per_day

    def of(self, scenario: str) -> tuple[Forecast, ...]:
        """The forecasts of one scenario."""
        return tuple(each for each in self.forecasts if each.scenario == scenario)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it, with days where they are known."""
        document = asdict(self)
        for each in document["forecasts"]:
            each["days"] = (
                None
                if self.per_day is None
                else {name: self.days(each[name]) for name in ("low", "median", "high", "mean")}
            )
        return document

    def __str__(self) -> str:
        lines = []
        for assumed in self.scenarios:
            lines.append(f"{assumed.scenario}: {assumed}.")
            lines.append(f"  no rule needs fewer than {assumed.lower_bound:,.0f} pulls on average")
            for each in self.of(assumed.scenario):
                days = self.days(each.median)
                lines.append(f"  {each}" + ("" if days is None else f"; {days:,.1f} days"))
        return "\n".join([*lines, *self.warnings])
