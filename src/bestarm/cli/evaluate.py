"""`bestarm evaluate`: which prompt or model is best, judged until it is clear."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

import typer

from bestarm.cli.command import command, modules_of_folder, read_number
from bestarm.cli.files import UserFile
from bestarm.cli.output import Result, number, remark, show_progress
from bestarm.defaults import DELTA, STORE
from bestarm.errors import InvalidInputError, describe_error
from bestarm.units import plural

if TYPE_CHECKING:
    from bestarm.evaluation import Evaluation, Score

_SUFFIXES = (".txt", ".csv", ".jsonl")
_FILES = "Give a .txt file with one per line, a .csv file with a header, or a .jsonl file."


@command
def evaluate(
    judge: str | None = None,
    *,
    options: str | None = None,
    items: Path | None = None,
    from_: list[Path] | None = None,
    metric: str | None = None,
    name: str | None = None,
    store: str = STORE,
    delta: float = DELTA,
    bounds: tuple[float, float] = (0.0, 1.0),
    tolerance: float = 0.0,
    control: str | None = None,
    gate: bool = False,
    compare: bool = False,
    plan: bool = False,
    noise: float | None = None,
    concurrency: int = 8,
    retries: int = 3,
    price: str = "1",
    max_cost: float | None = None,
    on_failure: float | None = None,
    seed: int | None = None,
    fresh: bool = False,
    out: list[Path] | None = None,
) -> Result:
    """Judge prompts or models on items until it is clear which is best. Run it again to resume it.

    Args:
        judge (JUDGE.py): A file that defines judge(option, item), plain or async, which returns a
            score; JUDGE.py:NAME for another name.
        options (LIST|FILE): What is compared: names with commas between them, files with commas
            between them, each of which is one option, or a file like that of the items, where each
            has a name.
        items (FILE): What options are judged on: a .txt file with one text per line; a .csv file
            with a header, or a .jsonl file, whose rows the judge receives as mappings.
        from_ (RESULTS): In the place of a judge: results on record, files or folders. Known are CSV
            tables, Inspect logs, samples of lm-eval, promptfoo's JSON and Every Eval Ever. Repeat
            it for more.
        metric: With --from: the score that counts, where samples have several.
        name: The experiment's name in the store; the name of the judge's file if left out.
        bounds (LOW HIGH): The lowest and the highest score.
        tolerance: How much worse than the best the named option may be, or with --gate an option
            than the control.
        control (OPTION): The option in use now; the leads of others over it are shown.
        gate: Ask whether each option is not worse than the control. The exit code is 0 if none is,
            1 if one is worse, 3 if that is not decided.
        compare: Ask which of two options is better: the file defines prefer(first, second, item),
            which returns the name of the better one, or None.
        plan: Judge nothing: simulate how many judgements it will take, and what they cost, if the
            best option leads by 1, 2, 5 or 10 hundredths of the range. No judge is needed.
        noise: With --plan: a guess of the standard deviation of the difference between two options'
            scores on an item, half the range of scores if left out. If scores are right or wrong,
            the square root of the share of items on which two good options differ.
        concurrency: Calls of the judge at a time.
        retries: Further calls on a pair after one that failed, with growing pauses.
        price: What a call costs: a number, or large=0.02,small=0.001 for each option.
        max_cost: No call is made that would exceed this, earlier runs included.
        on_failure (SCORE): The score of a pair that cannot be judged, which else ends the run.
        seed: Fixes the order of the items; random if left out.
        fresh: Judge everything anew. What was judged before stays on record.
        out (FILE): Write the result to report.html, summary.md (for a pull request) or junit.xml.
            Repeat it for more.
    """
    from bestarm.evaluation import evaluate as run
    from bestarm.evaluation.result import check_ending
    from bestarm.live.store import Store

    question: dict[str, Any] = {"delta": delta, "bounds": bounds, "tolerance": tolerance}
    question |= {"control": control, "gate": gate}
    if from_ and not plan:
        return _compare(from_, metric, question, seed, out)
    needed = {"JUDGE.py": plan or judge, "--options": options, "--items": items}
    missing = [each for each, given in needed.items() if not given]
    if missing or options is None or items is None:
        raise InvalidInputError(
            f"{missing[0]} is missing.",
            field="judge",
            remedy="Give JUDGE.py with --options and --items, or results on record with --from.",
        )
    if plan:
        return _plan(options, items, question | {"compare": compare}, price, noise, seed)
    assert judge is not None
    place, colon, function = judge.rpartition(":")
    if not (colon and function.isidentifier()):
        place, function = judge, "prefer" if compare else "judge"
    path = Path(place)
    title = path.stem if name is None else name
    compared, judged = _read_options(options), _read_file(items, "items")
    written = [check_ending(file) for file in out or ()]
    database = Store(store)
    count = len(compared)
    most = (count * (count - 1) // 2 if compare else count) * len(judged)
    announced = False
    try:
        # What a judge prints must not mix with the result.
        with (
            redirect_stdout(sys.stderr),
            _load_judge(path, function, compare=compare) as call,
            show_progress("judging", most, what="judgements at most") as progress,
        ):

            def report(done: int, total: int) -> None:
                nonlocal announced
                if not announced:  # all that may be refused was checked by now
                    announced = True
                    if done < total:
                        remark(
                            f"judging {len(compared)} options on {plural(len(judged), 'item')}; "
                            f"watch it with: bestarm serve --store {shlex.quote(database.place)}"
                        )
                progress(done, total)

            found = run(
                None if compare else call,
                compared,
                judged,
                **question,
                name=title,
                store=database,
                compare=call if compare else None,
                concurrency=concurrency,
                retries=retries,
                price=_read_price(price),
                max_cost=max_cost,
                on_failure=on_failure,
                seed=seed,
                fresh=fresh,
                progress=report,
            )
    except KeyboardInterrupt:
        again = "run the same command without --fresh" if fresh else "run the same command"
        remark(f"interrupted; everything judged so far is kept. To continue, {again}.")
        raise typer.Exit(130) from None
    for file in written:
        found.write(file)
    where = f"The scores are those of the experiment {found.name!r} in {database.place}."
    return Result(_data(found), str(found).splitlines(), found.exit_code, note=where)


def _plan(
    options: str,
    items: Path,
    question: dict[str, Any],
    price: str,
    noise: float | None,
    seed: int | None,
) -> Result:
    """What an evaluation will take."""
    from bestarm.evaluation import plan_evaluation

    known: dict[str, Any] = question | {"price": _read_price(price), "seed": seed or 0}
    compared, judged = _read_options(options), _read_file(items, "items")
    try:
        with show_progress("planning", 0) as progress:
            found = plan_evaluation(compared, judged, **known, noise=noise, progress=progress)
    except KeyboardInterrupt:
        remark("interrupted; nothing was judged.")
        raise typer.Exit(130) from None
    data = asdict(found) | {"efforts": [each._asdict() for each in found.efforts]}
    return Result(data, str(found).splitlines())


def _compare(
    paths: list[Path],
    metric: str | None,
    question: dict[str, Any],
    seed: int | None,
    out: list[Path] | None,
) -> Result:
    """What results on record show."""
    from bestarm.evaluation.result import check_ending
    from bestarm.evaluation.tables import compare_results, read_results

    written = [check_ending(file) for file in out or ()]
    found = compare_results(read_results(paths, metric), **question, seed=seed)
    for file in written:
        found.write(file)
    return Result(_data(found), str(found).splitlines(), found.exit_code)


def _data(found: Evaluation) -> dict[str, Any]:
    from bestarm.cli.experiment.records import recommendation_data

    labels = [score.label for score in found.scores]
    others = (
        *("store", "state", "judgements", "judged_now", "unjudged", "judge_changed"),
        *("all_judgements", "saved", "cost", "saved_cost"),
        *(
            "failures",
            "lost",
            "capped",
            "seconds",
            "control",
            "tolerance",
            "exit_code",
            "outcome",
            "wins",
        ),
    )
    return {
        "experiment": found.name,
        "recommendation": recommendation_data(found.recommendation, labels),
        "scores": [_score_data(score) for score in found.scores],
        "verdicts": [each._asdict() for each in found.verdicts],
        **{name: getattr(found, name) for name in others},
    }


def _score_data(score: Score) -> dict[str, Any]:
    data = asdict(score)
    if score.lead is not None:
        data["lead"] = {name: number(end) for name, end in score.lead._asdict().items()}
    return data


def _read_price(text: str) -> float | dict[str, float]:
    """A price, or one per option."""
    prices: dict[str, float] = {}
    for part in text.split(","):
        name, _, amount = part.rpartition("=")
        value = read_number(amount)
        if value is None:
            raise InvalidInputError(
                f"`price` has {part.strip()!r}, which is not a price.",
                field="price",
                value=text,
                remedy="Write --price 0.002, or --price large=0.02,small=0.001.",
            )
        prices[name.strip()] = value
    return prices[""] if prices.keys() == {""} else prices


class _JudgeLoader(SourceFileLoader):
    """Compiles a file anew: kept code may be of what the file was earlier in the same second."""

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002
        """The code of the file as it is."""
        return self.source_to_code(self.get_data(self.path), self.path)


@contextmanager
def _load_judge(path: Path, name: str, *, compare: bool) -> Iterator[Callable[..., Any]]:
    """The judge of a file, beside which its modules are found."""
    from bestarm.checks import suggestion

    file = UserFile(path, "judge", "Correct it first.")
    loader = _JudgeLoader("bestarm_judge", str(path))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules[loader.name] = module
    with modules_of_folder(str(path.parent)):
        try:
            loader.exec_module(module)
        except (Exception, SystemExit) as error:
            if isinstance(error, OSError) and error.filename == str(path):
                raise
            raise file.wrong(
                f"raised {describe_error(error, path.stem)} as it was read."
            ) from error
        found = getattr(module, name, None)
        if not callable(found):
            near = suggestion(name, [key for key, value in vars(module).items() if callable(value)])
            arguments = "first, second, item" if compare else "option, item"
            remedy = f"Define {name}({arguments}) in it, or name another function: {path}:NAME."
            raise file.wrong(f"has no function {name!r}.", f"{near} {remedy}".strip())
        yield found


def _read_options(text: str) -> list[Any]:
    names = [each.strip() for each in text.split(",") if each.strip()]
    if len(names) > 1 and all(Path(each).is_file() for each in names):
        files = [UserFile(Path(each), "options", _FILES) for each in names]
        return [
            {"name": Path(each).stem, "text": file.text()}
            for each, file in zip(names, files, strict=True)
        ]
    if Path(text).suffix.lower() in _SUFFIXES or Path(text).is_file():
        return _read_file(Path(text), "options")
    return names


def _read_file(path: Path, field: str) -> list[Any]:
    """Texts or mappings from a file."""
    file = UserFile(path, field, _FILES)
    match path.suffix.lower():
        case ".txt":
            read: list[Any] = [each.strip() for each in file.text().split("\n") if each.strip()]
        case ".jsonl":
            read = list(_json_lines(file))
        case ".csv":
            read = file.records()
            if read and "" in read[0]:
                raise file.wrong("has a column without a name.")
        case _:
            raise file.wrong("does not end in .txt, .csv or .jsonl.")
    if not read:
        raise file.wrong(f"holds no {field}.")
    return read


def _json_lines(file: UserFile) -> Iterator[Any]:
    for row, line in enumerate(file.text().split("\n"), start=1):
        if line.strip():
            try:
                yield json.loads(line)
            except (ValueError, RecursionError) as error:
                raise file.wrong(f"is not JSON in line {row} ({error}).") from None
