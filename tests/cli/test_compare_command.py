"""`bestarm compare`: the same numbers however they are made, and every bad input in a sentence."""

from __future__ import annotations

import csv
import json
import math
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forked_commands import ForkedCommand
from own_policies import POLICY, refused, run, write_module
from terminal import start_command

from bestarm.environments import small_gap
from bestarm.policies import SPBAI
from bestarm.simulation import Results, simulate
from bestarm.simulation.comparison import error_against_delta

pytestmark = pytest.mark.usefixtures("folder")

ROOT = Path(__file__).parent.parent.parent


def report(*arguments: str) -> dict[str, Any]:
    out, err = run(*arguments, "--json")
    assert err == ""
    found: dict[str, Any] = json.loads(out)
    return found


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_workers_change_no_byte_of_what_a_method_of_one_s_own_comes_to(folder: Path) -> None:
    name = write_module(POLICY)
    arguments = (
        *("--method", f"{name}:Once:pulls=6000", "--method", "rage"),
        *("--runs", "30", "--seed", "3", "--json"),
    )
    here = run(*arguments, "--workers", "1", "--out", "runs-1.csv")
    # As a command is run: sys.path does not have the current folder by itself.
    assert not {"", str(folder)} & set(sys.path)
    command = ForkedCommand("compare", *arguments, "--workers", "2", "--out", "runs-2.csv")
    out, err = command.communicate()
    assert (command.returncode, err) == (0, "")
    assert here == (out, "")
    assert (folder / "runs-1.csv").read_bytes() == (folder / "runs-2.csv").read_bytes()
    assert len(rows(folder / "runs-1.csv")) == 60
    assert not [file for file in folder.iterdir() if file.name.startswith(".")]


def test_a_comparison_is_what_simulate_gives(folder: Path) -> None:
    name = write_module(POLICY)
    found = report("--method", f"{name}:Once", "--runs", "12", "--seed", "5", "--out", "runs.csv")
    assert found["complete"] is True
    assert found["reference"] == "sp-bai"
    by_name = {method["name"]: method for method in found["methods"]}
    assert list(by_name) == [f"{name}:Once", "sp-bai", "rage"]
    paper = simulate(SPBAI, small_gap(), runs=12, seed=5)
    assert by_name["sp-bai"]["mean_pulls"] == paper.mean_pulls
    assert by_name["sp-bai"]["pulls_quantiles"]["0.5"] == np.median(paper.pulls)
    assert by_name["sp-bai"]["error_interval"] == list(paper.error_interval())
    assert by_name["sp-bai"]["pulls_minus_reference"] is None
    assert by_name["rage"]["error_against_delta"] == "above"
    own = by_name[f"{name}:Once"]
    assert (own["mean_pulls"], own["not_final"]) == (5000, 12)
    assert own["error_against_delta"] is None
    gaps = 5000 - paper.pulls
    half = 1.959964 * gaps.std(ddof=1) / math.sqrt(12)
    assert own["pulls_minus_reference"]["mean"] == pytest.approx(gaps.mean())
    low, high = own["pulls_minus_reference"]["interval"]
    assert (low, high) == (
        pytest.approx(gaps.mean() - half, rel=1e-6),
        pytest.approx(gaps.mean() + half, rel=1e-6),
    )
    written = [row for row in rows(folder / "runs.csv") if row["method"] == "sp-bai"]
    assert [int(row["pulls"]) for row in written] == paper.pulls.tolist()
    assert [int(row["run"]) for row in written] == list(range(12))


def test_given_methods_of_ours_nobody_is_added_and_the_first_is_the_reference() -> None:
    found = report(
        *("--method", "RAGE:sigma=2", "--method", "uniform:budget=40", "--method", "RAGE:sigma=2"),
        *("--runs", "2"),
    )
    assert [method["name"] for method in found["methods"]] == ["rage:sigma=2", "uniform:budget=40"]
    assert found["reference"] == "rage:sigma=2"


@pytest.mark.parametrize(
    ("arguments", "instance", "cap"),
    [
        (("--instance", "Small_Gap", "--baseline", "adversary"), "with baseline adversary", None),
        (("--instance", "uniform"), "uniform", 5_000_000),
        (("--instance", "uniform", "--max-pulls", "700"), "uniform", 700),
        (("--instance", "jester"), "synthetic", None),
    ],
)
def test_instances(arguments: tuple[str, ...], instance: str, cap: int | None) -> None:
    method = ("--method", "rage:max_phases=1")
    found = report(*arguments, *method, "--runs", "2")
    assert instance in found["instance"]
    assert found["max_pulls"] == cap
    assert ("made-up users" in found["note"]) == ("jester" in arguments)
    if cap == 700:
        assert found["methods"][0]["mean_pulls"] == 700


