"""`bestarm experiment create`: a trial from a TOML file, or from CSV files and options."""

from __future__ import annotations

import ast
import os
import sys
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import typer

from bestarm.cli.files import read_table
from bestarm.cli.reporting import print_json
from bestarm.errors import InvalidInputError
from bestarm.live import Experiment
from bestarm.problem import Problem, one_hot

__all__ = ["run_create"]

_KEYS = (
    *("source", "target", "delta", "noise", "baseline", "bounds", "policy", "options", "seed"),
    *("lease", "description"),
)
Features = tuple[object, list[str] | None]


def run_create(
    name: str, file: Path | None, given: Mapping[str, Any], *, store: str, as_json: bool
) -> None:
    """Begin a trial, and print what it is."""
    said = {key: value for key, value in given.items() if value is not None}
    if file is not None:
        if said:
            raise InvalidInputError(
                f"With --problem all is read from the file; {', '.join(said)} cannot be given.",
                field="problem",
                value=sorted(said),
                remedy="Write it into the file.",
            )
        said = _from_toml(file)
        folder = file.parent
    else:
        folder = Path()
        said["options"] = _read_options(said.get("options", []))
    if "source" not in said:
        raise InvalidInputError(
            "There are no arms.",
            field="source",
            remedy="Name a file of names or of features, or a TOML file with --problem.",
        )
    experiment = _create(store, name, said, folder)
    with experiment:
        problem, seed, lease = experiment.problem, experiment.seed, experiment.lease
        status = experiment.status()
    policy = said.get("policy", "anytime")
    if as_json:
        print_json(
            {
                "experiment": name,
                "state": status.state,
                "policy": policy,
                "arms": list(problem.source_labels),
                "targets": list(problem.target_labels),
                "delta": problem.delta,
                "seed": seed,
                "lease": lease,
                "needs_lease": status.needs_lease,
            }
        )
    else:
        typer.echo(
            f"{name} has begun: {problem.arms} arms, {problem.targets} targets, δ {problem.delta:g}"
            f", policy {policy}, seed {seed}."
        )
    if status.needs_lease and not as_json:
        typer.echo(
            "Without bounds and without a lease, one outcome that is never told holds up the "
            "decision for ever: set one with `bestarm experiment lease`."
        )


def _create(store: str, name: str, said: Mapping[str, Any], folder: Path) -> Experiment:
    arms, labels = _features(said["source"], folder, "source")
    target, target_labels = None, None
    if "target" in said:
        target, target_labels = _features(said["target"], folder, "target")
    scales = {key: said[key] for key in ("delta", "noise", "baseline") if key in said}
    problem = Problem(
        arms,
        target,
        source_labels=labels,
        target_labels=target_labels,
        **scales,
    )
    options = dict(said.get("options", {}))
    if "bounds" in said:
        options["bounds"] = said["bounds"]
    known = ("policy", "seed", "lease", "description")
    further = {key: said[key] for key in known if key in said}
    here = os.getcwd()
    sys.path.insert(0, here)  # one's own policy may be there
    try:
        return Experiment.create(store, name, problem, options=options, **further)
    finally:
        sys.path.remove(here)


def _features(value: object, folder: Path, field: str) -> Features:
    """Features with labels: from a file, or as they stand in the TOML file."""
    if isinstance(value, (str, Path)):
        table = read_table(folder / value)
        return table.features, table.labels
    if isinstance(value, Mapping):
        return list(value.values()), list(value)
    if isinstance(value, list):
        if value and all(isinstance(name, str) for name in value):
            return one_hot(len(value)), value
        return value, None
    raise InvalidInputError(
        f"`{field}` must be a file, a list of names, or labels with features; got {value!r}.",
        field=field,
        value=value,
        remedy='For example source = "arms.csv", source = ["old", "new"], or a table of rows like '
        "tea = [1, 0].",
    )


def _from_toml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            read = tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInputError(
            f"{str(path)!r} is no TOML file ({str(error).rstrip('.')}).",
            field="problem",
            value=str(path),
        ) from None
    for key in read:
        if key not in _KEYS:
            near = get_close_matches(key, _KEYS, n=1)
            raise InvalidInputError(
                f"{str(path)!r} has {key!r}, which is not known; known are {', '.join(_KEYS)}.",
                field="problem",
                value=key,
                remedy=f"Did you mean {near[0]}?" if near else "",
            )
    for key, kind, word in (("options", dict, "a table"), ("description", str, "a text")):
        if key in read and not isinstance(read[key], kind):
            raise InvalidInputError(
                f"`{key}` must be {word}; got {read[key]!r}.", field=key, value=read[key]
            )
    return read


def _read_options(pairs: list[str]) -> dict[str, Any]:
    """Options of the policy: values as Python has them, and words without quotes."""
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip().isidentifier() or key.strip() in options:
            raise InvalidInputError(
                f"`option` must be key=value, each key once; got {pair!r}.",
                field="option",
                value=pair,
                remedy="For example --option max_pulls=5000.",
            )
        try:
            options[key.strip()] = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            options[key.strip()] = value.strip()
    return options
