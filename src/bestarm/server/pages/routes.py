"""The pages: trials at a glance and one page a trial, made here and kept up to date by a script."""

from __future__ import annotations

import gzip
import hashlib
import json
import logging
import math
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from typing import Annotated, Any
from urllib.parse import parse_qs, quote, urlencode

from fastapi import APIRouter, Depends, FastAPI, Header, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse
from fastapi.routing import APIRoute
from markupsafe import Markup
from pydantic import AfterValidator
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from bestarm.errors import BestArmError, InvalidInputError, StoreError
from bestarm.live import Experiment, Listed
from bestarm.live.inputs import normal_form
from bestarm.live.values import Check
from bestarm.live.watch.overview import headline, overview
from bestarm.live.watch.views import Overview
from bestarm.policies.registry import policies
from bestarm.server.api.errors import Refusal, answer_http
from bestarm.server.experiments import Trials
from bestarm.server.pages.charts import charts
from bestarm.server.pages.panels import asset, panels, render
from bestarm.server.pages.report import report
from bestarm.server.security.roles import COOKIE, UnauthorizedError, check_role, needs
from bestarm.server.security.tokens import Role, make_pass

__all__ = ["PUBLIC", "PageRoute", "mount"]

# What may be seen without a token: where one is asked for, and what pages are made with.
PUBLIC = frozenset({"/login", "/logout", "/static/{file}"})

