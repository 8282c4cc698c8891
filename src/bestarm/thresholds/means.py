"""Thresholds of rules on arm means and of BOSE."""

from __future__ import annotations

import math
from typing import NamedTuple

from bestarm.thresholds.mixtures import price_of_arms

__all__ = [
    "Rate",
    "bose",
    "chernoff",
    "gaussian_ratio",
    "kl_lucb",
    "lil_ucb",
    "lil_ucb_tuned",
    "tuned",
]


class Rate(NamedTuple):
    """β(t) = level + power · log t + outer · log(shift + log t), as rules on arm means need it.

    Kernels take it as a plain tuple: `policies.means.rates.rate` is its compiled twin.
    """

    level: float
    power: float = 0.0
    outer: float = 0.0
    shift: float = 1.0

    def __call__(self, t: float) -> float:
        """β(t)."""
        log = math.log(t)
        outer = self.outer * math.log(self.shift + log) if self.outer else 0.0
        return self.level + self.power * log + outer


def tuned(delta: float) -> Rate:
    """log((log t + 1)/δ): what published experiments use; nothing is proven with it.

    Reference: Garivier and Kaufmann (2016), section 6.
    """
    return Rate(math.log(1 / delta), outer=1.0)


def kl_lucb(delta: float, *, arms: int, constant: float = 405.5) -> Rate:
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


def chernoff(delta: float, *, arms: int) -> Rate:
    """log(2t(K − 1)/δ), for generalized likelihood ratios of two arms with Bernoulli rewards.

    The likelihood of n rewards of an arm is for no mean more than 2√n times that of the mixture of
    Krichevsky and Trofimov. So the ratio of two arms in the wrong order, with n and m of t pulls,
    exceeds a martingale that begins at 1 by at most 4√(nm) ≤ 2(n + m) ≤ 2t, as a factor. Ville's
    inequality bounds it for each of the K − 1 pairs with the best arm, at all moments at once.

    Reference: Garivier and Kaufmann (2016), Theorem 10.
    """
    return Rate(math.log(2 * (arms - 1) / delta), power=1.0)


def gaussian_ratio(delta: float, *, arms: int) -> Rate:
    """2 C(log((K − 1)/δ)/2) + 4 log(4 + log(t/2)), for likelihood ratios of two Gaussian arms.

    C is `price_of_arms`. Where the leader is not the best arm, their ratio is at most what both
    arms' noise amounts to, which is bounded for K − 1 pairs with the best arm; and
    log(4 + log N) + log(4 + log N′) ≤ 2 log(4 + log(t/2)) for N + N′ ≤ t, since it is concave.
    Proven for rewards that are sub-Gaussian around their arm's mean, given the past.

    Reference: Kaufmann and Koolen (2021), Corollary 10 with the bound on both arms' parts.
    """
    level = 2 * price_of_arms(math.log((arms - 1) / delta) / 2)
    return Rate(level, outer=4.0, shift=4 - math.log(2))


def lil_ucb(delta: float, *, epsilon: float) -> float:
    """The δ′ for which lil'UCB errs with probability at most δ: 4√(cδ′) + 4cδ′ = δ.

        c = (2 + ε)/ε · (1/log(1 + ε))^{1+ε}

    Reference: Jamieson, Malloy, Nowak and Bubeck (2014), Theorem 2.
    """
    c = (2 + epsilon) / epsilon * math.pow(1 / math.log1p(epsilon), 1 + epsilon)
    return math.pow(math.sqrt(1 + delta) - 1, 2) / (4 * c)


def lil_ucb_tuned(delta: float) -> float:
    """δ/5: the δ′ of the paper's heuristic; nothing is proven with it.

    Reference: Jamieson, Malloy, Nowak and Bubeck (2014), section 5.
    """
    return delta / 5


def bose(delta: float, *, budget: int, dimension: int) -> tuple[float, float]:
    """λ = 4d log(9T) + 8 log(4T/δ), and γ = √λ + √(27 d log(1 + 2T/d) + 54 log(4T/δ)).

    Reference: Krishnamurthy, Wu and Syrgkanis (2018), Theorem 1.
    """
    last = math.log(4 * budget / delta)
    ridge = 4 * dimension * math.log(9 * budget) + 8 * last
    spread = 27 * dimension * math.log1p(2 * budget / dimension) + 54 * last
    return ridge, math.sqrt(ridge) + math.sqrt(spread)
