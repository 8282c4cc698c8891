"""An experiment goes on anywhere: each kernel family of the linear algebra, against every other.

    python -m benchmarks.kernels

OpenBLAS computes as on another processor where OPENBLAS_CORETYPE says so. One process per family
that this machine can run begins experiments and goes on with those of the others. Printed is, for
every policy and kind of features, whether the experiments went on, and how many designs differ.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import numpy as np
from scipy.linalg import cholesky
from threadpoolctl import ThreadpoolController

from bestarm import Experiment, Problem
from bestarm.design import centered_g, centered_xy, deo, linear_xy, xor
from bestarm.numerics.geometry import Array

__all__ = [
    "FEATURES",
    "POLICIES",
    "Family",
    "ThisProcess",
    "Worker",
    "different",
    "factorial",
    "features",
    "goes_on",
    "workers",
]

_CANDIDATES = {
    "x86_64": ["Prescott", "Nehalem", "Sandybridge", "Haswell", "Zen", "SkylakeX", "Cooperlake"],
    "aarch64": [
        "ARMV8", "CORTEXA57", "NEOVERSEN1", "NEOVERSEV1", "NEOVERSEN2", "THUNDERX", "THUNDERX2T99",
        "A64FX", "VORTEX",
    ],
}  # fmt: skip
_ALIASES = {"AMD64": "x86_64", "arm64": "aarch64"}
_HANG_TIMEOUT = 300.0  # seconds that a process may take to answer

_BOUNDS = {"bounds": [-1, 2]}
# Caps keep the experiments short; a phase of SP-BAI or RAGE may otherwise ask for a million.
POLICIES: dict[str, tuple[str, dict[str, Any]]] = {
    "anytime": ("anytime", _BOUNDS),
    "anytime, top 2": ("anytime", _BOUNDS | {"top": 2, "tolerance": 0.01}),
    "sp-bai": ("sp-bai", {"max_phase_pulls": 300}),
    "sbe": ("sbe", {"max_phase_pulls": 300}),
    "rage": ("rage", {"max_phase_pulls": 400, "max_phases": 6}),
    "lucb": ("lucb", {"radius": "certified"}),
    "ae": ("ae", {"radius": "certified"}),
    "halving": ("bestarm.policies.halving:SequentialHalving", {"budget": 600, "batches": 3}),
    "bernstein": ("bestarm.policies.bernstein:BernsteinElimination", _BOUNDS),
    "deo": ("bestarm.policies.one_shot:DEO", {"budget": 400}),
    "g-opt": ("bestarm.policies.one_shot:GOpt", {"gap": 0.5, "max_pulls": 400}),
    "uniform": ("bestarm.policies.one_shot:Uniform", {"budget": 520}),
}
_MODULES = [name.partition(":")[0] for name, _ in POLICIES.values() if ":" in name]
FEATURES = ("one-hot", "factorial", "circle")


def features(kind: str, *, large: bool = True) -> Array:
    """Features with many ties: ten arms at right angles, factors with dummies, a circle."""
    if kind == "one-hot":
        return np.eye(10)
    if kind == "circle":
        count = 300 if large else 60
        angle = 2 * np.pi * np.arange(count) / count
        return np.column_stack([np.cos(angle), np.sin(angle)])
    return factorial(7, 7, 7) if large else factorial(5, 6)


def factorial(*levels: int) -> Array:
    """Every combination of levels of some factors, each with one dummy per level."""
    rows = itertools.product(*(np.eye(level) for level in levels))
    return np.array([np.concatenate(parts) for parts in rows])


class Worker:
    """A process that computes as one kernel family, and does what it is asked in turn.

    Args:
        family: the kernel family.
        errors: where what it says on standard error goes.
    """

    def __init__(self, family: str, errors: IO[str]) -> None:
        self.family = family
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.kernels", "--worker"],
            env=os.environ | {"OPENBLAS_CORETYPE": family},
            cwd=Path(__file__).parents[1],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        self._reader = ThreadPoolExecutor(1)

    def arithmetic(self) -> str | None:
        """A digest of what it computes; None unless NumPy and SciPy both run as this family."""
        try:
            families, digest = self.do("greet")
        except (RuntimeError, BrokenPipeError):
            return None
        return digest if families == [self.family.lower()] else None

    def do(self, job: str, **arguments: Any) -> Any:
        """What comes of a job; a RuntimeError with the process's words if it failed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"job": job, **arguments}), file=self._process.stdin, flush=True)
        line = self._reader.submit(self._process.stdout.readline).result(_HANG_TIMEOUT)
        answer = json.loads(line) if line else {"error": f"died ({self._process.wait()})"}
        if "error" in answer:
            raise RuntimeError(f"{self.family}: {answer['error']}")
        return answer["found"]

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._reader.shutdown()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()


