"""Workers that ask, measure and tell until they are killed, and go on by their own diary.

A worker writes down what it is about to ask for, and then what was acknowledged. Started again, it
repeats the request that it has no answer to, and tells what it does not know to have told.
"""

from __future__ import annotations

import json
import math
import os
import signal
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from databases import watch_statements

from bestarm import Problem
from bestarm.errors import ExperimentExistsError, InvalidInputError, UnknownExperimentError
from bestarm.forecasting import Forecaster
from bestarm.live import Experiment
from bestarm.numerics.geometry import Array

__all__ = [
    "LEASE",
    "LEAST",
    "PROBLEM",
    "Diary",
    "Level",
    "ask_with_covariates",
    "change_options",
    "change_until",
    "die_at",
    "forecast_until",
    "guard_until",
    "read",
    "report",
    "reward",
    "settings",
    "work",
    "work_until",
]

PROBLEM = Problem(np.eye(3), delta=0.1, noise=0.3, source_labels=["tea", "coffee", "water"])
LEASE = 0.1  # seconds
LEAST = 4  # experiments

# Plans that are closed and of few pulls, open ones, and long ones that are closed.
_POLICIES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("ae", {"sigma": 0.3, "max_pulls": 40}),
    ("anytime", {"bounds": [-2, 3], "changes": True}),
    ("sp-bai", {"r1": 0.1, "r2": 0.1}),
)


def settings(turn: int) -> dict[str, Any]:
    """What the experiment of this number is made with: every other one has a lease."""
    policy, options = _POLICIES[turn % 3]
    return {
        "policy": policy,
        "policy_options": options,
        "seed": turn,
        "lease": LEASE if turn % 2 else None,
    }


def reward(number: int, arm: int) -> float:
    """What an assignment's outcome is, whoever measures it, and however often."""
    return 0.5 * arm + math.sin(number + 1.0) / 3