def test_the_words_fit_a_narrow_terminal_and_say_what_matters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    name = write_module(POLICY)
    out, _ = run("--method", f"{name}:Once", "--instance", "jester", "--runs", "5")
    assert max(map(len, out.splitlines())) <= 80
    text = " ".join(out.split())
    for phrase in ("made-up users", "5 runs of each", "Not final", "95 %", "sp-bai's run by run"):
        assert phrase in text


@pytest.mark.parametrize(
    ("option", "line"),
    [("--markdown", r"\| sp-bai \| [\d,]+ ± "), ("--latex", r"\\begin{tabular}{@{}lrr@{}}")],
)
def test_tables_for_a_text_are_printed_instead_of_words(option: str, line: str) -> None:
    arguments = ("--method", "sp-bai", "--runs", "2")
    out, _ = run(*arguments, option)
    assert any(re.match(line, each) for each in out.splitlines()), out
    assert "exclude each other" in refused(*arguments, option, "--json")


def test_rounds_stand_beside_pulls_where_they_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    pairs = ("--method", "anytime:block=2,max_pulls=400", "--runs", "2")
    for instance in ("small-gap", "uniform", "jester"):
        (found,) = report(*pairs, "--instance", instance)["methods"]
        assert (found["mean_rounds"], found["rounds_interval"]) == (200, [200, 200])
        assert found["mean_pulls"] == 400
    both = (*pairs, "--method", "uniform:budget=300")
    out, _ = run(*both)
    assert re.search(r"^method +mean pulls +mean rounds +errors", out, re.M)
    assert re.search(r" 400 ± 0 +200 ", out)
    assert re.search(r" 300 ± 0 +300 ", out)
    assert "mean rounds" not in run("--method", "uniform:budget=300", "--runs", "2")[0]
    # A baseline that reacts to every pull has no rounds of several.
    assert "at most 1" in refused(*pairs, "--baseline", "adversary")


def test_runs_whose_assumptions_are_contradicted_are_counted(folder: Path) -> None:
    doubted = "final=False,\n            contradicted=done,"
    name = f"{write_module(POLICY.replace('final=False,', doubted))}:Once"
    short = ("--method", "rage", "--runs", "2", "--no-check")
    arguments = ("--method", name, *short)
    found = report(*arguments, "--out", "runs.csv")["methods"]
    assert [each["contradicted"] for each in found][:2] == [2, 0]
    assert [row["contradicted"] for row in rows(folder / "runs.csv")][:4] == ["1", "1", "0", "0"]
    out, _ = run(*arguments)
    assert f"Contradicted: {name} 2." in " ".join(out.split())
    assert "of these answers nothing is proven" in " ".join(out.split())
    assert "nothing is proven" not in run(*short)[0]


def test_verdicts_on_the_error() -> None:
    def verdict(errors: int, runs: int, *, cut: int = 0) -> str | None:
        """The first runs are wrong, and the first of them are cut."""
        table = np.arange(runs)
        correct, final = table >= errors, table >= cut
        about = ("m", "e", 0, 0.1, runs, False)
        return error_against_delta(
            Results(*about, table, table, correct, final, table < 0, *[table] * 3)
        )

    # Wilson's intervals, by hand: 0 of 34 reaches 0.1015, 0 of 35 reaches 0.0989.
    assert [verdict(0, 34), verdict(0, 35)] == ["compatible", "below"]
    assert [verdict(3, 10), verdict(4, 10)] == ["above", "above"]
    assert verdict(2, 10) == "compatible"
    # Wrong guesses of runs that were cut do not count, and final answers alone have a verdict.
    assert [verdict(13, 40), verdict(13, 40, cut=10)] == ["above", "compatible"]
    assert verdict(35, 35, cut=34) == "compatible"
    assert verdict(34, 35, cut=34) == "below"
    assert verdict(10, 10, cut=10) is None


WORLD = """
from bestarm.environments import small_gap

def made():
    return small_gap(3, 0.7)

world, nothing = made(), 3
"""


def test_an_instance_of_one_s_own(folder: Path) -> None:
    name = write_module(WORLD)
    by_name = [
        report("--method", "rage", "--runs", "3", "--instance", f"{name}:{what}")
        for what in ("world", "made")
    ]
    assert by_name[0]["methods"] == by_name[1]["methods"]
    assert by_name[0]["instance"] == f"small-gap of {name}"
    assert by_name[0]["max_pulls"] is None
    for what, words in {
        "nothing": "not an environment",
        "wrld": "Did you mean world?",
        "world:x=1": "does not say what of which module it is",
    }.items():
        assert words in refused("--method", "rage", "--instance", f"{name}:{what}")
    arguments = ("--method", "rage", "--instance", f"{name}:world", "--baseline", "none")
    assert "does not apply to an instance of your own" in refused(*arguments)


