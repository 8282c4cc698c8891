"""Functions are compiled when it pays, cached where possible, and have the same bits either way."""

from __future__ import annotations

import ast
import errno
import importlib
import inspect
import os
import pkgutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
import pytest
from numba.core.registry import CPUDispatcher

from bestarm import LUCB, ActionElimination, AnytimeBAI, Problem, Summary, compiling
from bestarm.compiling import compiled
from bestarm.environments import Ratings, Semiparametric, baselines
from bestarm.numerics.geometry import Array
from bestarm.presampled import PresampledRewards
from bestarm.records import Rounds
from bestarm.simulation import run_once

_SOURCE = """
from bestarm.compiling import compiled, tiered

@compiled
def third(x):
    return x / 3

@compiled
def signed(values, place, up):
    return values[place] if up else -values[place]

@compiled
def total(values, place, up):
    return signed(values, 0, True) + signed(values, place, up) + signed(values, 1, False)

@tiered
def inner(values):
    found = 0.0
    for i in range(len(values)):
        found += values[i]
    return found

@tiered
def outer(values):
    return 2 * inner(values)

@tiered
def ratio(x):
    return 1.0 / x
"""


@pytest.fixture(autouse=True)
def python_seconds(monkeypatch: pytest.MonkeyPatch) -> float:
    """As in a process that does not simulate; another test may have done."""
    monkeypatch.setattr(compiling._Tiered, "python_seconds", 1.0)
    return 1.0


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module none of whose functions is compiled yet."""
    (tmp_path / "uncompiled.py").write_text(_SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    return load()


def load() -> Any:
    """The module as another process has it: what was compiled before is only on disk."""
    sys.modules.pop("uncompiled", None)
    return importlib.import_module("uncompiled")


def half(x: float) -> float:
    return 1.0 / x


# --- the cache ----------------------------------------------------------------------------------


def run_python(code: str, **variables: str) -> str:
    """What a fresh process prints."""
    environment = {**os.environ, **variables}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="folders are others there")
@pytest.mark.parametrize("home", ["cache", "nowhere"])
def test_where_the_package_cannot_be_written_the_cache_is_the_users_or_none(
    module: Any, tmp_path: Path, home: str
) -> None:
    folder = tmp_path / "read_only"
    folder.mkdir()
    (folder / "uncompiled.py").write_text(_SOURCE)
    (folder / "__pycache__").touch()  # a file: not even root can write in it
    if home == "nowhere":
        (tmp_path / home).touch()
    code = f"""
        import sys
        sys.path.insert(0, {str(folder)!r})
        import uncompiled
        print(uncompiled.third(6.0), uncompiled.third.stats.cache_path)
        """
    places = dict.fromkeys(("HOME", "XDG_CACHE_HOME"), str(tmp_path / home))
    value, path = run_python(code, **places, NUMBA_CACHE_DIR="").split()
    assert value == "2.0"
    if home == "nowhere":
        assert path == "None"
    else:
        assert Path(path).is_relative_to(tmp_path / home)
        assert list(Path(path).glob("*.nbi"))


def test_on_a_full_disk_it_is_compiled_all_the_same(module: Any) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    module.third._cache.save_overload = refuse
    assert module.third(6.0) == 2.0
    assert module.third(9.0) == 3.0


def test_constants_are_compiled_as_numbers(module: Any) -> None:
    assert module.total(np.array([1.0, 2.0, 4.0]), 2, True) == 1.0 + 4.0 - 2.0
    assert len(module.signed.signatures) == 1


# --- tiers --------------------------------------------------------------------------------------


def test_a_tiered_function_is_python_code_until_that_has_taken_long(
    module: Any, python_seconds: float
) -> None:
    values = np.ones(3)
    assert module.outer(values) == 6.0
    assert not module.outer.signatures
    module.inner.seconds = python_seconds
    assert module.outer(values) == 6.0
    assert len(module.inner.signatures) == 1
    assert not module.outer.signatures  # its own seconds are few: compiling another is not its time
    assert module.outer.seconds < python_seconds / 2


def test_a_tiered_function_is_compiled_at_once_for_large_arrays(module: Any) -> None:
    large = np.ones(compiling._LARGE + 1)
    assert module.outer(large) == 2 * len(large)
    assert module.inner.signatures
    assert not module.outer.signatures  # the work is the other one's
    module.outer(np.ones(compiling._LARGEST + 1))
    assert module.outer.signatures


def test_a_tiered_function_is_loaded_if_it_is_in_the_cache(
    module: Any, python_seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiling.compile_eagerly()
    module.outer(np.ones(3))
    monkeypatch.setattr(compiling._Tiered, "python_seconds", python_seconds)
    again = load()
    assert again.outer(np.ones(3)) == 6.0
    assert sum(again.outer.stats.cache_hits.values()) == 1
    assert again.outer(np.ones(4)) == 8.0


def test_where_python_raises_a_tiered_function_is_compiled(module: Any) -> None:
    assert module.ratio(2.0) == 0.5
    assert not module.ratio.signatures
    assert module.ratio(0.0) == np.inf
    assert module.ratio.signatures


def kernels() -> dict[str, Any]:
    """Every function of the library that Numba compiles, by its full name."""
    found = {}
    for package in ("design", "environments", "numerics", "policies"):
        home = importlib.import_module(f"bestarm.{package}")
        for each in pkgutil.walk_packages(home.__path__, f"{home.__name__}."):
            for name, thing in vars(importlib.import_module(each.name)).items():
                if isinstance(thing, CPUDispatcher) and thing.py_func.__module__ == each.name:
                    found[f"{each.name}.{name}"] = thing
    return found


def test_tiered_functions_use_only_what_python_rounds_alike() -> None:
    found = {name: each for name, each in kernels().items() if isinstance(each, compiling._Tiered)}
    assert found
    allowed = {"sqrt", "isnan", "empty", "zeros", "ones", "int64", "uint64", "inf", "nan"}
    for name, function in found.items():
        for node in ast.walk(ast.parse(inspect.getsource(function.py_func))):
            assert not isinstance(node, ast.Pow), name
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert node.value.id != "np" or node.attr in allowed, (name, node.attr)


def features_run() -> list[Array]:
    """Designs, evidence and estimates of a run on eight arms whose rewards are noisy."""
    rng = np.random.default_rng(5)
    source = rng.normal(size=(8, 3))
    policy, kept = AnytimeBAI(Problem(source), mean_bound=3.0), list[Array]()
    for _ in range(12):
        plan: Any = policy.plan()
        arms = rng.choice(8, size=plan.pulls, p=plan.weights)
        rewards = 0.3 * source[arms, 0] + rng.normal(size=len(arms))
        policy.update(Summary.from_pulls(arms, rewards, size=8, center=plan.center))
        kept += [plan.weights, policy.evidence()]
    return kept


def blocks_run() -> list[Array]:
    rng, ratings = np.random.default_rng(7), np.random.default_rng(6).uniform(-5, 5, (300, 4))
    policy, kept = AnytimeBAI(Problem(np.eye(4)), bounds=(-10, 10), block=2), list[Array]()
    for _ in range(8):
        plan: Any = policy.plan()
        kinds = rng.choice(len(plan.blocks), size=plan.rounds, p=plan.block_weights)
        people = rng.integers(300, size=plan.rounds)
        policy.update(Rounds.of(plan, kinds, ratings[people[:, None], plan.blocks[kinds]]))
        kept += [plan.block_weights, policy.evidence()]
    return kept


@pytest.mark.parametrize("run", [features_run, blocks_run])
def test_python_code_and_compiled_code_agree_to_the_last_bit(
    run: Callable[[], list[Array]], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiling.compile_eagerly()
    fast = run()
    monkeypatch.setattr(compiling._Tiered, "__call__", lambda self, *each: self.py_func(*each))
    slow = run()
    assert len(fast) == len(slow) > 0
    for one, other in zip(fast, slow, strict=True):
        assert one.tobytes() == other.tobytes()


def test_a_live_experiment_on_a_new_machine_compiles_nothing(tmp_path: Path) -> None:
    code = """
        from numba.core import event
        from bestarm import AnytimeBAI, Experiment, Problem

        problem = Problem(["a", "b", "c", "d"])
        with event.install_recorder("numba:compile") as recorder:
            for options in ({}, {"forecasts": True}, {"block": 2}):
                policy = AnytimeBAI(problem, bounds=(0, 1), **options)
                forecaster = "default" if "forecasts" in options else None
                experiment = Experiment(policy, seed=1, forecaster=forecaster)
                while experiment.phase <= 3:
                    for each in experiment.ask(1):
                        experiment.tell(each.id, float(each.id % 2))
        print(len(recorder.buffer))
        """
    assert run_python(code, NUMBA_CACHE_DIR=str(tmp_path)) == "0\n"


def test_a_process_that_simulates_compiles_at_once() -> None:
    run_once(partial(LUCB, max_pulls=10), Semiparametric(np.eye(2), [0.9, 0.1]))
    assert compiling._Tiered.python_seconds == 0


# --- what is being compiled ---------------------------------------------------------------------


def test_it_is_known_what_is_being_compiled(module: Any) -> None:
    seen: list[str | None] = []
    usual = module.signed._compiler.compile

    def compile_and_look(*arguments: Any) -> Any:
        seen.append(compiling.in_progress())
        return usual(*arguments)

    module.signed._compiler.compile = compile_and_look
    assert compiling.in_progress() is None
    module.total(np.ones(3), 2, True)
    assert seen == ["uncompiled.total"]
    assert compiling.in_progress() is None
    with pytest.raises(numba.TypingError):
        module.third("six")
    assert compiling.in_progress() is None


def test_a_log_says_once_that_compiling_takes_long(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    times = iter([0.0, 0.5, 1.5, 2.0])
    monkeypatch.setattr(compiling, "time", SimpleNamespace(monotonic=lambda: next(times)))
    monkeypatch.setattr(compiling, "_compiling", [])
    caplog.set_level("INFO", logger="bestarm")
    listener = compiling._Listener()
    start = SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=half)})
    logged = []
    for _ in range(4):
        listener.on_start(start)
        logged.append(len(caplog.messages))
    assert logged == [0, 0, 1, 1]
    assert caplog.messages == ["Compiling … (first use on this machine)"]


# --- what kernels are given ---------------------------------------------------------------------


def test_division_by_zero_is_as_in_numpy() -> None:
    assert compiled(half)(0.0) == float("inf")


def test_every_kernel_is_compiled_here() -> None:
    """Compiled by hand, one would fail where the package's folder is read-only."""
    found = kernels()
    assert found
    assert all(each.targetoptions["error_model"] == "numpy" for each in found.values())


