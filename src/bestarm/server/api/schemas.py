"""The bodies of requests and of answers, with an example of each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from bestarm.checks import choice
from bestarm.defaults import DELTA
from bestarm.errors import InvalidInputError
from bestarm.live import Assignment, Batch, Check, Experiment, ExperimentListing, Receipt, Status
from bestarm.live.guardrails import GuardrailRow
from bestarm.live.store.rows import Event
from bestarm.live.tell import name_told
from bestarm.live.watch.story import without_seed
from bestarm.policies.guardrail import Guardrail
from bestarm.policies.registry import policies
from bestarm.recommendation import Effect
from bestarm.server.errors import PROBLEM


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
# A confidence or a percentage given as δ is refused further down, where the remedy is known.
Delta = Annotated[
    float,
    Field(
        allow_inf_nan=False,
        description="The error probability allowed: 0.5 at most.",
        json_schema_extra={"exclusiveMinimum": 0, "maximum": 0.5},
    ),
]


def json_type(*types: str | dict[str, Any]) -> WithJsonSchema:
    """How a value is described that the library checks: it names the field, value and remedy."""
    return WithJsonSchema({"anyOf": [{"type": e} if isinstance(e, str) else e for e in types]})


Covariate = Annotated[Any, json_type("number", "string", "boolean", "null")]
Reward = Annotated[Any, json_type("number", "boolean")]
_TIME: dict[str, Any] = {"type": "number", "exclusiveMinimum": 0}
Duration = Annotated[Any, json_type(_TIME, {"type": "string", "maxLength": 50})]
_NAME: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 200}
_NAMES = {"type": "array", "minItems": 1, "items": {"anyOf": [_NAME, {"type": "integer"}]}}
UnitName = Annotated[Any, json_type(_NAME, "integer")]
UnitNames = Annotated[Any, json_type(_NAME, "integer", _NAMES)]


def one_of(names: Sequence[str], field: str) -> AfterValidator:
    """A check that a text is one of these names."""

    def check(name: str) -> str:
        choice(name, names, field)
        return name

    return AfterValidator(check)


# Over HTTP only registered ones: the name of a module would have the server import it.
_LIVE = [each.name for each in policies().values() if each.live]
PolicyName = Annotated[str, one_of(_LIVE, "policy"), Field(json_schema_extra={"enum": _LIVE})]


class Body(BaseModel, extra="forbid", strict=True):
    """The body of a request: nothing in it is converted or ignored."""


class GuardrailIn(
    Body, json_schema_extra=example(bounds=[0, 1], worse_by=0.01, alpha=0.05, action="retire")
):
    """What is promised of a second outcome.

    Attributes:
        bounds: its lowest and its highest value.
        worse_by: how much worse than the control an option may be.
        alpha: the probability with which an option that is never worse by more is found worse, for
            all options together, however often one looks.
        action: what happens to an option that is found worse.
        worse: which values are worse: higher ones, as of refunds, or lower ones, as of revenue.
        window: how long after its assignment a value may be told, in seconds or like "14d".
        otherwise: the value where none was told within the window.
    """

    bounds: Bounds
    worse_by: Scale
    alpha: Number = 0.05
    action: Literal["retire", "alert"] = "retire"
    worse: Literal["higher", "lower"] = "higher"
    window: Duration | None = None
    otherwise: Number | None = None


class CreateBody(
    Body,
    json_schema_extra=example(
        name="checkout",
        options=["one page", "two pages", "express"],
        bounds=[0, 1],
        control="one page",
        delta=DELTA,
        lease="1d",
        description="Which checkout do more people finish?",
    ),
):
    """An experiment to create.

    Attributes:
        options: the names of the options that can be tried; numbers from 0 where there are
            features alone.
        source: their features, one row per option. Left out, each is learned separately.
        target: features of the options to choose among; those that can be tried if left out.
        target_labels: a name for each.
        noise: the scale of the noise.
        baseline: a bound on the baseline's size.
        bounds: the lowest and the highest reward, for policies that take them.
        control: the name of the option that effects are measured against.
        policy_options: what else the policy takes.
        seed: of the draws; a random one if left out. One that was chosen can be guessed, and the
            draws be predicted: leave it out, unless an example is to be repeated.
        lease: how long an outcome may take, in seconds or like 90s, 30m, 12h, 2d; any time if left
            out.
        window: how long after it is asked for an outcome counts, with what was told last by then;
            when it is told if left out.
        otherwise: the outcome where nothing was told within the window.
        description: what it is about, in words.
        forecaster: `default` to subtract a forecast from every outcome, made before the option is
            drawn; `own` if every ask brings its forecasts; none if left out.
        guardrails: second outcomes in which no option may be worse than the control by more
             than a margin, by name.
    """

    name: Annotated[str, Field(min_length=1, max_length=200)]
    options: Labels | None = None
    source: Features | None = None
    target: Features | None = None
    target_labels: Labels | None = None
    delta: Delta = DELTA
    noise: Scale = 1.0
    baseline: Scale = 1.0
    bounds: Bounds | None = None
    control: Label | None = None
    policy: PolicyName = "anytime"
    policy_options: dict[str, Any] = Field(default_factory=dict)
    seed: Natural | None = None
    lease: Duration | None = None
    window: Duration | None = None
    otherwise: Number | None = None
    description: Annotated[str, Field(max_length=10_000)] = ""
    forecaster: Literal["default", "own"] | None = None
    guardrails: dict[Label, GuardrailIn] = Field(default_factory=dict)


class AskBody(Body, json_schema_extra=example(count=2)):
    """How many assignments are wanted, and what is known of each.

    Attributes:
        count: how many are wanted; where options come in blocks, how many rounds of several.
        unit: whom or what it is for, a text or a number: the same unit gets the same assignment
            again, and counts once. A list asks for several units; leave the count out then.
        decision_point: of the unit, where it has several: one for all units, or a list.
        available: false to record that the units are not available at these decision points:
            nothing is drawn.
        covariates: names with values, one row per assignment, kept with it; a forecaster uses them.
        forecasts: one per assignment, where the experiment takes forecasts of your own.
    """

    count: Annotated[int, Field(ge=1)] = 1
    unit: UnitNames = None
    decision_point: UnitNames = None
    available: bool = True
    covariates: Annotated[list[dict[Label, Covariate]], Field(fail_fast=True)] | None = None
    forecasts: Annotated[list[Number], Field(fail_fast=True)] | None = None

    @field_validator("unit", "decision_point")
    @classmethod
    def _not_null(cls, value: object, info: ValidationInfo) -> object:
        """What may be left out need not be null."""
        if value is None:
            raise InvalidInputError(
                f"`{info.field_name}` must be a text or a whole number, or be left out.",
                field=str(info.field_name),
                value=None,
                remedy="Null, as of a cookie that is missing, is nobody's name: each request would "
                "be somebody else's. Send the name, or leave it out.",
            )
        return value


class OutcomeIn(Body):
    """The outcome of one assignment, which its id or its unit names, values of guardrails, or both.

    Attributes:
        id: of the assignment; null for one made after the end.
        unit: that it was asked for, instead of the id.
        decision_point: of the unit, if it was asked for with one.
        guardrails: values by the name of the guardrail.
    """

    id: Natural | None = None
    unit: UnitName | None = None
    decision_point: UnitName | None = None
    guardrails: dict[Label, Reward] | None = None
    reward: Reward = Field(
        default_factory=lambda: None, description="A number, or true or false for 1 and 0."
    )


class TellBody(
    Body, json_schema_extra=example(outcomes=[{"id": 0, "reward": 1}, {"id": 1, "reward": 0}])
):
    """Outcomes: all of them are recorded or none."""

    outcomes: Annotated[list[OutcomeIn], Field(fail_fast=True)]

    def pairs(self) -> list[tuple[Any, Any]]:
        """Ids or units, each with its reward, or with names and values."""
        told = list[tuple[Any, Any]]()
        for place, each in enumerate(self.outcomes):
            value, has_reward = each.reward, "reward" in each.model_fields_set
            if each.guardrails and "reward" in each.guardrails:
                field = f"outcomes.{place}.guardrails.reward"
                message = "The reward is not a value of a guardrail."
                given, remedy = each.guardrails["reward"], "Send it beside the `guardrails`."
                raise InvalidInputError(message, field=field, value=given, remedy=remedy)
            if each.guardrails:
                value = {"reward": value} | each.guardrails if has_reward else each.guardrails
            elif not has_reward:
                field = f"outcomes.{place}.reward"
                message = f"`{field}` is missing."
                raise InvalidInputError(message, field=field, remedy="Send it.")
            told.append((name_told(each.id, each.unit, each.decision_point), value))
        return told


class FailBody(Body, json_schema_extra=example(ids=[1], reason="left the page")):
    """Assignments whose outcome will never come."""

    ids: Annotated[list[Natural | None], Field(fail_fast=True)]
    reason: Annotated[str, Field(max_length=1000)] = "failed"


class EraseBody(Body, json_schema_extra=example(unit="visitor-81")):
    """A unit to erase, with its decision points and covariates."""

    unit: UnitName = Field(description="As it was asked for.")


class LeaseBody(Body, json_schema_extra=example(lease="1d")):
    """How long outcomes may take."""

    lease: Duration | None = Field(
        description="Seconds, or a time like 90s, 30m, 12h, 2d; null for any time."
    )


class AddBody(Body, json_schema_extra=example(option="video")):
    """An option to add.

    Attributes:
        option: its name, which no option had before.
        features: as many as the others have; left out, it shares none with them.
    """

    option: Annotated[str, Field(min_length=1, max_length=200)]
    features: Row | None = None


class RetireBody(Body, json_schema_extra=example(option="express", reason="refunds")):
    """An option to retire, and why."""

    option: Label
    reason: Annotated[str, Field(min_length=1, max_length=1000)]


class DescriptionBody(Body, json_schema_extra=example(description="Which page do people buy on?")):
    """What an experiment is about, in words."""

    description: Annotated[str, Field(max_length=10_000)]


class StopBody(Body, json_schema_extra=example(reason="the season is over")):
    """Why an experiment is stopped."""

    reason: Annotated[str, Field(max_length=1000)] = ""


def describe_fields(schema: dict[str, Any]) -> None:
    """Complete an OpenAPI description: what docstrings say of attributes goes to the fields, and
    errors have their own type of content."""
    for methods in schema["paths"].values():
        for operation in methods.values():
            for code, answer in operation["responses"].items():
                if code >= "400":
                    answer["content"] = {PROBLEM: next(iter(answer["content"].values()))}
    for model in schema["components"]["schemas"].values():
        text, _, entries = model.get("description", "").partition("\n\nAttributes:\n")
        model["description"] = text
        for entry in re.split(r"\n(?=    \w)", entries) if entries else ():
            name, _, words = " ".join(entry.split()).partition(": ")
            model["properties"][name]["description"] = f"{words[:1].upper()}{words[1:]}"


_STATUS = {
    "phase": 3,
    "given": 40,
    "answered": 38,
    "outstanding": 2,
    "remaining": 60,
    "pulls": 240,
    "rounds": 240,
    "state": "running",
    "lost": 0,
    "late": 0,
    "early": 0,
    "needs_lease": False,
    "waits_for": None,
    "waits_since": None,
    "variance_left": None,
}
StatusOut = Annotated[Status, Field(examples=[_STATUS])]
ReceiptOut = Annotated[
    Receipt,
    Field(
        examples=[{"recorded": 2, "repeated": 0, "late": 0, "held": 0, "values": 0, "served": 0}]
    ),
]


class ConfigurationOut(
    BaseModel,
    json_schema_extra=example(
        name="checkout",
        options=["one page", "two pages", "express"],
        control="one page",
        delta=DELTA,
        bounds=[0, 1],
        noise=0.5,
        baseline=1.0,
        policy="anytime",
        policy_options={"bounds": [0, 1], "control": "one page"},
        lease=86400,
        window=None,
        otherwise=None,
        forecaster=None,
        guardrails=[
            {"name": "refund", "bounds": [0, 1], "worse_by": 0.01, "alpha": 0.05}
            | {"action": "retire", "worse": "higher"}
        ],
    ),
):
    """What an experiment is made of.

    Attributes:
        name: its name.
        options: the names of the options to choose among, also of those that were added or retired.
        control: the name of the option that effects are measured against, if there is one.
        delta: the error probability allowed.
        bounds: the lowest and the highest reward, if there are bounds.
        noise: the scale of the noise.
        baseline: the bound on the baseline's size.
        policy: its name.
        policy_options: what else it was given.
        lease: seconds that an outcome may take; null for any time.
        window: seconds after which an outcome counts; null for when it is told.
        otherwise: the outcome where nothing was told within the window.
        forecaster: `default`, `own`, or null.
        guardrails: second outcomes, and what is promised of them.
    """

    name: str
    options: list[str]
    control: str | None
    delta: float
    bounds: tuple[float, float] | None
    noise: float
    baseline: float
    policy: str
    policy_options: dict[str, Any]
    lease: float | None
    window: float | None
    otherwise: float | None
    forecaster: str | None
    guardrails: list[Guardrail]

    @classmethod
    def of(cls, experiment: Experiment) -> ConfigurationOut:
        """An experiment's."""
        spec, labels = experiment.stored_spec("configured"), experiment.problem.target_labels
        problem, traits = spec.problem, spec.traits
        with experiment.read() as snapshot:
            head = snapshot.head
        return cls(
            name=experiment.name,
            options=list(labels),
            control=None if traits.control is None else labels[traits.control],
            delta=problem.delta,
            bounds=traits.bounds,
            noise=problem.noise,
            baseline=problem.baseline,
            policy=spec.policy,
            policy_options=spec.options,
            lease=head.lease,
            window=head.window,
            otherwise=head.otherwise,
            forecaster=spec.forecaster,
            guardrails=list(spec.guardrails),
        )


