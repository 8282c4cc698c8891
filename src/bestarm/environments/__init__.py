"""Simulated worlds. Only they know the truth."""

from bestarm.environments import baselines
from bestarm.environments.baselines import Baseline
from bestarm.environments.environment import Environment, Stream, World
from bestarm.environments.instances import (
    DrawnArms,
    InTurn,
    malicious,
    many_arms,
    multivariate,
    oscillating,
    published_spheres,
    small_gap,
    soare,
    tao,
    transductive,
    uniform_sphere,
    weekly,
)
from bestarm.environments.moving_means import MovingMeans
from bestarm.environments.people import MicroRandomised
from bestarm.environments.ratings import Ratings
from bestarm.environments.semiparametric import Semiparametric
from bestarm.presampled import PresampledRewards

__all__ = [
    "Baseline",
    "DrawnArms",
    "Environment",
    "InTurn",
    "MicroRandomised",
    "MovingMeans",
    "PresampledRewards",
    "Ratings",
    "Semiparametric",
    "Stream",
    "World",
    "baselines",
    "malicious",
    "many_arms",
    "multivariate",
    "oscillating",
    "published_spheres",
    "small_gap",
    "soare",
    "tao",
    "transductive",
    "uniform_sphere",
    "weekly",
]
