"""Probabilities that are the same on every processor, and random words.

The words are those of NumPy's SFC64, continued in compiled code from the state of a generator. They
need not pass through memory, and are, bit for bit, those of `SFC64.random_raw`.
"""

from __future__ import annotations

import numpy as np
from numba import uint64

from bestarm.compiling import compiled
from bestarm.numerics.geometry import Array

__all__ = ["Word", "next_random_word", "round_probabilities"]

Word = np.uint64
_DIGITS = 12


def round_probabilities(probabilities: Array) -> Array:
    """Probabilities without their last digits, in which processors differ.

    A draw may depend on them: to draw from a binomial law NumPy draws the rarer of success and
    failure, and so something else where one half becomes a little more than that.
    """
    mantissas, exponents = np.frexp(probabilities)
    return np.asarray(np.ldexp(np.round(mantissas, _DIGITS), exponents))


@compiled
def next_random_word(a: Word, b: Word, c: Word, w: Word) -> tuple[Word, Word, Word, Word, Word]:
    """One step of SFC64: the word, then the new state."""
    word = a + b + w
    rotated = (c << uint64(24)) | (c >> uint64(40))
    return word, b ^ (b >> uint64(11)), c + (c << uint64(3)), rotated + word, w + uint64(1)
