"""The bodies of requests, with an example of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, WithJsonSchema

from bestarm.defaults import DELTA
from bestarm.live.inputs import read_outcomes
from bestarm.policies.registry import policies


def example(**values: Any) -> dict[str, Any]:
    """An example, as a schema carries it."""
    return {"examples": [values]}


# Lists stop at their first fault: a body full of them would take more memory to describe than to
# read.
Number = Annotated[float, Field(allow_inf_nan=False)]
Scale = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Natural = Annotated[int, Field(ge=0, lt=2**63)]
Row = Annotated[list[Number], Field(fail_fast=True, min_length=1, max_length=200)]
Features = Annotated[list[Row], Field(fail_fast=True, min_length=1, max_length=10_000)]
Bounds = Annotated[list[Number], Field(min_length=2, max_length=2)]
Label = Annotated[str, Field(max_length=1000)]
Labels = Annotated[list[Label], Field(fail_fast=True, max_length=10_000)]
# A confidence or a percentage given as δ is refused further down, where more can be said of it.
Delta = Annotated[
    float,
    Field(
        allow_inf_nan=False,
        description="The error probability allowed: 0.5 at most.",
        json_schema_extra={"exclusiveMinimum": 0, "maximum": 0.5},
    ),
]


def _covariate(value: object) -> object:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value  # what else is wrong with it is said further down
    raise ValueError("a number, a text, true, false or null")


# One check, and not one per kind: of a union, only the first kind's refusal would be said.
_KINDS = [{"type": kind} for kind in ("number", "string", "boolean", "null")]
Covariate = Annotated[Any, AfterValidator(_covariate), WithJsonSchema({"anyOf": _KINDS})]


def _duration(value: object) -> object:
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        return value  # whether it is a time is said further down
    raise ValueError("a number of seconds, or a time like 90s, 30m, 12h or 2d")


_TIMES = [{"type": "number", "exclusiveMinimum": 0}, {"type": "string", "maxLength": 50}]
Duration = Annotated[Any, AfterValidator(_duration), WithJsonSchema({"anyOf": _TIMES})]


def one_of(names: Sequence[str]) -> AfterValidator:
    """A check that a text is one of these names."""

    def check(name: str) -> str:
        if name not in names:
            raise ValueError(f"one of {', '.join(names)}")
        return name

    return AfterValidator(check)


# Over HTTP only registered ones: the name of a module would have the server import it.
_LIVE = [each.name for each in policies().values() if each.live]
PolicyName = Annotated[str, one_of(_LIVE), Field(json_schema_extra={"enum": _LIVE})]


class Body(BaseModel, extra="forbid", strict=True):
    """The body of a request: nothing in it is converted or ignored."""


class CreateBody(
    Body,
    json_schema_extra=example(
        name="checkout",
        source_labels=["one page", "two pages", "express"],
        delta=DELTA,
        policy="anytime",
        bounds=[0, 1],
        lease="1d",
        description="Which checkout do more people finish?",
    ),
):
    """An experiment to create.

    Attributes:
        source: features of the options that can be tried, one row per option. Left out, the names
            alone tell them apart.
        source_labels: a name for each.
        target: features of the options to choose among; the source if left out.
        target_labels: a name for each.
        noise: the scale of the noise.
        baseline: a bound on the baseline's size.
        bounds: the lowest and the highest reward, for policies that take them.
        options: of the policy.
        seed: of the draws; a random one if left out.
        lease: how long an outcome may take, in seconds or like 90s, 30m, 12h, 2d; any time if left
            out.
        window: how long after it is asked for an outcome counts, with what was told last by then;
            when it is told if left out.
        otherwise: the outcome where nothing was told within the window.
        description: what it is about, in words.
        forecaster: `default` to subtract a forecast from every outcome, made before the option is
            drawn; `own` if every ask brings its forecasts; none if left out.
    """

    name: Annotated[str, Field(min_length=1, max_length=200)]
    source: Features | None = None
    source_labels: Labels | None = None
    target: Features | None = None
    target_labels: Labels | None = None
    delta: Delta = DELTA
    noise: Scale = 1.0
    baseline: Scale = 1.0
    policy: PolicyName = "anytime"
    bounds: Bounds | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    seed: Natural | None = None
    lease: Duration | None = None
    window: Duration | None = None
    otherwise: Number | None = None
    description: Annotated[str, Field(max_length=10_000)] = ""
    forecaster: Literal["default", "own"] | None = None


class AskBody(Body, json_schema_extra=example(count=2)):
    """How many assignments are wanted, and what is known of each.

    Attributes:
        count: how many are wanted; where options come in blocks, how many rounds of several.
        covariates: names with values, one row per assignment, where there is a forecaster.
        forecasts: one per assignment, where the experiment takes forecasts of your own.
    """

    count: Annotated[int, Field(ge=1)] = 1
    covariates: Annotated[list[dict[Label, Covariate]], Field(fail_fast=True)] | None = None
    forecasts: Annotated[list[Number], Field(fail_fast=True)] | None = None


class OutcomeIn(Body):
    """The outcome of one assignment."""

    id: Natural
    reward: bool | Number = Field(description="A number, or true or false for 1 and 0.")


class TellBody(
    Body, json_schema_extra=example(outcomes=[{"id": 0, "reward": 1}, {"id": 1, "reward": 0}])
):
    """Outcomes: all of them are recorded or none."""

    outcomes: Annotated[list[OutcomeIn], Field(fail_fast=True)]

    def read(self) -> tuple[list[int], list[float]]:
        """Ids, each once, and a reward for each."""
        return read_outcomes((each.id, float(each.reward)) for each in self.outcomes)


class FailBody(Body, json_schema_extra=example(ids=[1], reason="left the page")):
    """Assignments whose outcome will never come."""

    ids: Annotated[list[Natural], Field(fail_fast=True)]
    reason: Annotated[str, Field(max_length=1000)] = "failed"


class LeaseBody(Body, json_schema_extra=example(lease="1d")):
    """How long outcomes may take."""

    lease: Duration | None = Field(
        description="Seconds, or a time like 90s, 30m, 12h, 2d; null for any time."
    )


class StopBody(Body, json_schema_extra=example(reason="the season is over")):
    """Why an experiment is stopped."""

    reason: Annotated[str, Field(max_length=1000)] = ""
