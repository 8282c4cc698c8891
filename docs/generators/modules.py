"""One page per public module; Sphinx's autodoc fills it from signatures and docstrings."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import bestarm

__all__ = ["module_pages", "public_modules"]

_INTERNAL = {"__main__", "checks", "cli", "lazy", "numerics", "presampled"}
_PUBLIC_SUBMODULES = {"environments.baselines", "numerics.geometry"}
_FURTHER = {
    # The bases of exceptions are part of the interface: users catch them.
    "bestarm.errors": "\n   :show-inheritance:",
    # What an `Experiment` has from its base, which is not public.
    "bestarm.live": "\n   :inherited-members: tuple",
}
_PAGE = """# `{name}`

```{{eval-rst}}
.. automodule:: {name}
   :members:
   :exclude-members: {elsewhere}{further}
```
"""


def public_modules() -> list[str]:
    """The full names of the modules whose `__all__` is the public interface."""
    found = {module.name for module in pkgutil.iter_modules(bestarm.__path__)}
    return [f"bestarm.{name}" for name in sorted(found - _INTERNAL | _PUBLIC_SUBMODULES)]


def module_pages() -> dict[str, str]:
    """The page of every public module, by its file name."""
    return {f"{name}.md": _page(name) for name in public_modules()}


def _page(name: str) -> str:
    further = _FURTHER.get(name, "")
    return _PAGE.format(name=name, elsewhere=", ".join(_elsewhere(name)), further=further)


def _elsewhere(name: str) -> list[str]:
    """Public names of a module that another page documents: modules, and names of its package."""
    module = importlib.import_module(name)
    package = importlib.import_module(name.rpartition(".")[0])
    above = package.__all__ if package is not bestarm else []
    return [
        each for each in module.__all__ if each in above or inspect.ismodule(getattr(module, each))
    ]