class ThisProcess:
    """This process, which computes as the family of this machine, as one that works."""

    family = "this process"

    def arithmetic(self) -> str:
        """A digest of what it computes."""
        return str(self.do("greet")[1])

    def do(self, job: str, **arguments: Any) -> Any:
        """What comes of a job."""
        return json.loads(json.dumps(_JOBS[job](**arguments)))


Family = Worker | ThisProcess


@contextmanager
def workers(most: int | None = None, *, unlike: str | None = None) -> Iterator[list[Worker]]:
    """One process for each kernel family that this machine can run, of those that differ.

    Of families that round alike the first is kept. Kept are those that report their family and
    can compute without dying.

    Args:
        most: how many to keep at most.
        unlike: a digest; a family that computes it is kept only if there is no other.
    """
    machine = platform.machine()
    candidates = _CANDIDATES.get(_ALIASES.get(machine, machine), [])
    with ExitStack() as stack:
        errors = stack.enter_context(tempfile.TemporaryFile("w+"))
        kept: dict[str, Worker] = {}
        alike: list[Worker] = []
        for name in candidates:
            worker = Worker(name, errors)
            stack.callback(worker.close)
            digest = worker.arithmetic()
            if digest == unlike and digest is not None:
                alike.append(worker)
            elif digest is not None:
                kept.setdefault(digest, worker)
            if len(kept) == most:
                break
        yield list(kept.values()) or alike[:1]


def goes_on(policy: str, kind: str, path: Path, those: Sequence[Family], *, large: bool) -> str:
    """Whether an experiment that the first begins goes on under the others; else what differs.

    Every other one opens it, goes on for a phase or two and leaves it to the next; at the end each
    replays and verifies the whole.
    """
    first, *others = those
    case = {"path": str(path), "policy": policy, "kind": kind, "large": large}
    try:
        decided = first.do("begin", **case)
        for other in others:
            found = other.do("go_on", before=decided, **case)
            decided = found
        for each in those:
            if each.do("check", **case) != decided:
                return f"{each.family} says otherwise than {others[-1].family}"
    except RuntimeError as error:
        return str(error)
    return "goes on"


# --- what a process does -------------------------------------------------------------------------


def _greet() -> tuple[list[str], str]:
    """The families of the linear algebra in this process, after it was used; a digest of that."""
    digest = sha256()
    for size in (3, 10, 37, 120):
        table = np.random.default_rng(size).normal(size=(size, size))
        gram = table @ table.T + np.eye(size)
        parts = *np.linalg.svd(table), gram, cholesky(gram), np.linalg.solve(gram, table[0])
        for each in (*parts, table @ table[0], table[0] @ table[1]):
            digest.update(np.asarray(each).tobytes())
    pools = ThreadpoolController().info()
    families = sorted({str(pool.get("architecture", "")).lower() for pool in pools})
    return families, digest.hexdigest()


def _problem(kind: str, large: bool) -> Problem:
    return Problem(features(kind, large=large), delta=0.1)


def _tell(experiment: Experiment, plans: int) -> None:
    """Answer some phases; what an assignment pays hangs on its id and arm alone, with many ties."""
    source = experiment.problem.source
    means = 0.3 + 0.2 * source[:, 0] + 0.1 * source[:, -1]
    last = experiment.phase + plans
    while not experiment.finished and experiment.phase < last:
        batch = experiment.ask(1000)
        arms, ids = np.array(batch.arms), np.array(batch.ids)
        coin = (ids * 2654435761 % 2**32) / 2**32
        rewards = (coin < means[arms]).astype(float)
        if not len(ids):
            raise RuntimeError("nothing is given out")
        experiment.tell_many(zip(ids.tolist(), rewards.tolist(), strict=True))


def _decision(experiment: Experiment) -> list[Any]:
    decided = experiment.recommendation()
    return [decided.target, list(decided.active), decided.reason, decided.pulls]


def _begin(path: str, policy: str, kind: str, large: bool) -> list[Any]:
    name, options = POLICIES[policy]
    with Experiment.create(
        f"sqlite:///{path}", "x", _problem(kind, large), policy=name, policy_options=options, seed=7
    ) as experiment:
        _tell(experiment, 2)
        return _decision(experiment)


def _go_on(path: str, before: list[Any], **_: object) -> list[Any]:
    with Experiment.open(f"sqlite:///{path}", "x", allow_modules=_MODULES) as experiment:
        if _decision(experiment) != before:
            raise RuntimeError(f"it says {_decision(experiment)} where the other says {before}")
        _tell(experiment, 2)
        return _decision(experiment)


def _check(path: str, **_: object) -> list[Any]:
    with Experiment.open(f"sqlite:///{path}", "x", allow_modules=_MODULES) as experiment:
        audit = experiment.verify()
        if not audit.sound:
            raise RuntimeError(str(audit))
        decided = experiment.replay()
        if decided.recommendation.pulls != experiment.recommendation().pulls:
            raise RuntimeError("the replay ends elsewhere")
        return _decision(experiment)


