"""Where δ is divided, and what follows from a share of it: lengths, radii, thresholds.

Every function states its formula and the theorem behind it, or that nothing is proven with it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import gammainc, gammaln, ndtr

from bestarm.checks import interval
from bestarm.numerics.geometry import Array
from bestarm.records import Counts

__all__ = [
    "ControlShares",
    "ToleranceShares",
    "arm_delta",
    "bernstein_evidence",
    "contrast_delta",
    "control_shares",
    "guardrail_share",
    "lil_constants",
    "lil_radius",
    "mixture_level",
    "mixture_radius",
    "pairs_delta",
    "phase_delta",
    "phase_length",
    "rage_delta",
    "rage_phase_length",
    "rates_delta",
    "sbe_delta",
    "sbe_phase_length",
    "set_delta",
    "sub_gaussian_scale",
    "tolerance_shares",
]


def contrast_delta(delta: float, *, active: int) -> float:
    """δ / (|A| − 1): the best target is dropped only if it loses to one of the others."""
    return delta / max(active - 1, 1)


def set_delta(delta: float, *, targets: int, top: int) -> float:
    """δ / (m(H − m)): in a wrong set of m targets, some pair is in the wrong order."""
    return delta / (top * (targets - top))


def pairs_delta(delta: float, *, targets: int) -> float:
    """δ / (H(H − 1)): contrasts of all pairs of targets, each bounded from both sides."""
    return delta / (targets * (targets - 1))


def rates_delta(delta: float, *, targets: int) -> float:
    """δ / (2H): the average of every target, bounded from both sides."""
    return delta / (2 * targets)


def arm_delta(delta: float, *, arms: int) -> float:
    """δ / K: an arm is named wrongly only if its mean is too high, or the best arm's too low."""
    return delta / arms


class ControlShares(NamedTuple):
    """How δ is split where a control is named; together they are δ.

    Attributes:
        decision: naming the best, or the set.
        behind: how far the control is behind the best.
        pair: a lower or an upper bound on the lead of one target over the control; there are
            2(H − 1) of them.
    """

    decision: float
    behind: float
    pair: float


def control_shares(delta: float, *, targets: int) -> ControlShares:
    """Nine tenths of δ for the decision, the rest for effects against the control."""
    return ControlShares(0.9 * delta, 0.05 * delta, 0.05 * delta / (2 * (targets - 1)))


def guardrail_share(alpha: float, *, options: int, changes: bool, added: int = 0) -> float:
    """The share of α of an option's guardrail: α/(H − 1), where no option can be added.

    Where some can, the options of the start share nine tenths of α, and the j-th that is added has
    2^−j of the rest: however many follow, and whenever, all shares add up to α at most.

    Args:
        alpha: α.
        options: how many options there are at the start, besides the control: H − 1.
        changes: whether options may be added.
        added: 0 for an option of the start, and j for the j-th that was added.
    """
    if added:
        return 0.1 * alpha * 0.5**added
    return (0.9 if changes else 1.0) * alpha / max(options, 1)


class ToleranceShares(NamedTuple):
    """How δ is split where a target within a tolerance of the best may be named.

    Attributes:
        dropping: dropping targets that are not the best.
        leaders: certificates of targets that lead: the j-th has 1/(j(j + 1)) of it.
        control: that of the control, if there is one.
    """

    dropping: float
    leaders: float
    control: float


def tolerance_shares(delta: float, *, control: bool) -> ToleranceShares:
    """Nine tenths of δ for dropping, the rest for certificates; half of it for a control's."""
    return ToleranceShares(0.9 * delta, (0.05 if control else 0.1) * delta, 0.05 * delta)


class ChangeShares(NamedTuple):
    """How δ is split where options may be added and retired; together at most δ.

    Attributes:
        unchanged: decisions among the options there were at the start.
        reserve: those on options that were added; and as much again on options of the start, once
            some were retired that were not ruled out.
    """

    unchanged: float
    reserve: float

    def addition(self, number: int) -> float:
        """For the option that was added j-th: 2^−j of the reserve."""
        return self.reserve * 0.5**number

    def retired(self, number: int) -> float:
        """For the options of the start, once the m-th was retired that was not ruled out: 2^−m."""
        return self.reserve * 0.5**number

    def interval(self, number: int, *, targets: int) -> float:
        """For one side of the interval of a pair of options: of the start, or with the j-th added.

        All pairs of the start have `unchanged`, and those of the j-th with the H + j − 1 before it
        2^−j of the reserve.
        """
        if number == 0:
            return pairs_delta(self.unchanged, targets=targets)
        return self.addition(number) / (targets + number - 1)


def change_shares(delta: float) -> ChangeShares:
    """91 % of δ for the options of the start (0.094 nats), the rest for changes."""
    return ChangeShares(0.91 * delta, 0.045 * delta)


