"""AlpacaEval: judgements of many models on the same prompts (Dubois et al. 2024)."""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from bestarm.checks import suggestion, whole
from bestarm.datasets.files import as_number, read_archive, read_head, reject
from bestarm.datasets.synthetic import MODELS, PROMPTS, synthetic_judgements
from bestarm.environments import Ratings
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array, ranked

_HOME = "https://github.com/tatsu-lab/alpaca_eval"
_FILE = "annotations.json"
_JUDGE = "weighted_alpaca_eval_gpt4_turbo"  # of AlpacaEval 2; its folder is below each model's
_FIELDS = ("instruction", "generator_2", "preference")
_ARRAYS = ("preference_ten_thousandths", "models")
_UNIT = 10_000

_Judged = dict[str, dict[tuple[str, int], float]]  # by model, then by prompt


@dataclass(frozen=True, eq=False, repr=False)
class JudgementsData:
    """Judgements of models on prompts that all of them answered, and where they come from.

    Attributes:
        judgements: prompts × models, in [0, 1], read-only: how much the model's answer is
            preferred to the reference's.
        models: the models' names, in the order of the columns.
        source: what data it is, in a sentence.
        synthetic: whether the judgements are made up.
        name: what its environment is called.
        bounds: between which all judgements lie.
    """

    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)

    judgements: Array
    models: tuple[str, ...]
    source: str
    synthetic: bool
    name: str

    def environment(self, **options: Any) -> Ratings:
        """The world in which a round gives the next prompt, in random order, to models.

        Every prompt comes at most once. Options are those of `Ratings`.
        """
        usual = {"replacement": False, "declared_noise": 0.5}
        return Ratings(self.judgements, None, self.models, name=self.name, **usual | options)

    def __repr__(self) -> str:
        prompts, models = self.judgements.shape
        kind = ", synthetic" if self.synthetic else ""
        return f"JudgementsData({self.name!r}, {prompts} prompts, {models} models{kind})"


def alpaca_eval(
    path: str | Path | None = None, *, models: int | Sequence[str] | None = None
) -> JudgementsData:
    """Judgements of models on the prompts that were judged for all of them.

    A path is recognised by its contents: a folder, with any number of `annotations.json` of the
    public repository tatsu-lab/alpaca_eval below it (where there are several judges, those of
    AlpacaEval 2 count, in folders `weighted_alpaca_eval_gpt4_turbo`), or one such file; a table as
    CSV, one row per prompt and one column per model, judgements in [0, 1], empty where there is
    none; or a NumPy archive of such a table, `preference_ten_thousandths` and `models`. The public
    judgements are under CC BY-NC 4.0.

    Args:
        path: the file or folder; without one, synthetic judgements of 55 models on 797 prompts,
            with means, spread and correlations like the real ones.
        models: their names, or how many to keep: those with the largest means. All by default.

    Raises:
        InvalidInputError: an argument is invalid, or a file is absent, damaged or holds a value
            that is not a judgement; or no prompt was judged for all of the models.

    Example:
        >>> from bestarm.datasets import alpaca_eval
        >>> data = alpaca_eval(models=10)
        >>> data
        JudgementsData('alpaca_eval (synthetic)', 797 prompts, 10 models, synthetic)
        >>> data.environment().problem(0.05).source_labels[0]
        'model 1'

    Reference: Li et al. (2023), AlpacaEval; Dubois, Galambosi, Liang and Hashimoto (2024).
    """
    table = _Table(MODELS, synthetic_judgements()) if path is None else _read_judgements(Path(path))
    synthetic = path is None
    columns = _columns(table, models)
    chosen = tuple(table.models[column] for column in columns)
    judgements = table.judgements[:, columns]
    complete = judgements[~np.isnan(judgements).any(axis=1)]
    if not len(complete):
        judged = (~np.isnan(judgements)).sum(axis=0)
        least = int(judged.argmin())
        raise InvalidInputError(
            f"No prompt was judged for all of {len(chosen)} models.",
            field="models",
            value=chosen,
            remedy=f"{chosen[least]!r} has the fewest judgements, {judged[least]}: leave it out.",
        )
    complete = np.ascontiguousarray(complete)
    complete.flags.writeable = False
    return JudgementsData(
        judgements=complete,
        models=chosen,
        source=_sentence(synthetic, len(complete), len(judgements), len(chosen)),
        synthetic=synthetic,
        name="alpaca_eval (synthetic)" if synthetic else "alpaca_eval",
    )


