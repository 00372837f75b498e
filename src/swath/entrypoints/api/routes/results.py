"""`GET /jobs/{id}/results` from the manifest, and `GET /jobs/{id}/items/{item_id}/download` of one stored file (I2)."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

import msgspec
from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from swath.domain.errors import Conflict, StoreDamaged
from swath.domain.job import JobStatus
from swath.domain.service_key import Scope
from swath.domain.storage_keys import PackLocation
from swath.entrypoints.api.artifacts import DownloadableFile, artifact_names, downloadable, find_artifact
from swath.entrypoints.api.controller import Control, Controller, controller_of
from swath.entrypoints.api.downloads import (
    BYTES_TYPE,
    IMAGE_TYPES,
    RangeNotSatisfiable,
    as_attachment,
    requested_range,
    safe_content_type,
)
from swath.entrypoints.api.envelope import Envelope, ok
from swath.entrypoints.api.errors import ApiError, ErrorCode, error_responses
from swath.entrypoints.api.middleware import decode_segment
from swath.entrypoints.api.routing import ApiRoute, needs
from swath.entrypoints.api.validation_errors import FieldError, invalid_fields
from swath.pipeline.results.records import current_item

__all__ = ["router"]

router = APIRouter(tags=["results"], route_class=ApiRoute, dependencies=[Depends(needs(Scope.READ))])

LINK_SECONDS: Final = 300
_VERSIONED: Final = (
    "data",
    "data.json",
)  # what re-extraction makes anew; all else is what the job itself has stored
_LISTS: Final = {"all": "full", "success": "success", "error": "errors"}
_NOT_FOUND: Final = (ErrorCode.JOB_NOT_FOUND, ErrorCode.VALIDATION_ERROR, ErrorCode.STORE_UNAVAILABLE)
# Generators of clients take the first type that they know, and bytes are right for each of them.
_FILE: Final[dict[str, Any]] = {
    "content": {
        kind: {"schema": {"type": "string", "format": "binary"}} for kind in (BYTES_TYPE, "text/plain", *IMAGE_TYPES)
    }
}


class PartLink(BaseModel):
    """One part of a list: up to 1,000 items. Size and hash are those of the stored document."""

    part: int
    items: int
    size: int
    sha256: str
    link: str


class Results(BaseModel):
    """`job_metadata.json` of the job's last end, with links to the parts of its lists."""

    model_config = ConfigDict(extra="allow")

    job_id: str
    scraper_id: str
    status: str
    generation: int
    counts: dict[str, int]
    failures: dict[str, int]
    parts: dict[str, list[PartLink]]


class ResultsPart(BaseModel):
    """The items of one part, as the manifest lists them."""

    job_id: str
    part: int
    items: list[dict[str, Any]]
    of: Literal["full", "success", "errors"] = Field(alias="list")


class ArtifactLink(BaseModel):
    """`link` is None where files cannot be reached by one, or lie in a pack; then download the file here. Size and hash
    are those of the file as it is stored by itself; of one in a pack, those of the file that is downloaded."""

    link: str | None
    seconds: int
    size: int
    sha256: str


@router.get(
    "/jobs/{job_id}/results",
    response_model=Envelope[Results | ResultsPart],
    responses=error_responses(*_NOT_FOUND, ErrorCode.RESULTS_NOT_READY, ErrorCode.CONFLICT),
)
async def results(
    job_id: str,
    controller: Control,
    status: Annotated[Literal["success", "error", "all"] | None, Query(description="Which items; all of them.")] = None,
    part: Annotated[int | None, Query(ge=1, le=10_000_000, description="One part, from 1; none: the sums.")] = None,
) -> Response:
    """What a job that has ended came to: its sums with links to all parts, or the items of one part."""
    standing = await controller.services.store.status(decode_segment(job_id))
    manifest = _manifest(standing)
    if part is None:
        lists = _LISTS if status is None else {status: _LISTS[status]}
        parts = {name: _links(standing, word, manifest["parts"][name]) for word, name in lists.items()}
        return ok(manifest | {"parts": parts})
    name = _LISTS[status or "all"]
    known = manifest["parts"][name]
    if not known and part == 1:
        return ok({"job_id": standing.job.job_id, "list": name, "part": 1, "items": []})
    if part > len(known):
        told = f"the list has {len(known):,} part{'' if len(known) == 1 else 's'}"
        raise invalid_fields([FieldError("part", told, "query")])
    return ok(msgspec.Raw(await _part(controller, standing, known[part - 1]["artifact"])))


def _manifest(status: JobStatus) -> dict[str, Any]:
    job_id = status.job.job_id
    if status.deleting:
        raise Conflict.being_deleted(job_id)
    if not status.state.terminal or status.manifest is None:
        told = f"job {job_id!r} is {status.state.value}; its results are there when it has ended"
        raise ApiError(ErrorCode.RESULTS_NOT_READY, told, {"status": status.state.value})
    return status.manifest


