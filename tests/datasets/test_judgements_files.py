"""Files of judgements: every form is read, and what is wrong in one is said with place and value.

All judgements here are made up in the tests.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bestarm.datasets import alpaca_eval
from bestarm.errors import InvalidInputError

JUDGED: dict[
    str, dict[str, float | None]
] = {  # by model: the preference on each prompt; 1 is for the reference, 2 for the model
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
