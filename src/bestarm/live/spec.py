"""What a stored experiment is made of: plain data from which its policy is made again."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from itertools import accumulate
from typing import Any

from bestarm import __version__
from bestarm.checks import interval
from bestarm.errors import (
    BestArmError,
    DamagedStoreError,
    InvalidInputError,
    ModuleNotAllowedError,
    ReplayError,
    describe_error,
)
from bestarm.forecasting.forecaster import subtract_forecasts
from bestarm.live.draws import seed_data
from bestarm.live.guardrails import check_guardrails
from bestarm.live.store.rows import UNREADABLE, canonical
from bestarm.policies.catalog import BUILT_IN
from bestarm.policies.guardrail import Guardrail, read_guardrails
from bestarm.policies.policy import Policy, Traits
from bestarm.policies.registry import free_options, load, make_policy, policies, unknown_option
from bestarm.problem import Problem, problem_of, read_names
from bestarm.records import BlockPlan, Plan

_SCALES = ("delta", "noise", "baseline", "source_labels")
_KINDS = {"policy": str, "options": dict, "bestarm": str}
_FORECASTERS = (None, "default", "own")
_MOST_PULLS = 2**53


@dataclass(frozen=True)
class Spec:
    """A problem, a policy by name with its options, and the seed of the draws."""

    problem: Problem
    policy: str  # its name, or its place as `module:attribute`
    options: dict[str, Any]  # what it is made with, besides the problem and the seed
    seed: int  # of the draws, and of the policy
    traits: Traits  # what the policy declared about itself when the experiment was created
    bestarm: str  # the version that the experiment was created with
    forecaster: str | None = None  # "default", or "own" where forecasts come from outside
    guardrails: tuple[Guardrail, ...] = ()
    # Modules that the policy may be imported from; None where it was named by who made this.
    allowed: tuple[str, ...] | None = field(default=None, compare=False)

    @property
    def interval(self) -> tuple[float, float]:
        """Where forecasts must lie, for plans that do not say it."""
        return self.traits.bounds or (-self.problem.baseline, self.problem.baseline)

    def make(self) -> Policy:
        """The policy as it is at the start.

        Raises:
            ModuleNotAllowedError: it is in a module that is not allowed.
            ReplayError: its arithmetic has another version than the one that began the experiment.
        """
        if self.allowed is not None:
            check_allowed(self.policy, self.allowed)
        forecasts = self.forecaster is not None
        policy = _make(self.problem, self.policy, self.options, self.seed, forecasts=forecasts)
        began, now = self.traits.version, policy.traits.version
        if began is None or now is None or began == now:
            return policy
        module, created = self.policy.partition(":")[0], f"bestarm {self.bestarm}"
        ours = self.policy in {each.name for each in BUILT_IN} or module.startswith("bestarm.")
        raise ReplayError(
            f"The experiment was created with version {began} of the policy {self.policy!r}, under "
            f"{created}; version {now}, which is installed here, would decide otherwise.",
            field="version",
            value=began,
            remedy=f"Install {created if ours else f'the {module!r} that created it'} to continue "
            "it. Any version can show, export and verify it.",
        )

    def to_json(self) -> str:
        """As text that reads back to the same bits."""
        problem = self.problem
        same = problem.target is problem.source and problem.target_labels == problem.source_labels
        return canonical(
            {
                "source": problem.source.tolist(),
                "target": None if same else problem.target.tolist(),
                "target_labels": None if same else problem.target_labels,
                **{name: getattr(problem, name) for name in _SCALES},
                **{name: getattr(self, name) for name in _KINDS},
                "seed": seed_data(self.seed),
                "traits": asdict(self.traits),
                "forecaster": self.forecaster,
                "guardrails": [asdict(each) for each in self.guardrails],
            }
        )

    @classmethod
    def from_json(cls, text: str, allowed: tuple[str, ...] = ()) -> Spec:
        """Read what `to_json` wrote; the policy may be imported from modules that are allowed."""
        try:
            data = json.loads(text)
            scales = {name: data[name] for name in (*_SCALES, "target_labels")}
            problem = Problem(data["source"], data["target"], **scales)
            known = {name: _of_kind(data, name, kind) for name, kind in _KINDS.items()}
            if (forecaster := data["forecaster"]) not in _FORECASTERS:
                raise ValueError(f"`forecaster` is {reprlib.repr(forecaster)}")
            seed = int(_of_kind(data, "seed", int, str))
            traits = _read_traits(data["traits"])
            rails = read_guardrails({each.pop("name"): each for each in data["guardrails"]})
            return cls(
                problem=problem,
                seed=seed,
                traits=traits,
                forecaster=forecaster,
                guardrails=rails,
                allowed=allowed,
                **known,
            )
        except UNREADABLE as error:
            message = f"What the experiment is made of cannot be read ({str(error).rstrip('.')})."
            remedy = "Was the database edited, or restored in part? Restore the whole of it."
            raise DamagedStoreError(message, field="document", remedy=remedy) from error


def check_allowed(policy: str, modules: Iterable[str]) -> None:
    """Raise unless a policy that a database or a file names may be imported from these modules.

    Raises:
        ModuleNotAllowedError: it is in another one, whose code would be run.
    """
    module, colon, _ = policy.partition(":")
    allowed = {"bestarm", *modules}
    if colon and allowed.isdisjoint(accumulate(module.split("."), "{}.{}".format)):
        raise ModuleNotAllowedError(
            f"The policy of this experiment is {policy!r}, and to import it runs the code of its "
            "module.",
            field="policy",
            value=policy,
            remedy=f"If you trust that module, allow it: `--allow-module {module}`, or in Python "
            f"`allow_modules=[{module!r}]`.",
        )


def _of_kind(data: Any, name: str, *kinds: type) -> Any:
    """An entry of a document; raises TypeError if it is of another kind."""
    value = data[name]
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise TypeError(f"`{name}` is {reprlib.repr(value)}")
    return value


def _read_traits(data: Any) -> Traits:
    """What a document holds of the policy's traits. Raises TypeError if they cannot be."""
    names = {each.name for each in fields(Traits)} - {"bounds"}
    known = {name: _of_kind(data, name, bool, int, float, type(None)) for name in names}
    bounds = data["bounds"]
    return Traits(**known, bounds=None if bounds is None else interval(bounds, "bounds"))


