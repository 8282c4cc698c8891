"""The pages: a list of experiments, and one page per experiment that a script keeps up to date."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple
from urllib.parse import parse_qs, quote, urlencode

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from fastapi.routing import APIRoute
from markupsafe import Markup
from pydantic import AfterValidator
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from bestarm.errors import BestArmError, StoreError
from bestarm.live import ExperimentListing
from bestarm.live.inputs import normal_form
from bestarm.live.store.listing import search as search_experiments
from bestarm.live.values import LEVELS, Check, shown_state
from bestarm.live.watch.overview import Overview, Watch
from bestarm.policies.registry import policies
from bestarm.server.api.plan import PLANNABLE
from bestarm.server.api.requests import COOKIE, VIEW, Experiments, IfNoneMatch, check_role, is_known
from bestarm.server.errors import ApiError, to_api_error
from bestarm.server.experiments import OpenExperiments
from bestarm.server.pages.panels import (
    Assets,
    charts_json,
    panels,
    render,
    report,
    snippets,
    titles_of,
)
from bestarm.server.probes import PATHS as PROBES
from bestarm.server.tokens import Role, create_view_session

_PAGE = 50  # experiments on one page
_LONGEST_SEARCH = 200


class Listing(NamedTuple):
    """A page of the list: experiments with verdicts, their worst health checks and states."""

    rows: tuple[tuple[ExperimentListing, str, Check | None, str], ...]
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
    checks: Mapping[str, Sequence[Check]],
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
        found, total = search_experiments(experiments.store, search, first=first, limit=_PAGE)
        pages = max(math.ceil(total / _PAGE), 1)
        if number <= pages:
            break
        number = pages
    worst = {each.name: _worst(checks.get(each.name, ())) for each in found}
    state = [(each.name, each.created, each.revision, str(worst[each.name])) for each in found]
    words = repr((search, number, total, state)).encode()
    tag = f'W/"{hashlib.sha256(words).hexdigest()[:32]}"'
    if is_known(tag, known):
        return tag, None
    rows = tuple(
        (
            each,
            _verdict(experiments, each.name),
            worst[each.name],
            shown_state(each.status.state, checks.get(each.name, ())),
        )
        for each in found
    )
    return tag, Listing(rows, search, number, pages, total)


def _worst(checks: Sequence[Check]) -> Check | None:
    """The first check of the highest level, unless all are well."""
    found = max(checks, key=lambda check: LEVELS.index(check.level), default=None)
    return None if found is None or found.level == "ok" else found


def _verdict(experiments: OpenExperiments, name: str) -> str:
    try:
        return experiments.watch(name).headline()
    except StoreError:
        return "Its record cannot be read; the server's log says more."
    except BestArmError as error:
        return error.message


# What may be seen without a token: the sign-in page, files that pages are made with, and probes.
PUBLIC = frozenset({"/login", "/logout", "/static"}) | PROBES

_MOST_FORM = 10_000  # bytes
_CHECKED = {"anytime"}  # policies to plan with, ticked at first
_DRIFTS = (
    ("none", "stays as it is", False),
    ("sine", "a slow wave", True),
    ("walk", "a random walk", False),
    ("switches", "sudden jumps", False),
    ("people", "a level of its own for every round", False),
)
_TITLES = {
    "not_found": "There is no such page",
    "unknown_experiment": "There is no such experiment",
}
Name = Annotated[str, AfterValidator(normal_form)]


class _PageRoute(APIRoute):
    """A route whose errors are pages too."""


_pages = APIRouter(route_class=_PageRoute, include_in_schema=False)
_parts = APIRouter(include_in_schema=False)


def add_pages(app: FastAPI) -> None:
    """Add the pages to an application."""
    app.include_router(_pages)
    app.include_router(_parts)
    app.mount("/static", Assets())
    for kind in (BestArmError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _answer_error)


def _answer_error(request: Request, error: Exception) -> Response:
    """Answer browsers with a page, and programs in the one shape of errors."""
    api_error, path = to_api_error(error, request), request.scope["path"]
    browser = "text/html" in request.headers.get("accept", "") and not path.startswith("/api/")
    if not browser and not isinstance(request.scope.get("route"), _PageRoute):
        return api_error.response()
    if api_error.status_code == 401:
        return RedirectResponse(f"/login?next={quote(quote(path), safe='')}", status_code=303)
    title = _TITLES.get(api_error.kind, "This cannot be shown now")
    return _page(request, "error.html", status=api_error.status_code, title=title, error=api_error)


def _page(request: Request, template: str, *, status: int = 200, **values: object) -> Response:
    text = render(template, signed_in=COOKIE in request.cookies, **values)
    return HTMLResponse(text, status_code=status)


async def _listing(
    request: Request, experiments: OpenExperiments, known: str | None = None
) -> tuple[str, Listing | None]:
    checks, query = request.app.state.maintenance.checks, request.query_params
    return await run_in_threadpool(listing, experiments, query, checks, known)


def _rows(part: Listing) -> Markup:
    return Markup(render("list.html", part=part))


@_pages.get("/", dependencies=[VIEW])
async def show_experiments(request: Request, experiments: Experiments) -> Response:
    """A page of the list, and a form to create an experiment."""
    tag, part = await _listing(request, experiments)
    assert part is not None
    choices = [
        (each.name, f"{each.name} ({each.summary})")
        for each in policies().values()
        if each.live and not each.required
    ]
    return _page(
        request,
        "experiments.html",
        rows=_rows(part),
        tag=tag,
        part=part,
        empty=not part.total and not part.search,
        policies=choices,
    )


@_parts.get("/list", dependencies=[VIEW])
async def list_experiments(
    request: Request, experiments: Experiments, if_none_match: IfNoneMatch = None
) -> Response:
    """A page of the list alone, for the page to bring itself up to date."""
    tag, part = await _listing(request, experiments, if_none_match)
    if part is None:
        return Response(status_code=304, headers={"ETag": tag})
    return JSONResponse({"html": _rows(part)}, headers={"ETag": tag})


def _snippets(request: Request, shown: Overview) -> dict[str, str]:
    address = str(request.base_url).rstrip("/")
    forecaster, block = shown.spec.forecaster, shown.head.size
    return snippets(shown.name, address=address, forecaster=forecaster, block=block)


@_pages.get("/experiments/{name}", dependencies=[VIEW])
async def show_experiment(name: Name, request: Request, experiments: Experiments) -> Response:
    """An experiment."""
    shown = await experiments.compute(name, Watch.overview)
    parts = await run_in_threadpool(panels, shown, _snippets(request, shown))
    return _page(
        request,
        "experiment.html",
        printed=False,
        overview=shown,
        panels=parts,
        titles=titles_of(shown),
    )


@_parts.get("/experiments/{name}/panels", dependencies=[VIEW])
async def show_panels(
    name: Name, request: Request, experiments: Experiments, if_none_match: IfNoneMatch = None
) -> Response:
    """What is new of an experiment: panels as HTML, charts as numbers."""

    def tag_of(revision: str) -> str:
        return f'W/"{revision}"'

    def make(watch: Watch) -> tuple[str, str]:
        shown = watch.overview()
        known = {"state": shown.head.state, "archived": shown.head.archived}
        known["description"] = shown.description
        news = json.dumps({**known, "panels": panels(shown, _snippets(request, shown))})
        return tag_of(shown.head.revision), f'{news[:-1]}, "charts": {charts_json(shown)}}}'

    tag = tag_of(await experiments.read(name, lambda each: each.revision))
    if is_known(tag, if_none_match):
        return Response(status_code=304, headers={"ETag": tag})
    tag, text = await experiments.compute(name, make)
    return Response(text, media_type="application/json", headers={"ETag": tag})


@_pages.get("/experiments/{name}/report", dependencies=[VIEW])
async def show_report(name: Name, experiments: Experiments) -> Response:
    """The report, to print or keep."""
    return HTMLResponse(
        await experiments.compute(name, lambda watch: report(watch.overview(), whole=False))
    )


@_pages.get("/plan", dependencies=[VIEW])
async def show_plan(request: Request) -> Response:
    """The form to plan an experiment with."""
    return _page(
        request,
        "plan.html",
        seconds=request.app.state.planner.seconds,
        policies=[(each, name in _CHECKED) for name, each in PLANNABLE.items()],
        drifts=_DRIFTS,
    )


@_parts.get("/role", dependencies=[VIEW])
async def show_role(request: Request) -> JSONResponse:
    """The role of the token that was sent."""
    return JSONResponse({"role": (await check_role(request, Role.VIEW)).word})


@_pages.get("/login")
async def show_login(request: Request, next: str = "/") -> Response:  # noqa: A002 - its usual name
    """The sign-in page."""
    return _page(request, "login.html", next=_local_path(next), wrong=False)


@_pages.post("/login")
async def log_in(request: Request, experiments: Experiments) -> Response:
    """Take a valid token, and have the browser keep a session that allows viewing only."""
    body = b""
    async for part in request.stream():  # from anybody: no more is kept
        body += part
        if len(body) > _MOST_FORM:
            message, remedy = "A token is not that long.", "Paste it alone."
            raise ApiError(413, "too_large", message, field="body", remedy=remedy)
    form = parse_qs(body.decode("utf-8", "replace"))
    token, goal = form.get("token", [""])[0].strip(), _local_path(form.get("next", ["/"])[0])
    kept = await run_in_threadpool(create_view_session, experiments.store, token)
    if kept is None:
        return _page(request, "login.html", status=401, next=goal, wrong=True)
    response = RedirectResponse(goal, status_code=303)
    response.set_cookie(
        COOKIE, kept, httponly=True, samesite="strict", secure=request.url.scheme == "https"
    )
    return response


@_pages.post("/logout")
async def log_out() -> Response:
    """Sign out."""
    response = RedirectResponse("/", status_code=303)
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return response


def _local_path(goal: str) -> str:
    """A path of this server; anything else leads to the start."""
    fits = goal.startswith("/") and goal.isprintable() and not set(goal[1:2]) & set("/\\")
    return goal if fits and "\\" not in goal else "/"
