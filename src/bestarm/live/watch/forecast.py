"""How many more pulls an experiment may take: rough by nature, so always with a range."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from bestarm.geometry import Array
from bestarm.recommendation import Phase
from bestarm.records import Plan

_PRICE = 1.0  # nats that a bet on all stakes at once costs, about, against the best of them
_NEAR = 0.2  # nats that are always taken to be lacking: a batch must close before anything is said
_RANGE = (0.2, 0.5, 0.8)  # quantiles
_SCORES: Array = ndtri((np.arange(61) + 0.5) / 61)  # of a normal deviate, equally likely each
_FAR = 300.0  # times the pulls so far: beyond that nothing is foreseen


@dataclass(frozen=True)
class EndForecast:
    """How many more pulls there may be.

    Attributes:
        expected: a middling guess, or None where there is none.
        low: it may well be as few as this.
        high: and as many as this; None if no end can be foreseen.
        basis: what it is made from, in words.
    """

    expected: int | None
    low: int
    high: int | None
    basis: str


def from_evidence(pulls: int, evidence: float, level: float) -> EndForecast:
    """Pulls until the evidence against the hardest competitor, a log, reaches its level.

    The log of an e-value that bets well is a random walk of drift g per pull and variance 2g, so
    the pulls that are lacking follow an inverse Gaussian law. g itself is known through the score
    z = √(2 g n), which is off by a normal deviate. Quantiles are those of the mixture.
    """
    lacking = max(level - evidence, _NEAR)
    score = math.sqrt(2 * max(evidence + _PRICE, 0.1)) + _SCORES
    growth = np.square(score[score > 0])[:, None] / (2 * pulls)
    ahead = np.geomspace(1e-3 * pulls, _FAR * pulls, 300)
    mean, shape = lacking / growth, lacking**2 / (2 * growth)
    root = np.sqrt(shape / ahead)
    reflected = np.minimum(2 * shape / mean + log_ndtr(-root * (ahead / mean + 1)), 0.0)
    chance = (ndtr(root * (ahead / mean - 1)) + np.exp(reflected)).sum(axis=0) / len(_SCORES)
    low, middle, high = (
        math.ceil(np.interp(q, chance, ahead)) if chance[-1] >= q else None for q in _RANGE
    )
    return EndForecast(
        middle,
        low or 0,
        high,
        "From how the evidence against the closest competitor has grown. Rough: four in five of "
        "the experiments this was tried on ended within their range.",
    )


def from_phases(trace: Sequence[Phase], plan: Plan | None, *, left: int) -> EndForecast | None:
    """Pulls of this phase, and of those after it that the smallest estimated contrast asks for.

    A phase of half the radius needs four times the pulls, so phases grow as they did before. Of the
    pulls of the open plan, some are `left` to be settled.
    """
    if plan is None:
        return None
    basis = "This phase as planned; it may be the last."
    if not trace:
        return EndForecast(None, left, None, f"{basis} What follows depends on its outcome.")
    last = trace[-1]
    rivals = [
        (contrast, radius)
        for target, contrast, radius in zip(last.active, last.contrasts, last.radii, strict=True)
        if target != last.leader and target not in last.eliminated and radius > 0
    ]
    ratio = max((radius / max(contrast, 1e-12) for contrast, radius in rivals), default=1.0)
    growth = max(plan.pulls / last.pulls, 1.1)
    # The open phase and k more after it shrink the radius by growth^(−(k + 1)/2).
    wanted = math.ceil(max(0.0, 2 * math.log(max(ratio, 1.0)) / math.log(growth) - 1))
    if wanted > 12:
        return EndForecast(
            None, left, None, f"{basis} The closest competitor is too close to say more."
        )
    total = left + sum(plan.pulls * growth**k for k in range(1, wanted + 1))
    return EndForecast(
        math.ceil(total),
        left,
        math.ceil(total + plan.pulls * growth ** (wanted + 1)),
        f"{basis} If the closest competitor is as close as it looks, "
        f"{f'{wanted} more may follow' if wanted else 'it is'}; the range allows for one more than "
        "that.",
    )
