"""The reward of a pull that is known ahead, compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import int64 as _int64
from numba import uint64 as _uint64
from numba.extending import overload

from bestarm.compiling import compiled

__all__ = ["pay", "respond"]

Parts = tuple[Any, ...]  # of an `Ahead` or of a `Past`
int64: Any = _int64
uint64: Any = _uint64


def pay(ahead: Parts, i: int, arm: int) -> float:
    """The reward of `arm` as the i-th pull to come; for compiled loops.

    `ahead` are the parts of an `Ahead`. Every pull is paid for once, in order, and is really made:
    the adversary learns from it.
    """
    return _pay_adversary(ahead, i, arm) if len(ahead) > _PLAIN else _pay_plain(ahead, i, arm)


_PLAIN = 3  # parts without an adversary


def _pay_plain(ahead: Parts, i: int, arm: int) -> float:
    # Unsigned: a test for negative indices would take as long as the rest of most loops.
    at = uint64(i)
    return float(ahead[0][uint64(ahead[1][at]), uint64(arm)] + ahead[2][at])


def _pay_adversary(ahead: Parts, i: int, arm: int) -> float:
    reward = ahead[0][ahead[1][i], arm] + ahead[2][i]
    return respond(ahead[4], ahead[3], int64(arm), reward)  # compiled once, for one type


@overload(pay)
def _pay(ahead: Parts, i: int, arm: int) -> Callable[..., float]:  # noqa: ARG001 - types, by name
    # Which one is known when a loop is compiled: with the adversary in it, one without is slower
    # by a factor of four.
    return _pay_adversary if len(ahead) > _PLAIN else _pay_plain


@compiled
def respond(past: Parts, bound: float, arm: int, reward: float) -> float:
    """The reward of `arm` once the adversary of `baselines.adversary` has added its ±bound.

    Before the pull it looks only at the past: the leader, at the root of the tournament over the
    running averages, and the arm that last followed the arm just pulled. `past` are the parts of
    `Past`; they are changed.
    """
    pulled, average, winner, successor, latest = past
    last, leaves = latest[0], len(average)
    predicted = successor[last] if last >= 0 else -1
    reward += -bound if predicted == winner[1] else bound  # x_a·θ + η_t + ν_t
    pulled[arm] += 1
    if pulled[arm] == 1:
        average[arm] = reward  # it was −∞, so that an arm without pulls does not lead
    else:
        average[arm] += (reward - average[arm]) / pulled[arm]
    node = (leaves + arm) >> 1
    while node >= 1:
        left, right = winner[2 * node], winner[2 * node + 1]
        winner[node] = left if average[left] >= average[right] else right
        node >>= 1
    if last >= 0:
        successor[last] = arm
    latest[0] = arm
    return reward
