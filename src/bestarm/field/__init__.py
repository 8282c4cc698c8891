"""Other people's methods, their published figures, and a leaderboard of all methods.

Public names load on first use.

Methods that choose every pull from all rewards before it are compiled loops, and need Numba:
`pip install 'bestarmid[field]'`.
"""

from bestarm.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
