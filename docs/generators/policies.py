"""The page of policies, from the registry."""

from __future__ import annotations

from bestarm.policies.info import PolicyInfo
from bestarm.policies.table import BUILT_IN

__all__ = ["policy_page"]

_PAGE = """# Policies by name

The names by which `bestarm compare`, `bestarm plan`, `bestarm experiment create`, the HTTP API
and the page know policies. An installed package [may add to them](../own-policy.md#register-it).

*Proven*: a final answer has a proven error probability. *Drift*: the baseline does not bias it.
*Targets*: these may differ from the arms that are pulled. *Plan*, *live*: it can be planned with,
and run in a real experiment. *Blocks*: it takes `block`, [several options per round](../blocks.md).

| name | what it is | class and options | proven | drift | targets | plan | live | blocks |
|---|---|---|---|---|---|---|---|---|
{rows}
"""


def policy_page() -> str:
    """One row per policy of bestarm, as Markdown."""
    return _PAGE.format(rows="\n".join(_row(each) for each in BUILT_IN))


def _row(info: PolicyInfo) -> str:
    name = info.place.partition(":")[2]
    options = ", ".join(f"{key}={value!r}" for key, value in info.options.items())
    made = f"`{name}({options})`" if options else f"`{name}`"
    traits = (info.proven, not info.blind, info.transductive, info.plannable, info.live)
    marks = " | ".join("yes" if each else "–" for each in (*traits, info.blocks))
    return f"| `{info.name}` | {info.summary} | {made} | {marks} |"
