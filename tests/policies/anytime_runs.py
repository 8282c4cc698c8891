"""Runs of the anytime policy: what tests of it have in common."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import bestarm.policies.anytime.bets as bets_module
from bestarm import AnytimeBAI, Plan, Summary

__all__ = ["Pull", "clicks", "made_for_short_runs", "play"]

Pull = Callable[[Plan], Summary]


def clicks(rates: object, rng: np.random.Generator) -> Pull:
    """Yes-or-no rewards with a rate for each arm."""

    def pull(plan: Plan) -> Summary:
        assert plan.weights is not None
        counts = rng.multinomial(plan.pulls, plan.weights)
        yes = rng.binomial(counts, np.asarray(rates)).astype(float)
        return Summary(counts, yes, yes)

    return pull


def play(policy: AnytimeBAI, pull: Pull, plans: int = 10_000) -> AnytimeBAI:
    for _ in range(plans):
        plan = policy.plan()
        if plan is None:
            break
        policy.update(pull(plan))
    return policy


def made_for_short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the stakes where a thousand pulls decide: any shares are valid, and these err more."""
    shares = 1 / (1 + np.square(np.log10(bets_module.STAKES / 0.1) / 0.2))
    monkeypatch.setattr(bets_module, "LOG_PRIOR", np.log(shares / shares.sum()))
