"""Tables of text: defined once, then shown on a page, in a terminal, in a notebook, in print."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import Literal

__all__ = [
    "Column",
    "Entry",
    "Line",
    "TextTable",
    "latex_float",
    "percent_range",
    "plus_minus",
    "to_latex",
]

THIN_SPACE = "\N{NARROW NO-BREAK SPACE}"
_INTERVAL = f"95{THIN_SPACE}%"
_GREEK = {
    "σ": "sigma",
    "δ": "delta",
    "ν": "nu",
    "θ": "theta",
    "ε": "varepsilon",
    "µ": "mu",
}
_CHARACTERS = {
    "\\": r"\textbackslash{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    "—": "---",
    "’": "'",
    "…": r"\dots{}",
    "\N{MINUS SIGN}": "$-$",
    THIN_SPACE: r"\,",
    "\N{THIN SPACE}": r"\,",
    "\N{NO-BREAK SPACE}": "~",
    "±": r"$\pm$",
    "×": r"$\times$",
    "÷": r"$\div$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "²": "$^2$",
    "₁": "$_1$",
    **{letter: f"$\\{name}$" for letter, name in _GREEK.items()},
}


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        heading: its heading.
        group: a heading that it shares with the columns beside it.
        interval: whether its entries have 95 % intervals. Print has a column for these; a page and
            a terminal show them with their values.
        page_only: whether print (Markdown, LaTeX, a terminal) leaves it out.
        align: left, right or centered.
        marks: LaTeX for entries that have a short mark there; the column has no heading then.
    """

    heading: str
    group: str = ""
    interval: bool = False
    page_only: bool = False
    align: Literal["l", "r", "c"] = "r"
    marks: Mapping[str, str] | None = None

    @property
    def full_heading(self) -> str:
        """Its heading, after the one that it shares."""
        return f"{self.group}, {self.heading}".removeprefix(", ")


@dataclass(frozen=True)
class Entry:
    """One entry of a table.

    Attributes:
        text: what it says.
        interval: its 95 % interval, "3 to 5".
        small: further lines, for a page.
        kind: how a page shows it: a class of its style sheet.
        title: what a page shows beside the pointer.
        bold: whether print shows it in bold.
        printed: what print has in the place of `text`.
    """

    text: str = ""
    interval: str = ""
    small: tuple[str, ...] = ()
    kind: str = ""
    title: str = ""
    bold: bool = False
    printed: str | None = None


@dataclass(frozen=True)
class Line:
    """One line of a table: its name and an entry for every column after the first.

    Lines of the same `section` stand together below its heading; `note` is the letter of a note,
    and `anchor` what the name links to on a page.
    """

    name: str
    entries: tuple[Entry, ...]
    note: str = ""
    section: str = ""
    anchor: str = ""


