"""Which of many models is best: judgements needed on prompts that come in random order.

    python -m benchmarks.evaluation [--data PATH] [--models 10 55] [--orders 1000] [--delta 0.05]
        [--workers 2] [--only NAME ...]

Judgements are those of AlpacaEval (`--data`: its annotations or a table of them; synthetic ones by
default). Every prompt is judged at most once per model. All rules see the same orders of the
prompts, and are told that judgements lie in [0, 1]; the first two also know how many prompts there
are:

* blocks: every prompt is judged for all models that are left;
* paired: every prompt is judged for all models until one beats each other one in a paired test;
* single: every prompt is judged for one model, drawn at random. Prompts come once, so it may run
  out of them undecided; everything is judged then, and is what its judgements are counted as.

A rule is wrong if it ends with a model that does not have the largest mean over all prompts.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from bestarm import AnytimeBAI, PairedTests, simulate
from bestarm.datasets import JudgementsData, alpaca_eval
from bestarm.policies import Method
from bestarm.simulation import Results
from bestarm.simulation.results import wilson

Rule = Callable[[JudgementsData], tuple[Method, dict[str, Any]]]


def _blocks(data: JudgementsData) -> tuple[Method, dict[str, Any]]:
    prompts, models = data.judgements.shape
    method = partial(AnytimeBAI, block=models, items=prompts, bounds=data.bounds)
    return method, {"block": models}


def _paired(data: JudgementsData) -> tuple[Method, dict[str, Any]]:
    prompts, models = data.judgements.shape
    return partial(PairedTests, items=prompts, bounds=data.bounds), {"block": models}


def _single(data: JudgementsData) -> tuple[Method, dict[str, Any]]:
    return partial(AnytimeBAI, bounds=data.bounds, max_pulls=len(data.judgements)), {}


RULES: dict[str, Rule] = {"blocks": _blocks, "paired": _paired, "single": _single}


def _judgements(results: Results, everything: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Judgements of every order; a rule that ran out of prompts undecided judges everything."""
    return np.where(results.final, results.pulls, everything)


def report(data: JudgementsData, name: str, results: Results) -> None:
    """One line: judgements needed, how often all were, and wrong answers with their interval."""
    everything = data.judgements.size
    judged = _judgements(results, everything)
    wrong = int(np.count_nonzero(results.final & ~results.correct))
    low, high = wilson(wrong, results.runs)
    error = 1.96 * judged.std() / np.sqrt(results.runs)
    ends = np.quantile(judged, [0.1, 0.5, 0.9])
    print(
        f"  {name:<8} {judged.mean():9,.0f} ± {error:<6,.0f} "
        f"({ends[0]:,.0f}, {ends[1]:,.0f}, {ends[2]:,.0f})  {judged.mean() / everything:6.1%} of "
        f"all  undecided {np.mean(~results.final):6.1%}  wrong {wrong} of {results.runs} "
        f"({low:.2%} to {high:.2%})",
        flush=True,
    )


def compare(data: JudgementsData, names: Sequence[str], options: argparse.Namespace) -> None:
    """Judgements needed by each of the rules on the same orders."""
    prompts, models = data.judgements.shape
    print(f"\nBest of {models} models on {prompts} prompts: {data.judgements.size:,} judgements")
    print("  rule       mean ± 95 %        (10 %, median, 90 %)", flush=True)
    for name in names:
        method, more = RULES[name](data)
        with ProcessPoolExecutor(options.workers) as pool:
            results = simulate(
                method,
                data.environment(**more),
                runs=options.orders,
                delta=options.delta,
                executor=pool if options.workers > 1 else None,
            )
        report(data, name, results)


def main() -> None:
    """Compare the rules."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", help="judgements of AlpacaEval; synthetic ones by default")
    parser.add_argument("--models", type=int, nargs="+", default=[10, 55], help="the best so many")
    parser.add_argument("--orders", type=int, default=1000)
    parser.add_argument("--delta", type=float, default=0.05)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=tuple(RULES), default=list(RULES))
    options = parser.parse_args()
    for models in options.models:
        data = alpaca_eval(options.data, models=models)
        if models == options.models[0]:
            print(data.source)
        compare(data, options.only, options)


if __name__ == "__main__":
    main()
