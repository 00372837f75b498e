"""Items of a job: `GET /jobs/{id}/items` by pages, and `GET /jobs/{id}/items/{item_id}` with all that is known (R8).

After: results.py serves what an item brought.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from swath.domain.explain import near
from swath.domain.failure import FailureKind
from swath.domain.held import waits_for
from swath.domain.item import ItemFilter
from swath.domain.service_key import Scope
from swath.domain.transitions import ItemState
from swath.entrypoints.api.controller import Control
from swath.entrypoints.api.envelope import Envelope, ok
from swath.entrypoints.api.errors import ErrorCode, declared
from swath.entrypoints.api.gate import needs
from swath.entrypoints.api.paths import ItemId, JobId
from swath.entrypoints.api.problems import Problem, refused_fields
from swath.entrypoints.api.routing import ApiRoute
from swath.entrypoints.api.views import ItemList, OneItemView, listed_item, one_item
from swath.pipeline.results.evidence import evidence_of

__all__ = ["router"]

router = APIRouter(tags=["items"], route_class=ApiRoute)

_KINDS = frozenset({"not_found", *(kind.value for kind in FailureKind)})


@router.get(
    "/jobs/{job_id}/items",
    response_model=Envelope[ItemList],
    responses=declared(ErrorCode.JOB_NOT_FOUND),
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
        raise refused_fields([Problem("kind", f"there is no such failure kind{near(kind, _KINDS)}", "query")])
    store = controller.services.store
    job = (await store.status(job_id)).job
    page = await store.find_items(job_id, ItemFilter(state, kind), cursor, limit)
    following = None if page.next_after is None else str(page.next_after)
    return ok({"items": [listed_item(job, record) for record in page.items], "next_cursor": following})


@router.get(
    "/jobs/{job_id}/items/{item_id}",
    response_model=Envelope[OneItemView],
    responses=declared(ErrorCode.JOB_NOT_FOUND, ErrorCode.ITEM_NOT_FOUND),
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
            found = await evidence_of(store, controller.services.storage, status, item_id)
    waits = waits_for(status, record, controller.services.clock.now())
    return ok(one_item(status.job, record, found, waits))