_KINDS = {
    "style.css": "text/css",
    "forms.js": "text/javascript",
    "plan.js": "text/javascript",
    "theme.js": "text/javascript",
    "trial.js": "text/javascript",
    "trials.js": "text/javascript",
    "plotly.min.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
_FOR_EVER = "public, max-age=31536000, immutable"
_PAGE = 50  # trials on one page of the list
_LONGEST_SEARCH = 200
_MOST_FORM = 10_000  # bytes
_NOT_NOW = "This cannot be shown now"
_LOG = "The server's log says more."
_log = logging.getLogger("bestarm.server")


class PageRoute(APIRoute):
    """A route whose errors are pages too, and that asks for a token where one is needed."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """How a request is answered."""
        answer = super().get_route_handler()

        async def shown(request: Request) -> Response:
            try:
                return await answer(request)
            except UnauthorizedError:
                goal = quote(quote(request.scope["path"]), safe="")
                return RedirectResponse(f"/login?next={goal}", status_code=303)
            except InvalidInputError as error:
                return _sorry(request, 404, "There is no such trial", error.message, error.remedy)
            except StoreError as error:
                # Where the database is, and what it said, is not for everyone.
                _log.error("A page cannot be shown", exc_info=error)
                return _sorry(request, 503, _NOT_NOW, "The database cannot be used now.", _LOG)
            except BestArmError as error:
                return _sorry(request, 503, _NOT_NOW, error.message, error.remedy)

        return shown


Name = Annotated[str, AfterValidator(normal_form)]
_looking = Depends(needs(Role.VIEW))
_pages = APIRouter(route_class=PageRoute, include_in_schema=False)
_parts = APIRouter(include_in_schema=False)


def mount(app: FastAPI) -> None:
    """Add the pages to an application."""
    app.include_router(_pages)
    app.include_router(_parts)
    app.add_exception_handler(HTTPException, _not_there)


def _not_there(request: Request, error: Exception) -> Response:
    """Say that there is no such page to somebody who looks for one; programs get the one shape."""
    assert isinstance(error, HTTPException)
    browser = "text/html" in request.headers.get("accept", "")
    if error.status_code != 404 or not browser or request.scope["path"].startswith("/api/"):
        return answer_http(request, error)
    return _sorry(request, 404, "There is no such page", "Was the address typed by hand?")


def _trials(request: Request) -> Trials:
    trials: Trials = request.app.state.trials
    return trials


def _here(request: Request) -> str:
    return str(request.base_url).rstrip("/")


def _packed(request: Request, text: str | bytes, kind: str, **headers: str) -> Response:
    """A text, compressed for those who take it so."""
    body = text.encode() if isinstance(text, str) else text
    headers["Vary"] = "Accept-Encoding"
    if _takes_gzip(request) and len(body) > 1000:
        body = gzip.compress(body, 5, mtime=0)
        headers["Content-Encoding"] = "gzip"
    return Response(body, media_type=kind, headers=headers)


def _takes_gzip(request: Request) -> bool:
    return "gzip" in request.headers.get("accept-encoding", "")


def _page(request: Request, template: str, *, status: int = 200, **values: object) -> Response:
    text = render(template, signed_in=COOKIE in request.cookies, **values)
    response = _packed(request, text, "text/html")
    response.status_code = status
    return response


def _sorry(request: Request, status: int, title: str, message: str, remedy: str = "") -> Response:
    values = {"title": title, "message": message, "remedy": remedy}
    return _page(request, "error.html", status=status, **values)


@dataclass(frozen=True)
class _Row:
    name: str
    description: str
    state: str
    verdict: str
    pulls: int
    created: float
    worst: Check | None


@dataclass(frozen=True)
class _Part:
    """A page of the list."""

    rows: tuple[_Row, ...]
    search: str
    number: int
    pages: int
    total: int

    def address(self, number: int) -> str:
        """Where another page of it is."""
        asked = {"search": self.search} if self.search else {}
        return f"?{urlencode(asked | ({'page': number} if number > 1 else {}))}"


@dataclass(frozen=True)
class _Asked:
    """Which page of the list is looked at."""

    search: str
    number: int

    @classmethod
    def of(cls, request: Request) -> _Asked:
        """What the address says; what it cannot mean is passed over."""
        query = request.query_params
        number = query.get("page", "")
        return cls(
            query.get("search", "").strip()[:_LONGEST_SEARCH].replace("\0", ""),
            max(int(number), 1) if number.isdecimal() and len(number) < 10 else 1,
        )


def _part(
    trials: Trials, asked: _Asked, worst: Mapping[str, Check | None], known: str | None
) -> tuple[str, _Part | None]:
    """A page of the list with its ETag; None in place of the page if that is known already.

    Verdicts are read only of trials on this page, and only if any of them has changed.
    """
    first = (asked.number - 1) * _PAGE
    found, total = trials.browsed(search=asked.search, first=first, limit=_PAGE)
    pages = max(math.ceil(total / _PAGE), 1)
    number = min(asked.number, pages)
    if number < asked.number:
        first = (number - 1) * _PAGE
        found, total = trials.browsed(search=asked.search, first=first, limit=_PAGE)
    state = [(each.name, each.created, each.revision, str(worst.get(each.name))) for each in found]
    words = repr((asked.search, number, total, state)).encode()
    tag = f'W/"{hashlib.sha256(words).hexdigest()[:32]}"'
    if tag == known:
        return tag, None
    rows = tuple(_row(trials, each, worst.get(each.name)) for each in found)
    return tag, _Part(rows, asked.search, number, pages, total)


def _row(trials: Trials, each: Listed, worst: Check | None) -> _Row:
    try:
        verdict = headline(trials.open(each.name))
    except StoreError:
        verdict = "What is kept of it cannot be read; the server's log says more."
    except BestArmError as error:
        verdict = error.message
    status = each.status
    return _Row(
        each.name, each.description, status.state, verdict, status.pulls, each.created, worst
    )


async def _browsed(request: Request, known: str | None = None) -> tuple[str, _Part | None]:
    worst, asked = request.app.state.keeper.worst, _Asked.of(request)
    return await _trials(request).browse(lambda trials: _part(trials, asked, worst, known))


def _listed(part: _Part) -> Markup:
    return Markup(render("list.html", part=part))


@_pages.get("/", dependencies=[_looking])
async def show_trials(request: Request) -> Response:
    """A page of the trials, and a form to begin another."""
    tag, part = await _browsed(request)
    assert part is not None
    choices = [
        (each.name, f"{each.name} ({each.summary})")
        for each in policies().values()
        if each.live and not each.required
    ]
    return _page(
        request,
        "trials.html",
        rows=_listed(part),
        tag=tag,
        part=part,
        empty=not part.total and not part.search,
        policies=choices,
    )


@_parts.get("/list", dependencies=[_looking])
async def list_trials(
    request: Request, if_none_match: Annotated[str | None, Header(max_length=500)] = None
) -> Response:
    """A page of the list alone, for the page to bring itself up to date."""
    tag, part = await _browsed(request, if_none_match)
    if part is None:
        return Response(status_code=304, headers={"ETag": tag})
    return _packed(request, json.dumps({"html": _listed(part)}), "application/json", ETag=tag)


@_pages.get("/experiments/{name}", dependencies=[_looking])
async def show_trial(name: Name, request: Request) -> Response:
    """A trial."""
    here, inside = _here(request), request.app.state.local

    def make(experiment: Experiment) -> Mapping[str, Any]:
        seen = overview(experiment, address=here, inside=inside)
        return {"seen": seen, "panels": panels(seen)}

    made = await _trials(request).think(name, make)
    return _page(request, "trial.html", printed=False, **made)


@_parts.get("/experiments/{name}/panels", dependencies=[_looking])
async def show_panels(
    name: Name,
    request: Request,
    if_none_match: Annotated[str | None, Header(max_length=500)] = None,
) -> Response:
    """What is new of a trial: panels as HTML, charts as numbers."""
    here, inside = _here(request), request.app.state.local

    def make(experiment: Experiment) -> tuple[str, Overview | None]:
        tag = f'W/"{experiment.revision}"'
        if tag == if_none_match:
            return tag, None
        return tag, overview(experiment, address=here, inside=inside)

    trials = _trials(request)
    tag, seen = await trials.think(name, make)
    if seen is None:
        return Response(status_code=304, headers={"ETag": tag})
    news = await run_in_threadpool(_news, seen)
    return _packed(request, news, "application/json", ETag=f'W/"{seen.revision}"')


def _news(seen: Overview) -> str:
    return json.dumps(
        {
            "revision": seen.revision,
            "state": seen.state,
            "panels": panels(seen),
            "charts": {key: asdict(chart) for key, chart in charts(seen).items()},
        },
        allow_nan=False,
    )


@_pages.get("/experiments/{name}/report", dependencies=[_looking])
async def show_report(name: Name, request: Request) -> Response:
    """The report, to be printed or kept."""
    look = partial(overview, address=_here(request), inside=request.app.state.local)
    text = await _trials(request).think(name, lambda each: report(look(each)))
    return _packed(request, text, "text/html")


@_parts.get("/role", dependencies=[_looking])
async def show_role(request: Request) -> JSONResponse:
    """What the token that was sent allows."""
    return JSONResponse({"role": (await check_role(request, Role.VIEW)).word})


@_pages.get("/login")
async def ask_token(request: Request, next: str = "/") -> Response:  # noqa: A002 - its usual name
    """Where a token is asked for."""
    return _page(request, "login.html", next=_inside(next), wrong=False)


@_pages.post("/login")
async def take_token(request: Request) -> Response:
    """Take a token that is valid, and have the browser keep a pass that allows looking alone."""
    body = await request.body()
    if len(body) > _MOST_FORM:
        raise Refusal(413, "too_large", "A token is not that long.", field="body")
    form = parse_qs(body.decode("utf-8", "replace"))
    token, goal = form.get("token", [""])[0].strip(), _inside(form.get("next", ["/"])[0])
    kept = await run_in_threadpool(make_pass, _trials(request).store, token)
    if kept is None:
        return _page(request, "login.html", status=401, next=goal, wrong=True)
    response = RedirectResponse(goal, status_code=303)
    response.set_cookie(
        COOKIE, kept, httponly=True, samesite="strict", secure=request.url.scheme == "https"
    )
    return response


@_pages.post("/logout")
async def forget_token() -> Response:
    """Forget it."""
    response = RedirectResponse("/", status_code=303)
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return response


def _inside(goal: str) -> str:
    """A path of this server; anything else leads to the start."""
    fits = goal.startswith("/") and goal.isprintable() and not set(goal[1:2]) & set("/\\")
    return goal if fits and "\\" not in goal else "/"


@_parts.get("/static/{file}")
async def show_asset(file: str, request: Request) -> Response:
    """What pages are made with. The address says which version, so it may be kept for ever."""
    if file not in _KINDS:
        raise Refusal(404, "not_found", "Not Found.", field="request")
    headers = {"Cache-Control": _FOR_EVER, "Vary": "Accept-Encoding"}
    zipped = _takes_gzip(request)
    if zipped:
        headers["Content-Encoding"] = "gzip"
    body = await run_in_threadpool(_zipped if zipped else asset, file)
    return Response(body, media_type=_KINDS[file], headers=headers)


@lru_cache(maxsize=16)
def _zipped(file: str) -> bytes:
    return gzip.compress(asset(file), 6, mtime=0)
