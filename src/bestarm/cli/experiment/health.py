"""`bestarm experiment health`: the health checks of an experiment."""

from __future__ import annotations

from bestarm.cli.experiment.access import open_experiment
from bestarm.cli.options import DEFAULT_STORE, AsJson, Name, StoreUrl
from bestarm.cli.reporting import print_checks, reported

__all__ = ["health"]


@reported
def health(name: Name, store: StoreUrl = DEFAULT_STORE, json: AsJson = False) -> None:
    """Run the health checks of an experiment: exit code 1 on an alarm."""
    with open_experiment(store, name) as experiment:
        checks = experiment.health()
    print_checks({"experiment": name}, checks, as_json=json)
