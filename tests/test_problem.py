"""A problem is refused with a remedy or is sound: shapes, numbers, labels, identifiability."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bestarm.defaults import DELTA
from bestarm.errors import BestArmError, InvalidInputError, UnidentifiableError
from bestarm.numerics.geometry import Array
from bestarm.problem import Problem, as_weights, problem_of

SQUARE = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]


def refusal(*args: Any, **kwargs: Any) -> BestArmError:
    with pytest.raises(InvalidInputError) as caught:
        Problem(*args, **kwargs)
    error = caught.value
    assert error.field
    assert "\n" not in str(error)
    assert error.message.endswith(".")
    assert str(error) == f"{error.message} {error.remedy}".strip()
    return error


@pytest.mark.parametrize("field", ["source", "target"])
@pytest.mark.parametrize(
    "features",
    [[1.0, 2.0, 3.0], 5.0, [], [[]], np.zeros((0, 2)), np.zeros((2, 0)), np.zeros((2, 2, 2))],
)
def test_features_are_a_table(field: str, features: Any) -> None:
    tables = {"source": SQUARE, "target": SQUARE, field: features}
    error = refusal(tables["source"], tables["target"])
    assert error.field == field
    assert error.value == np.shape(features)
    assert "must be a table with one row per arm" in str(error)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_features_are_finite_and_the_culprit_is_named(value: float) -> None:
    features = np.array(SQUARE)
    features[2, 1] = value
    error = refusal(features)
    assert "in row 2, column 1" in str(error)
    assert repr(error.value) == repr(value)
    assert refusal(SQUARE, features).field == "target"


def test_source_and_target_share_their_features() -> None:
    error = refusal(SQUARE, [[1.0], [2.0]])
    assert (error.field, error.value) == ("target", (2, 1))
    assert "`target` has 1 features and `source` has 2" in str(error)


@pytest.mark.parametrize(
    ("rows", "flaw"),
    [
        ([[1, 0], [1]], ": its rows have from 1 to 2 entries."),
        ([[1, 0], 1], ": its rows have from 1 to 2 entries."),
        ([["a", "b"], ["c", "d"]], ": row 0, column 0 is 'a'."),
        ([[1, 0], [1, "x"]], ": row 1, column 1 is 'x'."),
        ([[1, None], [1, [2]]], ": row 0, column 1 is None."),
        ([object()], ": row 0, column 0 is <"),
    ],
)
def test_the_place_that_is_not_a_number_is_named(rows: object, flaw: str) -> None:
    error = refusal(rows)
    assert f"could not be read as a table of numbers{flaw}" in error.message
    assert (error.field, error.value) == ("source", rows)


def test_there_is_something_to_choose() -> None:
    one = refusal(SQUARE, [[0.0, 1.0]])
    assert (one.field, str(one)) == ("target", "There is only one option, '0'. Give at least two.")
    error = refusal([[1.0]], source_labels=["old"])
    assert str(error) == "There is only one option, 'old'. Give at least two."
    assert (error.field, error.value) == ("source", "old")


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_identical_targets_are_named(zero: float) -> None:
    error = refusal(SQUARE, [[zero, 1.0], [1.0, 0.0], [0.0, 1.0]], target_labels=["a", "b", "c"])
    assert error.value == ("a", "c")
    assert error.remedy == "Remove one of them."
    assert not isinstance(error, UnidentifiableError)


@pytest.mark.parametrize("offset", [0.0, 1.0, 1e8])
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_targets_alike_but_for_rounding_are_named(offset: float, unit: float) -> None:
    rng = np.random.default_rng(0)
    source, target = rng.normal(size=(6, 3)), rng.normal(size=(2000, 3))
    target[1700] = target[40]
    source, target = unit * (source + offset), unit * (target + offset)
    target[1700] = np.nextafter(target[40], np.inf)
    error = refusal(source, target)
    assert error.value == ("40", "1700")
    assert "up to rounding" in str(error)
    target[1700] += 1e-4 * unit
    assert Problem(source, target).targets == 2000


def test_what_pulls_cannot_see_is_rounding_too() -> None:
    """A feature that is constant in the source, and a difference far below the others' size."""
    constant = np.column_stack([SQUARE, np.ones(4)])
    twins = [[0.5, 0.5, 1.0], [1.0, 0.0, 1.0], [0.5, 0.5, 1 + 1e-15]]
    assert refusal(constant, twins).value == ("0", "2")
    large = [[1e12, 1.0], [1e12 + 1e-4, 1.0], [0.0, 0.0]]
    assert refusal([[0.0, 0.0], [1e12, 0.0], [0.0, 1.0]], large).value == ("0", "1")