class ListOut(
    BaseModel,
    json_schema_extra=example(
        experiments=[
            {
                "name": "checkout",
                "description": "Which checkout do more people finish?",
                "created": 1767225600.0,
                "status": _STATUS,
                "revision": "240-238-0-0-0-9",
            }
        ],
        next=None,
    ),
):
    """Experiments, oldest first."""

    experiments: list[ExperimentListing]
    next: str | None = Field(
        description="What to send as `after` for those that follow; null at the end."
    )


class AssignmentsOut(
    BaseModel,
    json_schema_extra=example(
        assignments=[
            {"id": 0, "arm": 2, "label": "express", "probability": 0.25, "phase": 1, "round": 0}
            | {"experiment": True},
            {"id": 1, "arm": 0, "label": "one page", "probability": 0.5, "phase": 1, "round": 1}
            | {"experiment": True},
        ],
        phase=1,
        waiting=0,
        state="running",
    ),
):
    """The assignments of one request: fewer than asked for while a phase waits for outcomes."""

    assignments: list[Assignment]
    phase: int
    waiting: int = Field(
        description="If fewer were made than asked for: how many outcomes must arrive first."
    )
    state: str = Field(description="Of the experiment: running, paused, stopped or finished.")

    @staticmethod
    def plain(batch: Batch) -> dict[str, Any]:
        """From the library's, as plain data, because a batch may be large."""
        parts = batch.arms, batch.probabilities, batch.rounds
        columns = zip(batch.ids, *(part.tolist() for part in parts), strict=True)
        labels, same = batch.labels, {"phase": batch.phase, "experiment": batch.experiment}
        made: list[dict[str, Any]] = [
            {"id": id_, "arm": arm, "label": labels[arm], "probability": p, **same, "round": r}
            for id_, arm, p, r in columns
        ]
        for place, known in enumerate(batch.known or ()):
            made[place] |= known._asdict()
        for place, phase in enumerate(batch.phases or ()):
            made[place]["phase"] = phase
        return {
            "assignments": made,
            "phase": batch.phase,
            "waiting": batch.waiting,
            "state": batch.state,
        }


