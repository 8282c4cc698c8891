"""Pictures: every mark is where its numbers are, every method is named, bytes repeat."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from tiny_studies import WORLD, published, replication

from bestarm.policies import SBE
from bestarm.simulation import Results
from bestarm.studies import Cell, Published, PublishedTable, Row
from bestarm.studies.pictures import (
    draw_stopping,
    draw_tradeoff,
    family,
    house_style,
    row_label,
    table_pictures,
    write_figure,
)

LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)


def reported(number: int) -> tuple[PublishedTable, dict[str, Results], list[Cell]]:
    """One table of a replication, with its results and its cells."""
    made = replication()
    table = made.study.tables[number]
    assert isinstance(table, PublishedTable)
    results = {row.key: made.of(table, row) for row in table.rows}
    return table, results, [cell for cell in made.cells if cell.table == table.key]


def planted(table: PublishedTable) -> list[Cell]:
    """Cells as close to the published ones as an honest replication's, for every row."""
    found = []
    for row in table.rows:
        pulls, rate = table.printed(row, "pulls"), table.printed(row, table.rate)
        mean = 100_000.0 if pulls is None else 0.93 * pulls.value
        share = (0.05 if table.rate == "error" else 0.95) if rate is None else rate.value
        quantiles = {q: mean * (0.5 + q) for q in LEVELS}
        ends = max(share - 0.03, 0.0), min(share + 0.03, 1.0)
        found += [
            Cell(
                table.key,
                row.key,
                "pulls",
                mean,
                0.9 * mean,
                1.1 * mean,
                mean,
                100,
                quantiles,
                pulls,
            ),
            Cell(table.key, row.key, table.rate, share, *ends, None, 100, None, rate),
        ]
    return found


@pytest.mark.parametrize("name", ["small-gap", "uniform", "jester"])
def test_the_legend_names_every_method_once(name: str) -> None:
    table = published(name)
    with house_style():
        (legend,) = draw_tradeoff(table, planted(table)).legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert {row_label(row) for row in table.rows if family(row)[1] is None} <= set(texts)
    families = {family(row)[0] for row in table.rows}
    assert len(set(texts)) == len(texts) == 2 + len(families) + 1  # ours, the paper's, asterisk
    assert ("LUCB (σ=1 to 4)" if name == "jester" else "RAGE (σ=1 to 4)") in texts


def test_marks_are_where_the_numbers_are() -> None:
    table = published("small-gap")
    with house_style():
        (axes,) = draw_tradeoff(table, planted(table)).axes
    marks = {
        (float(x), float(y))
        for line in axes.lines
        if line.get_marker() not in (None, "None", "")
        for x, y in np.asarray(line.get_xydata())
    }
    for row in table.rows:
        printed = table.printed(row, "pulls"), table.printed(row, "error")
        if printed[0] is not None and printed[1] is not None:
            assert (printed[0].value, printed[1].value) in marks
            assert (0.93 * printed[0].value, printed[1].value) in marks
        else:
            assert (100_000.0, 0.05) in marks
    levels = [np.asarray(line.get_ydata()).tolist() for line in axes.lines]
    assert [table.delta, table.delta] in levels


def test_success_is_drawn_as_its_complement() -> None:
    row = Row("sbe", "SBE", SBE, WORLD)
    table = PublishedTable("jester", "", "", (row,), rate="success")
    own = [
        Cell("jester", "sbe", "pulls", 50.0, -4.0, 104.0, 9.0, 5, dict.fromkeys(LEVELS, 50.0)),
        Cell("jester", "sbe", "success", 0.75, 0.5, 0.9, None, 5, None, Published(0.98, None)),
    ]
    with house_style():
        (axes,) = draw_tradeoff(table, own).axes
    (marks,) = [line for line in axes.lines if line.get_marker() == "s"]
    assert np.asarray(marks.get_ydata()).tolist() == [0.25]
    across, up = (np.array(bars.get_paths()[0].vertices) for bars in axes.collections)
    assert up[:, 1] == pytest.approx([0.1, 0.5])
    assert across[1, 0] == pytest.approx(104.0)
    assert across[0, 0] > 0  # an end below 0 has no logarithm


def test_stopping_times_are_counted_in_full() -> None:
    table, results, own = reported(0)
    with house_style():
        (axes,) = draw_stopping(table, results, own).axes
    low, high = axes.get_xlim()
    for row, cell in zip(table.rows, (c for c in own if c.metric == "pulls"), strict=True):
        pulls = results[row.key].pulls
        assert low < pulls.min() <= pulls.max() < high
        assert cell.quantiles is not None
        medians = [line for line in axes.lines if line.get_marker() == "|"]
        assert cell.quantiles[0.5] in [float(np.asarray(m.get_xdata())[0]) for m in medians]
    assert [text.get_text() for text in axes.get_yticklabels()] == [
        "SBE",
        "G-Opt",
        "As written <b> *",
    ]


def test_the_users_own_style_changes_nothing(tmp_path: Path) -> None:
    drawn_from = reported(1)

    def drawn(folder: Path) -> dict[str, bytes]:
        folder.mkdir()
        with house_style():
            (picture,) = table_pictures(*drawn_from)
            page = write_figure(picture.figure, folder / picture.name)
        return {"svg": page.encode()} | {
            file.suffix: file.read_bytes() for file in folder.iterdir()
        }

    plain = drawn(tmp_path / "plain")
    assert plain[".png"].startswith(b"\x89PNG")
    assert plain[".pdf"].startswith(b"%PDF")
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "red", "svg.hashsalt": "other"}):
        assert drawn(tmp_path / "styled") == plain
        assert mpl.rcParams["font.size"] == 30
    assert b"CreationDate" not in plain[".pdf"]
    assert b"Software" not in plain[".png"]


def test_a_picture_in_a_page_takes_the_pages_colours_and_keeps_its_ids_apart(
    tmp_path: Path,
) -> None:
    drawn_from = reported(1)
    with house_style():
        (picture,) = table_pictures(*drawn_from)
        text = write_figure(picture.figure, tmp_path / "here")
    assert text.startswith("<svg viewBox=")
    assert "var(--blue)" in text
    assert set(re.findall(r"#[0-9a-f]{6}", text)) <= {"#000000"}
    names = re.findall(r'id="([^"]*)"', text)
    assert all(name.startswith("here-") for name in names)
    used = re.findall(r'href="#([^"]*)"|url\(#([^)]*)\)', text)
    assert {one or other for one, other in used} <= set(names)
    assert "<style" not in text
    assert "<metadata" not in text
