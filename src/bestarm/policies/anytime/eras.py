"""Options that come and go: what the rule draws among (docs/anytime.md, "Changes").

Between two changes the rule draws among fixed options: an era. Arms are numbered within it, as
retired ones have no part in its designs; targets keep the number that they were given first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bestarm.numerics.geometry import Array, Indices, Span
from bestarm.policies.anytime.estimates import Estimates
from bestarm.policies.anytime.sampler import Config, IndependentSampler, coordinates, span_of
from bestarm.problem import Problem, as_weights
from bestarm.records import Plan, Summary

_LITTLE = 1e-12  # relative information


@dataclass(frozen=True, eq=False)
class Era:
    """What does not change between two changes of the options.

    Attributes:
        options: those that are left, by number; None if all are.
        config: what its sampler is made from, of the options that are left alone.
        sampler: draws among them.
    """

    options: Indices | None
    config: Config
    sampler: Any

    @property
    def tilted(self) -> bool:
        """Whether a bound on the baseline is used."""
        return self.config.bound < math.inf

    def widen(self, plan: Plan) -> Plan:
        """A plan over all options, from one over those that are left."""
        if self.options is None:
            return plan
        weights = np.zeros(len(self.config.targets))
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


def next_era(
    before: Era,
    problem: Problem,
    options: Indices,
    *,
    tilted: bool,
    forecasts: bool,
    floors: Mapping[str, float],
    carried: bool,
) -> Era:
    """The era after a change, with single pulls.

    Args:
        before: the era before.
        problem: that of all options there ever were.
        options: those that are left, at least two.
        tilted: whether a bound on the baseline is used where features cannot express a level.
        forecasts: whether a forecast is subtracted from every reward.
        floors: the least probability of options, by name.
        carried: whether estimates go on from those of the era before.
    """
    left = problem if len(options) == problem.targets else remaining(problem, options)
    tilted = tilted and not left.expresses_level  # fewer options may express one
    arms, features, targets = coordinates(left, tilted)
    table = np.full((problem.targets, targets.shape[1]), np.nan)
    table[options] = targets
    config = replace(
        before.config,
        problem=left,
        arms=arms,
        features=features,
        targets=table,
        bound=left.baseline if tilted else math.inf,
    )
    kept = {name: floor for name, floor in floors.items() if name in left.source_labels}
    sampler = IndependentSampler(config, forecasts=forecasts, floors=kept)
    if carried:
        old, new = (
            span_of(each.problem, each.bound < math.inf) for each in (before.config, config)
        )
        added = problem.targets > len(before.config.targets)
        carry_over(before.sampler.estimates, sampler.estimates, old, new, added=added)
    return Era(None if left is problem else options, config, sampler)


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
