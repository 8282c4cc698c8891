"""The experiments of a database: all of them, a page of those that match a text, their counters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from bestarm.errors import UnknownExperimentError
from bestarm.live.store import schema as s
from bestarm.live.store.database import Store
from bestarm.live.store.head import Head
from bestarm.live.store.rows import ALL
from bestarm.live.values import ExperimentListing

_column = s.experiments.c
_limit: sa.BindParameter[int] = sa.bindparam("limit")
_NUMBER = sa.select(_column.id).where(_column.name == sa.bindparam("name"))
_HEADS = sa.select(_column.name, *(_column[name] for name in s.COUNTERS)).order_by(_column.id)
_LISTED = sa.select(
    _column.name,
    _column.description,
    _column.created,
    *(_column[name] for name in s.COUNTERS),
).limit(_limit)
_after = sa.select(_column.id).where(_column.name == sa.bindparam("after")).scalar_subquery()
_ALL_FOLLOWING = _LISTED.where(_column.id > sa.func.coalesce(_after, 0)).order_by(_column.id)
_shown = _column.archived == sa.false()
_FOLLOWING = _ALL_FOLLOWING.where(_shown)
_rank = sa.case((_column.state == "running", 0), (_column.state == "paused", 1), else_=2)
_order = (_rank, _column.created.desc(), _column.id.desc())


def _page(*conditions: sa.ColumnElement[bool]) -> tuple[sa.Select[Any], sa.Select[Any]]:
    """Statements for the number of experiments under conditions, and for a page of them.

    Their ids are sorted first: to sort all columns of all of them would take four times as long.
    """
    ids = sa.select(_column.id).where(*conditions).order_by(*_order).limit(_limit)
    some = ids.offset(sa.bindparam("first")).subquery().select()
    count = sa.select(sa.func.count()).select_from(s.experiments).where(*conditions)
    return count, _LISTED.where(_column.id.in_(some)).order_by(*_order)


_text = sa.func.lower(_column.name + "\n" + _column.description)
_EVERY = _page(_shown)
_MATCHING = _page(_shown, _text.like(sa.bindparam("pattern"), escape="/"))


def list_experiments(
    store: Store, *, limit: int | None = None, after: str | None = None, archived: bool = False
) -> Sequence[ExperimentListing]:
    """The experiments of a database, oldest first: see `Experiment.list`."""
    start = {"after": after, "limit": ALL if limit is None else limit}
    following = _ALL_FOLLOWING if archived else _FOLLOWING
    known, found = store.select((_NUMBER, {"name": after}), (following, start))
    if after is not None and not known:
        raise UnknownExperimentError(
            f"There is no experiment {after!r} to continue after.",
            field="after",
            value=after,
            remedy="Give the name of the last experiment of the part before.",
        )
    return [_listed(*row) for row in found]


def heads(store: Store) -> Sequence[tuple[str, Head]]:
    """The name and the counters of every experiment, oldest first, in one query."""
    [found] = store.select((_HEADS, {}))
    return [(name, Head(*counters)) for name, *counters in found]


def search(
    store: Store, text: str, *, first: int, limit: int
) -> tuple[Sequence[ExperimentListing], int]:
    """Up to `limit` experiments after the `first` ones, and the number of all of them.

    They have a text in their name or description, in letters of either case. Running experiments
    come first, and among them the newest.
    """
    values = {"pattern": "%" + re.sub(r"[%_/]", r"/\g<0>", text.lower()) + "%"} if text else {}
    count, page = _MATCHING if text else _EVERY
    part = values | {"first": first, "limit": limit}
    totals, found = store.select((count, values), (page, part))
    return [_listed(*row) for row in found], sum(total for (total,) in totals)


def _listed(name: str, description: str, created: float, *counters: Any) -> ExperimentListing:
    head = Head(*counters)
    return ExperimentListing(name, description, created, head.status(), head.revision)
