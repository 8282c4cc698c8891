"""Files of judgements of many models on the same prompts, recognised by their contents."""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bestarm.datasets.files import read_archive, refuse
from bestarm.numerics.geometry import Array

_HOME = "https://github.com/tatsu-lab/alpaca_eval"
_FILE = "annotations.json"
_JUDGE = "weighted_alpaca_eval_gpt4_turbo"  # of AlpacaEval 2; its folder is below each model's
_FIELDS = ("instruction", "generator_2", "preference")
_ARRAYS = ("preference_ten_thousandths", "models")
_UNIT = 10_000

Judged = dict[str, dict[tuple[str, int], float]]  # by model, then by prompt


@dataclass(frozen=True, eq=False)
class Table:
    """Judgements in [0, 1], one row per prompt, one column per model; NaN where there is none."""

    models: tuple[str, ...]
    judgements: Array


def read_judgements(path: Path) -> Table:
    """Read all judgements of a file or of a folder of annotations.

    Raises:
        InvalidInputError: there is no such file, or it is not of a known kind, or something in it
            is not a judgement; names the place and the value.
    """
    if path.is_dir():
        return _from_folder(path)
    try:
        with path.open("rb") as file:
            head = file.read(64)
    except OSError as error:
        refuse(
            path,
            f"cannot be read ({error.strerror or error}).",
            str(path),
            f"{_HOME} has the judgements, for use that is not commercial, with citation.",
        )
    if head.startswith(b"PK"):
        table = _from_arrays(path)
    elif head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"[", b"{")):
        table = _from_annotations([path])
    else:
        table = _from_text(path)
    return _checked(path, table)


def _from_folder(path: Path) -> Table:
    """The annotations below a folder: those by the judge of AlpacaEval 2, if there are any."""
    files = sorted(path.rglob(_FILE))
    files = [file for file in files if file.parent.name == _JUDGE] or files
    if not files:
        refuse(path, f"has no file {_FILE} in it.", str(path), f"{_HOME} has one per model.")
    return _checked(path, _from_annotations(files))


def _checked(path: Path, table: Table) -> Table:
    twice = [model for model, times in Counter(table.models).items() if times > 1]
    if twice:
        refuse(path, f"has two columns for the model {twice[0]!r}.", twice[0])
    if len(table.models) < 2 or not len(table.judgements):
        found = f"{len(table.judgements)} prompt(s) of {len(table.models)} model(s)"
        refuse(path, f"holds judgements on {found}.", table.judgements.shape, "Two models compare.")
    for row, column in np.argwhere((table.judgements < 0) | (table.judgements > 1))[:1]:
        value = float(table.judgements[row, column])
        where = f"row {row}, model {table.models[column]!r}"
        refuse(path, f"holds {value:g} in {where}, outside [0, 1].", value)
    return table


def _from_arrays(path: Path) -> Table:
    """A NumPy archive: whole numbers, one row per prompt and one column per model."""
    names, arrays = read_archive(path, _ARRAYS)
    if len(arrays) < len(_ARRAYS):
        refuse(
            path,
            f"is an archive of {', '.join(names) or 'nothing'}.",
            names,
            f"It must have the arrays {' and '.join(_ARRAYS)}.",
        )
    values, models = (arrays[name] for name in _ARRAYS)
    if values.ndim != 2 or values.dtype.kind not in "iu" or models.shape != values.shape[1:]:
        refuse(
            path,
            f"holds judgements of shape {values.shape} for models of shape {models.shape}.",
            values.shape,
            "It must have whole numbers, one row per prompt and one column per model.",
        )
    return Table(tuple(map(str, models)), values / _UNIT)


def _from_text(path: Path) -> Table:
    """A table with the models' names above; its first column may name or number the prompts."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = [row for row in csv.reader(file) if any(field.strip() for field in row)]
    except (UnicodeDecodeError, csv.Error):
        refuse(path, "is neither text nor a NumPy archive.", str(path), f"{_HOME} has the data.")
    if len(rows) < 2:
        refuse(path, "holds no judgements.", str(path), "Give one row per prompt, below a header.")
    header, body = rows[0], rows[1:]
    for place, row in enumerate(body, 1):
        if len(row) != len(header):
            refuse(
                path,
                f"has {len(row)} field(s) in prompt {place}, where {len(header)} belong.",
                len(row),
            )
    named = not header[0].strip() or any(row[0].strip() and _number(row[0]) is None for row in body)
    models = tuple(name.strip() for name in header[named:])
    if "" in models:
        refuse(path, "has a column without the name of a model.", header)
    values = np.array([[_cell(path, field, i) for field in row[named:]] for i, row in
                       enumerate(body, 1)])  # fmt: skip
    return Table(models, values)


def _cell(path: Path, field: str, place: int) -> float:
    """A judgement, or NaN for an empty field."""
    value = _number(field) if field.strip() else math.nan
    if value is None:
        refuse(path, f"has {field!r} in prompt {place}, where a judgement belongs.", field)
    return value


def _number(field: str) -> float | None:
    try:
        return float(field)
    except ValueError:
        return None


def _from_annotations(files: Iterable[Path]) -> Table:
    """Annotations of the public repository, of one or several models each."""
    judged: Judged = {}
    source: dict[str, Path] = {}
    for file in files:
        found = _annotations(file)
        for model in found.keys() & judged.keys():
            refuse(
                file,
                f"holds judgements of {model!r}, and so does {str(source[model])!r}.",
                model,
                "Give a folder with one file per model.",
            )
        judged |= found
        source |= dict.fromkeys(found, file)
    prompts = list(dict.fromkeys(prompt for found in judged.values() for prompt in found))
    values = [[found.get(prompt, math.nan) for found in judged.values()] for prompt in prompts]
    return Table(tuple(judged), np.array(values).reshape(len(prompts), len(judged)))


def _annotations(path: Path) -> Judged:
    """The judgements of a file, by model and prompt; a prompt that comes twice counts as two."""
    try:
        entries = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        refuse(path, f"is cut short or damaged ({error}).", str(path), "Get it again.")
    if not isinstance(entries, list):
        refuse(path, "is not a list of annotations.", type(entries).__name__)
    judged: Judged = {}
    times: Counter[tuple[str, str]] = Counter()
    for place, entry in enumerate(entries):
        if not isinstance(entry, dict) or not all(name in entry for name in _FIELDS):
            refuse(
                path,
                f"has an annotation without {', '.join(_FIELDS)} at place {place}.",
                place,
            )
        prompt, model = str(entry["instruction"]), str(entry["generator_2"])
        own = judged.setdefault(model, {})
        value = _preference(path, entry["preference"], place)
        own[prompt, times[model, prompt]] = value
        times[model, prompt] += 1
    return judged


def _preference(path: Path, value: object, place: int) -> float:
    """From 1 (the reference's answer is preferred) to 2 (the model's), less 1; NaN for none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return math.nan
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 1 <= value <= 2:
        refuse(path, f"has the preference {value!r} at place {place}, outside [1, 2].", value)
    return value - 1
