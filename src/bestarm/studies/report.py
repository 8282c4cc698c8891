"""The report of a study: a page, pictures, Markdown, LaTeX tables, and CSV of runs and cells."""

from __future__ import annotations

import csv
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bestarm.errors import InvalidInputError, MissingDependencyError
from bestarm.simulation.folder import exclusive, naming_file
from bestarm.simulation.results import Outcome
from bestarm.studies.pictures import house_style, write_figure
from bestarm.studies.study import Picture, Report, Section, Study, StudyResults
from bestarm.tables import latex_float

_PAGE = "report.html"
_PARTS = ("figures", "tables")
_FRESH = ".report"  # where everything is made, before anything of old is replaced
_RUNS = ("table", "row", "method", "environment", "run", "pulls", "success", *Outcome._fields[2:])


DrawnPicture = tuple[str, str, str]  # its title, its caption, and its SVG


def write_report(results: StudyResults[Any], folder: Path) -> Path:
    """Write the report of a finished study; the same results give the same bytes.

    In `folder` there are then `report.html`, which needs no other file, `report.md`, `runs.csv`,
    `cells.csv`, `figures/*.png` and `*.pdf`, and `tables/*.tex`. Files of an earlier report are
    replaced only once all new ones are complete.

    Args:
        results: what `run_study` returned, with every row finished.
        folder: where to; it is made if need be.

    Returns:
        The path of the page.

    Raises:
        InvalidInputError: rows are not finished, or another process writes to the folder.
        MissingDependencyError: Matplotlib or Jinja2 is not installed.
        OSError: the folder cannot be written.
    """
    _check(results)
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / _FRESH
    with exclusive(folder), naming_file(fresh):
        shutil.rmtree(fresh, ignore_errors=True)  # of one that was killed
        try:
            fresh.mkdir()  # not through a link that somebody left in its place
            for name in _PARTS:
                (fresh / name).mkdir()
            _write(results, fresh)
            _move(fresh, folder, results.study)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return folder / _PAGE


def _check(results: StudyResults[Any]) -> None:
    missing = results.missing()
    if results.interrupted or missing:
        raise InvalidInputError(
            f"{len(missing)} of {len(results.study.rows())} rows have not finished, so there is "
            "nothing to report.",
            field="results",
            value=missing,
            remedy="Go on with it with resume=True.",
        )


def _write(results: StudyResults[Any], fresh: Path) -> None:
    report = results.study.report(results)
    _write_csv(fresh / "runs.csv", [_RUNS, *_runs(results)])
    _write_csv(fresh / "cells.csv", report.cells)
    for section in report.sections:
        if section.caption:
            _write_text(fresh / "tables" / f"{section.key}.tex", latex(section))
    _write_text(fresh / "report.md", markdown(report))
    figures = fresh / "figures"
    sections = [(section, draw_section(section.draw, figures)) for section in report.sections]
    _write_text(fresh / _PAGE, page(report, sections))


def draw_section(draw: Callable[[], Iterable[Picture]] | None, folder: Path) -> list[DrawnPicture]:
    """Draw the pictures of a section, and write them to a folder."""
    if draw is None:
        return []
    with house_style():
        return [
            (each.title, each.caption, write_figure(each.figure, folder / each.name))
            for each in draw()
        ]


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


def _write_csv(path: Path, lines: Iterable[Sequence[object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)


def _runs(results: StudyResults[Any]) -> Iterator[Sequence[object]]:
    for table, row in results.study.rows():
        found = results.of(table, row)
        names = (table.key, row.key, found.method, found.environment)
        good = row.succeeded(found).tolist()
        for outcome, success in zip(found.outcomes(), good, strict=True):
            run, pulls, *rest = map(int, outcome)
            yield *names, run, pulls, int(success), *rest


def _move(fresh: Path, folder: Path, study: Study[Any]) -> None:
    """Put every file in its place, the page last, and remove files of an earlier report."""
    files = sorted(path.relative_to(fresh) for path in fresh.rglob("*") if path.is_file())
    files.sort(key=lambda path: path.name == _PAGE)
    for path in files:
        (folder / path).parent.mkdir(exist_ok=True)
    for path in files:
        (fresh / path).replace(folder / path)
    ours = re.compile(rf"({'|'.join(study.section_keys())})(-\w+)?\.(png|pdf|tex)")
    for name in _PARTS:
        for old in (folder / name).glob("*"):
            if ours.fullmatch(old.name) and old.relative_to(folder) not in files:
                old.unlink()


def latex(section: Section) -> str:
    """The tables of a section in one float."""
    return latex_float(
        section.tables,
        caption=section.caption,
        label=f"tab:{section.key}",
        legend=section.legend,
        notes=section.notes,
    )


def markdown(report: Report) -> str:
    """The report as Markdown: its tables, without pictures."""
    parts = [f"# {report.title}", report.lead]
    parts.append("\n".join(f"- {name}: {value}" for name, value in report.facts))
    if report.summary is not None:
        parts.append(report.summary.to_markdown())
    for section in report.sections:
        parts += [f"## {section.title}", section.text, section.warning]
        for table in section.tables:
            parts += [f"### {table.title}" if table.title else "", table.to_markdown()]
        parts.append("\n".join(f"- ({letter}) {sentence}" for letter, sentence in section.notes))
    return "\n\n".join(part for part in parts if part) + "\n"


def page(report: Report, sections: Sequence[tuple[Section, Sequence[DrawnPicture]]]) -> str:
    """The report as a page that needs no other file.

    Raises:
        MissingDependencyError: Jinja2 is not installed.
    """
    try:
        from jinja2 import (  # noqa: PLC0415 - optional
            ChoiceLoader,
            Environment,
            PackageLoader,
            StrictUndefined,
        )
        from markupsafe import Markup, escape  # noqa: PLC0415 - comes with it
    except ImportError:
        raise MissingDependencyError.of("The report", "jinja2", extra="plots") from None
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(report.package), PackageLoader("bestarm.studies")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["maths"] = lambda text: Markup(
        re.sub(r"([νθδ])_(\w)", r"\1<sub>\2</sub>", str(escape(text)))
    )
    return environment.get_template(report.template).render(
        report=report, sections=sections, **report.context
    )
