"""`POST /jobs/{id}/items`: items as a stream of any size, in NDJSON, CSV or JSON (J2). taking_in.py does the work.

Before: `POST /jobs` without items. After: `POST /jobs/{id}/start`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from swath.domain.service_key import Scope
from swath.entrypoints.api.controller import Control
from swath.entrypoints.api.envelope import Envelope, ok
from swath.entrypoints.api.errors import ErrorCode, declared
from swath.entrypoints.api.gate import needs
from swath.entrypoints.api.paths import JobId
from swath.entrypoints.api.problems import Problem, refused_fields
from swath.entrypoints.api.routing import ApiRoute
from swath.entrypoints.api.taking_in import LoadOrder, format_of, take_in
from swath.pipeline.accept.file_source import Format
from swath.pipeline.accept.report import LoadOptions, OnBadRows, OnDuplicates

__all__ = ["router"]

router = APIRouter(tags=["jobs"], route_class=ApiRoute)

_EXAMPLE: Final[dict[str, Any]] = {
    "job_id": "test-002",
    "rows": 3,
    "added": 2,
    "duplicates": 0,
    "first_duplicates": [],
    "errors": [{"line": 3, "message": "parcel_id: is missing"}],
    "error_count": 1,
    "loaded_rows": 3,
}
_FORMATS: Final = {"csv": Format.CSV, "ndjson": Format.JSONL, "jsonl": Format.JSONL, "json": Format.JSON}
_NDJSON: Final = '{"test_param": "hello"}\n{"item_id": "item-2", "input": {"test_param": "world"}}\n'
_CSV: Final = "test_param\nhello\nworld\n"
_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "description": "Items as JSON Lines (an object on each line), as a table with a header line (CSV), or as one "
        "JSON array of objects; gzip of each too. In `application/octet-stream` the query parameter `format` says "
        "which, or else the first character: `{` begins JSON Lines, `[` an array, everything else a table. An array "
        "may also be sent as `application/json`.",
        # Generators of clients take the first type that they know, and hardly any knows the other two. A schema of an
        # array beside them is more than openapi-python-client can do: what it writes fails when it is called.
        "content": {
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}, "example": _NDJSON},
            "application/x-ndjson": {"schema": {"type": "string"}, "example": _NDJSON},
            "text/csv": {"schema": {"type": "string"}, "example": _CSV},
        },
    }
}


class BadLine(BaseModel):
    """A line that became no item, and why."""

    line: int
    message: str


class DuplicateLine(BaseModel):
    """A row that repeats an item id; the first of them stays. Places are ready to be read."""

    place: str
    item_id: str
    first_place: str


class LoadView(BaseModel):
    """What became of the rows: `added` are items now, also those that an earlier try had stored; of errors and
    duplicates the first 100 are told.

    `loaded_rows` are all rows that the job has, good or bad: where an `offset` goes on.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    job_id: str
    rows: int
    added: int
    duplicates: int
    first_duplicates: list[DuplicateLine]
    errors: list[BadLine]
    error_count: int
    loaded_rows: int


class LoadQuery(BaseModel):
    """What may be said in the address."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    format: Literal["csv", "ndjson", "jsonl", "json"] | None = None
    """Wins over the Content-Type; without either the first character tells it. `json` is one array of objects."""
    bad_rows: OnBadRows = OnBadRows.SKIP
    """`skip` leaves out what cannot be used; `refuse` stores nothing from the first batch on that has such a row."""
    duplicates: OnDuplicates = OnDuplicates.KEEP_FIRST
    """`refuse` stops behind the first batch that repeats an item id."""
    offset: int | None = Field(default=None, ge=0, le=2**53)
    """The rows go on behind so many, which must be the job's `loaded_rows`; a table brings its header line again."""
    id_column: str | None = Field(default=None, min_length=1, max_length=1_000)
    """Which column names the items."""
    map: list[Annotated[str, Field(max_length=1_000)]] = Field(default_factory=list, max_length=100)
    """`field=column`: which column an input field is."""


@router.post(
    "/jobs/{job_id}/items",
    response_model=Envelope[LoadView],
    responses=declared(
        ErrorCode.JOB_NOT_FOUND, ErrorCode.SCRAPER_NOT_FOUND, ErrorCode.CONFLICT, ErrorCode.STORE_UNAVAILABLE
    ),
    dependencies=[Depends(needs(Scope.SUBMIT))],
    openapi_extra=_BODY,
)
async def load_items(
    job_id: JobId,
    controller: Control,
    request: Request,
    query: Annotated[LoadQuery, Query()],
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=255)] = None,
) -> Response:
    """Adds items to a job that is `loading`, as they arrive, in batches that are each stored whole.

    A load that was broken off goes on when the same body is sent again: from the start, or under the same
    `Idempotency-Key`, or with an `offset` only what is missing. A job may be loaded by several requests, each under a
    key of its own.
    """
    if idempotency_key is not None and query.offset is not None:
        told = "give an Idempotency-Key or an offset, not both"
        raise refused_fields([Problem("offset", told, "query"), Problem("Idempotency-Key", told, "header")])
    order = LoadOrder(
        form=format_of(request, _FORMATS.get(query.format or "")),
        options=LoadOptions(on_bad_rows=query.bad_rows, on_duplicates=query.duplicates),
        key=idempotency_key,
        offset=query.offset,
        id_column=query.id_column,
        mapping=_mapping(query.map),
    )
    return ok(await take_in(controller, job_id, request, order))


def _mapping(given: list[str]) -> dict[str, str]:
    pairs = {}
    for at, text in enumerate(given):
        field, equals, column = text.partition("=")
        if not (field and equals and column):
            raise refused_fields([Problem(f"map[{at}]", "write it as field=column", "query")])
        pairs[field] = column
    return pairs
