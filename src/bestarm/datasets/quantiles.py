"""Numbers in [0, 1] with a given mean and spread, for synthetic data."""

from __future__ import annotations

import numpy as np

from bestarm.records import Counts


def beta_quantiles(mean: float, deviation: float, *, number: int, steps: int) -> Counts:
    """So many quantiles of a beta distribution on [0, 1], in units of 1/`steps`, in order.

    They are rounded; a few then move by one step, so that their mean is `mean`, rounded to the
    multiple of 1/(number·steps) next to it.
    """
    from scipy.special import betainc  # noqa: PLC0415 - loads slowly

    size = mean * (1.0 - mean) / deviation**2 - 1.0
    # How many lie at or below a step: those whose quantile rounds to it or to a lower one.
    edges = (np.arange(steps) + 0.5) / steps
    at_most = np.rint(number * betainc(mean * size, (1.0 - mean) * size, edges)).astype(np.int64)
    found = np.repeat(np.arange(steps + 1), np.diff(at_most, prepend=0, append=number))
    missing = round(mean * number * steps) - int(found.sum())
    # One step each for values spread over the order, none at an end of the scale.
    free = np.flatnonzero((found > 0) & (found < steps))
    moved = free[np.linspace(0, len(free) - 1, abs(missing)).astype(np.int64)]
    found[moved] += np.sign(missing)
    return np.sort(found)
