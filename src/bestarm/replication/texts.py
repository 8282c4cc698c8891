"""Tables and differences as text: the numbers as the page and the LaTeX tables print them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bestarm.replication.cell import Cell, Verdict
from bestarm.replication.comparisons import PaperComparison
from bestarm.replication.published import RUNS
from bestarm.replication.tables import Table

__all__ = [
    "QUANTILES",
    "SHORT",
    "CellText",
    "DifferenceText",
    "RowText",
    "TableText",
    "counted",
    "difference_text",
    "number",
    "prose",
    "table_text",
]

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
SHORT: dict[Verdict, str] = {
    "consistent": "consistent",
    "the published difference is within the noise of 100 runs": "within noise",
    "differs": "differs",
}
_THIN = "\N{NARROW NO-BREAK SPACE}"
_MINUS = "\N{MINUS SIGN}"
_NONE = "–"


@dataclass(frozen=True)
class CellText:
    """One figure of a row.

    Attributes:
        value: our mean or share.
        interval: its 95 % interval.
        spread: the standard deviation of our pulls.
        quantiles: our pulls at `QUANTILES`; none for rates.
        printed: the published figure.
        printed_spread: its standard deviation.
        verdict: in a word or two; empty for rows of our own.
        p_value: of the test behind it.
    """

    value: str
    interval: str
    spread: str = ""
    quantiles: tuple[str, ...] = ()
    printed: str = ""
    printed_spread: str = ""
    verdict: str = ""
    p_value: str = ""

    @property
    def median(self) -> str:
        """The middle of our pulls."""
        return self.quantiles[QUANTILES.index(0.5)]


@dataclass(frozen=True)
class RowText:
    """One line of a table; `note` is the letter of its remark."""

    label: str
    ours: bool
    note: str
    pulls: CellText | None
    rate: CellText


@dataclass(frozen=True)
class TableText:
    """One table; `notes` has a letter and a sentence for what rows share or have alone."""

    key: str
    title: str
    protocol: str
    rate: str
    counts_pulls: bool
    heavy: bool
    rows: tuple[RowText, ...]
    notes: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class DifferenceText:
    """One method less another."""

    table: str
    name: str
    printed: str
    p_value: str
    value: str
    interval: str
    finding: str
    sentence: str


def number(value: float, decimals: int = 0) -> str:
    """A number with thin spaces between thousands and a true minus; a dash for a missing one."""
    if math.isnan(value):
        return _NONE
    text = f"{value:,.{decimals}f}".replace(",", _THIN)
    zero = not any(digit in text for digit in "123456789")
    return text.lstrip("-") if zero else text.replace("-", _MINUS)


def prose(text: str) -> str:
    """A sentence with its numbers as everywhere else: 5,000,000 and 5 000 000 alike."""
    return re.sub(r"(?<=\d)[ ,](?=\d{3}(?!\d))", _THIN, text)


def table_text(table: Table, cells: Sequence[Cell]) -> TableText:
    """A table with its cells."""
    decimals = max((_decimals(c.printed.value) for c in cells if c.printed is not None), default=0)
    letters: dict[str, str] = {}
    rows = []
    for row in table.rows:
        if row.protocol and row.protocol not in letters:
            letters[row.protocol] = chr(ord("a") + len(letters))
        parts = {cell.metric: cell for cell in cells if cell.row == row.key}
        pulls = parts.get("pulls")
        rows.append(
            RowText(
                row.label,
                row.ours,
                letters.get(row.protocol, ""),
                None if pulls is None else _pulls(pulls, decimals),
                _rate(parts[table.rate]),
            )
        )
    return TableText(
        table.key,
        table.title,
        prose(table.protocol),
        table.rate,
        table.counts_pulls,
        table.heavy,
        tuple(rows),
        tuple((letter, prose(sentence)) for sentence, letter in letters.items()),
    )


def _decimals(value: float) -> int:
    """Of a figure in print, at most two."""
    return next((d for d in (0, 1) if round(value, d) == value), 2)


def _pulls(cell: Cell, decimals: int) -> CellText:
    assert cell.quantiles is not None
    assert cell.spread is not None
    fine = 0 if cell.value >= 100 else 1
    ends = (max(cell.low, 0.0), cell.high)
    interval = "exact" if cell.low == cell.high else _interval(*ends, fine)
    printed = cell.printed
    return CellText(
        number(cell.value, decimals),
        interval,
        number(cell.spread, fine),
        tuple(number(cell.quantiles[level]) for level in QUANTILES),
        "" if printed is None else number(printed.value, decimals),
        "" if printed is None or printed.spread is None else number(printed.spread, decimals),
        _verdict(cell),
        _p_value(cell.p_value),
    )


def _rate(cell: Cell) -> CellText:
    return CellText(
        number(cell.value, 2 if cell.runs <= RUNS else 3),
        _interval(cell.low, cell.high, 3),
        printed="" if cell.printed is None else number(cell.printed.value, 2),
        verdict=_verdict(cell),
        p_value=_p_value(cell.p_value),
    )


def _interval(low: float, high: float, decimals: int) -> str:
    if math.isnan(low):
        return _NONE
    return f"{number(low, decimals)} to {number(high, decimals)}"


def _verdict(cell: Cell) -> str:
    return "" if cell.verdict is None else SHORT[cell.verdict]


def _p_value(value: float | None) -> str:
    if value is None:
        return ""
    return (
        "p < 0.001" if value < 0.001 else f"p = {value:.3f}" if value < 0.1 else f"p = {value:.2f}"
    )


def difference_text(found: PaperComparison) -> DifferenceText:
    """A difference in the units of its table."""
    decimals = 0 if found.metric == "pulls" else 3
    return DifferenceText(
        found.table,
        f"{found.first} {_MINUS} {found.second}, {found.metric}",
        _signed(found.printed, min(decimals, 2)),
        _p_value(found.p_value),
        _signed(found.value, decimals),
        f"{_signed(found.low, decimals)} to {_signed(found.high, decimals)}",
        found.finding,
        found.sentence,
    )


def _signed(value: float, decimals: int) -> str:
    text = number(value, decimals)
    return f"+{text}" if value > 0 and any(digit in text for digit in "123456789") else text


def counted(cells: Sequence[Cell]) -> str:
    """How many cells there are of each verdict, in words."""
    counts = Counter(SHORT[cell.verdict] for cell in cells if cell.verdict is not None)
    total = sum(counts.values())
    parts = [
        f"{counts['consistent']} consistent",
        f"{counts['within noise']} within noise",
        f"{counts['differs']} {'differs' if counts['differs'] == 1 else 'differ'}",
    ]
    return f"{total} {'cell' if total == 1 else 'cells'}: {', '.join(parts)}"
