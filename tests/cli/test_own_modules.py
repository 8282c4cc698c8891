"""A policy on record that is somebody's own code: imported only where the caller allows it."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import commands
import pytest
from own_policies import POLICY, write_module

from bestarm import Experiment
from bestarm.cli.command import modules_of_folder
from bestarm.errors import InvalidInputError, ModuleNotAllowedError

run = partial(commands.run, "experiment")
refused = partial(commands.refused, "experiment")
STORE = "sqlite:///bestarm.db"
# It says that it was run, and spoils what the commands themselves import.
EVIL = 'from pathlib import Path\n\nPath("imported").touch()\n'


@pytest.fixture(autouse=True)
def store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BESTARM_STORE", STORE)


def spoil(policy: str) -> None:
    """What somebody who can write to the database can do."""
    run("create", "drinks", "--options", "tea", "coffee", "--bounds", "0", "1")
    for number in range(8):  # all of the first plan: a step is pending with the last
        run("ask", "drinks")
        run("tell", "drinks", str(number), "0.5")
    with closing(sqlite3.connect("bestarm.db")) as connection, connection:
        changed = "json_set(document, '$.policy', ?)"
        connection.execute(f"UPDATE bestarm_documents SET document = {changed}", (policy,))


COMMANDS: dict[str, tuple[str, ...]] = {
    "recommend": (),
    "replay": (),
    "report": (),
    "watch": ("--once",),
}
READING: dict[str, tuple[str, ...]] = {
    "status": (),
    "health": (),
    "log": (),
    "export": (),
    "verify": (),
}

CHANGING: dict[str, tuple[str, ...]] = {
    "ask": ("2",),
    "tell": ("8", "0.5"),
    "fail": ("9",),
    "add": ("mate",),
    "retire": ("tea",),
    "expire": (),
    "pause": (),
    "resume": (),
}


@pytest.mark.parametrize("where", ["the current folder", "the path"])
def test_no_command_imports_the_policy_on_record_by_itself(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    module = write_module(EVIL)
    if where == "the path":
        monkeypatch.syspath_prepend(Path.cwd())
    spoil(f"{module}:Rule")
    for name, options in COMMANDS.items():
        error = refused(name, "drinks", *options)
        assert f"The policy of this experiment is '{module}:Rule'" in error
        assert f"--allow-module {module}" in error
    for name, options in READING.items():
        code, _, _ = commands.invoke("experiment", name, "drinks", *options)
        assert code == (name == "verify")  # which finds the change
    for name, options in CHANGING.items():
        _, _, error = commands.invoke("experiment", name, "drinks", *options)
        assert "Traceback" not in error
    run("stop", "drinks")
    assert not Path("imported").exists()
    assert module not in sys.modules


def test_the_current_folder_is_no_place_to_import_from_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor for what has the name of a module that a command needs."""
    run("create", "drinks", "--options", "tea", "coffee", "--bounds", "0", "1")
    found: list[bool] = []

    def export(*_: object, **__: object) -> int:
        found.append(str(Path.cwd()) in sys.path)
        return 0

    monkeypatch.setattr(Experiment, "export", export)
    run("export", "drinks")
    run("export", "drinks", "--allow-module", "my_rules")
    assert found == [False, True]
    assert str(Path.cwd()) not in sys.path


def test_an_own_policy_is_allowed_by_the_command_that_names_it() -> None:
    module = write_module(POLICY)
    policy = ("--policy", f"{module}:Once", "--policy-option", "pulls=4")
    run("create", "drinks", "--options", "tea", "coffee", *policy)
    sys.modules.pop(module)
    allow = ("--allow-module", module)
    run("ask", "drinks", "4")
    for number in range(3):
        run("tell", "drinks", str(number), "0.5")
    assert "--allow-module" in refused("tell", "drinks", "3", "0.5")  # on record, and a step waits
    run("expire", "drinks", *allow)
    assert commands.data("experiment", "status", "drinks")["state"] == "finished"
    for name, options in COMMANDS.items():
        run(name, "drinks", *options, *allow)


def test_a_file_imports_no_policy_by_itself() -> None:
    module = write_module(POLICY)
    text = f'options = ["tea", "coffee"]\npolicy = "{module}:Once"\n'
    Path("drinks.toml").write_text(text, encoding="utf-8")
    named = ("create", "drinks", "--problem", "drinks.toml")
    assert f"--allow-module {module}" in refused(*named)
    assert module not in sys.modules
    run(*named, "--allow-module", module)


def test_a_library_call_allows_modules_by_name() -> None:
    module = write_module(POLICY)
    with modules_of_folder():
        made = Experiment.create(STORE, "drinks", ["tea", "coffee"], policy=f"{module}:Once")
        with made:  # whoever names the policy allows it
            assert made.recommendation().reason == "running"
            assert made.replay().remarks == ()
        for allowed in ((), ["os"], [f"{module}.rules"]):
            with Experiment.open(STORE, "drinks", allow_modules=allowed) as opened:
                assert opened.ask()
                with pytest.raises(ModuleNotAllowedError) as caught:
                    opened.recommendation()
        assert (caught.value.field, caught.value.value) == ("policy", f"{module}:Once")
        with Experiment.open(STORE, "drinks", allow_modules=[module]) as opened:
            assert opened.recommendation().reason == "running"
            assert opened.replay().remarks == ()
    for wrong in (module, 3, [3]):
        with pytest.raises(InvalidInputError, match="allow_modules"):
            Experiment.open(STORE, "drinks", allow_modules=wrong)  # type: ignore[arg-type]


def test_a_package_allows_all_modules_in_it(folder: Path) -> None:
    (folder / "own_package").mkdir()
    (folder / "own_package" / "rules.py").write_text(POLICY, encoding="utf-8")
    with modules_of_folder():
        Experiment.create(STORE, "drinks", ["tea", "mate"], policy="own_package.rules:Once")
        with Experiment.open(STORE, "drinks", allow_modules=["own_package"]) as opened:
            assert opened.recommendation().reason == "running"
        with (
            Experiment.open(STORE, "drinks", allow_modules=["own"]) as opened,
            pytest.raises(ModuleNotAllowedError),
        ):
            opened.recommendation()