def test_targets_on_a_lattice_are_told_apart() -> None:
    """Many equal coordinates, and along many a line many neighbours: still no twins."""
    grid = np.stack(np.meshgrid(*[np.arange(10.0)] * 4), axis=-1).reshape(-1, 4)
    assert Problem(np.eye(5)[:, :4], grid).targets == 10_000


def test_an_arm_given_twice_is_two_identical_targets_unless_targets_are_given() -> None:
    twice = [*SQUARE, SQUARE[0]]
    assert refusal(twice).value == ("0", "4")
    assert Problem(twice, SQUARE).arms == 5


@pytest.mark.parametrize(
    ("delta", "remedy"),
    [
        (0, "Try 0.05."),
        (-0.1, "Try 0.05."),
        (100, "Try 0.05."),
        (0.51, "It is the probability of an error. Did you mean 0.49?"),
        (0.95, "It is the probability of an error. Did you mean 0.05?"),
        (95, "It is the probability of an error. Did you mean 0.05?"),
        (1, "Did you mean 0.01?"),
        (5, "Did you mean 0.05?"),
        (1e-101, "Smaller error probabilities have no practical meaning."),
    ],
)
def test_delta_is_a_probability_and_percent_or_a_confidence_is_recognised(
    delta: float, remedy: str
) -> None:
    error = refusal(SQUARE, delta=delta)
    assert (error.field, error.value, error.remedy) == ("delta", delta, remedy)
    with pytest.raises(InvalidInputError, match=error.message[:30].replace("(", r"\(")):
        Problem(SQUARE).with_delta(delta)
    assert Problem(SQUARE, delta=0.5).delta == 0.5


def test_names_alone_are_a_problem() -> None:
    problem = Problem(("old", "new", "bold"), delta=0.1, noise=0.5, baseline=2.0)
    names = ["old", "new", "bold"]
    assert problem == Problem(np.eye(3), delta=0.1, noise=0.5, baseline=2.0, source_labels=names)
    assert Problem(iter(names)).target_labels == tuple(names)
    for same in (np.array(names), pd.Series(names), dict.fromkeys(names).keys()):
        assert Problem(same).source_labels == tuple(names)
    for wrong in (3, ["old"], ["old", "old"], ["old", ""], ["old", 3], dict.fromkeys(names)):
        refusal(wrong)
    assert str(refusal(["a", "a"])) == "`source` holds 'a' twice. Labels must be unique."
    assert refusal("old").remedy == 'Names are a list: ["old", "new"].'
    assert refusal(names, source_labels=names).remedy == "Leave one of them out."
    columns = pd.DataFrame(np.eye(2), columns=["width", "height"])
    assert Problem(columns).source_labels == ("0", "1")


@pytest.mark.parametrize("source", [None, [[1, 0], [0, 1]]])
@pytest.mark.parametrize("names", [["a", "a"], ["a", " "], "ab"])
def test_names_of_a_document_are_its_options(source: object, names: Any) -> None:
    with pytest.raises(InvalidInputError) as refused:
        problem_of(names, source)
    assert refused.value.field == "options"
    assert str(refused.value).startswith("`options` ")


