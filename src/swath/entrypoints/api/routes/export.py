"""`GET /jobs/{id}/export`: all records of a job in a format that other tools read (R5)."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Query, Request, Response

from swath.domain.service_key import Scope
from swath.entrypoints.api.controller import Control
from swath.entrypoints.api.downloads import BYTES_TYPE, accepts_bytes_only, as_attachment, safe_file_name
from swath.entrypoints.api.errors import ApiError, ErrorCode, error_responses
from swath.entrypoints.api.middleware import decode_segment
from swath.entrypoints.api.routing import ApiRoute, needs
from swath.pipeline.results.export.exporter import Export, ExportFormat, ExportRequest

__all__ = ["router"]

router = APIRouter(tags=["results"], route_class=ApiRoute, dependencies=[Depends(needs(Scope.READ))])

_TYPES: Final = {
    ExportFormat.CSV: "text/csv; charset=utf-8",
    ExportFormat.JSONL: "application/x-ndjson",
    ExportFormat.PARQUET: "application/vnd.apache.parquet",
    ExportFormat.SQLITE: "application/vnd.sqlite3",
    ExportFormat.FILES: "application/x-tar",
}

_CONTENT: Final[dict[str, Any]] = {
    kind.partition(";")[0]: {"schema": {"type": "string", "format": "binary"}}
    for kind in (BYTES_TYPE, *_TYPES.values())
}
_ERRORS: Final = (
    ErrorCode.JOB_NOT_FOUND,
    ErrorCode.VALIDATION_ERROR,
    ErrorCode.RESULTS_NOT_READY,
    ErrorCode.CONFLICT,
    ErrorCode.RATE_LIMITED,
    ErrorCode.STORE_UNAVAILABLE,
)


@router.get(
    "/jobs/{job_id}/export",
    response_class=Response,
    responses={
        200: {"content": _CONTENT, "description": "The records, or all files, to be saved."},
        **error_responses(*_ERRORS),
    },
)
async def export(
    request: Request,
    job_id: str,
    controller: Control,
    form: Annotated[
        Literal["csv", "jsonl", "parquet", "sqlite", "files"],
        Query(alias="format", description="files: all files of all items, as a tar archive."),
    ],
    raw: Annotated[bool, Query(description="CSV as it is, not made safe for spreadsheets.")] = False,
    state: Annotated[Literal["success", "all"], Query(description="all: also items that have no record.")] = "success",
    partial: Annotated[bool, Query(description="What is there so far of a job that has not ended.")] = False,
) -> Response:
    """All records of a job, with where each comes from. Whoever gets the end of it has got all."""
    services, wanted = controller.services, ExportFormat(form)
    status = await services.store.status(decode_segment(job_id))
    if not (status.state.terminal or status.deleting or partial):
        said = f"job {status.job.job_id!r} is {status.state.value}; its results are there when it has ended"
        raise ApiError(ErrorCode.RESULTS_NOT_READY, said, {"status": status.state.value})
    wish = ExportRequest(wanted, raw=raw, everything=state == "all", partial=partial)
    made = controller.exports.answer(Export(services.store, services.storage, status, wish), wanted)
    ending = "tar" if wanted is ExportFormat.FILES else wanted.value
    kind = BYTES_TYPE if accepts_bytes_only(request.headers.get("accept", "")) else _TYPES[wanted]
    return as_attachment(made, {}, safe_file_name(f"{status.job.job_id}.{ending}"), kind)
