"""LinGapE: pull what tells the leader from its most ambiguous rival."""

from __future__ import annotations

from typing import Literal

from bestarm.bounds import certified_threshold, linear_experiments, lingape_threshold
from bestarm.checks import choice, positive
from bestarm.policies.linear.base import LinearRule
from bestarm.presampled import PresampledRewards
from bestarm.problem import Problem


class LinGapE(LinearRule):
    """Pull the arm that tells the leader best from the target that may be furthest ahead of it.

    Every arm is pulled once. Then, with least squares θ̂ on all pulls and a radius C_t, the rival of
    the leader i is the target j with the largest upper bound (z_j − z_i)·θ̂ + C_t ‖z_i − z_j‖, the
    norm under A⁻¹, and the next arm is the one that makes this norm smallest. (That is the paper's
    greedy choice; its bound on the number of pulls is for another one, which tracks a ratio.) It
    stops when the upper bound is not positive, which is when the statistic of the likelihood ratio
    exceeds C_t²/2.

    δ-correct for rewards x·θ + noise with σ-sub-Gaussian noise and **no** baseline, whatever is
    pulled: with `threshold="published"` if ‖θ‖ ≤ `norm`, with `"certified"` for every θ. Others
    who ran it mostly used `"experiments"`, with which nothing is proven.

    Args:
        problem: the problem; targets may be others than the source arms.
        sigma: the sub-Gaussian scale of the noise it assumes.
        norm: S, the bound on ‖θ‖ in the unit in which the longest arm has norm 1; 2 in its authors'
            code. Only the published threshold uses it.
        threshold: `"published"` (its theorem, with regularisation λ = 1), `"certified"` (no union
            over pairs, no regularisation: `bounds.certified_threshold`), or `"experiments"`,
            log((1 + log t)/δ).
        seed: accepted like every policy's; nothing is drawn.
        max_pulls: stop at this many pulls; such a stop is never final.

    Example:
        >>> from bestarm import Problem
        >>> from bestarm.policies.linear.lingape import LinGapE
        >>> LinGapE(Problem([[1, 0], [0, 1], [0.8, 0.6]])).plan().counts.tolist()
        [1, 0, 0]

    Reference: Xu, Honda and Sugiyama (2018).
    """

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
        scale, delta = positive(sigma, "sigma"), problem.delta
        super().__init__(
            problem,
            lingape_threshold(delta, targets=problem.targets, norm=self._norm / scale)
            if threshold == "published"
            else certified_threshold(delta)
            if threshold == "certified"
            else linear_experiments(delta),
            name=threshold,
            sigma=sigma,
            ridge=0.0 if threshold == "certified" else 1.0,
            max_pulls=max_pulls,
        )

    def _advance(self, presampled: PresampledRewards, most: int) -> tuple[int, bool]:
        from bestarm.policies.linear.lingape_kernels import advance  # noqa: PLC0415 - compiles

        pulls, self._due, stopped = advance(
            presampled.parts, self._model, self._state, self._rule, self._due, most
        )
        self._lead()
        return pulls, stopped
