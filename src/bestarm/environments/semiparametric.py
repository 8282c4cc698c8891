"""The semiparametric world: rewards linear in the features, plus a moving baseline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Self

import numpy as np

from bestarm.checks import not_negative, vector, whole
from bestarm.environments.baselines import Constant, Moving, as_baseline
from bestarm.environments.environment import ROUNDING, FixedWorld, Stream
from bestarm.environments.streams import BlockStream
from bestarm.errors import InvalidInputError
from bestarm.problem import Problem


class Semiparametric(FixedWorld):
    """A fixed instance: pulling source arm a at round t pays x_a·θ + ν_t + N(0, noise²).

    Args:
        source: features of the arms that can be pulled, one row per arm.
        theta: the true parameter θ.
        target: features of the targets to choose among; the source if left out.
        baseline: how ν_t moves: one of `bestarm.environments.baselines`, a number, an array with
            one value per round, or a function of the round's number or of an array of them.
        noise: the standard deviation of the noise.
        block: how many arms a round can pull, all with the same ν_t: plans may be over blocks of up
            to so many.
        declared_noise: the scale of the noise that policies are told; the true one by default.
        declared_baseline: the bound on |ν_t| that policies are told; by default the bound of the
            baseline, where it is known.
        declared_mean_bound: the bound on |x·θ| that policies are told if they ask; by default the
            scale of the problem, unless |x·θ| is larger.
        source_labels: one name per source arm.
        target_labels: one name per target.
        name: its name in results and tables.

    Attributes:
        theta: the true parameter, read-only.
        baseline: how ν_t moves.
        noise: the true standard deviation of the noise.

    Raises:
        InvalidInputError: an argument is invalid, two targets are equally good, or the bound of the
            baseline is not known and not declared.

    Example:
        >>> from bestarm.environments import Semiparametric, baselines
        >>> days = baselines.custom(lambda t: t % 7, bound=6)
        >>> world = Semiparametric([[1, 0], [0, 1]], [1, 0.5], baseline=days)
        >>> world.best, world.gap
        (0, 0.5)
    """

    def __init__(
        self,
        source: object,
        theta: object,
        *,
        target: object = None,
        baseline: object = 0.0,
        noise: float = 1.0,
        block: int = 1,
        declared_noise: float | None = None,
        declared_baseline: float | None = None,
        declared_mean_bound: float | None = None,
        source_labels: Sequence[object] | None = None,
        target_labels: Sequence[object] | None = None,
        name: str = "semiparametric",
    ) -> None:
        self.baseline: Final = as_baseline(baseline)
        self.noise: Final = not_negative(noise, "noise", remedy="It is a standard deviation.")
        if declared_baseline is None and not np.isfinite(self.baseline.bound):
            raise InvalidInputError(
                "The bound of `baseline` is not known, so policies cannot be told it.",
                field="declared_baseline",
                remedy="Give `declared_baseline`, or baselines.custom(…, bound=…).",
            )
        template = Problem(
            source,
            target,
            noise=self.noise if declared_noise is None else declared_noise,
            baseline=self.baseline.bound if declared_baseline is None else declared_baseline,
            source_labels=source_labels,
            target_labels=target_labels,
        )
        self._block = whole(block, "block", least=1, below=template.arms + 1)
        if self._block > 1 and not isinstance(self.baseline, (Constant, Moving)):
            raise InvalidInputError(
                f"{self.baseline!r} moves from pull to pull, not from round to round.",
                field="block",
                value=block,
                remedy="Give a baseline that does not react to pulls.",
            )
        self.theta: Final = vector(theta, "theta")
        if self.theta.shape != (template.dimension,):
            raise InvalidInputError(
                f"`theta` has shape {self.theta.shape}; the arms have "
                f"{template.dimension} features.",
                field="theta",
                value=self.theta.shape,
                remedy="Give one number per feature.",
            )
        self.theta.flags.writeable = False
        self._means = np.asarray(template.source @ self.theta)
        rounding = ROUNDING * float(np.max(np.abs(template.target) @ np.abs(self.theta)))
        values = template.target @ self.theta
        super().__init__(
            name,
            template,
            values,
            means=self._means,
            mean_bound=declared_mean_bound,
            rounding=rounding,
            field="theta",
        )

    @classmethod
    def for_problem(cls, problem: Problem, theta: object, **options: Any) -> Self:
        """A world with the arms, targets, labels and declared scales of a problem."""
        return cls(
            problem.source,
            theta,
            target=problem.target,
            declared_noise=problem.noise,
            declared_baseline=problem.baseline,
            declared_mean_bound=problem.scale,
            source_labels=problem.source_labels,
            target_labels=problem.target_labels,
            **options,
        )

    def begin(self, rng: np.random.Generator) -> Stream:
        """Start a run at round 1."""
        stream = self.baseline.begin(self._means, noise=self.noise, rng=rng)
        if self._block == 1:
            return stream
        assert isinstance(stream, BlockStream)  # as those of baselines that do not react are
        return stream.with_blocks(self._block)

    def __repr__(self) -> str:
        return (
            f"Semiparametric({self.name!r}, {self._template.arms} source arms, "
            f"{self._template.targets} targets, best={self.best}, gap={self.gap:g}, "
            f"baseline={self.baseline!r}, noise={self.noise:g})"
        )
