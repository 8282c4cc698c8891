"""The options there are, while some are added and others retired (docs/anytime.md, "Changes").

Between two changes the rule draws among fixed options: an era. Arms are numbered within it, as
retired ones have no part in its designs; targets keep the number that they were given first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bestarm.numerics.geometry import Array, Indices, Span
from bestarm.policies.anytime.estimates import Estimates
from bestarm.problem import Problem, as_weights
from bestarm.records import Plan, Summary

_LITTLE = 1e-12  # relative information


class TargetCoordinates:
    """The targets in coordinates of the span of the arms, which change with the options.

    Attributes:
        now: one row per target; NaN where it is retired.
        additions: for each target, 0 if it was there from the start, or j if it was added j-th.
        retired: whether any target was.

    Args:
        now: one row per target.
    """

    def __init__(self, now: Array) -> None:
        self.now = now
        self.additions: Indices = np.zeros(len(now), dtype=np.int64)
        self.retired = False
        self._of_batches: list[Array] = []  # from the first change on

    def __len__(self) -> int:
        return len(self.now)

    @property
    def present(self) -> Indices:
        """The targets that are not retired."""
        return np.flatnonzero(~np.isnan(self.now[:, 0]))

    def change(self, now: Array, batches: int) -> None:
        """Take new coordinates after so many batches: with one target more, or one retired."""
        if not self._of_batches:
            self._of_batches = [self.now] * batches
        if len(now) > len(self.now):
            self.additions = np.append(self.additions, self.additions.max() + 1)
        else:
            self.retired = True
        self.now = now

    def record(self, coordinates: Array) -> None:
        """Note the coordinates of the next batch, which may be one of an earlier era."""
        if self._of_batches or coordinates is not self.now:
            self._of_batches.append(coordinates)

    def uses_current_options(self, batch: int) -> bool:
        """Whether this batch, by its number, was drawn among the options that there are now."""
        return not self._of_batches or self._of_batches[batch] is self.now

    def contrasts(self, place: int, better: Any, worse: Any) -> Array:
        """The contrasts of targets to others, in coordinates of batch number `place`.

        Rows are NaN where one of the two was not among the options.
        """
        if self.uses_current_options(place):
            return np.asarray(self.now[better] - self.now[worse])
        table = self._of_batches[place]
        known = np.full((len(self.now), table.shape[1]), np.nan)
        known[: len(table)] = table
        return np.asarray(known[better] - known[worse])


@dataclass(frozen=True, eq=False)
class Era:
    """What does not change between two changes of the options.

    Attributes:
        options: those that are left, by number; None if all are.
        problem: that of these alone.
        sampler: draws among them.
        targets: all targets in its coordinates.
        tilted: whether a bound on the baseline is used.
    """

    options: Indices | None
    problem: Problem
    sampler: Any
    targets: Array
    tilted: bool

    def widen(self, plan: Plan) -> Plan:
        """A plan over all options, from one over those that are left."""
        if self.options is None:
            return plan
        weights = np.zeros(len(self.targets))
        weights[self.options] = plan.weights
        return replace(plan, weights=as_weights(weights, len(weights)))

    def narrow(self, plan: Plan) -> Plan:
        """A plan over the options that are left, from one over all."""
        if self.options is None:
            return plan
        assert plan.weights is not None
        weights = plan.weights[self.options]
        return replace(plan, weights=as_weights(weights, len(weights)))

    def narrow_summary(self, summary: Summary) -> Summary:
        """A summary over the options that are left, from one over all."""
        if self.options is None:
            return summary
        names = ("counts", "sums", "squares", "missing", "pending", "least", "largest", "cubes")
        parts = {name: getattr(summary, name) for name in names}
        kept = {name: part[self.options] for name, part in parts.items() if part is not None}
        return replace(summary, **kept)


def remaining(problem: Problem, options: Indices) -> Problem:
    """The problem of some of its options alone, each of which is an arm and a target."""
    return Problem(
        problem.source[options],
        delta=problem.delta,
        noise=problem.noise,
        baseline=problem.baseline,
        source_labels=[problem.source_labels[i] for i in options],
    )


def carry_over(before: Estimates, after: Estimates, old: Span, new: Span, *, added: bool) -> None:
    """Begin the estimates of an era with what is known of the contrasts that it has in common.

    Only the regression is carried over. How noisy rewards are and where the baseline stands is
    learned from the first batch of the era, as from the first of all. Of an option that was added
    nothing is known: it is taken to be like the others.

    Args:
        before: estimates of the era before.
        after: those of the new one; changed.
        old: the span of the arms before.
        new: their span now; an option that was added may have brought a feature of its own.
        added: whether an option was added, or one retired.
    """
    width = len(new.origin) - len(old.origin)
    if added:  # c ↦ M c takes coordinates of a contrast to the new span, so that θ̂ before is Mᵀθ̂
        to_new = new.dual.T @ np.pad(old.basis, ((0, width), (0, 0)))
        after.gram = to_new @ before.gram @ to_new.T
        after.information = to_new @ before.information @ to_new.T
        after.slope = before.slope @ np.linalg.pinv(to_new)
    else:  # what remains lies in the span before: the information on it alone
        to_old = old.dual.T @ new.basis

        def of_those_left(known: Array) -> Array:
            trace = np.trace(known, axis1=1, axis2=2)[:, None, None]
            regular = known + _LITTLE * trace * np.eye(known.shape[1])  # one may not have been
            found = np.linalg.inv(to_old.T @ np.linalg.inv(regular) @ to_old)  # pulled
            return np.asarray(found, dtype=float)

        after.gram = of_those_left(before.gram)
        after.information = of_those_left(before.information)
        after.slope = before.slope @ to_old
    after.moment = np.matmul(after.gram, after.slope[..., None])[..., 0]
