"""Synthetic ratings and judgements with the means and the spread of real ones.

They serve where the real files are not at hand. In both, latent normal values with the correlations
of the real ones are mapped by their ranks to quantiles of beta distributions.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import betainc

from bestarm.numerics.geometry import Array
from bestarm.records import Counts


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
_JOKE_GENERAL, _JOKE_LATER = 0.583, 0.374  # loadings of a user's effects, fitted to correlations
_JOKE_SEED = 20_000
_JOKE_STEPS = 640  # ratings are multiples of 20/640, as on the real scale

PROMPTS = 797
# Mean judgements of 55 models by the judge of AlpacaEval 2, the best first.
_MEANS = (
    0.7056, 0.6444, 0.6322, 0.5133, 0.2972, 0.1691, 0.1676, 0.1590, 0.1558, 0.1337, 0.1275,
    0.1012, 0.0988, 0.0949, 0.0903, 0.0895, 0.0893, 0.0836, 0.0791, 0.0747, 0.0734, 0.0724,
    0.0678, 0.0666, 0.0665, 0.0608, 0.0594, 0.0586, 0.0571, 0.0571, 0.0568, 0.0553, 0.0520,
    0.0496, 0.0469, 0.0456, 0.0447, 0.0444, 0.0402, 0.0400, 0.0387, 0.0347, 0.0337, 0.0314,
    0.0291, 0.0284, 0.0274, 0.0254, 0.0239, 0.0237, 0.0225, 0.0196, 0.0180, 0.0176, 0.0173,
)  # fmt: skip
MODELS = tuple(f"model {rank}" for rank in range(1, len(_MEANS) + 1))
_STRONG = 5  # the first models, which agree more with one another than with the rest
# Fitted to deviations and correlations of the real judgements:
_SIZE, _SIZE_SLOPE = 0.294, 0.177  # Var = mean (1 − mean) / (1 + size)
_MODEL_GENERAL, _AMONG_STRONG, _AMONG_REST = 0.59, 0.54, 0.57  # loadings of a prompt's effects
_MODEL_STEPS = 10_000
_MODEL_SEED = 0


@lru_cache(maxsize=1)
def synthetic_ratings() -> Array:
    """Ratings (users × jokes) of synthetic users, always the same; read-only.

    User i has two effects, g_i on all jokes alike and h_i that grows along the jokes' order from
    −1 to 1; joke j's latent rating is z_ij = 0.583 g_i + 0.374 x_j h_i + rest, all N(0, 1) with
    Var z_ij = 1. Its ranks are mapped to the quantiles of a beta distribution on [−10, 10] with
    the joke's mean and standard deviation; a few ratings then move by one step, so that the mean
    is the published one exactly.
    """
    rng = np.random.default_rng(_JOKE_SEED)
    along = np.linspace(-1.0, 1.0, len(_JOKES))
    general, later = rng.standard_normal((2, USERS, 1))
    own = np.sqrt(1.0 - _JOKE_GENERAL**2 - (_JOKE_LATER * along) ** 2)
    latent = _JOKE_GENERAL * general + _JOKE_LATER * along * later
    latent = latent + own * rng.standard_normal(latent.shape)
    ratings = np.empty((USERS, len(_JOKES)))
    for column, joke in enumerate(_JOKES):
        mean, deviation = (joke.mean + 10.0) / 20.0, joke.deviation / 20.0
        steps = _beta_quantiles(mean, deviation, number=USERS, steps=_JOKE_STEPS) - _JOKE_STEPS // 2
        ratings[np.argsort(latent[:, column]), column] = steps * (20.0 / _JOKE_STEPS)
    ratings.flags.writeable = False
    return ratings


@lru_cache(maxsize=1)
def synthetic_judgements() -> Array:
    """Judgements (prompts × models) of synthetic prompts, always the same; read-only.

    Prompt i has an effect g_i on all models alike and one on each of two groups, h_i: model j's
    latent judgement is z_ij = 0.59 g_i + b h_i + rest, all N(0, 1) with Var z_ij = 1. Its ranks are
    mapped to the quantiles of a beta distribution on [0, 1] with the model's mean and standard
    deviation; nearly all of its mass lies near 0 and 1, as real preferences do.
    """
    rng = np.random.default_rng(_MODEL_SEED)
    strong = np.arange(len(_MEANS)) < _STRONG
    general, upper, lower = rng.standard_normal((3, PROMPTS, 1))
    among = np.where(strong, _AMONG_STRONG, _AMONG_REST)
    own = np.sqrt(1.0 - _MODEL_GENERAL**2 - among**2)
    latent = _MODEL_GENERAL * general + among * np.where(strong, upper, lower)
    latent = latent + own * rng.standard_normal(latent.shape)
    judgements = np.empty(latent.shape)
    for column, mean in enumerate(_MEANS):
        deviation = np.sqrt(mean * (1.0 - mean) / (1.0 + _SIZE + _SIZE_SLOPE * mean))
        values = _beta_quantiles(mean, deviation, number=PROMPTS, steps=_MODEL_STEPS) / _MODEL_STEPS
        judgements[np.argsort(latent[:, column]), column] = values
    judgements.flags.writeable = False
    return judgements


def _beta_quantiles(mean: float, deviation: float, *, number: int, steps: int) -> Counts:
    """So many quantiles of a beta distribution on [0, 1], in units of 1/`steps`, in order.

    They are rounded; a few then move by one step, so that their mean is `mean`, rounded to the
    multiple of 1/(number·steps) next to it.
    """
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
