"""`bestarm experiment recommend`: the best option as far as is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from bestarm.cli.experiment.access import open_experiment
from bestarm.cli.options import DEFAULT_STORE, AsJson, Name, StoreUrl
from bestarm.cli.reporting import print_json, printable, reported

if TYPE_CHECKING:
    from bestarm.records import Recommendation

__all__ = ["recommend", "recommendation_data", "recommendation_words"]


@reported
def recommend(name: Name, store: StoreUrl = DEFAULT_STORE, json: AsJson = False) -> None:
    """Name the best option as far as is known, what may be claimed, and under which assumptions."""
    with open_experiment(store, name) as experiment:
        now, labels = experiment.recommendation(), experiment.problem.target_labels
    if json:
        print_json({"experiment": name, **recommendation_data(now, labels)})
    else:
        typer.echo(recommendation_words(now))


def recommendation_data(now: Recommendation, labels: Sequence[str]) -> dict[str, Any]:
    """A recommendation as JSON has it."""
    return {
        "target": now.target,
        "label": now.label,
        "chosen": [labels[target] for target in now.chosen],
        "final": now.final,
        "reason": now.reason,
        "pulls": now.pulls,
        "claims": now.claims,
        "error_bound": now.error_bound,
        "contradicted": now.contradicted,
        "active": [labels[target] for target in now.active],
        "statement": now.statement,
        "assumptions": list(now.assumptions),
    }


def recommendation_words(now: Recommendation) -> str:
    """A recommendation with its assumptions."""
    lines = [f"{now}."]
    if now.statement:
        lines.append(now.statement)
    if now.assumptions:
        lines += ["This rests on:", *(f"- {each}" for each in now.assumptions)]
    return "\n".join(map(printable, lines))
