"""Random words of NumPy's SFC64, continued in compiled code from the state of a generator.

The words need not pass through memory, and are, bit for bit, those of `SFC64.random_raw`.
"""

from __future__ import annotations

import numpy as np
from numba import uint64

from bestarm.compiling import compiled

__all__ = ["Word", "next_random_word"]

Word = np.uint64


@compiled
def next_random_word(a: Word, b: Word, c: Word, w: Word) -> tuple[Word, Word, Word, Word, Word]:
    """One step of SFC64: the word, then the new state."""
    word = a + b + w
    rotated = (c << uint64(24)) | (c >> uint64(40))
    return word, b ^ (b >> uint64(11)), c + (c << uint64(3)), rotated + word, w + uint64(1)
