"""LinGame and LinGame-C: the allocation is learned in a game against the closest alternative."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from bestarm.bounds import certified_threshold, linear_experiments, lingame_threshold
from bestarm.checks import choice, positive
from bestarm.policies.linear.base import LinearRule, coordinates
from bestarm.presampled import PresampledRewards
from bestarm.problem import Problem, as_problem

_FIRST_GAP = 0.01  # of AdaHedge, before the first loss: as in the authors' code


class LinGame(LinearRule):
    """Learn the optimal allocation while pulling, in a game against the closest alternative.

    Every arm is pulled once. Then, in every round, a learner (AdaHedge) proposes weights of arms;
    nature answers with the parameter λ closest to the estimate under these weights, at which
    another target is best; and the learner is told for every arm the largest plausible gain
    ½ (x·(θ̂ − λ))². The arm pulled is the one whose pulls are furthest behind the sum of all
    weights. Each possible answer has a learner of its own. It stops when the statistic of the
    likelihood ratio exceeds a threshold, and the expected number of pulls is asymptotically the
    smallest possible as δ → 0.

    δ-correct for rewards x·θ + noise with σ-sub-Gaussian noise and **no** baseline, whatever is
    pulled: with `threshold="published"` if ‖θ‖ ≤ `norm`, with `"certified"` for every θ. The
    authors' figures are made with `"experiments"`, with which nothing is proven. The bound on the
    number of pulls is for a regularisation larger than their code's λ = 1, which is used here.

    Args:
        problem: the problem; targets may be others than the source arms.
        sigma: the sub-Gaussian scale of the noise it assumes.
        norm: M, the bound on ‖θ‖ in the unit in which the longest arm has norm 1.
            Only the published threshold uses it.
        threshold: `"published"` (its theorem), `"certified"` (with the actual determinant and
            without regularisation: `bounds.certified_threshold`), or `"experiments"`,
            log((1 + log t)/δ).
        seed: accepted like every policy's; nothing is drawn.
        max_pulls: stop at this many pulls; such a stop is never final.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.policies.linear.lingame import LinGame
        >>> LinGame(Problem([[1, 0], [0, 1], [0.8, 0.6]])).plan().counts.tolist()
        [1, 0, 0]

    Reference: Degenne, Ménard, Shang and Valko (2020).
    """

    _pairs: ClassVar[bool] = False  # whether one learner chooses answers too

    def __init__(
        self,
        problem: Problem,
        *,
        sigma: float = 1.0,
        norm: float = 2.0,
        threshold: Literal["published", "certified", "experiments"] = "published",
        seed: int = 0,  # noqa: ARG002
        max_pulls: int | None = None,
    ) -> None:
        choice(threshold, ("published", "certified", "experiments"), "threshold")
        self._norm = positive(norm, "norm")
        source, _ = coordinates(as_problem(problem))
        scale, rank, delta = positive(sigma, "sigma"), source.shape[1], problem.delta
        super().__init__(
            problem,
            lingame_threshold(delta, rank=rank, norm=self._norm / scale)
            if threshold == "published"
            else certified_threshold(delta)
            if threshold == "certified"
            else linear_experiments(delta),
            name=threshold,
            sigma=sigma,
            ridge=0.0 if threshold == "certified" else 1.0,
            max_pulls=max_pulls,
        )
        learners = 1 if self._pairs else problem.targets
        actions = problem.targets * problem.arms if self._pairs else problem.arms
        self._game = (
            np.zeros((learners, actions)),
            np.full(learners, _FIRST_GAP),
            np.ones(actions),
            np.ones(actions if self._pairs else 0),
        )

    def _advance(self, presampled: PresampledRewards, most: int) -> tuple[int, bool]:
        from bestarm.policies.linear.lingame_kernels import advance  # noqa: PLC0415 - compiles

        pulls, self._due, stopped = advance(
            presampled.parts, self._model, self._state, self._rule, self._game, self._due, most
        )
        self._lead()
        return pulls, stopped


class LinGameC(LinGame):
    """LinGame with one learner, over pairs of an answer and an arm: the convexified game.

    Nature answers for every answer; for those that are not the leader's, with the estimate
    itself. Work and memory per pull grow with targets × arms. Everything else is as in `LinGame`.

    Args:
        problem: the problem; targets may be others than the source arms.
        sigma: the sub-Gaussian scale of the noise it assumes.
        norm: M, the bound on ‖θ‖ in the unit in which the longest arm has norm 1.
            Only the published threshold uses it.
        threshold: `"published"`, `"certified"` or `"experiments"`, as in `LinGame`.
        seed: accepted like every policy's; nothing is drawn.
        max_pulls: stop at this many pulls; such a stop is never final.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.policies.linear.lingame import LinGameC
        >>> LinGameC(Problem([[1, 0], [0, 1], [0.8, 0.6]])).plan().counts.tolist()
        [1, 0, 0]

    Reference: Degenne, Ménard, Shang and Valko (2020).
    """

    _pairs = True
