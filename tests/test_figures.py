"""Pictures: every target is drawn, where it ends is marked, and no state is left behind."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from workers_started import HANG_TIMEOUT, processes

from bestarm import RAGE, SPBAI, AnytimeBAI, Problem, Recommendation, environments, figures
from bestarm.errors import InvalidInputError
from bestarm.recommendation import Phase
from bestarm.simulation import run_once


def phase(number: int, active: tuple[int, ...], eliminated: tuple[int, ...], pulls: int) -> Phase:
    return Phase(
        phase=number,
        active=active,
        eliminated=eliminated,
        leader=active[0],
        contrasts=tuple(0.1 * i for i in range(len(active))),
        radii=tuple([0.0] + [0.5 / number] * (len(active) - 1)),
        delta=0.01,
        pulls=pulls,
        weights=np.array([0.5, 0.5]),
        value=1.0,
        gap=0.0,
        stability=None,
    )


def recommendation(trace: list[Phase], active: tuple[int, ...]) -> Recommendation:
    final = len(active) == 1
    return Recommendation(
        target=0,
        label="0",
        final=final,
        reason="identified" if final else "running",
        pulls=sum(part.pulls for part in trace),
        error_bound=None,
        active=active,
        trace=trace,
    )


@pytest.mark.parametrize("method", [SPBAI, RAGE], ids=["SP-BAI", "RAGE"])
def test_a_run_is_drawn_to_a_small_file(method: type[SPBAI | RAGE], tmp_path: Path) -> None:
    world = environments.small_gap()
    figure = figures.phases(run_once(method, world), world.problem(0.1))
    path = figures.save(figure, tmp_path / "new" / "phases.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size < 150_000


def test_every_target_has_a_line_and_every_dropped_one_a_cross() -> None:
    trace = [phase(1, (0, 1, 2), (2,), 100), phase(2, (0, 1), (1,), 300)]
    figure = figures.phases(recommendation(trace, (0,)), Problem(np.eye(3)))
    lines = [np.asarray(line.get_xdata()).tolist() for line in figure.axes[0].lines]
    assert lines.count([100, 400]) >= 2  # targets 0 and 1, up to the end of phase 2
    crosses = [line for line in figure.axes[0].lines if line.get_marker() == "X"]
    assert sorted(float(np.asarray(cross.get_xdata())[0]) for cross in crosses) == [100, 400]
    texts = [text.get_text() for text in figure.legends[0].texts]
    assert texts[:3] == [
        "target 0, the only one left",
        "target 1, dropped in phase 2",
        "target 2, dropped in phase 1",
    ]


def test_a_crowd_is_drawn_without_colours() -> None:
    many = tuple(range(100))
    trace = [phase(1, many, many[2:], 100), phase(2, (0, 1), (), 100)]
    figure = figures.phases(recommendation(trace, (0, 1)), Problem(np.eye(100)))
    texts = [text.get_text() for text in figure.legends[0].texts]
    assert texts[:3] == [
        "target 0, in the running",
        "target 1, in the running",
        "98 other targets",
    ]
    assert "2 of 100 targets remain" in figure.get_suptitle()


def test_many_phases_are_drawn_with_few_numbers(tmp_path: Path) -> None:
    trace = [phase(number, (0, 1), (), 10) for number in range(1, 500)]
    figure = figures.phases(recommendation(trace, (0, 1)), Problem(np.eye(2)))
    figures.save(figure, tmp_path / "many.png")
    (top,) = figure.axes[0].child_axes
    numbers = [label.get_text() for label in top.get_xticklabels()]
    assert numbers[0] == "1"
    assert numbers[-1] == "499"
    assert len(numbers) <= 30


def test_long_labels_are_cut() -> None:
    trace = [phase(1, (0, 1), (1,), 10)]
    problem = Problem(np.eye(2), source_labels=["short", "a" * 100])
    figure = figures.phases(recommendation(trace, (0,)), problem)
    assert len(figure.legends[0].texts[1].get_text()) < 60


def test_dollars_are_no_mathematics() -> None:
    trace = [phase(1, (0, 1), (1,), 10)]
    problem = Problem(np.eye(2), source_labels=["$\\nonsense$", "$"])
    figures.phases(recommendation(trace, (0,)), problem).draw_without_rendering()


def test_nothing_to_draw_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="nothing to draw"):
        figures.phases(recommendation([], (0, 1)), Problem(np.eye(2)))


def test_drawing_leaves_pyplot_alone() -> None:
    code = (
        "import sys\nfrom bestarm import environments, figures, RAGE\n"
        "from bestarm.simulation import run_once\n"
        "assert 'matplotlib' not in sys.modules\n"
        "world = environments.small_gap()\n"
        "figures.phases(run_once(RAGE, world), world.problem(0.1))\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    process = processes.Process(target=exec, args=(code,))
    process.start()
    process.join(HANG_TIMEOUT)
    assert process.exitcode == 0


def watched() -> tuple[list[int], list[np.ndarray], Problem]:
    world = environments.small_gap(4, 0.7)
    looks: list[tuple[int, np.ndarray]] = []

    def look(policy: object) -> None:
        assert isinstance(policy, AnytimeBAI)
        looks.append((policy.recommend().pulls, policy.evidence()))

    run_once(partial(AnytimeBAI, mean_bound=2.0), world, observe=look)
    pulls, values = zip(*looks, strict=True)
    return list(pulls), list(values), world.problem(0.1)


def test_evidence_crosses_the_line_where_targets_are_dropped(tmp_path: Path) -> None:
    pulls, values, problem = watched()
    figure = figures.evidence(pulls, values, problem)
    [axes] = figure.axes
    crosses = [line for line in axes.lines if line.get_marker() == "x"]
    assert len(crosses) == problem.targets - 1
    for cross in crosses:
        assert float(np.asarray(cross.get_ydata())[0]) >= 1 / problem.delta
    written = figures.save(figure, tmp_path / "evidence.png").read_bytes()
    assert written.startswith(b"\x89PNG")
    assert "Target 0 is the best of 5" in figure.get_suptitle()


def test_evidence_of_a_run_that_goes_on_says_how_many_are_left() -> None:
    pulls, _, problem = watched()
    figure = figures.evidence(pulls[:1], np.ones((1, problem.targets)), problem)
    assert figure.get_suptitle().startswith(f"{problem.targets} of {problem.targets} targets")
    many = Problem(np.eye(9), target_labels=[f"${i}_x" for i in range(9)])
    figures.evidence([10, 20], np.full((2, 9), 0.5), many)


@pytest.mark.parametrize(("pulls", "shape"), [([], (0, 5)), ([1], (2, 5)), ([1], (1, 4))])
def test_evidence_must_fit_its_looks_and_targets(pulls: list[int], shape: tuple[int, int]) -> None:
    problem = environments.small_gap(4).problem(0.1)
    with pytest.raises(InvalidInputError, match="one row per look"):
        figures.evidence(pulls, np.ones(shape), problem)
