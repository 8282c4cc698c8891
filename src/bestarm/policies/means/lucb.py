"""LUCB: pull the leader and its closest challenger until their bounds separate."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from bestarm.policies.means.base import IndexRule
from bestarm.policies.stepwise import Indices
from bestarm.presampled import PresampledRewards


class LUCB(IndexRule):
    """Each round pulls the arm with the best mean and the other arm with the highest upper bound.

    With `radius="certified"` and a σ that is true, δ-correct for rewards that are σ-sub-Gaussian
    around fixed arm means, given the past. For bounded rewards, `bounds.sub_gaussian_scale` gives
    such a σ. A baseline that drifts or reacts breaks the guarantee, because arms are pulled at
    different times; one that is independent from round to round is noise, which σ must cover.
    The published radius (`"lil"`) is smaller than its theorem allows: with it nothing is proven.

    Args:
        problem: the problem; its targets must be its source arms, and its features are not used.
        sigma: the sub-Gaussian scale it assumes.
        radius: `"lil"` as published, or `"certified"`, with a proof at the level of δ.
        seed: accepted like every policy's; nothing is drawn.
        max_pulls: stop at this many pulls; such a stop is never final.

    Example:
        >>> import numpy as np
        >>> from bestarm import Problem
        >>> from bestarm.policies import LUCB
        >>> LUCB(Problem(np.eye(3)), sigma=0.5).plan().counts.tolist()
        [1, 1, 1]

    Reference: Kalyanakrishnan et al. (2012); Jamieson and Nowak (2014), with its lil radius.
    """

    version: ClassVar[int] = 1

    def _next(self) -> Indices:
        means, radii = self._means, self._radii()
        leader = int(np.argmax(means))
        upper = means + radii
        upper[leader] = -np.inf
        challenger = int(np.argmax(upper))
        if means[leader] - radii[leader] > upper[challenger]:
            self._active = np.array([leader])
        return np.array([leader, challenger])

    def _rush(self, presampled: PresampledRewards, most: int) -> tuple[int, int]:
        from bestarm.policies.means.kernels import first_radii, separate  # noqa: PLC0415 - compiles

        radius = tuple(self._radius)
        known = self._counts, self._sums, radius, first_radii(radius)
        pulls, rounds, over = separate(presampled.parts, self._due, *known, most)
        if over:
            self._active = self._due[:1].copy()
        return pulls, rounds