def _links(status: JobStatus, word: str, parts: list[dict[str, Any]]) -> list[PartLink]:
    base = f"/jobs/{quote(status.job.job_id, safe='')}/results?status={word}&part="
    return [
        PartLink(
            part=number,
            items=part["items"],
            size=part["artifact"]["size"],
            sha256=part["artifact"]["sha256"],
            link=f"{base}{number}",
        )
        for number, part in enumerate(parts, start=1)
    ]


async def _part(controller: Controller, status: JobStatus, artifact: dict[str, Any]) -> bytes:
    """The stored document, if it is still that of this end."""
    services, job_id = controller.services, status.job.job_id
    try:
        document = await services.storage.get(job_id, artifact["key"])
    except KeyError:
        document = b""
    if hashlib.sha256(document).hexdigest() == artifact["sha256"]:
        return document
    now = await services.store.status(job_id)
    if (now.generation, now.deleting) == (status.generation, False):
        told = f"the stored part {artifact['key']} of job {job_id!r} is not what was written; see `swath jobs verify`"
        raise StoreDamaged(told, job_id)
    _manifest(now)
    raise Conflict(f"job {job_id!r} has ended again meanwhile; ask anew")


@router.get(
    "/jobs/{job_id}/items/{item_id}/download",
    response_class=Response,
    responses={
        200: {**_FILE, "description": "The file; with `link`, a link to it.", "model": Envelope[ArtifactLink]},
        206: {**_FILE, "description": "The range of it that was asked for."},
        304: {"description": "The caller has it already."},
        **error_responses(
            *_NOT_FOUND, ErrorCode.ITEM_NOT_FOUND, ErrorCode.ARTIFACT_NOT_FOUND, ErrorCode.RANGE_NOT_SATISFIABLE
        ),
    },
)
@router.head("/jobs/{job_id}/items/{item_id}/download", include_in_schema=False)
async def download(
    request: Request,
    job_id: str,
    item_id: str,
    controller: Control,
    artifact: Annotated[
        str, Query(min_length=1, max_length=1_000, examples=["html"], description="html, data, metadata, a name …")
    ] = "data",
    link: Annotated[bool, Query(description="Answer with a link that needs no key, where there can be one.")] = False,
) -> Response:
    """One stored file of an item, unable to do anything: never shown, always saved. `data` is that of the current
    version."""
    services, job, wanted = controller.services, decode_segment(job_id), decode_segment(item_id)
    item = await current_item(services.store, await services.store.status(job), wanted)
    read_here = item.job.job_id == job or artifact in _VERSIONED
    owner, record = (item.job.job_id, item.record) if read_here else (job, item.first)
    found = find_artifact(record, artifact)
    if found is None:
        told = f"item {wanted!r} has no artifact {artifact!r}"
        raise ApiError(ErrorCode.ARTIFACT_NOT_FOUND, told, {"artifacts": artifact_names(record)})
    if link and PackLocation.of(found.key) is None:
        made = await services.storage.link(owner, found.key, LINK_SECONDS)
        return ok(ArtifactLink(link=made, seconds=LINK_SECONDS, size=found.size, sha256=found.sha256))
    accepted = request.headers.get("accept-encoding", "")
    offered = await downloadable(services.storage, owner, record, found, controller.downloads, accepted)
    if link:
        digest = offered.etag.strip('"')
        return ok(ArtifactLink(link=None, seconds=LINK_SECONDS, size=offered.size, sha256=digest))
    return await _send(request, offered)


async def _send(request: Request, offered: DownloadableFile) -> Response:
    """Everything that can go wrong does so before the answer begins, but for a file that changes under way."""
    asked, etag, size = request.headers, offered.etag, offered.size
    headers = {"ETag": etag, "Accept-Ranges": "bytes", **offered.headers}
    kind = safe_content_type(offered.beginning, asked.get("accept", ""))
    if etag in (given.strip().removeprefix("W/") for given in asked.get("if-none-match", "").split(",")):
        return as_attachment(Response(status_code=304), headers, offered.name, kind)
    try:
        span = requested_range(size, asked.get("range"), asked.get("if-range"), etag)
    except RangeNotSatisfiable as refusal:
        ranged = {"Content-Range": f"bytes */{size}"}
        raise ApiError(ErrorCode.RANGE_NOT_SATISFIABLE, str(refusal), headers=ranged) from None
    headers["Content-Length"] = str(span.length)
    if span.ranged:
        headers["Content-Range"] = f"bytes {span.start}-{span.end - 1}/{span.size}"
    body = b"" if request.method == "HEAD" else await offered.body(span)
    status, downloads = 206 if span.ranged else 200, controller_of(request).downloads
    made = Response(body, status) if isinstance(body, bytes) else downloads.answer(body, status)
    return as_attachment(made, headers, offered.name, kind)
