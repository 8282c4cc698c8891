"""What contests, intervals and effects need of a batch, whichever way its arms were drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from bestarm.numerics.geometry import Array
from bestarm.records import Summary

if TYPE_CHECKING:
    from bestarm.policies.anytime.bets import Settled


class AnyBets(Protocol):
    """Bets on contrasts, fixed before a batch was drawn."""

    def settle(self, batch: Any) -> Settled:
        """Settle the bets on a batch drawn under their frame."""
        ...

    def log_growth(self, batch: Any) -> Array:
        """By how much the log wealth of every contrast and stake grows with a batch's outcome."""
        ...


class AnyFrame(Protocol):
    """All that is fixed before a batch is drawn; the bets on any contrast follow from it."""

    leaders: tuple[int, int]

    def bets(self, contrasts: Array, *, margin: float = 0.0) -> AnyBets:
        """Bets that contrasts (rows, in coordinates) exceed −margin."""
        ...


class AnyBatch(Protocol):
    """The outcome of pulls that were drawn under a frame."""

    pending: bool

    @property
    def frame(self) -> AnyFrame:
        """What was fixed before."""
        ...

    @property
    def summary(self) -> Summary:
        """What came of it."""
        ...

    @property
    def exposure(self) -> float:
        """By how much the log wealth of a stake λ = 1 falls if the margin falls by 1."""
        ...

    @property
    def capped_exposure(self) -> float:
        """By how much it falls besides if the margin is negative and falls by 1.

        That of outstanding outcomes whose factor is at most 1, with a margin above 0 as well.
        """
        ...