def test_kernels_take_plain_tuples() -> None:
    """Code on disk names the classes of its arguments: rename one, and old code cannot be read."""
    rated = Ratings(np.random.default_rng(0).uniform(size=(40, 3)))
    against = Semiparametric(np.eye(3), [0.9, 0.5, 0.1], baseline=baselines.adversary(1.0))
    for method in (LUCB, ActionElimination):
        for world in (rated, against):
            run_once(partial(method, max_pulls=200), world)
    compiling.compile_eagerly()
    used = {name: each.signatures for name, each in kernels().items() if each.signatures}
    for package in ("environments", "policies.means"):
        assert any(name.startswith(f"bestarm.{package}.") for name in used)
    for name, signatures in used.items():
        for kind in chain(*signatures):
            assert not isinstance(kind, numba.types.BaseNamedTuple), name


def test_kernels_get_one_type_whatever_a_value_was_made_from() -> None:
    """A kernel is compiled again for arrays that cannot be written, and for whole numbers."""
    kind: Callable[[object], object] = numba.typeof
    problem, table, rows = Problem(np.eye(2), delta=0.1), np.eye(2), np.arange(2)
    fixed = table.copy()
    fixed.flags.writeable = False
    aheads = (
        PresampledRewards(each, rows, np.zeros(2), bound)
        for each in (table, fixed)
        for bound in (0, 1)
    )
    assert len({kind(presampled.parts[:3]) for presampled in aheads}) == 1
    radii = (LUCB(problem, radius="lil")._radius, LUCB(problem, radius="certified")._radius)
    assert len({kind(tuple(radius)) for radius in radii}) == 1
    in_columns = np.asfortranarray([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    told = Rounds.read(np.array([[0, 1]]), [0, 0, 0], in_columns, arms=2, center=0.0)
    assert told.table.flags.c_contiguous