class Diary:
    """Lines that stay once they are written, whoever is killed then; one file a worker.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.turn = 0
        self.asked = 0
        self.asking: tuple[str, int] | None = None
        self.held: dict[int, int] = {}  # given and not known to be told: id and arm
        for line in read(path):
            self._note(line)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        text = path.read_bytes()
        os.ftruncate(self._file, text.rfind(b"\n") + 1)  # one that was killed as it wrote

    def write(self, **line: Any) -> None:
        """Add a line."""
        line["turn"] = self.turn
        os.write(self._file, json.dumps(line).encode() + b"\n")
        self._note(line)

    def _note(self, line: dict[str, Any]) -> None:
        self.turn = line["turn"]
        if "asking" in line:
            self.asking = line["asking"], line["count"]
            self.asked += 1
        elif "given" in line:
            self.asking = None
            self.held |= dict(zip(line["ids"], line["arms"], strict=True))
        elif "told" in line:
            for number, _ in line["told"]:
                self.held.pop(number, None)
        else:
            self.turn, self.asking = self.turn + 1, None

    @property
    def begun(self) -> bool:
        """Whether anything was asked for in the experiment that is on."""
        return bool(self.asking or self.held)


def read(path: Path) -> list[dict[str, Any]]:
    """The lines of a diary, but for one that was not written to its end."""
    *lines, _ = path.read_text().split("\n") if path.exists() else [""]
    return [json.loads(line) for line in lines]


def work(url: str, folder: Path, worker: str, seed: int) -> None:
    """Take part in a few experiments, and in more until there is a file `enough` in the folder."""
    diary, random = Diary(folder / f"{worker}.jsonl"), Random(seed)
    while diary.begun or diary.turn < LEAST or not (folder / "enough").exists():
        with _begin(url, diary.turn) as experiment:
            _take_part(experiment, diary, worker, random, enough=folder / "enough")
        diary.write(over=True)


def work_until(url: str, folder: Path, worker: str, turn: int, instant: int) -> None:
    """Take part in one experiment, and be killed at an instant."""
    die_at(instant)
    diary = Diary(folder / f"{worker}.jsonl")
    diary.turn = max(turn, diary.turn)
    if diary.turn == turn:
        with _begin(url, turn) as experiment:
            _take_part(experiment, diary, worker, Random(turn))
        diary.write(over=True)


def die_at(instant: int) -> None:
    """Have this process killed before it runs its n-th statement, or the end of a transaction.

    Of a statement that writes hundreds of rows a few are enough, in the midst of which it dies.
    """
    seen = count(1)

    def seldom() -> None:
        if next(seen) == instant:
            os.kill(os.getpid(), signal.SIGKILL)

    watch_statements(seldom, rows=3)


def guard_until(url: str, diary: Path, rounds: int, instant: int) -> None:
    """Ask and tell round by round, with refunds of the last option, until killed or done.

    A line of the diary is a round that was acknowledged; the one after it is repeated.
    """
    die_at(instant)
    with Experiment.open(url, "guarded") as experiment:
        done = len(diary.read_text().splitlines()) if diary.exists() else 0
        for number in range(done, rounds):
            batch = experiment.ask(10, request_id=f"round {number}")
            told = [(each.id, {"reward": each.id % 2, "refund": each.arm == 2}) for each in batch]
            experiment.tell_many(told)
            with diary.open("a") as file:
                file.write(f"{number}\n")
                file.flush()
                os.fsync(file.fileno())


def _begin(url: str, turn: int) -> Experiment:
    name = f"experiment {turn}"
    try:
        return Experiment.open(url, name)
    except UnknownExperimentError:
        try:
            return Experiment.create(url, name, PROBLEM, **settings(turn))
        except ExperimentExistsError:
            return Experiment.open(url, name)


def _take_part(
    experiment: Experiment,
    diary: Diary,
    worker: str,
    random: Random,
    enough: Path | None = None,
) -> None:
    """Ask and tell to the end; once it is enough, nothing expires any more: a busy machine might
    otherwise lose all that it asks for."""
    while True:
        if enough is not None and enough.exists() and experiment.lease is not None:
            with suppress(InvalidInputError):  # it is over
                experiment.change_lease(None)
        if diary.asking is None:
            wanted = random.choice([1, 1, 2, 5, 13, 60, 400])
            diary.write(asking=f"{worker}/{diary.asked}", count=wanted)
        assert diary.asking is not None
        request, wanted = diary.asking
        batch = experiment.ask(wanted, request_id=request)
        ids = list(batch.ids) if batch.experiment else []  # of what is served nothing is told
        diary.write(given=request, ids=ids, arms=batch.arms[: len(ids)].tolist())
        awaited = list(diary.held.items())
        random.shuffle(awaited)
        while awaited and (batch.finished or not batch or random.random() < 0.8):
            size = random.choice([1, 1, 7, 200])
            part, awaited = awaited[:size], awaited[size:]
            told = [(number, reward(number, arm)) for number, arm in part]
            if len(told) == 1:
                experiment.tell(*told[0])
            else:
                experiment.tell_many(told)
            diary.write(told=told)
        if batch.finished:
            return
        if not batch:
            time.sleep(0.005)


# --- with forecasts -----------------------------------------------------------------------------


class Level(Forecaster):
    """The first covariate, and the mean of what it did not predict."""

    def __init__(self) -> None:
        self._known: dict[int, float] = {}
        self._sum, self._count = 0.0, 0

    def forecast(self, number: int, moment: float | None, covariates: Array | None) -> float:
        self._known[number] = 0.0 if covariates is None else float(covariates[0])
        return self._known[number] + self._sum / max(1, self._count)

    def learn(self, number: int, features: Array, reward: float) -> None:
        self._sum, self._count = self._sum + reward - self._known.pop(number), self._count + 1


def ask_with_covariates(experiment: Experiment, first: int, end: int) -> None:
    """Make named requests for two assignments each, and tell their outcomes."""
    for request in range(first, end):
        known = [{"level": 0.1 * request}, {"level": -0.1 * request}]
        batch = experiment.ask(2, request_id=f"{request}", covariates=known)
        experiment.tell_many([(each.id, reward(each.id, each.arm)) for each in batch])


def forecast_until(url: str, name: str, first: int, end: int, instant: int) -> None:
    """Repeat all requests, and be killed at an instant."""
    die_at(instant)
    with Experiment.open(url, name, forecaster=Level()) as experiment:
        ask_with_covariates(experiment, first, end)


# --- with options that come and go ---------------------------------------------------------------


def change_options(experiment: Experiment, acknowledged: Path | None = None) -> None:
    """Ask and tell while options come and go; whoever does it again repeats what was done.

    Of every request one outcome is told with the next request, after options have changed.
    """
    held: list[tuple[int, float]] = []
    for turn in range(7):
        batch = experiment.ask(5, request_id=f"{turn}")
        told = [(each.id, float((each.id * 3 + each.arm) % 8)) for each in batch]
        experiment.tell_many([*told[1:], *held])
        held = told[:1]
        changes = _CHANGES.get(turn, ())
        for kind, label in changes:
            if kind == "retired":
                experiment.retire(label, reason="refunds")
            else:
                experiment.add(label)
            if acknowledged is not None:
                with acknowledged.open("a") as file:
                    print(kind, label, file=file, flush=True)


_CHANGES: dict[int, tuple[tuple[str, str], ...]] = {
    0: (("retired", "video"),),
    2: (("added", "flash"), ("retired", "old")),
    4: (("added", "mail"),),
}


def change_until(url: str, name: str, acknowledged: Path, instant: int) -> None:
    """Ask, tell and change options, and be killed at an instant."""
    die_at(instant)
    with Experiment.open(url, name, allow_modules=["changing_policies"]) as experiment:
        change_options(experiment, acknowledged)


# --- with a window ------------------------------------------------------------------------------


def report(url: str, acknowledged: Path, seed: str) -> None:
    """Ask and tell within the window, again and again, and write down what was acknowledged."""
    rng = Random(seed)
    with Experiment.open(url, "shop") as experiment, acknowledged.open("a") as file:
        mine: list[int] = []
        while True:
            mine += experiment.ask(4).ids
            for number in rng.sample(mine, min(6, len(mine))):
                told = rng.choice([0.0, 0.5, 1.0])
                receipt = experiment.tell(number, told)
                if receipt.recorded:
                    print(number, told, receipt.late, file=file, flush=True)
            mine = mine[-20:]
