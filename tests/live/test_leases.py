"""Leases: what is overdue is lost, replaced and never used, whatever the clock does."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from chained_policies import Chained
from clocks import Clock
from recorded import told

from bestarm.errors import ConflictingOutcomeError, InvalidInputError
from bestarm.live import Experiment, Receipt
from bestarm.records import Summary

Make = Callable[..., Experiment]


@pytest.fixture
def make(make_chained: Make) -> Make:
    """Makes an experiment with a lease of ten seconds."""

    def make(*, lease: float | None = 10.0, **options: Any) -> Experiment:
        return make_chained(options, lease=lease)

    return make


def summaries(experiment: Experiment) -> list[Summary]:
    with experiment.read() as snapshot:
        return [entry.summary for entry in snapshot.summaries()]


def states(experiment: Experiment) -> list[str]:
    return [str(state) for state in experiment.assignments()["state"]]


def test_expire_only_reads_until_something_is_overdue(make: Make, clock: Clock) -> None:
    experiment = make(kind="randomised", sizes=(6, 6))
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


def test_what_is_overdue_is_replaced_in_its_own_phase(make: Make, clock: Clock) -> None:
    experiment = make(kind="randomised", sizes=(4, 2))
    experiment.ask(4)
    experiment.tell_many({0: 1.0, 2: 3.0})
    clock.now += 9.5
    assert experiment.ask().waiting == 2
    clock.now += 0.5
    again = experiment.ask(10)
    assert (list(again.ids), again.phase) == ([4, 5], 1)
    assert states(experiment) == ["told", "lost", "told", "lost", "outstanding", "outstanding"]
    assert experiment.status().lost == 2
    experiment.tell_many({4: 5.0, 5: 6.0})
    assert experiment.phase == 2
    (summary,) = summaries(experiment)
    assert (summary.pulls, summary.sums.sum()) == (4, 15.0)
    assert not summary.missing.any()


def test_a_fixed_plan_pulls_again_what_it_lost_in_the_order_lost(make: Make, clock: Clock) -> None:
    experiment = make(kind="fixed", sizes=(8, 2))
    arms = experiment.ask(8).arms.tolist()
    experiment.fail(5)
    experiment.fail_many([7, 2])
    first = experiment.ask(2)
    experiment.fail(int(first.ids[1]))
    rest = experiment.ask(10)
    assert first.arms.tolist() == [arms[5], arms[7]]
    assert rest.arms.tolist() == [arms[2], arms[7]]
    out = [n for n, state in enumerate(states(experiment)) if state == "outstanding"]
    experiment.tell_many(dict.fromkeys(out, 1.0))
    (summary,) = summaries(experiment)
    assert summary.counts.tolist() == np.bincount(arms, minlength=4).tolist()


def test_an_open_plan_goes_on_without_what_it_lost(make: Make, clock: Clock) -> None:
    experiment = make(kind="open", sizes=(5, 3))
    arms = experiment.ask(5).arms
    experiment.tell_many({0: 1.0, 1: 1.0, 3: 1.0, 4: 1.0})
    assert experiment.phase == 1
    clock.now += 10.0
    experiment.expire()
    assert experiment.phase == 2
    (summary,) = summaries(experiment)
    assert summary.missing.tolist() == np.bincount(arms[2:3], minlength=4).tolist()
    assert summary.pulls == 4


def test_an_outcome_that_comes_too_late_is_kept_flagged_and_not_used(
    make: Make, clock: Clock
) -> None:
    experiment = make(kind="randomised", sizes=(2, 2))
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


def test_an_outcome_in_time_is_used_even_if_somebody_waited_long_to_ask(
    make: Make, clock: Clock
) -> None:
    experiment = make(kind="randomised", sizes=(2, 2))
    experiment.ask(2)
    clock.now += 9.99
    experiment.tell(0, 1.0)
    clock.now += 1000.0
    assert experiment.ask().ids[0] == 2
    assert states(experiment)[:2] == ["told", "lost"]


def test_a_clock_that_goes_back_holds_nobody_up(make: Make, clock: Clock) -> None:
    """One given out at an earlier time than the one before it is lost at its own time."""
    experiment = make(kind="randomised", sizes=(3, 2))
    experiment.ask()
    clock.now -= 500.0
    experiment.ask()
    clock.now += 10.0
    experiment.expire()
    assert states(experiment) == ["outstanding", "lost"]
    clock.now += 500.0
    experiment.expire()
    assert states(experiment) == ["lost", "lost"]


def test_leases_can_be_changed_and_what_is_lost_stays_lost(make: Make, clock: Clock) -> None:
    experiment = make(kind="randomised", sizes=(3, 2), lease=None)
    experiment.ask(2)
    clock.now += 1e6
    experiment.expire()
    assert experiment.status().lost == 0
    experiment.change_lease(10.0)
    assert experiment.lease == 10.0
    experiment.ask()
    assert states(experiment) == ["lost", "lost", "outstanding"]
    experiment.change_lease(None)
    clock.now += 1e6
    experiment.expire()
    assert states(experiment) == ["lost", "lost", "outstanding"]
    changes = [event.data for event in experiment.events() if event.kind == "changed"]
    assert changes == [{"lease": 10.0, "before": None}, {"lease": None, "before": 10.0}]


@pytest.mark.parametrize(
    "lease", [0, -1.0, math.nan, math.inf, "soon", "", "0h", "-1h", "1y", "2 h 5", True]
)
def test_a_lease_is_a_time(lease: Any) -> None:
    with pytest.raises(InvalidInputError, match="`lease`"):
        Experiment(Chained(), lease=lease, seed=0)
    experiment = Experiment(Chained(), seed=0)
    with pytest.raises(InvalidInputError, match="`lease`"):
        experiment.change_lease(lease)
    assert experiment.lease is None


@pytest.mark.parametrize(
    ("lease", "seconds"),
    [("90s", 90), ("30m", 1800), ("2h", 7200), (" 1.5 d ", 129600), ("1w", 604800), ("45", 45)],
)
def test_a_lease_may_be_written_as_people_do(lease: str, seconds: float) -> None:
    assert Experiment(Chained(), lease=lease).lease == seconds
    experiment = Experiment(Chained())
    experiment.change_lease(lease)
    assert experiment.lease == seconds


def test_leases_go_on_while_paused_and_end_with_the_experiment(make: Make, clock: Clock) -> None:
    experiment = make(kind="randomised", sizes=(3, 2))
    experiment.ask(3)
    experiment.pause()
    empty = experiment.ask()
    assert (len(empty), empty.state, empty.waiting) == (0, "paused", 0)
    clock.now += 10.0
    assert experiment.tell(0, 1.0).late == 1
    assert experiment.status().lost == 3
    experiment.resume()
    assert len(experiment.ask(2)) == 2
    experiment.stop("enough")
    clock.now += 1e6
    experiment.expire()
    assert experiment.status().lost == 3
    assert experiment.tell(3, 1.0) == Receipt(recorded=1, repeated=0, late=1)
    experiment.fail(4)
    assert experiment.status().lost == 4
    assert experiment.ask().finished
    assert experiment.recommendation().reason == "stopped"
    for change in (experiment.pause, experiment.resume):
        with pytest.raises(InvalidInputError, match="stopped"):
            change()
    experiment.stop("again")
    kinds = [event.kind for event in experiment.events()]
    assert kinds == [
        *("created", "planned", "paused", "late", "resumed", "stopped", "late", "failed"),
    ]


def test_a_request_gives_the_same_assignments_whatever_became_of_them(
    make: Make, clock: Clock
) -> None:
    experiment = make(kind="randomised", sizes=(4, 2))
    first = experiment.ask(3, request_id="page 7")
    clock.now += 10.0
    experiment.ask(5)  # all of the first are lost and drawn anew
    again = experiment.ask(3, request_id="page 7")
    assert (again.ids, again.arms.tolist()) == (first.ids, first.arms.tolist())
    assert again.probabilities.tolist() == first.probabilities.tolist()
    for other in (2, 4):
        with pytest.raises(InvalidInputError, match=f"asked for 3 before, now for {other}"):
            experiment.ask(other, request_id="page 7")
    assert experiment.status().pulls == 7


def test_an_empty_answer_is_not_remembered(make: Make) -> None:
    """Who is told to wait may ask again under the same name, and gets something then."""
    experiment = make(kind="randomised", sizes=(1, 1))
    experiment.ask()
    assert len(experiment.ask(request_id="next")) == 0
    experiment.tell(0, 1.0)
    assert list(experiment.ask(request_id="next").ids) == [1]
    assert list(experiment.ask(request_id="next").ids) == [1]


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb", 7])
def test_names_of_requests_are_short_texts(name: Any) -> None:
    with pytest.raises(InvalidInputError, match="`request_id`"):
        Experiment(Chained(), seed=0).ask(request_id=name)


@pytest.mark.parametrize("reason", ["", "it's 100 % :gone", "日本語 🙂", "\ud800\0", "x" * 20_000])
def test_reasons_are_any_text(make: Make, reason: str) -> None:
    experiment = make()
    experiment.ask(2)
    experiment.fail(0, reason)
    experiment.stop(reason)
    assert experiment.status().lost == 1


def test_telling_or_failing_nothing_still_gives_up_what_is_overdue(
    make: Make, clock: Clock
) -> None:
    for nothing in ("tell_many", "fail_many"):
        experiment = make(sizes=(4,))
        experiment.ask(3)
        clock.now += 11.0
        assert getattr(experiment, nothing)([]) in {None, Receipt(0, 0, 0)}
        assert experiment.status().lost == 3
