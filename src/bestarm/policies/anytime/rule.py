"""AnytimeBAI: certified at every look, under any baseline that is set before the draw.

This file has the order of the steps. For a batch of pulls these are

1. plan: `sampler` chooses the probabilities, from what `estimates` knows, and `bets.Frame` fixes
   all that bets on the batch rest on;
2. update, or amend: `bets` settles the bets, and `evidence` adds up wealth and drops targets;
3. learn: `estimates` takes in the batch, once nearly all of its outcomes are in.

`assumptions` says what rewards are taken to be, `readout` how a contrast is read off a pull, and
`intervals` what is known meanwhile. Other files are for one option each: `blocks` and `block_bets`
for rounds of several arms, `certificates` for a tolerance and for several best targets, `eras`
for options that come and go. `group` makes many runs at a time, for simulations, of the same parts.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from bestarm.bounds import change_shares, set_delta, tolerance_shares
from bestarm.checks import interval, not_negative, positive, whole
from bestarm.errors import ProtocolError
from bestarm.numerics.geometry import Array, Indices
from bestarm.policies.anytime.assumptions import (
    Assumptions,
    Question,
    check_options,
    check_plan_options,
)
from bestarm.policies.anytime.bets import SLACK, StakeGrid
from bestarm.policies.anytime.blocks import BlockSampler
from bestarm.policies.anytime.certificates import (
    Evidence,
    GoodEnoughEvidence,
    TopTargetsEvidence,
)
from bestarm.policies.anytime.conclusion import conclusion
from bestarm.policies.anytime.eras import Era, next_era
from bestarm.policies.anytime.evidence import (
    BestTargetEvidence,
    EffectMeasurement,
    EndedRun,
    LevelEvidence,
    PlacedBets,
    TargetCoordinates,
)
from bestarm.policies.anytime.group import AnytimeGroup
from bestarm.policies.anytime.intervals import (
    ControlEffect,
    Intervals,
    average_rates,
    complete_batches,
    find_control,
    lead_intervals,
    targets_are_arms,
    widest_lead,
)
from bestarm.policies.anytime.sampler import (
    Config,
    IndependentSampler,
    RunState,
    coordinates,
    span_of,
)
from bestarm.policies.policy import (
    GroupForecaster,
    Look,
    Policy,
    Rates,
    Traits,
    cannot_change,
    check_adoptable,
    has_stopped,
    same_plan,
)
from bestarm.problem import Problem, as_problem
from bestarm.recommendation import FINAL, Effect, Recommendation
from bestarm.records import Plan, Summary
from bestarm.units import Unit

_LATE_SHARE = 1 / 20  # of the outcomes of a batch may be outstanding when it is learned from, …
_OLD_LATE_SHARE = 1 / 4  # … and once as many pulls again were drawn
# Where stakes are centred, in units of signal to noise: over √(1 + rank), unless a level is known
# so well that pulls far apart say much of a contrast; for blocks as it is; for a finite population
# over √items, at most, since it has no smaller gaps than that to show.
_LIKELY, _LIKELY_BOUNDED = 0.06, 0.03
_KNOWN_LEVEL = 0.1  # of a deviation of the noise: a baseline that may move by no more than this
_LIKELY_OF_BLOCKS, _LIKELY_OF_ITEMS, _MOST_LIKELY = 0.02, 6.0, 0.3


class OpenPlan(NamedTuple):
    """A plan given out, with what was fixed before it was drawn."""

    plan: Plan
    drawn: Plan  # the same, over the options of its era alone
    frame: Any  # a `Frame`, or a `BlockFrame`
    bets: list[PlacedBets]
    learned: Any  # what estimates rested on: see `Sampler.learned`
    era: Era


class AnytimeBAI(Policy):
    """Best-arm identification with a proven error probability and no constant to tune.

    Every target's wealth bets, batch by batch, that it is not the best; a target whose wealth
    reaches 1/δ is dropped, and the last one left is named. The probability that this is ever wrong
    is at most δ, at any number of looks, under every baseline that is fixed before the arm is
    drawn. Estimates of θ, of the baseline and of the noise only make it quick. Plans are open.

    With `block=k` every round pulls k different arms under one baseline, which cancels: it may be
    unbounded, and even react to the block. Plans are then `BlockPlan`s, and outcomes `Rounds`.

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
        seed: runs of simulations draw arms from it; nothing else is drawn.
        max_pulls: stop at this many pulls; such a stop is final only if all was shown by then. A
            live experiment that keeps many out may exceed it, by less than the last plan asks for.
        missing: what an outcome that never comes means: `"ignorable"` if losing it depends neither
            on the arm nor on the reward, `"worst-case"` to enter it at the bound that hurts most.
        forecasts: whether a forecast, fixed before the draw, is subtracted from every reward.
        block: the number of arms that a round pulls.
        items: the number of items there are, if rounds are drawn from a finite population without
            replacement. Every option left is judged on each item drawn, and its value is its mean
            over all items; once all are judged, the best mean is named. An outcome that never comes
            is then always entered at the bound that hurts most.
        control: the name of the target that effects are measured against. A tenth of δ is spent on
            them. With a `tolerance`, the rule then also stops once no target is shown to be better
            than the control by more than that.
        precision: once the best is named, go on until half the width of the interval of its lead
            over the control is at most this, in reward units. The verdict stands meanwhile. The
            interval holds at every moment at once, so stopping by its width is valid.
        level: with `bounds`: what the baseline is known to lie within `problem.baseline` of; None
            lets it be anything that fits. (Without bounds that level is always 0.) The smaller the
            distance, the fewer pulls, down to those of a linear bandit, where features cannot
            express a level that all arms share.
        changes: whether options may be added and retired while it runs. A reserve of 9 % of δ is
            kept for what is decided after a change: 0.094 nats more evidence are needed before.
        floors: the least probability that options are drawn with, by name, until they are retired.

    Example:
        >>> from bestarm import AnytimeBAI, Problem
        >>> policy = AnytimeBAI(Problem([[1, 0], [0, 1]], delta=0.05), bounds=(0, 1))
        >>> policy.plan().weights.tolist()
        [0.5, 0.5]

    Reference: Waudby-Smith and Ramdas (2024) and Howard et al. (2021) for betting and its empirical
    Bernstein form; the theorem and its proof are in the documentation.
    """

    version: ClassVar[int] = 8

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
        forecasts: bool = False,
        control: str | None = None,
        precision: float | None = None,
        block: int = 1,
        items: int | None = None,
        level: float | None = None,
        changes: bool = False,
        floors: Mapping[str, float] | None = None,
    ) -> None:
        self.problem = as_problem(problem)
        whole(seed, "seed", least=0)  # `group` takes those of its runs
        self._top = whole(top, "top", least=1, below=problem.targets)
        self._tolerance = not_negative(tolerance, "tolerance")
        self._max_pulls = None if max_pulls is None else whole(max_pulls, "max_pulls", least=1)
        self._bounds = None if bounds is None else interval(bounds, "bounds")
        self._mean_bound = mean_bound
        self._block = whole(block, "block", least=1, below=problem.arms + 1)
        self._precision = None if precision is None else positive(precision, "precision")
        self._items = None if items is None else whole(items, "items", least=1)
        check_options(
            problem,
            bounds=bounds,
            missing=missing,
            forecasts=forecasts,
            control=control,
            precision=precision,
            block=self._block,
            items=items,
            max_pulls=max_pulls,
            level=level,
            single=self._top == 1 and not self._tolerance,
            changes=changes,
            floors=floors,
        )
        # A bound on the baseline helps where its level is known and does not cancel anyway.
        known_level = (bounds is None or level is not None) and self._block == 1 and not forecasts
        self._tilted = known_level and problem.drifts and not problem.expresses_level
        self._assume = partial(
            Assumptions.make,
            bounds=self._bounds,
            mean_bound=mean_bound,
            blocks=self._block > 1,
            items=self._items,
            level=level,
            tilted=self._tilted,
        )
        self._assumptions = self._assume(
            problem, question=Question(self._top, self._tolerance, control is not None)
        )
        self._scale = self._assumptions.scale
        # Of a finite population, no item may be left out.
        self._worst_case = missing == "worst-case" or self._items is not None
        self._forecasts, self._floors = forecasts, dict(floors or {})
        self._grid = StakeGrid.around(self._likely_stake)
        index = None if control is None else find_control(problem, control, names=self._top)
        self._era, self._eras = self._first_era(index), 0  # changes so far
        self._carried = False  # whether estimates rest on batches before the last change as well
        self._targets = TargetCoordinates(self._era.config.targets)
        self._effects = None
        if index is not None:
            known = problem, index, self._era.config.arms, self._targets, self._grid
            self._effects = ControlEffect(*known, changes=changes)
        spent = problem.delta if self._effects is None else self._effects.shares.decision
        self._shares = change_shares(spent) if changes else None
        self._threshold, self._evidence = self._begin_evidence(spent, index)
        self._level_evidence = LevelEvidence()
        # Batches, as the sampler makes them, and the arms that have an outcome.
        self._past, self._answered = list[Any](), set[int]()
        self._plans = self._pulls = self._rounds = 0  # drawn
        self._outcomes = self._pending = self._missing = 0
        self._learned = self._learned_pulls = 0  # the first batches, that estimates rest on
        self._open: OpenPlan | None = None
        # Plans under which pulls may still come in, without `bounds`: the plan before, and those
        # before it where a plan closed with nothing because options changed.
        self._extended: dict[int, OpenPlan] = {}
        self._outstanding: dict[int, OpenPlan] = {}  # plans with pulls that are pending
        self._contradicted = self._measuring = False
        self._binary = not forecasts and self._bounds == (0.0, 1.0)
        self._stopped: str | None = None
        self._exact: tuple[int, ...] | None = None  # the best of all items
        self._tied: tuple[int, ...] = ()

    def _begin_evidence(self, spent: float, control: int | None) -> tuple[float, Evidence]:
        """The log of the e-value that drops a target, and the evidence, for a share of δ."""
        targets, grid, tolerance = self._targets, self._grid, self._tolerance
        if self._top > 1:
            each = set_delta(spent, targets=len(targets), top=self._top)
            threshold = -math.log(each)
            return threshold, TopTargetsEvidence(
                targets, threshold=threshold + SLACK, top=self._top, tolerance=tolerance, grid=grid
            )
        parted = tolerance_shares(spent, control=control is not None)
        spent = parted.dropping if tolerance else spent
        threshold = -math.log(spent if self._shares is None else self._shares.unchanged)
        level = threshold + SLACK
        if not tolerance:
            shares = self._shares
            return threshold, BestTargetEvidence(targets, threshold=level, grid=grid, shares=shares)
        return threshold, GoodEnoughEvidence(
            targets,
            threshold=level,
            grid=grid,
            tolerance=tolerance,
            share=parted.leaders,
            control=None if control is None else (control, parted.control),
        )

    def _first_era(self, control: int | None) -> Era:
        """All options, and how they are drawn; `eras.next_era` has those after a change."""
        problem, tilted = self.problem, self._tilted
        arms, features, targets = coordinates(problem, tilted)
        config = Config(
            problem=problem,
            assumptions=self._assumptions,
            arms=arms,
            features=features,
            targets=targets,
            grid=self._grid,
            margin=self._tolerance,
            worst_case=self._worst_case,
            bound=problem.baseline if tilted else math.inf,
        )
        sampler = (
            IndependentSampler(config, forecasts=self._forecasts, floors=self._floors)
            if self._block == 1
            else BlockSampler(
                config,
                block=self._block,
                control=control,
                drops=self._top == 1,
                items=self._items,
            )
        )
        return Era(None, config, sampler)

    @property
    def _sampler(self) -> IndependentSampler | BlockSampler:
        sampler: IndependentSampler | BlockSampler = self._era.sampler
        return sampler

    @property
    def _estimates(self) -> Any:
        return self._sampler.estimates

    @property
    def _likely_stake(self) -> float:
        """Where stakes are centred."""
        if self._items is not None:
            return min(_LIKELY_OF_ITEMS / math.sqrt(self._items), _MOST_LIKELY)
        if self._block > 1:
            return _LIKELY_OF_BLOCKS
        likely, problem = _LIKELY if self._bounds is None else _LIKELY_BOUNDED, self.problem
        known = not problem.drifts
        if self._bounds is None:
            known = problem.baseline <= _KNOWN_LEVEL * problem.noise
        if known and not problem.expresses_level:
            return likely
        return likely / math.sqrt(1 + problem.rank)

    @property
    def _side_by_side(self) -> bool:
        """Whether simulations can make many of its runs at a time."""
        plain = self._block == 1 and self._effects is None
        return plain and self._top == 1 and not self._tolerance

    @property
    def _run_state(self) -> RunState:
        most = None if self._max_pulls is None else self._max_pulls - self._pulls
        return RunState(self._plans + 1, self._pulls, self._rounds, most)

    @property
    def traits(self) -> Traits:
        """What the policy declares about itself."""
        return Traits(
            version=self.version,
            blind=not self.problem.drifts,
            bounds=self._bounds,
            mean_bound=self._mean_bound,
            names=self._top,
            margin=self._tolerance,
            evidence_needed=self._threshold,
            precision=self._precision,
            max_pulls=self._max_pulls,
            side_by_side=self._side_by_side,
            changes=self._shares is not None,
            control=None if self._effects is None else self._effects.control,
        )

    def has_stopped(self) -> bool:
        """Whether it has its answer, or spent its pulls."""
        return self._stopped is not None

    def plan(self) -> Plan | None:
        """The next batch, or None once the policy has stopped."""
        if self._stopped is not None:
            return None
        if self._open is None:
            plan = self._sampler.plan(self._evidence, self._run_state)
            self._open = self._prepare(self._era.widen(plan))
        return self._open.plan

    def adopt(self, plan: Plan) -> None:
        """Make a recorded plan the current one: bets use its probabilities, to the last bit."""
        phase = None if self._stopped is not None else self._plans + 1
        check_adoptable(plan, self.problem, phase=phase, kind="randomised")
        check_plan_options(
            plan,
            provisional=self._bounds is not None,
            forecasts=self._forecasts,
            blocks=self._block > 1,
        )
        if self._open is None or not same_plan(self._open.plan, plan):
            self._open = self._prepare(plan)

    def _prepare(self, plan: Plan) -> OpenPlan:
        """Fix all that bets on a plan rest on, from the past and the plan alone."""
        drawn = self._era.narrow(plan)
        frame = self._sampler.prepare(drawn, self._evidence, self._run_state)
        bets, learned = self._evidence.place_bets(frame), self._sampler.learned
        return OpenPlan(plan, drawn, frame, bets, learned, self._era)

    def update(self, summary: Summary) -> None:
        """Take the outcome of the current plan: bet, drop, decide whether to continue.

        Args:
            summary: the totals of the plan's pulls: as many as it asks for, or more; or fewer,
                where options may change.
        """
        if self.plan() is None or self._open is None:
            raise has_stopped()
        drawn = self._open
        drawn.plan.check(summary, beyond=self._shares is not None)
        self._take_in(drawn, summary)
        self._plans += 1
        self._sampler.keep(drawn.frame, drawn.learned)
        self._open = None
        if summary.rounds:
            self._extended.clear()  # whoever tells of this one has told of all before it
        self._extended[drawn.plan.phase] = drawn
        if summary.pending_pulls:
            self._outstanding[drawn.plan.phase] = drawn
        self._answered.update(np.flatnonzero(summary.counts).tolist())
        self._decide()

    def amend(self, summary: Summary, *, phase: int) -> None:
        """Take further outcomes of pulls that were drawn under the plan of an earlier phase.

        They change what is known, but not the current plan, which may be out already. With `bounds`
        they are of pulls that were pending; without, of further pulls under the plan before.

        Args:
            summary: the totals of these outcomes alone; of rounds with pulls that were pending,
                all rounds of the phase once more.
            phase: the phase of the plan.
        """
        if self.plan() is None:
            raise has_stopped()
        drawn = (self._extended if self._bounds is None else self._outstanding).get(phase)
        if drawn is None:
            raise ProtocolError(
                f"No outcome of phase {phase} is awaited.",
                field="phase",
                value=phase,
                remedy="Amend only phases whose outcomes are outstanding.",
            )
        drawn.plan.check(summary, beyond=True)
        answered = np.flatnonzero(summary.counts).tolist()
        if self._bounds is None:
            self._take_in(drawn, summary)
        else:
            place = phase - 1  # one batch per phase
            before, summary = self._past[place], drawn.era.narrow_summary(summary)
            after = drawn.era.sampler.amended(before, summary)
            self._contradicted |= drawn.era.sampler.contradicted_by(drawn.frame, summary)
            self._past[place] = after
            if not after.pending:
                del self._outstanding[phase]
            self._evidence.amend(place, before, after)
            self._check_baseline(drawn.era, before, after)
            drawn.era.sampler.record(before, after)
            if place < self._learned:
                drawn.era.sampler.relearn(place, before, after, summary)
            else:
                self._learn()
            self._count(after.summary, 1)
            self._count(before.summary, -1)
        self._answered.update(answered)
        self._decide()

    def like(self) -> Hashable:
        """Problem and options: a known level of the baseline is part of the assumptions."""
        return super().like(), self._assumptions, tuple(sorted(self._floors.items()))

    def group(
        self, seeds: Sequence[int], forecaster: GroupForecaster | None = None
    ) -> AnytimeGroup:
        """Runs of this rule side by side; arms are drawn from the seeds."""
        assert isinstance(self._sampler, IndependentSampler)
        if self._forecasts != (forecaster is not None):
            raise ProtocolError(
                "A rule for rewards less forecasts needs a forecaster, and no other rule does.",
                field="forecasts",
                value=self._forecasts,
                remedy="Give `simulate` a forecaster, and leave the option `forecasts` to it.",
            )
        return AnytimeGroup(
            self._era.config,
            seeds,
            floors=self._floors,
            threshold=self._threshold + SLACK,
            most=self._max_pulls,
            recommend=self._recommend_of,
            forecaster=forecaster,
        )

    def _recommend_of(self, ended: EndedRun) -> Recommendation:
        """What this rule would recommend after a run of a group."""
        rule = copy(self)
        known: Any = ended
        rule._evidence, rule._contradicted = known, ended.contradicted
        rule._stopped = "identified" if len(ended.active) == 1 else "max_pulls"
        rule._pulls = rule._rounds = rule._outcomes = ended.pulls
        rule._plans, rule._binary = ended.plans, False
        # Its batches are not kept.
        rule._carried, rule._answered = True, set(range(self.problem.arms))
        return rule.recommend()

    def _count(self, summary: Summary, sign: int) -> None:
        self._binary = self._binary and summary.is_binary
        self._outcomes += sign * summary.pulls
        self._missing += sign * summary.missing_pulls
        self._pending += sign * summary.pending_pulls

    def _take_in(self, drawn: OpenPlan, summary: Summary) -> None:
        """Take in a summary; raise, or withdraw the claim, if it contradicts itself or A3."""
        summary = drawn.era.narrow_summary(summary)
        self._contradicted |= drawn.era.sampler.contradicted_by(drawn.frame, summary)
        batch = drawn.era.sampler.outcome(drawn.frame, summary)
        self._targets.record(drawn.era.config.targets)
        self._evidence.settle(drawn.bets, batch)
        self._check_baseline(drawn.era, None, batch)
        self._past.append(batch)
        self._pulls += summary.pulls + summary.missing_pulls + summary.pending_pulls
        self._rounds += summary.rounds
        drawn.era.sampler.record(None, batch)
        self._learn()
        self._count(summary, 1)

    def _check_baseline(self, era: Era, before: Any | None, after: Any) -> None:
        """Withdraw the claim if a batch, or what it is now, contradicts the declared baseline."""
        if not era.tilted:
            return
        frame = after.frame
        growth = frame.settle_level(after.totals, capped=after.may_be_lost).growth
        if before is not None:
            capped = before.may_be_lost
            growth = growth - frame.settle_level(before.totals, capped=capped).growth
        self._contradicted |= bool(self._level_evidence.add(growth)[0])

    def _learn(self) -> None:
        """Learn from all batches up to the last one of which nearly all outcomes are in.

        What comes early may be selected by its reward: estimates from it would lose bets. Of
        the batches before that one, too, nearly all must be in, so that a short one cannot be
        complete by chance.
        """
        drawn = self._learned_pulls
        settled, waiting, ready = 0, 0, self._learned
        for number, batch in enumerate(self._past[self._learned :], start=self._learned):
            summary = batch.summary
            pending, pulls = summary.pending_pulls, summary.pulls + summary.missing_pulls
            settled, waiting, drawn = settled + pulls, waiting + pending, drawn + pulls + pending
            allowed = _LATE_SHARE if 2 * drawn > self._pulls else _OLD_LATE_SHARE
            if pending <= allowed * (pulls + pending) and waiting <= allowed * (settled + waiting):
                ready, self._learned_pulls = number + 1, drawn
        for number in range(self._learned, ready):
            if self._targets.uses_current_options(number):
                self._sampler.learn(number, self._past[number], self._pulls)
        self._learned = ready

    def _decide(self) -> None:
        """Order the targets anew, and stop if there is nothing more to do."""
        evidence = self._evidence
        evidence.rank(self._estimates.slope[0], self._past)
        if self._measuring:
            self._stopped = None if self._is_imprecise() else "identified"
        elif self._effects is not None and isinstance(evidence, GoodEnoughEvidence):
            # Two verdicts: the control is good enough, or another is shown to be better.
            if evidence.control_is_good_enough:
                self._stopped = "equivalent"
            elif evidence.shows_the_best:  # and it is not the control, which is good enough then
                self._stopped = "identified"
            elif evidence.decided:
                effect = self._effect(int(evidence.chosen[0]), final=True)
                if effect is not None and effect.lower > 0:
                    self._stopped = "identified"
        elif self._evidence.decided:
            self._stopped = "identified"
        if self._stopped == "identified" and self._effects is not None and self._is_imprecise():
            assert isinstance(evidence, BestTargetEvidence)
            target = int(evidence.chosen[0])
            self._evidence = EffectMeasurement(evidence, target, self._effects.control)
            self._stopped, self._measuring = None, True
        if self._stopped is None and not self._pending:
            self._stop_at_the_last_item()
        left = math.inf if self._max_pulls is None else self._max_pulls - self._pulls
        spent = self._stopped is None and left < self._sampler.smallest(self._evidence)
        if spent and not self._pending:
            self._stopped = "identified" if self._measuring else "max_pulls"

    def _is_imprecise(self) -> bool:
        """Whether the interval of the effect is still wider than was asked for."""
        if self._precision is None:
            return False
        effect = self._effect(int(self._evidence.chosen[0]), final=True)
        return effect is not None and effect.upper - effect.lower > 2 * self._precision

    @property
    def _reason(self) -> str:
        return self._stopped or ("measuring" if self._measuring else "running")

    def _stop_at_the_last_item(self) -> None:
        """Stop if all items of a finite population are judged."""
        known = self._sampler.population if isinstance(self._sampler, BlockSampler) else None
        if known is None or known.seen < known.items:
            return
        left = self._judged_targets
        self._exact, self._tied = known.best(left, top=self._top, tolerance=self._tolerance)
        self._stopped = "exhausted" if self._exact is None else "exact"

    @property
    def _judged_targets(self) -> Indices:
        """Of a finite population, the targets that every item drawn so far was judged for.

        To name several, no target ever leaves the blocks.
        """
        if self._top > 1:
            return np.arange(self.problem.targets)
        return np.sort(self._evidence.active)

    def evidence(self) -> Array:
        """The evidence against each target; it is dropped at `exp(traits.evidence_needed)`.

        The wealth gathered against it: an e-value, whose mean is at most 1 for a target that is the
        best. While outcomes are outstanding, it is the largest of the last prefixes of the pulls.

        With `top` above 1: the least, over the pairs that decide on the target, of
        the largest wealth that the pair has had so far. That is **not** an e-value: compare it with
        what is needed, but do not average or multiply it.
        """
        return np.exp(np.minimum(self._evidence.log_evidence(), 700.0))

    def intervals(self) -> Intervals:
        """How far the leader is ahead of every target, with ends that hold at every moment at once.

        The probability that any contrast, of any two targets, ever lies outside the interval given
        for it is at most δ, at whatever moments they are read.

        """
        return lead_intervals(
            self._targets,
            self._named_targets[0],
            self._estimates.slope[0],
            self._past,
            grid=self._grid,
            delta=self.problem.delta,
            margin=self._shown_within if self._reason in FINAL and self._top == 1 else None,
            widest=widest_lead(self.problem, self._bounds),
            shares=None if self._shares is None else change_shares(self.problem.delta),
        )

    def look(self) -> Look:
        """The leader, contrasts, intervals and evidence of every target now."""
        found = self.intervals()
        evidence = self._evidence.log_evidence().copy()  # it is kept, and updated in place
        return Look(found.leader, found.estimate, found.low, found.high, evidence)

    def rates(self) -> Rates | None:
        """What every target would have paid on average in the rounds whose outcome is in.

        Where arms have names and no features, this rests on the draws and on `bounds` (or scales)
        alone: the baseline and the leads may move as they like. None with blocks, or where targets
        are not arms.
        """
        if self._block > 1 or self._contradicted:
            return None
        past = [
            batch for i, batch in enumerate(self._past) if self._targets.uses_current_options(i)
        ]
        known = any(batch.summary.pulls for batch in complete_batches(past))
        if not known or not targets_are_arms(self.problem):
            return None
        delta = self.problem.delta
        if self._shares is not None:
            shares = change_shares(delta)
            delta = shares.addition(self._eras) if self._eras else shares.unchanged
        problem = self._era.config.problem
        rates = average_rates(
            problem,
            past,
            arms=self._era.config.arms,
            targets=span_of(problem, self._era.tilted).coordinates(problem.target),
            slope=self._estimates.slope[0],
            scale=self._scale,
            delta=delta,
        )
        if (options := self._era.options) is not None:
            wide = np.full((3, self.problem.targets), np.nan)
            wide[:, options] = rates.estimate, rates.low, rates.high
            rates = replace(rates, estimate=wide[0], low=wide[1], high=wide[2])
        return replace(rates, binary=self._binary)

    # --- options that come and go ----------------------------------------------------------------

    def add(self, problem: Problem) -> None:
        """Go on with one more option. Evidence against the others goes on ("Changes")."""
        self._check_changes()
        same = as_problem(problem).dimension == self.problem.dimension
        features = problem.source[-1] if same else None
        if problem != self.problem.with_option(problem.source_labels[-1], features):
            raise ProtocolError(
                "The problem is not that of the policy with one more option.",
                field="problem",
                value=problem,
                remedy="Make it by policy.problem.with_option(…).",
            )
        self._take_back()
        self.problem = problem
        self._begin_era(np.append(self._targets.present, problem.targets - 1))
        assert isinstance(self._evidence, BestTargetEvidence)
        self._evidence.add()
        self._decide()

    def retire(self, target: int) -> None:
        """Go on without an option ("Changes"): if it was ruled out, nothing is lost by it."""
        self._check_changes()
        left = self._targets.present
        whole(target, "target", least=0, below=self.problem.targets)
        control = None if self._effects is None else self._effects.control
        if target not in left or target == control or len(left) == 1:
            raise ProtocolError(
                f"Option {target} is retired already, the control, or the last one.",
                field="target",
                value=target,
                remedy="Retire one of several that are left, and not the control.",
            )
        self._take_back()
        self._begin_era(left[left != target])
        assert isinstance(self._evidence, BestTargetEvidence)
        self._evidence.retire(target)
        self._decide()

    def _check_changes(self) -> None:
        """Raise unless options may change."""
        if self._shares is None:
            raise cannot_change(self)

    def _take_back(self) -> None:
        """Take back a plan, or a verdict, that was not yet acted on."""
        if isinstance(self._evidence, EffectMeasurement):
            self._evidence, self._measuring = self._evidence.before, False
        self._stopped, self._open = None, None

    def _begin_era(self, options: Indices) -> None:
        """Draw among these options from now on."""
        added = len(options) > len(self._targets.present)
        # Of one option and one that was added there is no contrast in common.
        self._carried = self._has_estimates and not (added and len(options) == 2)
        self._eras += 1
        if len(options) == 1:  # there is nothing left to draw for
            table = np.full_like(self._targets.now, np.nan)
            table[options] = self._targets.now[options]
            self._targets.change(table, len(self._past))
            return
        self._era = next_era(
            self._era,
            self.problem,
            options,
            tilted=self._tilted,
            forecasts=self._forecasts,
            floors=self._floors,
            carried=self._carried,
        )
        config = self._era.config
        self._targets.change(config.targets, len(self._past))
        self._learned, self._learned_pulls = len(self._past), self._pulls
        question = Question(control=self._effects is not None, changed=True)
        self._assumptions = self._assume(self.problem, question=question)
        if self._effects is not None:
            self._effects.change(config.problem, config.arms)

    @property
    def _shown_within(self) -> float:
        """How much worse than the best of those left a named target may be, by the decision."""
        evidence, chosen = self._evidence, self._evidence.chosen
        if isinstance(evidence, EffectMeasurement):  # late outcomes may rule out what it measures
            evidence = evidence.before
        shown = isinstance(evidence, GoodEnoughEvidence) and np.array_equal(evidence.active, chosen)
        return 0.0 if shown and self._reason != "equivalent" else self._tolerance

    @property
    def _named_targets(self) -> tuple[int, ...]:
        """The targets that it names, or would name now."""
        if self._exact is not None:
            return self._exact
        if self._stopped == "equivalent" and self._effects is not None:
            return (self._effects.control,)
        return tuple(self._evidence.chosen.tolist())

    def recommend(self) -> Recommendation:
        """The leader, or the leading set; final once it is shown to be right."""
        chosen, final = self._named_targets, self._reason in FINAL
        leads = self._has_estimates and (
            not self.problem.unstructured or self._answered.issuperset(chosen)
        )
        recommendation = Recommendation(
            target=chosen[0],
            label=self.problem.target_labels[chosen[0]],
            final=final,
            reason=self._reason,
            pulls=self._pulls,
            error_bound=self.problem.delta if final and not self._contradicted else None,
            active=chosen if final else tuple(self._evidence.active.tolist()),
            chosen=chosen,
            assumptions=self._assumptions.with_losses(0 if self._worst_case else self._missing),
            claims=self.problem.delta,
            contradicted=self._contradicted,
            effect=self._effect(chosen[0], final) if leads or final else None,
            rounds=self._rounds if self._block > 1 else None,
            tied=self._tied,
            leads=leads,
        )
        out = self.problem.targets - len(self._judged_targets)
        unit = Unit(percent=self._binary)
        known = self._outcomes, self._shown_within, self._items, out, unit
        retired = self.problem.targets - len(self._targets.present)
        statement = conclusion(recommendation, self.problem, retired, *known)
        return replace(recommendation, statement=statement)

    @property
    def _has_estimates(self) -> bool:
        """Whether estimates rest on an outcome."""
        learned = enumerate(self._past[: self._learned])
        return self._carried or any(
            batch.summary.pulls for i, batch in learned if self._targets.uses_current_options(i)
        )

    def _effect(self, target: int, final: bool) -> Effect | None:
        if self._effects is None or not self._has_estimates or self._contradicted:
            return None
        return self._effects.effect(
            target,
            self._estimates.slope[0],
            self._past,
            learned=self._learned,
            margin=self._shown_within if final else None,
            widest=widest_lead(self.problem, self._bounds),
        )
