"""Pictures: every figure is where its numbers are, no label covers another, bytes repeat."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from reported import replication
from tiny_tables import WORLD, data

from bestarm.geometry import Array
from bestarm.policies import SBE
from bestarm.records import Phase, Recommendation
from bestarm.replication import Cell, Row, Table, cells, paper_tables
from bestarm.replication.pictures import ink, pictures
from bestarm.replication.pictures.elimination import course, courses
from bestarm.replication.pictures.labels import Label, along, around, place
from bestarm.replication.pictures.stopping import draw_stopping
from bestarm.replication.pictures.tradeoff import draw_tradeoff
from bestarm.replication.published import Published

LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)


def planted(table: Table) -> list[Cell]:
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


def overlaps(one: Array, other: Array) -> Array:
    """Which box of the first covers which of the second."""
    low = np.maximum(one[:, None, :2], other[None, :, :2])
    high = np.minimum(one[:, None, 2:], other[None, :, 2:])
    return np.asarray((low < high).all(axis=2))


def apart(boxes: Array) -> bool:
    return int(overlaps(boxes, boxes).sum()) == len(boxes)  # each covers itself


@pytest.mark.parametrize("name", ["small-gap", "uniform", "jester"])
def test_no_label_of_the_papers_tables_covers_another(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor a mark: what `place` is told to leave free stays free."""
    table = paper_tables([name], data())[0]
    seen: list[tuple[Array, Array, list[str]]] = []

    def watched(axes: object, labels: list[Label], taken: Array) -> Array:
        boxes = place(axes, labels, taken)  # type: ignore[arg-type]
        seen.append((boxes, taken, [label.text for label in labels]))
        return boxes

    monkeypatch.setattr("bestarm.replication.pictures.tradeoff.place", watched)
    with ink.style():
        draw_tradeoff(table, planted(table))
    ((boxes, taken, texts),) = seen
    assert {row.label for row in table.rows if ink.grid(row)[1] is None} <= set(texts)
    assert len(boxes) == len(texts) >= len(table.rows)
    assert apart(boxes)
    assert not overlaps(boxes, taken).any()


def test_a_label_goes_to_the_nearest_free_place() -> None:
    with ink.style():
        figure = ink.new_figure(5, 4)
        axes = figure.subplots()
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        ink.settle(figure)
        free = np.empty((0, 4))
        (box,) = place(axes, [Label("alone", 0.5, 0.5, ink.INK)], free)
        x, y = axes.transData.transform((0.5, 0.5))
        assert x < box[0] < x + 12 * figure.dpi / 72  # to the right, close by
        assert box[1] < y < box[3]
        wall = along(axes, (0.5, 0.5), (1.0, 0.5))
        (other,) = place(axes, [Label("alone", 0.5, 0.5, ink.INK)], wall)
        assert not overlaps(other[None], wall).any()
        assert overlaps(box[None], wall).any()
        (edge,) = place(axes, [Label("at the edge", 1.0, 1.0, ink.INK)], free)
        room = axes.get_window_extent().extents
        assert (edge[:2] >= room[:2]).all()
        assert (edge[2:] <= room[2:]).all()
        crowd = [Label(f"number {i}", 0.5, 0.5, ink.INK) for i in range(12)]
        boxes = place(axes, crowd, around(axes, np.array([0.5, 0.5]), 3))
        assert apart(boxes)


def test_marks_are_where_the_numbers_are() -> None:
    table = paper_tables(["small-gap"], data())[0]
    with ink.style():
        (axes,) = draw_tradeoff(table, planted(table)).axes
    marks = {
        (float(np.asarray(line.get_xdata())[0]), float(np.asarray(line.get_ydata())[0]))
        for line in axes.lines
        if line.get_marker() not in (None, "None", "")
    }
    for row in table.rows:
        printed = table.printed(row, "pulls"), table.printed(row, "error")
        if printed[0] is not None and printed[1] is not None:
            assert (printed[0].value, printed[1].value) in marks
            assert (0.93 * printed[0].value, printed[1].value) in marks
        else:
            assert (100_000.0, 0.05) in marks
    levels = [list(np.asarray(line.get_ydata())) for line in axes.lines]
    assert [table.delta, table.delta] in levels