class ServedOut(
    BaseModel, json_schema_extra=example(label="express", arm=2, state="finished", experiment=False)
):
    """The option to use once an experiment is over."""

    label: str = Field(description="Its name.")
    arm: int = Field(description="Its row in the source; −1 if it is not there.")
    state: str = Field(description="Of the experiment: stopped or finished.")
    experiment: bool = Field(description="False: nothing is recorded of its use.")


class RecommendationOut(
    BaseModel,
    json_schema_extra=example(
        target=2,
        label="express",
        final=True,
        reason="identified",
        pulls=1210,
        rounds=None,
        claims=DELTA,
        error_bound=DELTA,
        contradicted=False,
        leads=True,
        active=[2],
        active_labels=["express"],
        chosen=[2],
        chosen_labels=["express"],
        assumptions=["Every reward lies between 0 and 1."],
        statement="'express' is the best of 3 options; its lead over 'one page', the control, is "
        "+5.4 points (2.1 to 8.9), +31 % relative. The probability that this rule ever says so "
        f"wrongly, at any of its looks, is at most {DELTA:g}.",
        effect={
            "control": 0,
            "label": "one page",
            "estimate": 0.054,
            "lower": 0.021,
            "upper": 0.089,
            "relative": 0.31,
        },
    ),
):
    """The option that the policy would name now, and how far that can be relied on.

    Attributes:
        target: its row in the target, or in the source.
        label: its name.
        final: whether the question is settled; a stop at a limit is not that.
        reason: `identified`; `measuring`: identified, and assignments go on until the effect is
            known as precisely as was asked for; `equivalent`: no option is better than the control
            by more than the tolerance; `exact`: all items are judged; `running`; or what stopped it
            short: `max_pulls`, `max_phases`, `max_phase_pulls`, `budget`, `exhausted`, or `stopped`
            by hand.
        pulls: how many assignments it rests on.
        rounds: how many rounds these were, where a round has several; else null.
        claims: the proven bound on the probability that a final answer is wrong, known before there
            is one; null where nothing is proven.
        error_bound: the same, once it is final and nothing contradicts the assumptions.
        contradicted: whether rewards contradict the assumptions: nothing is proven then.
        leads: whether outcomes say that it leads: not while too many are outstanding.
        active: options that are not ruled out.
        active_labels: their names.
        chosen: the options named; there may be several.
        chosen_labels: their names.
        assumptions: what the bound rests on.
        statement: what may be claimed now, in words.
        effect: the lead over the control, if one was named, with ends that hold at every moment at
            once, and together with a final answer.
    """

    target: int
    label: str
    final: bool
    reason: str
    pulls: int
    rounds: int | None
    claims: float | None
    error_bound: float | None
    contradicted: bool
    leads: bool
    active: list[int]
    active_labels: list[str]
    chosen: list[int]
    chosen_labels: list[str]
    assumptions: list[str]
    statement: str
    effect: Effect | None

    @classmethod
    def of(cls, experiment: Experiment) -> RecommendationOut:
        """An experiment's, with the names of the targets."""
        now, labels = experiment.recommendation(), experiment.problem.target_labels
        known: dict[str, Any] = {name: getattr(now, name, None) for name in cls.model_fields}
        for name in ("active", "chosen"):
            known[f"{name}_labels"] = [labels[target] for target in known[name]]
        return cls(**known)


