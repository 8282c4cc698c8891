"""A policy as users name it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any, Literal

from bestarm.policies.policy import Policy

Options = Mapping[str, Any]

# x·θ + ν_t + noise; x·θ + noise; a fixed mean per arm; means that move, compared by their average.
Model = Literal["drift", "linear", "means", "non-stationary"]
MODEL_WORDS: Mapping[Model, str] = {
    "drift": "any drift",
    "linear": "linear, no drift",
    "means": "fixed means, no drift",
    "non-stationary": "means that move",
}


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
        model: what it assumes of rewards; see `Model`.
        budgeted: whether it takes `budget`, and stops when that is spent, not when it is sure.
        seeks_reward: whether it is made to collect reward while it learns, and is measured by its
            regret.
        reference: where it was published; empty for methods of bestarm's own.
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
    model: Model = "drift"
    budgeted: bool = False
    seeks_reward: bool = False
    reference: str = ""
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
