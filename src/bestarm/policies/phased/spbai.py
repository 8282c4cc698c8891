"""SP-BAI: the paper's phase elimination on orthogonalized regression, and our sharper reading."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np
from scipy.linalg import cholesky, eigh, solve_triangular
from scipy.optimize import minimize_scalar

from bestarm import bounds
from bestarm.checks import choice, positive, whole
from bestarm.design import centered_g, centered_xy, check_tolerance, deo, xor
from bestarm.errors import InvalidInputError
from bestarm.estimation import orthogonalized, predict_level
from bestarm.numerics.geometry import (
    TIE,
    Array,
    centered_diameter,
    covariance,
    diameter,
    diameter_and_stability,
    first_largest,
    lift,
)
from bestarm.policies.designs import cached_design
from bestarm.policies.phased.elimination import Elimination, PhaseDesign, PhaseRequest
from bestarm.policies.stepwise import Indices, require_pullable_targets
from bestarm.problem import Problem
from bestarm.records import Plan, Summary

_REPLICATED = {"design": "xor", "stability": "paper", "anchor": "best"}
_FEW = 256  # up to this many targets all pairs are formed
_LEAST_MIXTURE = 1e-4  # below this share of the G-design, M would depend on rounding
_TIGHTEST = 1 / 40  # the boundary is tightest at this part of the variance after the pilot
_EPSILON = float(np.finfo(float).eps)
_SINGULAR = 1e-15  # an eigenvalue, relative to the largest, that counts as zero
_FINE = 2.0**20  # parts of a pull in which mixtures are compared: whole pulls would tie by rounding


@dataclass(frozen=True)
class _Reading:
    """The options that shape a phase; hashable, so that phases can be remembered across runs."""

    design: Literal["xor", "centered"]
    stability: Literal["paper", "actual"]
    replication: bool
    r1: float
    r2: float
    tol: float

    @property
    def sharp(self) -> bool:
        """Whether to depart from the paper wherever something better is known."""
        return self.design == "centered" and self.stability == "actual"


class SPBAI(Elimination):
    """Fixed-confidence best-arm identification under a moving baseline, in phases.

    **The paper's reading** (`design="xor"`, `stability="paper"`, the default). In phase ℓ, arms are
    drawn half from XOR and half from DEO, θ is estimated from the phase's pulls by orthogonalized
    regression with ridge log(n_ℓ/δ_ℓ), and targets estimated 2^−ℓ or more below the leader (times
    the reward scale) are dropped. `design="xor", stability="actual"` and `design="centered",
    stability="paper"` change one thing each.

    **The sharp reading** (`design="centered"`, `stability="actual"`). Exact centered designs, the
    M that the sampling weights really have, and the mixture of the two designs that makes n_ℓ
    smallest. With phases this short, dropping at a fixed 2^−ℓ would be reckless, because the tuned
    constants were never enough by themselves; so here the constants only say when to look, and
    evidence says whom to drop: an estimate must exceed an anytime-valid boundary at level δ, in
    units of its own standard error. The first phase is a pilot that decides nothing; later ones
    shrink the accuracy by 2^¼ each and keep the pulls of all before them but the pilot.

    **The replication preset** (`preset="replication"`) is the paper's reading as its experiments
    ran it: XOR pulls active arms only, the ridge is max(1, log(n_ℓ/δ)) with the δ of the whole
    run, and there are at most 10 phases. Its designs are certified.

    Assumes rewards x·θ + ν_t + noise with ν_t fixed before arm t is drawn; the paper's reading also
    takes |ν_t| ≤ `problem.baseline` and noise of scale `problem.noise`. Neither proves an error
    probability (the paper's constants are tuned, the boundary is asymptotic): the `error_bound`
    of a recommendation is None.

    Args:
        problem: the problem.
        design: `"xor"` is the paper's anchored design, `"centered"` the exact centered XY-design;
            they come with DEO and the exact centered G-design.
        stability: the M in the phase length: `"paper"` is 32 d, `"actual"` the true value.
        preset: `"paper"` follows the paper's text, `"replication"` its experiments; the latter
            takes no other `design`, `stability` or `anchor`, and targets that are the source arms.
        r1: the constant R₁ of the phase length.
        r2: the constant R₂.
        anchor: for `design="xor"`: `"best"` takes the source arm nearest to the empirically best
            target of the previous phase (a random arm in phase 1), a whole number that arm always.
        seed: for the random first anchor.
        max_pulls: stop before exceeding this many pulls; such a stop is never final.
        max_phases: stop after this many phases; never final either, unless one target is left.
            Left out, it is 10 under the replication preset and no limit otherwise.
        max_phase_pulls: a phase that wants more than this draws this many and is the last; the best
            of all targets under its estimate, dropped ones included, is then named, never final.
        tol: the relative gap to which designs are certified.

    Example:
        >>> from bestarm import Problem, SPBAI
        >>> policy = SPBAI(Problem([[1, 0], [0, 1]]), design="centered", stability="actual")
        >>> policy.plan().weights.round(2).tolist()
        [0.5, 0.5]

    Reference: "Nearly Optimal Best Arm Identification for Semiparametric Bandits", Algorithm 2.
    """

    version: ClassVar[int] = 1

    def __init__(
        self,
        problem: Problem,
        *,
        design: Literal["xor", "centered"] = "xor",
        stability: Literal["paper", "actual"] = "paper",
        preset: Literal["paper", "replication"] = "paper",
        r1: float = 1 / 3,
        r2: float = 1 / 3,
        anchor: Literal["best"] | int = "best",
        seed: int = 0,
        max_pulls: int | None = None,
        max_phases: int | None = None,
        max_phase_pulls: int | None = None,
        tol: float = 1e-3,
    ) -> None:
        choice(preset, ("paper", "replication"), "preset")
        replication = preset == "replication"
        super().__init__(
            problem,
            max_pulls=max_pulls,
            max_phases=10 if replication and max_phases is None else max_phases,
            max_phase_pulls=max_phase_pulls,
        )
        choice(design, ("xor", "centered"), "design")
        choice(stability, ("paper", "actual"), "stability")
        check_tolerance(tol)
        if anchor != "best":
            if design != "xor":
                raise InvalidInputError(
                    "`anchor` has no part in the centered design.",
                    field="anchor",
                    value=anchor,
                    remedy="Leave it out, or take design='xor'.",
                )
            whole(anchor, "anchor", least=0, below=problem.arms)
        if replication:
            _check_replication(problem, design=design, stability=stability, anchor=anchor)
        self._reading = _Reading(
            design, stability, replication, positive(r1, "r1"), positive(r2, "r2"), tol
        )
        self._anchor = anchor
        self._pooled = PooledTotals(problem)
        self._saved: tuple[int, PhaseDesign, int] | None = None  # by the phases so far
        rng = np.random.default_rng(whole(seed, "seed", least=0))
        self._first_anchor = int(rng.integers(problem.arms))

    def _design(self, phase: int, active: Indices) -> PhaseRequest:
        anchor = self._current_anchor() if self._reading.design == "xor" else None
        weights, gap = _design_phase(self.problem, self._reading, phase, active.tobytes(), anchor)
        return PhaseRequest(weights, self._describe_weights(phase, active, weights).pulls, gap)

    def _describe(self, plan: Plan, active: Indices) -> PhaseDesign:
        assert plan.weights is not None
        return self._describe_weights(plan.phase, active, plan.weights)

    def _describe_weights(self, phase: int, active: Indices, weights: Array) -> PhaseDesign:
        described = _describe_phase(
            self.problem, self._reading, phase, active.tobytes(), weights.tobytes()
        )
        if not self._reading.sharp or not self._trace:
            return described
        if self._saved is None or self._saved[:2] != (len(self._trace), described):
            saved = self._pooled.equivalent_pulls(described.weights)
            self._saved = len(self._trace), described, saved
        return replace(described, pulls=max(1, described.pulls - self._saved[2]))

    def _current_anchor(self) -> int:
        if self._anchor != "best":
            return int(self._anchor)
        if not self._trace:
            return self._first_anchor
        if self._reading.replication:
            return self._leader
        return _nearest_arm(self.problem, self._leader)

    def _estimate(self, design: PhaseDesign, plan: Plan, summary: Summary) -> Array:
        # Rewards divided by s are normalised; the estimate of θ/s is multiplied back. Both cancel,
        # because the ridge does not depend on the rewards.
        ridge = math.log(plan.pulls / design.delta)
        if self._reading.replication:
            ridge = max(1.0, math.log(plan.pulls / self.problem.delta))
        if self._reading.sharp:
            self._pooled.add(summary, design.weights, ridge=ridge)
            return self._pooled.theta
        return orthogonalized(
            self.problem,
            summary,
            design.weights,
            ridge=ridge,
            penalty="identity" if self._reading.design == "xor" else "covariance",
        )

    def _radii(self, design: PhaseDesign, differences: Array) -> Array:
        if not self._reading.sharp:
            return super()._radii(design, differences)
        return self._pooled.radii(differences, delta=design.delta)


def _accuracy(reading: _Reading, phase: int) -> float:
    """The accuracy of a phase, in units of the normalised rewards."""
    # Where pulls are kept, shorter steps waste nothing; where they are not, each must halve.
    return 2.0 ** (-(phase + 3) / 4) if reading.sharp else 2.0**-phase


def _length(
    problem: Problem, reading: _Reading, phase: int, active: int, *, fine: float = 1.0
) -> Callable[[float, float], int]:
    """n_ℓ of a phase from the design's value and stability, in units of 1/`fine` pulls."""
    return lambda value, stability: bounds.phase_length(
        value,
        epsilon=_accuracy(reading, phase),
        delta=bounds.phase_delta(problem.delta, active=active, phase=phase),
        stability=stability,
        dimension=problem.dimension if reading.stability == "paper" else problem.rank,
        r1=fine * reading.r1,
        r2=fine * reading.r2,
    )


@lru_cache(maxsize=1024)
def _design_phase(
    problem: Problem,
    reading: _Reading,
    phase: int,
    active: bytes,
    anchor: int | None,
) -> tuple[Array, float]:
    """Weights and certified gap; a pure function of these, so runs of a simulation share them."""
    contrasting, gap = _contrast_weights(problem, reading, active, anchor)
    spread = _g_weights(problem, reading)
    share = 0.5
    if reading.sharp:
        targets = problem.target[np.frombuffer(active, dtype=np.int64)]
        length = _length(problem, reading, phase, len(targets), fine=_FINE)
        share = shortest_mixture(problem, targets, contrasting, spread, length)
    weights = (1 - share) * contrasting + share * spread
    weights.flags.writeable = False
    return weights, gap


@lru_cache(maxsize=1024)
def _contrast_weights(
    problem: Problem, reading: _Reading, active: bytes, anchor: int | None
) -> tuple[Array, float]:
    """The XY-design and its gap: one for all phases with the same targets."""
    indices = np.frombuffer(active, dtype=np.int64)
    targets = problem.target[indices]
    pullable = indices if reading.replication else np.arange(problem.arms)
    if anchor is None:
        contrast = cached_design(centered_xy, problem.source, targets, tol=reading.tol)
    else:
        place = int(np.searchsorted(pullable, anchor))
        arms = problem.source[pullable]
        contrast = cached_design(xor, arms, targets, anchor=place, tol=reading.tol)
    weights = np.zeros(problem.arms)
    weights[pullable] = contrast.weights
    return weights, contrast.gap


@lru_cache(maxsize=1024)
def _describe_phase(
    problem: Problem, reading: _Reading, phase: int, active: bytes, weights: bytes
) -> PhaseDesign:
    """The quantities that follow from the weights of a phase."""
    indices = np.frombuffer(active, dtype=np.int64)
    targets, distribution = problem.target[indices], np.frombuffer(weights, dtype=float)
    if reading.stability == "paper":
        value = centered_diameter(problem.source, distribution, targets)
        m = 32.0 * problem.dimension
    else:
        value, m = diameter_and_stability(problem.source, distribution, targets)
    delta = bounds.phase_delta(problem.delta, active=len(targets), phase=phase)
    if reading.sharp:
        delta = bounds.contrast_delta(problem.delta, active=len(targets))
    return PhaseDesign(
        pulls=_length(problem, reading, phase, len(targets))(value, m),
        weights=distribution,
        radius=_accuracy(reading, phase) * problem.scale,
        delta=delta,
        value=value,
        stability=m,
    )


@lru_cache(maxsize=128)
def _g_weights(problem: Problem, reading: _Reading) -> Array:
    if reading.design == "xor":
        return cached_design(deo, problem.source, anchor=0, tol=reading.tol).weights
    return cached_design(centered_g, problem.source, tol=reading.tol).weights


def _check_replication(problem: Problem, **options: object) -> None:
    """Raise unless the options leave the paper's reading as it is, on arms that can be pulled."""
    require_pullable_targets(problem, "The replication preset")
    for field, value in options.items():
        if value != (allowed := _REPLICATED[field]):
            raise InvalidInputError(
                f"The replication preset keeps `{field}` at {allowed!r}; got {value!r}.",
                field=field,
                value=value,
                remedy="Leave it out, or take preset='paper'.",
            )


@lru_cache(maxsize=1024)
def _nearest_arm(problem: Problem, target: int) -> int:
    """The source arm nearest to a target; the target itself where it can be pulled."""
    distance = problem.source - problem.target[target]
    size = float(np.square(problem.source).max())
    return first_largest(-np.einsum("ij,ij->i", distance, distance), size=size)


def shortest_mixture(
    problem: Problem,
    targets: Array,
    contrast: Array,
    spread: Array,
    length: Callable[[float, float], int],
) -> float:
    """The share of the G-design that makes the phase shortest.

    With M_G = LLᵀ and L⁻¹ M_XY L⁻ᵀ = Q Λ Qᵀ, the mixture's inverse is diagonal in one basis for
    every share, so trying a share costs no factorisation.

    Args:
        problem: the problem.
        targets: features of the active targets.
        contrast: the design for their contrasts.
        spread: the G-design.
        length: the length of the phase from the value of a design and its stability, fine enough to
            compare mixtures by it.
    """
    span = problem.span
    arms = lift(span.coordinates(problem.source))
    options = lift(span.contrast_coordinates(targets - targets[0]), 0.0)
    lower = cholesky(arms.T @ (spread[:, None] * arms), lower=True)
    inner = solve_triangular(lower, (arms * np.sqrt(contrast)[:, None]).T, lower=True)
    eigenvalues, basis = eigh(inner @ inner.T)
    arms = np.square(solve_triangular(lower, arms.T, lower=True).T @ basis)
    options = solve_triangular(lower, options.T, lower=True).T @ basis
    pairs = None
    if len(options) <= _FEW:
        first, second = np.triu_indices(len(options), 1)
        pairs = np.square(options[first] - options[second])
    eigenvalues = np.maximum(eigenvalues, 0.0)

    def pulls(exponents: Array) -> Array:
        shares = np.exp(exponents)
        inverses = 1 / (np.outer(eigenvalues, 1 - shares) + shares)  # one column per share
        stabilities = (arms @ inverses).max(axis=0) - 1
        if pairs is None:
            values = np.array([diameter(options * np.sqrt(column)) for column in inverses.T])
        else:
            values = (pairs @ inverses).max(axis=0)
        found = zip(values.tolist(), stabilities.tolist(), strict=True)
        return np.array([float(length(value, m)) for value, m in found])

    grid = np.linspace(math.log(_LEAST_MIXTURE), 0.0, 13)
    lengths = pulls(grid)
    best = first_largest(-lengths)
    around = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    refined = minimize_scalar(
        lambda exponent: float(pulls(np.array([exponent]))[0]),
        bounds=around,
        method="bounded",
        options={"xatol": 0.02},
    )
    return math.exp(refined.x if refined.fun <= lengths[best] else grid[best])


class PooledTotals:
    """The phases so far, and the orthogonalized regression on all of them but the first.

    Every phase's estimating equation, b_k − B_k θ with features centered at that phase's policy
    mean, is a sum of martingale differences whatever the baseline does, and so are sums of them
    over phases. Estimates may therefore use all pulls so far, and their error is known from the
    data.

    Subtracting a level m from all rewards of a phase changes b by m Σ x̃, which has mean zero if m
    was fixed before the pulls. It removes the variance that the common level of the rewards (x̄·θ
    plus the mean baseline) would add, often the largest part. The first phase is a pilot: it
    estimates the level and the noise, and decides nothing. All later phases have equal weight.
    (Weighting them by their noise would let a baseline that reacts to the past choose which of them
    to drown.)
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._arms = problem.span.coordinates(problem.source)
        self._last: Summary | None = None
        self._pilot: Array = np.zeros((problem.rank, problem.rank))  # variances after the pilot
        self._phases: list[Summary] = []
        self._means = np.empty((0, problem.rank))  # the policy's mean in each phase, …
        self._levels = np.empty(0)  # … and the level predicted for it
        self._information = np.zeros((problem.rank, problem.rank))
        self._slope = np.zeros(problem.rank)
        self._errors = np.zeros((problem.rank, problem.rank))

    @property
    def theta(self) -> Array:
        """θ̂ in feature units; only its products with differences of arms mean anything."""
        return np.asarray(self._problem.span.dual @ self._slope)

    def equivalent_pulls(self, weights: Array) -> int:
        """How many pulls from this distribution the phases that count replace."""
        return equivalent_pulls(self._information, covariance(self._arms, weights))

    def add(self, summary: Summary, weights: Array, *, ridge: float) -> None:
        """Enter a phase, and estimate afresh.

        Args:
            summary: the phase's totals.
            weights: the distribution its arms were drawn from.
            ridge: the amount of shrinkage, in pulls.
        """
        if self._last is None:
            self._add_pilot(summary, weights, ridge)
        else:
            mean = weights @ self._arms
            level = predict_level(self._last, self._arms, mean, self._slope)
            self._levels = np.append(self._levels, level)
            self._means = np.vstack([self._means, mean])
            self._phases.append(summary)
            per_pull = covariance(self._arms, weights)
            self._information = self._information + summary.pulls * per_pull
            self._slope, self._errors = self._solve(ridge)
        self._last = summary

    def _add_pilot(self, summary: Summary, weights: Array, ridge: float) -> None:
        """Estimate from the pilot at the level it turned out to have: it decides nothing."""
        self._phases, self._means = [summary], (weights @ self._arms)[None]
        self._levels = np.array([summary.sums.sum() / summary.pulls])
        self._slope, _ = self._solve(ridge)
        exact, least = self._residuals(self._totals(), self._slope)
        # Rewards that did not vary at all tell nothing of their scale; then the declared one must.
        varied = exact.sum() > least.sum()
        noise = float(exact.sum()) / summary.pulls if varied else self._problem.scale**2
        per_pull = covariance(self._arms, weights)
        self._pilot = noise / summary.pulls * _inverse(per_pull)
        self._phases, self._means, self._levels = [], self._means[:0], self._levels[:0]

    def _totals(self) -> tuple[Array, Array, Array]:
        """Counts, sums and sums of squares: phases × arms."""
        counts, sums, squares = (
            np.array([getattr(phase, name) for phase in self._phases], dtype=float)
            for name in ("counts", "sums", "squares")
        )
        return counts, sums, squares

    def _solve(self, ridge: float) -> tuple[Array, Array]:
        """The slope, and the covariance of its error."""
        counts, sums, _ = totals = self._totals()
        rest = sums - self._levels[:, None] * counts
        moment = rest.sum(axis=0) @ self._arms - rest.sum(axis=1) @ self._means
        pulls = float(counts.sum())
        gram = (1 + ridge / pulls) * self._scatter(counts)
        inverse = _inverse(gram)
        slope = inverse @ moment
        # The error's covariance is B⁻¹ (Σ u² x̃x̃ᵀ) B⁻¹, with the quadratic variation itself inside:
        # no arm's variance need be known or equal another's.
        variation = self._scatter(np.maximum(*self._residuals(totals, slope)))
        degrees = pulls / max(pulls - len(gram), 1.0)
        return slope, degrees * (inverse @ variation @ inverse)

    def _residuals(self, totals: tuple[Array, Array, Array], slope: Array) -> tuple[Array, Array]:
        """Σ u² over the pulls of each arm in each phase, u = r − level − x̃·slope, and its rounding.

        A variance that cancels to less than the rounding of its parts is set to that rounding.
        """
        counts, sums, squares = totals
        fit = (self._levels - self._means @ slope)[:, None] + self._arms @ slope
        exact = squares - 2 * fit * sums + fit * fit * counts
        return exact, (counts + 64) * _EPSILON * (squares + fit * fit * counts)

    def _scatter(self, masses: Array) -> Array:
        """Σ over phases k and arms a of masses[k, a] (x_a − x̄_k)(x_a − x̄_k)ᵀ."""
        arms, means = self._arms, self._means
        cross = (masses @ arms).T @ means
        own = arms.T @ (masses.sum(axis=0)[:, None] * arms)
        return np.asarray(own - cross - cross.T + means.T @ (masses.sum(axis=1)[:, None] * means))

    def radii(self, contrasts: Array, *, delta: float) -> Array:
        """For each contrast (row) the estimate from which on it is shown to be positive.

        Args:
            contrasts: differences of targets.
            delta: the error probability allowed to each, over all looks together.
        """
        if not self._phases:
            return np.full(len(contrasts), np.inf)
        rows = self._problem.span.contrast_coordinates(contrasts)
        variance = np.einsum("ij,jk,ik->i", rows, self._errors, rows)
        at_first = np.einsum("ij,jk,ik->i", rows, self._pilot, rows)
        return bounds.mixture_radius(variance, delta=delta, reference=_TIGHTEST * at_first)


def equivalent_pulls(information: Array, per_pull: Array) -> int:
    """How many pulls of a plan the past replaces: the largest c with information ⪰ c · per_pull.

    Args:
        information: Σ_k n_k Σ_cov,k over past phases, in coordinates of the span.
        per_pull: Σ_cov,p of the plan, in the same coordinates.
    """
    # The least eigenvalue of L⁻¹ information L⁻ᵀ with LLᵀ = per_pull.
    lower = np.linalg.cholesky(per_pull)
    half = np.linalg.solve(lower, information)
    whitened = np.linalg.solve(lower, half.T)
    found = float(np.linalg.eigvalsh((whitened + whitened.T) / 2)[0])
    # Where the past has the same distribution it is a whole number, but for rounding.
    return max(0, int(found * (1 + TIE)))


def _inverse(matrix: Array) -> Array:
    """The pseudo-inverse of a symmetric matrix; NumPy's takes three times as long."""
    values, vectors = np.linalg.eigh(matrix)
    kept = np.abs(values) > _SINGULAR * float(np.abs(values).max(initial=0.0))
    return np.asarray((vectors[:, kept] / values[kept]) @ vectors[:, kept].T)
