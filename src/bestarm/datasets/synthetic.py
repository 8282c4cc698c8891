"""Synthetic ratings with the published means of the jokes, for use without the real file."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from bestarm.datasets.quantiles import beta_quantiles
from bestarm.numerics.geometry import Array


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
_STEPS = 640  # ratings are multiples of 20/640, as on the real scale


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
        mean, deviation = (joke.mean + 10.0) / 20.0, joke.deviation / 20.0
        steps = beta_quantiles(mean, deviation, number=USERS, steps=_STEPS) - _STEPS // 2
        ratings[np.argsort(latent[:, column]), column] = steps * (20.0 / _STEPS)
    ratings.flags.writeable = False
    return ratings
