"""Methods and instances as the command line spells them: built-in ones by name, a user's by module.

sp-bai                                      a built-in method
sp-bai:preset=replication                   the same with options of its constructor
mymodule:MyPolicy                           a user's own, found from the current folder
mymodule:MyPolicy:alpha=3                   with options
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from bestarm.checks import choice, suggestion
from bestarm.datasets import jester
from bestarm.environments import Baseline, Environment, World, baselines, small_gap, uniform_sphere
from bestarm.environments.baselines import Constant, Moving
from bestarm.errors import BestArmError, InvalidInputError, describe_error
from bestarm.policies import Method, Policy
from bestarm.policies.registry import (
    accepted,
    find,
    free_options,
    is_path,
    load_own,
    make_policy,
    policies,
    unknown_option,
)
from bestarm.problem import Problem
from bestarm.simulation import Oracle


@dataclass(frozen=True)
class Entry:
    """A method that takes part in a comparison.

    Attributes:
        name: what it was asked for as, in its usual spelling.
        factory: makes the policy from a problem and the options.
        options: keywords bound to it.
        truths: keywords it is told truths of the world for, with the world's attributes.
        module: the module of a user's own method; empty for a built-in one.
    """

    name: str
    factory: Callable[..., Any]
    options: dict[str, Any] = field(default_factory=dict)
    truths: dict[str, str] = field(default_factory=dict)
    module: str = ""

    @property
    def method(self) -> Method | Oracle:
        """What `simulate` takes."""
        method = partial(self.factory, **self.options) if self.options else self.factory
        return Oracle(method, **self.truths) if self.truths else method

    def capped(self, max_pulls: int | None) -> Entry:
        """The same, stopped at so many pulls if it can be and its options do not say otherwise."""
        return replace(self, options=accepted(self.factory, max_pulls=max_pulls) | self.options)


def read_method(text: str, *, later: Collection[str] = ()) -> Entry:
    """The method that a text names, with the options it gives; a user's own is imported.

    Options that are bound `later` need not be given.
    """
    head, colon, rest = text.strip().partition(":")
    attribute, _, options = rest.partition(":")
    if colon and (is_path(attribute) or ("=" not in attribute and find(head) is None)):
        factory = load_own(f"{head}:{attribute}", "method")
        entry = Entry(f"{head}:{attribute}", factory, module=head)
    elif (info := find(head)) is not None:
        entry, options = Entry(info.name, info.method, truths=dict(info.truths)), rest
    else:
        raise _wrong(
            text,
            f"There is no method {head!r}; there are {', '.join(policies())}.",
            suggestion(head, policies()) or "Give your own as module:attribute.",
        )
    bound = _options(text, options)
    _check_options(entry, bound, later)
    return replace(
        entry,
        name=f"{entry.name}:{options}" if bound else entry.name,
        options=bound,
        truths={key: value for key, value in entry.truths.items() if key not in bound},
    )


def _options(text: str, options: str) -> dict[str, Any]:
    """Keywords as Python reads them, with bare words as strings."""
    try:
        call: Any = ast.parse(f"f({options})", mode="eval").body
        keywords = {each.arg: each.value for each in call.keywords}
        if call.args or None in keywords or len(keywords) < len(call.keywords):
            raise ValueError  # noqa: TRY301
        return {
            str(name): node.id if isinstance(node, ast.Name) else ast.literal_eval(node)
            for name, node in keywords.items()
        }
    except (ValueError, SyntaxError, AttributeError, MemoryError, RecursionError):
        raise _wrong(
            text,
            f"The options {options!r} cannot be read.",
            "Write them as key=value, with commas between them and words of other signs in quotes.",
        ) from None


def _check_options(entry: Entry, options: dict[str, Any], later: Collection[str]) -> None:
    free = free_options(entry.factory)
    if free is None:
        return
    for name in options:
        if name not in free:
            raise _wrong(
                f"{entry.name}:{name}",
                f"{entry.name} has no option {name!r}.",
                "The seed is given with --seed." if name == "seed" else unknown_option(name, free),
            )
    for name, parameter in free.items():
        known = name in options or name in entry.truths or name in later
        if parameter.default is parameter.empty and not known:
            remedy = f"Give it: {entry.name}:{name}=1000, say."
            raise _wrong(entry.name, f"{entry.name} needs `{name}`.", remedy)


def check_method(
    entry: Entry, world: World, problem: Problem, *, method: Method | Oracle | None = None
) -> None:
    """Refuse a method that cannot be simulated, or that does not name the best target alone.

    `method` is the entry's with more bound to it, if there is more.
    """
    name, method = entry.name, method or entry.method
    try:
        policy = make_policy(method.bind(world) if isinstance(method, Oracle) else method, problem)
    except Exception as error:
        what = (
            str(error) if isinstance(error, BestArmError) else describe_error(error, entry.module)
        )
        raise _wrong(name, f"{name} cannot be made: {what.rstrip('.')}.") from error
    if not isinstance(policy, Policy):
        raise _wrong(
            name,
            f"{name} makes {type(policy).__name__!r}, which is not a policy.",
            "A policy has problem, plan(), update(summary) and recommend().",
        )
    traits = policy.traits
    if not traits.names_the_best:
        claim = f"{traits.names} targets" if traits.names > 1 else "a target"
        within = f" within {traits.margin:g} of the best" if traits.margin else ""
        raise _wrong(
            name,
            f"{name} names {claim}{within}, and is judged here by whether it names the best.",
            "Leave out the options that ask for something else.",
        )
    try:
        plan = policy.plan()
    except Exception:  # its first run says it in full
        return
    if getattr(plan, "forecasts", None) is not None:
        raise _wrong(
            name,
            f"{name} needs a forecast of every reward, and nothing forecasts here.",
            'Leave out its option, or use simulate(…, forecaster="default") in Python.',
        )


def _wrong(value: str, what: str, remedy: str = "") -> InvalidInputError:
    return InvalidInputError(what, field="method", value=value, remedy=remedy)


INSTANCES = ("small-gap", "uniform", "jester")
BASELINES: dict[str, Callable[[], Baseline]] = {
    "sinusoid": baselines.sinusoid,
    "none": baselines.none,
    "random-walk": baselines.random_walk,
    "switches": baselines.switches,
    "adversary": baselines.adversary,
}
_MAX_PULLS = 5_000_000  # random arms may tie almost exactly, and then no method would end


@dataclass(frozen=True)
class Instance:
    """An environment to compare methods in, in a phrase; `note` says where its data come from."""

    environment: Environment
    description: str
    note: str = ""
    max_pulls: int | None = None  # where a run is cut by default


def find_instance(name: str, *, baseline: str | None, data: Path | None) -> Instance:
    """The instance of a name, or of one's own as module:attribute."""
    if ":" in name:
        return _own_instance(name.strip(), {"baseline": baseline, "data": data})
    key = _one_of(name, INSTANCES, "instance")
    if key == "jester":
        if baseline is not None:
            raise InvalidInputError(
                "`baseline` does not apply to jester, whose ratings are recorded data.",
                field="baseline",
                value=baseline,
                remedy="Leave it out.",
            )
        ratings = jester(data)
        world = ratings.environment(block=len(ratings.jokes))
        return Instance(world, ratings.name, ratings.source)
    if data is not None:
        raise InvalidInputError(
            f"`data` applies to jester, not to {key}.",
            field="data",
            value=str(data),
            remedy="Leave it out, or choose the instance jester.",
        )
    drift = _one_of(baseline or "sinusoid", BASELINES, "baseline")
    words, moves = f"{key} with baseline {drift}", BASELINES[drift]()
    make, arms = (small_gap, 11) if key == "small-gap" else (uniform_sphere, 100)
    # A round may pull all arms at once, unless the baseline reacts to each pull.
    block = arms if isinstance(moves, (Constant, Moving)) else 1
    cap = None if key == "small-gap" else _MAX_PULLS
    return Instance(make(baseline=moves, block=block), words, max_pulls=cap)


def _own_instance(text: str, options: dict[str, object]) -> Instance:
    """A user's environment, or what a user's function makes without an argument."""
    for option, value in options.items():
        if value is not None:
            message = f"`{option}` does not apply to an instance of your own."
            remedy = "Leave it out: your environment has a baseline and data of its own."
            raise InvalidInputError(message, field=option, value=str(value), remedy=remedy)
    module, _, _ = text.partition(":")
    found = load_own(text, "instance")
    if callable(found) and (isinstance(found, type) or not isinstance(found, Environment)):
        try:
            found = found()
        except Exception as error:
            message = f"{text} raised {describe_error(error, module)}."
            remedy = "It must make an environment without an argument."
            raise InvalidInputError(message, field="instance", value=text, remedy=remedy) from error
    if not isinstance(found, Environment):
        message = f"{text} is {type(found).__name__!r}, which is not an environment."
        remedy = "An environment has a name and instance(rng): bestarm.environments has some."
        raise InvalidInputError(message, field="instance", value=text, remedy=remedy)
    return Instance(found, f"{found.name} of {module}")


def _one_of(text: str, known: Collection[str], field: str) -> str:
    name = text.strip().lower().replace("_", "-").replace(" ", "-")
    choice(name, known, field)
    return name
