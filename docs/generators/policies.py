"""The page of policies, from the registry."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bestarm.policies.catalog import MAIN, MODEL_WORDS, PUBLISHED, PolicyInfo

__all__ = ["policy_page"]

_PAGE = """# Policies by name

The names by which `bestarm compare`, `bestarm leaderboard`, `bestarm plan`,
`bestarm experiment create`, the HTTP API and the page know policies. An installed package
[may add to them](../own-policy.md#register-it).

*Proven*: a final answer has a proven error probability. *Drift*: the baseline does not bias it.
*Targets*: these may differ from the arms that are pulled. *Plan*, *live*: it can be planned with,
and run in a real experiment. *Blocks*: it takes `block`, [several options per round](../blocks.md).

| name | what it is | class and options | proven | drift | targets | plan | live | blocks |
|---|---|---|---|---|---|---|---|---|
{rows}

## The field's methods

For comparison in simulations: [the field's methods](../methods.md) says what each does beside its
own published figures. *Assumes*: the model of its paper. *Stops*: when it is sure, or when its
budget is spent. *Proven* holds under that model.

| name | what it is | class | assumes | stops | proven | drift | targets | published |
|---|---|---|---|---|---|---|---|---|
{published}

Their classes, with their options: [`bestarm.field`](bestarm.field.md).
"""


def policy_page() -> str:
    """One row per policy of bestarm, as Markdown."""
    return _PAGE.format(
        rows=_lines(MAIN, _row),
        published=_lines(PUBLISHED, _published_row),
    )


def _lines(policies: Sequence[PolicyInfo], row: Callable[[PolicyInfo], str]) -> str:
    return "\n".join(row(each) for each in policies)


def _row(info: PolicyInfo) -> str:
    traits = (info.proven, not info.blind, info.transductive, info.plannable, info.live)
    return f"| `{info.name}` | {info.summary} | {_made(info)} | {_marks(*traits, info.blocks)} |"


def _published_row(info: PolicyInfo) -> str:
    stops = "budget" if info.budgeted else "sure"
    traits = _marks(info.proven, not info.blind, info.transductive)
    facts = f"{MODEL_WORDS[info.model]} | {stops} | {traits} | {info.reference}"
    return f"| `{info.name}` | {info.summary} | {_made(info)} | {facts} |"


def _made(info: PolicyInfo) -> str:
    name = info.import_path.partition(":")[2]
    options = ", ".join(f"{key}={value!r}" for key, value in info.options.items())
    return f"`{name}({options})`" if options else f"`{name}`"


def _marks(*traits: bool) -> str:
    return " | ".join("yes" if each else "–" for each in traits)
