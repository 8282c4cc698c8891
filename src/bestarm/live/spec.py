"""What a stored experiment is made of: plain data from which its policy is made again."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version as installed
from typing import Any

from bestarm.checks import interval
from bestarm.errors import BestArmError, DamagedStoreError, InvalidInputError, ReplayError
from bestarm.live.events import canonical
from bestarm.live.store.damage import UNREADABLE
from bestarm.policies.policy import Policy, Traits
from bestarm.policies.registry import BUILT_IN, load, policies
from bestarm.problem import Problem, as_problem

__all__ = ["Spec", "make_spec"]


# What a policy may raise when it is made of numbers or texts that make no sense to it.
_NONSENSE = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError)
_MOST_PULLS = 2**53


@dataclass(frozen=True)
class Spec:
    """A problem, a policy by name with its options, and the seed of the draws.

    Attributes:
        problem: the problem.
        policy: the policy's name, or its place as `module:attribute`.
        options: what it is made with, besides the problem and the seed.
        seed: of the draws, and of the policy.
        traits: what the policy declared about itself when the experiment was created.
        bestarm: the version of bestarm it was created with.
    """

    problem: Problem
    policy: str
    options: dict[str, Any]
    seed: int
    traits: Traits
    bestarm: str

    def make(self) -> Policy:
        """The policy as it is at the start.

        Raises:
            ReplayError: its arithmetic has another version than the one that began the experiment.
        """
        policy = _make(self.problem, self.policy, self.options, self.seed)
        began, now = self.traits.version, policy.traits.version
        if began is not None and now is not None and began != now:
            raise _other_version(self, began, now)
        return policy

    @property
    def ours(self) -> bool:
        """Whether the policy comes with bestarm."""
        return self.policy in {each.name for each in BUILT_IN} or self.policy.startswith("bestarm.")

    def to_json(self) -> str:
        """As text that reads back to the same bits."""
        problem = self.problem
        same = problem.target is problem.source and problem.target_labels == problem.source_labels
        return canonical(
            {
                "source": problem.source.tolist(),
                "source_labels": problem.source_labels,
                "target": None if same else problem.target.tolist(),
                "target_labels": None if same else problem.target_labels,
                "delta": problem.delta,
                "noise": problem.noise,
                "baseline": problem.baseline,
                "policy": self.policy,
                "options": self.options,
                "seed": self.seed,
                "traits": asdict(self.traits),
                "bestarm": self.bestarm,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Spec:
        """Read what `to_json` wrote."""
        try:
            data = json.loads(text)
            _check_kinds(data)
            problem = Problem(
                data["source"],
                data["target"],
                delta=data["delta"],
                noise=data["noise"],
                baseline=data["baseline"],
                source_labels=data["source_labels"],
                target_labels=data["target_labels"],
            )
            return cls(
                problem,
                data["policy"],
                data["options"],
                data["seed"],
                _read_traits(data["traits"]),
                data["bestarm"],
            )
        except UNREADABLE as error:
            raise DamagedStoreError(
                f"What the experiment is made of cannot be read ({str(error).rstrip('.')}).",
                field="document",
                remedy="Was the database edited, or restored in part? Restore the whole of it.",
            ) from error


def _check_kinds(data: Any) -> None:
    """Raise TypeError unless what a document holds is of the kinds that `to_json` writes."""
    kinds = {"policy": str, "options": dict, "seed": int, "traits": dict, "bestarm": str}
    if not isinstance(data, dict):
        raise TypeError("it is not an object")
    for name, kind in kinds.items():
        value = data[name]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise TypeError(f"`{name}` is {reprlib.repr(value)}")


def _read_traits(data: dict[str, Any]) -> Traits:
    """What a document holds of the policy's traits. Raises TypeError if they cannot be."""
    bounds = data["bounds"]
    known = {**data, "bounds": None if bounds is None else interval(bounds, "bounds")}
    for part in fields(Traits):
        value = known[part.name]
        if part.name != "bounds" and not isinstance(value, (int, float, type(None))):
            raise TypeError(f"`{part.name}` is {reprlib.repr(value)}")
    return Traits(**known)


