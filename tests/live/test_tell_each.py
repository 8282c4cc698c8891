"""Several who tell at once, and outcomes that all but agree, on every kind of store."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
from chained_policies import PROBLEM, Chained
from kept import told

from bestarm.errors import ConflictingOutcomeError
from bestarm.live import Experiment, Receipt, writer

OPTIONS = {"kind": "randomised", "sizes": [6, 4]}


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def experiment(request: pytest.FixtureRequest) -> Iterator[Experiment]:
    """An experiment whose first phase asks for 6 pulls, all of them given out."""
    if request.param == "memory":
        made = Experiment(Chained(PROBLEM, kind="randomised", sizes=(6, 4)), seed=3)
    else:
        made = Experiment.create(
            request.getfixturevalue(f"{request.param}_url"),
            "offer",
            PROBLEM,
            policy="chained_policies:Chained",
            options=OPTIONS,
            seed=3,
        )
    with made:
        made.ask(6)
        yield made


def test_one_id_from_two_callers_counts_once(experiment: Experiment) -> None:
    """The second is told that it was known; the third, who contradicts, that nothing was kept."""
    one, two, three = experiment.tell_each([{0: 1.0, 1: 0.5}, {1: 0.5, 2: 0.25}, {3: 1.0, 0: 0.5}])
    assert one == Receipt(recorded=2, repeated=0, late=0)
    assert two == Receipt(recorded=1, repeated=1, late=0)
    assert isinstance(three, ConflictingOutcomeError)
    assert told(experiment) == {0: 1.0, 1: 0.5, 2: 0.25}
    status = experiment.status()
    assert (status.answered, status.outstanding) == (3, 3)
    experiment.tell_many({3: 0.0, 4: 0.0, 5: 0.0})
    assert experiment.phase == 2  # six outcomes close it, and five would not
    assert experiment.verify().findings == ()


def test_outcomes_that_differ_in_the_last_place_contradict_each_other(
    experiment: Experiment,
) -> None:
    """A reward is a fact to the bit: a summary of one would not be a summary of the other."""
    reward = 0.3
    other = math.nextafter(reward, 1.0)
    assert experiment.tell(0, reward) == Receipt(1, 0, 0)
    assert experiment.tell(0, reward) == Receipt(0, 1, 0)
    with pytest.raises(ConflictingOutcomeError, match=r"told 0\.3, now 0\.30000000000000004"):
        experiment.tell(0, other)
    with pytest.raises(ConflictingOutcomeError, match=r"told 0\.3, now 0\.30000000000000004"):
        experiment.tell_many([(1, reward), (1, other)])
    first, second = experiment.tell_each([{2: reward}, {2: other}])
    assert first == Receipt(1, 0, 0)
    assert isinstance(second, ConflictingOutcomeError)
    assert told(experiment) == {0: reward, 2: reward}


def test_a_phase_that_is_left_open_closes_with_the_next_call(experiment: Experiment) -> None:
    """As after a process that died between the two: nothing is lost, and nothing is done twice."""
    due: list[bool] = []
    several = [{number: 0.5} for number in range(6)]
    answers = experiment.tell_each(several[:5], when_due=lambda: due.append(True))
    assert not due
    answers += experiment.tell_each(several[5:], when_due=lambda: due.append(True))
    assert answers == (Receipt(1, 0, 0),) * 6
    assert due == [True]
    assert (experiment.phase, experiment.status().answered) == (1, 6)
    assert len(told(experiment)) == 6
    if experiment.place is None:
        experiment.advance()
    else:
        with Experiment.open(experiment.place, "offer") as another:  # as by another process
            assert len(another.ask(4)) == 4
    assert experiment.phase == 2
    assert not experiment.advance()  # nothing is due any more
    assert experiment.phase == 2
    assert experiment.verify().findings == ()


def test_what_becomes_due_while_a_phase_closes_is_left_to_the_next_call(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_STEPS", 1)
    experiment.tell_each([{number: 0.5} for number in range(6)], when_due=lambda: None)
    assert experiment.advance()  # the phase is closed, and the next not planned
    assert not experiment.advance()
    assert experiment.phase == 2
