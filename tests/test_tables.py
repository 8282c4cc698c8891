"""Tables as Markdown and LaTeX: they compile, and say what their entries say."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
from needed import need

from bestarm.tables import THIN_SPACE, Column, Entry, Line, TextTable, latex_float, to_latex

MARKS = {"good": r"$\bullet$", "bad": r"$\times$"}
NOTES = (("a", "At most 5 % of $5_000 & δ."),)


def table(**options: object) -> TextTable:
    """Groups, intervals, marks, a column for pages and one for print, sections and notes."""
    columns = (
        Column("Method", align="l"),
        Column("mean", "Pulls", interval=True),
        Column("sd", "Pulls", page_only=True),
        Column("verdict", "Pulls", align="c", marks=MARKS),
        Column("share", "Error"),
    )
    first = (Entry("1 000", "900 to 1 100"), Entry("7"), Entry("good"), Entry("0.1", small=("n",)))
    second = (Entry("−5", "exact"), Entry("8"), Entry(), Entry("9", bold=True, printed="wrong 9 %"))
    lines = (Line("A_1 (σ=2)", first, note="a"), Line("a|b", second, section="Not in & print"))
    return TextTable(columns, lines, **options)  # type: ignore[arg-type]


@cache
def written() -> str:
    return latex_float(
        [table(), table(title="Again & again")],
        caption="50 % of ν_t",
        label="tab:x",
        legend=r"$\bullet$ good.",
        notes=NOTES,
    )


def test_html_escapes_every_text_and_names_no_colour() -> None:
    bad = "<script>alert(1)</script>"
    columns = (Column(bad, align="l"), Column(bad, group=bad))
    lines = (Line(bad, (Entry(bad),), section=bad, note=bad),)
    html = TextTable(columns, lines, title=f"{bad}\n{bad}").to_html()
    assert "<script" not in html
    assert html.count("&lt;script&gt;") == 9
    assert html.startswith("<p>&lt;script&gt;")
    assert "color" not in html


def test_html_has_what_print_has() -> None:
    html = table().to_html()
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in html.split("<tr>")[1:]]
    headings = [
        "Method",
        "Pulls, mean",
        f"Pulls, 95{THIN_SPACE}%",
        "Pulls, verdict",
        "Error, share",
    ]
    assert rows[0] == headings
    assert rows[1] == ["A_1 (σ=2) (a)", "1 000", "900–1 100", "good", "0.1"]
    assert rows[2:] == [["Not in &amp; print"], ["a|b", "−5", "exact", "", "wrong 9 %"]]


def test_markdown_has_the_columns_of_print() -> None:
    assert table().to_markdown().splitlines() == [
        f"| Method | Pulls, mean | Pulls, 95{THIN_SPACE}% | Pulls, verdict | Error, share |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| A_1 (σ=2) (a) | 1 000 | 900–1 100 | good | 0.1 |",
        "| *Not in & print* |  |  |  |  |",
        "| a&#124;b | −5 | exact |  | **wrong 9 %** |",
    ]


def test_plain_text_has_columns_below_each_other() -> None:
    assert str(table(title="Pulls")).splitlines() == [
        "Pulls",
        f"Method          Pulls, mean  Pulls, 95{THIN_SPACE}%  Pulls, verdict  Error, share",
        "A_1 (σ=2)             1 000    900–1 100            good           0.1",
        "Not in & print",
        "a|b                      −5        exact                     wrong 9 %",
    ]


def test_a_line_of_latex_says_what_its_entries_say() -> None:
    lines = table().to_latex().splitlines()
    assert lines[0] == r"\begin{tabular}{@{}lrrcr@{}}"
    assert lines[2] == r"& \multicolumn{3}{c}{Pulls} & \multicolumn{1}{c}{Error} \\"
    assert lines[3] == r"\cmidrule(lr){2-4}\cmidrule(l){5-5}"
    assert lines[4] == r"Method & mean & 95\,\% &  & share \\"
    first = r"A\_1 ($\sigma$=2)\textsuperscript{a} & 1 000 & 900--1 100 & $\bullet$ & 0.1 \\"
    assert lines[6] == first
    assert lines[8] == r"\multicolumn{5}{@{}l}{\emph{Not in \& print}} \\"
    assert lines[9] == r"a|b & $-$5 & exact &  & \textbf{wrong 9 \%} \\"


def test_a_page_has_its_own_columns_and_groups() -> None:
    assert table().printed() == [0, 2, 3]
    assert table().page_groups() == [("Pulls", 3), ("Error", 1)]
    plain = TextTable((Column("Method"), Column("pulls")), ())
    assert plain.page_groups() == []


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
    assert to_latex(text) == tex


def test_the_structure_is_sound() -> None:
    text = written()
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
    pattern = r"\\begin\{tabular\}\{@\{\}([lrc]+)@\{\}\}(.*?)\\end\{tabular\}"
    found = re.findall(pattern, written(), re.S)
    assert len(found) == 2
    for columns, body in found:
        lines = [line for line in body.split("\n") if line.endswith(r"\\")]
        assert len(lines) > 2
        for line in lines:
            spans = re.findall(r"\\multicolumn\{(\d+)\}", line)
            cells = len(re.findall(r"(?<!\\)&", line)) + 1
            assert cells - len(spans) + sum(map(int, spans)) == len(columns), line


def test_it_compiles(tmp_path: Path) -> None:
    need("pdflatex", package="texlive-latex-recommended")
    head = r"\documentclass{article}\usepackage{booktabs}\begin{document}"
    document = "\n".join([head, written(), r"\end{document}"])
    (tmp_path / "tables.tex").write_text(document, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "tables.tex"]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120, check=False)
    assert made.returncode == 0, made.stdout.decode(errors="replace")[-2000:]
