"""The list of experiments, page by page."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlencode

from bestarm.errors import BestArmError, StoreError
from bestarm.live import ExperimentListing
from bestarm.live.store.sql import SqlLedger
from bestarm.live.values import Check
from bestarm.server.experiments import OpenExperiments

_PAGE = 50  # experiments on one page
_LONGEST_SEARCH = 200


class Listing(NamedTuple):
    """A page of the list: experiments with their verdicts and their worst health checks."""

    rows: tuple[tuple[ExperimentListing, str, Check | None], ...]
    search: str
    number: int
    pages: int
    total: int

    def address(self, number: int) -> str:
        """The address of another page."""
        asked = {"search": self.search} if self.search else {}
        return f"?{urlencode(asked | ({'page': number} if number > 1 else {}))}"


def listing(
    experiments: OpenExperiments,
    query: Mapping[str, str],
    worst: Mapping[str, Check | None],
    known: str | None,
) -> tuple[str, Listing | None]:
    """A page of the list with its ETag; None in place of the page if that is known already.

    Verdicts are read only of experiments on this page, and only if any of them has changed. What
    makes no sense in the query is ignored.
    """
    search = query.get("search", "").strip()[:_LONGEST_SEARCH].replace("\0", "")
    page = query.get("page", "")
    number = max(int(page), 1) if page.isdecimal() and len(page) < 10 else 1
    while True:
        first = (number - 1) * _PAGE
        found, total = SqlLedger.search(experiments.store, search, first=first, limit=_PAGE)
        pages = max(math.ceil(total / _PAGE), 1)
        if number <= pages:
            break
        number = pages
    state = [(each.name, each.created, each.revision, str(worst.get(each.name))) for each in found]
    words = repr((search, number, total, state)).encode()
    tag = f'W/"{hashlib.sha256(words).hexdigest()[:32]}"'
    if tag == known:
        return tag, None
    rows = tuple((each, _verdict(experiments, each.name), worst.get(each.name)) for each in found)
    return tag, Listing(rows, search, number, pages, total)


def _verdict(experiments: OpenExperiments, name: str) -> str:
    try:
        return experiments.watch(name).headline()
    except StoreError:
        return "Its record cannot be read; the server's log says more."
    except BestArmError as error:
        return error.message