def test_a_folder_keeps_runs_which_are_not_made_again(folder: Path) -> None:
    arguments = ("--method", "rage", "--method", "sp-bai", "--runs", "4", "--folder", "kept")
    first = report(*arguments)
    assert len(list((folder / "kept" / "journal").iterdir())) == 2
    assert report(*arguments) == first
    assert "other seed" in refused(*arguments, "--seed", "1")


BAD = {
    "unknown method": (("--method", "sbpai"), "Did you mean sp-bai?"),
    "refused option": (("--method", "rage:sigma=-3"), "rage:sigma=-3 cannot be made: `sigma`"),
    "two targets": (("--method", "anytime:top=2"), "anytime:top=2 names 2 targets, and"),
    "a tolerance": (
        ("--method", "rage", "--method", "anytime:tolerance=0.5"),
        "names a target within 0.5 of the best, and is judged here by whether it names the best. "
        "Leave out the options",
    ),
    "forecasts": (
        ("--method", "anytime:forecasts=True"),
        "anytime:forecasts=True needs a forecast of every reward",
    ),
    "unknown instance": (("--instance", "smal-gap"), "Did you mean small-gap?"),
    "unknown baseline": (("--baseline", "sine"), "must be one of 'sinusoid'"),
    "baseline of ratings": (("--instance", "jester", "--baseline", "none"), "Leave it out"),
    "data of none": (("--data", "x.csv"), "the instance jester"),
    "no data": (("--instance", "jester", "--data", "gone.csv"), "gone.csv"),
    "no runs": (("--runs", "0"), "`runs`"),
    "seed": (("--seed=-1",), "`seed`"),
    "delta": (("--delta", "5"), "Did you mean 0.05?"),
    "max pulls": (("--max-pulls", "0"), "`max_pulls`"),
    "workers": (("--workers", "0"), "`workers`"),
    "no such folder": (("--out", "no/such/runs.csv"), "no such file or directory"),
    "a folder": (("--out", "."), "directory"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_input_is_one_sentence_before_anything_runs(
    kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bestarm.simulation.comparison.simulate", None)
    arguments, hint = BAD[kind]
    assert hint in refused(*arguments)
    assert not list(folder.iterdir())


OWN = {
    "no policy": (
        "class X:\n    def __init__(self, problem, *, seed): ...",
        "which is not a policy",
    ),
    "raises": ("def X(problem, *, seed): return 1 / 0", "ZeroDivisionError: division by zero"),
    "takes anything": (
        POLICY
        + "class X(Once):\n"
        + "    def update(self, summary): self.theta, self.open = np.zeros(10), None",
        "accepted a summary with one pull too many",
    ),
    "silent at first": (
        POLICY + "class X(Once):\n    def recommend(self): return self.theta.sum()",
        "recommend() must work at every moment; it raised (AttributeError: 'NoneType' object",
    ),
    "lost": (POLICY + "class X(Once):\n    def plan(self): return 'more'", "not a Plan"),
    "fails": (POLICY + "class X(Once):\n    def update(self, summary): {}[0]", "KeyError: 0 ("),
}


@pytest.mark.parametrize("kind", OWN)
def test_a_method_that_breaks_the_contract_is_refused_by_its_name(
    kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bestarm.simulation.comparison.simulate", None)
    text, hint = OWN[kind]
    name = write_module(text)
    error = refused("--method", f"{name}:X", "--out", "runs.csv")
    assert hint in error
    assert f"{name}:X" in error
    assert not (folder / "runs.csv").exists()


def test_the_check_can_be_left_out() -> None:
    name = write_module(POLICY + OWN["takes anything"][0].removeprefix(POLICY))
    found = report("--method", f"{name}:X", "--method", "rage", "--runs", "3", "--no-check")
    assert found["methods"][0]["runs"] == 3


FAILING = """
class X(Once):
    def recommend(self):
        if self.theta is not None and self.seed % 5 == 1:
            raise ArithmeticError("as asked")
        return super().recommend()
"""


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.usefixtures("quick_workers")
def test_a_policy_that_raises_names_the_run_and_the_line(folder: Path, workers: str) -> None:
    name = write_module(POLICY + FAILING)
    line = (POLICY + FAILING).splitlines().index(
        '            raise ArithmeticError("as asked")'
    ) + 1
    out, err = run(
        *("--method", "uniform:budget=20", "--method", f"{name}:X", "--runs", "40"),
        *("--workers", workers, "--out", "runs.csv", "--json"),
        code=2,
    )
    assert f"{name}:X raised ArithmeticError: as asked ({name}.py, line {line})" in err
    assert re.search(r"This was run \d+ of a simulation with seed 0; run_once\(", err)
    assert err.count("\n") == 1
    # What had finished is not lost, and is not called all.
    found = json.loads(out)
    assert found["complete"] is False
    assert [method["name"] for method in found["methods"]] == ["uniform:budget=20"]
    assert {file.suffix for file in folder.iterdir()} <= {".py", ""}


@pytest.mark.usefixtures("quick_workers")
def test_a_worker_that_dies_is_one_sentence(folder: Path) -> None:
    name = write_module(POLICY + "\nclass X(Once):\n    def update(self, summary): os._exit(3)\n")
    arguments = ("--method", f"{name}:X", "--no-check", "--workers", "2", "--runs", "4")
    assert "A worker process ended abruptly" in refused(*arguments)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_ctrl_c_prints_what_is_finished_and_says_that_it_is_partial(
    folder: Path, workers: str
) -> None:
    name = write_module(POLICY)
    options = ("--no-check", "--runs", "100000", "--workers", workers, "--out", "runs.csv")
    with start_command("compare", "--method", f"{name}:Once", *options) as running:
        running.wait_until_shown(r"[1-9]\d*/100000")
        code, out, shown = running.interrupt()
    assert code == 130
    assert "Traceback" not in shown
    assert "partial" in out
    finished = re.search(rf"{name}:Once \[([\d,]+) runs?\]", out)
    assert finished is not None
    runs = int(finished[1].replace(",", ""))
    assert 0 < runs < 100_000
    written = [row["method"] for row in rows(folder / "runs.csv")]
    assert written.count(f"{name}:Once") == runs


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux's /proc")
def test_ctrl_c_while_workers_start_leaves_no_traceback(folder: Path) -> None:
    """A worker that is still importing modules when it hears Ctrl-C would end with one."""
    options = ("--runs", "100000", "--workers", "2", "--json")
    with start_command(
        "compare", "--method", "uniform:budget=2000", *options, forked=False
    ) as running:
        running.wait_for_children(3)  # two workers, and one process that multiprocessing needs
        code, out, shown = running.interrupt()
    assert "Traceback" not in shown
    assert code == 130
    assert json.loads(out)["complete"] is False


def test_the_documented_example_takes_part_by_the_documented_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = (ROOT / "docs" / "own-policy.md").read_text(encoding="utf-8")
    source = re.search(r"^```python\n(.*?)^```$", page, re.M | re.S)
    command = re.search(
        r"^    (bestarm compare --method mymodule:MyPolicy .*--runs 1000.*)$", page, re.M
    )
    assert source is not None
    assert command is not None
    assert len(source[1].splitlines()) <= 70
    Path("mymodule.py").write_text(source[1], encoding="utf-8")
    monkeypatch.delitem(sys.modules, "mymodule", raising=False)
    arguments = shlex.split(command[1].replace("--runs 1000", "--runs 20"))[2:]
    found = report(*arguments)
    own, paper, rage = found["methods"]
    assert own["name"] == "mymodule:MyPolicy"
    assert (own["runs"], own["not_final"]) == (20, 0)
    assert own["error_against_delta"] in ("below", "compatible")
    assert rage["error_rate"] == 1
    assert own["mean_pulls"] < paper["mean_pulls"]  # as the page says


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.usefixtures("quick_workers")
def test_a_policy_that_prints_or_ends_the_program_spoils_nothing(
    folder: Path, workers: str
) -> None:
    talks = POLICY.replace(
        "        plan.check(summary)", "        print('hello')\n        plan.check(summary)"
    )
    name = write_module(talks)
    arguments = ("--method", f"{name}:Once", "--method", "rage", "--runs", "2", "--json")
    out, err = run(*arguments, "--workers", workers)
    assert len(json.loads(out)["methods"]) == 2
    assert "hello" in err or workers == "2"
    leaves = POLICY.replace("        plan.check(summary)", "        raise SystemExit(3)")
    name = write_module(leaves)
    arguments = ("--method", f"{name}:Once", "--runs", "2", "--no-check", "--workers", workers)
    assert "end the program" in refused(*arguments)


def test_a_target_that_there_is_not_is_refused_even_unchecked(folder: Path) -> None:
    name = write_module(
        POLICY.replace(
            "if done else 0\n", "if done else 0\n        target += 77 * done\n", 1
        ).replace("label=self.problem.target_labels[target]", "label='x'")
    )
    message = refused("--method", f"{name}:Once", "--runs", "2", "--no-check")
    assert "names target" in message
