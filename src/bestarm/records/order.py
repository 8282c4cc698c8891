"""The order in which fixed plans are pulled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bestarm.records.single import Counts

__all__ = ["round_robin"]


def round_robin(counts: Counts) -> NDArray[np.int64]:
    """The order in which a fixed plan is pulled: each remaining arm once per round, by index.

    >>> import numpy as np
    >>> round_robin(np.array([1, 3, 2])).tolist()
    [0, 1, 2, 1, 2, 1]
    """
    arms = np.repeat(np.arange(len(counts)), counts)
    starts = np.cumsum(counts) - counts
    rounds = np.arange(len(arms)) - np.repeat(starts, counts)
    return np.asarray(arms[np.lexsort((arms, rounds))], dtype=np.int64)
