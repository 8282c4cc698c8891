"""The table of policies: the only place that lists them.

The command line, the server, planning, the documentation and the contract tests read it. Another
package adds a policy through the entry-point group `bestarm.policies`, with a `PolicyInfo` of its
own:

    [project.entry-points."bestarm.policies"]
    my-rule = "my_package.rules:INFO"
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any

from bestarm.checks import suggestion
from bestarm.errors import BestArmError, InvalidInputError
from bestarm.policies.policy import Method, Policy

GROUP = "bestarm.policies"
Options = Mapping[str, Any]


@dataclass(frozen=True)
class PolicyInfo:
    """A policy as users name it.

    Attributes:
        name: its name on the command line, over HTTP and in stored experiments.
        place: its class, as `module:Class`. It is imported when it is needed.
        summary: what it is, in a few words.
        options: options of the constructor that the name stands for.
        truths: options that only a simulation knows, each with the attribute of the world.
        example: options with which it can be tried; all that it cannot do without.
        proven: whether a final answer comes with a proven error probability.
        blind: whether it ignores the baseline, and can be misled by it.
        transductive: whether targets may be other than the source arms.
        plannable: whether an experiment can be planned with it, knowing only the problem.
        live: whether a real experiment can use it.
        blocks: whether a round may pull several arms: whether it takes the option `block`.
        effort: the pulls of a run as a multiple of the lower bound, roughly.
    """

    name: str
    place: str
    summary: str
    options: Options = field(default_factory=dict, hash=False)
    truths: Mapping[str, str] = field(default_factory=dict, hash=False)
    example: Options = field(default_factory=dict, hash=False)
    proven: bool = False
    blind: bool = False
    transductive: bool = True
    plannable: bool = True
    live: bool = True
    blocks: bool = False
    effort: float = 5.0

    @property
    def factory(self) -> Callable[..., Policy]:
        """The class, without the options that the name stands for."""
        module, _, attribute = self.place.partition(":")
        made: Callable[..., Policy] = getattr(import_module(module), attribute)
        return made

    @property
    def method(self) -> Callable[..., Policy]:
        """What makes the policy from a problem and a seed."""
        return partial(self.factory, **self.options) if self.options else self.factory

    @property
    def required(self) -> tuple[str, ...]:
        """The options that one must give."""
        parameters = list(inspect.signature(self.factory).parameters.values())[1:]
        known = {"seed", *self.options, *self.truths}
        return tuple(
            each.name
            for each in parameters
            if each.default is each.empty
            and each.kind in {each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD}
            and each.name not in known
        )


_SHARP: Options = {"design": "centered", "stability": "actual"}
_ROUNDS: Options = {"sigma": 0.5}  # fewer rounds than with the declared noise
_BUDGET: Options = {"budget": 5000}

BUILT_IN = (
    PolicyInfo(
        "anytime",
        "bestarm.policies.anytime.rule:AnytimeBAI",
        "proven at every look, under any drift",
        proven=True,
        blocks=True,
        effort=3.0,
    ),
    PolicyInfo(
        "sp-bai-sharp",
        "bestarm.policies.phased.spbai:SPBAI",
        "SP-BAI with sharper designs, tuned",
        options=_SHARP,
    ),
    PolicyInfo(
        "sp-bai",
        "bestarm.policies.phased.spbai:SPBAI",
        "SP-BAI as published, tuned",
        effort=10.0,
    ),
    PolicyInfo(
        "sbe",
        "bestarm.policies.phased.sbe:SBE",
        "what SP-BAI improves on, for comparison",
        transductive=False,
        effort=30.0,
    ),
    PolicyInfo(
        "rage",
        "bestarm.policies.phased.rage:RAGE",
        "for linear rewards without drift",
        blind=True,
        effort=10.0,
    ),
    PolicyInfo(
        "lucb",
        "bestarm.policies.index.lucb:LUCB",
        "compares means, without drift",
        example=_ROUNDS,
        blind=True,
        transductive=False,
        effort=6.0,
    ),
    PolicyInfo(
        "ae",
        "bestarm.policies.index.action_elimination:ActionElimination",
        "drops options by their means, without drift",
        example=_ROUNDS,
        blind=True,
        transductive=False,
        effort=30.0,
    ),
    PolicyInfo(
        "bernstein",
        "bestarm.policies.index.bernstein:BernsteinElimination",
        "drops arms by means and variances of bounded rewards, without drift",
        example={"bounds": (-30, 30)},
        proven=True,
        blind=True,
        transductive=False,
        plannable=False,
    ),
    PolicyInfo(
        "paired-tests",
        "bestarm.policies.index.paired:PairedTests",
        "all options in every round, compared in pairs, under any drift",
        example={"bounds": (-30, 30)},
        proven=True,
        transductive=False,
        plannable=False,
        live=False,
    ),
    PolicyInfo(
        "sequential-halving",
        "bestarm.policies.phased.halving:SequentialHalving",
        "a fixed number of pulls, under any drift",
        example=_BUDGET,
        plannable=False,
        blocks=True,
    ),
    PolicyInfo(
        "deo",
        "bestarm.policies.oneshot.deo:DEO",
        "one regression with a fixed number of pulls",
        example=_BUDGET,
        plannable=False,
    ),
    PolicyInfo(
        "uniform",
        "bestarm.policies.oneshot.uniform:Uniform",
        "every arm equally often, then the best mean",
        example=_BUDGET,
        blind=True,
        transductive=False,
        plannable=False,
    ),
    PolicyInfo(
        "g-opt",
        "bestarm.policies.oneshot.gopt:GOpt",
        "told the true gap: for comparison in simulations",
        truths={"gap": "gap"},
        example={"gap": 0.5},
        plannable=False,
        live=False,
    ),
)


@lru_cache(maxsize=1)
def policies() -> Mapping[str, PolicyInfo]:
    """All policies by name: those of bestarm, then those of other installed packages."""
    table = {each.name: each for each in BUILT_IN}
    for entry in entry_points(group=GROUP):
        info = _read(entry)
        if info is not None and info.name in table:
            warnings.warn(
                f"The policy {info.name!r} of {entry.value!r} is left out: the name is taken.",
                stacklevel=2,
            )
        elif info is not None:
            table[info.name] = info
    return MappingProxyType(table)


def _read(entry: EntryPoint) -> PolicyInfo | None:
    """What another package registers, or None, with a warning, if it cannot be used."""
    try:
        found = entry.load()
    except Exception as error:
        problem = f"cannot be loaded ({type(error).__name__}: {error})"
    else:
        if isinstance(found, PolicyInfo):
            return found
        problem = f"is not a PolicyInfo but {type(found).__name__}"
    warnings.warn(f"The entry point {entry.value!r} of {GROUP} {problem}.", stacklevel=3)
    return None


def find(name: str) -> PolicyInfo | None:
    """The policy of this name; case and punctuation do not matter, and its class's name will do."""
    table = policies()
    return table.get(name) or table.get(spelling().get(_plain(name), ""))