def make_spec(
    problem: Problem,
    policy: str,
    options: dict[str, Any],
    seed: int,
    *,
    forecaster: str | None = None,
    guardrails: object = None,
) -> Spec:
    """Check what an experiment is to be made of by making its policy and its first plan once."""
    if not isinstance(policy, str):
        raise InvalidInputError(
            f"`policy` must be a name, so that any process can make it again; got {policy!r}.",
            field="policy",
            value=policy,
            remedy="Name it, for example 'anytime', or give your own as 'module:attribute'.",
        )
    made, plain = _make_changing(problem, policy, options, seed, forecasts=forecaster is not None)
    with _as_input_errors(policy, plain):
        plan = made.plan()
        if plan is not None and max(plan.pulls, plan.most or 0) >= _MOST_PULLS:
            raise OverflowError("its first phase would never end")
    check_first(plan, forecaster is not None)
    try:
        traits = _read_traits(json.loads(canonical(asdict(made.traits))))
    except UNREADABLE as error:
        message = f"The policy {policy!r} declares traits that cannot be kept ({error})."
        remedy = "Traits are numbers, truth values and None."
        raise InvalidInputError(message, field="traits", value=made.traits, remedy=remedy) from None
    if forecaster is not None and traits.bounds is not None and "bounds" in plain:
        # Those of rewards as they are told, not of rewards less forecasts.
        traits = replace(traits, bounds=interval(plain["bounds"], "bounds"))
    rails = check_guardrails(guardrails, problem, traits, plan)
    return Spec(problem, policy, plain, seed, traits, __version__, forecaster, rails)


