"""Workers that ask by unit: at the same moment as others, or until they are killed."""

from __future__ import annotations

from workers_killed import die_at, reward

from bestarm.live import Assignment, Experiment

__all__ = ["ask_together", "ask_until", "visit"]


def ask_together(url: str, name: str, units: int) -> list[tuple[str | None, int, str]]:
    """Ask for the same units as others do, one at a time and several at a time."""
    found = list[Assignment]()
    with Experiment.open(url, name) as experiment:
        for number in range(units):
            found += experiment.ask(unit=f"visitor-{number}")
            found += experiment.ask(
                unit=[f"person-{number // 2}", "person-7"], decision_point=number
            )
    return [(each.unit, each.id, each.label) for each in found]


def visit(experiment: Experiment, units: int) -> None:
    """Ask for each unit twice, and tell its outcome by its name."""
    for number in range(units):
        name = f"visitor-{number}"
        [each] = experiment.ask(unit=name, covariates={"number": number})
        assert experiment.ask(unit=name)[0] == each
        experiment.tell(unit=name, reward=reward(each.id, each.arm))


def ask_until(url: str, name: str, units: int, instant: int) -> None:
    """Visit all units, and be killed at an instant."""
    die_at(instant)
    with Experiment.open(url, name) as experiment:
        visit(experiment, units)
