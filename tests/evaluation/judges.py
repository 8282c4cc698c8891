"""A judge whose every score tells which option it is for, and on which item; and its calls."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from bestarm import Experiment

__all__ = ["ITEMS", "OPTIONS", "Call", "CallLog", "item_of", "score", "told_calls"]

_RATES = {"good": 0.98, "fair": 0.2, "poor": 0.05}
OPTIONS = list(_RATES)
ITEMS = [f"question {number}" for number in range(100)]

Call = tuple[str, int]


def item_of(text: str) -> int:
    """The number of an item."""
    return int(text.split()[1])


def score(option: str, item: str) -> float:
    """The score of a pair, the same whoever computes it, and of no other pair."""
    digest = hashlib.sha256(f"{option} {item}".encode()).digest()
    wins = int.from_bytes(digest[:4], "big") < _RATES[option] * 2**32
    return 0.5 * wins + (OPTIONS.index(option) * 1000 + item_of(item)) / 1e5


def _call_of(reward: float) -> Call:
    code = round(reward % 0.5 * 1e5)
    return OPTIONS[code // 1000], code % 1000


def told_calls(url: str, name: str) -> dict[int, Call]:
    """The pair whose score was told, by assignment; each is of the option that was assigned."""
    if name not in {each.name for each in Experiment.list(url)}:
        return {}
    with Experiment.open(url, name) as experiment:
        told = experiment.assignments().merge(experiment.outcomes(), on="id")
    found = dict(zip(told["id"].tolist(), map(_call_of, told["reward"].tolist()), strict=True))
    assert [option for option, _ in found.values()] == told["label"].tolist()
    # All options of a round are judged on one item, and no item is there in two rounds.
    items = set(zip(told["round"].tolist(), (item for _, item in found.values()), strict=True))
    assert len({turn for turn, _ in items}) == len({item for _, item in items}) == len(items)
    return found


class CallLog:
    """Calls of a judge, each on a line of a file that stays, whoever is killed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, option: str, item: str) -> None:
        """Note a call."""
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(file, f"{option},{item_of(item)}\n".encode())
        os.close(file)

    def read(self) -> list[Call]:
        """All calls so far."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return [(option, int(item)) for option, item in (line.split(",") for line in lines)]
