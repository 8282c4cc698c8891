"""Tables and differences as text: the numbers as the page and the LaTeX tables print them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bestarm.replication.cell import Cell, Verdict
from bestarm.replication.tables import RUNS, Row, Table

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
VERDICTS: tuple[Verdict, ...] = ("consistent", "within noise", "differs")
_THIN = "\N{NARROW NO-BREAK SPACE}"
_MINUS = "\N{MINUS SIGN}"
_NONE = "–"


@dataclass(frozen=True)
class CellText:
    """One `Cell` as text; empty where it has nothing."""

    value: str
    interval: str
    spread: str
    quantiles: tuple[str, ...]
    printed: str
    printed_spread: str
    verdict: str
    p_value: str

    @property
    def median(self) -> str:
        """The middle of our pulls."""
        return self.quantiles[QUANTILES.index(0.5)]


@dataclass(frozen=True)
class RowText:
    """One line of a table; `note` is the letter of its remark."""

    row: Row
    note: str
    pulls: CellText | None
    rate: CellText


@dataclass(frozen=True)
class TableText:
    """One table; `notes` has a letter and a sentence for what rows share or have alone."""

    table: Table
    rows: tuple[RowText, ...]
    notes: tuple[tuple[str, str], ...]


def number(value: float, decimals: int = 0) -> str:
    """A number with thin spaces between thousands and a true minus; a dash for a missing one."""
    if math.isnan(value):
        return _NONE
    text = f"{value:,.{decimals}f}".replace(",", _THIN)
    return text.replace("-", _MINUS) if re.search("[1-9]", text) else text.lstrip("-")


def prose(text: str) -> str:
    """A sentence with its numbers as everywhere else: 5,000,000 and 5 000 000 alike."""
    return re.sub(r"(?<=\d)[ ,](?=\d{3}(?!\d))", _THIN, text)


def table_text(table: Table, cells: Sequence[Cell]) -> TableText:
    """A table with its cells."""
    decimals = max((_decimals(c.printed.value) for c in cells if c.printed is not None), default=0)
    letters: dict[str, str] = {}
    rows = []
    for row in table.rows:
        if row.protocol:
            letters.setdefault(row.protocol, chr(ord("a") + len(letters)))
        *pulls, rate = [_cell_text(cell, decimals) for cell in cells if cell.row == row.key]
        note = letters.get(row.protocol, "")
        rows.append(RowText(row, note, pulls[0] if pulls else None, rate))
    return TableText(table, tuple(rows), tuple((b, prose(a)) for a, b in letters.items()))


def _decimals(value: float) -> int:
    """Of a figure in print, at most two."""
    return next((d for d in (0, 1) if round(value, d) == value), 2)


def _cell_text(cell: Cell, printed_decimals: int) -> CellText:
    if cell.metric == "pulls":
        own, ends = printed_decimals, 0 if cell.value >= 100 else 1
    else:
        own, ends = 2 if cell.runs <= RUNS else 3, 3
        published = RUNS if cell.printed is None else cell.printed.runs
        printed_decimals = 2 if published <= RUNS else 4
    printed = cell.printed
    spread = None if printed is None else printed.spread
    low = max(cell.low, 0.0)
    return CellText(
        number(cell.value, own),
        "exact" if cell.low == cell.high else _interval(low, cell.high, ends),
        "" if cell.spread is None else number(cell.spread, ends),
        tuple(number(value) for value in (cell.quantiles or {}).values()),
        "" if printed is None else number(printed.value, printed_decimals),
        "" if spread is None else number(spread, printed_decimals),
        cell.verdict or "",
        p_value(cell.p_value),
    )


def _interval(low: float, high: float, decimals: int) -> str:
    if math.isnan(low):
        return _NONE
    return f"{number(low, decimals)} to {number(high, decimals)}"


def p_value(value: float | None) -> str:
    """A p-value with two or three digits."""
    if value is None:
        return ""
    return "p < 0.001" if value < 0.001 else f"p = {value:.{3 if value < 0.1 else 2}f}"


def signed(value: float, decimals: int) -> str:
    """A number with its sign, unless it is printed as 0."""
    text = number(value, decimals)
    return f"+{text}" if value > 0 and re.search("[1-9]", text) else text


def verdict_counts(cells: Iterable[Cell]) -> list[int]:
    """How many cells there are of each verdict, in the order of `VERDICTS`."""
    verdicts = [cell.verdict for cell in cells]
    return [verdicts.count(verdict) for verdict in VERDICTS]


def counted(cells: Sequence[Cell]) -> str:
    """How many cells there are of each verdict, in words."""
    same, noise, differ = verdict_counts(cells)
    total = same + noise + differ
    return (
        f"{total} {'cell' if total == 1 else 'cells'}: {same} consistent, {noise} within noise, "
        f"{differ} {'differs' if differ == 1 else 'differ'}"
    )
