"""The commands: what they print, and that every bad input is one line and exit code 2."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from commands import data, refused, run

import bestarm

GOOD = "name,f1,f2\nred,1,0\ngreen,0,1\nblue,0.6,0.8\n"
Write = Callable[[str, str], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to_file(name: str, text: str) -> str:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    return to_file


def script(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from bestarm.cli import main; main()", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        encoding="utf-8",
    )


def test_version_comes_from_a_real_process() -> None:
    result = script("--version")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == f"bestarm {bestarm.__version__}\n"


def test_version_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom bestarm.cli import main\nsys.argv = ['bestarm', '--version']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'scipy', 'numba', 'pandas', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, capture_output=True)


def test_errors_of_a_real_process_are_one_line(tmp_path: Path) -> None:
    result = script("check", str(tmp_path / "missing.csv"))
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("bestarm: ")
    assert result.stderr.count("\n") == 1


def test_without_typer_one_line_says_what_to_install() -> None:
    code = "import sys; sys.modules['typer'] = None\nfrom bestarm.cli import main; main()"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 2
    assert result.stderr == (
        "bestarm: the command line needs typer, which is not installed. "
        "Install it with pip install 'bestarmid[cli]'.\n"
    )


def test_without_matplotlib_the_demo_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert "matplotlib" in refused("demo", "--runs", "1", "--out", str(tmp_path))


@pytest.mark.parametrize("name", ["status", "create", "list"])
def test_a_command_of_experiment_is_pointed_out(name: str) -> None:
    _, err = run(name, "checkout", code=2)
    assert f"No such command '{name}'. Did you mean 'experiment {name}'?" in err


def test_an_unknown_option_is_exit_code_2() -> None:
    run("demo", "--rnus", "3", code=2)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("\n \n", "is empty"),
        ("a,b\n", "no rows"),
        ("1,2\n3,4\n5\n", "line 3"),
        ("1,0\n0,one\n", "'one'"),
        ("1,0\n0,\n", "line 2"),
        ("1,0\n0,nan\n", "nan"),
        ("1,0\n", "only one option"),
    ],
)
def test_bad_sources_are_refused(text: str, hint: str, write: Write) -> None:
    assert hint in refused("check", write("source.csv", text))


def test_targets_that_cannot_be_told_apart_are_named(write: Write) -> None:
    source, target = write("s.csv", "1,0\n2,0\n"), write("t.csv", "x,1,0\ny,1,1\n")
    assert "'x' and 'y'" in refused("check", source, "--target", target)
    assert "distinguished" in refused("design", source, "--target", target)


def test_outputs_that_cannot_be_written_are_refused(write: Write, tmp_path: Path) -> None:
    source = write("s.csv", GOOD)
    refused("design", source, "--out", str(tmp_path))
    refused("design", source, "--out", str(tmp_path / "no" / "such" / "w.csv"))
    refused("demo", "--runs", "1", "--out", source)
    refused("demo", "--runs", "1", "--out", f"{source}/below")


def test_bad_demos_are_refused(tmp_path: Path) -> None:
    out = str(tmp_path)
    assert "runs" in refused("demo", "--runs", "0", "--out", out)
    assert "delta" in refused("demo", "--delta", "5", "--out", out)
    assert "seed" in refused("demo", "--seed=-1", "--out", out)
    assert "workers" in refused("demo", "--workers", "0", "--out", out)
    assert not list(tmp_path.iterdir())


def test_options_that_do_not_enter_a_design_are_refused(write: Write) -> None:
    source = write("s.csv", GOOD)
    assert "anchor" in refused("design", source, "--anchor", "red")
    assert "target" in refused("design", source, "--criterion", "deo", "--target", source)
    assert "tol" in refused("design", source, "--tol", "0")
    for anchor in ("yellow", "3", "-1"):
        error = refused("design", source, "--criterion", "xor", f"--anchor={anchor}")
        assert "0 to 2" in error


def test_a_design_is_printed_with_its_certificate(write: Write) -> None:
    out, _ = run("design", write("s.csv", GOOD))
    assert "lower bound" in out
    assert "certified" in out
    assert {"red", "green", "blue"} <= set(out.split())


def test_dust_is_folded_into_one_line_and_written_in_full(write: Write, tmp_path: Path) -> None:
    # Between two far arms, arms near their middle inform about nothing that the ends do not.
    source = write("s.csv", "0\n10\n5\n5.1\n4.9\n")
    weights = tmp_path / "weights.csv"
    out, _ = run("design", source, "--criterion=centered-g", "--tol=1e-7", f"--out={weights}")
    assert "3 arms below 0.0001" in out
    rows = weights.read_text(encoding="utf-8").splitlines()
    assert rows[0] == "label,weight"
    assert sum(float(row.split(",")[1]) for row in rows[1:]) == pytest.approx(1)
    assert len(rows) == 6


@pytest.mark.parametrize(
    "criterion", ["centered-xy", "centered-g", "linear-xy", "linear-g", "deo", "xor"]
)
def test_every_criterion_gives_json(criterion: str, write: Write) -> None:
    report = data("design", write("s.csv", GOOD), "--criterion", criterion)
    assert report["criterion"] == criterion
    assert 0 < report["lower_bound"] <= report["value"]
    assert sum(row["weight"] for row in report["weights"]) == pytest.approx(1)
    assert [row["label"] for row in report["weights"]] == ["red", "green", "blue"]


def test_an_anchor_is_a_label_or_an_index(write: Write) -> None:
    source = write("s.csv", GOOD)
    for anchor in ("blue", "2"):
        report = data("design", source, "--criterion", "xor", "--anchor", anchor)
        assert report["anchor"] == "blue"
        assert report["weights"][2]["weight"] == 0.5


def test_check_says_what_a_problem_is(write: Write) -> None:
    out, _ = run("check", write("s.csv", GOOD))
    assert "3 arms" in out
    assert "identifiable" in out


def test_check_gives_complexities_that_enclose_each_other(write: Write) -> None:
    arguments = ("check", write("s.csv", GOOD), "--theta", write("t.csv", "1\n0\n"))
    assert "τ*_cov" in run(*arguments)[0]
    report = data(*arguments)
    centered, shifted = (report["complexity"][kind] for kind in ("centered", "shifted"))
    # τ*_lin(shifted) ≤ τ*_cov ≤ 4 τ*_lin(shifted): the paper's Propositions.
    assert shifted["lower_bound"] <= centered["value"]
    assert centered["lower_bound"] <= 4 * shifted["value"]


def test_a_tied_best_is_infinitely_hard(write: Write) -> None:
    arguments = ("check", write("s.csv", "1,0\n0,1\n"), "--theta", write("t.csv", "1,1\n"))
    assert "tied" in run(*arguments)[0]
    assert data(*arguments)["complexity"]["centered"]["value"] is None


def test_a_bad_parameter_is_refused(write: Write) -> None:
    source = write("s.csv", GOOD)
    assert "theta" in refused("check", source, "--theta", write("t.csv", "1,2,3\n"))
    assert "one per feature" in refused("check", source, "--theta", write("u.csv", "1,2\n3,4\n"))


def test_the_demo_compares_and_draws(tmp_path: Path) -> None:
    out, _ = run("demo", "--runs", "3", "--out", str(tmp_path / "new"))
    assert all(name in out for name in ("rage", "sp-bai", "anytime"))
    assert "Not proven" in " ".join(out.split())
    for name in ("phases.png", "evidence.png"):
        picture = (tmp_path / "new" / name).read_bytes()
        assert picture.startswith(b"\x89PNG")
        assert len(picture) < 150_000


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A demo without pictures, which take longer than its runs."""
    monkeypatch.setattr("bestarm.cli.demo._draw", lambda *_, **__: [])


@pytest.mark.usefixtures("undrawn")
def test_the_demo_gives_json_even_for_one_run() -> None:
    report = data("demo", "--runs", "1")
    assert report["complete"] is True
    assert [method["runs"] for method in report["methods"]] == [1, 1, 1]
    assert (report["reference"], report["methods"][1]["name"]) == ("sp-bai", "sp-bai")
    assert report["methods"][0]["pulls_interval"] is None


@pytest.mark.usefixtures("undrawn")
def test_ctrl_c_prints_the_runs_that_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real interruptions are tested with `compare`, which runs the same comparison."""

    def third(done: int, _total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    bars = nullcontext(dict.fromkeys(("rage", "sp-bai", "anytime"), third))
    monkeypatch.setattr("bestarm.cli.research.compare.bars", lambda *_: bars)
    report = data("demo", "--runs", "9", code=130)
    assert report["complete"] is False
    assert report["methods"][0]["runs"] == 3
