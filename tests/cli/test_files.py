"""Which CSV files are read, and as what."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bestarm.cli.files import Table, read_table, write_table
from bestarm.errors import InvalidInputError

NUMBERS = [[1.0, 2.0], [3.0, 4.0]]


def read(path: Path, text: str) -> Table:
    file = path / "table.csv"
    file.write_text(text, encoding="utf-8")
    return read_table(file)


@pytest.mark.parametrize(
    "text",
    [
        "1,2\n3,4\n",
        "1,2\n3,4",
        "1,2\r\n3,4\r\n",
        "x,y\n1,2\n3,4\n",
        "\ufeffx,y\n1,2\n3,4\n",
        " 1 , 2.0 \n\n3e0,4\n",
        '"x","y"\n"1","2"\n"3","4"\n',
    ],
)
def test_numbers_with_and_without_a_header(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == Table(NUMBERS, None)


@pytest.mark.parametrize("header", ["", "name,x,y\n", ",x,y\n"])
def test_a_first_column_of_text_holds_labels(tmp_path: Path, header: str) -> None:
    assert read(tmp_path, f"{header}a,1,2\nb,3,4\n") == Table(NUMBERS, ["a", "b"])


def test_one_number_among_labels_is_a_label(tmp_path: Path) -> None:
    assert read(tmp_path, "a,1,2\n7,3,4\n").labels == ["a", "7"]


@pytest.mark.parametrize("columns", [None, ["x", "y"]])
def test_data_frames_come_back(tmp_path: Path, columns: list[str] | None) -> None:
    frame = pd.DataFrame(NUMBERS, columns=columns)
    for index in (True, False):
        path = tmp_path / "frame.csv"
        frame.to_csv(path, index=index, header=index or columns is not None)
        assert read_table(path) == Table(NUMBERS, ["0", "1"] if index else None)


def test_a_hole_in_the_first_field_is_no_header(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="line 1"):
        read(tmp_path, "5,,7\n3,4,6\n")
    assert read(tmp_path, ",0.5,7\n3,4,6\n").labels == ["", "3"]


def test_one_column_is_features_not_labels(tmp_path: Path) -> None:
    assert read(tmp_path, "x\n1\n2\n") == Table([[1.0], [2.0]], None)


def test_written_weights_are_read_back_to_the_last_bit(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(5)).tolist()
    names = ["plain", "with, comma", 'with "quotes"', "ünïcode", "5"]
    path = tmp_path / "weights.csv"
    write_table(path, ("label", "weight"), zip(names, weights, strict=True))
    assert read_table(path) == Table([[weight] for weight in weights], names)


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    def rows(good: int) -> Iterator[tuple[int]]:
        for number in range(good):
            yield (number,)
        raise KeyboardInterrupt

    path = tmp_path / "runs.csv"
    write_table(path, ("number",), [(1,)])
    with pytest.raises(KeyboardInterrupt):
        write_table(path, ("number",), rows(100_000))
    assert path.read_text() == "number\n1\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_one_and_a_device_is_written_to(tmp_path: Path) -> None:
    goal, link = tmp_path / "goal.csv", tmp_path / "link.csv"
    goal.touch()
    link.symlink_to(goal)
    write_table(link, ("number",), [(1,)])
    assert link.is_symlink()
    assert goal.read_text() == "number\n1\n"
    write_table(Path("/dev/null"), ("number",), [(1,)])
    assert Path("/dev/null").is_char_device()
