"""Jester: the synthetic users beside the published figures, arguments, and files of every form.

Ratings in files are made up in the tests, except where real files lie beside the repository: tests
of those are skipped where they do not.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from bestarm.datasets import RatingsData, jester
from bestarm.errors import InvalidInputError

PAPER = (7, 8, 13, 15, 16, 17, 18, 19)
# The means over the paper's users, as published.
PUBLISHED = (-1.9527, -0.7170, -0.6493, -1.4307, -1.6313, 0.6746, -0.1279, 0.7750)
REAL = Path(__file__).parents[3] / "shared" / "data" / "jester"
Floats = NDArray[np.float64]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: jester(jokes=()), "`jokes` must list at least two different jokes"),
        (lambda: jester(jokes=(7,)), r"at least two different jokes by number; got \(7,\)"),
        (lambda: jester(jokes=(7, 7)), "at least two different jokes"),
        (lambda: jester(jokes=7), "at least two different jokes by number; got 7"),  # type: ignore[arg-type]
        (lambda: jester(jokes=(7, 8.5)), "`jokes` must be a whole number"),  # type: ignore[arg-type]
        (lambda: jester(jokes=(7, 20)), "asks for joke 20; the synthetic users rated 7, 8, 13"),
        (lambda: jester(dataset=3), "`dataset` must be a whole number from 1 to 2; got 3"),
        (lambda: jester(dataset=1), "the synthetic users are modelled on dataset 2. Give the"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make()


def skewness(ratings: Floats) -> Floats:
    centered = ratings - ratings.mean(axis=0)
    return np.asarray((centered**3).mean(axis=0) / ratings.std(axis=0) ** 3)


def test_synthetic_users_have_the_published_means_exactly() -> None:
    data = jester()
    assert data.ratings.shape == (20_000, 8)
    assert data.jokes == PAPER
    np.testing.assert_allclose(data.ratings.mean(axis=0), PUBLISHED, rtol=0, atol=1e-12)
    assert np.abs(data.ratings).max() <= 10
    np.testing.assert_array_equal(data.ratings * 32, np.rint(data.ratings * 32))
    world = data.environment()
    assert (world.best, world.problem(0.1).target_labels[world.best]) == (7, "joke 19")
    assert world.gap == pytest.approx(0.1004, abs=1e-12)
    np.testing.assert_array_equal(jester(jokes=(19, 7)).ratings, data.ratings[:, [7, 0]])


def test_synthetic_users_are_alike_to_the_real_ones() -> None:
    # Figures of the 11 004 users of dataset 2 that its constants were fitted to, rounded.
    ratings = jester().ratings
    deviation = [5.70, 5.55, 5.70, 5.57, 5.78, 5.76, 5.55, 5.78]
    np.testing.assert_allclose(ratings.std(axis=0), deviation, atol=0.01)
    skew = [0.40, 0.12, 0.08, 0.30, 0.33, -0.18, -0.03, -0.22]
    np.testing.assert_allclose(skewness(ratings), skew, atol=0.1)
    correlation = np.asarray(np.corrcoef(ratings.T))[np.triu_indices(8, 1)]
    assert correlation.mean() == pytest.approx(0.318, abs=0.01)
    assert ratings.mean(axis=1).std() == pytest.approx(3.60, abs=0.05)


def test_synthetic_says_so_everywhere() -> None:
    data = jester()
    assert data.synthetic
    assert data.source.startswith("Synthetic: 20,000 made-up users")
    assert "50,699" in data.source
    assert "synthetic" in repr(data)
    world = data.environment(replacement=False, declared_noise=6.0, declared_baseline=10.0)
    assert world.name == "jester (synthetic)"
    assert "synthetic" in repr(world)
    assert not world.replacement
    assert (world.problem(0.1).noise, world.problem(0.1).baseline) == (6.0, 10.0)


def real(name: str) -> RatingsData:
    path = REAL / name
    if not path.exists():
        pytest.skip(f"The real ratings in {name} are not beside this repository.")
    return jester(path)


def test_the_early_users_of_dataset_2_have_the_published_means() -> None:
    data = real("jester2_early_users.npz")
    world = data.environment()
    assert data.ratings.shape == (11_004, 8)
    np.testing.assert_allclose(world.means, PUBLISHED, atol=1e-6)
    assert (world.best, data.synthetic) == (7, False)
    assert "11,004 users" in data.source
    assert "the paper had 50,699 users" in data.source
    assert data.weights is not None
    deviations = np.sqrt(data.weights @ (data.ratings - world.means) ** 2)
    np.testing.assert_allclose(deviations, jester().ratings.std(axis=0), atol=0.02)


def test_the_complete_users_of_dataset_1_have_an_easier_gap() -> None:
    data = real("jester1_complete.npz")
    world = data.environment()
    assert data.ratings.shape == (73_357, 8)
    assert (data.name, data.weights, world.best) == ("jester 1", None, 7)
    assert world.gap == pytest.approx(0.805, abs=1e-3)


def test_the_stand_in_is_the_first_users_balanced_to_the_published_means() -> None:
    """Its weights follow from its ratings and the means of all 50,699 users."""
    data = real("jester2_early_users.npz")
    assert len(data.sha256) == 64
    balanced = replace(data, weights=None).balanced(PUBLISHED)
    assert balanced.weights is not None
    assert data.weights is not None
    np.testing.assert_allclose(balanced.weights, data.weights, rtol=1e-5)


def test_balanced_weights_are_exponential_in_the_ratings() -> None:
    """By hand: a mean of 0.6 of ratings −1 and 1 gives the ones 0.8, however the other joke is."""
    ratings = np.array([[-1.0, 0.0], [1.0, 0.0], [1.0, 1.0], [-1.0, 1.0]])
    data = RatingsData(ratings, None, (7, 8), "made up", synthetic=True, name="tiny")
    weights = data.balanced([0.6, 0.5]).weights
    assert weights is not None
    np.testing.assert_allclose(weights, [0.1, 0.4, 0.4, 0.1], atol=1e-6)
    with pytest.raises(InvalidInputError, match="outside what weights of these users can give"):
        data.balanced([1.5, 0.5])


# --- files ----------------------------------------------------------------------------------------

# user, joke, rating: users 3 and 12 rated jokes 7, 8 and 150; user 5 did not rate 8.
TRIPLES = [
    (3, 7, -1.25),
    (3, 8, 10.0),
    (5, 7, 0.5),
    (12, 150, 4.0),
    (12, 8, -10.0),
    (12, 7, 2.0),
    (3, 150, 0.219),
    (5, 150, 1.0),
]
EXPECTED = [[-1.25, 10.0, 0.219], [2.0, -10.0, 4.0]]
CSV = "userId,jokeId,rating\n" + "".join(f"{u},{j},{r}\n" for u, j, r in TRIPLES)
DAT = "".join(f"{u}\t\t{j}\t\t{r}\n" for u, j, r in TRIPLES)
read = partial(jester, jokes=(7, 8, 150))


def write(folder: Path, text: str | bytes, name: str = "ratings") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def wide_row(ratings: dict[int, float]) -> list[float]:
    return [len(ratings), *(ratings.get(joke, 99) for joke in range(1, 101))]


def wide(rows: Sequence[dict[int, float]], separator: str = ",") -> str:
    return "".join(separator.join(map(str, wide_row(row))) + "\n" for row in rows)


@pytest.mark.parametrize(
    "text",
    [
        CSV,
        DAT,
        CSV.replace("\n", "\r\n"),
        "\ufeff" + CSV,
        CSV.replace(",", ";"),
        CSV.rstrip("\n"),
        "\n" + CSV + "\n\n",
        CSV.replace("userId,jokeId,rating", '"user_id","joke_id","rating"'),
        DAT.replace("\t\t", "  "),
        "rating,userId,jokeId\n" + "".join(f"{r},{u},{j}\n" for u, j, r in TRIPLES),
        ",userId,jokeId,rating\n" + "".join(f"{i},{u},{j},{r}\n" for i, (u, j, r) in
                                            enumerate(TRIPLES)),
        CSV + "3,7,-1.25\n",
    ],
    ids=[
        "csv", "dat", "carriage returns", "byte order mark", "semicolons", "no last newline",
        "blank lines", "quotes", "spaces", "other order", "index", "rated twice",
    ],
)  # fmt: skip
def test_dataset_2_is_read_in_any_form(text: str, tmp_path: Path) -> None:
    data = read(write(tmp_path, text, "any.name"))
    np.testing.assert_array_equal(data.ratings, EXPECTED)
    assert (data.weights, data.jokes, data.synthetic) == (None, (7, 8, 150), False)
    assert data.source == (
        "Jester dataset 2: 2 of 3 users in the file rated all of jokes 7, 8, 150."
    )
    assert not data.ratings.flags.writeable
    assert read(write(tmp_path, text), dataset=2).name == "jester 2"


def test_the_order_of_jokes_is_the_order_of_columns(tmp_path: Path) -> None:
    data = jester(write(tmp_path, CSV), jokes=[150, 7])
    np.testing.assert_array_equal(data.ratings, [[0.219, -1.25], [1.0, 0.5], [4.0, 2.0]])
    assert data.environment().problem(0.1).source_labels == ("joke 150", "joke 7")


def test_how_many_users_the_paper_had_is_said_for_its_jokes(tmp_path: Path) -> None:
    rows = [f"{user},{joke},{user - joke / 10}\n" for user in (1, 2) for joke in PAPER]
    data = jester(write(tmp_path, "userId,jokeId,rating\n" + "".join(rows)))
    assert data.source == (
        "Jester dataset 2: 2 users in the file rated all of jokes 7, 8, 13, 15, 16, 17, 18, 19; "
        "the paper had 50,699 users."
    )


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("header", [False, True])
def test_dataset_1_is_read_from_its_spreadsheet_as_text(
    header: bool, separator: str, tmp_path: Path
) -> None:
    text = wide([{5: 1.0, 7: -9.95, 100: 3.5}, {7: 1.0}, {7: 0.0, 100: -2.25, 1: 10}], separator)
    if header:
        text = separator.join(["count", *(f"joke{j}" for j in range(1, 101))]) + "\n" + text
    data = jester(write(tmp_path, text), jokes=(100, 7))
    np.testing.assert_array_equal(data.ratings, [[3.5, -9.95], [-2.25, 0.0]])
    assert data.source == "Jester dataset 1: 2 of 3 users in the file rated all of jokes 100, 7."
    assert data.name == "jester 1"


def test_numpy_archives_are_read_with_their_weights(tmp_path: Path) -> None:
    jokes, table = np.array([7, 8, 19]), np.array([[1250, -10000, 3], [0, 500, 10000]])
    first, second = tmp_path / "first.npz", tmp_path / "second"
    np.savez_compressed(first, ratings_hundredths=(table // 10).astype(np.int16), jokes=jokes)
    with second.open("wb") as file:
        np.savez(
            file, ratings_thousandths=table.astype(np.int16), jokes=jokes, weights=[0.75, 0.25]
        )
    data = jester(first, jokes=(19, 7))
    np.testing.assert_array_equal(data.ratings, [[0.0, 1.25], [10.0, 0.0]])
    assert (data.weights, data.name) == (None, "jester 1")
    data = jester(str(second), jokes=(7, 8))
    np.testing.assert_array_equal(data.ratings, [[1.25, -10.0], [0.0, 0.5]])
    assert data.weights is not None
    assert data.weights.tolist() == [0.75, 0.25]
    assert "drawn with the file's weights" in data.source
    assert repr(data) == "RatingsData('jester 2', 2 users, 2 jokes, weighted)"
    np.testing.assert_allclose(data.environment().means, [0.9375, -7.375])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("userId,jokeId,rating\n", "holds a header and no ratings"),
        (CSV + "13,7\n", r"has 2 field\(s\) in line 10, '13,7', where 3 belong.*cut short"),
        (CSV + "13,7,\n", "has '' in line 10, where a number belongs"),
        (CSV + "13,7,1.0,4\n", r"has 4 field\(s\) in line 10"),
        (CSV + "\n13,7,funny\n", "has 'funny' in line 11, where a number belongs"),
        (CSV + "13,7,10.5\n", r"has 10\.5 in line 10, where a rating in \[-10, 10\] belongs"),
        (CSV + "\n13,7,-99\n", "has -99 in line 11, where a rating"),
        (CSV + "13,7,nan\n", "has nan in line 10, where a rating"),
        (CSV + "13,0,1\n", "has 0 in line 10, where a joke from 1 to 150 belongs"),
        (CSV + "13,151,1\n", "has 151 in line 10, where a joke"),
        (CSV + "13,7.5,1\n", r"has 7\.5 in line 10, where a joke"),
        (CSV + "1.5,7,1\n", r"has 1\.5 in line 10, where the whole number of a user"),
        (CSV + "3,7,1\n", r"has -1\.25 in line 2, where the only rating of this joke"),
        ("13,7,1\n13,8,1\n", "has no user who rated all of jokes 7, 8, 150"),
        ("a,b,c\n1,2,3\n", r"begins with 'a,b,c' in line 1, 3 field\(s\).*Dataset 2 has userId"),
        ("1,2\n", r"begins with '1,2' in line 1, 2 field\(s\)"),
        (",".join(["1"] * 151), r"151 field\(s\)"),  # dataset 2+
        ("hello\n", "begins with 'hello' in line 1"),
        (b"\xff\xfe\x00\x01" * 9, "is neither text nor a NumPy archive"),
        (CSV.encode() + b"13,7,\xff\n", "is neither text nor a NumPy archive"),
        (b"\xd0\xcf\x11\xe0 ...", "is a spreadsheet: save it as CSV"),
        (b"\x1f\x8b ...", "is compressed: unpack it"),
        (b"PK\x03\x04 cut", "is cut short or damaged"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_line_and_value(
    text: str | bytes, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInputError, match=message) as caught:
        read(write(tmp_path, text))
    assert caught.value.field == "path"
    assert caught.value.value is not None
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda row: row[:-1], r"has 100 field\(s\) in line 3"),
        (lambda row: [*row[:9], 12.5, *row[10:]], r"has 12\.5 in line 3, where a rating in"),
        (lambda row: [*row[:9], "", *row[10:]], "has '' in line 3, where a number"),
        (lambda row: [-1, *row[1:]], "has -1 in line 3, where a number of ratings from 0 to 100"),
        (lambda row: [2.5, *row[1:]], r"has 2\.5 in line 3, where a number of ratings"),
    ],
)
def test_a_wrong_line_of_dataset_1_is_named(
    change: Callable[[list[object]], list[object]], message: str, tmp_path: Path
) -> None:
    row = change([*wide_row({7: 1.0, 8: 2.0})])
    text = wide([{7: 1.0, 8: 2.0}] * 2) + ",".join(map(str, row)) + "\n"
    with pytest.raises(InvalidInputError, match=message):
        jester(write(tmp_path, text), jokes=(7, 8))


PAIR = {"jokes": np.array([7, 8])}
EMPTY = np.zeros((2, 2), int)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"other": np.zeros(2)}, "is an archive of other. Unpack it"),
        ({"ratings_hundredths": EMPTY}, "is an archive of ratings_hundredths"),
        (
            {"ratings_hundredths": np.zeros((2, 3), int)} | PAIR,
            r"holds ratings of shape \(2, 3\) for jokes of shape \(2,\)",
        ),
        ({"ratings_hundredths": np.zeros((2, 2))} | PAIR, "It must have whole numbers"),
        (
            {"ratings_hundredths": np.array([[0, 1], [5, 1001]])} | PAIR,
            r"holds 10\.01 in row 1, joke 8, outside \[-10, 10\]",
        ),
        ({"ratings_hundredths": EMPTY[:0]} | PAIR, "holds no users"),
        (
            {"ratings_hundredths": EMPTY, "jokes": np.array([7, 9])},
            "`jokes` asks for joke 8; .* has jokes 7, 9",
        ),
        (
            {"ratings_thousandths": EMPTY, "weights": np.ones(2)} | PAIR,
            "`weights` must be 2 probabilities that sum to 1",
        ),
        (
            {"ratings_hundredths": np.array([[0, None]], dtype=object)} | PAIR,
            "is cut short or damaged",
        ),
    ],
)
def test_archives_that_hold_something_else_are_refused(
    arrays: dict[str, NDArray[np.generic]], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "some.npz"
    np.savez(path, allow_pickle=True, **arrays)
    with pytest.raises(InvalidInputError, match=message):
        jester(path, jokes=(7, 8))


def test_a_cut_archive_and_an_archive_of_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "whole.npz"
    rng = np.random.default_rng(1)
    np.savez(path, ratings_hundredths=rng.integers(-900, 900, (500, 2)), jokes=np.array([7, 8]))
    cut = write(tmp_path, path.read_bytes()[:3000])
    with pytest.raises(InvalidInputError, match=r"is cut short or damaged.*Get it again"):
        jester(cut, jokes=(7, 8))
    with zipfile.ZipFile(packed := tmp_path / "jester_dataset_2.zip", "w") as archive:
        archive.writestr("jester_ratings.dat", DAT)
    with pytest.raises(InvalidInputError, match=r"an archive of jester_ratings\.dat\. Unpack it"):
        jester(packed)


def test_an_absent_file_says_where_to_get_it(tmp_path: Path) -> None:
    for path in (tmp_path / "jester_ratings.csv", tmp_path):
        with pytest.raises(InvalidInputError, match=r"cannot be read.*eigentaste\.berkeley\.edu"):
            jester(path)


def test_jokes_and_datasets_that_a_file_has_not_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, CSV)
    with pytest.raises(InvalidInputError, match=r"asks for joke 151; .* has jokes 1 to 150"):
        jester(path, jokes=(7, 151))
    with pytest.raises(InvalidInputError, match=r"holds dataset 2, not dataset 1\. Leave"):
        read(path, dataset=1)
