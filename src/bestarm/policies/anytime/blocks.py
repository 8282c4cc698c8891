"""Blocks: every round pulls several arms under one baseline, which cancels."""

from __future__ import annotations

import math
from itertools import combinations, pairwise

import numpy as np

from bestarm.design import centered_g
from bestarm.design.solver import ListedContrasts, minimise
from bestarm.errors import ProtocolError
from bestarm.numerics.geometry import Array, affine_span, lift
from bestarm.policies.anytime.assumptions import CONTRADICTION_NATS
from bestarm.policies.anytime.bets import Scale
from bestarm.policies.anytime.block_bets import (
    BlockFrame,
    BlockOutcome,
    BlockSampling,
    Population,
    laplacian,
)
from bestarm.policies.anytime.certificates import Evidence
from bestarm.policies.anytime.sampler import LEAST_GAP_ERRORS, REDESIGN, Config, RunState
from bestarm.records import BlockPlan, Blocks, Counts, Plan, Rounds, Summary

LEAST_PULLS = 4  # per dimension in a batch
_BATCH_GROWTH = 0.02  # relative to the rounds before
_ALL = 5000  # up to this many blocks, all of them are candidates
_ORDERS = 8  # orders of the arms that blocks are picked along, if they are more
_STEPS = 24  # of the multiplicative kind; most of what can be gained is gained by then
_SHARE = 0.02  # of blocks from the G-design: it keeps every contrast within reach
_TOL = 0.05  # how far from its optimum the design for single pulls may be
_TRACE = 0.01  # blocks are left out that are rarer, relative to the likeliest of each arm
_RIDGE = 1.0  # rounds of the first batch's design, with equal rewards
_MEMORY = 0.96  # what a batch before counts towards the variance to come


def _candidate_blocks(shares: Array, size: int) -> tuple[Blocks, Array]:
    """Blocks of different arms, with about these shares of the arms among the pulls.

    All blocks if they are few, with the probabilities of independent draws that happen to differ.
    If not, blocks picked at even distances along arms that are laid end to end in several orders,
    each as long as its share: so an arm is in a block with exactly its share, at most once.
    """
    arms = len(shares)
    if math.comb(arms, size) <= _ALL:
        blocks = np.array(list(combinations(range(arms), size)), dtype=np.int64)
        chances = np.prod(shares[blocks] / shares.max(), axis=1) + 1e-9
        return blocks, chances / chances.sum()
    lengths = _inclusion(shares, size)
    found: dict[tuple[int, ...], float] = {}
    rng = np.random.default_rng(0)
    for _ in range(_ORDERS):
        order = rng.permutation(arms)
        ends = np.cumsum(lengths[order])
        ends *= size / ends[-1]
        starts = np.unique(np.concatenate([[0.0, 1.0], ends - np.floor(ends)]))
        starts = starts[np.concatenate([np.diff(starts) > 1e-9, [True]])]
        for low, high in pairwise(starts):
            places = np.searchsorted(ends, (low + high) / 2 + np.arange(size))
            block = tuple(sorted(order[np.minimum(places, arms - 1)].tolist()))
            if len(set(block)) == size:
                found[block] = found.get(block, 0.0) + high - low
    chances = np.array(list(found.values()))
    return np.array(list(found), dtype=np.int64), chances / chances.sum()


def _inclusion(shares: Array, size: int) -> Array:
    """The probability of each arm to be in a block: `size` times its share, but at most 1."""
    chances = size * (shares + 1e-9) / (shares + 1e-9).sum()
    while (chances > 1).any():
        chances = np.minimum(chances, 1.0)
        free = chances < 1
        chances[free] *= (size - np.count_nonzero(~free)) / chances[free].sum()
    return np.asarray(chances)


def design_blocks(points: Array, size: int, rows: Array | None) -> tuple[Blocks, Array]:
    """Blocks and their probabilities, for contrasts of about equal weight.

    A rule that designs dozens of times within a run needs them quickly, and no certificate. Two
    draws from a design for single pulls differ as M does: E (x − x′)(x − x′)ᵀ/2 = Σ_cov,p. So
    blocks of arms drawn from it independently are a good beginning, and a few steps that multiply
    the probability of a block by its score improve on it.

    Args:
        points: the arms, in any coordinates.
        size: arms in a block.
        rows: the contrasts, each divided by what it may be off; None while nothing is known.
    """
    if len(points) == size:
        return np.arange(size, dtype=np.int64)[None], np.ones(1)
    span = affine_span(points)
    inner = span.coordinates(points)
    spread = np.asarray(centered_g(inner, tol=_TOL).weights)
    if rows is None:
        return _without_traces(*_candidate_blocks(spread, size))
    wanted = span.contrast_coordinates(rows)
    wanted = wanted / np.abs(wanted).max()
    single = minimise(lift(inner), ListedContrasts(lift(wanted, 0.0)), _TOL).weights
    blocks, chances = _candidate_blocks((1 - _SHARE) * single + _SHARE * spread, size)
    return _without_traces(blocks, _balance(inner, blocks, chances, wanted))


