"""Windows: an outcome enters at the end of its window, with what was told by then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from chained_policies import PROBLEM, Chained
from clocks import Clock
from recorded import told

from bestarm import AnytimeBAI, Problem
from bestarm.errors import ClockError, ConflictingOutcomeError, InvalidInputError
from bestarm.forecasting import Forecaster
from bestarm.live import Experiment, Receipt
from bestarm.live.watch.wording import describe

Make = Callable[..., Experiment]
YEAR = 365 * 86_400.0


@pytest.fixture
def make(make_chained: Make) -> Make:
    """Makes an experiment with a window of ten seconds."""

    def make(*, options: dict[str, Any] | None = None, **settings: Any) -> Experiment:
        options = {"kind": "provisional", "sizes": (6, 5, 9, 4)} | (options or {})
        return make_chained(options, **{"window": 10.0, "otherwise": 0} | settings)

    return make


def summaries(experiment: Experiment) -> list[bytes]:
    with experiment.read() as snapshot:
        return [record.summary.sums.tobytes() for record in snapshot.summaries()]


def test_an_outcome_enters_when_its_window_ends(make: Make, clock: Clock) -> None:
    experiment = make(options={"sizes": (4, 9)})
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


def test_the_last_report_within_the_window_counts(make: Make, clock: Clock) -> None:
    experiment = make()
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


@pytest.mark.parametrize("kind", ["provisional", "open", "randomised", "provisional blocks"])
def test_it_is_as_if_all_was_told_at_the_end(make: Make, clock: Clock, kind: str) -> None:
    """To the bit, whatever is told early, corrected or left out."""
    window, rng = 10.0, np.random.default_rng(5)
    options: dict[str, Any] = {"kind": kind, "sizes": (12, 10, 18, 8)}
    one, two = make(options=options), Experiment(Chained(PROBLEM, **options), seed=3, clock=clock)
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
    assert summaries(one) == summaries(two)
    assert len(one.reports()) > len(wrong) > 5
    assert one.verify().sound


def test_another_process_goes_on_within_the_window(sqlite_url: str, clock: Clock) -> None:
    given: dict[str, Any] = {"policy": "chained_policies:Chained", "options": {"kind": "open"}}
    with Experiment.create(
        sqlite_url, "a", PROBLEM, window="10s", otherwise=0, clock=clock, **given
    ) as one:
        one.ask(4)
        one.tell(2, 1.0)
    with Experiment.open(sqlite_url, "a", clock=clock) as other:
        assert (other.window, other.otherwise, other.lease) == (10.0, 0.0, None)
        other.tell(3, 0.5)
        clock.now += 10.0
        other.expire()
        assert told(other) == {0: 0.0, 1: 0.0, 2: 1.0, 3: 0.5}
        assert other.verify().sound
        other.replay()


def test_what_failed_is_lost_before_its_window_ends(make: Make, clock: Clock) -> None:
    experiment = make()
    experiment.ask(3)
    experiment.tell(0, 1.0)
    experiment.fail(1, "a robot")
    with pytest.raises(ConflictingOutcomeError, match="0 has the outcome 1, so it has not failed"):
        experiment.fail(0)
    assert experiment.tell(1, 1.0) == Receipt(1, 0, 1)
    clock.now += 10.0
    experiment.expire()
    assert told(experiment) == {0: 1.0, 2: 0.0}
    assert experiment.verify().sound


def test_what_is_told_after_the_end_is_kept(make: Make, clock: Clock) -> None:
    experiment = make()
    experiment.ask(3)
    experiment.tell(0, 1.0)
    experiment.stop("enough")
    assert experiment.tell_many({0: 0.0, 1: 1.0}) == Receipt(2, 0, 2)
    clock.now += 10.0
    assert not experiment.expire()
    assert told(experiment) == {}
    assert experiment.verify().sound
    with experiment.read() as snapshot:
        assert [each.late for each in snapshot.reports()] == [False, True, True]


def test_stopping_counts_what_was_told_by_then(make: Make, clock: Clock) -> None:
    experiment = make(options={"sizes": (4, 90)})
    experiment.ask(5)
    experiment.tell(1, 1.0)
    clock.now += 10.0
    experiment.stop("enough")
    assert told(experiment) == {0: 0.0, 1: 1.0, 2: 0.0, 3: 0.0, 4: 0.0}
    assert experiment.phase == 2  # and the policy was told
    assert experiment.verify().sound


def test_outcomes_whose_window_has_ended_are_not_missing(make: Make, clock: Clock) -> None:
    experiment = make(options={"sizes": (400,)})
    experiment.ask(200)
    clock.now += 100.0
    missing = next(check for check in experiment.health() if check.name == "missing")
    assert missing.level == "ok"


def test_many_windows_end_at_once(make: Make, clock: Clock) -> None:
    """Also where they are looked through in several pieces, and some are younger."""
    experiment = make(options={"sizes": (9000,)})
    for _ in range(5):
        ids = experiment.ask(700).ids
        experiment.tell_many({ids[0]: 1.0, ids[-1]: 1.0})
        clock.now += 3.0
    experiment.expire()  # 15 seconds after the first, 12 after the second, 9 after the third
    recorded = told(experiment)
    assert len(recorded) == 1400
    assert {number for number, reward in recorded.items() if reward} == {0, 699, 700, 1399}


def test_a_clock_that_is_wrong_by_years_ends_no_window(make: Make, clock: Clock) -> None:
    experiment = make()
    if experiment.spec is None:
        return  # in memory, time may leap
    experiment.ask(3)
    clock.now += 2 * YEAR
    with pytest.raises(ClockError, match="end of their window"):
        experiment.tell(0, 1.0)
    clock.now -= 2 * YEAR
    assert told(experiment) == {}


def test_a_clock_set_back_loses_no_report(make: Make, clock: Clock) -> None:
    experiment = make()
    experiment.ask(1)
    clock.now -= 5.0
    experiment.ask(1)
    experiment.tell_many({0: 1.0, 1: 1.0})
    clock.now += 10.0
    experiment.expire()
    assert told(experiment) == {1: 1.0}
    clock.now += 5.0
    experiment.expire()
    assert told(experiment) == {0: 1.0, 1: 1.0}
    assert experiment.verify().sound


@pytest.mark.parametrize(
    ("given", "field", "sentence"),
    [
        ({"window": None}, "window", "Give the `window` too"),
        ({"otherwise": None}, "otherwise", "Give `otherwise`, for example 0"),
        ({"lease": 60}, "lease", "a lease or a window, not both"),
        ({"window": "soon"}, "window", "must be a time like"),
        ({"window": -1}, "window", "positive"),
        ({"otherwise": "zero"}, "otherwise", "a finite number"),
        ({"otherwise": float("nan")}, "otherwise", "a finite number"),
        ({"otherwise": 1.5}, "otherwise", "must lie between 0 and 1; got 1.5"),
    ],
)
def test_a_window_that_cannot_be_is_refused(given: Any, field: str, sentence: str) -> None:
    policy = AnytimeBAI(Problem(np.eye(3)), bounds=(0, 1))
    with pytest.raises(InvalidInputError, match=sentence) as caught:
        Experiment(policy, **{"window": "7d", "otherwise": 0} | given)
    assert caught.value.field == field


def test_a_window_takes_no_lease(make: Make) -> None:
    with pytest.raises(InvalidInputError, match="have a window"):
        make().change_lease(60)


def test_the_log_says_in_words_when_outcomes_count(make: Make) -> None:
    experiment = make(window="7d", otherwise=0.5)
    words = describe(experiment.events()[0], PROBLEM, open_plans=True)
    after = "Outcomes count 7 days after their assignment"
    assert words == f"Created. {after}, as 0.5 where none is told."


def test_a_forecaster_learns_at_the_end_of_the_window(clock: Clock) -> None:
    """What comes early is selected by its reward."""
    learned: list[tuple[int, float]] = []

    class Recorder(Forecaster):
        def forecast(self, number: int, time: float | None, covariates: Any) -> float:
            return 0.5

        def learn(self, number: int, features: Any, reward: float) -> None:
            learned.append((number, reward))

        def follow(self, *_: Any) -> Any:
            raise AssertionError

    policy = AnytimeBAI(Problem(np.eye(3)), bounds=(0, 1), forecasts=True)
    experiment = Experiment(policy, window=10, otherwise=0, clock=clock, forecaster=Recorder())
    experiment.ask(4)
    learned.clear()
    experiment.tell(2, 1.0)
    experiment.tell(2, 1.0)  # repeated
    clock.now += 5.0
    experiment.ask(1)
    assert learned == []
    clock.now += 5.0
    experiment.ask(1)
    assert learned == [(0, 0.0), (1, 0.0), (2, 1.0), (3, 0.0)]
