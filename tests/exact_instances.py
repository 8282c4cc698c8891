"""Random design problems whose features are exact binary fractions, and exact answers about them.

An instance is a set of points in general coordinates (`base`, rank r) sent to features by an
affine map: features = base · matrix · units + offset. All of these are binary fractions of few
digits, so the map loses nothing, rank is a fact rather than a threshold, and inverse norms can be
computed in rational arithmetic: the reference shares neither code nor rounding with the library.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from bestarm.numerics.geometry import Array

__all__ = [
    "Instance",
    "contrasts_of",
    "exact_rank",
    "instances",
    "inverse_norms",
    "lifted_norms",
    "random_weights",
    "second_moment",
    "small_gap_features",
    "solve",
    "sphere",
]

Row = list[Fraction]


@dataclass(frozen=True, eq=False)
class Instance:
    """Features, and the well-scaled coordinates they are an exact affine image of."""

    source: Array
    target: Array
    base_source: Array
    base_target: Array
    rank: int
    seed: int

    @property
    def rng(self) -> np.random.Generator:
        """Further randomness of the same instance."""
        return np.random.default_rng([self.seed, 1])

    def __repr__(self) -> str:
        return (
            f"Instance(source={self.source.tolist()}, target={self.target.tolist()}, "
            f"rank={self.rank}, seed={self.seed})"
        )


@st.composite
def instances(
    draw: st.DrawFn,
    *,
    arms: int = 10,
    targets: int = 8,
    offsets: bool = True,
    units: bool = True,
    duplicates: bool = True,
) -> Instance:
    """Instances of rank 1 to 3 in up to two dimensions more.

    Args:
        draw: hypothesis.
        arms: the most source arms.
        targets: the most targets.
        offsets: whether all features may move away from zero, by up to 2²⁰ of their units.
        units: whether features may be scaled by 2^±20 (about 10^±6), together and one by one.
        duplicates: whether arms may be near-duplicates of others, down to 2⁻²⁰ apart.
    """
    rank = draw(st.integers(1, 3), label="rank")
    extra = draw(st.integers(0, 2), label="redundant features")
    count = draw(st.integers(rank + 1, arms), label="arms")
    rng = np.random.default_rng(seed := draw(st.integers(0, 2**32 - 1), label="seed"))
    base = rng.integers(-64, 65, size=(count, rank)) / 16
    if duplicates:
        distance = 2.0 ** -draw(st.integers(0, 20), label="-log2 distance of duplicates")
        for _ in range(draw(st.integers(0, 3), label="near-duplicates")):
            first, second = rng.choice(count, size=2, replace=False)
            base[second] = base[first] + distance * rng.integers(-3, 4, size=rank)
    assume(exact_rank(base[1:] - base[0]) == rank)
    choice = draw(st.sampled_from(["source", "some of the source", "others"]), label="targets are")
    if choice == "others":
        base_target = rng.integers(-64, 65, size=(draw(st.integers(2, targets)), rank)) / 16
    else:
        most = min(count, targets)
        size = most if choice == "source" else draw(st.integers(2, most))
        base_target = base[rng.permutation(count)[:size]]
    assume((base_target != base_target[0]).any())
    matrix = np.hstack([np.eye(rank), rng.integers(-3, 4, size=(rank, extra))])
    matrix = matrix[:, rng.permutation(rank + extra)]
    shift, unit = np.zeros(rank + extra), np.ones(rank + extra)
    if offsets:
        size = draw(st.sampled_from([0, 1, 2**10, 2**20]), label="offset")
        shift = size * rng.integers(-4, 5, size=rank + extra).astype(float)
    if units:
        power = st.sampled_from([-20, 0, 20])
        each = [draw(power, label="unit of a feature") for _ in range(rank + extra)]
        unit = 2.0 ** (draw(power, label="common unit") + np.array(each))
    return Instance(
        (base @ matrix + shift) * unit,
        (base_target @ matrix + shift) * unit,
        base,
        base_target,
        rank,
        seed,
    )


def random_weights(rng: np.random.Generator, count: int) -> Array:
    """A distribution with some exact zeros."""
    weights = rng.dirichlet(np.ones(count))
    weights[rng.permutation(count)[: rng.integers(0, count)]] = 0.0
    return np.asarray(weights / weights.sum())


def contrasts_of(target: Array) -> Array:
    """All differences of two different rows, one sign each, by a loop over pairs."""
    count = len(target)
    return np.array([target[i] - target[j] for i in range(count) for j in range(i)])


def small_gap_features(dimension: int = 10, angle: float = 0.2) -> Array:
    """The paper's X = {e₁, …, e_d, cos(angle) e₁ + sin(angle) e₂}."""
    turned = np.zeros(dimension)
    turned[:2] = math.cos(angle), math.sin(angle)
    return np.vstack([np.eye(dimension), turned])