def _columns(table: _Table, models: int | Sequence[str] | None) -> list[int]:
    """The columns of the chosen models."""
    if models is None:
        return list(range(len(table.models)))
    if isinstance(models, (int, np.integer)):
        number = whole(models, "models", least=2, below=len(table.models) + 1)
        judged = ~np.isnan(table.judgements)
        sums = np.where(judged, table.judgements, 0.0).sum(axis=0)
        means = sums / np.maximum(judged.sum(axis=0), 1)
        return [int(column) for column in ranked(means)[:number]]
    names = [] if isinstance(models, str) else list(models)
    if len(names) < 2 or len(set(names)) < len(names):
        raise InvalidInputError(
            f"`models` must be a number or list at least two different models; got {models!r}.",
            field="models",
            value=models,
        )
    for name in names:
        if name not in table.models:
            raise InvalidInputError(
                f"`models` asks for {name!r}, which was not judged.",
                field="models",
                value=name,
                remedy=suggestion(str(name), table.models)
                or f"There are {len(table.models)} models, of which {table.models[0]!r} is one.",
            )
    return [table.models.index(name) for name in names]


def _sentence(synthetic: bool, kept: int, prompts: int, models: int) -> str:
    if synthetic:
        return (
            f"Synthetic: made-up judgements of {models} models on {PROMPTS} prompts, drawn from a "
            "model with the means, the spread and the correlations of judgements of AlpacaEval 2, "
            "not real ones."
        )
    among = "" if kept == prompts else f" of {prompts:,}"
    return f"AlpacaEval: {kept:,}{among} prompts were judged for all of {models} models."


@dataclass(frozen=True, eq=False)
class _Table:
    """Judgements in [0, 1], one row per prompt, one column per model; NaN where there is none."""

    models: tuple[str, ...]
    judgements: Array


def _read_judgements(path: Path) -> _Table:
    """Read all judgements of a file or of a folder of annotations."""
    if path.is_dir():
        files = sorted(path.rglob(_FILE))
        if not files:
            reject(path, f"has no file {_FILE} in it.", str(path), f"{_HOME} has one per model.")
        table = _from_annotations([file for file in files if file.parent.name == _JUDGE] or files)
    else:
        terms = "for use that is not commercial, with citation"
        head = read_head(path, 64, f"{_HOME} has the judgements, {terms}.")
        if head.startswith(b"PK"):
            table = _from_arrays(path)
        elif head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"[", b"{")):
            table = _from_annotations([path])
        else:
            table = _from_text(path)
    twice = [model for model, times in Counter(table.models).items() if times > 1]
    if twice:
        reject(path, f"has two columns for the model {twice[0]!r}.", twice[0])
    if len(table.models) < 2 or not len(table.judgements):
        found = f"{len(table.judgements)} prompt(s) of {len(table.models)} model(s)"
        reject(path, f"holds judgements on {found}.", table.judgements.shape, "Two models compare.")
    for row, column in np.argwhere((table.judgements < 0) | (table.judgements > 1))[:1]:
        value = float(table.judgements[row, column])
        where = f"row {row}, model {table.models[column]!r}"
        reject(path, f"holds {value:g} in {where}, outside [0, 1].", value)
    return table


