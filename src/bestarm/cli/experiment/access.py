"""Access to an experiment from the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from bestarm.cli.imports import modules_of_this_folder
from bestarm.errors import BestArmError, InvalidInputError

if TYPE_CHECKING:
    from bestarm.live import Experiment

__all__ = ["open_experiment"]


@contextmanager
def open_experiment(store: str, name: str) -> Iterator[Experiment]:
    """An experiment of a store; its policy may come from a module of the current folder.

    What a user's own policy raises becomes one of our errors.
    """
    from bestarm.live import Experiment

    experiment = None
    with modules_of_this_folder():
        try:
            with Experiment.open(store, name) as experiment:
                yield experiment
        except (BestArmError, OSError, typer.Exit):
            raise
        except Exception as error:
            made_of = None if experiment is None else experiment.spec
            if made_of is None or ":" not in made_of.policy:
                raise
            what = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(": .")
            raise InvalidInputError(
                f"The policy {made_of.policy!r} raised {what}.",
                field="policy",
                value=name,
                remedy="Recorded outcomes are kept: correct the policy and ask again.",
            ) from error
