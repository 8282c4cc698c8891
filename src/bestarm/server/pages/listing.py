"""The list of experiments, page by page."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlencode

from fastapi import Request

from bestarm.errors import BestArmError, StoreError
from bestarm.live import Listed
from bestarm.live.values import Check
from bestarm.server.experiments import OpenExperiments

_PAGE = 50  # experiments on one page
_LONGEST_SEARCH = 200


class ListingRow(NamedTuple):
    """One experiment, in a sentence, with its worst health check."""

    listed: Listed
    verdict: str
    worst: Check | None


class Listing(NamedTuple):
    """A page of the list."""

    rows: tuple[ListingRow, ...]
    search: str
    number: int
    pages: int
    total: int

    def address(self, number: int) -> str:
        """The address of another page."""
        asked = {"search": self.search} if self.search else {}
        return f"?{urlencode(asked | ({'page': number} if number > 1 else {}))}"


class Query(NamedTuple):
    """Which page of the list is asked for."""

    search: str
    number: int

    @classmethod
    def of(cls, request: Request) -> Query:
        """Read it from the address, ignoring what makes no sense."""
        query = request.query_params
        number = query.get("page", "")
        return cls(
            query.get("search", "").strip()[:_LONGEST_SEARCH].replace("\0", ""),
            max(int(number), 1) if number.isdecimal() and len(number) < 10 else 1,
        )


def listing(
    experiments: OpenExperiments,
    query: Query,
    worst: Mapping[str, Check | None],
    known: str | None,
) -> tuple[str, Listing | None]:
    """A page of the list with its ETag; None in place of the page if that is known already.

    Verdicts are read only of experiments on this page, and only if any of them has changed.
    """
    number = query.number
    found, total = experiments.search(query.search, first=(number - 1) * _PAGE, limit=_PAGE)
    pages = max(math.ceil(total / _PAGE), 1)
    if number > pages:
        number = pages
        found, total = experiments.search(query.search, first=(number - 1) * _PAGE, limit=_PAGE)
    state = [(each.name, each.created, each.revision, str(worst.get(each.name))) for each in found]
    words = repr((query.search, number, total, state)).encode()
    tag = f'W/"{hashlib.sha256(words).hexdigest()[:32]}"'
    if tag == known:
        return tag, None
    rows = tuple(
        ListingRow(each, _verdict(experiments, each.name), worst.get(each.name)) for each in found
    )
    return tag, Listing(rows, query.search, number, pages, total)


def _verdict(experiments: OpenExperiments, name: str) -> str:
    try:
        return experiments.watch(name).headline()
    except StoreError:
        return "Its record cannot be read; the server's log says more."
    except BestArmError as error:
        return error.message
