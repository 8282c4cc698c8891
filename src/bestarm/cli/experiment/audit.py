"""`bestarm experiment verify` and `replay`: is the record sound, and were the decisions right?"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from bestarm.cli.experiment.access import open_experiment
from bestarm.cli.experiment.recommend import recommendation_data, recommendation_words
from bestarm.cli.options import DEFAULT_STORE, AsJson, Name, StoreUrl
from bestarm.cli.reporting import print_json, printable, remark, reported
from bestarm.errors import ReplayError

if TYPE_CHECKING:
    from bestarm.live.replay import Remark

__all__ = ["replay", "verify"]


@reported
def verify(name: Name, store: StoreUrl = DEFAULT_STORE, json: AsJson = False) -> None:
    """Redo every draw and check the whole record: exit code 1 if it is not sound."""
    with open_experiment(store, name) as experiment:
        report = experiment.verify()
    if json:
        print_json({"experiment": name, "sound": report.sound, **asdict(report)})
    else:
        for line in f"{name}: {report}".split("\n"):
            typer.echo(printable(line))
    if not report.sound:
        raise typer.Exit(1)


@reported
def replay(name: Name, store: StoreUrl = DEFAULT_STORE, json: AsJson = False) -> None:
    """Replay an experiment with a fresh policy: exit code 1 if its decisions differ."""
    with open_experiment(store, name) as experiment:
        labels = experiment.problem.target_labels
        try:
            replayed = experiment.replay()
        except ReplayError as error:
            remark(str(error))
            if json:
                print_json({"experiment": name, "agrees": False, "error": str(error)})
            raise typer.Exit(1) from None
    recommendation, remarks = replayed.recommendation, replayed.remarks
    if json:
        data = recommendation_data(recommendation, labels)
        shown = [asdict(each) for each in remarks]
        print_json({"experiment": name, "agrees": True, **data, "remarks": shown})
    else:
        typer.echo(f"The replay agrees with the log.\n{recommendation_words(recommendation)}")
        for each in remarks:
            typer.echo(_remark_words(each))


def _remark_words(remark: Remark) -> str:
    would = (
        "would not be planned"
        if remark.planned is None
        else f"would be planned with {remark.planned:,} pulls and probabilities that differ by up "
        f"to {remark.difference:.2g}"
    )
    return f"Remark: phase {remark.phase} of {remark.pulls:,} pulls {would} here and now."