@pytest.mark.parametrize("field", ["delta", "noise", "baseline"])
def test_numbers_are_numbers(field: str) -> None:
    wrong: list[Any] = [math.nan, math.inf, -math.inf, "0.1", None, True, [0.1, 0.2], 1j, {}]
    for value in wrong:
        error = refusal(SQUARE, **{field: value})
        assert error.field == field
        assert f"`{field}` must be a finite number; got {value!r}" in str(error)
    for value in (-1, -1e-300) if field != "delta" else ():
        error = refusal(SQUARE, **{field: value})
        assert (error.field, error.value) == (field, value)
        assert f"`{field}` must not be negative" in str(error)


def test_rewards_have_some_scale() -> None:
    assert "both 0" in str(refusal(SQUARE, noise=0, baseline=0))
    assert Problem(SQUARE, noise=0).scale == 1
    assert Problem(SQUARE, baseline=0, noise=2).scale == 2
    assert Problem(SQUARE, noise=1, baseline=3).scale == 3


@pytest.mark.parametrize("side", ["source", "target"])
def test_labels_fit_are_unique_and_can_be_read(side: str) -> None:
    field = f"{side}_labels"
    refused: list[tuple[Any, object]] = [
        (["a", "b"], 2),
        ("abcd", "abcd"),
        (["a", "b", "c", "a"], "a"),
        ([1, 2, 3, "1"], "1"),  # they would be one name on paper
        (["a", "b", "", "d"], ""),
        (["a", "b", "\t\n", "d"], "\t\n"),
        (["a", "b", "c", None], "None"),
        (["a", "b", "c", math.nan], "nan"),
        (["a", "b", "c", "\ud800"], "\ud800"),
    ]
    for labels, value in refused:
        error = refusal(SQUARE, **{field: labels})
        assert (error.field, error.value) == (field, value)


def test_labels_default_to_numbers_and_targets_to_the_source() -> None:
    problem = Problem(SQUARE)
    assert problem.source_labels == problem.target_labels == ("0", "1", "2", "3")
    named = Problem(SQUARE, source_labels=["a", "b", "c", "d"])
    assert named.target_labels == ("a", "b", "c", "d")
    other = Problem(SQUARE, source_labels=["a", "b", "c", "d"], target_labels=[4, 5, 6, 7])
    assert other.target_labels == ("4", "5", "6", "7")
    assert Problem(SQUARE, SQUARE[:2], source_labels=["a", "b", "c", "d"]).target_labels == (
        "0",
        "1",
    )


def test_a_frame_brings_its_labels() -> None:
    source = pd.DataFrame(SQUARE, index=["tea", "coffee", "milk", "water"], columns=["x", "y"])
    problem = Problem(source, source.iloc[1:3])
    assert problem.source_labels == ("tea", "coffee", "milk", "water")
    assert problem.target_labels == ("coffee", "milk")
    assert problem.source.tolist() == SQUARE
    assert Problem(source).target_labels == problem.source_labels
    assert Problem(source, source_labels=range(4)).source_labels == ("0", "1", "2", "3")


def test_frames_with_missing_entries_or_an_index_that_repeats_are_refused() -> None:
    assert refusal(pd.DataFrame(SQUARE, index=["a", "b", "b", "c"])).field == "source_labels"
    frame = pd.DataFrame({"price": [1.0, None, 3.0], "size": [1.0, 2.0, 2.0]})
    assert "has nan in row 1, column 0" in str(refusal(frame))


def test_unidentifiable_names_the_pair() -> None:
    line = [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]
    targets = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    error = refusal(line, targets, target_labels=["plain", "big", "odd"])
    assert isinstance(error, UnidentifiableError)
    assert (error.field, error.value) == ("target", ("plain", "odd"))
    assert "'plain' and 'odd' cannot be distinguished" in str(error)
    assert "Add a source arm" in error.remedy


