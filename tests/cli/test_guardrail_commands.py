"""Guardrails on the command line."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import commands
import pandas as pd
import pytest

run = partial(commands.run, "experiment")
data = partial(commands.data, "experiment")
refused = partial(commands.refused, "experiment")

REFUND = 'refund={"bounds": [0, 1], "worse_by": 0.05, "action": "alert"}'
TOML = """
options = ["old", "new"]
bounds = [0, 1]
control = "old"

[guardrails.refund]
bounds = [0, 1]
worse_by = 0.05
action = "alert"
"""


@pytest.fixture(autouse=True)
def shop(folder: Path) -> None:
    (folder / "names.csv").write_text("old\nnew\n", encoding="utf-8")
    (folder / "shop.toml").write_text(TOML, encoding="utf-8")
    control = ("--bounds", "0", "1", "--control", "old", "--seed", "3")
    run("create", "shop", "names.csv", *control, "--guardrail", REFUND)


def test_values_are_told_and_shown(folder: Path) -> None:
    run("ask", "shop", "60")
    one = data("tell", "shop", "0", "1", "--guardrail", "refund=no")
    assert (one["recorded"], one["values"]) == (1, 1)
    alone = data("tell", "shop", "1", "--guardrail", "refund=1")
    assert (alone["recorded"], alone["values"]) == (0, 1)
    rows = "".join(f"{number},{number % 2},{number % 2}\n" for number in range(2, 59))
    (folder / "told.csv").write_text(f"id,reward,refund\n{rows}59,,1\n1,0,\n", encoding="utf-8")
    told = data("tell", "shop", "--from", "told.csv")
    assert (told["recorded"], told["values"], told["skipped"]) == (58, 58, 0)
    [row] = data("guardrails", "shop")["guardrails"]
    assert (row["label"], row["guardrail"]["worse_by"]) == ("new", 0.05)
    assert row["values"] > 0
    assert "refund, new: worse by " in str(run("guardrails", "shop"))
    run("export", "shop", "--out", "all.csv")
    frame = pd.read_csv("all.csv")
    assert frame["refund"].notna().all()
    run("verify", "shop")
    run("replay", "shop")


def test_a_file_declares_them(folder: Path) -> None:
    run("create", "other", "--problem", "shop.toml")
    assert data("guardrails", "other")["guardrails"][0]["state"] == "unclear"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("create", "x", "names.csv", "--guardrail", "refund"), "must be a name and JSON"),
        (("create", "x", "names.csv", "--noise", "1", "--guardrail", REFUND), "none is named"),
        (("tell", "shop", "0", "1", "--guardrail", "refund"), "must be name=value"),
        (("tell", "shop", "0", "1", "--guardrail", "refund=x"), "`refund` must be a number"),
        (("tell", "shop", "0", "1", "--guardrail", "delay=1"), "no guardrail 'delay'"),
    ],
)
def test_refusals(words: tuple[str, ...], message: str) -> None:
    run("ask", "shop")
    assert message in refused(*words)