def spelling() -> Mapping[str, str]:
    """The name of every policy, by name and class, each without case and punctuation."""
    plain = [each for each in policies().values() if not each.options]
    classes = {each.place.partition(":")[2]: each.name for each in plain}
    known = classes | {name: name for name in policies()}
    return {_plain(key): name for key, name in known.items()}


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def accepted(
    method: Callable[..., Any],
    *,
    max_pulls: int | None = None,
    bounds: tuple[float, float] | None = None,
    block: int | None = None,
) -> dict[str, Any]:
    """Those of the options that every method understands alike, if this one takes them.

    What is None, or is bound already, is left out.
    """
    offered = {"max_pulls": max_pulls, "bounds": bounds, "block": block}
    try:
        taken = inspect.signature(method).parameters
    except (TypeError, ValueError):  # of something compiled
        return {}
    bound = method.keywords if isinstance(method, partial) else {}
    return {
        name: value
        for name, value in offered.items()
        if value is not None and name in taken and name not in bound
    }


def load(name: str) -> Method:
    """The method of this name, or of one's own as `module:attribute`.

    Raises:
        InvalidInputError: there is no such policy, or it cannot be loaded.
    """
    info = policies().get(name)
    if info is not None:
        return info.method
    module, colon, attribute = name.partition(":")
    known = ", ".join(each.name for each in policies().values() if each.live)
    if not colon:
        raise InvalidInputError(
            f"There is no policy {name!r}.",
            field="policy",
            value=name,
            remedy=f"{suggestion(name, policies())} Known are {known}; your own is named as "
            "'module:attribute'.".lstrip(),
        )
    try:
        found: Method = getattr(import_module(module), attribute)
    except BestArmError:
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(": .")
        raise InvalidInputError(
            f"The policy {name!r} cannot be loaded ({reason}).",
            field="policy",
            value=name,
            remedy="Its module must be importable wherever the experiment is opened.",
        ) from None
    return found