def make_spec(
    problem: Problem, policy: str, options: Mapping[str, object] | None, seed: int
) -> Spec:
    """Check what an experiment is to be made of by making its policy once."""
    as_problem(problem)
    if not isinstance(policy, str):
        raise InvalidInputError(
            f"`policy` must be a name, so that any process can make it again; got {policy!r}.",
            field="policy",
            value=policy,
            remedy="Name it, for example 'anytime', or give your own as 'module:attribute'.",
        )
    plain = _plain(options)
    made = _make(problem, policy, plain, seed)
    _check_plan(made, policy, plain)
    return Spec(problem, policy, plain, seed, _check_traits(made, policy), installed("bestarm"))


def _check_traits(policy: Policy, name: str) -> Traits:
    """What a policy declares, or a refusal if that could not be read back."""
    traits = policy.traits
    try:
        if not isinstance(traits, Traits):
            raise TypeError(f"{traits!r} is not a Traits")
        return _read_traits(json.loads(canonical(asdict(traits))))
    except UNREADABLE as error:
        raise InvalidInputError(
            f"The policy {name!r} declares traits that cannot be kept ({error}).",
            field="traits",
            value=traits,
        ) from None


def _plain(options: Mapping[str, object] | None) -> dict[str, Any]:
    if options is not None and not isinstance(options, Mapping):
        raise InvalidInputError(
            f"`options` must be names with values; got {options!r}.", field="options", value=options
        )
    if options and not {"problem", "seed"}.isdisjoint(options):
        raise InvalidInputError(
            "The problem and the seed are not among the policy's `options`.",
            field="options",
            value=sorted(options),
            remedy="Give them to `create` itself.",
        )
    try:
        read: dict[str, Any] = json.loads(canonical(dict(options or {})))
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"`options` must be numbers, texts, truth values and lists of them ({error}).",
            field="options",
            value=options,
        ) from None
    return read


def _make(problem: Problem, name: str, options: dict[str, Any], seed: int) -> Policy:
    method = load(name)
    info = policies().get(name)
    required = () if info is None else info.required
    for needed in required:
        if info is not None and needed not in options:
            raise InvalidInputError(
                f"The policy {name!r} needs the option `{needed}`.",
                field="options",
                value=options,
                remedy=f"Give it, for example {needed}={info.example.get(needed)!r}.",
            )
    # JSON has no tuples; the options that are pairs are written as lists.
    given = {key: tuple(v) if isinstance(v, list) else v for key, v in options.items()}
    try:
        policy = method(problem, seed=seed, **given)
    except BestArmError:
        raise
    except TypeError as error:
        raise InvalidInputError(
            f"The policy {name!r} does not take these options ({error}).",
            field="options",
            value=options,
        ) from None
    except _NONSENSE as error:
        raise _not_taken(name, options, error) from None
    except Exception as error:
        raise InvalidInputError(
            f"The policy {name!r} cannot be made ({_said(error)}).", field="policy", value=name
        ) from error
    if not isinstance(policy, Policy):
        raise InvalidInputError(
            f"{name!r} does not make a policy.",
            field="policy",
            value=name,
            remedy="Derive it from bestarm.policies.Policy.",
        )
    return policy


def _other_version(document: Spec, began: int, now: int) -> ReplayError:
    name = document.policy
    created = f"bestarm {document.bestarm}"
    needed = created if document.ours else f"the {name.partition(':')[0]!r} that created it"
    return ReplayError(
        f"The experiment was created with version {began} of the policy {name!r}, under {created}; "
        f"version {now}, which is installed here, would decide otherwise.",
        field="version",
        value=began,
        remedy=f"Install {needed} to continue it. Any version can show, export and verify it.",
    )


def _check_plan(policy: Policy, name: str, options: dict[str, Any]) -> None:
    """Refuse what could not even begin, before it is on record."""
    try:
        plan = policy.plan()
    except BestArmError:
        raise
    except _NONSENSE as error:
        raise _not_taken(name, options, error) from None
    if plan is not None and max(plan.pulls, plan.most or 0) >= _MOST_PULLS:
        raise _not_taken(name, options, "its first phase would never end")


def _not_taken(name: str, options: dict[str, Any], why: object) -> InvalidInputError:
    return InvalidInputError(
        f"The policy {name!r} cannot work with these options on this problem ({why}).",
        field="options",
        value=options,
    )


def _said(error: Exception) -> str:
    """An exception of somebody else's code, in words."""
    return " ".join(f"{type(error).__name__}: {error}".split()).rstrip(": .")
