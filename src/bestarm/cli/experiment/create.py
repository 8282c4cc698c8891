"""`bestarm experiment create`: an experiment from a TOML file, or from CSV files and options."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bestarm.cli.imports import modules_of_this_folder
from bestarm.cli.options import DEFAULT_STORE, AsJson, Name, StoreUrl, decimal, whole
from bestarm.cli.reporting import print_json, reported
from bestarm.defaults import DELTA
from bestarm.errors import InvalidInputError

if TYPE_CHECKING:
    from bestarm.live import Experiment

__all__ = ["create"]

_KEYS = (
    *("source", "target", "delta", "noise", "baseline", "bounds", "policy", "options", "seed"),
    *("lease", "description"),
)
Features = tuple[object, list[str] | None]


@reported
def create(
    name: Name,
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="[SOURCE.csv]",
            help="Features of the options one can try, one row per option, labels in the first "
            "column; or names alone.",
        ),
    ] = None,
    problem: Annotated[
        Path | None,
        typer.Option(metavar="EXPERIMENT.toml", help="Read all of it from this file instead."),
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option(
            metavar="TARGET.csv",
            help="Features of the options to choose among; the source when left out.",
        ),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(parser=decimal, help=f"The error probability allowed; {DELTA:g} if left out."),
    ] = None,
    noise: Annotated[
        float | None,
        typer.Option(parser=decimal, help="The scale of the noise; 1 if left out."),
    ] = None,
    baseline: Annotated[
        float | None,
        typer.Option(parser=decimal, help="A bound on the baseline's size; 1 if left out."),
    ] = None,
    bounds: Annotated[
        tuple[float, float] | None,
        typer.Option(
            parser=decimal,
            metavar="LOW HIGH",
            help="The lowest and the highest reward, for policies that use them.",
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="anytime if left out; your own as module:attribute."),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="An option of the policy. Repeat it for more."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            parser=whole, help="Fixes the draws; a random one, which is printed, if left out."
        ),
    ] = None,
    lease: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="How long an outcome may take (90s, 30m, 12h, 2d) before it is lost; for ever if "
            "left out.",
        ),
    ] = None,
    description: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What it is about, in words.")
    ] = None,
    store: StoreUrl = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Create an experiment, from a small TOML file or from CSV files of features with labels."""
    asked: dict[str, Any] = {
        "source": source,
        "target": target,
        "delta": delta,
        "noise": noise,
        "baseline": baseline,
        "bounds": bounds,
        "policy": policy,
        "options": option or None,
        "seed": seed,
        "lease": lease,
        "description": description,
    }
    settings = _settings(problem, {key: value for key, value in asked.items() if value is not None})
    with _create(store, name, settings, Path() if problem is None else problem.parent) as created:
        _print(created, settings.get("policy", "anytime"), as_json=json)


def _settings(file: Path | None, asked: dict[str, Any]) -> dict[str, Any]:
    """What to create: from the file, or from the options of the command."""
    if file is None:
        settings = asked | {"options": _read_options(asked.get("options", []))}
    elif asked:
        raise InvalidInputError(
            f"With --problem all is read from the file; {', '.join(asked)} cannot be given.",
            field="problem",
            value=sorted(asked),
            remedy="Write it into the file.",
        )
    else:
        settings = _from_toml(file)
    if "source" not in settings:
        raise InvalidInputError(
            "There are no options to try.",
            field="source",
            remedy="Name a file of names or of features, or a TOML file with --problem.",
        )
    return settings


def _print(experiment: Experiment, policy: str, *, as_json: bool) -> None:
    name, problem, seed = experiment.name, experiment.problem, experiment.seed
    status = experiment.status()
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
                "lease": experiment.lease,
                "needs_lease": status.needs_lease,
            }
        )
        return
    typer.echo(
        f"Created {name}: {problem.targets} options, δ {problem.delta:g}, policy {policy}, "
        f"seed {seed}."
    )
    if status.needs_lease:
        typer.echo(
            "Without bounds and without a lease, one outcome that never comes holds up the "
            "decision for ever: set one with `bestarm experiment lease`."
        )


def _create(store: str, name: str, settings: Mapping[str, Any], folder: Path) -> Experiment:
    from bestarm.live import Experiment
    from bestarm.problem import Problem

    arms, labels = _features(settings["source"], folder, "source")
    target, target_labels = None, None
    if "target" in settings:
        target, target_labels = _features(settings["target"], folder, "target")
    scales = {key: settings[key] for key in ("delta", "noise", "baseline") if key in settings}
    problem = Problem(
        arms,
        target,
        source_labels=labels,
        target_labels=target_labels,
        **scales,
    )
    options = dict(settings.get("options", {}))
    if "bounds" in settings:
        options["bounds"] = settings["bounds"]
    known = ("policy", "seed", "lease", "description")
    further = {key: settings[key] for key in known if key in settings}
    with modules_of_this_folder():
        return Experiment.create(store, name, problem, options=options, **further)


def _features(value: object, folder: Path, field: str) -> Features:
    """Features with labels: from a file, or as they stand in the TOML file."""
    from bestarm.cli.features import read_table
    from bestarm.problem import one_hot

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
    from bestarm.checks import suggestion

    try:
        with path.open("rb") as file:
            read = tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInputError(
            f"{str(path)!r} is not a TOML file ({str(error).rstrip('.')}).",
            field="problem",
            value=str(path),
        ) from None
    for key in read:
        if key not in _KEYS:
            raise InvalidInputError(
                f"{str(path)!r} has {key!r}, which is not known; known are {', '.join(_KEYS)}.",
                field="problem",
                value=key,
                remedy=suggestion(key, _KEYS),
            )
    for key, kind, word in (("options", dict, "a table"), ("description", str, "a text")):
        if key in read and not isinstance(read[key], kind):
            raise InvalidInputError(
                f"`{key}` must be {word}; got {read[key]!r}.", field=key, value=read[key]
            )
    return read


def _read_options(pairs: list[str]) -> dict[str, Any]:
    """Options of the policy: values as Python spells them, or words without quotes."""
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
