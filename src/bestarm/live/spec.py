"""What a stored trial is made of: all that is needed to make its policy again, as plain data."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version as installed
from typing import Any

from bestarm.checks import interval
from bestarm.errors import BestArmError, DamagedStoreError, InvalidInputError, ReplayError
from bestarm.live.events import canonical
from bestarm.live.store.damage import UNREADABLE
from bestarm.policies.policy import Method, Policy
from bestarm.problem import Problem, as_problem

__all__ = ["Document", "make_document"]


# What a policy may raise when it is made of numbers or texts that make no sense to it.
_NONSENSE = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError)
_MOST_PULLS = 2**53


@dataclass(frozen=True)
class Document:
    """A problem, a policy by name with its options, and the seed of the draws.

    Attributes:
        problem: the problem.
        policy: the policy's name, or its place as `module:attribute`.
        options: what it is made with, besides the problem and the seed.
        seed: of the draws, and of the policy.
        bounds: between what rewards must lie, or None.
        version: of the policy's arithmetic at the start; None where it names none.
        bestarm: the version of bestarm it was created with; None where that was not noted yet.
    """

    problem: Problem
    policy: str
    options: dict[str, Any]
    seed: int
    bounds: tuple[float, float] | None
    version: int | None = None
    bestarm: str | None = None

    def make(self) -> Policy:
        """The policy as it is at the start.

        Raises:
            ReplayError: its arithmetic is of another version than the one that began the trial.
        """
        policy = _make(self.problem, self.policy, self.options, self.seed)
        began, now = self._began(), _version(policy)
        if began is not None and now is not None and began != now:
            raise _other_version(self, began, now)
        return policy

    @property
    def ours(self) -> bool:
        """Whether the policy comes with bestarm."""
        return ":" not in self.policy or self.policy.startswith("bestarm.")

    def _began(self) -> int | None:
        # Before versions were noted, all of ours were at their first.
        return 1 if self.bestarm is None and self.ours else self.version

    def to_json(self) -> str:
        """As text that reads back to the same bits."""
        problem = self.problem
        same = problem.target is problem.source and problem.target_labels == problem.source_labels
        noted = {"policy_version": self.version, "bestarm": self.bestarm}
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
                "bounds": self.bounds,
                **({} if self.bestarm is None else noted),
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Document:
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
            bounds = None if data["bounds"] is None else (data["bounds"][0], data["bounds"][1])
            return cls(
                problem,
                data["policy"],
                data["options"],
                data["seed"],
                bounds,
                data.get("policy_version"),
                data.get("bestarm"),
            )
        except UNREADABLE as error:
            raise DamagedStoreError(
                f"What the experiment is made of cannot be read ({str(error).rstrip('.')}).",
                field="document",
                remedy="Was the database edited, or restored in part? Restore the whole of it.",
            ) from error


def _check_kinds(data: Any) -> None:
    """Raise TypeError unless what a document holds is of the kinds that `to_json` writes."""
    kinds: dict[str, tuple[type, ...]] = {
        "policy": (str,),
        "options": (dict,),
        "seed": (int,),
        "bounds": (list, type(None)),
        "policy_version": (int, type(None)),
        "bestarm": (str, type(None)),
    }
    if not isinstance(data, dict):
        raise TypeError("it is not an object")
    for name, known in kinds.items():
        value = data.get(name)
        if name in data and (not isinstance(value, known) or isinstance(value, bool)):
            raise TypeError(f"`{name}` is {reprlib.repr(value)}")
    if data["bounds"] is not None:
        interval(data["bounds"], "bounds")


def make_document(
    problem: Problem, policy: str, options: Mapping[str, object] | None, seed: int
) -> Document:
    """Check what a trial is to be made of by making its policy once."""
    as_problem(problem)
    if not isinstance(policy, str):
        raise InvalidInputError(
            f"`policy` must be a name, so that any process can make it again; got {policy!r}.",
            field="policy",
            value=policy,
            remedy=_known(),
        )
    plain = _plain(options)
    made = _make(problem, policy, plain, seed)
    _check_plan(made, policy, plain)
    bounds = getattr(made, "bounds", None)
    return Document(
        problem,
        policy,
        plain,
        seed,
        None if bounds is None else tuple(bounds),
        _version(made),
        installed("bestarm"),
    )


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
    method = _method(name)
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
        raise InvalidInputError(f"{name!r} makes no policy.", field="policy", value=name)
    return policy


def _version(policy: Policy) -> int | None:
    """The version of its arithmetic that a policy names, if it names one."""
    version = getattr(policy, "version", None)
    return version if isinstance(version, int) and not isinstance(version, bool) else None


def _other_version(document: Document, began: int, now: int) -> ReplayError:
    name, origin = document.policy, document.bestarm
    created = f"bestarm {origin}" if origin else "an earlier bestarm"
    needed = created if document.ours else f"the {name.partition(':')[0]!r} of then"
    if document.ours and not origin:
        needed = "the bestarm of then (the first event of the log may name it)"
    return ReplayError(
        f"The trial was begun with version {began} of the policy {name!r}, under {created}, and "
        f"here it has version {now}, which would decide otherwise.",
        field="version",
        value=began,
        remedy=f"Install {needed} to go on with it; what is on record can be looked at, exported "
        "and verified with any.",
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


def _known() -> str:
    from bestarm.policies import POLICIES  # noqa: PLC0415

    return f"Known are {', '.join(POLICIES)}; your own is named as 'module:attribute'."


def _said(error: Exception) -> str:
    """An exception of somebody else's code, in words."""
    return " ".join(f"{type(error).__name__}: {error}".split()).rstrip(": .")


def _method(name: str) -> Method:
    from bestarm.policies import POLICIES  # noqa: PLC0415  (they are heavy, and may not be needed)

    if name in POLICIES:
        return POLICIES[name]
    module, colon, attribute = name.partition(":")
    if not colon:
        raise InvalidInputError(
            f"There is no policy {name!r}.",
            field="policy",
            value=name,
            remedy=_known(),
        )
    try:
        return getattr(import_module(module), attribute)  # type: ignore[no-any-return]
    except BestArmError:
        raise
    except Exception as error:
        raise InvalidInputError(
            f"The policy {name!r} cannot be loaded ({_said(error)}).",
            field="policy",
            value=name,
            remedy="Its module must be importable wherever the trial is opened.",
        ) from None
