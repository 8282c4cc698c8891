"""Code to paste means its experiment, whatever that is called."""

from __future__ import annotations

import ast
import json
import shlex
from urllib.parse import unquote, urlsplit

import pytest

from bestarm.server.pages.panels import snippets


@pytest.mark.parametrize(
    "name", ["plain", "it's", 'a"b', "$(reboot) `x` \\", "-rf", "ü 🙂", "<b>&amp;", "%2e {x}"]
)
def test_names_are_quoted_as_their_language_requires(name: str) -> None:
    made = snippets(name, address="http://127.0.0.1:8000")
    texts = [
        node.value
        for node in ast.walk(ast.parse(made["Python"]))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    [place] = [text for text in texts if text.startswith("http")]
    assert unquote(urlsplit(place).path) == f"/api/v1/experiments/{name}/"
    words = shlex.split(made["curl"].replace("\\\n", " "))
    places = [unquote(urlsplit(word).path) for word in words if word.startswith("http")]
    assert places == [f"/api/v1/experiments/{name}/{what}" for what in ("ask", "tell")]
    bodies = [words[at + 1] for at, word in enumerate(words) if word == "-d"]
    assert [list(json.loads(body)) for body in bodies] == [["count"], ["outcomes"]]


@pytest.mark.parametrize(
    ("forecaster", "fields"),
    [("default", ["count", "covariates"]), ("own", ["count", "forecasts"])],
)
def test_what_a_forecaster_needs_comes_along(forecaster: str, fields: list[str]) -> None:
    made = snippets("offer", address="http://127.0.0.1:8000", forecaster=forecaster)
    words = shlex.split(made["curl"].replace("\\\n", " "))
    sent = words[words.index("-d") + 1]
    assert list(json.loads(sent)) == fields
    assert f"json={sent}" in made["Python"]
    ast.parse(made["Python"])
