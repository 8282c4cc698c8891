"""Rewards of runs side by side: each run's own, in order, whoever stands beside it."""

from __future__ import annotations

import numpy as np
import pytest

from bestarm.presampled import AdversaryPast, PresampledRewards, RewardsAhead


def rewards_of(run: int, rows: int, pulls: int, past: AdversaryPast | None) -> PresampledRewards:
    rng = np.random.default_rng(run)
    table, at = rng.normal(size=(rows, 3)), rng.integers(rows, size=pulls)
    return PresampledRewards(table, at, rng.normal(size=pulls), past)


@pytest.mark.parametrize("rows", [[1, 1, 1, 1], [5, 5, 5, 5], [2, 3, 4, 1]])
@pytest.mark.parametrize("adverse", [False, True])
def test_every_run_is_paid_its_own_rewards(rows: list[int], adverse: bool) -> None:
    """Also after others have ended, and against an adversary that remembers each run."""
    rng, runs, pulls = np.random.default_rng(1), 4, 200

    def pasts() -> list[AdversaryPast | None]:
        return [AdversaryPast(1.5, 3) if adverse else None for _ in range(runs)]

    given = [rewards_of(run, rows[run], pulls, past) for run, past in enumerate(pasts())]
    alone = [rewards_of(run, rows[run], pulls, past) for run, past in enumerate(pasts())]
    ahead, kept, used = RewardsAhead(runs), np.arange(runs), np.zeros(runs, dtype=np.int64)
    ahead.put(kept, given)
    for batch in range(12):
        if batch == 8:
            ahead.select(np.array([0, 3]))
            kept = kept[[0, 3]]
        sizes = np.full(len(kept), 2) if batch % 2 else rng.integers(0, 20, len(kept))
        arms = rng.integers(0, 3, sizes.sum())
        if batch % 2:
            paid = ahead.pull_equally(arms.reshape(-1, 2)).ravel()
        else:
            paid = ahead.pull(arms, sizes)
        ends = np.cumsum(sizes)
        for run, start, end in zip(kept, ends - sizes, ends, strict=True):
            own, at = alone[run], used[run] + np.arange(end - start)
            expected = own.table[own.rows[at], arms[start:end]] + own.common[at]
            if own.past is not None:
                expected = own.past.respond(arms[start:end], expected)
            np.testing.assert_array_equal(paid[start:end], expected)
            used[run] += end - start
        assert ahead.used.tolist() == used[kept].tolist()
        assert ahead.left.tolist() == (pulls - used[kept]).tolist()
