"""Find the best of several options with a stated error probability, even while the baseline drifts.

Public names load on first use, so that `import bestarm` stays quick: see `__init__.pyi`.
"""

from bestarm.lazy import attach_stub

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
