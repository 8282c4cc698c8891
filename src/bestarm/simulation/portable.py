"""Methods that travel with their source, because a cluster's workers have other folders than ours.

Workers may also have imported an older version of the same module, and would silently use it.
"""

from __future__ import annotations

import atexit
import importlib
import os
import shutil
import sys
import tempfile
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bestarm.policies.policy import Policy  # loading every method would be slow
    from bestarm.problem import Problem

Files = tuple[tuple[str, bytes], ...]


def sources_in(folder: Path) -> Files:
    """The imported modules that lie in a folder: relative paths with their contents."""
    found: dict[str, bytes] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name.partition(".")[0] == "bestarm" or not file:
            continue
        stem = os.path.join(*name.split("."))
        for path in (f"{stem}.py", os.path.join(stem, "__init__.py")):
            if Path(file) == folder / path:
                found[path] = Path(file).read_bytes()
    return tuple(sorted(found.items()))


class PortableMethod:
    """A user's method together with the files it is made of.

    Args:
        module: the module's name.
        attribute: the method's name in it.
        options: keywords bound to it.
        files: the module and its neighbours that it imports; empty for an installed module.

    Attributes:
        source: which version of the user's code it is, as `source_of` says.
    """

    def __init__(self, module: str, attribute: str, options: dict[str, Any], files: Files) -> None:
        self._module, self._files = module, files
        self._attribute, self._options = attribute, options
        self.__name__, self.source = attribute, ""

    def standing_for(self, options: dict[str, Any], *, name: str, source: str) -> PortableMethod:
        """The same with further options, under the name and source of the method it stands for."""
        method = PortableMethod(self._module, self._attribute, self._options | options, self._files)
        method.__name__, method.source = name, source
        return method

    def __call__(self, problem: Problem, *, seed: int) -> Policy:
        """Make a policy from exactly these files, wherever it is called."""
        with _lock:
            home = _imported(self._module, self._files)
        policy: Policy = attrgetter(self._attribute)(home)(problem, seed=seed, **self._options)
        return policy


_lock = Lock()


@lru_cache(maxsize=64)
def _imported(module: str, files: Files) -> ModuleType:
    if files:
        folder = Path(tempfile.mkdtemp(prefix="bestarm-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        for path, content in files:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
            # What had this name before is another version, or somebody else's.
            sys.modules.pop(
                ".".join(Path(path).with_suffix("").parts).removesuffix(".__init__"), None
            )
        sys.path.insert(0, str(folder))
        importlib.invalidate_caches()
    return importlib.import_module(module)