def _spread_within(products: Array, blocks: Blocks) -> Array:
    """Σ |v_i − v̄|² over the points of each block, from their products."""
    squares, arms, columns = products.diagonal(), len(products), blocks.T
    apart = np.maximum(squares[:, None] + squares - 2 * products, 0.0).ravel()
    total = np.zeros(len(blocks))
    for i, one in enumerate(columns[:-1]):
        total += apart[one * arms + columns[i + 1 :]].sum(axis=0)
    return total / len(columns)


def _balance(points: Array, blocks: Blocks, chances: Array, rows: Array) -> Array:
    """Multiply probabilities by scores tr(A_B G)^½, G = Σ μ_y M⁻¹yyᵀM⁻¹, and μ_y by its value.

    The best probabilities met are kept, with a share of those it began with.
    """
    began, best, least = chances, chances, np.inf
    worst = np.full(len(rows), 1 / len(rows))
    for _ in range(_STEPS):
        moment = points.T @ laplacian(blocks, chances, len(points)) @ points
        reads = np.linalg.solve(moment, rows.T).T
        values = np.einsum("ij,ij->i", reads, rows)
        if values.max() < least:
            best, least = chances, float(values.max())
        worst = worst * np.sqrt(values / values.max())
        worst /= worst.sum()
        images = (points @ reads.T) * np.sqrt(worst)
        scores = _spread_within(images @ images.T, blocks)
        chances = chances * np.sqrt(scores / (chances @ scores))
        chances = (1 - _SHARE) * chances / chances.sum() + _SHARE * began
    return best


def _without_traces(blocks: Blocks, chances: Array) -> tuple[Blocks, Array]:
    """Without blocks that are rare for each of their arms."""
    strongest = np.zeros(int(blocks.max()) + 1)
    np.maximum.at(strongest, blocks, chances[:, None])
    kept = chances >= _TRACE * strongest[blocks].min(axis=1)
    return blocks[kept], chances[kept] / chances[kept].sum()


class BlockEstimates:
    """Estimates from the rounds so far. The rule is valid whatever they are.

    Attributes:
        rounds: the number of rounds learned from.
        slope: θ̂ in coordinates of the span; (1, rank).
        information: Σ A_B over the rounds, with a ridge.
        variance: the expected squared residual of a reward within its block.

    Args:
        coordinates: the source arms, in coordinates of their span.
        scale: where rewards lie.
    """

    def __init__(self, coordinates: Array, scale: Scale) -> None:
        rank = coordinates.shape[1]
        half = (scale.high - scale.low) / 2
        self._coordinates, self._least = coordinates, scale.noise**2 or half**2
        self.rounds = 0
        self.slope: Array = np.zeros((1, rank))
        self.information: Array = np.zeros((rank, rank))
        self._moment: Array = np.zeros(rank)
        self._squares = self._freedom = 0.0
        self.variance = half**2 + scale.noise**2

    def learn(self, batch: BlockOutcome) -> None:
        """Take in a batch's outcome."""
        if not batch.freedom:
            return
        if not self.rounds:
            sampling = batch.frame.sampling
            points = self._coordinates[sampling.arms]
            self.information = self.information + _RIDGE * (points.T @ sampling.laplacian @ points)
        self._squares *= _MEMORY
        self._freedom *= _MEMORY
        self._add(batch, 1)

    def relearn(self, before: BlockOutcome, after: BlockOutcome) -> None:
        """Replace what a batch contributed before by what it contributes now."""
        if not before.freedom:
            self.learn(after)
            return
        self._add(before, -1)
        self._add(after, 1)

    def _add(self, batch: BlockOutcome, sign: int) -> None:
        points = self._coordinates[batch.frame.sampling.arms]
        observed = batch.by_arm(~np.isnan(batch.summary.table))
        number = np.maximum(observed.sum(axis=1), 1)
        totals = observed @ points  # less these, over the number of outcomes: Σ (x − x̄)(x − x̄)ᵀ
        information = (points.T * observed.sum(axis=0)) @ points - (totals.T / number) @ totals
        sums = batch.by_arm(batch.residuals).sum(axis=0)
        self.information = self.information + sign * information
        self._moment = self._moment + sign * (points.T @ sums + information @ batch.frame.slope)
        self.slope = np.asarray(np.linalg.solve(self.information, self._moment)[None], dtype=float)
        self.rounds += sign * batch.summary.rounds
        self._squares = max(self._squares + sign * batch.squares, 0.0)
        self._freedom += sign * batch.freedom
        # Rewards that did not vary at all say no more than that they vary less than once in n.
        least = self._least / max(self.rounds, 1)
        self.variance = max(self._squares / self._freedom, least) if self._freedom > 0 else least


