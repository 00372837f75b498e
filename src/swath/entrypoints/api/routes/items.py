"""`GET /jobs/{id}/items` by pages, and `GET /jobs/{id}/items/{item_id}` with attempts, artifacts and evidence (R8)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from swath.domain.failure import FailureKind
from swath.domain.item import ItemFilter
from swath.domain.service_key import Scope
from swath.domain.transitions import ItemState
from swath.domain.validation_messages import did_you_mean
from swath.domain.waiting_messages import item_wait_message
from swath.entrypoints.api.controller import Control
from swath.entrypoints.api.envelope import Envelope, ok
from swath.entrypoints.api.errors import ErrorCode, error_responses
from swath.entrypoints.api.models import ItemList, OneItemView, full_item_view, item_view
from swath.entrypoints.api.routing import ApiRoute, ItemId, JobId, needs
from swath.entrypoints.api.validation_errors import FieldError, invalid_fields
from swath.pipeline.results.provenance import find_evidence

__all__ = ["router"]

router = APIRouter(tags=["items"], route_class=ApiRoute)

_KINDS = frozenset({"not_found", *(kind.value for kind in FailureKind)})


@router.get(
    "/jobs/{job_id}/items",
    response_model=Envelope[ItemList],
    responses=error_responses(ErrorCode.JOB_NOT_FOUND),
    dependencies=[Depends(needs(Scope.READ))],
)
async def list_items(
    controller: Control,
    job_id: JobId,
    state: Annotated[ItemState | None, Query(description="Only items in this state.")] = None,
    kind: Annotated[str | None, Query(max_length=50, description="Only this kind of failure, or `not_found`.")] = None,
    cursor: Annotated[int, Query(ge=0, le=2**53, description="`next_cursor` of the page before.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> Response:
    """Items by their place in the job, each page at the same cost wherever it is."""
    if kind is not None and kind not in _KINDS:
        raise invalid_fields(
            [FieldError("kind", f"there is no such failure kind{did_you_mean(kind, _KINDS)}", "query")]
        )
    store = controller.services.store
    job = (await store.status(job_id)).job
    page = await store.find_items(job_id, ItemFilter(state, kind), cursor, limit)
    following = None if page.next_after is None else str(page.next_after)
    return ok({"items": [item_view(job, record) for record in page.items], "next_cursor": following})


@router.get(
    "/jobs/{job_id}/items/{item_id}",
    response_model=Envelope[OneItemView],
    responses=error_responses(ErrorCode.JOB_NOT_FOUND, ErrorCode.ITEM_NOT_FOUND),
    dependencies=[Depends(needs(Scope.READ))],
)
async def show_item(
    controller: Control,
    job_id: JobId,
    item_id: ItemId,
    evidence: Annotated[bool, Query(description="With each value, and the pages that it was extracted from.")] = False,
) -> Response:
    """One item with its attempts, its artifacts, and its ends in earlier generations."""
    store, found = controller.services.store, None
    status = await controller.services.status(job_id)
    record = await store.item(job_id, item_id)
    if evidence:
        async with controller.downloads.unpacking:
            found = await find_evidence(store, controller.services.storage, status, item_id)
    waits = item_wait_message(status, record, controller.services.clock.now())
    return ok(full_item_view(status.job, record, found, waits))
