"""Blocks: every round pulls several arms under one baseline, which cancels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bestarm.errors import ProtocolError
from bestarm.numerics.geometry import Array
from bestarm.policies.anytime.allocation import AGAIN, SOON, SURE
from bestarm.policies.anytime.assumptions import UNLIKELY, check_options_of
from bestarm.policies.anytime.block_bets import (
    BlockFrame,
    BlockOutcome,
    BlockSampling,
    Population,
)
from bestarm.policies.anytime.block_design import design_blocks
from bestarm.policies.anytime.block_guesses import BlockGuesses
from bestarm.policies.anytime.block_options import each_its_own
from bestarm.policies.anytime.contests import Contest
from bestarm.policies.anytime.drawing import GROWTH, LEAST, Course, Setting, key_of
from bestarm.records import BlockPlan, Blocks, Counts, Plan, Rounds, Summary


class BlockStage(NamedTuple):
    """How blocks are drawn from one design to the next.

    Attributes:
        sampling: how they are drawn.
        key: which contrasts were open when they were designed.
        rounds: how many rounds there were then.
    """

    sampling: BlockSampling
    key: object
    rounds: int


class InBlocks:
    """Several pulls a round: blocks of different arms.

    Args:
        setting: what it is made from.
        block: the number of arms in a block, or fewer where fewer are left.
        control: the control, which never leaves the blocks, or None.
        drops: whether targets that are out need not be pulled, where each is an arm of its own.
        items: the size of the finite population that rounds are drawn from, or None.
    """

    def __init__(
        self,
        setting: Setting,
        *,
        block: int,
        control: int | None,
        drops: bool,
        items: int | None = None,
    ) -> None:
        self._setting, self._block, self._control = setting, block, control
        self._drops = drops and each_its_own(setting.problem)
        self._scale = setting.assumptions.scale
        self._provisional = setting.assumptions.bounds is not None
        self._items = items
        self.population: Population | None = None
        if items is not None:
            self.population = Population(items, 0, *np.zeros((2, setting.problem.arms)))
        self.guesses = BlockGuesses(setting.arms, self._scale)
        self._stage: BlockStage | None = None

    def _left(self, contest: Contest) -> Counts:
        """The arms that may be pulled."""
        if not self._drops:
            return np.arange(self._setting.problem.arms)
        kept = [] if self._control is None else [self._control]
        return np.union1d(contest.active, np.array(kept, dtype=np.int64))

    def smallest(self, contest: Contest) -> int:
        """One block."""
        return min(self._block, len(self._left(contest)))

    def plan(self, contest: Contest, course: Course) -> BlockPlan:
        """The next batch of rounds."""
        left = self._left(contest)
        size = min(self._block, len(left))
        blocks, chances = self._blocks(contest, left, size)
        dimensions = self._setting.arms.shape[1] + 1
        rounds = max(int(GROWTH * course.rounds), -(-LEAST * dimensions // self._block))
        most = course.most
        if self.population is not None:
            rest = size * (self.population.items - self.population.seen)
            most = rest if most is None else min(most, rest)
        if most is not None:
            rounds = max(1, min(rounds, most // size))
        return BlockPlan.drawn(
            blocks,
            chances,
            rounds,
            arms=self._setting.problem.arms,
            phase=course.phase,
            open=True,
            most=most,
            provisional=self._provisional,
            center=self._scale.center,
        )

    def _blocks(self, contest: Contest, left: Counts, size: int) -> tuple[Blocks, Array]:
        """The blocks to draw next: the last design's, or a new one's."""
        stage = self._stage
        if len(left) == size:
            return left[None], np.ones(1)
        if stage is not None and not self._due(stage, contest):
            return stage.sampling.plan.blocks, stage.sampling.plan.block_weights
        rows = self._wanted(contest) if self.guesses.rounds else None
        blocks, chances = design_blocks(self._setting.arms[left], size, rows)
        return left[blocks], chances

    def _due(self, stage: BlockStage, contest: Contest) -> bool:
        ratio = AGAIN if stage.key == key_of(contest) else SOON
        return self.guesses.rounds >= ratio * stage.rounds

    def _wanted(self, contest: Contest) -> Array:
        """Open contrasts, each divided by what it may be off: see `allocation.Allocation`."""
        wanted, guesses = contest.wanted(), self.guesses
        reads = np.linalg.solve(guesses.information, wanted.rows.T)
        errors = np.sqrt(guesses.variance * np.einsum("ij,ji->i", wanted.rows, reads))
        gaps = np.maximum(wanted.rows @ guesses.slope + self._setting.margin, SURE * errors)
        return np.asarray(wanted.rows * (np.sqrt(wanted.needs) / gaps)[:, None])

    def check(self, plan: Plan) -> None:
        """Raise unless a recorded plan is of a rule with these options."""
        check_options_of(plan, provisional=self._provisional, forecasts=False, blocks=True)

    def prepare(
        self, plan: Plan, contest: Contest, course: Course
    ) -> tuple[BlockFrame, BlockStage]:
        """Fix all that bets on a plan rest on, from the past and the plan alone."""
        assert isinstance(plan, BlockPlan)
        stage = self._stage_of(plan, contest)
        frame = BlockFrame(
            stage.sampling,
            slope=self.guesses.slope,
            variance=self.guesses.variance,
            scale=self._scale,
            rounds=course.rounds,
            grid=self._setting.grid,
            leaders=contest.leaders,
            population=self.population,
        )
        return frame, stage

    def _stage_of(self, plan: BlockPlan, contest: Contest) -> BlockStage:
        last, key = self._stage, key_of(contest)
        if last is not None:
            before = last.sampling.plan
            same = np.array_equal(before.blocks, plan.blocks)
            if same and np.array_equal(before.block_weights, plan.block_weights):
                due = self._due(last, contest)
                return BlockStage(last.sampling, key, self.guesses.rounds) if due else last
        sampling = BlockSampling(self._setting.arms, plan)
        targets = self._setting.targets
        informs = sampling.informs(targets[contest.active[1:]] - targets[contest.active[0]])
        if not informs or not self._all_that_are_left(sampling):
            raise ProtocolError(
                f"The blocks that the plan of phase {plan.phase} draws do not inform about all "
                "contrasts.",
                field="plan",
                value=plan.phase,
                remedy="Adopt a plan that this policy made for this problem.",
            )
        return BlockStage(sampling, key, self.guesses.rounds)

    def _all_that_are_left(self, sampling: BlockSampling) -> bool:
        """Whether rounds of a finite population judge the same arms, all judged on each before."""
        if self._items is None:
            return True
        before = sampling.arms if self._stage is None else self._stage.sampling.arms
        return len(sampling.blocks) == 1 and bool(np.isin(sampling.arms, before).all())

    def keep(self, stage: BlockStage) -> None:
        """Note how the batch was drawn that was just told."""
        self._stage = stage

    def contradicted_by(self, frame: BlockFrame, summary: Summary) -> bool:
        """Whether rewards of a block lie farther apart than they can, but for rare noise."""
        assert isinstance(summary, Rounds)
        assumptions, labels = self._setting.assumptions, self._setting.problem.source_labels
        if frame.population is not None:
            self._check_items(frame.population, summary)
        if assumptions.bounds is not None:
            return assumptions.contradicted_by(summary, labels, self._scale)
        apart = BlockOutcome(frame, summary)
        arms = len(frame.sampling.arms)
        told = apart.entered & (apart.residuals != 0)
        counts = np.bincount(apart.members[told], minlength=arms)
        sums = np.bincount(apart.members.ravel(), apart.residuals.ravel(), minlength=arms)
        # Σ of (x_i − x̄_B)·(θ − θ̂), each at most twice the fall without its reach; and of noise.
        half = (self._scale.high - self._scale.low) / 2 + np.ptp(frame.guess) / 2
        noise = self._scale.noise * np.sqrt(2 * UNLIKELY * counts)
        return bool((np.abs(sums) > 2 * (half * counts + noise) * (1 + 1e-9)).any())

    def _check_items(self, population: Population, summary: Rounds) -> None:
        """Raise if there are not so many items."""
        if population.seen + summary.rounds > population.items:
            raise ProtocolError(
                f"There are {population.items} items, of which {population.seen} were judged "
                f"before; got {summary.rounds} more.",
                field="summary",
                value=summary.rounds,
                remedy="Every item is judged once.",
            )

    def outcome(self, frame: BlockFrame, summary: Summary) -> BlockOutcome:
        """What came of a plan."""
        assert isinstance(summary, Rounds)
        entered = np.ones(summary.table.shape, np.bool_) if self._setting.worst_case else None
        return BlockOutcome(frame, summary, entered)

    def amended(self, before: BlockOutcome, summary: Summary) -> BlockOutcome:
        """What came of it once outcomes that were outstanding are settled.

        What was outstanding when the plan closed counts: if it is lost now, at its worst.
        """
        return BlockOutcome(before.frame, before.summary.amended(summary), before.entered)

    def note(self, before: BlockOutcome | None, after: BlockOutcome) -> None:
        """Note the items of a finite population that were judged."""
        if before is not None:
            self._see(before, -1)
        self._see(after, 1)

    def learn(self, place: int, batch: BlockOutcome, drawn: int) -> None:  # noqa: ARG002 - rounds count
        """Learn from a batch."""
        self.guesses.learn(batch)

    def relearn(
        self,
        place: int,  # noqa: ARG002
        before: BlockOutcome,
        after: BlockOutcome,
        summary: Summary,  # noqa: ARG002
    ) -> None:
        """Take in outcomes that were outstanding when their batch was learned from."""
        self.guesses.relearn(before, after)

    def _see(self, batch: BlockOutcome, sign: int) -> None:
        """Note the items of a finite population that were judged."""
        known = self.population
        if known is None:
            return
        arms, ends = batch.frame.sampling.arms, []
        for sums, bound in ((known.least, self._scale.low), (known.most, self._scale.high)):
            after = sums.copy()
            after[arms] += sign * batch.filled(bound).sum(axis=0)
            ends.append(after)
        seen = known.seen + sign * batch.summary.rounds
        self.population = Population(known.items, seen, ends[0], ends[1], known.changes + 1)
