"""Maps a request to a page of the demo county: disclaimer, search, redirect, detail, bill, receipts and echo.

Every answer follows from the request alone.
"""

import json
import re
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import quote

from swath.demo.county import http, pages, parcel_pages
from swath.demo.county.http import JSON, SiteRequest, SiteResponse, redirect
from swath.demo.county.parcels import exists, is_well_formed, parcel

_ECHOED_HEADERS = (b"accept", b"accept-language", b"content-type", b"host", b"user-agent")
# Printable, on this host, and no "//host" or "/\\host", which browsers take for another one.
_LOCAL_PATH = re.compile(r"/(?![/\\])[!-~]*")
_PARCEL_PATH = "/parcel/"
_BILL_NAME = "/bill.pdf"


class RouteMatch(NamedTuple):
    """Where a path leads: a kind of page, for the counts, and the parcel that the path names."""

    kind: str
    parcel_id: str = ""


ROBOTS = RouteMatch("robots.txt")
_PLACES = {
    path: RouteMatch(path.strip("/") or "home") for path in ("/", "/disclaimer", "/search", "/receipts", "/echo")
}
_PLACES["/robots.txt"] = ROBOTS
_PLACES["/app/"] = RouteMatch("app")
_PLACES |= {f"/app/{name}": RouteMatch(f"app-{name}") for name in ("agree", "parcel", "years")}
_ELSEWHERE = RouteMatch("other")


def match_route(path: str) -> RouteMatch:
    """Say where a path leads; a parcel's number may be one of no parcel, but it is well formed."""
    if path.startswith(_PARCEL_PATH):
        is_bill = path.endswith(_BILL_NAME)
        parcel_id = path[len(_PARCEL_PATH) : -len(_BILL_NAME) if is_bill else None]
        if is_well_formed(parcel_id):
            return RouteMatch("bill" if is_bill else "parcel", parcel_id)
    return _PLACES.get(path, _ELSEWHERE)


def respond(request: SiteRequest) -> SiteResponse:
    place = match_route(request.path)
    methods = _VIEWS.get(place.kind)
    if methods is None:
        return pages.NOT_FOUND
    view = methods.get("GET" if request.method == "HEAD" else request.method)
    if view is None:
        return pages.method_not_allowed(", ".join(methods))
    try:
        return view(request, place.parcel_id)
    except (ValueError, RecursionError):  # more fields than anybody needs, or JSON that is none or bottomless
        return pages.refused(400)


def _home(request: SiteRequest, _: str) -> SiteResponse:
    del request
    return redirect("/search")


def _disclaimer(request: SiteRequest, _: str) -> SiteResponse:
    return pages.disclaimer(_local(dict(request.query_fields()).get("next", "")))


def _agree(request: SiteRequest, _: str) -> SiteResponse:
    form = dict(request.form_fields())
    next_path = _local(form.get("next", ""))
    if pages.AGREE_BUTTON not in form or form.get("terms_version") != pages.TERMS_VERSION:
        return pages.disclaimer(next_path)
    return redirect(next_path, _new_cookie())


def _new_cookie() -> bytes:
    return f"Set-Cookie: {http.COOKIE}={http.new_session()}; Path=/; HttpOnly; SameSite=Lax\r\n".encode()


def _search(request: SiteRequest, _: str) -> SiteResponse:
    session = _genuine_session(request)
    return _to_disclaimer("/search") if session is None else pages.search(session)


def _look_up(request: SiteRequest, _: str) -> SiteResponse:
    session = _genuine_session(request)
    if session is None:
        return _to_disclaimer("/search")
    form = dict(request.form_fields())
    if not http.are_genuine_fields(session, form):
        return pages.VIEW_STATE_FAILED
    if form.get(pages.YEAR_SELECT, pages.YEARS[0]) not in pages.YEARS:
        return pages.EVENT_REFUSED
    parcel_id = form.get("parcel", "").strip()
    # As in WebForms, nothing happens unless the post says which control it came from.
    if pages.SEARCH_BUTTON not in form and form.get("__EVENTTARGET") != pages.SEARCH_BUTTON:
        return pages.search(session, parcel_id=parcel_id)
    if not is_well_formed(parcel_id):
        return pages.wrong_format(session, parcel_id)
    return redirect(f"{_PARCEL_PATH}{parcel_id}") if exists(parcel_id) else pages.no_records(session, parcel_id)


