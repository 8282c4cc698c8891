"""What an installation of the wheel costs: disk, imports, and the time to a first result.

    python -m benchmarks.installing [--only sizes imports first-use journeys]

The wheel is built and installed into a clean environment at the versions of constraints.txt. Sizes
are of files as pip lists them, without compiled Python code, in millions of bytes. "First use" is
from the start of a process until an experiment in memory has made its first assignment, closed its
first phase, and closed five. Seconds are of one core, so that a busy machine gives the same; for
journeys, those by the clock stand beside them, and include downloads unless pip's own cache has
them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

import numpy as np
from packaging.requirements import Requirement

from bestarm import AnytimeBAI, Experiment, Problem

FOLDER = Path(__file__).parents[1]
PARTS = ("sizes", "imports", "first-use", "journeys")
EXTRAS = ("postgres", "frames", "parquet", "cli", "plots", "server", "field")
IMPORTS = (
    "import bestarm",
    "from bestarm import Experiment, Problem",
    "import numpy",
    "import scipy.linalg, scipy.optimize, scipy.special",
    "import threadpoolctl",
)
CASES: dict[str, tuple[int, dict[str, Any]]] = {  # the number of options, and those of the rule
    "three options": (3, {}),
    "features": (12, {"mean_bound": 3}),
    "forecasts": (3, {"forecasts": True}),
    "blocks": (4, {"block": 2}),
    "thirty options": (30, {}),
    "200 options": (200, {}),
}
MOST = 3000  # outcomes
TIMES = 5
PORT = 8731

ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    "PIP_CONSTRAINT": str(FOLDER / "constraints.txt"),
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


class Seconds(NamedTuple):
    """Of one core, and by the clock."""

    core: float
    clock: float

    def __str__(self) -> str:
        return f"{self.core:.1f} s of one core, {self.clock:.1f} s by the clock"


def _now() -> tuple[float, float]:
    used = os.times()
    return used.children_user + used.children_system, time.perf_counter()


def _since(began: tuple[float, float]) -> Seconds:
    core, clock = _now()
    return Seconds(core - began[0], clock - began[1])


def _run(*command: str | Path, cwd: Path = FOLDER) -> Seconds:
    began = _now()
    done = subprocess.run(command, env=ENVIRONMENT, cwd=cwd, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr.decode()}")
    return _since(began)


class Installation:
    """A clean environment with the wheel in it."""

    def __init__(self, folder: Path) -> None:
        _run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", folder, FOLDER)
        (self.wheel,) = folder.glob("*.whl")
        venv = folder / "venv"
        self.python, self.command = venv / "bin" / "python", venv / "bin" / "bestarm"
        began = _now()
        _run(sys.executable, "-m", "venv", venv)
        self.install()
        self.seconds = _since(began)
        (self.packages,) = venv.glob("lib/python*/site-packages")

    def install(self, *extras: str) -> None:
        """Install the wheel with some extras."""
        what = f"{self.wheel}[{','.join(extras)}]" if extras else str(self.wheel)
        _run(self.python, "-m", "pip", "install", what)

    def sizes(self) -> dict[str, float]:
        """The size of each distribution, in millions of bytes."""
        return {
            _name(each.metadata["Name"]): sum(
                Path(str(file.locate())).stat().st_size
                for file in each.files or ()
                if file.suffix != ".pyc"
            )
            / 1e6
            for each in metadata.distributions(path=[str(self.packages)])
        }

    def needed(self, extra: str = "") -> set[str]:
        """The distributions that the wheel needs with an extra."""
        known = {
            _name(each.metadata["Name"]): each
            for each in metadata.distributions(path=[str(self.packages)])
        }
        found, queue = set[tuple[str, str]](), [("bestarmid", extra)]
        while queue:
            name, extra = key = queue.pop()
            if key in found:
                continue
            found.add(key)
            for requirement in map(Requirement, known[name].requires or ()):
                if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                    wanted = _name(requirement.name)
                    queue += [(wanted, each) for each in ("", *requirement.extras)]
        return {name for name, _ in found}


def _name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def print_sizes(installation: Installation) -> None:
    """The core and each extra: what they have beyond the core, the largest first."""
    installation.install(*EXTRAS)
    sizes, core = installation.sizes(), installation.needed()
    print(f"\nwheel: {installation.wheel.stat().st_size / 1e6:.2f} MB")
    for extra in ("", *EXTRAS):
        more = installation.needed(extra) - core if extra else core
        parts = sorted(more, key=lambda each: -sizes[each])
        most = ", ".join(f"{each} {sizes[each]:.1f}" for each in parts[:6])
        print(f"{extra or 'core':<10}{sum(sizes[each] for each in more):>8.0f} MB  {most}")


def print_imports(installation: Installation) -> None:
    """The least of a few times, each in a fresh process, from its first line on."""
    print()
    for statement in IMPORTS:
        code = f"import time; t = time.process_time(); {statement}; print(time.process_time() - t)"
        found = [
            float(subprocess.check_output([installation.python, "-I", "-c", code], env=ENVIRONMENT))
            for _ in range(TIMES)
        ]
        print(f"{statement:<56}{min(found):>8.3f} s")


def begin(case: str) -> Experiment:
    """A new experiment in memory."""
    count, options = CASES[case]
    if case == "features":
        problem = Problem(np.random.default_rng(0).normal(size=(count, 4)))
    else:
        problem = Problem([f"option {i}" for i in range(count)])
        options = {"bounds": (0, 1), **options}
    forecaster = "default" if "forecasts" in options else None
    return Experiment(AnytimeBAI(problem, **options), seed=1, forecaster=forecaster)


def measure(case: str) -> dict[str, float | None]:
    """In the process of a case: seconds of its core by the time that its steps were taken."""
    experiment, rng, told = begin(case), np.random.default_rng(0), 0
    means = np.linspace(0.9, 0.3, experiment.problem.arms)
    times: dict[str, float | None] = {"assignment": None, "1": None, "5": None}
    while not experiment.finished and told < MOST:
        batch = experiment.ask(1 if experiment.phase == 1 else 20)
        times["assignment"] = times["assignment"] or time.process_time()
        for each in batch:
            experiment.tell(each.id, float(rng.random() < means[each.arm]))
            told += 1
        for phase in ("1", "5"):
            if experiment.phase > int(phase):
                times[phase] = times[phase] or time.process_time()
    return {**times, "end": time.process_time(), "told": told}


def run_case(case: str, python: Path) -> dict[str, float | None]:
    """What a case took in a process of its own, with the installed package."""
    command = [str(python), "-m", "benchmarks.installing", "--child", case]
    found: dict[str, float | None] = json.loads(
        subprocess.check_output(command, env=ENVIRONMENT, cwd=FOLDER)
    )
    return found


def print_first_use(installation: Installation) -> None:
    """Seconds from the start of a process to its first assignment and its first closed phases."""
    print(f"\n{'case':<18}{'assignment':>12}{'first phase':>14}{'five phases':>14}{'end':>8}")
    for case in CASES:
        found = run_case(case, installation.python)
        first, phase, fifth, end = (found[each] or 0 for each in ("assignment", "1", "5", "end"))
        print(f"{case:<18}{first:>12.2f}{phase:>14.2f}{fifth:>14.2f}{end:>8.2f}", flush=True)


def print_journeys(installation: Installation, folder: Path) -> None:
    """From nothing to something to look at."""
    print(f"\nwheel to installed: {installation.seconds}")
    began = _now()
    found = run_case("three options", installation.python)
    print(f"installed to first decision, after {found['told']} outcomes: {_since(began)}")
    installation.install("server", "cli")
    print(f"serve to first page: {_first_page(installation.command, folder)}", flush=True)
    clone = folder / "clone"
    cloned = _run("git", "clone", "--quiet", FOLDER, clone)
    print(f"clone: {cloned}; make .venv/.demo: {_run('make', '.venv/.demo', cwd=clone)}")
    print(f"make demo, with its picture: {_run('make', 'demo', cwd=clone)}")


def _first_page(command: Path, folder: Path) -> Seconds:
    store, (core, began) = f"sqlite:///{folder / 'experiments.db'}", _now()
    serve = [str(command), "serve", "--store", store, "--port", str(PORT)]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(serve, env=ENVIRONMENT, stdout=quiet, stderr=quiet) as process:
        while True:
            try:
                with urlopen(f"http://127.0.0.1:{PORT}/") as answer:
                    answer.read()
                    clock = time.perf_counter() - began
                    break
            except URLError:
                time.sleep(0.01)
        process.terminate()
    return Seconds(_now()[0] - core, clock)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--child", choices=CASES, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        print(json.dumps(measure(asked.child)))
        return
    with tempfile.TemporaryDirectory() as folder:
        installation = Installation(Path(folder))
        if "imports" in asked.only:
            print_imports(installation)
        if "first-use" in asked.only:
            print_first_use(installation)
        if "journeys" in asked.only:
            print_journeys(installation, Path(folder))
        if "sizes" in asked.only:
            print_sizes(installation)


if __name__ == "__main__":
    main()
