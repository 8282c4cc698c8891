"""Results that exist: scores that other tools wrote, read as tables of items and options."""

from __future__ import annotations

import csv
import json
import math
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bestarm.bounds import contrast_delta, pairs_delta
from bestarm.checks import interval
from bestarm.defaults import DELTA
from bestarm.errors import InvalidInputError, MissingDependencyError
from bestarm.evaluation.effort import judge_table
from bestarm.evaluation.evidence import bound_mean
from bestarm.evaluation.gate import State, Verdict, gate_statement
from bestarm.evaluation.inputs import Question
from bestarm.evaluation.result import Evaluation, Lead, Score
from bestarm.numerics.geometry import Array
from bestarm.policies import AnytimeBAI
from bestarm.problem import Problem
from bestarm.recommendation import Recommendation

_KNOWN = (
    "Known are tables (.csv: an item per row, an option per column), Inspect logs (.eval), samples "
    "of lm-eval (samples_….jsonl, in a folder per model), promptfoo's JSON, and JSON lines of the "
    "schema Every Eval Ever, which has converters for HELM and others."
)


_ENDLESS = 10**12  # items of a population that a sample does not use up


class Cell(NamedTuple):
    """One score."""

    item: str
    option: str
    score: float


class ScoreTable(NamedTuple):
    """Scores of options on items.

    Attributes:
        items: the ids of the items.
        options: the names of the options.
        scores: one row per item, one column per option; NaN where there is none.
        files: how many files it was read from.
    """

    items: list[str]
    options: list[str]
    scores: Array
    files: int

    @property
    def complete(self) -> bool:
        """Whether every option has a score on every item."""
        return not np.isnan(self.scores).any()


def read_results(paths: Sequence[Path], metric: str | None = None) -> ScoreTable:
    """Read files, and folders of them, into one table.

    Args:
        paths: what other tools wrote.
        metric: the score that counts, where samples have several.

    Raises:
        InvalidInputError: a file cannot be read, or an option has two scores on one item.
    """
    files = [file for path in paths for file in _files_of(path)]
    found: dict[tuple[str, str], float] = {}
    for file in files:
        for cell in _reader_of(file)(file, metric):
            key = cell.item, cell.option
            if not math.isfinite(cell.score):
                raise _wrong(file, f"has the score {cell.score!r} on item {cell.item!r}")
            if found.setdefault(key, cell.score) != cell.score:
                raise _wrong(
                    file,
                    f"has a second score of {cell.option!r} on item {cell.item!r}",
                    "Give one run of each option; repeats are averaged beforehand.",
                )
    items = list(dict.fromkeys(item for item, _ in found))
    options = list(dict.fromkeys(option for _, option in found))
    if len(options) < 2:
        raise InvalidInputError(
            f"There are scores of {len(options)} options, and two are needed to compare.",
            field="results",
            value=[str(path) for path in paths],
            remedy="Give the results of every option: several files, or a folder.",
        )
    rows, columns = ({name: n for n, name in enumerate(names)} for names in (items, options))
    scores = np.full((len(items), len(options)), np.nan)
    for (item, option), score in found.items():
        scores[rows[item], columns[option]] = score
    return ScoreTable(items, options, scores, len(files))