@dataclass(frozen=True)
class TextTable:
    """A table of text.

    Attributes:
        columns: the first one holds the names of lines.
        lines: the lines.
        title: its heading, where it needs one.
    """

    columns: tuple[Column, ...]
    lines: tuple[Line, ...]
    title: str = ""

    @classmethod
    def of(
        cls, headings: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = ""
    ) -> TextTable:
        """A table of plain texts: the first column on the left, the others on the right."""
        columns = (Column(headings[0], align="l"), *map(Column, headings[1:]))
        lines = tuple(Line(name, tuple(map(Entry, texts))) for name, *texts in rows)
        return cls(columns, lines, title)

    def printed(self) -> list[int]:
        """The numbers of the columns after the first that print has."""
        return [number for number, each in enumerate(self.columns[1:]) if not each.page_only]

    def page_groups(self) -> list[tuple[str, int]]:
        """The headings that columns of a page share, and how many columns share each."""
        return _spans(self.columns[1:])

    def sections(self) -> Iterator[tuple[str, list[Line]]]:
        """The lines by section."""
        for section, lines in groupby(self.lines, key=lambda line: line.section):
            yield section, list(lines)

    def __str__(self) -> str:
        """The table as plain text, with the columns of print below each other."""
        columns = self._printed_columns()
        rows = [[column.full_heading for column in columns]]
        for section, lines in self.sections():
            rows += [[section, *[""] * (len(columns) - 1)]] if section else []
            rows += [[each.name, *(text for text, _, _ in self._printed(each))] for each in lines]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        shown = [
            "  ".join(
                text.ljust(width) if column.align == "l" else text.rjust(width)
                for text, width, column in zip(row, widths, columns, strict=True)
            ).rstrip()
            for row in rows
        ]
        return "\n".join([*([self.title] if self.title else []), *shown])

    def to_markdown(self) -> str:
        """The table as Markdown, with the columns of print."""
        columns = self._printed_columns()
        headings = [column.full_heading for column in columns]
        rows = [headings, ["---" if column.align == "l" else "---:" for column in columns]]
        for section, lines in self.sections():
            if section:
                rows.append([f"*{section}*", *[""] * (len(columns) - 1)])
            for line in lines:
                texts = [f"**{text}**" if bold else text for text, bold, _ in self._printed(line)]
                rows.append([line.name + (f" ({line.note})" if line.note else ""), *texts])
        return "\n".join(
            f"| {' | '.join(text.replace('|', '&#124;') for text in row)} |" for row in rows
        )

    def to_html(self) -> str:
        """The table for a notebook, with the columns of print; every text is escaped.

        It names no colours: those of a light or a dark notebook hold.
        """
        columns = self._printed_columns()
        rows = [_html_row("th", columns, [column.full_heading for column in columns])]
        for section, lines in self.sections():
            if section:
                rows.append(f'<tr><th colspan="{len(columns)}">{escape(section)}</th></tr>')
            for line in lines:
                name = line.name + (f" ({line.note})" if line.note else "")
                texts = [name, *(text for text, _, _ in self._printed(line))]
                rows.append(_html_row("td", columns, texts))
        title = "".join(f"<p>{escape(line)}</p>" for line in self.title.splitlines())
        return f"{title}<table>{''.join(rows)}</table>"

    def to_latex(self) -> str:
        """The table as a `tabular` of LaTeX, with the columns of print; it needs booktabs."""
        columns = self._printed_columns()
        alignment = "".join(column.align for column in columns)
        lines = [rf"\begin{{tabular}}{{@{{}}{alignment}@{{}}}}", r"\toprule", *_groups(columns)]
        lines.append(_latex_row("" if each.marks else to_latex(each.heading) for each in columns))
        lines.append(r"\midrule")
        for section, members in self.sections():
            if section:
                lines.append(r"\addlinespace")
                span = rf"\multicolumn{{{len(columns)}}}{{@{{}}l}}{{\emph{{{to_latex(section)}}}}}"
                lines.append(rf"{span} \\")
            lines += [_latex_row(self._latex_entries(line)) for line in members]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])

    def _printed_columns(self) -> list[Column]:
        """The columns of print, intervals among them."""
        columns = [self.columns[0]]
        for number in self.printed():
            column = self.columns[number + 1]
            columns.append(column)
            if column.interval:
                columns.append(Column(_INTERVAL, column.group))
        return columns

    def _printed(self, line: Line) -> Iterator[tuple[str, bool, Column]]:
        """The texts of a line after its name, in print, and whether they are bold."""
        for number in self.printed():
            entry, column = line.entries[number], self.columns[number + 1]
            yield entry.text if entry.printed is None else entry.printed, entry.bold, column
            if column.interval:
                yield entry.interval.replace(" to ", "–"), False, column

    def _latex_entries(self, line: Line) -> Iterator[str]:
        note = rf"\textsuperscript{{{line.note}}}" if line.note else ""
        yield to_latex(line.name) + note
        for text, bold, column in self._printed(line):
            if column.marks is not None:
                yield column.marks.get(text, "")
            else:
                yield rf"\textbf{{{to_latex(text)}}}" if bold else to_latex(text)


