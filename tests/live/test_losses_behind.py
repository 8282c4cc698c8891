"""Outcomes of the plan before that are given up: nobody waits for them any more."""

from __future__ import annotations

from chained_policies import PROBLEM, Chained

from bestarm.live import Experiment


def test_what_is_given_up_of_the_plan_before_is_no_longer_awaited() -> None:
    """Four of eight close the first phase, so four are out under its plan: two come, two do not."""
    experiment = Experiment(Chained(PROBLEM, kind="open", sizes=(4, 3)), seed=1)
    assert list(experiment.ask(8).ids) == list(range(8))
    experiment.tell_many(dict.fromkeys(range(4), 0.5))
    assert (experiment.phase, experiment.status().outstanding) == (2, 4)
    experiment.fail_many([4, 6])
    assert experiment.status().outstanding == 2
    experiment.tell_many({5: 0.5, 7: 0.25})
    assert experiment.status().outstanding == 0
    with experiment.read() as snapshot:
        first, second = (entry.summary for entry in snapshot.summaries())
    assert (first.pulls, second.pulls, second.missing.sum()) == (4, 2, 2)
    assert experiment.verify().findings == ()