# Radii and evidence at any look


def mixture_radius(variance: Array, *, delta: float, reference: Array) -> Array:
    """The estimate that shows, at any look, that its mean is positive.

        √v · √( (1 + v/v₀) (2 log(1/(2δc)) + log(1 + v₀/v)) )

    For Gaussian estimates of variance v built from independent increments, the chance that one
    with mean ≤ 0 ever reaches this, at whatever looks, is at most δ; for other estimates this is
    asymptotic. It is the boundary of a half-normal mixture of likelihood ratios: the mixture is
    2Φ(·) times the normal one, and c = Φ(√(2 log(1/2δ))) bounds that Φ from below.

    Args:
        variance: v, the squared standard error of each estimate now.
        delta: δ.
        reference: v₀, the variance around which the boundary is tightest; fixed beforehand.

    Reference: Robbins (1970); Waudby-Smith et al. (2024) for the asymptotics.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = mixture_level(delta) + np.log1p(reference / variance)
        radius = np.sqrt(variance * ((1 + variance / reference) * rate))
    return np.where(variance > 0, radius, 0.0)


def mixture_level(delta: float) -> float:
    """The part of `mixture_radius` that does not depend on the variance: 2 log(1/(2δc))."""
    c = float(ndtr(math.sqrt(max(2 * math.log(1 / (2 * delta)), 0.0))))
    return 2 * math.log(1 / min(2 * delta * c, 1.0))


def sub_gaussian_scale(bounds: tuple[float, float]) -> float:
    """The sub-Gaussian scale of rewards between two bounds, whatever their law: (high − low) / 2.

    Args:
        bounds: the lowest and the highest possible reward.

    Reference: Hoeffding (1963).
    """
    low, high = interval(bounds, "bounds")
    return (high - low) / 2


def bernstein_evidence(lead: Array, variation: Array, *, reach: float, reference: float) -> Array:
    """The log of the evidence that a sum of bounded rewards has a positive mean, at any look.

    Let rewards lie within `reach` of guesses made before them. For 0 ≤ λ < 1/c,

        exp( λ Σ (r − μ) − ψ(λ) Σ (r − guess)² ),    ψ(λ) = (−log(1 − cλ) − cλ) / c²

    is a supermartingale, for a sum of rewards, of their negatives, or of some of each. Averaged
    over λ with 1 − cλ from a gamma law with shape and rate a₀ = v₀/c², cut off at 1, it is

        exp((cs + v)/c²) γ(a, x) x^−a / (γ(a₀, a₀) a₀^−a₀),    a = (v + v₀)/c²,  x = a + s/c

    with γ the lower incomplete gamma function. Where the mean is not positive, the chance that it
    ever reaches 1/δ is at most δ.

    Args:
        lead: s, the sums.
        variation: v, the sums of squared distances from the guesses.
        reach: c.
        reference: v₀, about a tenth of the variation at which the evidence is to be strongest.

    Reference: Howard, Ramdas, McAuliffe and Sekhon (2021), Theorem 4 and Proposition 9.
    """
    start, shape = reference / reach**2, (variation + reference) / reach**2
    rate = shape + lead / reach
    # A sum far below zero is not evidence; its exact value does not matter.
    safe = np.maximum(rate, np.finfo(float).tiny)
    with np.errstate(divide="ignore"):
        mixed = gammaln(shape) + np.log(gammainc(shape, safe)) - shape * np.log(safe)
    prior = gammaln(start) + math.log(gammainc(start, start)) - start * math.log(start)
    evidence = lead / reach + variation / reach**2 + mixed - prior
    return np.where(rate > 0, evidence, -np.inf)


def lil_radius(counts: Counts, *, sigma: float, delta: float, arms: int) -> Array:
    """The radius of an arm's mean after n pulls, as in published comparisons.

        2σ (1 + √ε) √( (1 + ε) log( log((1 + ε) n + 2) / (δ/K) ) / (2n) ),    ε = 0.01

    The form is that of a theorem, the level is not: with ρ in place of δ/K, one arm's mean ever
    exceeds it with probability at most (2 + ε)/ε · (ρ / log(1 + ε))^{1+ε}, which is above 20 000 ρ
    for this ε. At ρ = δ/K the theorem says nothing. `mixture_radius` is proven at its level.

    Args:
        counts: n, for each arm; the radius is infinite for an arm that was not pulled.
        sigma: the sub-Gaussian scale of a reward around its arm's mean.
        delta: the error probability of all arms together.
        arms: K.

    Reference: Jamieson, Malloy, Nowak and Bubeck (2014), Lemma 3; Jamieson and Nowak (2014).
    """
    factor, share = lil_constants(sigma=sigma, delta=delta, arms=arms)
    n = np.maximum(counts, 1)
    radius = factor * np.sqrt(1.01 * np.log(np.log(1.01 * n + 2) / share) / (2 * n))
    return np.where(counts > 0, radius, np.inf)


def lil_constants(*, sigma: float, delta: float, arms: int) -> tuple[float, float]:
    """The parts of `lil_radius` that do not depend on n: 2σ(1 + √ε) and δ/K."""
    return 2 * sigma * (1 + math.sqrt(0.01)), delta / arms


# Elimination in phases: shares of δ, lengths and radii


def phase_delta(delta: float, *, active: int, phase: int) -> float:
    """δ_ℓ = δ / (|A|² ℓ(ℓ+1)): a union over contrasts of active targets, and over phases.

    Reference: the paper's Algorithm 2, line 5, and Lemma 1.
    """
    return delta / (active**2 * phase * (phase + 1))


def phase_length(
    value: float,
    *,
    epsilon: float,
    delta: float,
    stability: float,
    dimension: int,
    r1: float = 1 / 3,
    r2: float = 1 / 3,
) -> int:
    """The paper's n_ℓ: pulls after which every active contrast is known within ε.

        ⌈ R₁ V/ε² log(V/(ε δ)) + R₂ M √V/ε log(d/δ) ⌉

    Args:
        value: V, the largest variance factor of an active contrast under the sampling weights.
        epsilon: the accuracy, in units of the normalised rewards.
        delta: the phase's part of the error probability, from `phase_delta`.
        stability: M, a bound on max_i ‖x_i − x̄_p‖² under Σ_cov,p⁻¹ (32 d in the paper).
        dimension: d.
        r1: R₁. The paper's experiments use 1/3, which is tuning: nothing is proven with it.
        r2: R₂, likewise.

    Reference: the paper's equation (10), which is its equation (5) for all contrasts of a phase.
    """
    # A value below ε (targets that hardly differ) must not make the logarithm negative.
    main = r1 * value / epsilon**2 * math.log(max(value / epsilon, 1.0) / delta)
    lower_order = r2 * stability * math.sqrt(value) / epsilon * math.log(dimension / delta)
    return _whole_pulls(main + lower_order)


def _whole_pulls(length: float) -> int:
    """A length rounded up, at least 1, and at most what an integer holds."""
    return max(1, math.ceil(min(length, 2.0**62)))


def sbe_delta(delta: float, *, arms: int, phase: int) -> float:
    """SBE's δ_ℓ = δ / (K ℓ(ℓ+1))."""
    return delta / (arms * phase * (phase + 1))