def test_success_is_drawn_as_its_complement() -> None:
    row = Row("sbe", "SBE", SBE, WORLD)
    table = Table("jester", "", "", (row,), rate="success")
    own = [
        Cell("jester", "sbe", "pulls", 50.0, -4.0, 104.0, 9.0, 5, dict.fromkeys(LEVELS, 50.0)),
        Cell("jester", "sbe", "success", 0.75, 0.5, 0.9, None, 5, None, Published(0.98, None)),
    ]
    with ink.style():
        (axes,) = draw_tradeoff(table, own).axes
    lines = [[float(y) for y in np.asarray(line.get_ydata())] for line in axes.lines]
    assert [0.25] in lines
    assert any(line == pytest.approx([0.1, 0.5]) for line in lines)
    across = [line for line in axes.lines if list(np.asarray(line.get_xdata()))[-1:] == [104.0]]
    assert across
    assert float(np.asarray(across[0].get_xdata())[0]) > 0  # an end below 0 has no logarithm


def test_stopping_times_are_counted_in_full() -> None:
    made = replication()
    table = made.tables[0]
    own = [cell for cell in cells(made) if cell.table == table.key]
    with ink.style():
        (axes,) = draw_stopping(made, table, own).axes
    low, high = axes.get_xlim()
    for row, cell in zip(table.rows, (c for c in own if c.metric == "pulls"), strict=True):
        pulls = made.of(table, row).pulls
        assert low < pulls.min() <= pulls.max() < high
        assert cell.quantiles is not None
        medians = [line for line in axes.lines if line.get_marker() == "|"]
        assert cell.quantiles[0.5] in [float(np.asarray(m.get_xdata())[0]) for m in medians]
    assert [text.get_text() for text in axes.get_yticklabels()] == [
        "SBE",
        "G-Opt",
        "Centered <b> *",
    ]


def ran(sizes: list[int], left: int, pulls: list[int]) -> Recommendation:
    """A run whose phases began with so many targets."""
    trace = [
        Phase(i, tuple(range(n)), (), 0, (), (), 0.1, k, np.ones(1), 1.0, 0.0, None)
        for i, (n, k) in enumerate(zip(sizes, pulls, strict=True))
    ]
    return Recommendation(0, "0", True, "", sum(pulls), None, tuple(range(left)), trace)


def test_a_finished_run_keeps_what_it_had_left() -> None:
    row = Row("sbe", "SBE", SBE, WORLD)
    found = course(row, [ran([8, 4], 1, [10, 20]), ran([8, 6, 4], 2, [5, 5, 5])])
    assert found.left.tolist() == [8, 5, 2.5, 1.5]
    assert found.ends[0].tolist() == [0, 10, 30]
    assert found.counts[1].tolist() == [8, 6, 4, 2]
    assert found.runs == 2


def test_the_runs_followed_are_the_runs_that_were_made() -> None:
    made = replication()
    table = made.tables[0]
    followed = courses(made, table)
    assert [one.row.key for one in followed] == ["sbe", "sp-bai-centered"]  # G-Opt has no phases
    for one in followed:
        assert [int(ends[-1]) for ends in one.ends] == made.of(table, one.row).pulls.tolist()
        assert one.left[0] == 4
    (grid,) = [table for table in made.tables if table.key == "jester"]
    assert courses(made, grid) == []


def test_the_users_own_style_changes_nothing(tmp_path: Path) -> None:
    made = replication()
    table = made.tables[1]
    own = [cell for cell in cells(made) if cell.table == table.key]

    def drawn(folder: Path) -> dict[str, bytes]:
        folder.mkdir()
        with ink.style():
            (picture,) = pictures(made, table, own)
            ink.save(picture.figure, folder / picture.name)
            page = ink.svg(picture.figure, picture.name)
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


def test_a_picture_in_a_page_takes_the_pages_colours_and_keeps_its_ids_apart() -> None:
    made = replication()
    table = made.tables[1]
    own = [cell for cell in cells(made) if cell.table == table.key]
    with ink.style():
        (picture,) = pictures(made, table, own)
        text = ink.svg(picture.figure, "here")
    assert text.startswith("<svg viewBox=")
    assert "var(--blue)" in text
    assert set(re.findall(r"#[0-9a-f]{6}", text)) <= {"#000000"}
    names = re.findall(r'id="([^"]*)"', text)
    assert all(name.startswith("here-") for name in names)
    used = re.findall(r'href="#([^"]*)"|url\(#([^)]*)\)', text)
    assert {one or other for one, other in used} <= set(names)
    assert "<style" not in text
    assert "<metadata" not in text