def sphere(seed: int, count: int, dimension: int) -> Array:
    """Points uniformly on the unit sphere."""
    points = np.random.default_rng(seed).normal(size=(count, dimension))
    return np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True))


def fractions(values: Sequence[float] | Array) -> Row:
    """Floats as the rational numbers they are."""
    return [Fraction(float(value)) for value in values]


def second_moment(rows: Sequence[Row], weights: Row) -> list[Row]:
    """Σ w_i x_i x_iᵀ."""
    size = len(rows[0])
    return [
        [sum((w * x[i] * x[j] for w, x in zip(weights, rows, strict=True) if w), Fraction(0))
         for j in range(size)]
        for i in range(size)
    ]  # fmt: skip


def solve(matrix: Sequence[Row], right: Sequence[Row]) -> tuple[list[Row | None], int]:
    """For each b in `right` some x with matrix·x = b, or None where there is none; and the rank."""
    size = len(matrix[0])
    # A row stands for all its multiples, so whole numbers will do, and are far quicker.
    rows = [_whole([*row, *(b[i] for b in right)]) for i, row in enumerate(matrix)]
    pivots: list[int] = []
    for column in range(size):
        top = len(pivots)
        pivot = next((i for i in range(top, len(rows)) if rows[i][column]), None)
        if pivot is None:
            continue
        rows[top], rows[pivot] = rows[pivot], rows[top]
        lead = rows[top][column]
        for i, row in enumerate(rows):
            if i != top and (factor := row[column]):
                left = [lead * a - factor * b for a, b in zip(row, rows[top], strict=True)]
                common = math.gcd(*left) or 1
                rows[i] = [value // common for value in left]
        pivots.append(column)
    answers: list[Row | None] = []
    for k in range(size, size + len(right)):
        if any(row[k] for row in rows[len(pivots) :]):
            answers.append(None)
            continue
        x = [Fraction(0)] * size
        for i, column in enumerate(pivots):
            x[column] = Fraction(rows[i][k], rows[i][column])
        answers.append(x)
    return answers, len(pivots)


def _whole(row: Row) -> list[int]:
    """A multiple of a row."""
    scale = math.lcm(*(value.denominator for value in row))
    return [value.numerator * (scale // value.denominator) for value in row]


def exact_rank(table: Array) -> int:
    """The rank, decided without a threshold."""
    return solve([fractions(row) for row in table], [])[1]


def inverse_norms(matrix: Sequence[Row], vectors: Sequence[Row]) -> Array:
    """yᵀ matrix⁻¹ y for each y, +∞ off the column space; rounded once, at the end."""
    answers, _ = solve(matrix, vectors)
    return np.array(
        [
            math.inf if x is None else float(sum(a * b for a, b in zip(x, y, strict=True)))
            for x, y in zip(answers, vectors, strict=True)
        ]
    )


def lifted_norms(source: Array, weights: Array, vectors: Array, constant: int) -> Array:
    """‖(constant, y)‖² under M(p)⁻¹ with M(p) = Σ p_i φ_i φ_iᵀ, φ = (1, x), for each row y."""
    mass = fractions(weights)
    mass = [w / sum(mass) for w in mass]
    rows = [[Fraction(1), *fractions(x)] for x in source]
    lifted = [[Fraction(constant), *fractions(y)] for y in vectors]
    return inverse_norms(second_moment(rows, mass), lifted)
