"""The table of policies: complete, true, and open to other packages."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from workers_started import HANG_TIMEOUT, processes

from bestarm import Experiment, Problem, policies
from bestarm.errors import InvalidInputError
from bestarm.planning import PlanRequest, plan_experiment
from bestarm.policies import Policy, PolicyInfo, registry
from bestarm.policies.catalog import BUILT_IN

PROBLEM = Problem(np.eye(3), delta=0.05)
ANOTHER = """
from bestarm import Plan, Recommendation
from bestarm.policies import Policy, PolicyInfo, Traits, check_adoptable

INFO = PolicyInfo("{name}", "another.rules:Guess", "names the first arm", blind=True)


class Guess(Policy):
    def __init__(self, problem, *, seed, max_pulls=None):
        self.problem, self.done, self.adopted = problem, False, None

    @property
    def traits(self):
        return Traits(version=1, blind=True)

    def plan(self):
        if self.done:
            return None
        return self.adopted or Plan.fixed([1] * self.problem.arms, phase=1)

    def adopt(self, plan):
        phase = None if self.done else 1
        self.adopted = check_adoptable(plan, self.problem, phase=phase, kind="fixed")

    def update(self, summary):
        self.plan().check(summary)
        self.done = True

    def recommend(self):
        label = self.problem.target_labels[0]
        pulls = self.problem.arms * self.done
        return Recommendation(0, label, self.done, "identified", pulls, None, (0,))
"""


@pytest.mark.parametrize("info", BUILT_IN, ids=lambda info: info.name)
def test_what_the_table_says_is_what_the_policy_declares(info: PolicyInfo) -> None:
    policy = info.method(PROBLEM, **info.example)
    assert policy.traits.blind is info.blind
    assert policy.traits.budgeted is info.budgeted
    assert not (info.blind and info.model == "drift")
    # Rules on means have a proof for one of their radii, which the plain name does not stand for.
    assert (policy.recommend().claims is not None) is info.proven
    assert set(info.required) <= set(info.example)
    assert not (info.plannable and info.required)
    assert bool(registry.accepted(info.method, block=2)) is info.blocks
    assert info.summary[0].islower() or info.summary.startswith("SP-BAI")


def test_every_class_of_bestarm_has_a_name() -> None:
    public = [getattr(policies, name) for name in dir(policies)]
    classes = {each for each in public if isinstance(each, type) and Policy in each.__mro__[1:]}
    assert classes <= {each.factory for each in BUILT_IN}


@pytest.mark.parametrize(
    ("name", "found"),
    [("SPBAI", "sp-bai"), ("SP_BAI", "sp-bai"), ("AnytimeBAI", "anytime")],
)
def test_names_are_found_in_any_spelling(name: str, found: str) -> None:
    info = registry.find(name)
    assert info is not None
    assert info.name == found


def test_a_name_that_is_nearly_right_gets_a_question() -> None:
    assert registry.find("anytim") is None
    with pytest.raises(InvalidInputError, match="Did you mean anytime"):
        registry.load("anytim")
    with pytest.raises(InvalidInputError, match="There is no module"):
        registry.load("nowhere:Rule")


def test_planning_and_stored_experiments_know_the_same_names(tmp_path: Path) -> None:
    for info in registry.policies().values():
        if info.live:
            url = f"sqlite:///{tmp_path / info.name}.db"
            options = dict(info.example)
            with Experiment.create(
                url, "try", PROBLEM, policy=info.name, policy_options=options, seed=0
            ) as experiment:
                assert len(experiment.ask(2)) == 2
        if info.plannable and not info.blind:
            world = plan_experiment(
                PlanRequest(PROBLEM, gap=0.5, policies=[info.name], runs=1, max_pulls=2000)
            )
            assert world.forecasts[0].policy == info.name


def test_an_option_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"needs the option `budget`\. Give it") as caught:
        Experiment.create(f"sqlite:///{tmp_path / 'x.db'}", "try", PROBLEM, policy="deo")
    assert caught.value.field == "policy_options"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Another package, as an installer would leave it."""
    (tmp_path / "another").mkdir()
    (tmp_path / "another" / "__init__.py").touch()
    (tmp_path / "another" / "rules.py").write_text(ANOTHER.format(name="guess"), encoding="utf-8")
    facts = tmp_path / "another-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: another\nVersion: 1.0\n")
    points = "[bestarm.policies]\nguess = another.rules:INFO\n"
    (facts / "entry_points.txt").write_text(points, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    registry.policies.cache_clear()
    yield tmp_path
    registry.policies.cache_clear()
    for name in ("another", "another.rules"):
        sys.modules.pop(name, None)


def test_an_installed_package_adds_its_policy_everywhere(installed: Path) -> None:
    info = registry.policies()["guess"]
    assert (info.summary, info.blind) == ("names the first arm", True)
    url = f"sqlite:///{installed / 'guess.db'}"
    with Experiment.create(url, "try", PROBLEM, policy="guess", seed=0) as experiment:
        experiment.tell_many({each.id: 1.0 for each in experiment.ask(3)})
        assert experiment.finished
        assert experiment.traits.blind
    plan = plan_experiment(PlanRequest(PROBLEM, gap=0.5, policies=["guess"], runs=3))
    assert plan.forecasts[0].policy == "guess"
    output = installed / "output"
    ran = processes.Process(target=_serve_and_compare, args=(installed, output))
    ran.start()
    ran.join(HANG_TIMEOUT)
    assert ran.exitcode == 0, output.read_text(encoding="utf-8")
    assert "guess" in output.read_text(encoding="utf-8")


def _serve_and_compare(installed: Path, output: Path) -> None:
    """In a process of its own, which imports all of bestarm again: other packages stay."""
    sys.stdout = sys.stderr = output.open("w", encoding="utf-8", buffering=1)
    for name in [name for name in sys.modules if name.partition(".")[0] == "bestarm"]:
        del sys.modules[name]
    sys.path.insert(0, str(installed))
    for module, body in (("schemas", "CreateBody"), ("plan", "PlanBody")):
        found = getattr(import_module(f"bestarm.server.api.{module}"), body)
        assert "guess" in str(found.model_json_schema())
    sys.argv = ["bestarm", "compare", "--method", "guess", "--runs", "2", "--workers", "1"]
    import_module("bestarm.cli").main()


@pytest.mark.parametrize(
    ("source", "warning"),
    [
        ("INFO = 3\n", "is not a PolicyInfo but int"),
        ("raise RuntimeError('broken')\n", "cannot be loaded .RuntimeError: broken"),
        (ANOTHER.format(name="anytime"), "the name is taken"),
    ],
)
def test_a_package_that_cannot_be_used_is_left_out_with_a_warning(
    installed: Path, source: str, warning: str
) -> None:
    (installed / "another" / "rules.py").write_text(source, encoding="utf-8")
    with pytest.warns(UserWarning, match=warning):
        found = registry.policies()
    assert set(found) == {each.name for each in BUILT_IN}