class GuardrailsOut(
    BaseModel,
    json_schema_extra=example(
        guardrails=[
            {
                "guardrail": {
                    "name": "refund",
                    "bounds": [0, 1],
                    "worse_by": 0.01,
                    "alpha": 0.05,
                    "action": "retire",
                    "worse": "higher",
                },
                "target": 2,
                "label": "express",
                "state": "unclear",
                "estimate": 0.007,
                "binary": True,
                "low": -0.004,
                "high": 0.019,
                "values": 1210,
                "outstanding": 3,
            }
        ]
    ),
):
    """How much worse than the control each option is, by each guardrail."""

    guardrails: list[GuardrailRow]


class HealthOut(
    BaseModel,
    json_schema_extra=example(
        checks=[
            {
                "name": "assignments",
                "level": "ok",
                "finding": "Traffic split matches the plan (240 assignments).",
                "action": "",
            }
        ]
    ),
):
    """All of them."""

    checks: list[Check]


class EventsOut(
    BaseModel,
    json_schema_extra=example(
        events=[
            {
                "number": 4,
                "at": 1767225600.0,
                "kind": "paused",
                "data": {},
                "hash": "9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab",
            }
        ],
        next=5,
    ),
):
    """A part of the log, and where to go on reading."""

    events: list[Annotated[Event, AfterValidator(without_seed)]]
    next: int = Field(description="Send it as `after` to read on.")