def _detail(request: SiteRequest, parcel_id: str) -> SiteResponse:
    session = _genuine_session(request)
    if session is None:
        return _to_disclaimer(request.path)
    return parcel_pages.page(parcel(parcel_id)) if exists(parcel_id) else pages.no_records(session, parcel_id)


def _bill(request: SiteRequest, parcel_id: str) -> SiteResponse:
    if _genuine_session(request) is None:
        return _to_disclaimer(request.path)
    return parcel_pages.pdf(parcel(parcel_id)) if exists(parcel_id) else pages.NOT_FOUND


def _app(request: SiteRequest, _: str) -> SiteResponse:
    del request
    return parcel_pages.SHELL


def _app_agree(request: SiteRequest, _: str) -> SiteResponse:
    del request
    return SiteResponse(200, b'{"agreed": true}', JSON, _new_cookie())


def _app_parcel(request: SiteRequest, _: str) -> SiteResponse:
    if _genuine_session(request) is None:
        return parcel_pages.NOT_AGREED
    parcel_id = dict(request.query_fields()).get("parcel", "")
    if not is_well_formed(parcel_id):
        return parcel_pages.wrong_format()
    return parcel_pages.parcel(parcel(parcel_id)) if exists(parcel_id) else parcel_pages.no_records(parcel_id)


def _app_years(request: SiteRequest, _: str) -> SiteResponse:
    fields = dict(request.query_fields())
    parcel_id = fields.get("parcel", "")
    if _genuine_session(request) is None:
        return parcel_pages.NOT_AGREED
    if not is_well_formed(parcel_id) or not exists(parcel_id):
        return pages.NOT_FOUND
    return parcel_pages.years(parcel(parcel_id), int(fields.get("from", "0")))


def _receipts(request: SiteRequest, _: str) -> SiteResponse:
    return pages.receipts(dict(request.query_fields()))


def _echo(request: SiteRequest, _: str) -> SiteResponse:
    """Return what was sent, as JSON; a name that came several times has a list of its values."""
    echoed: dict[str, object] = {"method": request.method, "query": _grouped(request.query_fields())}
    if request.is_form():
        echoed["form"] = _grouped(request.form_fields())
    elif request.body:
        echoed["json"] = json.loads(request.body)
    echoed["headers"] = {name.decode(): request.header(name) for name in _ECHOED_HEADERS if request.header(name)}
    return SiteResponse(200, json.dumps(echoed).encode(), JSON)


def _grouped(fields: list[tuple[str, str]]) -> dict[str, str | list[str]]:
    grouped: dict[str, list[str]] = {}
    for name, value in fields:
        grouped.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in grouped.items()}


def _genuine_session(request: SiteRequest) -> str | None:
    session = request.session()
    return session if session is not None and http.is_genuine(session) else None


def _local(path: str) -> str:
    return path if _LOCAL_PATH.fullmatch(path) else "/search"


def _to_disclaimer(next_path: str) -> SiteResponse:
    return redirect(f"/disclaimer?next={quote(next_path)}")


_View = Callable[[SiteRequest, str], SiteResponse]
_VIEWS: dict[str, dict[str, _View]] = {
    "home": {"GET": _home},
    "disclaimer": {"GET": _disclaimer, "POST": _agree},
    "search": {"GET": _search, "POST": _look_up},
    "parcel": {"GET": _detail},
    "bill": {"GET": _bill},
    "receipts": {"GET": _receipts},
    "echo": {"GET": _echo, "POST": _echo},
    "app": {"GET": _app},
    "app-agree": {"POST": _app_agree},
    "app-parcel": {"GET": _app_parcel},
    "app-years": {"GET": _app_years},
}
