"""Simulated worlds. Only they know the truth."""

from bestarm.environments import baselines
from bestarm.environments.baselines import Baseline
from bestarm.environments.environment import Environment, Stream, World
from bestarm.environments.field import DrawnArms, many_arms, soare, tao, transductive
from bestarm.environments.instances import (
    InTurn,
    UniformSphere,
    published_spheres,
    small_gap,
    uniform_sphere,
)
from bestarm.environments.moving_means import MovingMeans
from bestarm.environments.nonstationary import malicious, multivariate, oscillating, weekly
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
    "UniformSphere",
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
