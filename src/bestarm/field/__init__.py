"""Other people's methods, for comparison in simulations. Public names load on first use.

Methods that choose every pull from all rewards before it are compiled loops, and need Numba:
`pip install 'bestarmid[field]'`.
"""

from bestarm.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