def _designs(path: str, large: bool) -> int:
    """Weights and certified values of designs for features with ties, written to a file."""
    found: dict[str, Array] = {}
    for kind, source in _families(large):
        targets = {"all": source, "half": source[::2], "few": source[: max(2, len(source) // 5)]}
        made = {
            "centered_g": centered_g(source),
            "deo": deo(source),
            "loose": centered_g(source, tol=0.05),
        }
        for name, target in targets.items():
            if len(target) > 1:
                made[f"centered_xy, {name}"] = centered_xy(source, target)
                made[f"linear_xy, {name}"] = linear_xy(source, target)
                made[f"xor, {name}"] = xor(source, target, anchor=1)
        for name, design in made.items():
            found[f"{kind}, {name}"] = np.append(design.weights, [design.value, design.lower_bound])
    np.savez(path, **found)  # type: ignore[arg-type]
    return len(found)


def _families(large: bool) -> Iterator[tuple[str, Array]]:
    for kind in FEATURES:
        yield kind, features(kind, large=large)
    for count in (3, 6, 13):
        yield f"{count} one-hot", np.eye(count)
        yield f"{count} on a circle", features("circle")[:: 300 // count][:count]
        yield f"{count} twins", np.vstack([np.eye(count)] * 2)
        yield f"simplex of {count}", np.vstack([np.zeros(count), np.eye(count)])
    for dimension in (3, 5):
        yield (
            f"cube of {dimension}",
            np.array(list(itertools.product([-1.0, 1.0], repeat=dimension))),
        )
    yield "grid", np.array(list(itertools.product(*[np.arange(5.0)] * (3 if large else 2))))
    rng = np.random.default_rng(5)
    for count, dimension in ((20, 4), (300 if large else 60, 6)):
        points = rng.normal(size=(count, dimension))
        yield f"{count} on a sphere", points / np.linalg.norm(points, axis=1)[:, None]


def _call(folder: str, module: str, function: str) -> Any:
    """What a function of a module in some folder says, called here."""
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return getattr(import_module(module), function)()


_JOBS: dict[str, Callable[..., Any]] = {
    "greet": _greet,
    "begin": _begin,
    "go_on": _go_on,
    "check": _check,
    "designs": _designs,
    "call": _call,
}


def _work() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer = {"found": _JOBS[asked.pop("job")](**asked)}
        except Exception as error:  # the parent tells which experiment it was
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


# --- the table -----------------------------------------------------------------------------------


def different(folder: Path, those: Sequence[Family], *, large: bool) -> dict[str, float]:
    """The designs whose weights differ by more than a millionth between families, and by how much.

    Raises:
        RuntimeError: a value is not certified by another family's lower bound.
    """
    tables = []
    for worker in those:
        path = folder / f"{worker.family}.npz"
        worker.do("designs", path=str(path), large=large)
        with np.load(path) as table:
            tables.append({name: table[name] for name in table.files})
    apart: dict[str, float] = {}
    for one, other in itertools.combinations(tables, 2):
        for name, first in one.items():
            second = other[name]
            if first[-2] < second[-1] * (1 - 1e-9) or second[-2] < first[-1] * (1 - 1e-9):
                raise RuntimeError(f"{name}: {first[-2:]} and {second[-2:]} exclude each other")
            difference = float(np.abs(first[:-2] - second[:-2]).max())
            if difference > 1e-6:
                apart[name] = max(apart.get(name, 0.0), difference)
    return apart


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder, workers() as those:
        print(f"{platform.machine()}: {', '.join(worker.family for worker in those)}\n")
        apart = different(Path(folder), those, large=True)
        print(f"{len(apart)} designs differ by more than a millionth {apart or ''}\n")
        print(f"| policy | {' | '.join(FEATURES)} |\n|---|{'---|' * len(FEATURES)}")
        for number, policy in enumerate(POLICIES):
            cells = [
                _cell(policy, kind, Path(folder), those, number + at)
                for at, kind in enumerate(FEATURES)
            ]
            print(f"| {policy} | {' | '.join(cells)} |", flush=True)


def _cell(policy: str, kind: str, folder: Path, those: Sequence[Worker], turn: int) -> str:
    """What became of experiments on small features, begun under each, and of one on large ones."""
    decided = set()
    for number in range(len(those) + 1):
        large = number == len(those)
        start = (turn if large else number) % len(those)
        path = folder / f"{policy}-{kind}-{number}.db"
        order = [*those[start:], *those[:start]]
        decided.add(goes_on(policy, kind, path, order, large=large))
    return "; ".join(sorted(decided))


if __name__ == "__main__":
    if sys.argv[1:] == ["--worker"]:
        _work()
    else:
        main()
