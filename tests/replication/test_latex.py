"""LaTeX tables: they compile, and mean what the cells say."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from needed import need
from reported import replication
from tiny_tables import data

from bestarm.replication import PAPERS, Cell
from bestarm.replication.latex import escape, latex_table
from bestarm.replication.tables import TABLES, Published
from bestarm.replication.texts import table_text


def written(runs: int = 6) -> dict[str, str]:
    made = replication()
    judged = made.cells()
    texts = [
        table_text(table, [cell for cell in judged if cell.table == table.key])
        for table in made.tables
    ]
    return {text.table.key: latex_table(text, runs=runs, seed=3) for text in texts}


@pytest.mark.parametrize(
    ("text", "tex"),
    [
        ("σ=1 & δ", r"$\sigma$=1 \& $\delta$"),
        ("ν_t and a_b", r"$\nu_t$ and a\_b"),
        ("50 % of $5, #1 {x}", r"50 \% of \$5, \#1 \{x\}"),
        ("\\ ~ ^", r"\textbackslash{} \textasciitilde{} \textasciicircum{}"),
        ("−1\N{NARROW NO-BREAK SPACE}000 ± 2", r"$-$1\,000 $\pm$ 2"),
        ("Müller 漢", "Müller ?"),
    ],
)
def test_characters_that_mean_something_to_latex(text: str, tex: str) -> None:
    assert escape(text) == tex


@pytest.mark.parametrize("key", ["small-gap", "jester-ranking", "jester"])
def test_the_structure_is_sound(key: str) -> None:
    text = written()[key]
    bare = re.sub(r"\\[\\&%$#_{}]", "", re.sub(r"^%.*", "", text, flags=re.M))
    assert text.isascii()
    assert bare.count("{") == bare.count("}")
    assert not re.search(r"[%#_^~](?!t\$)", bare), bare  # but in a formula
    assert bare.count("$") % 2 == 0
    opened = re.findall(r"\\(begin|end)\{(\w+)\}", text)
    stack: list[str] = []
    for what, name in opened:
        if what == "begin":
            stack.append(name)
        else:
            assert stack.pop() == name
    assert not stack


def test_every_line_has_as_many_columns_as_its_table() -> None:
    for text in written().values():
        for columns, body in re.findall(
            r"\\begin\{tabular\}\{@\{\}([lrc]+)@\{\}\}(.*?)\\end\{tabular\}", text, re.S
        ):
            lines = [line for line in body.split("\n") if line.endswith(r"\\")]
            assert len(lines) > 2
            for line in lines:
                spans = re.findall(r"\\multicolumn\{(\d+)\}", line)
                cells = len(re.findall(r"(?<!\\)&", line)) + 1
                assert cells - len(spans) + sum(map(int, spans)) == len(columns), line


def test_a_line_says_what_its_cells_say() -> None:
    table = PAPERS["sp-bai"].tables(["uniform"], data())[0]
    row = table.rows[0]
    judged = [
        Cell(
            "uniform",
            row.key,
            "pulls",
            1_152_001.41,
            704_592.7,
            1_599_410.1,
            2_282_739.6,
            100,
            dict(zip((0.1, 0.25, 0.5, 0.75, 0.9), (1e4, 2e4, 349_826.0, 8e5, 1e6), strict=True)),
            Published(1_523_534.64, 2_822_607.36),
            0.25,
            "consistent",
        ),
        Cell("uniform", row.key, "error", 0.03, 0.0103, 0.0844, None, 100, verdict="differs"),
    ]
    text = latex_table(table_text(replace(table, rows=(row,)), judged), runs=100, seed=0)
    assert (
        r"SBE\textsuperscript{a} & 1\,152\,001.41 & 704\,593--1\,599\,410 & 349\,826 & "
        r"1\,523\,534.64 & $\bullet$ & 0.03 & 0.010--0.084 &  & $\times$ \\"
    ) in text
    assert r"SBE & 10\,000 & 20\,000 & 349\,826 & 800\,000 & 1\,000\,000 & 2\,282\,740 \\" in text


def test_the_papers_own_words_have_names_in_latex() -> None:
    """No label, protocol or note of the real tables loses a character."""
    for table in PAPERS["sp-bai"].tables(TABLES, data()):
        words = [table.title, table.protocol, *(f"{r.label} {r.protocol}" for r in table.rows)]
        assert "?" not in escape(" ".join(words)).replace("ratings?", "")


def test_it_compiles(tmp_path: Path) -> None:
    need("pdflatex", package="texlive-latex-recommended")
    head = r"\documentclass{article}\usepackage{booktabs}\begin{document}"
    document = "\n".join([head, *written().values(), r"\end{document}"])
    (tmp_path / "tables.tex").write_text(document, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "tables.tex"]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120, check=False)
    assert made.returncode == 0, made.stdout.decode(errors="replace")[-2000:]
