"""Names of methods in results."""

from __future__ import annotations

from functools import partial

from bestarm.simulation.oracle import Oracle

__all__ = ["method_name"]


def method_name(method: object) -> str:
    """The name of a method with the arguments bound to it."""
    if isinstance(method, Oracle):
        truths = [f"{key}=the world's {name}" for key, name in method.truths.items()]
        return f"{method_name(method.method)}({', '.join(truths)})"
    if isinstance(method, partial):
        bound = [repr(value) for value in method.args]
        bound += [f"{key}={value!r}" for key, value in method.keywords.items()]
        return f"{method_name(method.func)}({', '.join(bound)})"
    return str(getattr(method, "__name__", type(method).__name__))
