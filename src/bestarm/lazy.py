"""Packages whose public names load on first use (SPEC 1), so that importing them stays quick."""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

__all__ = ["attach_stub"]


def attach_stub(
    package: str, file: str
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package, read from its stub, `__init__.pyi`.

    The stub holds imports alone, `from bestarm.problem import Problem as Problem`, so that every
    name is written once, and type checkers know it. As in the package `lazy_loader`. Give the
    package's `__name__` and `__file__`.
    """
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    homes = {
        alias.name: str(line.module)
        for line in stub.body
        if isinstance(line, ast.ImportFrom)
        for alias in line.names
    }
    names = sorted(homes)

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if homes[name] == package:
            return import_module(f"{package}.{name}")
        return getattr(import_module(homes[name]), name)

    return load, lambda: names, names
