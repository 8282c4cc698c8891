"""Methods as they are named on the command line."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from own_policies import POLICY, write_module

from bestarm.cli.command import modules_of_folder
from bestarm.cli.research.methods import read_method
from bestarm.environments import small_gap
from bestarm.errors import InvalidInputError
from bestarm.policies import SPBAI, ActionElimination, GOpt
from bestarm.policies.registry import policies
from bestarm.simulation import Oracle, simulate

pytestmark = pytest.mark.usefixtures("folder")


def test_every_policy_has_a_name() -> None:
    for name, info in policies().items():
        entry = read_method(name if not info.required else f"{name}:{info.required[0]}=9")
        assert entry.name.partition(":")[0] == name
        assert not entry.module


@pytest.mark.parametrize("name", ["sp-bai", "SP-BAI", "spbai", "SPBAI", "sp_bai", " Sp Bai "])
def test_case_and_punctuation_do_not_matter(name: str) -> None:
    assert read_method(name).method is SPBAI
    assert read_method(name).name == "sp-bai"


def test_classes_go_by_their_own_names_too() -> None:
    assert read_method("ActionElimination").method is ActionElimination
    assert read_method("GOpt").name == "g-opt"


@pytest.mark.parametrize(
    ("options", "bound"),
    [
        ("preset=replication,max_phases=3", {"preset": "replication", "max_phases": 3}),
        ("r1=0.5, r2=1e-3", {"r1": 0.5, "r2": 1e-3}),
        ("max_pulls=1_000", {"max_pulls": 1000}),
        ("max_pulls=None,anchor='best'", {"max_pulls": None, "anchor": "best"}),
        ("anchor=-1", {"anchor": -1}),
        ("anchor=(1, 2)", {"anchor": (1, 2)}),
        ("", {}),
    ],
)
def test_options_are_bound(options: str, bound: dict[str, object]) -> None:
    entry = read_method(f"sp-bai:{options}")
    assert entry.options == bound
    if bound:
        assert isinstance(entry.method, partial)
        assert entry.method.keywords == bound
        assert entry.name == f"sp-bai:{options}"


def test_g_opt_is_told_the_gap_unless_it_is_given() -> None:
    told, given = read_method("g-opt"), read_method("g-opt:gap=0.1")
    assert isinstance(told.method, Oracle)
    assert simulate(
        told.method, small_gap(declared_baseline=1.0), runs=1, delta=0.1
    ).pulls.tolist() == [387_106]
    assert isinstance(given.method, partial)
    assert given.method.func is GOpt


def test_a_cap_is_bound_where_it_can_be_and_is_not_given() -> None:
    assert read_method("rage").capped(70).options == {"max_pulls": 70}
    assert read_method("rage:max_pulls=5").capped(70).options == {"max_pulls": 5}
    assert read_method("uniform:budget=9").capped(70).options == {"budget": 9}
    assert read_method("rage").capped(None).options == {}


def test_one_s_own_comes_from_the_current_folder(folder: Path) -> None:
    (folder / "pack").mkdir()
    (folder / "pack" / "inner.py").write_text("class Holder:\n    def made(p, *, seed): ...\n")
    plain = write_module(POLICY)
    with modules_of_folder():
        entry = read_method(f"{plain}:Once:pulls=7")
        nested = read_method("pack.inner:Holder.made")
    assert (entry.name, entry.module, entry.options) == (
        f"{plain}:Once:pulls=7",
        plain,
        {"pulls": 7},
    )
    assert entry.factory.__name__ == "Once"
    assert nested.module


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("sp-bia", "Did you mean sp-bai?"),
        ("nothing-like-it", "module:attribute"),
        ("", "there are "),
        ("sp-bai:presett=paper", "Did you mean preset?"),
        ("sp-bai:seed=3", "--seed"),
        ("sp-bai:problem=3", "has no option 'problem'"),
        ("sp-bai:r1=", "key=value"),
        ("sp-bai:r1=1,r1=2", "key=value"),
        ("sp-bai:r1=a b", "key=value"),
        ("sp-bai:r1=open('x')", "key=value"),
        ("sp-bai:**{'r1':1}=3", "key=value"),
        ("sp-bai:3,r1=4", "key=value"),
        ("deo", "needs `budget`"),
        ("no_such_module:X", "There is no module 'no_such_module'"),
        ("json.no_such_part:X", "There is no module 'json.no_such_part'"),
        ("json:NoSuchName", "has no 'NoSuchName'"),
        ("json:JSONEncodr", "Did you mean JSONEncoder?"),
        ("folder/mine.py:X", "give mine:X"),
        ("mine.py:X", "give mine:X"),
        (":X", "which module"),
        ("json:", "what of which module"),
        ("json:1x", "what of which module"),
    ],
)
def test_what_cannot_be_meant_is_refused(text: str, hint: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        read_method(text)
    assert hint in str(raised.value)
    assert raised.value.field == "method"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("x = 1\n\nraise KeyError('gone')", "KeyError: 'gone' ({}.py, line 3)"),
        ("def f(:\n", "SyntaxError: invalid syntax ({}.py, line 1)"),
        ("import no_such_library", "No module named 'no_such_library' ({}.py, line 1)"),
        ("raise SystemExit(3)", "SystemExit: 3"),
    ],
)
def test_a_module_that_cannot_be_imported_says_where(text: str, hint: str) -> None:
    name = write_module(text)
    with modules_of_folder(), pytest.raises(InvalidInputError) as raised:
        read_method(f"{name}:X")
    assert hint.format(name) in str(raised.value)
