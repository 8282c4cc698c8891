"""Tables for LaTeX: one file each, to be read with \\input by a document that loads booktabs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from bestarm.replication.texts import CellText, RowText, TableText

__all__ = ["escape", "latex_table"]

_GREEK = {"σ": "sigma", "δ": "delta", "ν": "nu", "θ": "theta", "ε": "varepsilon"}
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
    "\N{NARROW NO-BREAK SPACE}": r"\,",
    "\N{THIN SPACE}": r"\,",
    "\N{NO-BREAK SPACE}": "~",
    "±": r"$\pm$",
    "×": r"$\times$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "²": "$^2$",
    **{letter: f"$\\{name}$" for letter, name in _GREEK.items()},
}
_MARKS = {"consistent": r"$\bullet$", "within noise": r"$\circ$", "differs": r"$\times$"}
_LEGEND = (
    r"$\bullet$ consistent; $\circ$ the published difference is within the noise of 100 runs; "
    r"$\times$ differs."
)


def escape(text: str) -> str:
    """Plain text as LaTeX; a character it has no name for becomes a question mark.

    >>> escape("ν_t at 5 % & σ=1")
    '$\\\\nu_t$ at 5 \\\\% \\\\& $\\\\sigma$=1'
    """
    pieces = re.split(r"([σδνθε]_\w)", text)
    return "".join(
        f"$\\{_GREEK[piece[0]]}_{piece[2]}$" if place % 2 else "".join(map(_character, piece))
        for place, piece in enumerate(pieces)
    )


def _character(character: str) -> str:
    known = _CHARACTERS.get(character)
    if known is not None:
        return known
    # LaTeX reads UTF-8, but has glyphs for little beyond Western letters.
    return character if character.isascii() or "À" <= character <= "ÿ" else "?"


def latex_table(table: TableText, *, runs: int, seed: int) -> str:
    """A floating table with its caption, its notes and the legend of its marks."""
    lines = [
        r"% Needs \usepackage{booktabs}.",
        r"\begin{table}",
        r"\centering",
        r"\footnotesize",
        r"\setlength{\tabcolsep}{3.5pt}",
        rf"\caption{{{_caption(table, runs, seed)}}}",
        rf"\label{{tab:{table.key}}}",
        r"\smallskip",
        *_main(table),
        *(_quantiles(table) if table.heavy and table.counts_pulls else ()),
        r"\par\smallskip",
        r"\begin{minipage}{\linewidth}\scriptsize",
        _LEGEND,
        *(rf"\textsuperscript{{{letter}}} {escape(sentence)}" for letter, sentence in table.notes),
        r"\end{minipage}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _caption(table: TableText, runs: int, seed: int) -> str:
    return (
        f"{escape(table.title)}. {escape(table.protocol)} Ours: {runs} runs with seed {seed} and "
        r"95\,\% intervals; published: 100 runs."
    )


def _main(table: TableText) -> Iterator[str]:
    rate = table.rate.capitalize()
    if table.counts_pulls:
        yield r"\begin{tabular}{@{}lrrrrcrrrc@{}}"
        yield r"\toprule"
        yield rf"& \multicolumn{{5}}{{c}}{{Pulls}} & \multicolumn{{4}}{{c}}{{{rate}}} \\"
        yield r"\cmidrule(lr){2-6}\cmidrule(l){7-10}"
        yield r"Method & mean & 95\,\% & median & published & & ours & 95\,\% & published & \\"
    else:
        yield r"\begin{tabular}{@{}lrrrc@{}}"
        yield r"\toprule"
        yield rf"Method & {table.rate} & 95\,\% & published & \\"
    width = 10 if table.counts_pulls else 5
    yield r"\midrule"
    yield from _grouped(table.rows, width, _row)
    yield r"\bottomrule"
    yield r"\end{tabular}"


def _grouped(rows: Sequence[RowText], width: int, line: Callable[[RowText], str]) -> Iterator[str]:
    """The paper's rows, then ours, separated."""
    yield from (line(row) for row in rows if not row.ours)
    ours = [row for row in rows if row.ours]
    if ours:
        yield r"\addlinespace"
        yield rf"\multicolumn{{{width}}}{{@{{}}l}}{{\emph{{Not in the paper}}}} \\"
        yield from (line(row) for row in ours)


def _name(row: RowText) -> str:
    note = rf"\textsuperscript{{{row.note}}}" if row.note else ""
    return escape(row.label) + note


def _row(row: RowText) -> str:
    rate = row.rate
    texts = [escape(rate.value), _interval(rate), escape(rate.printed), _mark(rate)]
    if row.pulls is not None:
        pulls = row.pulls
        middle = escape(pulls.median), escape(pulls.printed), _mark(pulls)
        texts = [escape(pulls.value), _interval(pulls), *middle, *texts]
    return " & ".join([_name(row), *texts]) + r" \\"


def _interval(cell: CellText) -> str:
    return escape(cell.interval.replace(" to ", "–"))


def _mark(cell: CellText) -> str:
    return _MARKS.get(cell.verdict, "")


def _quantiles(table: TableText) -> Iterator[str]:
    yield r"\par\medskip"
    yield r"\begin{tabular}{@{}lrrrrrr@{}}"
    yield r"\toprule"
    yield r"Pulls & 10\,\% & 25\,\% & median & 75\,\% & 90\,\% & sd \\"
    yield r"\midrule"
    yield from _grouped(table.rows, 7, _quantile_row)
    yield r"\bottomrule"
    yield r"\end{tabular}"


def _quantile_row(row: RowText) -> str:
    assert row.pulls is not None
    texts = map(escape, (*row.pulls.quantiles, row.pulls.spread))
    return " & ".join([escape(row.label), *texts]) + r" \\"
