"""Thresholds of linear methods that decide after every pull."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from scipy.optimize import minimize_scalar
from scipy.special import zeta

__all__ = [
    "LinearThreshold",
    "certified_threshold",
    "counts_threshold",
    "lazy_experiments",
    "lazy_threshold",
    "linear_experiments",
    "lingame_threshold",
    "lingape_threshold",
]


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

        C(x) = min over 1/2 < λ < 1 of (g(λ) + x)/λ,
        g(λ) = 2λ (1 − log(4λ)) + log ζ(2λ) − ½ log(1 − λ)

    bounds Σ_a N_a (mean − μ_a)²/2 for Gaussian arms of variance 1, and with it the same sum for a
    least-squares fit, which is a projection.

    Reference: Kaufmann and Koolen (2021), Theorem 9 and Corollary 10.
    """
    x = math.log(1 / delta) / arms

    def price(share: float) -> float:
        g = 2 * share * (1 - math.log(4 * share)) + math.log(zeta(2 * share))
        return float((g - 0.5 * math.log1p(-share) + x) / share)

    found = minimize_scalar(price, bounds=(0.5 + 1e-9, 1 - 1e-12), method="bounded")
    return LinearThreshold("counts", arms * float(found.fun))


def certified_threshold(delta: float) -> LinearThreshold:
    """log(det(I + Λ⁻¹ Σ x xᵀ)^½ / δ) for least squares that is not regularised, noise 1.

    With a prior N(0, Λ⁻¹) on the parameter, the likelihood ratio of the mixture bounds
    ½‖Σ x·noise‖² under (A + Λ)⁻¹ by this, at all moments at once. That is an ellipsoid for θ
    around θ̂ with A⁻¹ + A⁻¹ΛA⁻¹: nothing is lost to the number of arms, to a bound on ‖θ‖ or to a
    factor. Λ is worth 30 pulls, spread evenly over the arms.

    Reference: Abbasi-Yadkori, Pál and Szepesvári (2011), Theorem 1.
    """
    return LinearThreshold("certified", math.log(1 / delta), prior=30.0)