def compare_results(
    table: ScoreTable,
    *,
    delta: float = DELTA,
    bounds: tuple[float, float] = (0.0, 1.0),
    tolerance: float = 0.0,
    control: str | None = None,
    gate: bool = False,
    seed: int | None = None,
) -> Evaluation:
    """Say what scores on record show, about the population that their items are a sample of.

    Bounds on leads hold for independent items, whatever their distribution within `bounds`. How
    many judgements would have been enough is said of a complete table alone, for the rule of
    `evaluate` in a random order that is drawn now.

    Args:
        table: the scores.
        delta: the probability with which any bound may be wrong.
        bounds: the lowest and the highest score there can be.
        tolerance: how much worse than the control an option may be.
        control: the option that others are compared with; the best one if left out.
        gate: whether the exit code is that of a gate.
        seed: fixes the order in which the rule is tried; random if left out.
    """
    items: list[Any] = [{"id": name} for name in table.items]
    low, high = interval(bounds, "bounds")
    question = Question(table.options, items, delta, (low, high), tolerance, control, gate)
    if (np.nan_to_num(table.scores, nan=low) < low).any() or np.nanmax(table.scores) > high:
        raise InvalidInputError(
            f"Scores lie from {np.nanmin(table.scores):g} to {np.nanmax(table.scores):g}, outside "
            f"the bounds ({low:g}, {high:g}).",
            field="bounds",
            value=bounds,
            remedy="Give the lowest and the highest score there can be (`--bounds LOW HIGH`).",
        )
    drawn = secrets.randbits(64) if seed is None else seed
    rows = table.scores[question.order(drawn)]
    means = np.nanmean(rows, axis=0)
    best = int(np.argmax(means))
    against = best if control is None else table.options.index(control)
    # The best is found in the scores themselves: bounds on the leads of all pairs must hold then.
    count = len(table.options)
    pair = contrast_delta(delta, active=count) / 2
    share = pairs_delta(delta, targets=count) if control is None else pair
    leads = {
        place: _lead(rows[:, place] - rows[:, against], reach=high - low, share=share)
        for place in range(len(table.options))
        if place != against
    }
    verdicts = tuple(
        Verdict(table.options[place], _state(lead, tolerance), *lead, 0)
        for place, lead in leads.items()
    )
    scores = tuple(
        Score(name, int(count), float(mean), place == best, leads.get(place))
        for place, (name, count, mean) in enumerate(
            zip(table.options, (~np.isnan(rows)).sum(axis=0), means, strict=True)
        )
    )
    judged = int((~np.isnan(rows)).sum())
    beaten = all(lead.high < 0 for lead in leads.values())
    words = (
        gate_statement(verdicts, control, tolerance, delta)
        if control is not None
        else _best_of(table.options[best], len(table.options), len(rows), delta, shown=beaten)
    )
    answer = Recommendation(
        target=best,
        label=table.options[best],
        final=False,
        reason="recorded",
        pulls=judged,
        error_bound=None,
        active=tuple(range(len(table.options))),
        assumptions=("The items are independent draws of what the answer is about.",),
        statement=words,
    )
    return Evaluation(
        name="results",
        store="",
        state="recorded",
        recommendation=answer,
        scores=scores,
        judgements=judged,
        judged_now=0,
        unjudged=0,
        judge_changed=False,
        all_judgements=rows.size,
        failures=0,
        lost=0,
        cost=0.0,
        saved_cost=0.0,
        max_cost=None,
        capped=False,
        seconds=0.0,
        priced=False,
        control=table.options[against],
        tolerance=tolerance,
        verdicts=verdicts if gate else (),
        notes=tuple(_notes(table, question, rows)),
    )


def _best_of(name: str, options: int, items: int, delta: float, *, shown: bool) -> str:
    if shown:
        return (
            f"{name!r} is the best of {options} options. The probability that this is said "
            f"wrongly is at most {delta:g}."
        )
    return f"{name!r} has the highest mean of {options} options, which {items:,} items do not show."


def _state(lead: Lead, tolerance: float) -> State:
    if lead.low > -tolerance:
        return "not worse"
    return "worse" if lead.high < 0 else "undecided"


def _lead(leads: Array, *, reach: float, share: float) -> Lead:
    """A lead over the population, from items in random order that have both scores."""
    known = leads[~np.isnan(leads)]
    if not len(known):
        return Lead(math.nan, -reach, reach)
    low, high = bound_mean(known, items=_ENDLESS, reach=reach, share=share)
    return Lead(float(np.clip(known.mean(), low, high)), low, high)


def _notes(table: ScoreTable, question: Question, rows: Array) -> Iterator[str]:
    yield "Nothing was judged now: these are results on record."
    if not table.complete:
        yield "Some pairs have no score: leads are over the items that have both."
        return
    options: dict[str, Any] = {"items": len(rows), "bounds": question.bounds}
    problem = Problem(question.labels, delta=question.delta)
    policy = AnytimeBAI(problem, block=problem.arms, tolerance=question.tolerance, **options)
    judged = int(judge_table(policy, rows).sum())
    yield (
        f"In a random order drawn now, `evaluate` would have judged {judged:,} of {rows.size:,} "
        f"pairs ({judged / rows.size:.0%}) to find the best on these items."
    ).replace("%)", " %)")


Reader = Callable[[Path, str | None], Iterable[Cell]]


