"""Methods: the truths that some are told, their names, and the versions of a user's own code."""

from __future__ import annotations

import ast
import sys
import sysconfig
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from hashlib import sha256
from importlib.util import resolve_name
from itertools import accumulate
from pathlib import Path
from types import ModuleType

from bestarm.environments import World
from bestarm.errors import InvalidInputError
from bestarm.policies.policy import Method, Policy
from bestarm.policies.registry import accepted
from bestarm.problem import Problem

_INSTALLED = {"site-packages", "dist-packages"}
_LIBRARY = sysconfig.get_path("stdlib")


class Oracle:
    """A method that is told truths of its world, which only a simulation knows.

    Args:
        method: makes a policy from a problem, a seed and the truths.
        truths: for each keyword of the method, the name of the attribute of the world to pass.

    Example:
        >>> from bestarm import environments
        >>> from bestarm.policies import GOpt
        >>> from bestarm.simulation import Oracle, simulate
        >>> simulate(Oracle(GOpt, gap="gap"), environments.small_gap(), runs=1).correct.tolist()
        [True]
    """

    def __init__(self, method: Callable[..., Policy], **truths: str) -> None:
        self.method = method
        self.truths = truths

    def bind(self, world: World) -> Method:
        """The method with the truths of this world bound to it."""
        try:
            truths = {key: getattr(world, name) for key, name in self.truths.items()}
        except AttributeError as error:
            raise InvalidInputError(
                f"The world has no attribute {error.name!r}.", field="truths", value=error.name
            ) from None
        return partial(self.method, **truths)


def with_mean_bound(method: Method, world: World, problem: Problem) -> Method:
    """The method, told how large |x·θ| may be in a world where the problem's scale is exceeded.

    That is, if it has an option for it; of bounded rewards it needs no other bound.
    """
    bound = getattr(world, "mean_bound", 0.0)
    bounded = isinstance(method, partial) and method.keywords.get("bounds") is not None
    if bounded or bound <= problem.scale:
        return method
    return partial(method, **accepted(method, mean_bound=bound))


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


def code_version(method: object) -> str:
    """The module of a user's own method, and a digest of the files that it is made of.

    A folder of runs that can be resumed keeps it, so that runs of two versions are never mixed. The
    files are the module's own and those of the modules that it imports, and so on, except what is
    installed. An import of a computed name is not known. Empty for a method of bestarm's, unless
    something of the user's is bound to it.
    """
    if isinstance(method, Oracle):
        return code_version(method.method)
    function, bound = method, ()
    if isinstance(method, partial):
        function, bound = method.func, (*method.args, *method.keywords.values())
    name = _module_of(function)
    names = [] if name.partition(".")[0] == "bestarm" else [name]
    names += [each for each in map(_module_of, bound) if _own_file(each)]
    roots = tuple(sys.modules[each] for each in dict.fromkeys(names) if each in sys.modules)
    return f"{names[0]} {_digest(roots)}" if names else ""


def _module_of(thing: object) -> str:
    return str(getattr(thing, "__module__", None) or type(thing).__module__)


@lru_cache(maxsize=64)  # a process keeps what it has imported, even if files change
def _digest(roots: tuple[ModuleType, ...]) -> str:
    files: dict[str, bytes] = {}
    waiting = {each.__name__: getattr(each, "__file__", None) for each in roots}
    while waiting:
        name, file = waiting.popitem()
        if file and Path(file).is_file():
            files[name] = Path(file).read_bytes()
            package = name if Path(file).name == "__init__.py" else name.rpartition(".")[0]
            new = (each for each in _imports(files[name], package) if each not in files)
            waiting.update((each, _own_file(each)) for each in new)
    parts = (f"{name} {len(files[name])}\n".encode() + files[name] for name in sorted(files))
    return sha256(b"".join(parts)).hexdigest()[:16]


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
            yield from accumulate(name.split("."), "{}.{}".format)


def _own_file(name: str) -> Path | None:
    """The file of a module, imported or not, that is neither installed nor ours."""
    if name.partition(".")[0] == "bestarm":
        return None
    known = getattr(sys.modules.get(name), "__file__", None)
    stems = [Path(place, *name.split(".")) for place in sys.path]
    places = [end for stem in stems for end in (stem / "__init__.py", Path(f"{stem}.py"))]
    file = Path(known) if known else next(filter(Path.is_file, places), None)
    if file is None or _INSTALLED.intersection(file.parts) or file.is_relative_to(_LIBRARY):
        return None
    return file
