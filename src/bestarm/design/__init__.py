"""Certified experimental designs: one solver behind all of them."""

from bestarm.design.anchored import AnchoredDesign, deo, xor
from bestarm.design.complexities import complexity
from bestarm.design.criteria import centered_g, centered_xy, linear_g, linear_xy
from bestarm.design.solver import Design, check_tolerance

__all__ = [
    "AnchoredDesign",
    "Design",
    "centered_g",
    "centered_xy",
    "check_tolerance",
    "complexity",
    "deo",
    "linear_g",
    "linear_xy",
    "xor",
]
