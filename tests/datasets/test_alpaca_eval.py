"""AlpacaEval: the synthetic judgements beside figures of the real ones, arguments, and files.

Judgements in files are made up in the tests, except where the real table lies beside the
repository: its test is skipped where it does not.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from bestarm.datasets import alpaca_eval
from bestarm.errors import InvalidInputError
from bestarm.policies import Uniform
from bestarm.simulation import simulate

REAL = Path(__file__).parents[3] / "shared" / "data" / "alpaca_eval" / "judgements.npz"
Floats = NDArray[np.float64]
# Figures of the real table, its models from the best to the worst: means and standard deviations
# of the best ten, and standard deviations of the best less each of the next nine.
MEANS = [0.7056, 0.6444, 0.6322, 0.5133, 0.2972, 0.1691, 0.1676, 0.1590, 0.1558, 0.1337]
DEVIATIONS = [0.380, 0.407, 0.403, 0.420, 0.394, 0.330, 0.329, 0.319, 0.316, 0.299]
DIFFERENCES = [0.395, 0.378, 0.402, 0.431, 0.451, 0.455, 0.448, 0.447, 0.442]
CORRELATIONS = (0.494, 0.163, 0.406)  # among the best five, between them and the rest, among these
EXTREME = (0.792, 0.044)  # shares of judgements below 0.01 and above 0.99


def figures(judgements: Floats) -> tuple[Floats, Floats, list[float], list[float]]:
    correlation = np.asarray(np.corrcoef(judgements.T))
    upper, lower = correlation[:5, :5], correlation[5:, 5:]
    return (
        judgements.std(axis=0)[:10],
        np.asarray((judgements[:, :1] - judgements[:, 1:10]).std(axis=0)),
        [
            float(upper[np.triu_indices(5, 1)].mean()),
            float(correlation[:5, 5:].mean()),
            float(lower[np.triu_indices(50, 1)].mean()),
        ],
        [float((judgements < 0.01).mean()), float((judgements > 0.99).mean())],
    )


def test_synthetic_judgements_are_alike_to_the_real_ones() -> None:
    data = alpaca_eval()
    assert data.judgements.shape == (797, 55)
    assert (data.judgements.min(), data.judgements.max()) == (0.0, 1.0)
    # Means to the ten-thousandth of a judgement, divided by the number of prompts.
    np.testing.assert_allclose(data.judgements.mean(axis=0)[:10], MEANS, rtol=0, atol=1e-6)
    assert data.judgements.mean() == pytest.approx(0.1093, abs=1e-4)
    deviations, differences, correlations, extreme = figures(data.judgements)
    np.testing.assert_allclose(deviations, DEVIATIONS, rtol=0.03)
    np.testing.assert_allclose(differences, DIFFERENCES, rtol=0.04)
    np.testing.assert_allclose(correlations, CORRELATIONS, rtol=0, atol=0.02)
    np.testing.assert_allclose(extreme, EXTREME, rtol=0, atol=0.02)


def test_figures_of_the_real_table() -> None:
    if not REAL.exists():
        pytest.skip("The real judgements are not beside this repository.")
    data = alpaca_eval(REAL, models=55)
    assert data.source == "AlpacaEval: 797 prompts were judged for all of 55 models."
    assert (data.name, data.synthetic) == ("alpaca_eval", False)
    assert data.models[:2] == ("FuseChat-Gemma-2-9B-Instruct", "FuseChat-Qwen-2.5-7B-Instruct")
    np.testing.assert_allclose(data.judgements.mean(axis=0)[:10], MEANS, rtol=0, atol=5e-5)
    assert data.judgements.mean() == pytest.approx(alpaca_eval().judgements.mean(), abs=1e-4)
    deviations, differences, correlations, extreme = figures(data.judgements)
    np.testing.assert_allclose(deviations, DEVIATIONS, rtol=0, atol=6e-4)
    np.testing.assert_allclose(differences, DIFFERENCES, rtol=0, atol=6e-4)
    np.testing.assert_allclose(correlations, CORRELATIONS, rtol=0, atol=6e-4)
    np.testing.assert_allclose(extreme, EXTREME, rtol=0, atol=6e-4)


def test_synthetic_says_so_everywhere() -> None:
    data = alpaca_eval(models=3)
    assert data.synthetic
    assert data.source.startswith("Synthetic: made-up judgements of 3 models on 797 prompts")
    assert (
        repr(data) == "JudgementsData('alpaca_eval (synthetic)', 797 prompts, 3 models, synthetic)"
    )
    world = data.environment()
    assert world.name == "alpaca_eval (synthetic)"
    assert "synthetic" in repr(world)


def test_a_prompt_comes_once_and_models_are_the_arms() -> None:
    data = alpaca_eval(models=["model 3", "model 1"])
    np.testing.assert_array_equal(data.judgements, alpaca_eval().judgements[:, [2, 0]])
    world = data.environment()
    problem = world.problem(0.05)
    assert (world.best, problem.source_labels) == (1, ("model 3", "model 1"))
    assert (world.replacement, problem.noise, data.bounds) == (False, 0.5, (0.0, 1.0))
    with pytest.raises(InvalidInputError, match="There are 797 users, each asked once"):
        simulate(partial(Uniform, budget=798), world, runs=1)
    assert simulate(partial(Uniform, budget=797), world, runs=1).runs == 1
    assert data.environment(replacement=True, declared_noise=1.0).problem(0.05).noise == 1.0


def test_the_best_so_many_models_come_best_first(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("low,none,high,middle\n0.1,,0.9,0.5\n0.2,,0.9,0.5\n,,0.8,0.4\n")
    data = alpaca_eval(path, models=2)
    assert data.models == ("high", "middle")
    assert len(data.judgements) == 3
    data = alpaca_eval(path, models=3)
    assert data.models == ("high", "middle", "low")
    assert data.source == "AlpacaEval: 2 of 3 prompts were judged for all of 3 models."
    assert not data.judgements.flags.writeable
    with pytest.raises(
        InvalidInputError, match="No prompt was judged for all of 4 models"
    ) as found:
        alpaca_eval(path)
    assert "'none' has the fewest judgements, 0" in found.value.remedy


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: alpaca_eval(models=1), "`models` must be a whole number from 2 to 55; got 1"),
        (lambda: alpaca_eval(models=56), "from 2 to 55; got 56"),
        (lambda: alpaca_eval(models=["model 1"]), r"two different models; got \['model 1'\]"),
        (lambda: alpaca_eval(models=["model 1", "model 1"]), "two different models"),
        (lambda: alpaca_eval(models="model 1"), "two different models; got 'model 1'"),
        (
            lambda: alpaca_eval(models=["model 1", "Model-2"]),
            "asks for 'Model-2', which was not judged. Did you mean model 2",
        ),
        (lambda: alpaca_eval(models=["model 1", "?"]), "There are 55 models, of which 'model 1'"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make()


# --- files ----------------------------------------------------------------------------------------

# By model: the preference on each prompt; 1 is for the reference, 2 for the model.
JUDGED: dict[str, dict[str, float | None]] = {
    "red": {"Why?": 1.25, "How?": 2, "Who?": 1.0},
    "blue": {"How?": 1.5, "Why?": 1.75, "Who?": None},
}


def entries_of(model: str, **changed: object) -> list[dict[str, object]]:
    return [
        {"instruction": prompt, "generator_1": "reference", "generator_2": model,
         "annotator": "a judge", "preference": preference} | changed
        for prompt, preference in JUDGED[model].items()
    ]  # fmt: skip


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(text, encoding="utf-8")
    return path


def check_both(path: Path) -> None:
    data = alpaca_eval(path, models=["red", "blue"])
    assert sorted(data.judgements.tolist()) == [[0.25, 0.75], [1.0, 0.5]]
    assert data.source == "AlpacaEval: 2 of 3 prompts were judged for all of 2 models."


def test_a_folder_of_annotations_is_read(tmp_path: Path) -> None:
    for model in JUDGED:
        write(tmp_path / model / "annotations.json", entries_of(model))
    write(tmp_path / "red" / "model_outputs.json", [{"instruction": "Why?"}])
    check_both(tmp_path)


def test_of_several_judges_that_of_the_second_version_counts(tmp_path: Path) -> None:
    for model in JUDGED:
        judge = "weighted_alpaca_eval_gpt4_turbo"
        write(tmp_path / model / judge / "annotations.json", entries_of(model))
        write(tmp_path / model / "annotations.json", entries_of(model, preference=1))
    check_both(tmp_path)


def test_one_file_may_hold_several_models(tmp_path: Path) -> None:
    entries = entries_of("blue") + entries_of("red")
    data = alpaca_eval(write(tmp_path / "all.json", entries))
    assert data.models == ("blue", "red")
    check_both(tmp_path / "all.json")
    check_both(write(tmp_path / "nan.json", json.dumps(entries).replace("null", "NaN")))


def test_a_prompt_that_comes_twice_is_two_prompts(tmp_path: Path) -> None:
    entries = [
        {"instruction": "Why?", "generator_2": model, "preference": preference}
        for model, preference in (("red", 1.1), ("red", 1.2), ("blue", 1.3), ("blue", 1.4))
    ]
    data = alpaca_eval(write(tmp_path / "all.json", entries))
    np.testing.assert_allclose(data.judgements, [[0.1, 0.3], [0.2, 0.4]], rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    "text",
    [
        "red,blue\n0.25,0.75\n1,0.5\n0,\n",
        "\ufeffred,blue\r\n0.25,0.75\r\n\r\n1,0.5\r\n0,\r\n",
        'prompt,red,blue\n"Why,\nthen?",0.25,0.75\nHow?,1,0.5\nWho?,0,nan\n',
        "blue,red\n0.75,0.25\n0.5,1\n,0",
        ",red,blue\n0,0.25,0.75\n1,1,0.5\n2,0,\n",
    ],
    ids=["plain", "byte order mark", "prompts", "other order", "numbers of prompts"],
)
def test_a_table_is_read_as_text(text: str, tmp_path: Path) -> None:
    check_both(write(tmp_path / "any.name", text))


def test_a_numpy_archive_is_read(tmp_path: Path) -> None:
    path = tmp_path / "table.npz"
    table = np.array([[2500, 7500], [10000, 5000]], dtype=np.int16)
    np.savez(path, preference_ten_thousandths=table, models=["red", "blue"])
    data = alpaca_eval(path)
    assert data.judgements.tolist() == [[0.25, 0.75], [1.0, 0.5]]
    assert data.models == ("red", "blue")
    assert data.source == "AlpacaEval: 2 prompts were judged for all of 2 models."


ENTRY = {"instruction": "Why?", "generator_2": "red", "preference": 1.5}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "holds no judgements"),
        ("red,blue\n", "holds no judgements"),
        ("red,blue\n0.5,0.5\n0.5\n", r"has 1 field\(s\) in prompt 2, where 2 belong"),
        ("red,blue\n0.5,high\n", "has 'high' in prompt 1, where a judgement belongs"),
        ("red,blue\n0.5,1.5\n", "holds 1.5 in row 0, model 'blue', outside"),
        ("red,blue,\n0.5,0.5,\n", "has a column without the name of a model"),
        ("red,red\n0.5,0.5\n", "has two columns for the model 'red'"),
        ("red\n0.5\n", r"holds judgements on 1 prompt\(s\) of 1 model\(s\)"),
        ("[]", r"holds judgements on 0 prompt\(s\) of 0 model\(s\)"),
        ([ENTRY], r"holds judgements on 1 prompt\(s\) of 1 model\(s\)"),
        ({"annotations": []}, "is not a list of annotations"),
        ("[1, 2", "is cut short or damaged"),
        ([ENTRY, {"instruction": "Why?"}], "has an annotation without .* at place 1"),
        ([ENTRY | {"preference": 0}], "has the preference 0 at place 0, outside"),
        ([ENTRY | {"preference": "2"}], "has the preference '2' at place 0"),
        ([ENTRY | {"preference": True}], "has the preference True at place 0"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_file_is_said(content: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=message) as found:
        alpaca_eval(write(tmp_path / "file", content))
    assert found.value.field == "path"


def test_an_archive_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.npz"
    np.savez(path, other=[1])
    with pytest.raises(
        InvalidInputError, match=r"is an archive of other\. It must have the arrays"
    ):
        alpaca_eval(path)
    np.savez(path, preference_ten_thousandths=[[0.5, 0.5]], models=["red", "blue"])
    with pytest.raises(InvalidInputError, match="It must have whole numbers"):
        alpaca_eval(path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InvalidInputError, match="is cut short or damaged"):
        alpaca_eval(path)
    path.write_bytes(b"\xff\xfe\x00" * 9)
    with pytest.raises(InvalidInputError, match="is neither text nor a NumPy archive"):
        alpaca_eval(path)


def test_a_model_in_two_files_is_refused(tmp_path: Path) -> None:
    for name in ("one", "other"):
        write(tmp_path / name / "annotations.json", entries_of("red"))
    with pytest.raises(InvalidInputError, match=r"holds judgements of 'red', and so does .*one"):
        alpaca_eval(tmp_path)


def test_a_missing_file_or_an_empty_folder_says_where_judgements_are(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="has the judgements, for use that is not"):
        alpaca_eval(tmp_path / "absent")
    with pytest.raises(InvalidInputError, match=r"has no file annotations\.json in it"):
        alpaca_eval(tmp_path)
