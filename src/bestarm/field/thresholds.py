"""Thresholds, lengths and shares of δ of the methods of others.

Every function states its formula and the theorem behind it, or that nothing is proven with it.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import zeta

from bestarm.numerics.geometry import Array

# Phases


def peace_delta(delta: float, *, phase: int) -> float:
    """The share of δ that the k-th phase of Peace spends: δ/(2k²), in sum less than δ."""
    return delta / (2 * phase**2)


def peace_phase_length(
    value: float, *, sigma: float, gap: float, slack: float, support: int
) -> int:
    """The pulls of a phase of Peace: ⌈(1 + ε) σ² τ/(gap/2)²⌉, but at least support/ε.

    τ = γ + 2 log(1/δ_k) ρ is the value of the design. For Gaussian noise the largest error of a
    contrast is, but with probability δ_k, at most √γ + √(2 log(1/δ_k) ρ) ≤ √(2τ) times σ √(c/n)
    (Borell, Tsirelson, Ibragimov and Sudakov), where whole pulls cost the factor
    c ≤ 1/(1 − support/n) ≤ 1/(1 − ε). That is gap/√(2(1 − ε²)), for ε < 0.7 less than the lead at
    which a target is dropped.

    Args:
        value: τ.
        sigma: the standard deviation of the noise.
        gap: the lead at which the phase drops targets.
        slack: ε, what rounding to whole pulls may cost.
        support: how many arms the design pulls.

    Reference: Katz-Samuels, Jain, Karnin and Jamieson (2020), Algorithm 1.
    """
    wanted = (1 + slack) * sigma**2 * value * 4 / gap**2
    return max(math.ceil(wanted), math.ceil(support / slack))


def xy_threshold(
    *, sigma: float, delta: float, targets: int, directions: int | None
) -> tuple[float, float]:
    """The threshold of the XY rules after n pulls: factor·(2 log n + level) for (lead/width)².

    With `directions` it is the published one, 8σ² log(6 n² directions/(π²δ)). It is proven for
    σ-sub-Gaussian noise and an allocation fixed beforehand, with room: a contrast leaves its
    interval after n pulls with probability at most (6 n² directions/(π²δ))⁻⁴, and only the H − 1
    contrasts with the best target can mislead, so that errors have probability at most
    (H − 1) ζ(8) (π²δ/(6 directions))⁴ < δ.

    XY-adaptive takes it with the n pulls of each phase, whose allocation is fixed given earlier
    ones. Phases for the same targets have different lengths, but for a last one that a cap cuts
    short, and there are at most H − 1 sets of targets: errors have probability at most
    (H − 1) ((H − 1) ζ(8) + 1) (π²δ/(6H²))⁴ < δ.

    With None it is 2σ² log(π² n² (H − 1)/(6δ)), from the union bound without the room.

    Args:
        sigma: the sub-Gaussian scale of the noise.
        delta: the allowed error probability.
        targets: the number of targets, H.
        directions: how many directions the published threshold counts, H or H².

    Returns:
        The factor and the level.

    Reference: Soare, Lazaric and Munos (2014), Proposition 1 and equations 11 and 13.
    """
    if directions is None:
        return 2 * sigma**2, math.log(math.pi**2 * (targets - 1) / (6 * delta))
    return 8 * sigma**2, math.log(6 * directions / (math.pi**2 * delta))


def xy_phase_threshold(*, sigma: float, delta: float, targets: int, phase: int) -> float:
    """2σ² log(π² j² (H − 1)/(6δ)) for (lead/width)² in the j-th phase of XY-adaptive.

    Given earlier phases the allocation of a phase is fixed, and only the H − 1 contrasts with the
    best target can drop it. The shares 6δ/(π²j²) of the phases sum to δ.
    """
    return 2 * sigma**2 * math.log(math.pi**2 * phase**2 * (targets - 1) / (6 * delta))


class AlbaStep(NamedTuple):
    """A step of ALBA: one look at the pulls of a round.

    Attributes:
        sigma: the sub-Gaussian scale of the noise.
        bound: L, a bound on |x·θ|.
        rank: the dimension of the span of the arms that are left.
        delta: the share of δ, 6/π² δ_r/s² with δ_r = 6/π² δ/(r + 1)².
        log_factor: log(5 |S|²/(2δ_s)): pulls are this times ℓ.
        accuracy: of every estimate x·θ̂ after the step, 2/1.1^s (Theorem 12).
        pulls: how many the round has after the step.
    """

    sigma: float
    bound: float
    rank: int
    delta: float
    log_factor: float
    accuracy: float
    pulls: int


def alba_step(
    *, sigma: float, bound: float, delta: float, rank: int, arms: int, place: tuple[int, int]
) -> AlbaStep:
    """The s-th step of round r: ⌈ℓ log(5 |S|²/(2δ_s))⌉ pulls in the round.

        ℓ = 4 c₀ (2 + (6 + ε) d)/ε²,   ε = 4/1.1^s,   c₀ = max(4L², 3σ², 3)

    Args:
        sigma: the sub-Gaussian scale of the noise.
        bound: L, a bound on |x·θ|.
        delta: the allowed error probability.
        rank: d, the dimension of the span of the arms that are left.
        arms: |S|, how many were left when the round began.
        place: the numbers of the round, from 0, and of the step, from 1.

    Reference: Tao, Blanco and Zhou (2018), Algorithms 3 and 4.
    """
    round_, step = place
    share = (6 / math.pi**2) ** 2 * delta / ((round_ + 1) * step) ** 2
    log_factor = math.log(5 * arms**2 / (2 * share))
    epsilon = 4 / 1.1**step
    length = 4 * max(4 * bound**2, 3 * sigma**2, 3) * (2 + (6 + epsilon) * rank) / epsilon**2
    pulls = math.ceil(length * log_factor)
    return AlbaStep(sigma, bound, rank, share, log_factor, epsilon / 2, pulls)


def alba_radius(
    widths: Array, *, lead: Array, spread: Array, length: float, step: AlbaStep
) -> Array:
    """The lead at which ALBA drops an arm: the smaller of err and Err in Lemma 7, at θ̂.

        err = √2 L w/√ℓ + 2 (2L + L w √d)/(3ℓ) + z
        Err = √(2 spread/ℓ) + 2 (lead + a + L w √d)/(3ℓ) + z
        z = √2 σ w √((1 + √(3d/ℓ))/ℓ)

    with a the accuracy of estimates. (The paper has L ‖y‖₂ where we have 2L, for features of norm
    at most 1; |x·θ| ≤ L is all that is used.) Infinite for ℓ < 3d, where the lemma says nothing.

    Args:
        widths: w² = ‖y‖² under M(λ)⁻¹ for each contrast.
        lead: |y·θ̂|.
        spread: E_z (y·M(λ)⁻¹z (|z·θ̂| + a))² under the design.
        length: ℓ.
        step: the step.
    """
    if length < 3 * step.rank:
        return np.full(len(widths), np.inf)
    width = np.sqrt(widths)
    noise = math.sqrt(2 * (1 + math.sqrt(3 * step.rank / length)) / length) * step.sigma * width
    most = step.bound * width * math.sqrt(step.rank)
    plain = math.sqrt(2 / length) * step.bound * width + (4 * step.bound + 2 * most) / (3 * length)
    known = np.sqrt(2 * spread / length) + 2 * (lead + step.accuracy + most) / (3 * length)
    return np.asarray(np.minimum(plain, known) + noise)


# Rules on arm means, and BOSE


def log_growth(share: float) -> float:
    """g(λ) = 2λ (1 − log(4λ)) + log ζ(2λ) − ½ log(1 − λ), for 1/2 < λ < 1."""
    return float(
        2 * share * (1 - math.log(4 * share)) + math.log(zeta(2 * share)) - math.log1p(-share) / 2
    )


@lru_cache(maxsize=256)
def gaussian_calibration(x: float) -> float:
    """C(x) = min over 1/2 < λ < 1 of (g(λ) + x)/λ.

    Let S be the sum of an arm's noise over its N pulls, 1-sub-Gaussian given the past. Then, with
    probability at least 1 − exp(−x), at every moment, whatever is pulled, over m arms

        Σ S²/(2N) ≤ m C(x/m) + 2 Σ log(4 + log N)

    For every λ the mixture Σ_i w_i √(τ_i/(N + τ_i)) exp(S²/(2(N + τ_i))) is a supermartingale that
    begins at 1, if w_i = i^(−2λ)/ζ(2λ). With τ_i = e^(4λ(i−1)) (1 − λ)/λ, and the i for which
    4λ(i − 1) ≤ log N < 4λi, the exponent is at least λS²/(2N), the root at least e^(−2λ) √(1 − λ),
    and w_i at least ((4λ + log N)/(4λ))^(−2λ)/ζ(2λ). So the mixture is never below
    exp(λ (S²/(2N) − 2 log(4 + log N)) − g(λ)). The product over arms is a supermartingale, too,
    since a pull changes one of its factors: Ville's inequality bounds it.

    Reference: Kaufmann and Koolen (2021), Theorem 9 and Corollary 10, for Gaussian arms.
    """
    found = minimize_scalar(
        lambda share: (log_growth(share) + x) / share,
        bounds=(0.5 + 1e-9, 1 - 1e-12),
        method="bounded",
    )
    return float(found.fun)


class Rate(NamedTuple):
    """β(t) = level + power · log t + outer · log(shift + log t), as rules on arm means need it.

    `field.means_rule.rate` computes it, from the plain tuple.
    """

    level: float
    power: float = 0.0
    outer: float = 0.0
    shift: float = 1.0


def tuned_rate(delta: float) -> Rate:
    """log((log t + 1)/δ): what published experiments use; nothing is proven with it.

    Reference: Garivier and Kaufmann (2016), section 6.
    """
    return Rate(math.log(1 / delta), outer=1.0)


def kl_lucb_rate(delta: float, *, arms: int, constant: float = 405.5) -> Rate:
    """log(k K t^1.1/δ), for confidence bounds of one arm each.

    An arm's mean after n of t ≥ n pulls leaves its bound on one side with probability at most
    δ/(k K n^1.1), and Σ n^−1.1 ≤ 1 + 1/0.1 = 11. Only the upper bound of the best arm and the lower
    bounds of the K − 1 others can mislead: every k ≥ 11 will do.

    Args:
        delta: δ.
        arms: K.
        constant: k; the paper's analysis of the number of pulls has 405.5.

    Reference: Kaufmann and Kalyanakrishnan (2013), Theorems 1 and 3.
    """
    return Rate(math.log(constant * arms / delta), power=1.1)


def chernoff_rate(delta: float, *, arms: int) -> Rate:
    """log(2t(K − 1)/δ), for generalized likelihood ratios of two arms with Bernoulli rewards.

    The likelihood of n rewards of an arm is for no mean more than 2√n times that of the mixture of
    Krichevsky and Trofimov. So the ratio of two arms in the wrong order, with n and m of t pulls,
    exceeds a martingale that begins at 1 by at most 4√(nm) ≤ 2(n + m) ≤ 2t, as a factor. Ville's
    inequality bounds it for each of the K − 1 pairs with the best arm, at all moments at once.

    Reference: Garivier and Kaufmann (2016), Theorem 10.
    """
    return Rate(math.log(2 * (arms - 1) / delta), power=1.0)


def gaussian_rate(delta: float, *, arms: int) -> Rate:
    """2 C(log((K − 1)/δ)/2) + 4 log(4 + log(t/2)), for likelihood ratios of two Gaussian arms.

    C is `gaussian_calibration`. Where the leader is not the best arm, their ratio is at most what
    both arms' noise amounts to, which is bounded for K − 1 pairs with the best arm; and
    log(4 + log N) + log(4 + log N′) ≤ 2 log(4 + log(t/2)) for N + N′ ≤ t, since it is concave.
    Proven for rewards that are sub-Gaussian around their arm's mean, given the past.

    Reference: Kaufmann and Koolen (2021), Corollary 10 with the bound on both arms' parts.
    """
    level = 2 * gaussian_calibration(math.log((arms - 1) / delta) / 2)
    return Rate(level, outer=4.0, shift=4 - math.log(2))


def lil_ucb_delta(delta: float, *, epsilon: float) -> float:
    """The δ′ for which lil'UCB errs with probability at most δ: 4√(cδ′) + 4cδ′ = δ.

        c = (2 + ε)/ε · (1/log(1 + ε))^{1+ε}

    Reference: Jamieson, Malloy, Nowak and Bubeck (2014), Theorem 2.
    """
    c = (2 + epsilon) / epsilon * math.pow(1 / math.log1p(epsilon), 1 + epsilon)
    return math.pow(math.sqrt(1 + delta) - 1, 2) / (4 * c)


def lil_ucb_tuned_delta(delta: float) -> float:
    """δ/5: the δ′ of the paper's heuristic; nothing is proven with it.

    Reference: Jamieson, Malloy, Nowak and Bubeck (2014), section 5.
    """
    return delta / 5


def bose_constants(delta: float, *, budget: int, dimension: int) -> tuple[float, float]:
    """λ = 4d log(9T) + 8 log(4T/δ), and γ = √λ + √(27 d log(1 + 2T/d) + 54 log(4T/δ)).

    Reference: Krishnamurthy, Wu and Syrgkanis (2018), Theorem 1.
    """
    last = math.log(4 * budget / delta)
    ridge = 4 * dimension * math.log(9 * budget) + 8 * last
    spread = 27 * dimension * math.log1p(2 * budget / dimension) + 54 * last
    return ridge, math.sqrt(ridge) + math.sqrt(spread)


# Linear rules that decide after every pull


class LinearThreshold(NamedTuple):
    """A threshold of the statistic of linear rules: factor · (√(level + growth/2) + shift)².

    The statistic is Z(t) = min over z of ((z_leader − z)·θ̂)² / (2σ² ‖z_leader − z‖² under A⁻¹).

    Attributes:
        growth: what grows with the pulls. `"log-log"`: 2 log(1 + log t). `"log"`: log t.
            `"determinant"`: log det(I + Λ⁻¹ Σ x xᵀ). `"trace"`: d log(1 + prior · t), which is
            never smaller. `"counts"`: 4 Σ_a log(4 + log N_a). `"certified"`: as the determinant,
            and Z(t) is computed with A⁻¹ + A⁻¹ΛA⁻¹.
        level: the part with δ.
        factor: a factor.
        shift: what a regularised estimate may be off by.
        prior: Λ, as a multiple of a matrix that the growth implies.
    """

    growth: Literal["log-log", "log", "determinant", "trace", "counts", "certified"]
    level: float
    factor: float = 1.0
    shift: float = 0.0
    prior: float = 1.0


def linear_experiments(delta: float) -> LinearThreshold:
    """β = log((1 + log t)/δ), with which most figures of the field were made; nothing is proven.

    Reference: Garivier and Kaufmann (2016), Section 6, for arms without features.
    """
    return LinearThreshold("log-log", math.log(1 / delta))


def lingape_threshold(
    delta: float, *, targets: int, norm: float, ridge: float = 1.0
) -> LinearThreshold:
    """LinGapE's C_t²/2 with C_t = √(2 log(K² det(A)^½ det(λI)^−½ / δ)) + √λ S, for noise 1.

    Args:
        delta: δ.
        targets: K.
        norm: S, a bound on ‖θ‖ in units of the noise.
        ridge: λ, where A = λI + Σ x xᵀ.

    Reference: Xu, Honda and Sugiyama (2018), after Theorem 2 of Abbasi-Yadkori, Pál and
    Szepesvári (2011), whose ellipsoid covers all directions at once: K² could be left out.
    """
    level = math.log(targets**2 / delta)
    return LinearThreshold("determinant", level, shift=math.sqrt(ridge / 2) * norm, prior=ridge)


def lingame_threshold(
    delta: float, *, rank: int, norm: float, ridge: float = 1.0
) -> LinearThreshold:
    """LinGame's β = (√(log(1/δ) + (d/2) log(1 + t/(λd))) + √(λ/2) M)², for noise 1.

    Arms have norm 1 or less.

    Args:
        delta: δ.
        rank: d.
        norm: M, a bound on ‖θ‖ in units of the noise.
        ridge: λ, where A = λI + Σ x xᵀ.

    Reference: Degenne, Ménard, Shang and Valko (2020), after Theorem 2 of Abbasi-Yadkori, Pál and
    Szepesvári (2011).
    """
    shift = math.sqrt(ridge / 2) * norm
    return LinearThreshold("trace", math.log(1 / delta), shift=shift, prior=1 / (ridge * rank))


_LAZY_SLACK = 0.1  # u


def lazy_threshold(delta: float, *, least: float) -> LinearThreshold:
    """Lazy Track-and-Stop's (1 + u) log(det(I + Σ x xᵀ / (uc))^½ / δ), for noise 1; u = 0.1.

    It holds once Σ x xᵀ ≥ cI, since then A + ucI ≤ (1 + u)A.

    Args:
        delta: δ.
        least: c.

    Reference: Jedra and Proutière (2020), equation 9; u and c as in their code.
    """
    return LinearThreshold(
        "determinant", math.log(1 / delta), factor=1 + _LAZY_SLACK, prior=_LAZY_SLACK * least
    )


def lazy_experiments(delta: float, *, rank: int) -> LinearThreshold:
    """(1 + u) (log(1/δ) + ½ log t + (d/2) log(1 + 1/u)), for noise 1; u = 0.1. Nothing is proven.

    Reference: Jedra and Proutière (2020), Appendix A.1.
    """
    level = math.log(1 / delta) + rank / 2 * math.log1p(1 / _LAZY_SLACK)
    return LinearThreshold("log", level, factor=1 + _LAZY_SLACK)


def counts_threshold(delta: float, *, arms: int) -> LinearThreshold:
    """2 Σ_a log(4 + log N_a) + K C(log(1/δ)/K): all arms' means at once, at any moment.

    This bounds Σ_a N_a (mean − μ_a)²/2 for noise that is 1-sub-Gaussian given the past
    (`gaussian_calibration`, which is C), and with it ½‖θ̂ − θ‖² under A = Σ x xᵀ for least squares
    that is not regularised: the fit is a projection of the means. Every arm was pulled.

    Reference: Kaufmann and Koolen (2021), Theorem 9 and Corollary 10.
    """
    return LinearThreshold("counts", arms * gaussian_calibration(math.log(1 / delta) / arms))


def certified_threshold(delta: float) -> LinearThreshold:
    """log(det(I + Λ⁻¹ Σ x xᵀ)^½ / δ) for least squares that is not regularised, noise 1.

    With a prior N(0, Λ⁻¹) on the parameter, the likelihood ratio of the mixture bounds
    ½‖Σ x·noise‖² under (A + Λ)⁻¹ by this, at all moments at once. That is an ellipsoid for θ
    around θ̂ with A⁻¹ + A⁻¹ΛA⁻¹: nothing is lost to the number of arms, to a bound on ‖θ‖ or to a
    factor. Λ is worth 30 pulls, spread evenly over the arms.

    Reference: Abbasi-Yadkori, Pál and Szepesvári (2011), Theorem 1.
    """
    return LinearThreshold("certified", math.log(1 / delta), prior=30.0)