FLAT = np.array(SQUARE) @ np.eye(2, 3)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ([[1.0, 2.0]], SQUARE),  # one arm informs about nothing
        (
            [[1.0, 0.0], [0.0, 1.0]],
            SQUARE,
        ),  # its differences span a line: a baseline hides the rest
        # A feature that is constant over the source has no unit of its own there.
        *((FLAT, FLAT + np.outer(range(4), [0, 0, step])) for step in (1e-12, 1e-6, 1e12)),
        *(
            (FLAT + shift, FLAT + shift + np.outer([0, 1, 0, 0], [0, 0, 1]))
            for shift in ([0, 0, 1e3], [0, 0, 1e6], [0, 0, 1e10])
        ),
    ],
)
def test_what_only_the_targets_vary_in_cannot_be_learnt(source: Any, target: Any) -> None:
    error = refusal(source, target)
    assert isinstance(error, UnidentifiableError)
    assert error.value[0] == "0"  # type: ignore[index]


BASE = np.random.default_rng(0).normal(size=(12, 3))


@pytest.mark.parametrize(
    ("features", "rank"),
    [
        *((np.eye(arms), arms - 1) for arms in (2, 8, 60)),
        (np.column_stack([BASE, BASE @ [1, 2, 3], BASE[:, 0] - BASE[:, 2], np.ones(12)]), 3),
        *((unit * BASE, 3) for unit in (1e-150, 1e-6, 1e6, 1e120)),
        *((BASE * [unit, 1.0, 1 / unit], 3) for unit in (1e-6, 1e120)),
        *((BASE + offset, 3) for offset in (1e3, 1e6, 1e9)),
        *((BASE * [1, 1, 0] + offset, 2) for offset in (1e3, 1e6, 1e9)),
    ],
)
def test_the_rank_is_that_of_differences_in_any_unit(features: Array, rank: int) -> None:
    problem = Problem(features)
    assert (problem.rank, problem.dimension) == (rank, features.shape[1])


@pytest.mark.parametrize("distance", [1e-3, 1e-6, 1e-9])
def test_targets_nearly_alike_are_accepted(distance: float) -> None:
    problem = Problem([*SQUARE, [0.0, distance]])
    assert (problem.targets, problem.rank) == (5, 2)


def test_a_problem_is_frozen_and_owns_its_features() -> None:
    features = np.array(SQUARE)
    problem = Problem(features)
    features[:] = 7
    assert problem.source.tolist() == SQUARE
    for table in (problem.source, problem.target):
        with pytest.raises(ValueError, match="read-only"):
            table[0, 0] = 1
    with pytest.raises(AttributeError):
        problem.delta = 0.5  # type: ignore[misc]


def test_whatever_numpy_reads_is_a_table() -> None:
    whole = Problem([[0, 0], [1, 0], [0, 1]])
    assert whole.source.dtype == np.float64
    assert Problem(np.asfortranarray(SQUARE)).source.tolist() == SQUARE
    assert Problem(tuple(map(tuple, SQUARE))).arms == 4


def test_the_fingerprint_is_that_of_the_features() -> None:
    problem = Problem(SQUARE)
    assert problem.fingerprint == Problem(np.asfortranarray(SQUARE), delta=0.3).fingerprint
    assert problem.fingerprint == Problem(np.array(SQUARE) * -1.0 * -1.0).fingerprint
    moved = np.array(SQUARE)
    moved[0, 0] = np.nextafter(0, 1)
    others = [Problem(moved), Problem(SQUARE[:3])]
    assert len({p.fingerprint for p in (problem, *others)}) == 3


def test_a_problem_introduces_itself() -> None:
    assert repr(Problem(SQUARE, delta=0.05)) == (
        "Problem(4 source arms, 4 targets, 2 features of rank 2, delta=0.05, noise=1, baseline=1)"
    )


