"""Whole runs of the anytime rule on rewards known ahead, for simulations: one compiled loop.

Every step is one of the kernels that plans and updates go through, in the same order and on the
same arrays. So a compiled run has the evidence, to the last bit, of one that is told the totals of
the same pulls plan by plan.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import uint64
from numpy.typing import NDArray
from scipy.special import ndtri

from bestarm.compiling import compiled, inlined
from bestarm.design.solver import SMALL_POOL
from bestarm.numerics.geometry import TIE, Array
from bestarm.numerics.sampling import next_random_word
from bestarm.policies.anytime.assumptions import LEVEL_NATS, contradiction
from bestarm.policies.anytime.bets import (
    EPSILON,
    MAX_LOSS,
    ROUNDINGS,
    TAIL_RATE,
    arm_terms,
    batch_totals,
    contrast_sizes,
    log_average,
    settle_bets,
)
from bestarm.policies.anytime.estimates import (
    BOUND,
    batch_size,
    beliefs,
    learn_batch,
    predict_rewards,
)
from bestarm.policies.anytime.evidence import (
    BestTargetEvidence,
    Evidence,
    LevelEvidence,
    leader_contrasts,
    opponent_contrasts,
    put_leaders_first,
    surviving,
    update_e_values,
)
from bestarm.policies.anytime.readout import (
    Indices,
    Parts,
    Sampling,
    least_variance_readout,
    level_weights,
    tilted_weights,
)
from bestarm.policies.anytime.sampler import (
    BATCH_GROWTH,
    G_DESIGN_SHARE,
    LEAST_PULLS,
    LEAST_WEIGHT,
    TILT_STEPS,
    Config,
    IndependentSampler,
    Sampler,
    Stage,
    has_sums,
    keeps_design,
    mix_designs,
    pose_design,
    solve_design,
)
from bestarm.presampled import PresampledRewards, reward_at

Words = NDArray[np.uint64]

_LONGEST = 2**18  # pulls; beyond, plans are so long that it does not matter who carries them out
_NO_CAP = 2**62


class Counters(NamedTuple):
    """Where the whole numbers of a run stand in their array.

    Attributes:
        pulls: the pulls drawn so far.
        plans: the plans carried out so far.
        most: the pulls at which to stop.
        stage_pulls: the pulls before the design in force; −1 if there is none.
        stage_leader: the leader then.
        stage_active: how many targets were left then.
        violation: what `contradiction` found last; −1 unless rewards contradict the assumptions.
        level: 1 if they contradict the declared baseline, else 0.
    """

    pulls: int = 0
    plans: int = 1
    most: int = 2
    stage_pulls: int = 3
    stage_leader: int = 4
    stage_active: int = 5
    violation: int = 6
    level: int = 7


_PULLS, _PLANS, _MOST, _STAGE_PULLS, _STAGE_LEADER, _STAGE_ACTIVE, _VIOLATION, _LEVEL = Counters()


@compiled
def guide_draws(weights: Array) -> Parts:
    """Bounds of the cumulative distribution, and where to begin to search among them.

    P(outcome ≤ k) is `bounds[k]` · 2⁻⁶⁴. Words whose first bits are j have outcome `guide[j]` or a
    later one.
    """
    bits = 4
    while 1 << bits < 4 * len(weights):
        bits += 1
    bounds = np.empty(len(weights) - 1, dtype=np.uint64)
    guide = np.empty(1 << bits, dtype=np.int64)
    below = 0.0
    for k in range(len(bounds)):
        below += weights[k]
        bounds[k] = uint64(min(below, 1.0 - 2.0**-53) * 2.0**64)
    k = 0
    for j in range(len(guide)):
        while k < len(bounds) and bounds[k] <= uint64(j) << uint64(64 - bits):
            k += 1
        guide[j] = k
    return bounds, guide


@compiled
def draw(
    presampled: Parts, start: int, size: int, law: Parts, words: Words, center: float
) -> Parts:
    """Draw arms, and add up what they pay, less a center: (counts, Σx, Σx²), (least, largest, Σx³).

    Every pull takes one random word. `law` are the number of arms, those that can be drawn, and
    what `guide_draws` says of their probabilities.
    """
    arms, support, bounds, guide = law
    counts, sums, squares = np.zeros(arms, dtype=np.int64), np.zeros(arms), np.zeros(arms)
    least, largest, cubes = np.zeros(arms), np.zeros(arms), np.zeros(arms)
    last, bits = len(bounds), 0
    while 1 << bits < len(guide):
        bits += 1
    shift = uint64(64 - bits)
    a, b, c, w = words[0], words[1], words[2], words[3]
    for i in range(start, start + size):
        word, a, b, c, w = next_random_word(a, b, c, w)
        k = guide[word >> shift]
        while k < last and bounds[k] <= word:
            k += 1
        arm = support[k]
        value = reward_at(presampled, i, arm) - center
        counts[arm] += 1
        sums[arm] += value
        squares[arm] += value * value
        cubes[arm] += value * value * value
        first = counts[arm] == 1
        least[arm] = value if first else min(least[arm], value)
        largest[arm] = value if first else max(largest[arm], value)
    words[0], words[1], words[2], words[3] = a, b, c, w
    return (counts, sums, squares), (least, largest, cubes)


# The parts of `run` take single arrays: a tuple of many takes long to compile wherever it is passed
# on, because every array in it is counted once more.


@inlined
def _ranked(targets: Array, slope: Array, active: Indices) -> Indices:
    """The targets that are left, the leader and the runner-up first."""
    order = active.copy()
    put_leaders_first(targets, slope, TIE, order)
    return order


@inlined
def _differ(weights: Array, others: Array) -> bool:
    differ = len(weights) != len(others)
    for a in range(min(len(weights), len(others))):
        differ = differ or weights[a] != others[a]
    return differ


@inlined
def _design(
    arms: Array, features: Array, g_design: Array, start: Array, state: Parts, known: Parts,
    contrasts: Parts,
) -> tuple[bool, Array]:  # fmt: skip
    """Whether the design for the open contrasts could be certified, and that design."""
    certified, design = True, start
    for _ in range(1 if known[BOUND] == math.inf else TILT_STEPS):
        scaled, posed = pose_design(arms, features, design, state, known, contrasts)
        solved, weights = solve_design(scaled, posed)
        certified = certified and solved
        design = mix_designs(weights, g_design, G_DESIGN_SHARE, LEAST_WEIGHT)
        if not has_sums(posed):
            break
    return certified, design


@inlined
def _contradicts(sums: Parts, extremes: Parts, limits: Parts, counters: Indices) -> bool:
    """Whether rewards contradict the assumptions so that the run cannot go on."""
    violation = contradiction(sums, extremes, True, limits)
    if violation == -1:
        return False
    counters[_VIOLATION] = violation
    return limits[3] or violation < -1


@inlined
def _arm_totals(arms: Indices, guess: Array, sums: Parts, extremes: Parts) -> Parts:
    """The parts of `ArmTotals`."""
    totals = np.empty((9, len(guess)))
    parts = (totals[0], totals[1], totals[2], totals[3], totals[4], totals[5], totals[6],
             totals[7], totals[8])  # fmt: skip
    lost = np.zeros(len(sums[0]), dtype=np.int64)
    batch_totals(arms, guess, 0.0, lost, sums, extremes, True, parts)
    return parts


@inlined
def _bet_terms(known: Parts, noise: float, pulls: int, arms: int) -> Parts:
    """The terms of `settle_bets`; the charge is that of `Scale.reach`."""
    tail = noise * math.sqrt(2 * math.pi) * (TAIL_RATE / math.sqrt(pulls + 1))
    return known[0], known[1], 0.0, tail, (arms + ROUNDINGS) * EPSILON, MAX_LOSS, math.inf


@inlined
def _bet(
    targets: Array, order: Indices, readout: Array, belief: Parts, fixed: Parts, totals: Parts,
    terms: Parts, grid: Parts, wealth: Array,
) -> None:  # fmt: skip
    """Settle every target's bet against the leader, and the leader's against the runner-up."""
    rows = opponent_contrasts(targets, order)
    w, charges = tilted_weights(rows, 0.0, readout, fixed[2], belief)
    stakes, growth = np.empty((len(order), len(grid[2]))), np.empty((len(order), len(grid[2])))
    sizes = contrast_sizes(rows, grid[3])
    settle_bets(w, charges, sizes, fixed, totals, terms, (grid[0], grid[1]), stakes, growth)
    for i in range(len(order)):
        for s in range(growth.shape[1]):
            wealth[order[i], s] += growth[i, s]


@inlined
def _bet_on_level(
    readout: Array, bound: float, fixed: Parts, totals: Parts, terms: Parts, grid: Parts,
    wealth: Array, counters: Indices,
) -> None:  # fmt: skip
    """Settle the bets against |ν| ≤ R, if such a bound is used."""
    if bound == math.inf:
        return
    w, charges = level_weights(readout, bound)
    stakes, growth = np.empty((2, len(grid[2]))), np.empty((2, len(grid[2])))
    settle_bets(w, charges, np.zeros(2), fixed, totals, terms, (grid[0], grid[1]), stakes, growth)
    for i in range(2):
        for s in range(growth.shape[1]):
            wealth[i, s] += growth[i, s]
        if log_average(wealth[i], grid[2]) >= LEVEL_NATS:
            counters[_LEVEL] = 1


@inlined
def _drop(
    wealth: Array, values: Array, level: float, log_shares: Array, active: Indices
) -> Indices:
    """The targets that are left."""
    for target in active:
        values[target] = -math.inf
    if update_e_values(wealth, log_shares, active, values) < level:
        return active
    return surviving(values, level, active)


@compiled
def run(
    presampled: Parts,
    fixed: Parts,
    state: Parts,
    evidence: Parts,
    active: Indices,
    stage: Parts,
    counters: Indices,
    words: Words,
) -> tuple[Indices, Indices, Parts]:
    """Carry out plans until the rule stops or the rounds known ahead do not suffice for the next.

    Args:
        presampled: all parts of `PresampledRewards`.
        fixed: what does not change: the source arms in coordinates and as features of designs, the
            targets, the G-design, `Estimates.known`, the stakes for signals and for gaps with the
            logs of their shares and what contrasts are measured by, the noise, and how far from its
            mean, in deviations, it may lie after 0, 1, … pulls; last, the limits of
            `contradiction`.
        state: the parts of an `EstimatorState`; changed.
        evidence: the log wealth, the log e-values, the level that drops a target, and the log
            wealth against |ν| ≤ R; changed.
        active: the targets that are left.
        stage: the parts of a `Sampling`, and how to draw from it.
        counters: see `Counters`; changed.
        words: the state of the random words; changed.

    Returns:
        The targets left, the same in order, and the stage.
    """
    coordinates, features, targets, g_design, known, grid, noise, reaches, limits = fixed
    scalars, slope, spread = state[0], state[1], state[9]
    weights, arms, shares, centered, covariance, readout, bounds, guide = stage
    wealth, values, level, level_wealth = evidence
    rounds, reacts, undisturbed = len(presampled[1]), presampled[3] > 0, presampled[:3]
    least = LEAST_PULLS * (coordinates.shape[1] + (1 if known[4] else 0))
    at, expected, order = 0, np.empty(len(coordinates)), _ranked(targets, slope, active)
    while len(active) > 1 and counters[_PULLS] < counters[_MOST]:
        pulls = counters[_PULLS]
        size = min(batch_size(scalars, float(pulls), BATCH_GROWTH, least), counters[_MOST] - pulls)
        if at + size > rounds or pulls >= len(reaches):
            break
        same = counters[_STAGE_LEADER] == order[0] and counters[_STAGE_ACTIVE] == len(order)
        if not keeps_design(float(counters[_STAGE_PULLS]), same, scalars[0]):
            design = g_design
            if scalars[0] > 0:
                rows = leader_contrasts(targets, order)
                certified, design = _design(
                    coordinates, features, g_design, weights, state, known, (rows, 0.0)
                )
                if not certified:
                    break
            counters[_STAGE_PULLS], counters[_STAGE_LEADER] = int(scalars[0]), order[0]
            counters[_STAGE_ACTIVE] = len(order)
            if _differ(design, weights):
                weights = design
                arms, shares, centered, covariance, readout, _ = least_variance_readout(
                    coordinates, weights, spread, known[4]
                )
                bounds, guide = guide_draws(shares)
        reach = noise * reaches[pulls]
        predict_rewards(state, coordinates, known, float(size), expected)
        guess, varied, below, above, likely = arm_terms(
            (arms, shares), expected, spread, (known[0], known[1], reach), size
        )
        # Both are compiled, and nothing else twice: with the adversary in it, a loop without one is
        # slower by a factor of four.
        law = len(coordinates), arms, bounds, guide
        if reacts:
            sums, extremes = draw(presampled, at, size, law, words, known[2])
        else:
            sums, extremes = draw(undisturbed, at, size, law, words, known[2])
        if _contradicts(sums, extremes, limits, counters):
            break
        totals = _arm_totals(arms, guess, sums, extremes)
        before = shares, guess, varied, below, above, likely
        terms = _bet_terms(known, noise, pulls, len(guess))
        belief = beliefs(state, known)
        _bet_on_level(readout, belief[2], before, totals, terms, grid, level_wealth, counters)
        _bet(targets, order, readout, belief, before, totals, terms, grid, wealth)
        active = _drop(wealth, values, level, grid[2], active)
        at += size
        counters[_PULLS] += size
        counters[_PLANS] += 1
        drawn = arms, centered, covariance, guess
        learn_batch(state, coordinates, known, drawn, (totals[5], totals[0], totals[1], totals[7]))
        order = _ranked(targets, slope, active)
    return active, order, (weights, arms, shares, centered, covariance, readout, bounds, guide)


class Progress(NamedTuple):
    """What a compiled run did: pulls, plans, what `contradiction` found last, and whether rewards
    contradict the declared baseline."""

    pulls: int
    plans: int
    violation: int
    level: bool


class CompiledRun:
    """Carries out plans of a rule on the arrays that the rule keeps.

    Args:
        config: what the rule is made from.
        evidence: that on its targets.
        sampler: draws its pulls.
        level: evidence against the declared baseline.
    """

    def __init__(
        self,
        config: Config,
        evidence: BestTargetEvidence,
        sampler: IndependentSampler,
        level: LevelEvidence,
    ) -> None:
        self._config, self._evidence, self._sampler = config, evidence, sampler
        self._level = level
        self._fixed: Parts = ()
        self._words = np.empty(0, dtype=np.uint64)

    @classmethod
    def of(
        cls, config: Config, evidence: Evidence, sampler: Sampler, level: LevelEvidence
    ) -> CompiledRun | None:
        """One for a rule with these parts, or None if its runs cannot be compiled.

        Compiled code knows single pulls, the best target, and designs that are solved at one go.
        """
        few = max(len(config.arms), len(config.targets)) <= SMALL_POOL
        if not few or not isinstance(evidence, BestTargetEvidence):
            return None
        if not isinstance(sampler, IndependentSampler):
            return None
        return cls(config, evidence, sampler, level)

    def _begin(self, seed: int) -> None:
        scale, grid = self._config.assumptions.scale, self._config.grid
        stakes = grid.signals, grid.gaps, grid.log_shares, self._sampler.metric
        limits = self._config.assumptions.limits(scale, scale.center)
        self._fixed = *self._sampler.fixed, stakes, scale.noise, _reaches(), limits
        self._words = np.array(np.random.SFC64(seed).state["state"]["state"], dtype=np.uint64)

    def advance(
        self, presampled: PresampledRewards, pulls: int, *, most: int | None, seed: int
    ) -> Progress:
        """Carry out plans as far as rewards known ahead allow.

        Args:
            presampled: the rewards.
            pulls: the pulls drawn so far.
            most: the pulls at which to stop, or None.
            seed: arms are drawn from it.
        """
        if not self._fixed:
            self._begin(seed)
        at, evidence, (stage, stage_numbers) = Counters(), self._evidence, self._stage()
        counters = np.array([pulls, 0, _NO_CAP if most is None else most, *stage_numbers, -1, 0])
        active, order, stage = run(
            presampled.all_parts,
            self._fixed,
            tuple(self._sampler.estimates.state),
            (*evidence.arrays, self._level.wealth),
            evidence.active,
            stage,
            counters,
            self._words,
        )
        done = counters.tolist()
        if done[at.plans]:
            evidence.continue_with(active, order)
            key = (done[at.stage_leader],), done[at.stage_active]
            self._sampler.keep(Stage(Sampling.of(stage), key, done[at.stage_pulls]))
        return Progress(
            done[at.pulls] - pulls, done[at.plans], done[at.violation], bool(done[at.level])
        )

    def _stage(self) -> tuple[Parts, tuple[int, int, int]]:
        """The stage in force for compiled code, with its pulls, leader and number of targets."""
        stage = self._sampler.stage
        if stage is None:
            return _no_stage(self._fixed[0].shape[1]), (-1, 0, 0)
        (leader,), active = stage.key
        sampling = stage.sampling
        _, *parts = sampling.parts
        probabilities = np.array(sampling.probabilities)  # plans cannot be changed, arrays here can
        return (
            (probabilities, *parts, *guide_draws(sampling.weights)),
            (stage.made_at, leader, active),
        )


@lru_cache(maxsize=16)
def _no_stage(rank: int) -> tuple[Any, ...]:
    """Empty arrays of the types of a stage."""
    none, indices = np.empty(0), np.empty(0, dtype=np.int64)
    tables = np.empty((0, rank)), np.empty((rank, rank)), np.empty((rank, 0))
    return none, indices, none, *tables, np.empty(0, dtype=np.uint64), indices


@lru_cache(maxsize=1)
def _reaches() -> Array:
    """k of `Scale.reach` after 0, 1, … pulls."""
    return np.asarray(-ndtri(TAIL_RATE / np.sqrt(np.arange(1.0, _LONGEST + 1))))
