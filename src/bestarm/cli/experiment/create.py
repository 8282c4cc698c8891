"""`bestarm experiment create`: an experiment from a TOML file, or from CSV files and options."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bestarm.cli.command import command, modules_of_folder
from bestarm.cli.experiment.command import read_pairs
from bestarm.cli.experiment.records import status_data
from bestarm.cli.files import UserFile
from bestarm.cli.output import Result
from bestarm.defaults import STORE
from bestarm.errors import InvalidInputError
from bestarm.units import read_amount

if TYPE_CHECKING:
    from bestarm.cli.features import FeatureTable
    from bestarm.live import Experiment

_TABLES, _SCALES = ("options", "target"), ("delta", "noise", "baseline")


@command
def create(
    name: str,
    source: Path | None = None,
    *,
    options: list[str] | None = None,
    bounds: tuple[float, float] | None = None,
    control: str | None = None,
    delta: float | None = None,
    problem: Path | None = None,
    target: Path | None = None,
    noise: float | None = None,
    baseline: float | None = None,
    policy: str | None = None,
    policy_option: list[str] | None = None,
    guardrail: list[str] | None = None,
    floor: list[str] | None = None,
    seed: int | None = None,
    lease: str | None = None,
    window: str | None = None,
    otherwise: float | None = None,
    description: str | None = None,
    forecaster: str | None = None,
    store: str = STORE,
    allow_module: list[str] | None = None,
) -> Result:
    """Create an experiment: from names, from CSV files of features, or from a small TOML file.

    Args:
        source ([SOURCE.csv]): Features of the options one can try, one row per option, labels in
            the first column; or a file of names alone.
        options (NAME...): The names of the options, instead of a file.
        control (NAME): The option that effects are measured against.
        problem (EXPERIMENT.toml): Read all of it from this file instead.
        delta: The error probability allowed; 0.05 if left out.
        policy (NAME): anytime if left out; your own as module:attribute.
        policy_option (KEY=VALUE): An option of the policy. Repeat it for more.
        floor (OPTION=SHARE): The least share of assignments that an option gets, like old=0.2.
            Repeat it for more.
        guardrail (NAME=JSON): A second outcome in which no option may be worse than the control by
            more than a margin, like 'refund={"bounds": [0, 1], "worse_by": 0.01, "alpha": 0.05,
            "action": "retire"}'. With "window": "14d", "otherwise": 0 only refunds need be told.
            Repeat it for more.
        seed: Fixes the draws; a random one, which is printed, if left out.
        lease (TIME): How long an outcome may take (90s, 30m, 12h, 2d) before it is lost; for ever
            if left out.
        window (TIME): How long after it is asked for an outcome counts (30m, 7d), with what was
            told last by then; when it is told if left out.
        otherwise (OUTCOME): The outcome where nothing was told within the window, like 0.
        description (TEXT): What it is about, in words.
        forecaster (NAME): default to subtract a forecast from every outcome, made before the option
            is drawn; own if every ask brings its own forecasts; none if left out.
        allow_module (MODULE): A module that the file may name a policy of: this runs its code.
    """
    from bestarm.live.spec import check_allowed

    policy_options = read_pairs(
        policy_option, "policy_option", _read_value, form="key=value", example="max_pulls=5000"
    )
    form, split = "option=share", str.rpartition  # the name of an option may have a sign =
    shares = read_pairs(floor, "floor", _read_share, form=form, example="old=0.2", split=split)
    if shares:
        policy_options["floors"] = shares
    example = """'refund={"bounds": [0, 1], "worse_by": 0.01}'"""
    guardrails = read_pairs(
        guardrail, "guardrail", json.loads, form="a name and JSON", example=example
    )
    stated: dict[str, Any] = {
        "options": _check_options(options, source),
        "target": target,
        "delta": delta,
        "noise": noise,
        "baseline": baseline,
        "bounds": bounds,
        "control": control,
        "policy": policy,
        "policy_options": policy_options or None,
        "guardrails": guardrails or None,
        "seed": seed,
        "lease": lease,
        "window": window,
        "otherwise": otherwise,
        "description": description,
        "forecaster": forecaster,
    }
    settings = {key: value for key, value in stated.items() if value is not None}
    if problem is not None:
        if settings:
            raise InvalidInputError(
                f"With --problem all is read from the file; {', '.join(settings)} cannot be given.",
                field="problem",
                value=sorted(settings),
                remedy="Write it into the file.",
            )
        settings = _from_toml(problem, list(stated))
        check_allowed(str(settings.get("policy")), allow_module or ())
    folder = Path() if problem is None else problem.parent
    own = ":" in str(settings.get("policy"))
    with modules_of_folder() if own else nullcontext():
        created = _create(store, name, settings, folder)
    with created:
        made, now = created.problem, status_data(created)
    policy = settings.get("policy", "anytime")
    words = [
        f"Created {name}: {made.targets} options, δ {made.delta:g}, policy {policy}, "
        f"seed {now['seed']}."
    ]
    if now["needs_lease"]:
        words.append(
            "Without bounds and without a lease, one outcome that never comes holds up the "
            "decision for ever: set one with `bestarm experiment lease`."
        )
    return Result({"experiment": name, "policy": policy, **now}, words)


def _check_options(names: list[str] | None, file: Path | None) -> list[str] | Path | None:
    """The options by name or in a file, but not both."""
    if file is not None and names:
        raise InvalidInputError(
            "There are options by name and in a file.",
            field="options",
            value=names,
            remedy="Leave one of them out.",
        )
    if names and len(names) == 1 and "," in names[0]:
        raise InvalidInputError(
            f"There is only one option, {names[0]!r}.",
            field="options",
            value=names,
            remedy="Separate names by spaces: --options old new.",
        )
    return names or file


def _create(store: str, name: str, settings: Mapping[str, Any], folder: Path) -> Experiment:
    from bestarm.cli.features import problem_parts
    from bestarm.live import Experiment
    from bestarm.live.spec import check_scale
    from bestarm.problem import problem_of

    if "options" not in settings:
        raise InvalidInputError(
            "There are no options to try.",
            field="options",
            remedy="Name them, like --options old new, or give a file of names or of features, or "
            "a TOML file with --problem.",
        )
    further = dict(settings)
    tables = [_features(further.pop(key), folder, key) for key in _TABLES if key in settings]
    stated = {key: further.pop(key) for key in _SCALES if key in settings}
    problem = problem_of(**problem_parts(*tables), **stated)
    known = {**further, **further.get("policy_options", {})}
    declared = not stated.keys().isdisjoint({"noise", "baseline"})
    check_scale(str(further.get("policy", "anytime")), known, declared=declared)
    return Experiment.create(store, name, problem, **further)


def _features(value: object, folder: Path, field: str) -> FeatureTable:
    """Features with labels: from a file, or as they stand in the TOML file."""
    from bestarm.cli.features import FeatureTable, read_table
    from bestarm.problem import one_hot

    match value:
        case str() | Path():
            return read_table(folder / value)
        case Mapping():
            return FeatureTable(list(value.values()), list(value))
        case [str(), *_] if all(isinstance(name, str) for name in value):
            return FeatureTable(one_hot(len(value)).tolist(), list(map(str, value)))
        case list():
            return FeatureTable(value, None)
    raise InvalidInputError(
        f"`{field}` must be a file, a list of names, or labels with features; got {value!r}.",
        field=field,
        value=value,
        remedy='For example options = ["old", "new"], options = "options.csv", or a table of rows '
        "like tea = [1, 0].",
    )


def _from_toml(path: Path, known: Sequence[str]) -> dict[str, Any]:
    from bestarm.checks import suggestion

    read = UserFile(path, "problem").toml()
    for key in read:
        if key not in known:
            raise InvalidInputError(
                f"{str(path)!r} has {key!r}, which is not known.",
                field="problem",
                value=key,
                remedy=suggestion(key, known) or f"Known are {', '.join(known)}.",
            )
    for key, kind, word, example in (
        ("policy_options", dict, "a table", "[policy_options]"),
        ("guardrails", dict, "a table", "[guardrails.refund]"),
        ("description", str, "a text", 'description = "Which page?"'),
    ):
        if key in read and not isinstance(read[key], kind):
            raise InvalidInputError(
                f"`{key}` must be {word}; got {read[key]!r}.",
                field=key,
                value=read[key],
                remedy=f"For example {example}.",
            )
    return read


def _read_share(text: str) -> float:
    share = read_amount(text)
    if share is None:
        raise ValueError
    return float(share)


def _read_value(text: str) -> Any:
    """A value as Python spells it, or words without quotes."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