@pytest.mark.parametrize(
    "weights",
    [[0.5, 0.6], [1.5, -0.5], [math.nan, 1.0], [math.inf, 0.0], [1.0], [[0.5, 0.5]], 1.0, "a"],
)
def test_weights_are_a_distribution_over_the_arms(weights: Any) -> None:
    with pytest.raises(InvalidInputError, match="2 probabilities that sum to 1") as caught:
        as_weights(weights, 2)
    assert caught.value.field == "weights"


@given(data=st.data())
@settings(max_examples=75, deadline=None)
def test_identifiability_survives_every_change_of_units(data: st.DataObject) -> None:
    """x ↦ x A + b with A invertible renames the features; it cannot change what can be learnt.

    Whole numbers decide the truth exactly: the rank of source differences, with and without the
    target differences.
    """
    d = data.draw(st.integers(1, 4))
    row = st.lists(st.integers(-5, 5), min_size=d, max_size=d)
    source = np.array(data.draw(st.lists(row, min_size=2, max_size=7)), dtype=float)
    target = np.array(
        data.draw(st.lists(row, min_size=2, max_size=5, unique_by=tuple)), dtype=float
    )
    matrix = np.array(data.draw(st.lists(row, min_size=d, max_size=d)), dtype=float)
    assume(abs(np.linalg.det(matrix)) > 0.5)  # a whole number
    units = 10.0 ** np.array(data.draw(st.lists(st.integers(-6, 6), min_size=d, max_size=d)))
    shift = units * data.draw(st.integers(-1000, 1000))

    differences = source[1:] - source[0]
    both = np.vstack([differences, target[1:] - target[0]])
    rank = np.linalg.matrix_rank(differences)
    expected = np.linalg.matrix_rank(both) == rank

    def identifiable(source: Array, target: Array) -> bool:
        try:
            return bool(Problem(source, target).rank == rank)
        except UnidentifiableError:
            return False

    assert identifiable(source, target) == expected
    moved = [table @ matrix * units + shift for table in (source, target)]
    assert identifiable(moved[0], moved[1]) == expected


def test_a_notebook_shows_options_or_arms_and_targets() -> None:
    html = Problem(["old", "<b>new</b>"])._repr_html_()
    assert ">2: old, &lt;b&gt;new&lt;/b&gt;<" in html
    assert "features" not in html  # there are none
    html = Problem(SQUARE, SQUARE[:3], baseline=0)._repr_html_()
    cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", html)
    assert cells[:6] == ["arms", "targets", "features", "δ", "noise", "baseline"]
    assert cells[6:] == ["4: 0, 1, 2, 3", "3: 0, 1, 2", "2, of rank 2", "0.05", "1", "none"]
    assert ">9: 0, 1, 2, 3, 4, 5, 6, 7, …<" in Problem(list("012345678"))._repr_html_()


def test_another_delta_is_another_problem() -> None:
    problem = Problem(SQUARE, noise=2.0, source_labels=list("abcd"))
    assert hash(problem) != hash(problem.with_delta(0.01))
    other = problem.with_delta(0.01)
    assert (other.delta, problem.delta) == (0.01, DELTA)
    assert other != problem
    assert other == Problem(SQUARE, delta=0.01, noise=2.0, source_labels=list("abcd"))
    with pytest.raises(InvalidInputError):
        problem.with_delta(5)


def test_another_baseline_leaves_the_rewards_a_scale() -> None:
    problem = Problem(["a", "b"], noise=0, baseline=1)
    assert problem.with_baseline(0.5) == Problem(["a", "b"], noise=0, baseline=0.5)
    for baseline in (0, -0.0):
        with pytest.raises(InvalidInputError, match="both 0") as caught:
            problem.with_baseline(baseline)
        assert caught.value.field == "baseline"
        assert caught.value.remedy
    assert Problem(["a", "b"], noise=1, baseline=1).with_baseline(0).scale == 1