def _spans(columns: Sequence[Column]) -> list[tuple[str, int]]:
    """The headings that neighbouring columns share, with their number; empty if there are none."""
    groups = groupby(columns, key=lambda column: column.group)
    spans = [(group, len(list(members))) for group, members in groups]
    return spans if any(group for group, _ in spans) else []


def _groups(columns: Sequence[Column]) -> Iterator[str]:
    """The line of headings that columns share, with rules below them."""
    cells, rules, first = [], [], 1
    for group, width in _spans(columns):
        cells.append(rf"\multicolumn{{{width}}}{{c}}{{{to_latex(group)}}}" if group else "")
        last = first + width - 1
        if group:
            rules.append(rf"\cmidrule({'l' if last == len(columns) else 'lr'}){{{first}-{last}}}")
        first = last + 1
    if cells:
        yield _latex_row(cells)
        yield "".join(rules)


def _html_row(tag: str, columns: Sequence[Column], texts: Sequence[str]) -> str:
    sides = {"l": "left", "r": "right", "c": "center"}
    cells = (
        f'<{tag} style="text-align:{sides[column.align]};padding:0 .6em">{escape(text)}</{tag}>'
        for column, text in zip(columns, texts, strict=True)
    )
    return f"<tr>{''.join(cells)}</tr>"


def _latex_row(texts: Iterator[str] | Sequence[str]) -> str:
    return " & ".join(texts).strip() + r" \\"


def to_latex(text: str) -> str:
    """Plain text as LaTeX; a character it has no name for becomes a question mark.

    >>> to_latex("ν_t at 5 % & σ=1")
    '$\\\\nu_t$ at 5 \\\\% \\\\& $\\\\sigma$=1'
    """
    pieces = re.split(r"([σδνθε]_\w)", text)
    return "".join(
        f"$\\{_GREEK[piece[0]]}_{piece[2]}$" if place % 2 else "".join(map(_character, piece))
        for place, piece in enumerate(pieces)
    )


def _character(character: str) -> str:
    # LaTeX reads UTF-8, but has glyphs for little beyond Western letters.
    known = character.isascii() or "À" <= character <= "ÿ"
    return _CHARACTERS.get(character, character if known else "?")


def latex_float(
    tables: Sequence[TextTable],
    *,
    caption: str,
    label: str,
    legend: str = "",
    notes: Sequence[tuple[str, str]] = (),
) -> str:
    """Tables in one float, to be read with \\input by a document that loads booktabs.

    Args:
        tables: the tables, one below the other.
        caption: plain text.
        label: what \\ref names it by.
        legend: what its marks mean, as LaTeX.
        notes: letters and sentences.
    """
    titles = [rf"\emph{{{to_latex(table.title)}}}\par" + "\n" for table in tables]
    bodies = "\n\\par\\medskip\n".join(
        (title if table.title else "") + table.to_latex()
        for title, table in zip(titles, tables, strict=True)
    )
    below = [legend] if legend else []
    below += [rf"\textsuperscript{{{letter}}} {to_latex(sentence)}" for letter, sentence in notes]
    if below:
        opening = [r"\par\smallskip", r"\begin{minipage}{\linewidth}\scriptsize"]
        below = [*opening, *below, r"\end{minipage}"]
    lines = [
        r"% Needs \usepackage{booktabs}.",
        r"\begin{table}",
        r"\centering",
        r"\footnotesize",
        r"\setlength{\tabcolsep}{3.5pt}",
        rf"\caption{{{to_latex(caption)}}}",
        rf"\label{{{label}}}",
        r"\smallskip",
        bodies,
        *below,
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def plus_minus(value: float, half: float) -> str:
    """A whole number with half of its interval, if that is known; a dash for NaN."""
    if math.isnan(value):
        return "–"
    text = f"{value:,.0f}".replace("-", "−")
    return text if math.isnan(half) else f"{text} ± {half:,.0f}"


def percent_range(value: float, interval: tuple[float, float]) -> str:
    """A share with its interval, in percent."""
    low, high = interval
    return f"{value:.1%} ({100 * low:.1f}–{100 * high:.1f})"
