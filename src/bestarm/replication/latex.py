"""Tables for LaTeX: one file each, to be read with \\input by a document that loads booktabs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from bestarm.replication.texts import CellText, RowText, TableText, prose

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
    r"$\bullet$ consistent; $\circ$ the published difference is within noise; "
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
    # LaTeX reads UTF-8, but has glyphs for little beyond Western letters.
    known = character.isascii() or "À" <= character <= "ÿ"
    return _CHARACTERS.get(character, character if known else "?")


def latex_table(text: TableText, *, runs: int, seed: int) -> str:
    """A floating table with its caption, its notes and the legend of its marks."""
    table = text.table
    lines = [
        r"% Needs \usepackage{booktabs}.",
        r"\begin{table}",
        r"\centering",
        r"\footnotesize",
        r"\setlength{\tabcolsep}{3.5pt}",
        rf"\caption{{{escape(table.title)}. {escape(prose(table.protocol))} Ours: {runs} runs with "
        rf"seed {seed} and 95\,\% intervals; published: {table.published_runs} runs.}}",
        rf"\label{{tab:{table.key}}}",
        r"\smallskip",
        *_main(text),
        *(_quantiles(text) if table.heavy and table.counts_pulls else ()),
        r"\par\smallskip",
        r"\begin{minipage}{\linewidth}\scriptsize",
        _LEGEND,
        *(rf"\textsuperscript{{{letter}}} {escape(sentence)}" for letter, sentence in text.notes),
        r"\end{minipage}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _main(text: TableText) -> Iterator[str]:
    rate = text.table.rate
    if not text.table.counts_pulls:
        return _tabular("lrrrc", [rf"Method & {rate} & 95\,\% & published & \\"], text, _row)
    groups = rf"\multicolumn{{5}}{{c}}{{Pulls}} & \multicolumn{{4}}{{c}}{{{rate.capitalize()}}}"
    heads = [
        rf"& {groups} \\",
        r"\cmidrule(lr){2-6}\cmidrule(l){7-10}",
        r"Method & mean & 95\,\% & median & published & & ours & 95\,\% & published & \\",
    ]
    return _tabular("lrrrrcrrrc", heads, text, _row)


def _quantiles(text: TableText) -> Iterator[str]:
    yield r"\par\medskip"
    head = r"Pulls & 10\,\% & 25\,\% & median & 75\,\% & 90\,\% & sd \\"
    yield from _tabular("lrrrrrr", [head], text, _quantile_row)


def _tabular(
    columns: str, heads: Sequence[str], text: TableText, line: Callable[[RowText], Sequence[str]]
) -> Iterator[str]:
    """The paper's rows, then ours, separated."""
    yield rf"\begin{{tabular}}{{@{{}}{columns}@{{}}}}"
    yield r"\toprule"
    yield from heads
    yield r"\midrule"
    for ours, rows in groupby(text.rows, key=lambda row: row.row.ours):
        if ours:
            yield r"\addlinespace"
            yield rf"\multicolumn{{{len(columns)}}}{{@{{}}l}}{{\emph{{Not in the paper}}}} \\"
        yield from (" & ".join(line(row)) + r" \\" for row in rows)
    yield r"\bottomrule"
    yield r"\end{tabular}"


def _row(row: RowText) -> list[str]:
    name = escape(row.row.label) + (rf"\textsuperscript{{{row.note}}}" if row.note else "")
    pulls = () if row.pulls is None else _figures(row.pulls, row.pulls.median)
    return [name, *pulls, *_figures(row.rate)]


def _figures(cell: CellText, *more: str) -> list[str]:
    texts = map(escape, (cell.value, cell.interval.replace(" to ", "–"), *more, cell.printed))
    return [*texts, _MARKS.get(cell.verdict, "")]


def _quantile_row(row: RowText) -> list[str]:
    assert row.pulls is not None
    return [escape(row.row.label), *map(escape, (*row.pulls.quantiles, row.pulls.spread))]
