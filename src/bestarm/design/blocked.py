"""The two designs over blocks: for target contrasts (XY) and for the blocks themselves (G)."""

from __future__ import annotations

from bestarm.checks import whole
from bestarm.design.blocks import BlockDesign, minimise_blocks, spread_blocks
from bestarm.design.contrasts import PairwiseContrasts
from bestarm.design.criteria import check_targets, regression_features, target_contrasts
from bestarm.design.solver import check_gap, check_tolerance
from bestarm.numerics.geometry import Array, Span
from bestarm.problem import as_features


def blocked_xy(source: object, target: object, *, size: int, tol: float = 1e-3) -> BlockDesign:
    """Minimise max ‖u − u′‖² under M(q)⁻¹ over all pairs of targets, for blocks of `size` arms.

    Every round pulls a block of different arms that share one baseline, whatever it is;
    M(q) = Σ_B q_B Σ_{i in B} (x_i − x̄_B)(x_i − x̄_B)ᵀ. After n rounds the difference of two targets
    is known with a variance of at most value/n times that of a reward within its block.

    Args:
        source: features of the arms that can be pulled, one row per arm.
        target: features of the options; the contrasts are all differences of its rows.
        size: arms in a block, from 2 to all.
        tol: the relative gap to certify.
    """
    check_tolerance(tol)
    points, options = as_features(source, "source"), as_features(target, "target")
    check_targets(points, options)
    span, coordinates = _block_features(points)
    check_size(size, len(points))
    rows = target_contrasts(span, options, "centered")[:, 1:]
    found = minimise_blocks(coordinates, PairwiseContrasts(rows), size, tol)
    check_gap(found.gap, tol)
    return found


def blocked_g(source: object, *, size: int, tol: float = 1e-3) -> BlockDesign:
    """Minimise the largest tr(A_B M(q)⁻¹) of a block B; the optimum is the rank of the differences.

    A_B = Σ_{i in B} (x_i − x̄_B)(x_i − x̄_B)ᵀ and M(q) = Σ_B q_B A_B. It is what `centered_g` is for
    single pulls: the design that no round can throw far off, because the weights w_i of a round in
    the least squares estimate of y·θ satisfy Σ_i w_i² ≤ tr(A_B M⁻¹) ‖y‖². It also has the largest
    determinant, and ‖x_i − x_j‖² ≤ 2·rank under M⁻¹ for any two arms. (For the least value of the
    worst pair of arms, use `blocked_xy(source, source, …)`.)

    Args:
        source: features of the arms that can be pulled, one row per arm.
        size: arms in a block, from 2 to all.
        tol: the relative gap to certify.

    Reference: Kiefer and Wolfowitz (1960).
    """
    check_tolerance(tol)
    points = as_features(source, "source")
    _, coordinates = _block_features(points)
    check_size(size, len(points))
    found = spread_blocks(coordinates, size, tol)
    check_gap(found.gap, tol)
    return found


def check_size(size: int, arms: int) -> None:
    """Raise unless a block of this size has at least two arms and no arm twice."""
    whole(size, "size", least=2, below=arms + 1)


def _block_features(points: Array) -> tuple[Span, Array]:
    """The span of differences, and the arms' coordinates in it."""
    span, lifted = regression_features(points, "centered")
    return span, lifted[:, 1:]
