"""`bestarm experiment pause`, `resume`, `expire`, `lease` and `stop`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bestarm.cli.experiment.command import Result, on_experiment

if TYPE_CHECKING:
    from bestarm.live import Experiment


@on_experiment
def pause(experiment: Experiment) -> Result:
    """Make no assignments until `resume`; outcomes are still recorded."""
    experiment.pause()
    return _state(experiment)


@on_experiment
def resume(experiment: Experiment) -> Result:
    """Continue after `pause`."""
    experiment.resume()
    return _state(experiment)


@on_experiment
def stop(experiment: Experiment, *, reason: str = "") -> Result:
    """End an experiment for good; outcomes that come later are kept and flagged.

    Args:
        reason (TEXT): The reason, in words.
    """
    experiment.stop(reason)
    return _state(experiment)


def _state(experiment: Experiment) -> Result:
    return Result({"state": experiment.state}, [f"{experiment.name} is {experiment.state}."])


@on_experiment
def expire(experiment: Experiment) -> Result:
    """Settle assignments whose lease or window has ended, as asking and telling does too."""
    any_ended = experiment.expire()
    now = experiment.status()
    words = f"{experiment.name}: {now}." if any_ended else "No lease or window has ended."
    return Result({"state": now.state, "expired": any_ended}, [words])


@on_experiment
def lease(experiment: Experiment, length: str) -> Result:
    """Change how long outcomes may take from now on; what is lost stays lost.

    Args:
        length (TIME): 90s, 30m, 12h or 2d; none to wait for ever.
    """
    experiment.change_lease(None if length == "none" else length)
    state, seconds = experiment.state, experiment.lease
    takes = "any time" if seconds is None else f"{seconds:g} seconds"
    words = f"Outcomes of {experiment.name} may take {takes} from now on."
    return Result({"state": state, "lease": seconds}, [words])
