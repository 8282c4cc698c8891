"""How often a gate is wrong, and how many calls it saves.

    python -m benchmarks.gates [--runs 2000] [--workers 2]

Two options on 1,000 items, each right with probability 0.8 or less, δ = 0.05 and a tolerance of
0.05. Items are hard or easy for both: they agree on four in five. A gate is wrong if it lets an
option through that is worse by the tolerance or more, or stops one that is not worse.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np

from bestarm import Problem
from bestarm.evaluation.gate import Gate
from bestarm.records import BlockPlan, Rounds

ITEMS, TOLERANCE = 1000, 0.05
LEADS = (0.05, 0.0, -0.025, -0.05, -0.1)  # of the new option over all items, exactly


def gate(run: int, lead: float) -> tuple[str, int]:
    """What one gate says, and how many calls it takes."""
    rng = np.random.default_rng(run)
    apart = np.zeros(ITEMS)  # on a fifth of the items one of them is right
    wins = round(ITEMS * (0.1 + lead / 2))
    apart[:wins], apart[wins : ITEMS // 5] = 1, -1
    both = np.where(apart == 0, rng.random(ITEMS) < 0.75, 0)
    table = np.column_stack([np.where(apart < 0, 1, both), np.where(apart > 0, 1, both)]) * 1.0
    rows = table[rng.permutation(ITEMS)]
    names = {"items": ITEMS, "control": "main", "tolerance": TOLERANCE}
    rule = Gate(Problem(["main", "new"], delta=0.05), bounds=(0, 1), **names)  # type: ignore[arg-type]
    seen = 0
    while (plan := rule.plan()) is not None:
        assert isinstance(plan, BlockPlan)
        told = rows[seen : seen + plan.rounds]
        rule.update(Rounds.of(plan, np.zeros(len(told), dtype=int), told))
        seen += len(told)
    return rule.verdicts[0].state, 2 * seen


def main() -> None:
    """Print one line per truth."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    with ProcessPoolExecutor(options.workers) as pool:
        for lead in LEADS:
            found = list(pool.map(partial(gate, lead=lead), range(options.runs), chunksize=20))
            states = [state for state, _ in found]
            calls = np.mean([calls for _, calls in found]) / (2 * ITEMS)
            print(
                f"lead {lead:+.3f}: passes {states.count('not worse') / options.runs:7.2%}, "
                f"fails {states.count('worse') / options.runs:7.2%}, judges {calls:.1%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
