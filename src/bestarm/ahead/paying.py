"""The reward of a pull that is known ahead, compiled."""

from __future__ import annotations

from typing import Any

from bestarm.compiling import compiled

__all__ = ["pay", "respond"]

Parts = tuple[Any, ...]  # of an `Ahead` or of a `Past`


@compiled
def pay(ahead: Parts, i: int, arm: int) -> float:
    """The reward of `arm` as the i-th pull to come.

    `ahead` are the parts of an `Ahead`. Every pull is paid for once, in order, and is really made:
    the adversary learns from it.
    """
    table, rows, common, bound, past = ahead
    reward = table[rows[i], arm] + common[i]
    return respond(past, bound, arm, reward) if bound > 0 else reward


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
