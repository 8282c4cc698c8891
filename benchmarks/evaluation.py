"""Which model is best: how much must be judged on tables of real scores, and how often is it wrong.

    python -m benchmarks.evaluation [--scores scores.npz] [--alpaca judgements.npz] [--orders 200]
        [--delta 0.05] [--workers 2] [--banditeval]
    python -m benchmarks.evaluation --crossing

Each order of the items is random. A rule is wrong if it names a model whose mean over all items is
below the best by more than its tolerance. Rules:

* ours: `evaluate`'s, at each tolerance: every item for all models that are left;
* paired: `PairedTests`: every item for all models, until one beats each other in a sequential test;
* fixed: every model on a sample whose size is the smallest at which the best mean of the sample is
  wrong in at most δ of these orders. Nobody knows that size beforehand;
* wilcoxon: as Optuna's `WilcoxonPruner` (p < 0.1, two steps to begin with): model after model, each
  given up once a signed-rank test says that it is worse than the best so far. Looked at every 10
  items;
* halving: successive halving with the number of judgements that ours took on average;
* banditeval: UCB-E of that package (Zhou et al. 2025) with its default settings and as many
  judgements, in batches of 32; it needs `pip install banditeval`. Its other rule fits 64 matrices
  before every batch, and takes too long here.

The models that cross do so while they are judged, with the shares that LLMDrift reports for
GPT-4 and GPT-3.5 (Chen, Zaharia and Zou 2023): 0.84 to 0.51, and 0.50 to 0.76.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from scipy.stats import wilcoxon

from bestarm import AnytimeBAI, PairedTests, Problem
from bestarm.datasets import alpaca_eval
from bestarm.evaluation.effort import judge_table
from bestarm.numerics.geometry import Array
from bestarm.policies.policy import Policy

NAMES = {"livebench": "LiveBench", "helm_gsm8k": "GSM8K"}
TOLERANCES = (0.0, 0.01, 0.02, 0.05)
Found = tuple[int, int]  # judgements, and the model that is named
Rule = Callable[[Array], Found]


def play(policy: Policy, rows: Array) -> Found:
    """Judge in this order as a policy asks."""
    return int(judge_table(policy, rows).sum()), policy.recommend().target


def ours(rows: Array, *, delta: float, tolerance: float) -> Found:
    items, models = rows.shape
    problem = Problem([str(model) for model in range(models)], delta=delta)
    known = {"bounds": (0.0, 1.0), "block": models, "items": items, "tolerance": tolerance}
    return play(AnytimeBAI(problem, **known), rows)


def paired(rows: Array, *, delta: float) -> Found:
    problem = Problem([str(model) for model in range(rows.shape[1])], delta=delta)
    return play(PairedTests(problem, bounds=(0.0, 1.0), items=len(rows)), rows)


def wilcoxon_pruner(rows: Array) -> Found:
    items, models = rows.shape
    best, judged = 0, items
    for model in range(1, models):
        made = items
        for step in range(10, items, 10):
            apart = rows[:step, model] - rows[:step, best]
            worse = apart.any() and apart.mean() < 0
            if worse and _p_value(apart) < 0.1:
                made = step
                break
        judged += made
        if made == items and rows[:, model].mean() > rows[:, best].mean():
            best = model
    return judged, best


def _p_value(apart: Array) -> float:
    """The p-value of a signed-rank test, by the normal approximation: the exact test of ten
    differences takes 0.2 s.
    """
    test = wilcoxon(apart, alternative="less", zero_method="zsplit", method="approx")
    return float(test.pvalue)


def halving(rows: Array, *, budget: float) -> Found:
    left, seen, judged = np.arange(rows.shape[1]), 0, 0
    rounds = int(np.ceil(np.log2(rows.shape[1])))
    while len(left) > 1:
        more = min(int(budget / rounds / len(left)), len(rows) - seen)
        seen, judged = seen + more, judged + more * len(left)
        order = np.argsort(-rows[:seen, left].mean(axis=0), kind="stable")
        left = left[order[: (len(left) + 1) // 2]]
    return judged, int(left[0])


def ucb_e(rows: Array, *, budget: float) -> Found:
    """The package `banditeval`, which is told the scores of this table as it asks for them."""
    import torch  # type: ignore[import-not-found]  # noqa: PLC0415 - comes with banditeval
    from banditeval.bandits import (  # type: ignore[import-not-found]  # noqa: PLC0415
        upper_confidence_bound_exploration as step,
    )

    torch.manual_seed(0)  # the order of the rows is random already
    table = torch.from_numpy(rows.T.astype(np.float32))
    seen, judged = torch.full_like(table, torch.nan), 0
    while judged < budget and (batch := step(seen)) is not None:
        seen[batch[0], batch[1]] = table[batch[0], batch[1]]
        judged += batch.shape[1]
    means = np.nan_to_num(seen.nanmean(dim=1).numpy(), nan=-1.0)
    return judged, int(means.argmax())


def _one(order: int, table: Array, rule: Rule) -> Found:
    rng = np.random.default_rng(order)
    columns = rng.permutation(table.shape[1])  # no rule may profit from the order of the models
    judged, named = rule(table[rng.permutation(len(table))][:, columns])
    return judged, int(columns[named])


def measure(
    pool: ProcessPoolExecutor, table: Array, rule: Rule, orders: int, tolerance: float = 0.0
) -> tuple[float, float, int]:
    """The mean share judged, its standard error, and how many orders ended with a wrong model."""
    found = list(pool.map(partial(_one, table=table, rule=rule), range(orders), chunksize=4))
    shares, means = np.array([judged for judged, _ in found]) / table.size, table.mean(axis=0)
    wrong = sum(means[named] < means.max() - tolerance - 1e-12 for _, named in found)
    return float(shares.mean()), float(shares.std() / np.sqrt(orders)), int(wrong)


def compare(
    pool: ProcessPoolExecutor, table: Array, orders: int, delta: float, *, banditeval: bool
) -> dict[str, tuple[float, float, int]]:
    """What `measure` says of every rule on a table."""
    found = {"all pairs": (1.0, 0.0, 0)}
    for tolerance in TOLERANCES:
        rule = partial(ours, delta=delta, tolerance=tolerance)
        label = f"`evaluate`, tolerance {tolerance:g}" if tolerance else "`evaluate`"
        found[label] = measure(pool, table, rule, orders, tolerance)
    found["`PairedTests`"] = measure(pool, table, partial(paired, delta=delta), orders)
    share, wrong = fixed_share(table, orders, delta)
    found["fixed sample"] = share, 0.0, wrong
    found["Wilcoxon pruner"] = measure(pool, table, wilcoxon_pruner, orders)
    budget = found["`evaluate`"][0] * table.size
    found["successive halving"] = measure(pool, table, partial(halving, budget=budget), orders)
    if banditeval:
        found["`banditeval`, UCB-E"] = measure(pool, table, partial(ucb_e, budget=budget), orders)
    return found


def fixed_share(table: Array, orders: int, delta: float) -> tuple[float, int]:
    """The smallest share of the items whose best mean is wrong in at most δ of the orders."""
    means = table.mean(axis=0)
    best = np.flatnonzero(means >= means.max() - 1e-12)
    wrong = np.zeros(len(table), dtype=int)
    for order in range(orders):
        rows = table[np.random.default_rng(order).permutation(len(table))]
        leaders = np.cumsum(rows, axis=0).argmax(axis=1)
        wrong += ~np.isin(leaders, best)
    above = np.flatnonzero(wrong > delta * orders)
    size = min(int(above[-1]) + 1, len(table) - 1) if len(above) else 0
    return (size + 1) / len(table), int(wrong[size])


def tables(options: argparse.Namespace) -> Iterator[tuple[str, Array]]:
    if options.scores is not None:
        with np.load(options.scores) as file:
            for name, table in file.items():
                yield NAMES.get(name, name), table.astype(np.float64)
    if options.alpaca is None:
        yield "AlpacaEval (synthetic)", alpaca_eval(models=10).judgements
        return
    with np.load(options.alpaca) as file:
        table = file["preference_ten_thousandths"] / 1e4
    for models in (10, 55):
        best = np.argsort(-table.mean(axis=0), kind="stable")[:models]
        yield f"AlpacaEval, {models}", table[:, best]


def crossing(orders: int, delta: float) -> None:
    """Two models on 600 items; after a share of them, each has the rate that it had later."""
    print("\n| the change comes after | GPT-4 named | GPT-3.5 named | judged |\n|--:|--:|--:|--:|")
    for changed in (0.0, 0.05, 0.1, 0.25, 0.5):
        named = np.zeros(2, dtype=int)
        judged = 0
        for order in range(orders):
            rng = np.random.default_rng(order)
            later = np.arange(600) >= changed * 600
            rates = np.where(later[:, None], (0.51, 0.76), (0.84, 0.50))
            made, model = ours(
                np.asarray(rng.random((600, 2)) < rates, dtype=np.float64),
                delta=delta,
                tolerance=0.0,
            )
            named[model] += 1
            judged += made
        cells = (*(named / orders), judged / orders / 1200)
        print(f"| {changed:.0%} of the items | " + " | ".join(f"{each:.1%}" for each in cells), "|")


def main() -> None:
    """Print a table of rules by tables of scores, or one of models that cross."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--scores", type=Path, help="tables of items × models, in an .npz file")
    parser.add_argument("--alpaca", help="judgements.npz; synthetic ones by default")
    parser.add_argument("--orders", type=int, default=200)
    parser.add_argument("--delta", type=float, default=0.05)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--banditeval", action="store_true", help="with the package's UCB-E")
    parser.add_argument("--crossing", action="store_true", help="only the models that cross")
    options = parser.parse_args()
    orders, delta = options.orders, options.delta
    if options.crossing:
        crossing(orders, delta)
        return
    names, rows = list[str](), dict[str, list[str]]()
    with ProcessPoolExecutor(options.workers) as pool:
        for name, table in tables(options):
            names.append(name)
            found = compare(pool, table, orders, delta, banditeval=options.banditeval)
            for label, (share, error, wrong) in found.items():
                half = f" ± {1.96 * error:.1%}" if error > 0.0003 else ""
                rows.setdefault(label, []).append(f"{share:.1%}{half} | {wrong}")
    print("| |", " | ".join(f"{name} | wrong" for name in names), "|")
    print("|---|" + "--:|--:|" * len(names))
    for label, cells in rows.items():
        print(f"| {label} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
