"""What an experiment has on record, in plain values."""

from __future__ import annotations

from bestarm.live import Assignment, Experiment

__all__ = ["given_out", "told"]

_COLUMNS = ("id", "arm", "label", "probability", "phase", "round")


def given_out(experiment: Experiment) -> list[Assignment]:
    frame = experiment.assignments()
    columns = (frame[name].tolist() for name in _COLUMNS)
    return [Assignment(*row) for row in zip(*columns, strict=True)]


def told(experiment: Experiment) -> dict[int, float]:
    frame = experiment.outcomes()
    return dict(zip(frame["id"].tolist(), frame["reward"].tolist(), strict=True))
