"""AnytimeBAI: certified at every look, under any baseline that is set before the draw."""

from __future__ import annotations

import math
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from bestarm import bounds as thresholds
from bestarm.checks import choice, interval, not_negative, whole
from bestarm.errors import InvalidInputError, ProtocolError
from bestarm.geometry import Array
from bestarm.policies.anytime.allocation import Allocation, Stage
from bestarm.policies.anytime.assumptions import Assumptions
from bestarm.policies.anytime.bets import BatchOutcome, Frame
from bestarm.policies.anytime.contests import BestOf, Contest, Stakes, TopOf
from bestarm.policies.anytime.guesses import Guesses
from bestarm.policies.anytime.intervals import Intervals, lower_ends
from bestarm.policies.policy import Look, Policy, Traits, check_adoptable, has_stopped, same_plan
from bestarm.problem import Problem, as_problem
from bestarm.records import Plan, Recommendation, Summary

_LEAST = 8  # pulls a dimension in a batch: there is little to learn from fewer
_GROWTH = 0.05  # a batch, relative to the pulls before it; less where the baseline moves fast


class _Open(NamedTuple):
    """A plan given out, with what was fixed before it was drawn."""

    plan: Plan
    frame: Frame
    stakes: Stakes
    stage: Stage


class AnytimeBAI(Policy):
    """Best-arm identification with a proven error probability and no constant to tune.

    Every target's wealth bets, batch by batch, that it is not the best; a target whose wealth
    reaches 1/δ is dropped, and the last one left is named. The probability that this is ever wrong
    is at most δ, at any number of looks, under every baseline that is fixed before the arm is
    drawn. Guesses of θ, of the baseline and of the noise only make it quick. Plans are open.

    It rests on one of two assumptions about rewards. With `bounds`, all rewards lie between them
    (a summary that cannot is refused), and plans are provisional: an outcome that is outstanding is
    entered at the reward that hurts most until it comes. Without, the noise is sub-Gaussian with
    scale `problem.noise`, |ν_t| ≤ `problem.baseline` and |x_a·θ| ≤ `mean_bound` for every source
    arm; a summary that contradicts this is taken, and no error bound is claimed from then on.

    Args:
        problem: the problem.
        bounds: the lowest and the highest possible reward; None if rewards are unbounded.
        mean_bound: without `bounds`: a bound on |x_a·θ|; the problem's scale by default.
        top: how many targets to name: the set of the m best.
        tolerance: how much worse than the m-th best a named target may be, in reward units.
        seed: accepted like every policy's; nothing is drawn.
        max_pulls: stop at this many pulls; such a stop is final only if all was shown by then. A
            live experiment that keeps many out may exceed it, by less than the last plan asks for.
        missing: what an outcome that never comes means: `"ignorable"` if losing it depends neither
            on the arm nor on the reward, `"worst-case"` to enter it at the bound that hurts most.

    Example:
        >>> from bestarm import AnytimeBAI, Problem
        >>> policy = AnytimeBAI(Problem([[1, 0], [0, 1]], delta=0.05), bounds=(0, 1))
        >>> policy.plan().weights.tolist()
        [0.5, 0.5]

    Reference: Waudby-Smith and Ramdas (2024) and Howard et al. (2021) for betting and its empirical
    Bernstein form; the theorem and its proof are in the documentation.
    """

    version: ClassVar[int] = 2

    def __init__(
        self,
        problem: Problem,
        *,
        bounds: tuple[float, float] | None = None,
        mean_bound: float | None = None,
        top: int = 1,
        tolerance: float = 0.0,
        seed: int = 0,
        max_pulls: int | None = None,
        missing: Literal["ignorable", "worst-case"] = "ignorable",
    ) -> None:
        self.problem = as_problem(problem)
        whole(seed, "seed", least=0)
        self._top = whole(top, "top", least=1, below=problem.targets)
        self._tolerance = not_negative(tolerance, "tolerance")
        self._max_pulls = None if max_pulls is None else whole(max_pulls, "max_pulls", least=1)
        self._bounds = None if bounds is None else interval(bounds, "bounds")
        self._mean_bound = mean_bound
        self._assumptions = Assumptions.make(problem, self._bounds, mean_bound)
        self._scale = self._assumptions.scale
        choice(missing, ("ignorable", "worst-case"), "missing")
        if missing == "worst-case" and self._bounds is None:
            raise InvalidInputError(
                "Without `bounds` a missing reward has no worst value.",
                field="missing",
                value=missing,
                remedy="Give `bounds`, or missing='ignorable'.",
            )
        self._worst_case = missing == "worst-case"
        self._missing = 0
        span = problem.span
        self._arms = span.coordinates(problem.source)
        self._targets = span.contrast_coordinates(problem.target - problem.target[0])
        self._guesses = Guesses(self._arms, self._scale)
        self._allocation = Allocation(problem, self._arms)
        self._contest = self._make_contest()
        self._past: list[BatchOutcome] = []
        self._plans = 0
        self._pulls = 0  # drawn
        self._outcomes = 0
        self._pending = 0
        self._open: _Open | None = None
        self._before: _Open | None = None  # the plan before: pulls under it may still come in
        self._outstanding: dict[int, _Open] = {}  # plans with pulls that are pending
        self._contradicted = False
        self._stopped: str | None = None

    def _make_contest(self) -> Contest:
        if self.traits.names_the_best:
            return BestOf(self._targets, level=self._level)
        return TopOf(self._targets, level=self._level, top=self._top, tolerance=self._tolerance)

    @property
    def _level(self) -> float:
        """The log of the e-value that drops a target."""
        delta, targets = self.problem.delta, self.problem.targets
        if self._top == 1 and not self._tolerance:
            return -math.log(delta)
        return -math.log(thresholds.set_delta(delta, targets=targets, top=self._top))

    @property
    def traits(self) -> Traits:
        """What the policy declares about itself."""
        return Traits(
            version=self.version,
            bounds=self._bounds,
            mean_bound=self._mean_bound,
            names=self._top,
            margin=self._tolerance,
            evidence_needed=self._level,
            max_pulls=self._max_pulls,
        )

    def plan(self) -> Plan | None:
        """The next batch, or None once the policy has stopped."""
        if self._stopped is not None:
            return None
        if self._open is None:
            weights = self._allocation.weights(
                self._guesses,
                wanted=self._contest.wanted,
                margin=self._tolerance,
                key=self._contrasts_key(),
            )
            most = None if self._max_pulls is None else self._max_pulls - self._pulls
            self._open = self._prepare(
                Plan.randomised(
                    weights,
                    self._next_size(most),
                    phase=self._plans + 1,
                    open=True,
                    most=most,
                    provisional=self._bounds is not None,
                    center=self._scale.center,
                )
            )
        return self._open.plan

    def adopt(self, plan: Plan) -> None:
        """Make a recorded plan the current one: bets use its probabilities, to the last bit."""
        phase = None if self._stopped is not None else self._plans + 1
        check_adoptable(plan, self.problem, phase=phase, kind="randomised")
        if self._open is None or not same_plan(self._open.plan, plan):
            self._open = self._prepare(plan)

    def _contrasts_key(self) -> object:
        """A key that changes when other contrasts are open."""
        return tuple(self._contest.chosen.tolist()), len(self._contest.active)

    def _prepare(self, plan: Plan) -> _Open:
        """Fix all that bets on a plan rest on, from the past and the plan alone."""
        assert plan.weights is not None
        try:
            stage = self._allocation.stage(plan.weights, self._guesses, self._contrasts_key())
        except np.linalg.LinAlgError:
            raise ProtocolError(
                f"The arms that the plan of phase {plan.phase} draws do not inform about all "
                "contrasts.",
                field="plan",
                value=plan.phase,
                remedy="Adopt a plan that this policy made for this problem.",
            ) from None
        frame = Frame(
            stage.sampling,
            guess=self._guesses.rewards(plan.pulls),
            spread=self._guesses.spread,
            scale=self._scale,
            size=plan.pulls,
            pulls=self._pulls,
        )
        return _Open(plan, frame, self._contest.stake(frame), stage)

    def _next_size(self, most: int | None) -> int:
        size = int(min(_GROWTH * self._pulls, self._guesses.longest()))
        size = max(size, _LEAST * (self.problem.rank + 1))
        # With nothing left to draw the plan stands for the wait for what is outstanding.
        return size if most is None else max(1, min(size, most))

    def update(self, summary: Summary) -> None:
        """Take the outcome of the current plan: bet, drop, decide whether to continue.

        Args:
            summary: the totals of the plan's pulls: as many as it asks for, or more.
        """
        if self.plan() is None or self._open is None:
            raise has_stopped()
        drawn = self._open
        drawn.plan.check(summary)
        self._check_rewards(summary)
        self._enter(drawn, summary)
        self._plans += 1
        self._allocation.keep(drawn.stage)
        self._before, self._open = drawn, None
        if summary.pending.any():
            self._outstanding[drawn.plan.phase] = drawn
        self._decide()

    def amend(self, summary: Summary, *, phase: int) -> None:
        """Take further outcomes of pulls that were drawn under the plan of an earlier phase.

        They change what is known, but not the current plan, which may be out already. With `bounds`
        they are of pulls that were pending; without, of further pulls under the plan before.

        Args:
            summary: the totals of these outcomes alone.
            phase: the phase of the plan.
        """
        if self.plan() is None:
            raise has_stopped()
        drawn = self._before if self._bounds is None else self._outstanding.get(phase)
        if drawn is None or drawn.plan.phase != phase:
            raise ProtocolError(
                f"No outcome of phase {phase} is awaited.",
                field="phase",
                value=phase,
                remedy="Amend only phases whose outcomes are outstanding.",
            )
        drawn.plan.check(summary, beyond=True)
        self._check_rewards(summary)
        if self._bounds is None:
            self._enter(drawn, summary)
        else:
            place = phase - 1  # one batch per phase
            before = self._past[place]
            after = BatchOutcome(drawn.frame, before.summary.amended(summary), self._worst_case)
            self._past[place] = after
            if not after.pending:
                del self._outstanding[phase]
            self._contest.amend(place, before, after)
            self._guesses.learn(BatchOutcome(drawn.frame, summary), late=True)
            self._count(summary)
            self._pending -= int(summary.counts.sum() + summary.missing.sum())
        self._decide()

    def _enter(self, drawn: _Open, summary: Summary) -> None:
        batch = BatchOutcome(drawn.frame, summary, self._worst_case)
        self._contest.settle(drawn.stakes, batch)
        self._guesses.learn(batch)
        self._past.append(batch)
        self._pulls += int(summary.drawn.sum())
        self._pending += int(summary.pending.sum())
        self._count(summary)

    def _count(self, summary: Summary) -> None:
        self._outcomes += summary.pulls
        self._missing += int(summary.missing.sum())

    def _decide(self) -> None:
        """Order the targets anew, and stop if there is nothing more to do."""
        self._contest.rank(self._targets @ self._guesses.slope, self._past)
        if self._contest.decided:
            self._stopped = "identified"
        elif self._max_pulls is not None and self._pulls >= self._max_pulls and not self._pending:
            self._stopped = "max_pulls"

    def _check_rewards(self, summary: Summary) -> None:
        """Raise, or withdraw the claim, if no rewards within the scale have these totals."""
        labels = self.problem.source_labels
        self._contradicted |= self._assumptions.contradicted_by(summary, labels)

    def evidence(self) -> Array:
        """The e-value of each target: the wealth gathered against it; 1/δ drops it.

        With `top` above 1 or a `tolerance`: the least wealth of the pairs that decide on it.
        """
        return np.exp(np.minimum(self._contest.log_evidence(), 700.0))

    def intervals(self) -> Intervals:
        """How far the leader is ahead of every target, with ends that hold at every moment at once.

        The probability that any contrast, of any two targets, ever lies outside the interval given
        for it is at most δ, at whatever moments they are read.
        """
        leader = int(self._contest.chosen[0])
        rows = self._targets[leader] - self._targets
        others = np.arange(len(rows)) != leader
        share = thresholds.pairs_delta(self.problem.delta, targets=len(rows))
        low, high = np.zeros((2, len(rows)))
        low[others] = lower_ends(rows[others], self._past, level=-math.log(share))
        high[others] = -lower_ends(-rows[others], self._past, level=-math.log(share))
        estimate = rows @ self._guesses.slope
        return Intervals(leader, estimate, low, high, self.problem.delta)

    def look(self) -> Look:
        """The leader, contrasts, intervals and evidence of every target now."""
        found = self.intervals()
        with np.errstate(divide="ignore"):
            evidence = np.log(self.evidence())
        return Look(found.leader, found.estimate, found.low, found.high, evidence)

    def recommend(self) -> Recommendation:
        """The leader, or the leading set; final once it is shown to be right."""
        chosen = tuple(self._contest.chosen.tolist())
        final = self._stopped == "identified"
        return Recommendation(
            target=chosen[0],
            label=self.problem.target_labels[chosen[0]],
            final=final,
            reason=self._stopped or "running",
            pulls=self._pulls,
            error_bound=self.problem.delta if final and not self._contradicted else None,
            active=chosen if final else tuple(self._contest.active.tolist()),
            chosen=chosen,
            assumptions=(*self._assumptions.sentences, *self._of_losses()),
            statement=self._statement(final),
            claims=self.problem.delta,
            contradicted=self._contradicted,
        )

    def _of_losses(self) -> tuple[str, ...]:
        if self._worst_case or not self._missing:
            return ()
        return (
            f"Which outcomes never came ({self._missing:,} so far) depends neither on the "
            "option drawn nor on the reward.",
        )

    def _statement(self, final: bool) -> str:
        if self._contradicted:
            return (
                "Rewards contradict the declared scales, so nothing is proven. Declare a larger "
                "`noise`, `baseline` or `mean_bound`."
            )
        labels = [repr(self.problem.target_labels[i]) for i in self._contest.chosen]
        names, many, targets = ", ".join(labels), self._top > 1, self.problem.targets
        if not self._outcomes:
            return f"Not decided: no outcome of the {targets} options is in yet."
        if not final:
            leads = "lead" if many else "leads"
            return (
                f"Not decided after {self._outcomes} outcomes: {names} {leads}, "
                f"{len(self._contest.active)} of {targets} options are left."
            )
        claim = f"{names} are the {self._top} best" if many else f"{names} is the best"
        if self._tolerance:
            who, whom = (
                (f"Each of {names}", f"{_ordinal(self._top)} best") if many else (names, "best")
            )
            claim = f"{who} is at most {self._tolerance:g} worse than the {whom}"
        return (
            f"{claim} of {targets} options. The probability that this rule ever says so wrongly, "
            f"at any of its looks, is at most {self.problem.delta:g}."
        )


def _ordinal(number: int) -> str:
    teen = number % 100 in (11, 12, 13)
    return f"{number}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"
