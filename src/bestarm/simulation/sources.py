"""Which version of a user's own code a method is made of."""

from __future__ import annotations

import ast
import sys
import sysconfig
from collections.abc import Iterator
from functools import lru_cache, partial
from hashlib import sha256
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType

from bestarm.simulation.oracle import Oracle
from bestarm.simulation.portable import PortableMethod

_INSTALLED = {"site-packages", "dist-packages"}
_LIBRARY = sysconfig.get_path("stdlib")


def source_of(method: object) -> str:
    """The module of a user's own method, and a digest of the files that it is made of.

    These are the module's own file and those of the modules that it imports, and so on, except what
    is installed. An import of a computed name is not known. Empty for a method of bestarm's, unless
    something of the user's is bound to it.
    """
    if isinstance(method, PortableMethod):
        return method.source
    if isinstance(method, Oracle):
        return source_of(method.method)
    function, bound = method, ()
    if isinstance(method, partial):
        function, bound = method.func, (*method.args, *method.keywords.values())
    name = _module_of(function)
    names = [] if _is_ours(name) else [name]
    names += [each for each in map(_module_of, bound) if _own_file(each)]
    roots = tuple(sys.modules[each] for each in dict.fromkeys(names) if each in sys.modules)
    return f"{names[0]} {_digest(roots)}" if names else ""


def _module_of(thing: object) -> str:
    return str(getattr(thing, "__module__", None) or type(thing).__module__)


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] == "bestarm"


@lru_cache(maxsize=64)  # a process keeps what it has imported, even if files change
def _digest(roots: tuple[ModuleType, ...]) -> str:
    files: dict[str, bytes] = {}
    waiting = {each.__name__: getattr(each, "__file__", None) for each in roots}
    while waiting:
        name, file = waiting.popitem()
        if not file:
            continue
        files[name] = Path(file).read_bytes()
        package = name if Path(file).name == "__init__.py" else name.rpartition(".")[0]
        for each in _imports(files[name], package):
            if each not in files:
                waiting.setdefault(each, _own_file(each))
    digest = sha256()
    for name, content in sorted(files.items()):
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


def _imports(content: bytes, package: str) -> Iterator[str]:
    """The modules, and the packages around them, that a file in a package may import."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):  # compiled
        return
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            try:
                base = resolve_name("." * node.level + (node.module or ""), package)
            except ImportError:
                continue
            names = [base, *(f"{base}.{each.name}" for each in node.names)]
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[: end + 1]) for end in range(len(parts)))


def _own_file(name: str) -> str | None:
    """The file of a module, imported or not, that is neither installed nor ours."""
    if _is_ours(name):
        return None
    known = sys.modules.get(name)
    spec = None if known else _found(name)
    file = getattr(known, "__file__", None) or (spec.origin if spec and spec.has_location else None)
    if not file or _INSTALLED.intersection(Path(file).parts):
        return None
    return None if Path(file).is_relative_to(_LIBRARY) else file


def _found(name: str) -> ModuleSpec | None:
    """Where a module would be imported from; nothing is imported."""
    parent = name.rpartition(".")[0]
    if not parent:
        return PathFinder.find_spec(name)
    known = sys.modules.get(parent)
    around = known.__spec__ if known else _found(parent)
    places = around.submodule_search_locations if around else None
    return PathFinder.find_spec(name, places) if places else None