class BlockSampler:
    """Several pulls per round: blocks of different arms.

    Args:
        config: what it is made from.
        block: the number of arms in a block, or fewer where fewer are left.
        control: the control, which never leaves the blocks, or None.
        drops: whether targets that are out need not be pulled, where each is an arm of its own.
        items: the size of the finite population that rounds are drawn from, or None.
    """

    def __init__(
        self,
        config: Config,
        *,
        block: int,
        control: int | None,
        drops: bool,
        items: int | None = None,
    ) -> None:
        self._config, self._block, self._control = config, block, control
        self._drops = drops and config.problem.unstructured
        self._scale = config.assumptions.scale
        self._provisional = config.assumptions.bounds is not None
        self._items = items
        self.population: Population | None = None
        if items is not None:
            self.population = Population(items, 0, *np.zeros((2, config.problem.arms)))
        self.estimates = BlockEstimates(config.arms, self._scale)
        self._sampling: BlockSampling | None = None  # how the last batch was drawn
        self._made_at = 0  # the rounds at which it was designed

    def _available_arms(self, evidence: Evidence) -> Counts:
        """The arms that may be pulled."""
        if not self._drops:
            return np.arange(self._config.problem.arms)
        kept = [] if self._control is None else [self._control]
        return np.union1d(evidence.active, np.array(kept, dtype=np.int64))

    def smallest(self, evidence: Evidence) -> int:
        """One block."""
        return min(self._block, len(self._available_arms(evidence)))

    def plan(self, evidence: Evidence, run: RunState) -> BlockPlan:
        """The next batch of rounds."""
        left = self._available_arms(evidence)
        size = min(self._block, len(left))
        blocks, chances = self._blocks(evidence, left, size)
        dimensions = self._config.arms.shape[1] + 1
        rounds = max(int(_BATCH_GROWTH * run.rounds), -(-LEAST_PULLS * dimensions // self._block))
        most = run.most
        if self.population is not None:
            rest = size * (self.population.items - self.population.seen)
            most = rest if most is None else min(most, rest)
        if most is not None:
            rounds = max(1, min(rounds, most // size))
        return BlockPlan.drawn(
            blocks,
            chances,
            rounds,
            arms=self._config.problem.arms,
            phase=run.phase,
            open=True,
            most=most,
            provisional=self._provisional,
            center=self._scale.center,
        )

    def _blocks(self, evidence: Evidence, left: Counts, size: int) -> tuple[Blocks, Array]:
        """The blocks to draw next: the last design's, or a new one's."""
        last, rounds = self._sampling, self.estimates.rounds
        if len(left) == size:
            return left[None], np.ones(1)
        if (
            last is not None
            and last.plan.size == size
            and np.isin(last.arms, left).all()
            and rounds < REDESIGN * self._made_at
        ):
            return last.plan.blocks, last.plan.block_weights
        rows = self._scaled_contrasts(evidence) if rounds else None
        blocks, chances = design_blocks(self._config.arms[left], size, rows)
        return left[blocks], chances

    def _scaled_contrasts(self, evidence: Evidence) -> Array:
        """Open contrasts, each divided by what it may be off: see `sampler.solve_designs`."""
        pairs, estimates = evidence.open_pairs(), self.estimates
        rows = self._config.targets[pairs[:, 0]] - self._config.targets[pairs[:, 1]]
        reads = np.linalg.solve(estimates.information, rows.T)
        errors = np.sqrt(estimates.variance * np.einsum("ij,ji->i", rows, reads))
        gaps = np.maximum(
            rows @ estimates.slope[0] + self._config.margin, LEAST_GAP_ERRORS * errors
        )
        return np.asarray(rows * (1 / gaps)[:, None])

    def prepare(self, plan: Plan, evidence: Evidence, run: RunState) -> BlockFrame:
        """Fix all that bets on a plan rest on, from the past and the plan alone."""
        assert isinstance(plan, BlockPlan)
        return BlockFrame(
            self._sampling_of(plan, evidence),
            slope=self.estimates.slope[0],
            variance=self.estimates.variance,
            scale=self._scale,
            rounds=run.rounds,
            grid=self._config.grid,
            leaders=np.array([evidence.leaders]),
            population=self.population,
        )

    def _sampling_of(self, plan: BlockPlan, evidence: Evidence) -> BlockSampling:
        last = self._sampling
        if last is not None and last.draws_from(plan):
            return last
        sampling = BlockSampling(self._config.arms, plan)
        targets = self._config.targets
        informs = sampling.informs(targets[evidence.active[1:]] - targets[evidence.active[0]])
        if not informs or not self._judges_the_same_arms(sampling):
            raise ProtocolError(
                f"The blocks that the plan of phase {plan.phase} draws do not inform about all "
                "contrasts.",
                field="plan",
                value=plan.phase,
                remedy="Adopt a plan that this policy made for this problem.",
            )
        return sampling

    def _judges_the_same_arms(self, sampling: BlockSampling) -> bool:
        """Whether rounds of a finite population judge the same arms, all judged on each before."""
        if self._items is None:
            return True
        before = sampling.arms if self._sampling is None else self._sampling.arms
        return len(sampling.blocks) == 1 and bool(np.isin(sampling.arms, before).all())

    @property
    def learned(self) -> int:
        """The rounds that estimates rest on."""
        return self.estimates.rounds

    def keep(self, frame: BlockFrame, learned: int) -> None:
        """Note how the last batch was drawn, and what was learned from when it was planned."""
        if frame.sampling is not self._sampling:
            self._sampling, self._made_at = frame.sampling, learned

    def contradicted_by(self, frame: BlockFrame, summary: Summary) -> bool:
        """Whether rewards of a block lie farther apart than they can, but for rare noise."""
        assert isinstance(summary, Rounds)
        assumptions = self._config.assumptions
        if frame.population is not None:
            self._check_items(frame.population, summary)
        if assumptions.bounds is not None:
            [found] = assumptions.contradicted_by(
                (summary.counts[None], summary.sums[None], summary.squares[None]),
                summary.extremes,
                low=np.array([self._scale.low]),
                high=np.array([self._scale.high]),
                shift=summary.center - self._scale.center,
                labels=self._config.problem.source_labels,
            )
            return bool(found)
        apart = BlockOutcome(frame, summary)
        arms = len(frame.sampling.arms)
        observed = apart.entered & (apart.residuals != 0)
        counts = np.bincount(apart.members[observed], minlength=arms)
        sums = np.bincount(apart.members.ravel(), apart.residuals.ravel(), minlength=arms)
        # Σ of (x_i − x̄_B)·(θ − θ̂), each at most twice the fall without its reach; and of noise.
        half = (self._scale.high - self._scale.low) / 2 + np.ptp(frame.guess) / 2
        noise = self._scale.noise * np.sqrt(2 * CONTRADICTION_NATS * counts)
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
        entered = np.ones(summary.table.shape, np.bool_) if self._config.worst_case else None
        return BlockOutcome(frame, summary, entered)

    def amended(self, before: BlockOutcome, summary: Summary) -> BlockOutcome:
        """What came of it once outcomes that were outstanding are settled.

        What was outstanding when the plan closed counts: if it is lost now, at its worst.
        """
        return BlockOutcome(before.frame, before.summary.amended(summary), before.entered)

    def record(self, before: BlockOutcome | None, after: BlockOutcome) -> None:
        """Count the items of a finite population that were judged."""
        if before is not None:
            self._count_items(before, -1)
        self._count_items(after, 1)

    def learn(self, place: int, batch: BlockOutcome, drawn: int) -> None:  # noqa: ARG002 - rounds count
        """Learn from a batch."""
        self.estimates.learn(batch)

    def relearn(
        self,
        place: int,  # noqa: ARG002
        before: BlockOutcome,
        after: BlockOutcome,
        summary: Summary,  # noqa: ARG002
    ) -> None:
        """Take in outcomes that were outstanding when their batch was learned from."""
        self.estimates.relearn(before, after)

    def _count_items(self, batch: BlockOutcome, sign: int) -> None:
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
