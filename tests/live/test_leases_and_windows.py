"""Leases and windows: what is overdue is lost and replaced, or enters as it was told by then.

`test_stateful.py` compares every rule with a model; here are examples, texts and what is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from chained_policies import PROBLEM, Chained, create_chained
from clocks import Clock
from people import Echo
from recorded import told

from bestarm import AnytimeBAI, Problem
from bestarm.errors import ClockError, ConflictingOutcomeError, InvalidInputError
from bestarm.live import Experiment, Receipt
from bestarm.live.watch.story import describe
from bestarm.records import Summary
from bestarm.units import Unit

Make = Callable[..., Experiment]
YEAR = 365 * 86_400.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def make_chained(request: pytest.FixtureRequest, clock: Clock) -> Iterator[Make]:
    """Makes an experiment with a chained policy of these options, on each kind of store."""
    opened: list[Experiment] = []
    url = None
    if request.param != "memory":
        url = request.getfixturevalue(f"{request.param}_url")

    def make(options: dict[str, Any], **settings: Any) -> Experiment:
        given: dict[str, Any] = {"seed": 3, "clock": clock} | settings
        if url is None:
            made = Experiment(Chained(PROBLEM, **options), **given)
        else:
            made = create_chained(url, f"offer {len(opened)}", **options, **given)
        opened.append(made)
        return made

    yield make
    for experiment in opened:
        experiment.close()


@pytest.fixture
def leased(make_chained: Make) -> Make:
    """Makes an experiment with a lease of ten seconds."""

    def make(*, lease: float | None = 10.0, **options: Any) -> Experiment:
        return make_chained(options, lease=lease)

    return make


@pytest.fixture
def windowed(make_chained: Make) -> Make:
    """Makes an experiment with a window of ten seconds."""

    def make(*, options: dict[str, Any] | None = None, **settings: Any) -> Experiment:
        options = {"kind": "provisional", "sizes": (6, 5, 9, 4)} | (options or {})
        return make_chained(options, **{"window": 10.0, "otherwise": 0} | settings)

    return make


# --- leases ------------------------------------------------------------------------------------


def summaries(experiment: Experiment) -> list[Summary]:
    with experiment.read() as snapshot:
        return [entry.summary for entry in snapshot.summaries()]


def test_expire_only_reads_until_something_is_overdue(leased: Make, clock: Clock) -> None:
    experiment = leased(kind="randomised", sizes=(6, 6))
    experiment.ask(2)
    clock.now += 9.0
    assert experiment.now() == clock.now
    with experiment.read() as snapshot:
        before = vars(snapshot.head).copy()
    assert experiment.expire() is False
    with experiment.read() as snapshot:
        assert vars(snapshot.head) == before
    clock.now += 1.0
    assert experiment.expire() is True
    assert experiment.expire() is False
    assert experiment.status().lost == 2
    assert (experiment.spec is None) == (experiment.place is None)


def test_a_fixed_plan_pulls_again_what_it_lost_in_the_order_lost(
    leased: Make, clock: Clock
) -> None:
    experiment = leased(kind="fixed", sizes=(8, 2))
    arms = experiment.ask(8).arms.tolist()
    experiment.fail(5)
    experiment.fail_many([7, 2])
    first = experiment.ask(2)
    experiment.fail(int(first.ids[1]))
    rest = experiment.ask(10)
    assert first.arms.tolist() == [arms[5], arms[7]]
    assert rest.arms.tolist() == [arms[2], arms[7]]
    experiment.tell_many(dict.fromkeys({*range(8), *first.ids, *rest.ids} - {2, 5, 7, 9}, 1.0))
    (summary,) = summaries(experiment)
    assert summary.counts.tolist() == np.bincount(arms, minlength=4).tolist()


def test_leases_end_while_an_experiment_is_paused(leased: Make, clock: Clock) -> None:
    experiment = leased(kind="randomised", sizes=(3, 2))
    experiment.ask(3)
    experiment.pause()
    clock.now += 10.0
    assert experiment.tell(0, 1.0).late == 1
    assert experiment.status().lost == 3


def test_a_clock_that_goes_back_holds_nobody_up(leased: Make, clock: Clock) -> None:
    """One given out at an earlier time than the one before it is lost at its own time."""
    experiment = leased(kind="randomised", sizes=(3, 2))
    experiment.ask()
    clock.now -= 500.0
    experiment.ask()
    for seconds, states in ((10.0, ["outstanding", "lost"]), (500.0, ["lost", "lost"])):
        clock.now += seconds
        experiment.expire()
        assert experiment.assignments()["state"].tolist() == states


def test_an_outcome_that_comes_too_late_is_kept_flagged_and_not_used(
    leased: Make, clock: Clock
) -> None:
    experiment = leased(kind="randomised", sizes=(2, 2))
    experiment.ask(2)
    experiment.tell(0, 1.0)
    clock.now += 10.0
    # It is lost the moment it comes: nobody had noticed before.
    assert experiment.tell(1, 100.0) == Receipt(recorded=1, repeated=0, late=1)
    assert experiment.tell(1, 100.0) == Receipt(recorded=0, repeated=1, late=0)
    with pytest.raises(ConflictingOutcomeError, match="already told 100"):
        experiment.tell(1, 99.0)
    assert told(experiment) == {0: 1.0, 1: 100.0}
    assert experiment.outcomes()["late"].tolist() == [False, True]
    assert (experiment.status().lost, experiment.status().late) == (1, 1)
    experiment.tell(experiment.ask()[0].id, 2.0)
    (summary,) = summaries(experiment)
    assert summary.sums.sum() == 3.0


def test_a_lease_is_a_time() -> None:
    """As `tests/test_durations.py` has it."""
    experiment = Experiment(Chained(), lease="2h", seed=0)
    assert experiment.lease == 7200
    for wrong in (0, -1.0, math.nan, math.inf, True, "soon"):
        with pytest.raises(InvalidInputError, match="`lease`"):
            Experiment(Chained(), lease=wrong, seed=0)
        with pytest.raises(InvalidInputError, match="`lease`"):
            experiment.change_lease(wrong)
    experiment.change_lease("30m")
    assert experiment.lease == 1800
    assert experiment.events()[-1].data == {"lease": 1800, "before": 7200}


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb", 7])
def test_names_of_requests_are_short_texts(name: Any) -> None:
    with pytest.raises(InvalidInputError, match="`request_id`"):
        Experiment(Chained(), seed=0).ask(request_id=name)


@pytest.mark.parametrize("reason", ["", "it's 100 % :gone", "日本語 🙂", "\ud800\0", "x" * 20_000])
def test_reasons_are_any_text(leased: Make, reason: str) -> None:
    experiment = leased()
    experiment.ask(2)
    experiment.fail(0, reason)
    experiment.stop(reason)
    assert experiment.status().lost == 1


def test_telling_or_failing_nothing_still_gives_up_what_is_overdue(
    leased: Make, clock: Clock
) -> None:
    for nothing in ("tell_many", "fail_many"):
        experiment = leased(sizes=(4,))
        experiment.ask(3)
        clock.now += 11.0
        assert getattr(experiment, nothing)([]) in {None, Receipt(0, 0, 0)}
        assert experiment.status().lost == 3


# --- windows -----------------------------------------------------------------------------------


def test_an_outcome_enters_when_its_window_ends(windowed: Make, clock: Clock) -> None:
    experiment = windowed(options={"sizes": (4, 9)})
    ids = experiment.ask(3).ids
    assert experiment.tell(ids[1], 1.0) == Receipt(1, 0, 0, held=1)
    clock.now += 9.9
    assert not experiment.expire()
    assert told(experiment) == {}
    assert (experiment.status().outstanding, experiment.status().early) == (3, 1)
    clock.now += 0.1
    assert experiment.expire()
    assert told(experiment) == {0: 0.0, 1: 1.0, 2: 0.0}
    assert (experiment.status().outstanding, experiment.status().early) == (0, 0)
    assert experiment.verify().sound


def test_the_last_report_within_the_window_counts(windowed: Make, clock: Clock) -> None:
    experiment = windowed()
    ids = experiment.ask(4).ids
    experiment.tell_many({0: 1.0, 1: 0.5})
    clock.now += 3.0
    experiment.tell_many({0: 0.25, 2: 1.0})
    assert experiment.tell(0, 0.25) == Receipt(0, 1, 0)  # repeated
    clock.now += 7.0
    assert experiment.tell(0, 0.75) == Receipt(1, 0, 1)  # its window ends now
    assert experiment.tell(0, 0.75) == Receipt(0, 1, 0)
    assert experiment.tell(3, 0.0) == Receipt(0, 1, 0)  # as it is on record
    assert told(experiment) == {0: 0.25, 1: 0.5, 2: 1.0, 3: 0.0}
    assert experiment.status().late == 1
    assert list(ids) == [0, 1, 2, 3]
    reports = experiment.reports()
    assert reports["id"].tolist() == [0, 1, 0, 2, 0]
    assert reports["reward"].tolist() == [1.0, 0.5, 0.25, 1.0, 0.75]
    assert reports["late"].tolist() == [False] * 4 + [True]
    assert (reports["told"] - reports["told"][0]).dt.total_seconds().tolist() == [0, 0, 3, 3, 10]
    assert experiment.outcomes()["told"].dtype == reports["told"].dtype
    assert experiment.verify().sound


def sums(experiment: Experiment) -> list[bytes]:
    return [summary.sums.tobytes() for summary in summaries(experiment)]


@pytest.mark.parametrize("kind", ["provisional", "open", "randomised", "provisional blocks"])
def test_it_is_as_if_all_was_told_at_the_end(windowed: Make, clock: Clock, kind: str) -> None:
    """To the bit, whatever is told early, corrected or left out."""
    window, rng = 10.0, np.random.default_rng(5)
    options: dict[str, Any] = {"kind": kind, "sizes": (12, 10, 18, 8)}
    one, two = (
        windowed(options=options),
        Experiment(Chained(PROBLEM, **options), seed=3, clock=clock),
    )
    in_window: list[tuple[float, int, float]] = []
    wrong: set[int] = set()  # with another report than the reward
    start = clock.now
    for step in range(120):
        clock.now = start + step
        two.tell_many({number: reward for end, number, reward in in_window if end <= clock.now})
        in_window = [each for each in in_window if each[0] > clock.now]
        if step % 3 == 0:
            asked, again = one.ask(2), two.ask(2)
            assert asked.arms.tolist() == again.arms.tolist()
            for number in asked.ids:
                in_window.append((clock.now + window, number, float(rng.random() < 0.4)))
        early = {number: 1 - reward for _, number, reward in in_window if rng.random() < 0.1}
        wrong |= early.keys()
        right = {
            number: reward
            for end, number, reward in in_window
            if rng.random() < 0.1 or (end == clock.now + 1 and (reward or number in wrong))
        }
        for reports in filter(None, (early, right)):
            one.tell_many(reports)
        one.expire()
    assert one.status().phase == two.status().phase > 1
    assert sums(one) == sums(two)
    assert len(one.reports()) > len(wrong) > 5
    assert one.verify().sound


def test_stopping_counts_what_was_told_by_then(windowed: Make, clock: Clock) -> None:
    experiment = windowed(options={"sizes": (4, 90)})
    experiment.ask(5)
    experiment.tell(1, 1.0)
    clock.now += 10.0
    experiment.stop("enough")
    assert told(experiment) == {0: 0.0, 1: 1.0, 2: 0.0, 3: 0.0, 4: 0.0}
    assert experiment.phase == 2  # and the policy was told
    assert experiment.verify().sound


def test_outcomes_whose_window_has_ended_are_not_missing(windowed: Make, clock: Clock) -> None:
    experiment = windowed(options={"sizes": (400,)})
    experiment.ask(200)
    clock.now += 100.0
    missing = next(check for check in experiment.health() if check.name == "missing")
    assert missing.level == "ok"


def test_many_windows_end_at_once(windowed: Make, clock: Clock) -> None:
    """Also where they are looked through in several pieces, and some are younger."""
    experiment = windowed(options={"sizes": (9000,)})
    for _ in range(5):
        ids = experiment.ask(700).ids
        experiment.tell_many({ids[0]: 1.0, ids[-1]: 1.0})
        clock.now += 3.0
    experiment.expire()  # 15 seconds after the first, 12 after the second, 9 after the third
    recorded = told(experiment)
    assert len(recorded) == 1400
    assert {number for number, reward in recorded.items() if reward} == {0, 699, 700, 1399}


def test_a_clock_that_is_wrong_by_years_ends_no_window(windowed: Make, clock: Clock) -> None:
    experiment = windowed()
    if experiment.spec is None:
        return  # in memory, time may leap
    experiment.ask(3)
    clock.now += 2 * YEAR
    with pytest.raises(ClockError, match="end of their window"):
        experiment.tell(0, 1.0)
    clock.now -= 2 * YEAR
    assert told(experiment) == {}


@pytest.mark.parametrize(
    ("given", "field", "sentence"),
    [
        ({"window": None}, "window", "Give the `window` too"),
        ({"otherwise": None}, "otherwise", "Give `otherwise`, for example 0"),
        ({"lease": 60}, "lease", "a lease or a window, not both"),
        ({"window": "soon"}, "window", "must be a time like"),
        ({"otherwise": "zero"}, "otherwise", "a finite number"),
        ({"otherwise": 1.5}, "otherwise", "must lie between 0 and 1; got 1.5"),
    ],
)
def test_a_window_that_cannot_be_is_refused(given: Any, field: str, sentence: str) -> None:
    policy = AnytimeBAI(Problem(np.eye(3)), bounds=(0, 1))
    with pytest.raises(InvalidInputError, match=sentence) as caught:
        Experiment(policy, **{"window": "7d", "otherwise": 0} | given)
    assert caught.value.field == field


def test_the_log_says_in_words_when_outcomes_count(windowed: Make) -> None:
    experiment = windowed(window="7d", otherwise=0.5)
    words = describe(experiment.events()[0], PROBLEM, experiment.traits, Unit())
    after = "Outcomes count 7 days after their assignment"
    assert words == f"Created. {after}, as 0.5 where none is told."


def test_a_forecaster_learns_at_the_end_of_the_window(clock: Clock) -> None:
    """What comes early is selected by its reward."""
    policy, echo = AnytimeBAI(Problem(np.eye(3)), bounds=(0, 1), forecasts=True), Echo()
    experiment = Experiment(policy, window=10, otherwise=0, clock=clock, forecaster=echo)
    experiment.ask(4)
    experiment.tell(2, 1.0)
    experiment.tell(2, 1.0)  # repeated
    clock.now += 5.0
    experiment.ask(1)
    assert not any(entry[0] == "learn" for entry in echo.heard)
    clock.now += 5.0
    experiment.ask(1)
    learned = [(entry[1], entry[3]) for entry in echo.heard if entry[0] == "learn"]
    assert learned == [(0, 0.0), (1, 0.0), (2, 1.0), (3, 0.0)]
