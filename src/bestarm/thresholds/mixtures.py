"""What it costs to bound the noise of several arms at once, at all moments."""

from __future__ import annotations

import math

from scipy.optimize import minimize_scalar
from scipy.special import zeta

__all__ = ["log_growth", "price_of_arms"]


def log_growth(share: float) -> float:
    """g(λ) = 2λ (1 − log(4λ)) + log ζ(2λ) − ½ log(1 − λ), for 1/2 < λ < 1: see `price_of_arms`."""
    return float(
        2 * share * (1 - math.log(4 * share)) + math.log(zeta(2 * share)) - math.log1p(-share) / 2
    )


def price_of_arms(x: float) -> float:
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
