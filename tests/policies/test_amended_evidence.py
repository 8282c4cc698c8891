"""Late outcomes of any batch, however long ago: the same evidence as if they had come in time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from bestarm.policies.anytime.bets import BatchOutcome, Frame, Sampling, Scale, StakeGrid
from bestarm.policies.anytime.evidence import (
    WINDOW,
    BestTargetEvidence,
    Evidence,
    TopTargetsEvidence,
)
from bestarm.records import Summary

RATES = np.array([0.95, 0.75, 0.25, 0.05])  # so far apart that every batch adds evidence
ARMS = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
GRID = StakeGrid.make()
BATCHES, PULLS = WINDOW + 9, 40
NEVER = 1e6  # a level that nothing reaches
CONTESTS: dict[str, Callable[[], Evidence]] = {
    "best": lambda: BestTargetEvidence(ARMS, level=NEVER, grid=GRID),
    "best two": lambda: TopTargetsEvidence(ARMS, level=NEVER, top=2, tolerance=0.0, grid=GRID),
    "tolerance": lambda: TopTargetsEvidence(ARMS, level=NEVER, top=1, tolerance=0.1, grid=GRID),
}


def make_frame() -> Frame:
    even = np.full(4, 0.25)
    guess = np.full(4, 0.5)
    sampling = Sampling(ARMS, even, even)
    return Frame(sampling, guess=guess, spread=even, scale=Scale(0.0, 1.0), size=PULLS, pulls=0)


def clicks(rng: np.random.Generator, each: int) -> Summary:
    """So many pulls of each arm."""
    counts = np.full(4, each)
    yes = rng.binomial(counts, RATES).astype(float)
    return Summary(counts, yes, yes)


def take(evidence: Evidence, past: list[BatchOutcome], batch: BatchOutcome) -> None:
    evidence.settle(evidence.place_bets(batch.frame), batch)
    past.append(batch)
    evidence.rank(RATES[1:] - RATES[0], past)


@pytest.mark.parametrize("name", CONTESTS)
def test_an_amended_batch_counts_once(name: str) -> None:
    """Batches 0 and 2 are finalized by the time their outcomes come, 38 is not."""
    rng, frame = np.random.default_rng(0), make_frame()
    waits = {0, 2, BATCHES - 3}
    prompt, late = CONTESTS[name](), CONTESTS[name]()
    told, known = list[BatchOutcome](), list[BatchOutcome]()
    amendments: list[tuple[int, Summary]] = []
    for number in range(BATCHES):
        first, second, rest = (clicks(rng, n) for n in (1, 1, 8))
        pending = np.full(4, 2 if number in waits else 0)
        part = Summary(rest.counts, rest.sums, rest.squares, pending=pending)
        whole = part.amended(first).amended(second) if number in waits else part
        amendments += [(number, each) for each in (first, second) if number in waits]
        take(prompt, told, BatchOutcome(frame, whole))
        take(late, known, BatchOutcome(frame, part))
    before = late.log_evidence().copy()
    # The first halves of all, then the others: a batch is amended twice.
    for number, summary in amendments[::2] + amendments[1::2]:
        after = BatchOutcome(frame, known[number].summary.amended(summary))
        late.amend(number, known[number], after)
        known[number] = after
        late.rank(RATES[1:] - RATES[0], known)
    assert np.abs(prompt.log_evidence() - before).max() > 1.0  # what was outstanding matters
    np.testing.assert_allclose(late.log_evidence(), prompt.log_evidence(), rtol=1e-9)
    # And so does what comes after.
    batch = BatchOutcome(frame, clicks(rng, 10))
    take(prompt, told, batch)
    take(late, known, batch)
    np.testing.assert_allclose(late.log_evidence(), prompt.log_evidence(), rtol=1e-9)
