"""BOSE: arms that may be the best, drawn so that none is far from their mean."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from bestarm import bounds
from bestarm.checks import positive, whole
from bestarm.numerics.geometry import Array
from bestarm.policies.centered.base import CenteredBandit
from bestarm.problem import Problem

_STEPS = 1000  # moves of weight, at most
_SLACK = 0.01  # relative: how far an arm may be beyond what the method asks for
_TIE = 1e-9  # relative: squared distances closer than this are equal, on every processor


class BOSE(CenteredBandit):
    """Keep the arms that no other is shown to beat; draw them around a center near to all.

    Arm a is kept if (x_b − x_a)·θ̂ ≤ γ ‖x_b − x_a‖ for all arms b, with norms under B⁻¹. Those kept
    are drawn with probabilities for which ‖x_a − x̄‖² ≤ Σ p_b ‖x_b − x̄‖² for every one: x̄ is the
    center of their smallest enclosing ball. B has the realised matrix.

    Proven, for one pull per draw and with the theorem's γ and λ (the default): a regret of Õ(d√T),
    under every baseline that does not look at the current draw, for |rewards| ≤ 1 and ‖θ‖ ≤ 1. They
    are so large that few arms are dropped in budgets one would have; the paper's experiments tune
    γ. Nothing is proven about the target that it names.

    Args:
        problem: the problem; any source and targets.
        budget: the number of pulls T.
        width: γ, with λ = 1; the theorem's γ and λ if left out.
        seed: accepted like every policy's; the draws are not the policy's to make.

    Example:
        >>> import numpy as np
        >>> from bestarm import Problem
        >>> from bestarm.policies.centered.bose import BOSE
        >>> [round(p, 2) for p in BOSE(Problem(np.eye(4)), budget=100).plan().weights.tolist()]
        [0.25, 0.25, 0.25, 0.25]

    Reference: Krishnamurthy, Wu and Syrgkanis (2018), Algorithm 1 and Theorem 1.
    """

    _realised: ClassVar[float] = 1.0
    _expected: ClassVar[float] = 0.0

    def __init__(
        self,
        problem: Problem,
        *,
        budget: int,
        width: float | None = None,
        seed: int = 0,  # noqa: ARG002
    ) -> None:
        whole(budget, "budget", least=1)
        if width is None:
            ridge, self._width = bounds.bose_constants(
                problem.delta, budget=budget, dimension=problem.dimension
            )
        else:
            ridge, self._width = 1.0, positive(width, "width")
        super().__init__(problem, budget=budget, ridge=ridge)

    def _probabilities(self, rng: np.random.Generator) -> Array:  # noqa: ARG002
        # In coordinates where norms under B⁻¹ are ordinary ones.
        whitened = np.linalg.solve(np.linalg.cholesky(self._gram), self._points.T).T
        scores = self._points @ self._theta
        squares = (whitened**2).sum(axis=1)
        distances = squares[:, None] + squares - 2 * whitened @ whitened.T
        behind = scores[None, :] - scores[:, None]
        kept = (behind <= self._width * np.sqrt(np.maximum(distances, 0.0))).all(axis=1)
        weights = np.zeros(self.problem.arms)
        weights[kept] = _enclose(whitened[kept])
        return weights


def _enclose(points: Array) -> Array:
    """Weights whose mean is about the center of the smallest ball around the points.

    They maximise the variance Σ p ‖x − x̄‖², whose derivatives are the ‖x − x̄‖²: weight moves from
    the nearest point that has some to the farthest, by the best amount, until no point is farther
    than they are on average. Of points equally far, or equally near, the first is taken.
    """
    weights = np.full(len(points), 1 / len(points))
    for _ in range(_STEPS):
        away = points - weights @ points
        squares = (away**2).sum(axis=1)
        farthest = int(np.argmax(squares >= (1 - _TIE) * squares.max()))
        if squares[farthest] <= (1 + _SLACK) * (weights @ squares):
            break
        least = squares[weights > 0].min() + _TIE * squares.max()
        nearest = int(np.argmax((weights > 0) & (squares <= least)))
        gain = squares[farthest] - squares[nearest]
        step = gain / (2 * ((points[farthest] - points[nearest]) ** 2).sum())
        step = min(step, float(weights[nearest]))
        weights[farthest] += step
        weights[nearest] -= step
    return weights
