"""The page: one file that needs nothing else."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from importlib import resources
from importlib.metadata import version

from bestarm.errors import MissingDependencyError
from bestarm.replication.cell import Cell
from bestarm.replication.comparisons import PaperComparison
from bestarm.replication.pictures import Picture
from bestarm.replication.runner import Replication
from bestarm.replication.tables import TABLES
from bestarm.replication.texts import (
    QUANTILES,
    SHORT,
    TableText,
    counted,
    p_value,
    prose,
    signed,
)

__all__ = ["page"]

_ENOUGH = 1000  # runs, to show heavy tails
_KINDS = {
    "consistent": "good",
    "within noise": "noise",
    "differs": "bad",
    "confirmed": "good",
    "reversed": "bad",
    "not found": "bad",
    "not resolved": "open",
}

Drawn = tuple[Picture, str]  # a picture and its SVG


def page(
    replication: Replication,
    cells: Sequence[Cell],
    tables: Sequence[tuple[TableText, Sequence[Drawn]]],
    found: Sequence[PaperComparison],
) -> str:
    """The report as HTML.

    Args:
        replication: the replication.
        cells: its cells with their verdicts.
        tables: each table as text, with its pictures.
        found: the differences between methods.

    Raises:
        MissingDependencyError: Jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, StrictUndefined  # noqa: PLC0415 - optional
        from markupsafe import Markup, escape  # noqa: PLC0415 - comes with it
    except ImportError:
        raise MissingDependencyError.of("The report", "jinja2", extra="cli") from None
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["maths"] = lambda text: Markup(
        re.sub(r"([νθδ])_(\w)", r"\1<sub>\2</sub>", str(escape(text)))
    )
    template = environment.from_string(_file("report.html"))
    rated = any(
        row.environment.name == replication.data.name
        for table in replication.tables
        for row in table.rows
    )
    return template.render(
        css=Markup(_file("report.css")),
        kinds=_KINDS,
        p_value=p_value,
        prose=prose,
        signed=signed,
        levels=["median" if q == 0.5 else f"{100 * q:g} %" for q in QUANTILES],
        zip=zip,
        synthetic=rated and replication.data.synthetic,
        source=prose(replication.data.source) if rated else "",
        counted=counted(cells),
        runs=replication.runs,
        seed=replication.seed,
        version=version("bestarm"),
        few=replication.runs < _ENOUGH,
        summary=[(text.table, _counts(cells, text.table.key)) for text, _ in tables],
        tables=[
            (text, [(picture, Markup(drawing)) for picture, drawing in drawn])
            for text, drawn in tables
        ],
        differences=[
            (text.table.title, [part for part in found if part.table == text.table.key])
            for text, _ in tables
            if text.table.key in {part.table for part in found}
        ],
        command=_command(replication, rated),
        given_data=rated and not replication.data.synthetic,
    )


def _file(name: str) -> str:
    return resources.files("bestarm.replication").joinpath(name).read_text(encoding="utf-8")


def _counts(cells: Sequence[Cell], table: str) -> list[int]:
    verdicts = Counter(
        SHORT[cell.verdict] for cell in cells if cell.table == table and cell.verdict is not None
    )
    return [sum(verdicts.values()), *(verdicts[word] for word in SHORT.values())]


def _command(replication: Replication, rated: bool) -> str:
    names = [table.key for table in replication.tables]
    words = ["bestarm reproduce", *([] if names == list(TABLES) else names)]
    words += [f"--runs {replication.runs}", f"--seed {replication.seed}"]
    if rated and not replication.data.synthetic:
        words.append("--data RATINGS")
    return " ".join(words)
