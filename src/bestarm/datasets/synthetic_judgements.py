"""Synthetic judgements with the means and the spread of real ones, for use without the files."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from bestarm.datasets.quantiles import beta_quantiles
from bestarm.numerics.geometry import Array

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
_GENERAL, _AMONG_STRONG, _AMONG_REST = 0.59, 0.54, 0.57  # loadings of a prompt's effects
_STEPS = 10_000
_SEED = 0


@lru_cache(maxsize=1)
def synthetic_judgements() -> Array:
    """Judgements (prompts × models) of synthetic prompts, always the same; read-only.

    Prompt i has an effect g_i on all models alike and one on each of two groups, h_i: model j's
    latent judgement is z_ij = 0.59 g_i + b h_i + rest, all N(0, 1) with Var z_ij = 1. Its ranks are
    mapped to the quantiles of a beta distribution on [0, 1] with the model's mean and standard
    deviation; nearly all of its mass lies near 0 and 1, as real preferences do.
    """
    rng = np.random.default_rng(_SEED)
    strong = np.arange(len(_MEANS)) < _STRONG
    general, upper, lower = rng.standard_normal((3, PROMPTS, 1))
    among = np.where(strong, _AMONG_STRONG, _AMONG_REST)
    own = np.sqrt(1.0 - _GENERAL**2 - among**2)
    latent = _GENERAL * general + among * np.where(strong, upper, lower)
    latent = latent + own * rng.standard_normal(latent.shape)
    judgements = np.empty(latent.shape)
    for column, mean in enumerate(_MEANS):
        deviation = np.sqrt(mean * (1.0 - mean) / (1.0 + _SIZE + _SIZE_SLOPE * mean))
        values = beta_quantiles(mean, deviation, number=PROMPTS, steps=_STEPS) / _STEPS
        judgements[np.argsort(latent[:, column]), column] = values
    judgements.flags.writeable = False
    return judgements
