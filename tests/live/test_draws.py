"""The draw: a known function of seed and number, and nobody predicts it without the seed."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bestarm import Experiment, Problem
from bestarm.errors import InvalidInputError
from bestarm.live.draws import _BLOCK, choose, draw, uniforms
from bestarm.live.events import digest, sha256
from bestarm.live.watch.story import without_seed
from bestarm.policies import AnytimeBAI

STREAM = {
    0: [0.6866799653222284, 0.13057311841319452, 0.997271053000498],
    2**200: [0.8067794313110105, 0.8931207981189231, 0.5898896083434595],
}
LAST = 1 - 2.0**-53  # the largest quantile that occurs


def test_the_stream_is_fixed_for_good() -> None:
    """Values recorded when the stream was defined: a change would orphan every past experiment."""
    assert uniforms(0, start=0, count=3).tolist() == STREAM[0]
    assert uniforms(2**200, start=2**64 - 1, count=3).tolist() == STREAM[2**200]


@given(
    start=st.integers(0, 2**64), cuts=st.lists(st.integers(1, 9), min_size=1), seed=st.integers(0)
)
def test_a_number_does_not_depend_on_its_batch(start: int, cuts: list[int], seed: int) -> None:
    whole = uniforms(seed, start=start, count=sum(cuts))
    parts = [uniforms(seed, start=start + sum(cuts[:i]), count=size) for i, size in enumerate(cuts)]
    assert np.concatenate(parts).tolist() == whole.tolist()


def test_blocks_join() -> None:
    whole = uniforms(1, start=3, count=2 * _BLOCK + 5)
    for number in (0, _BLOCK - 1, _BLOCK, 2 * _BLOCK, 2 * _BLOCK + 4):
        assert whole[number] == uniforms(1, start=3 + number, count=1)[0]
    assert ((whole >= 0) & (whole < 1)).all()


@given(
    weights=st.lists(
        st.one_of(st.just(0.0), st.floats(1e-12, 1.0)), min_size=1, max_size=40
    ).filter(any),
    quantile=st.one_of(st.sampled_from([0.0, LAST]), st.floats(0, LAST)),
)
def test_an_arm_of_no_weight_is_never_drawn(weights: list[float], quantile: float) -> None:
    distribution = np.array(weights) / sum(weights)
    (arm,) = choose(distribution, np.array([quantile]))
    assert 0 <= arm < len(weights)
    assert weights[arm] > 0


@pytest.mark.parametrize("total", [1 - 9e-10, 1.0, 1 + 9e-10])
def test_the_ends_are_safe_when_the_weights_do_not_quite_sum_to_one(total: float) -> None:
    weights = np.array([0.0, 0.3, 0.0, 0.7, 0.0]) * total
    assert choose(weights, np.array([0.0, 0.29, 0.31, LAST])).tolist() == [1, 1, 3, 3]


def test_draw_checks_what_it_is_given() -> None:
    with pytest.raises(InvalidInputError, match="number"):
        draw(0, -1, [0.5, 0.5])
    with pytest.raises(InvalidInputError, match="weights"):
        draw(0, 0, [0.5, 0.6])


# --- seeds -------------------------------------------------------------------------------------

ARMS = Problem(np.eye(4))
BOUNDED = {"bounds": [0, 1]}
DRAWS = 200  # two independent sequences of four arms agree with probability 4^-200


def arms(experiment: Experiment) -> list[int]:
    with experiment:
        given: list[int] = experiment.ask(DRAWS).arms.tolist()
    return given


def in_memory(**seed: int) -> Experiment:
    return Experiment(AnytimeBAI(ARMS, bounds=(0, 1)), **seed)  # type: ignore[arg-type]


def test_two_experiments_made_alike_draw_other_arms(store_url: str) -> None:
    assert arms(in_memory()) != arms(in_memory())
    stored = (
        Experiment.create(store_url, name, ARMS, policy_options=BOUNDED) for name in ("a", "b")
    )
    assert arms(next(stored)) != arms(next(stored))


@pytest.mark.parametrize("budget", [10**8, 10**15])
def test_a_fixed_plan_is_carried_out_however_long_it_is(store_url: str, budget: int) -> None:
    """Nothing is made of it but the part that is asked for: 64 MiB are 0.6 bytes per pull."""
    options = {"budget": budget}
    tracemalloc.start()
    try:
        with Experiment.create(
            store_url, "long", ["a", "b", "c"], policy="uniform", policy_options=options
        ) as made:
            given = [*made.ask(2).arms, *made.ask(6000).arms, *made.ask(1).arms]
            assert given == [number % 3 for number in range(6003)]
            assert made.verify().sound
        with Experiment.open(store_url, "long") as opened:
            assert opened.ask(2).arms.tolist() == [0, 1]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 64 * 2**20


def test_a_seed_that_is_given_is_kept(store_url: str) -> None:
    first = arms(Experiment.create(store_url, "a", ARMS, policy_options=BOUNDED, seed=7))
    assert arms(Experiment.create(store_url, "b", ARMS, policy_options=BOUNDED, seed=7)) == first
    assert arms(in_memory(seed=7)) == first
    assert arms(Experiment.open(store_url, "a")) != first  # further ones of the same seed
    with Experiment.open(store_url, "a") as again:
        assert again.seed == 7


def test_a_random_seed_is_on_record_and_makes_every_draw_again(sqlite_url: str) -> None:
    with Experiment.create(sqlite_url, "a", ARMS, policy_options=BOUNDED) as made:
        given = made.ask(DRAWS)
        seed = made.seed
        assert made.verify().sound
    with Experiment.open(sqlite_url, "a") as opened:
        assert opened.seed == seed == int(opened.events()[0].data["seed"])
    repeated = Experiment.create(sqlite_url, "b", ARMS, policy_options=BOUNDED, seed=seed)
    assert arms(repeated) == given.arms.tolist()


def test_a_random_seed_has_128_bits_and_is_on_record_as_a_text(sqlite_url: str) -> None:
    """One of fifty random seeds has 120 bits, except once in 2^400; as a number in JSON it would be
    rounded by most programs that read it."""
    assert max(in_memory().seed for _ in range(50)) >= 2**120
    with Experiment.create(sqlite_url, "a", ARMS, policy_options=BOUNDED) as experiment:
        assert experiment.spec is not None
        document = json.loads(experiment.spec.to_json())
        assert document["seed"] == experiment.events()[0].data["seed"] == str(experiment.seed)


def test_what_the_log_shows_to_all_does_not_give_the_seed_away(sqlite_url: str) -> None:
    """Somebody who knows all but the seed tries seeds against every digest in the log."""
    with Experiment.create(sqlite_url, "a", ARMS, policy_options=BOUNDED, seed=5) as made:
        made.ask(3)
        made.stop()
        assert made.spec is not None
        digests = {sha256(made.spec.to_json()), *map(sha256, ("5", "bestarm.live.draw 5"))}
        created = made.events()[0]
        known = without_seed(created).data
        digests.add(digest([0, created.at, "created", known | {"seed": 5}, ""]))
        shown = [value for event in made.events() for value in (*event.data.values(), event.hash)]
        assert digests.isdisjoint(map(str, shown))
        assert {"seed", "salt", "document"}.isdisjoint(known)


def test_a_seed_that_was_chosen_is_warned_of(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Experiment.create(sqlite_url, "a", ARMS, policy_options=BOUNDED) as made:
        assert not caplog.records
        # The seed of a recorded experiment, to make its draws again.
        Experiment.create(sqlite_url, "b", ARMS, policy_options=BOUNDED, seed=made.seed).close()
        assert not caplog.records
    Experiment.create(sqlite_url, "c", ARMS, policy_options=BOUNDED, seed=2026).close()
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "'c' was chosen" in record.getMessage()
    assert "leave it out" in record.getMessage()


@pytest.mark.parametrize("seed", [-1, 1.5, "7", True])
def test_a_seed_that_is_not_a_whole_number_is_refused(seed: object, sqlite_url: str) -> None:
    with pytest.raises(InvalidInputError, match="seed"):
        in_memory(seed=seed)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="seed"):
        Experiment.create(sqlite_url, "a", ARMS, policy_options=BOUNDED, seed=seed)  # type: ignore[arg-type]


def test_the_first_hash_does_not_give_the_seed_away() -> None:
    """Whoever tries all seeds against the hash in the log, which all may read, lacks the salt."""
    first, second = (
        Experiment(AnytimeBAI(ARMS, bounds=(0, 1)), seed=5, clock=lambda: 9.0).events()[0]
        for _ in range(2)
    )
    assert first.data["seed"] == second.data["seed"] == 5
    assert first.hash != second.hash
    assert {"seed", "salt"}.isdisjoint(without_seed(first).data)