def check_first(plan: Plan | None, forecasts: bool, *, by_plan: bool = False) -> None:
    """Raise if a live experiment cannot begin with a plan.

    A policy that expects forecasts, as its first plan says, must get them; with `by_plan` it must
    say so where there are any. Plans over blocks must be open: a round that lost an outcome is not
    drawn again.
    """
    if isinstance(plan, BlockPlan) and not plan.open:
        closed = "The policy draws blocks under closed plans"
        message = f"{closed}, which live experiments cannot carry out."
        remedy = "Use one that makes open plans over blocks, like 'anytime'."
        raise InvalidInputError(message, field="policy", value=plan.phase, remedy=remedy)
    if isinstance(plan, BlockPlan) and forecasts:
        message = "Forecasts cancel within a block, as the baseline does."
        remedy = "Leave the forecaster out, or draw single pulls."
        raise InvalidInputError(message, field="forecaster", remedy=remedy)
    if plan is not None and plan.forecasts is not None and not forecasts:
        message = "The policy was made for rewards less forecasts, and there is no forecaster."
        remedy = "Give forecaster='default', or make the policy without `forecasts`."
        raise InvalidInputError(message, field="forecaster", remedy=remedy)
    if plan is not None and plan.forecasts is None and forecasts and by_plan:
        raise InvalidInputError(
            "The policy was not made for rewards less forecasts.",
            field="policy",
            remedy="Make it with forecasts=True if it has that option; any other is made for it by "
            "`Experiment.create`.",
        )


def read_policy_options(
    options: Mapping[str, object] | None, *, bounds: object = None, control: object = None
) -> dict[str, Any]:
    """The options of a policy as plain data, with those that have an argument of their own."""
    if options is not None and not isinstance(options, Mapping):
        raise InvalidInputError(
            f"`policy_options` must be names with values; got {options!r}.",
            field="policy_options",
            value=options,
            remedy='For example {"max_pulls": 5000}.',
        )
    if options and not {"problem", "seed"}.isdisjoint(options):
        message = "The problem and the seed are not among the `policy_options`."
        remedy = "Give them to `create` itself."
        raise InvalidInputError(
            message, field="policy_options", value=sorted(options), remedy=remedy
        )
    own = {"bounds": None if bounds is None else interval(bounds, "bounds"), "control": control}
    for name, value in own.items():
        if value is not None and name in (options or {}):
            raise InvalidInputError(
                f"`{name}` is given twice: by itself and among the `policy_options`.",
                field=name,
                value=value,
                remedy="Leave it out of the `policy_options`.",
            )
    own = {name: value for name, value in own.items() if value is not None}
    read: dict[str, Any] = {}
    for name, value in {**(options or {}), **own}.items():
        try:
            read |= json.loads(canonical({name: value}))
        except (TypeError, ValueError):
            message = f"The option {name!r} cannot be kept; got {reprlib.repr(value)}."
            remedy = "Give finite numbers, texts, truth values, or lists or mappings of them."
            raise InvalidInputError(
                message, field="policy_options", value=name, remedy=remedy
            ) from None
    return read


def check_scale(policy: str, options: Mapping[str, Any], *, declared: bool) -> None:
    """Raise where a policy that takes bounds gets none, and no other scale of outcomes is declared.

    The scale that a problem has by itself fits few outcomes, and only who knows them can say so.
    """
    if declared or "bounds" in options or "bounds" not in (free_options(load(policy)) or {}):
        return
    raise InvalidInputError(
        "How large outcomes may be is not declared.",
        field="bounds",
        remedy="Give the lowest and the highest as `bounds`: 0 and 1 for no and yes. If there are "
        "none, give the `noise`, the scale of outcomes around their mean, in Python to a Problem.",
    )