def sbe_phase_length(
    dimension: int, *, epsilon: float, delta: float, r1: float = 1 / 3, r2: float = 1 / 3
) -> int:
    """Pulls after which all arms are predicted within ε under DEO: SBE's n_ℓ, G-Opt's budget.

        ⌈ 4R₁ · 4d/ε² log(4d/(ε δ)) + 2R₂ · 32 d^{3/2}/ε log(d/δ) ⌉

    Args:
        dimension: d.
        epsilon: the accuracy, in units of the normalised rewards.
        delta: the error probability of this phase.
        r1: R₁, tuned to 1/3 in the paper's experiments.
        r2: R₂, likewise.

    Reference: Kim, Kim and Oh (2025), as run in the paper's experiments.
    """
    main = 4 * r1 * 4 * dimension / epsilon**2 * math.log(4 * dimension / (epsilon * delta))
    lower_order = 2 * r2 * 32 * math.sqrt(dimension) ** 3 / epsilon * math.log(dimension / delta)
    return _whole_pulls(main + lower_order)


def rage_delta(delta: float, *, targets: int, phase: int) -> float:
    """RAGE's δ_t / H² with δ_t = δ / t²."""
    return delta / (phase**2 * targets**2)


def rage_phase_length(
    value: float, *, phase: int, delta: float, sigma: float, slack: float, least: int
) -> int:
    """RAGE's N_t = σ² ⌈8 (2^{t+1})² (1 + slack) ρ log(1/δ)⌉, at least `least`.

    Args:
        value: ρ, the value of the linear XY-design over active contrasts.
        phase: t.
        delta: from `rage_delta`.
        sigma: the noise scale it assumes.
        slack: the price of rounding the design to whole pulls.
        least: the fewest pulls for which the rounding is valid.

    Reference: Fiez, Jain, Jamieson and Ratliff (2019), Algorithm 1.
    """
    # Phases that are cut short may continue for ever; the exponent stops before it overflows.
    length = 8 * 4.0 ** min(phase + 1, 400) * (1 + slack) * value * math.log(1 / delta)
    return max(_whole_pulls(sigma * sigma * _whole_pulls(length)), least)
