"""AlpacaEval: judgements of many models on the same prompts (Dubois et al. 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from bestarm.checks import suggestion, whole
from bestarm.datasets.judgements import Table, read_judgements
from bestarm.datasets.synthetic_judgements import MODELS, PROMPTS, synthetic_judgements
from bestarm.environments import Ratings
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array, ranked


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
    table = _made_up() if path is None else read_judgements(Path(path))
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


def _made_up() -> Table:
    return Table(MODELS, synthetic_judgements())


def _columns(table: Table, models: int | Sequence[str] | None) -> list[int]:
    """The columns of the chosen models."""
    if models is None:
        return list(range(len(table.models)))
    if isinstance(models, (int, np.integer)):
        number = whole(models, "models", least=2, below=len(table.models) + 1)
        judged = ~np.isnan(table.judgements)
        means = np.where(judged, table.judgements, 0.0).sum(axis=0) / np.maximum(
            judged.sum(axis=0), 1
        )
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
