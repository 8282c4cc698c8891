"""The report: complete, self-contained, the same bytes every time, and never half-written."""

from __future__ import annotations

import csv
import math
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from tiny_studies import RUNS, data, published, replicated, replication

from bestarm.errors import InvalidInputError
from bestarm.simulation import Outcome
from bestarm.simulation.folder import exclusive
from bestarm.studies import (
    SP_BAI,
    Cell,
    Published,
    PublishedTable,
    Replication,
    StudyResults,
    write_report,
)
from bestarm.studies.differences import paper_differences
from bestarm.studies.replication import (
    main_table,
    number,
    p_text,
    prose,
    signed,
    verdicts_in_words,
)
from bestarm.tables import to_latex

VOID = {"meta", "br", "img", "input", "hr", "link"}


class Outline(HTMLParser):
    """What a page is made of; complains where its elements do not nest."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.elements: set[str] = set()
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src", "xlink:href", "srcset", "action"):
                self.links.append(value or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"[ \n]+", " ", " ".join(self.words))


def outline(text: str) -> Outline:
    found = Outline()
    found.feed(text)
    found.close()
    assert not found.open
    return found


def study() -> Replication:
    made = replication().study
    assert isinstance(made, Replication)
    return made


def with_tables(*tables: PublishedTable) -> StudyResults[Cell]:
    """The results with these tables only."""
    return replace(replication(), study=replace(study(), tables=tables))


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports without pictures, which take longer than all the rest."""
    monkeypatch.setattr("bestarm.studies.replication.table_pictures", lambda *_: ())


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report") / "new"
    assert write_report(replication(), folder) == folder / "report.html"
    return folder


@pytest.fixture(scope="module")
def text(report: Path) -> str:
    return (report / "report.html").read_text(encoding="utf-8")


def test_everything_is_there_and_nothing_else(report: Path) -> None:
    figures = [
        "small-gap-tradeoff",
        "small-gap-stopping",
        "jester-ranking-success",
        "jester-tradeoff",
        "jester-stopping",
    ]
    expected = {f"figures/{name}.{ending}" for name in figures for ending in ("png", "pdf")}
    expected |= {f"tables/{key}.tex" for key in ("small-gap", "jester-ranking", "jester")}
    expected |= {"report.html", "report.md", "runs.csv", "cells.csv"}
    assert set(files(report)) == expected


def test_the_same_bytes_with_other_workers_and_over_an_old_report(
    report: Path, tmp_path: Path
) -> None:
    with ThreadPoolExecutor(2) as executor:
        again = replicated(executor)
    (tmp_path / "runs.csv").write_text("old", encoding="utf-8")
    (tmp_path / ".report").mkdir()  # of a process that was killed
    (tmp_path / ".report" / "runs.csv").write_text("half", encoding="utf-8")
    write_report(again, tmp_path)
    assert files(tmp_path) == files(report)


@pytest.mark.usefixtures("no_pictures")
def test_a_failure_leaves_the_old_files_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = {"report.html": b"old page", "runs.csv": b"old runs", "figures/mine.png": b"mine"}
    for name, content in old.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)

    def broken(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("bestarm.studies.report.page", broken)
    with pytest.raises(KeyboardInterrupt):
        write_report(replication(), tmp_path)
    assert files(tmp_path) == old
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != ".lock") == [
        "figures",
        "report.html",
        "runs.csv",
    ]


