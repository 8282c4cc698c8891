"""Synthetic ratings with the published means of the jokes, for use without the real file."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from bestarm.geometry import Array


class _Joke(NamedTuple):
    """One joke: its number, its published mean over the paper's users, its standard deviation."""

    number: int
    mean: float
    deviation: float


_JOKES = (
    _Joke(7, -1.9527, 5.70),
    _Joke(8, -0.7170, 5.55),
    _Joke(13, -0.6493, 5.70),
    _Joke(15, -1.4307, 5.57),
    _Joke(16, -1.6313, 5.78),
    _Joke(17, 0.6746, 5.76),
    _Joke(18, -0.1279, 5.55),
    _Joke(19, 0.7750, 5.78),
)
JOKES = tuple(joke.number for joke in _JOKES)
USERS = 20_000
_GENERAL, _LATER = 0.583, 0.374  # loadings of a user's two effects, fitted to correlations
_SEED = 20_000
_STEPS = 320  # ratings are multiples of 10/320, as on the real scale


@lru_cache(maxsize=1)
def synthetic_ratings() -> Array:
    """Ratings (users × jokes) of synthetic users, always the same; read-only.

    User i has two effects, g_i on all jokes alike and h_i that grows along the jokes' order from
    −1 to 1; joke j's latent rating is z_ij = 0.583 g_i + 0.374 x_j h_i + rest, all N(0, 1) with
    Var z_ij = 1. Its ranks are mapped to the quantiles of a beta distribution on [−10, 10] with
    the joke's mean and standard deviation; a few ratings then move by one step, so that the mean
    is the published one exactly.
    """
    rng = np.random.default_rng(_SEED)
    along = np.linspace(-1.0, 1.0, len(_JOKES))
    general, later = rng.standard_normal((2, USERS, 1))
    own = np.sqrt(1.0 - _GENERAL**2 - (_LATER * along) ** 2)
    latent = _GENERAL * general + _LATER * along * later
    latent = latent + own * rng.standard_normal(latent.shape)
    ratings = np.empty((USERS, len(_JOKES)))
    for column, joke in enumerate(_JOKES):
        ratings[np.argsort(latent[:, column]), column] = _quantiles(joke)
    ratings.flags.writeable = False
    return ratings


def _quantiles(joke: _Joke) -> Array:
    """The joke's ratings in increasing order, with its mean exactly."""
    from scipy.special import betainc  # noqa: PLC0415 - loads slowly

    centre, spread = (joke.mean + 10.0) / 20.0, joke.deviation / 20.0
    size = centre * (1.0 - centre) / spread**2 - 1.0
    # The number of users at or below a step: those whose quantile rounds to it or to a lower one.
    edges = (np.arange(-_STEPS, _STEPS) + 0.5 + _STEPS) / (2.0 * _STEPS)
    at_most = np.rint(USERS * betainc(centre * size, (1.0 - centre) * size, edges)).astype(np.int64)
    steps = np.repeat(np.arange(-_STEPS, _STEPS + 1), np.diff(at_most, prepend=0, append=USERS))
    missing = round(joke.mean * USERS * _STEPS / 10) - int(steps.sum())
    # One step each for users spread over the order, none at an end of the scale.
    free = np.flatnonzero(np.abs(steps) < _STEPS)
    moved = free[np.linspace(0, len(free) - 1, abs(missing)).astype(np.int64)]
    steps[moved] += np.sign(missing)
    return np.asarray(np.sort(steps) * (10.0 / _STEPS))
