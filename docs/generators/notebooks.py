"""Run the cells of a notebook anew, and keep their outputs: see `make notebooks`."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display
from IPython.utils.capture import capture_output
from traitlets.config import Config

__all__ = ["execute"]


def execute(notebook: dict[str, Any]) -> dict[str, Any]:
    """The same notebook with the outputs of its cells, which are run in order.

    They run in this process, in a temporary folder. A process executes one notebook: names stay.

    Raises:
        Exception: what a cell raises.
        RuntimeError: a cell writes to stderr, as warnings do.
    """
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
    logging.getLogger("bestarm").addHandler(logging.NullHandler())  # seeds are chosen here
    cells = []
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        quiet = Config({"HistoryManager": {"enabled": False}})
        shell = InteractiveShell.instance(config=quiet, ipython_dir=folder)
        for cell in notebook["cells"]:
            made = _executed(cell, shell) if cell["cell_type"] == "code" else {}
            cells.append(cell | made)
        os.chdir("/")
    return notebook | {"cells": cells}


def _executed(cell: dict[str, Any], shell: InteractiveShell) -> dict[str, Any]:
    source = "".join(cell["source"])

    def show(value: object) -> None:
        if value is not None and not source.endswith(";"):
            display(value)

    shell.display_trap.hook = show
    with capture_output() as shown:
        result = shell.run_cell(source, store_history=True)
    result.raise_error()
    if shown.stderr:
        raise RuntimeError(shown.stderr)
    return {"execution_count": shell.execution_count - 1, "outputs": [*_outputs(shown)]}


def _outputs(shown: Any) -> Iterator[dict[str, Any]]:
    """What a cell printed and displayed, as a notebook has it."""
    if shown.stdout:
        text = shown.stdout.splitlines(keepends=True)
        yield {"name": "stdout", "output_type": "stream", "text": text}
    for each in shown.outputs:
        data = {
            kind: text if kind == "image/png" else text.splitlines(keepends=True)
            for kind, text in each.data.items()
        }
        yield {"data": data, "metadata": {}, "output_type": "display_data"}


if __name__ == "__main__":
    path = Path(sys.argv[1]).resolve()
    found = execute(json.loads(path.read_text(encoding="utf-8")))
    text = json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True)
    path.write_text(f"{text}\n", encoding="utf-8")
