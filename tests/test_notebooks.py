"""The notebooks of the documentation run, and their outputs are those that they show."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from test_docs import ROOT, name_of, run_in_a_process

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
_LARGEST = 60_000  # bytes of a picture, which base64 writes as four thirds of them


def texts(notebook: dict[str, Any]) -> list[list[str]]:
    """The words that each cell shows, and `image` for a picture.

    Figures of a cell with the tag `figures-vary` are left out: they rest on thousands of designs,
    whose last digits depend on the processor.
    """
    return [[*map(_reader(cell), _words(cell.get("outputs", [])))] for cell in notebook["cells"]]


def _reader(cell: dict[str, Any]) -> Callable[[str], str]:
    if "figures-vary" in cell["metadata"].get("tags", []):
        return partial(re.sub, r"\d[\d,.]*", "#")
    return str


def _words(outputs: list[dict[str, Any]]) -> Iterator[str]:
    for output in outputs:
        yield "".join(output.get("text", ""))
        for kind, content in sorted(output.get("data", {}).items()):
            plain = re.sub(r"<style.*?</style>|<[^>]*>", " ", "".join(content), flags=re.S)
            yield "image" if kind == "image/png" else " ".join(plain.split())


def check_outputs(path: Path) -> None:
    from generators.notebooks import execute  # noqa: PLC0415 - loads IPython

    notebook = json.loads(path.read_text(encoding="utf-8"))
    for number, (new, old) in enumerate(
        zip(texts(execute(notebook)), texts(notebook), strict=True)
    ):
        assert new == old, f"Cell {number} gives {new}, not {old}: see `make notebooks`."


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=name_of)
def test_a_notebook_shows_what_its_cells_give(notebook: Path, tmp_path: Path) -> None:
    run_in_a_process(check_outputs, notebook, shown=tmp_path / "shown")


def test_notebooks_are_small_and_end_in_a_picture_or_a_table() -> None:
    assert len(NOTEBOOKS) == 4
    for path in NOTEBOOKS:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        assert len(cells) <= 15, path.name
        outputs = [output for cell in cells for output in cell.get("outputs", [])]
        last = outputs[-1].get("data", {})
        assert {"image/png", "text/html"} & last.keys(), path.name
        pictures = [each["data"].get("image/png", "") for each in outputs if "data" in each]
        assert max(map(len, pictures)) * 3 / 4 < _LARGEST, path.name
