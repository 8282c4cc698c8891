"""Which CSV files are read, and as what."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bestarm.cli.experiment.changes import read_outcomes
from bestarm.cli.features import FeatureTable, read_table, write_table
from bestarm.errors import InvalidInputError

NUMBERS = [[1.0, 2.0], [3.0, 4.0]]


def read(path: Path, text: str) -> FeatureTable:
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
    assert read(tmp_path, text) == FeatureTable(NUMBERS, None)


@pytest.mark.parametrize("header", ["", "name,x,y\n", ",x,y\n"])
def test_a_first_column_of_text_holds_labels(tmp_path: Path, header: str) -> None:
    assert read(tmp_path, f"{header}a,1,2\nb,3,4\n") == FeatureTable(NUMBERS, ["a", "b"])


def test_one_number_among_labels_is_a_label(tmp_path: Path) -> None:
    assert read(tmp_path, "a,1,2\n7,3,4\n").labels == ["a", "7"]


@pytest.mark.parametrize("columns", [None, ["x", "y"]])
def test_data_frames_come_back(tmp_path: Path, columns: list[str] | None) -> None:
    frame = pd.DataFrame(NUMBERS, columns=columns)
    for index in (True, False):
        path = tmp_path / "frame.csv"
        frame.to_csv(path, index=index, header=index or columns is not None)
        assert read_table(path) == FeatureTable(NUMBERS, ["0", "1"] if index else None)


def test_a_hole_in_the_first_field_is_no_header(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="line 1"):
        read(tmp_path, "5,,7\n3,4,6\n")
    with pytest.raises(InvalidInputError, match="empty label in line 1"):
        read(tmp_path, ",0.5,7\n3,4,6\n")


def test_one_column_is_features_not_labels(tmp_path: Path) -> None:
    assert read(tmp_path, "x\n1\n2\n") == FeatureTable([[1.0], [2.0]], None)


@pytest.mark.parametrize("header", ["", "name\n", "Label\n", "option\n"])
def test_names_alone_have_a_feature_each(tmp_path: Path, header: str) -> None:
    assert read(tmp_path, f"{header}old\nnew\n") == FeatureTable(
        [[1.0, 0.0], [0.0, 1.0]], ["old", "new"]
    )


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("a,1,2\nb,3,4\na,5,6\n", "the label 'a' in line 1 and in line 3"),
        ("old\nold\n", "the label 'old' in line 1 and in line 2"),
        (" ,1,2\nb,3,4\n", "an empty label in line 1"),
    ],
)
def test_labels_are_there_and_unique(tmp_path: Path, text: str, where: str) -> None:
    with pytest.raises(InvalidInputError, match=where):
        read(tmp_path, text)


@pytest.mark.parametrize("mark", [";", "\t"])
def test_the_first_line_says_what_is_between_fields(tmp_path: Path, mark: str) -> None:
    for text in ("name,x,y\na,1,2\nb,3,4\n", '"tea, black",1,2\nb,3,4\n'):
        written = text.replace(",", mark).replace(f"{mark} ", ", ")
        table = read(tmp_path, written)
        assert table.features == NUMBERS
        assert table.labels is not None
        assert table.labels[1] == "b"
    assert read(tmp_path, '"a;b;c",1,2\nb,3,4\n').labels == ["a;b;c", "b"]


def test_a_decimal_comma_is_pointed_out(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="decimals with a point") as caught:
        read(tmp_path, "name;x\na;0,5\nb;1,5\n")
    assert "'0,5' in line 2, column 2" in caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        '[{"name": "a", "x": 1, "y": 2}, {"y": 4, "x": 3, "name": "b"}]',
        '[["a", 1, 2], ["b", 3, 4]]',
        '{"a": [1, 2], "b": [3, 4]}',
    ],
)
def test_json_is_read(tmp_path: Path, text: str) -> None:
    file = tmp_path / "table.json"
    file.write_text(text)
    assert read_table(file) == FeatureTable(NUMBERS, ["a", "b"])


def test_names_in_json(tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    file.write_text('["old", "new"]')
    assert read_table(file) == FeatureTable([[1.0, 0.0], [0.0, 1.0]], ["old", "new"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1, 2", "is not JSON"),
        ("5", "is not a list of rows"),
        ('[{"x": 1}, {"y": 1}]', "other names in row 2"),
        ('[{"x": 1}, [1]]', "other names in row 2"),
        ('[{"x": {"y": 1}}, {"x": 2}]', "more than texts and numbers in row 1"),
        ('[{"0": 1}, {"0": 2}]', "numbers for names"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_json_that_is_no_table(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "table.json"
    file.write_text(text)
    with pytest.raises(InvalidInputError, match=words):
        read_table(file)


def test_a_spreadsheet_is_to_be_saved_as_csv(tmp_path: Path) -> None:
    file = tmp_path / "arms.xlsx"
    file.write_bytes(b"PK\x03\x04\x14\x00\xd0\xff")
    for read in (read_table, read_outcomes):
        with pytest.raises(InvalidInputError, match="is not text in UTF-8") as caught:
            read(file)
        assert caught.value.remedy.startswith("Save it as CSV in UTF-8.")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("told.csv", "id;reward\n0;yes\n1;FALSE\n2;0.5\n3;\n"),
        ("told.csv", "0,true\n1,no\n2,0.5\n3,\n"),
        ("told.csv", "note\tOutcome\tID\na\t1\t0\n\n\t0\t1\nb\t0.5\t2\nc\t\t3\n"),
        (
            "told.json",
            '[{"id": 0, "reward": true}, {"id": 1, "reward": 0},'
            ' {"id": 2, "reward": 0.5}, {"id": 3, "reward": null}]',
        ),
        (
            "told.json",
            '{"outcomes": [{"id": 0, "reward": 1}, {"id": 1, "reward": false},'
            ' {"id": 2, "reward": 0.5}, {"id": 3, "reward": null}]}',
        ),
        ("told.json", "[[0, true], [1, false], [2, 0.5], [3, null]]"),
    ],
)
def test_outcomes_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    file = tmp_path / name
    file.write_text(text)
    expected = [(0, {"reward": 1.0}), (1, {"reward": 0.0}), (2, {"reward": 0.5})]
    monkeypatch.setattr("sys.stdin", StringIO(text))
    for path in (file, Path("-")):
        table = read_outcomes(path)
        assert (table.told, table.skipped) == (expected, 1)


def test_written_weights_are_read_back_to_the_last_bit(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(5)).tolist()
    names = ["plain", "with, comma", 'with "quotes"', "ünïcode", "5"]
    path = tmp_path / "weights.csv"
    write_table(path, ("label", "weight"), zip(names, weights, strict=True))
    assert read_table(path) == FeatureTable([[weight] for weight in weights], names)


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
