"""Code to paste means its experiment, whatever that is called."""

from __future__ import annotations

import ast
import json
import shlex
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest

from bestarm import Problem
from bestarm.live import Experiment
from bestarm.live.store.sql import Store
from bestarm.server.pages.report import write_report
from bestarm.server.pages.snippets import snippets


@pytest.mark.parametrize(
    "name", ["plain", "it's", 'a"b', "$(reboot) `x` \\", "-rf", "ü 🙂", "<b>&amp;", "%2e {x}"]
)
def test_names_are_quoted_as_their_language_requires(name: str) -> None:
    made = snippets(name, address="http://127.0.0.1:8000", store="sqlite:///a b's.db")
    texts = [
        node.value
        for node in ast.walk(ast.parse(made.python))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    [place] = [text for text in texts if text.startswith("http")]
    assert unquote(urlsplit(place).path) == f"/api/v1/experiments/{name}/"
    words = shlex.split(made.curl.replace("\\\n", " "))
    places = [unquote(urlsplit(word).path) for word in words if word.startswith("http")]
    assert places == [f"/api/v1/experiments/{name}/{what}" for what in ("ask", "tell")]
    bodies = [words[at + 1] for at, word in enumerate(words) if word == "-d"]
    assert [list(json.loads(body)) for body in bodies] == [["count"], ["outcomes"]]
    [opened] = [
        node
        for node in ast.walk(ast.parse(made.library))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Experiment.open"
    ]
    assert [ast.literal_eval(each) for each in opened.args] == ["sqlite:///a b's.db", name]
    for line in made.cli.splitlines():
        words = shlex.split(line)
        assert words[:2] == ["bestarm", "experiment"]
        assert words[-1] == name
        assert "sqlite:///a b's.db" in words


def test_without_a_store_only_http_is_shown() -> None:
    made = snippets("t", address="http://127.0.0.1:8000", store=None)
    assert (made.library, made.cli) == ("", "")
    assert made.python
    assert made.curl


def test_a_report_does_not_show_the_password_of_its_database(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Experiment.create(sqlite_url, "t", Problem(np.eye(2))) as experiment:
        monkeypatch.setattr(experiment, "place", Store("postgresql://me:secret@db/x").place)
        text = write_report(experiment, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "me:***@db" in text
    assert "secret" not in text