def _from_arrays(path: Path) -> _Table:
    """A NumPy archive: whole numbers, one row per prompt and one column per model."""
    names, arrays = read_archive(path, _ARRAYS)
    if len(arrays) < len(_ARRAYS):
        reject(
            path,
            f"is an archive of {', '.join(names) or 'nothing'}.",
            names,
            f"It must have the arrays {' and '.join(_ARRAYS)}.",
        )
    values, models = (arrays[name] for name in _ARRAYS)
    if values.ndim != 2 or values.dtype.kind not in "iu" or models.shape != values.shape[1:]:
        reject(
            path,
            f"holds judgements of shape {values.shape} for models of shape {models.shape}.",
            values.shape,
            "It must have whole numbers, one row per prompt and one column per model.",
        )
    return _Table(tuple(map(str, models)), values / _UNIT)


def _from_text(path: Path) -> _Table:
    """A table with the models' names above; its first column may name or number the prompts."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = [row for row in csv.reader(file) if any(field.strip() for field in row)]
    except (UnicodeDecodeError, csv.Error):
        reject(path, "is neither text nor a NumPy archive.", str(path), f"{_HOME} has the data.")
    if len(rows) < 2:
        reject(path, "holds no judgements.", str(path), "Give one row per prompt, below a header.")
    header, body = rows[0], rows[1:]
    for place, row in enumerate(body, 1):
        if len(row) != len(header):
            reject(
                path,
                f"has {len(row)} field(s) in prompt {place}, where {len(header)} belong.",
                len(row),
            )
    named = not header[0].strip() or any(
        row[0].strip() and as_number(row[0]) is None for row in body
    )
    models = tuple(name.strip() for name in header[named:])
    if "" in models:
        reject(path, "has a column without the name of a model.", header)
    judgements = np.full((len(body), len(models)), math.nan)
    for place, row in enumerate(body):
        for column, field in enumerate(row[named:]):
            value = as_number(field) if field.strip() else math.nan
            if value is None:
                what = f"has {field!r} in prompt {place + 1}, where a judgement belongs."
                reject(path, what, field)
            judgements[place, column] = value
    return _Table(models, judgements)


def _from_annotations(files: Iterable[Path]) -> _Table:
    """Annotations of the public repository, of one or several models each."""
    judged: _Judged = {}
    source: dict[str, Path] = {}
    for file in files:
        found = _annotations(file)
        for model in found.keys() & judged.keys():
            reject(
                file,
                f"holds judgements of {model!r}, and so does {str(source[model])!r}.",
                model,
                "Give a folder with one file per model.",
            )
        judged |= found
        source |= dict.fromkeys(found, file)
    prompts = list(dict.fromkeys(prompt for found in judged.values() for prompt in found))
    values = [[found.get(prompt, math.nan) for found in judged.values()] for prompt in prompts]
    return _Table(tuple(judged), np.array(values).reshape(len(prompts), len(judged)))


def _annotations(path: Path) -> _Judged:
    """The judgements of a file, by model and prompt; a prompt that comes twice counts as two."""
    try:
        entries = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        reject(path, f"is cut short or damaged ({error}).", str(path), "Get it again.")
    if not isinstance(entries, list):
        reject(path, "is not a list of annotations.", type(entries).__name__)
    judged: _Judged = {}
    times: Counter[tuple[str, str]] = Counter()
    for place, entry in enumerate(entries):
        if not isinstance(entry, dict) or not all(name in entry for name in _FIELDS):
            names = ", ".join(_FIELDS)
            reject(path, f"has an annotation without {names} at place {place}.", place)
        prompt, model, value = (entry[name] for name in _FIELDS)
        prompt, model = str(prompt), str(model)
        own = judged.setdefault(model, {})
        own[prompt, times[model, prompt]] = _preference(path, value, place)
        times[model, prompt] += 1
    return judged


def _preference(path: Path, value: object, place: int) -> float:
    """From 1 (the reference's answer is preferred) to 2 (the model's), less 1; NaN for none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return math.nan
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 1 <= value <= 2:
        reject(path, f"has the preference {value!r} at place {place}, outside [1, 2].", value)
    return value - 1
