"""Regret of methods while they look for the best arm: a picture for those who ask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from bestarm import figures
from bestarm.checks import whole
from bestarm.defaults import DELTA
from bestarm.environments import Environment
from bestarm.errors import InvalidInputError
from bestarm.numerics.blas import one_thread
from bestarm.numerics.geometry import Array
from bestarm.policies.policy import Method
from bestarm.simulation.engine import Simulation
from bestarm.simulation.methods import Oracle

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_POINTS = 200  # of a curve


def plot_regret(
    methods: Mapping[str, Method | Oracle],
    environment: Environment,
    *,
    runs: int = 20,
    seed: int = 0,
    delta: float = DELTA,
    ax: Axes | None = None,
) -> Axes:
    """Draw the mean regret over pulls, one line per method, which ends with its longest run.

    The regret of a run after n pulls is Σ over arms of (pulls of the arm) · (best mean − its mean),
    with the means x·θ of the world; a run that has ended adds nothing. Runs are made one at a time,
    plan by plan, because results do not keep pulls per arm: a method whose runs `simulate` makes
    side by side draws other numbers here, with the same law.

    Args:
        methods: as for `compare`.
        environment: the environment of the runs, whose worlds have a `theta`.
        runs: the number of runs of each method.
        seed: as for `simulate`.
        delta: the error probability that the policies must keep.
        ax: where to draw; a new picture if left out.

    Raises:
        InvalidInputError: a world has no `theta`.
        MissingDependencyError: Matplotlib is not installed.
    """
    axes, count = figures.as_axes(ax), whole(runs, "runs", least=1)
    for name, method in methods.items():
        simulation = Simulation(method, environment, delta=delta, seed=seed)
        with one_thread():
            curves = [_curve(simulation, run) for run in range(count)]
        grid = np.linspace(0, max(pulls[-1] for pulls, _ in curves), _POINTS)
        figures.draw_line(axes, grid, np.mean([np.interp(grid, *each) for each in curves], 0), name)
    axes.set_xlabel("pulls")
    axes.set_ylabel(f"mean regret of {count} runs")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:,.0f}")
    axes.set_xlim(0, None)
    axes.set_ylim(0, None)
    return axes


def _curve(simulation: Simulation, run: int) -> tuple[Array, Array]:
    """Pulls and regret after each plan of a run; between them it grows evenly, on average."""
    policy, stream, world = simulation.begin(run)
    theta, problem = getattr(world, "theta", None), world.problem(simulation.delta)
    if theta is None:
        message = f"The means of {simulation.environment.name} are not known: it has no `theta`."
        remedy = "Try bestarm.environments.small_gap()."
        raise InvalidInputError(message, field="environment", remedy=remedy)
    means = problem.source @ theta
    pulls, regret = [0.0], [0.0]
    while (plan := policy.plan()) is not None:
        summary = stream.pull(plan)
        policy.update(summary)
        pulls.append(pulls[-1] + summary.pulls)
        regret.append(regret[-1] + float(summary.counts @ (means.max() - means)))
    return np.array(pulls), np.array(regret)