def test_a_link_in_the_place_of_the_new_report_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / ".report").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        write_report(replication(), folder)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_folder_that_cannot_be_written_is_an_os_error(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("mine", encoding="utf-8")
    with pytest.raises(OSError, match="file"):
        write_report(replication(), taken)
    assert files(tmp_path) == {"file": b"mine"}


def test_an_unfinished_replication_is_not_reported(tmp_path: Path) -> None:
    made = replication()
    some = dict(list(made.results.items())[:-1])
    for unfinished in (replace(made, results=some), replace(made, interrupted=True)):
        with pytest.raises(InvalidInputError, match="not finished"):
            write_report(unfinished, tmp_path / "none")
    assert not list(tmp_path.iterdir())


def test_one_run_can_be_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No spread, no interval: dashes, and no difference is judged."""
    drawn: list[str] = []

    def draw(figure: Figure, stem: Path) -> str:
        figure.draw_without_rendering()
        drawn.append(stem.name)
        return ""

    monkeypatch.setattr("bestarm.studies.report.write_figure", draw)
    made = replicated(runs=1)
    single = replace(made, study=replace(study(), tables=study().tables[:1]))
    found = outline(write_report(single, tmp_path).read_text(encoding="utf-8"))
    assert "nan" not in found.text.lower().split()
    assert "A single run has no spread" in found.text
    assert drawn == ["small-gap-tradeoff", "small-gap-stopping"]


def test_the_page_needs_nothing_else(text: str) -> None:
    found = outline(text)
    assert not {"script", "link", "img", "iframe", "object"} & found.elements
    assert "http" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", text)
    assert "@import" not in text
    assert {"svg", "table", "figure", "main"} <= found.elements
    assert len(found.ids) == len(set(found.ids))
    assert {link[0] for link in found.links} == {"#"}
    used = {link[1:] for link in found.links} | set(re.findall(r"url\(#([^)]*)\)", text))
    assert used <= set(found.ids)
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    assert 'name="viewport"' in text


def test_every_colour_of_the_pictures_is_one_of_the_page(text: str) -> None:
    light, dark = re.findall(r":root \{(.*?)\}", text, re.S)
    used = set(re.findall(r"var\((--[\w-]+)\)", text))
    for theme in (light, dark):
        assert used <= set(re.findall(r"(--[\w-]+):", theme))


def test_the_page_says_what_was_found(text: str) -> None:
    found = outline(text).text
    judged = replication().cells
    assert verdicts_in_words(judged) in found
    assert f"{RUNS} of each row" in found
    for cell in judged:
        if cell.metric == "pulls":
            assert number(cell.value, 2 if cell.table == "small-gap" else 1) in found
    verdicts = sum(cell.verdict is not None for cell in judged)
    tags = re.findall(r'<td class="verdict"[^>]*><span title="p (?:=|&lt;) [\d.]+ before', text)
    assert len(tags) == verdicts
    assert "Tiny & <small>, 100 % of $5_000" in found
    assert "As written <b>" in found
    assert "<small>, 100" not in text
    assert "ν<sub>t</sub>" in text
    apart = text.index("Not in the paper")
    assert text.index("G-Opt</th>") < apart < text.index("As written &lt;b&gt;")
    assert "published difference is within the noise of the published runs" in found
    assert "With fewer than 1000 of our own runs" in found
    assert f"bestarm reproduce small-gap jester-ranking jester --runs {RUNS} --seed 3" in found


def test_means_that_a_few_runs_carry_have_a_warning(text: str) -> None:
    heavy, _, grid = re.findall(
        r"<section id=\"(?:small-gap|jester.*?)\">.*?</section>", text, re.S
    )
    assert "may be false alarms" in heavy
    assert "may be false alarms" not in grid


@pytest.mark.usefixtures("no_pictures")
def test_made_up_users_are_announced_where_they_are_used(text: str, tmp_path: Path) -> None:
    assert data().synthetic
    assert "Made-up users." in text
    assert prose(data().source) in outline(text).text
    real = replace(study(), data=replace(data(), synthetic=False), tables=study().tables[1:2])
    page = write_report(replace(replication(), study=real), tmp_path / "real").read_text("utf-8")
    assert "Made-up users." not in page
    assert "--data RATINGS" in page
    page = write_report(with_tables(study().tables[0]), tmp_path / "none").read_text("utf-8")
    found = outline(page).text
    assert "made-up users" not in found.lower()
    assert "RATINGS" not in found


def test_every_run_is_in_the_csv(report: Path) -> None:
    raw = (report / "runs.csv").read_bytes()
    assert b"\r" not in raw
    lines = list(csv.DictReader(raw.decode().splitlines()))
    made = replication()
    place = 0
    for table, row in made.study.rows():
        results = made.of(table, row)
        part = lines[place : place + results.runs]
        place += results.runs
        assert {line["row"] for line in part} == {row.key}
        assert {line["method"] for line in part} == {results.method}
        for column in Outcome._fields:
            values = results.index if column == "run" else getattr(results, column)
            assert [int(line[column]) for line in part] == values.astype(int).tolist()
        good = row.succeeded(results).astype(int)
        assert [int(line["success"]) for line in part] == good.tolist()
    assert place == len(lines)
    capped = [line for line in lines if line["table"] == "jester"]
    assert any(line["correct"] == "1" and line["success"] == "0" for line in capped)


def test_every_cell_is_in_the_csv_to_the_last_digit(report: Path) -> None:
    lines = list(csv.DictReader((report / "cells.csv").read_text(encoding="utf-8").splitlines()))
    for line, cell in zip(lines, replication().cells, strict=True):
        assert (line["table"], line["row"], line["metric"]) == (cell.table, cell.row, cell.metric)
        assert float(line["value"]) == cell.value
        assert (float(line["low"]), float(line["high"])) == (cell.low, cell.high)
        assert line["verdict"] == (cell.verdict or "")
        assert line["published"] == ("" if cell.printed is None else repr(cell.printed.value))
        if cell.quantiles is None:
            assert line["q50"] == ""
        else:
            assert float(line["q50"]) == cell.quantiles[0.5]


def test_numbers_in_print() -> None:
    thin, minus = "\N{NARROW NO-BREAK SPACE}", "\N{MINUS SIGN}"
    assert number(1_234_567.891, 2) == f"1{thin}234{thin}567.89"
    assert number(-1234) == f"{minus}1{thin}234"
    assert number(-0.001, 2) == "0.00"
    assert number(math.nan) == "–"
    assert prose("5 000 000 of 11,004 at 7, 8 in 2 of 3000") == (
        f"5{thin}000{thin}000 of 11{thin}004 at 7, 8 in 2 of 3000"
    )


def test_counts_in_words() -> None:
    one = Cell("t", "r", "pulls", 1, 1, 1, 0, 5, p_value=0.0, verdict="differs")
    assert verdicts_in_words([one]) == "1 cell: 0 consistent, 0 within noise, 1 differs"
    several = [one, one, replace(one, verdict=None), replace(one, verdict="consistent")]
    assert verdicts_in_words(several) == "3 cells: 1 consistent, 0 within noise, 2 differ"


def test_differences_in_print(text: str) -> None:
    assert [signed(value, 3) for value in (-0.0004, -0.12, 0.0996)] == ["0.000", "−0.120", "+0.100"]
    found = paper_differences(replication(), study().tables)
    assert found
    for part in found:
        shown = f">{part.first} − {part.second}, {part.metric}</th>"
        line = next(line for line in text.splitlines() if shown in line)
        decimals = 0 if part.metric == "pulls" else 3
        assert (
            f">{signed(part.printed, min(decimals, 2))}<small>{escape(p_text(part.p_value))}<"
            in line
        )
        ends = f"{signed(part.low, decimals)} to {signed(part.high, decimals)}"
        assert f">{signed(part.value, decimals)}<small>{ends}<" in line
        assert part.finding in line
        assert part.sentence in line


@pytest.mark.usefixtures("no_pictures")
def test_an_earlier_report_s_files_go_and_those_of_others_stay(tmp_path: Path) -> None:
    for name in ("figures/uniform-tradeoff.png", "figures/mine.png", "tables/uniform.tex"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"old")
    write_report(replication(), tmp_path)
    names = set(files(tmp_path))
    assert "figures/mine.png" in names
    assert not names & {"figures/uniform-tradeoff.png", "tables/uniform.tex"}


def test_a_folder_that_is_being_written_to_is_left_alone(tmp_path: Path) -> None:
    pytest.importorskip("fcntl", reason="this system has no file locks of this kind")
    with exclusive(tmp_path), pytest.raises(InvalidInputError, match="Another process"):
        write_report(replication(), tmp_path)


def test_a_line_of_latex_says_what_its_cells_say() -> None:
    table = published("uniform")
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
        Cell(
            "uniform",
            row.key,
            "error",
            0.03,
            0.0103,
            0.0844,
            None,
            100,
            p_value=0.0,
            verdict="differs",
        ),
    ]
    one = replace(table, rows=(row,))
    text = main_table(one, judged).to_latex()
    assert (
        r"SBE\textsuperscript{a} & 1\,152\,001.41 & 704\,593--1\,599\,410 & 349\,826 & "
        r"1\,523\,534.64 & $\bullet$ & 0.03 & 0.010--0.084 &  & $\times$ \\"
    ) in text


def test_the_papers_own_words_have_names_in_latex() -> None:
    """No label, protocol or note of the real tables loses a character."""
    for table in SP_BAI.tables((), data()):
        words = [table.title, table.protocol, *(f"{r.label} {r.protocol}" for r in table.rows)]
        assert "?" not in to_latex(" ".join(words)).replace("ratings?", "")