def as_options(options: Iterable[str] | Problem) -> Problem:
    """The problem of choosing among options: names, or a problem itself."""
    if isinstance(options, (Policy, type)):
        message = f"`options` must be names or a Problem; got {options!r}."
        remedy = (
            "Make a policy first, like SPBAI(problem); `create` takes its name, policy='sp-bai'."
        )
        raise InvalidInputError(message, field="options", value=options, remedy=remedy)
    if isinstance(options, Problem):
        return options
    names = read_names(options)
    if names is not None:
        return problem_of(names)
    try:
        return Problem(options)
    except InvalidInputError as error:
        if error.field != "source":
            raise
        raise InvalidInputError(
            f"`options` must be names, or a Problem; got {reprlib.repr(options)}.",
            field="options",
            value=options,
            remedy='For example ["old", "new"].',
        ) from None


def policy_for(
    options: Iterable[str] | Problem | Policy,
    seed: int,
    *,
    bounds: object = None,
    control: object = None,
    forecasts: bool = False,
) -> Policy:
    """The anytime rule for options; or another policy, which is made for its own."""
    if not isinstance(options, Policy):
        problem = as_options(options)
        plain = read_policy_options(None, bounds=bounds, control=control)
        check_scale("anytime", plain, declared=isinstance(options, Problem))
        return _make_changing(problem, "anytime", plain, seed, forecasts=forecasts)[0]
    for name, value in (("bounds", bounds), ("control", control)):
        if value is not None:
            message = f"`{name}` is given beside a policy, which is made already."
            remedy = f"Make the policy with it: {type(options).__name__}(problem, {name}=…)."
            raise InvalidInputError(message, field=name, value=value, remedy=remedy)
    return options


def _make_changing(
    problem: Problem, name: str, plain: dict[str, Any], seed: int, *, forecasts: bool
) -> tuple[Policy, dict[str, Any]]:
    """A policy and its options, such that options come and go if the policy can do that.

    What is asked of it may exclude that; or the options say whether they do.
    """
    if "changes" not in plain and "changes" in (free_options(load(name)) or {}):
        changing = plain | {"changes": True}
        try:
            return _make(problem, name, changing, seed, forecasts=forecasts), changing
        except InvalidInputError as error:
            if error.field != "changes":
                raise
    return _make(problem, name, plain, seed, forecasts=forecasts), plain


def _make(
    problem: Problem, name: str, options: dict[str, Any], seed: int, *, forecasts: bool
) -> Policy:
    method: Callable[..., Any] = load(name)
    _check_options(name, method, options)
    # JSON has no tuples; the options that are pairs are written as lists.
    given = {key: tuple(v) if isinstance(v, list) else v for key, v in options.items()}
    with _as_input_errors(name, options):
        method = partial(method, **given)
        if forecasts:
            method, problem, _ = subtract_forecasts(method, problem)
        policy = make_policy(method, problem, seed=seed)
    if not isinstance(policy, Policy):
        message = f"{name!r} does not make a policy."
        remedy = "Derive it from bestarm.policies.Policy."
        raise InvalidInputError(message, field="policy", value=name, remedy=remedy)
    return policy


def _check_options(name: str, method: Callable[..., Any], options: dict[str, Any]) -> None:
    """Raise unless these are options of the policy, and all that it needs."""
    known = free_options(method)
    if known is None:
        return
    for option in options:
        if option not in known:
            message = f"The policy {name!r} has no option {option!r}."
            remedy = unknown_option(option, known)
            raise InvalidInputError(message, field="policy_options", value=option, remedy=remedy)
    for option, parameter in known.items():
        if parameter.default is parameter.empty and option not in options:
            info = policies().get(name)
            example = None if info is None else info.example.get(option)
            message = f"The policy {name!r} needs the option `{option}`."
            remedy = f"Give it{'' if example is None else f', for example {option}={example!r}'}."
            raise InvalidInputError(message, field="policy_options", value=option, remedy=remedy)


@contextmanager
def _as_input_errors(name: str, options: dict[str, Any]) -> Iterator[None]:
    """Turn what somebody else's code raises into a refusal, in words."""
    try:
        yield
    except BestArmError:
        raise
    except Exception as error:
        why = describe_error(error)
        message = f"The policy {name!r} cannot work with these options on this problem ({why})."
        remedy = "Change the options, or choose another policy."
        raise InvalidInputError(
            message, field="policy_options", value=options, remedy=remedy
        ) from error