def _files_of(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = [
        each
        for each in sorted(path.rglob("*"))
        if each.is_file() and (each.suffix in {".eval", ".csv"} or each.suffix == ".jsonl")
    ]
    if not found:
        raise InvalidInputError(
            f"The folder {str(path)!r} has no results in it.",
            field="results",
            value=str(path),
            remedy=_KNOWN,
        )
    return found


def _reader_of(file: Path) -> Reader:
    readers: Mapping[str, Reader] = {
        ".csv": _read_csv,
        ".eval": _read_inspect,
        ".jsonl": _read_lines,
        ".json": _read_json,
    }
    reader = readers.get(file.suffix.lower())
    if reader is None:
        raise _wrong(file, "is of a kind that is not known")
    return reader


def _wrong(file: Path, what: str, remedy: str = _KNOWN) -> InvalidInputError:
    return InvalidInputError(
        f"{str(file)!r} {what}.", field="results", value=str(file), remedy=remedy
    )


def _number(value: object, file: Path, item: object) -> float:
    if isinstance(value, (int, float)):
        return float(value)
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            pass
    raise _wrong(file, f"has {value!r} on item {item!r}, which is not a score")


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise _wrong(file, "is not text in UTF-8") from None


def _read_csv(file: Path, _: str | None) -> Iterator[Cell]:
    rows = list(csv.reader(_text(file).splitlines()))
    if not rows or len(rows[0]) < 2:
        raise _wrong(file, "has no columns of scores", "Its first column is the item's id.")
    for row in rows[1:]:
        if len(row) != len(rows[0]):
            raise _wrong(file, f"has {len(row)} entries in the row of {row[:1]}", "Fill it up.")
        for option, score in zip(rows[0][1:], row[1:], strict=True):
            if score.strip():
                yield Cell(row[0], option, _number(score, file, row[0]))


def _read_inspect(file: Path, metric: str | None) -> Iterator[Cell]:
    try:
        from inspect_ai.log import read_eval_log  # noqa: PLC0415 - optional
        from inspect_ai.scorer import value_to_float  # noqa: PLC0415
    except ImportError:
        what = "Reading Inspect logs"
        raise MissingDependencyError.of(what, "inspect_ai", extra="inspect") from None
    try:
        log = read_eval_log(str(file))
    except Exception as error:
        raise _wrong(file, f"is not an Inspect log ({type(error).__name__})") from error
    tasks = f"{log.eval.task} {log.eval.model}" if log.eval.model != "none/none" else log.eval.task
    as_number = value_to_float()
    for sample in log.samples or []:
        scores = sample.scores or {}
        if scores:
            name = _chosen(list(scores), metric, file)
            yield Cell(str(sample.id), tasks, float(as_number(scores[name].value)))


def _chosen(names: Sequence[str], metric: str | None, file: Path) -> str:
    if metric is None and len(names) == 1:
        return names[0]
    if metric in names:
        return str(metric)
    raise _wrong(
        file,
        f"has the scores {', '.join(names)}",
        "Name the one that counts: `metric=` (`--metric`).",
    )


def _read_json(file: Path, _: str | None) -> Iterator[Cell]:
    """What `promptfoo eval -o results.json` writes: a prompt with a provider is an option."""
    try:
        data = json.loads(_text(file))
        results = data["results"]["results"]
        for each in results:
            option = each["prompt"]["label"]
            provider = each["provider"].get("label") or each["provider"]["id"]
            if each.get("failureReason") == 2:  # an error of the provider: it has no score
                continue
            item = f"test {each['testIdx'] + 1}"
            yield Cell(item, f"{option} ({provider})", _number(each["score"], file, item))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise _wrong(file, "is not a result of promptfoo") from None


def _read_lines(file: Path, metric: str | None) -> Iterator[Cell]:
    """Samples of lm-eval, or records of Every Eval Ever."""
    filters: dict[str, set[str]] = defaultdict(set)
    for number, line in enumerate(_text(file).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            if "evaluation" in row and "model_id" in row:
                item = f"{row['evaluation_name']} {row['sample_id']}"
                score = row["evaluation"]["score"]
                yield Cell(item, str(row["model_id"]), _number(score, file, item))
            else:
                name = _chosen(row["metrics"], metric, file)
                item = f"{file.stem.rpartition('_')[0]} {row['doc_id']}"
                filters[item].add(str(row.get("filter")))
                if len(filters[item]) == 1 or str(row.get("filter")) == "none":
                    option = file.parent.name
                    yield Cell(item, option, _number(row[name], file, item))
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, InvalidInputError):
                raise
            raise _wrong(file, f"has no score in line {number}") from None
