"""The delivery log of a job's webhooks, and sending one again (N1)."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Response
from pydantic import BaseModel, ConfigDict, Field

from swath.domain.service_key import Scope
from swath.domain.webhook import WebhookState
from swath.entrypoints.api.controller import Control
from swath.entrypoints.api.envelope import Envelope, ok
from swath.entrypoints.api.errors import ErrorCode, error_responses
from swath.entrypoints.api.request_body import StrictBody
from swath.entrypoints.api.routing import ApiRoute, JobId, needs
from swath.integrations.webhooks.delivery_log import delivery_log_entry, schedule_resend

__all__ = ["router"]

router = APIRouter(route_class=ApiRoute, tags=["webhooks"])

_ID = "wh_1f8f6a1c2d3e4f0f9d8b0b8f2f0e4b6b"
_EXAMPLE: dict[str, Any] = {
    "webhook_id": _ID,
    "job_id": "test-001",
    "generation": 1,
    "url": "https://example.com/hooks/swath",
    "created_at": 1_767_225_600.0,
    "state": "delivered",
    "due_at": None,
    "tries": 1,
    "deliveries": [{"at": 1_767_225_600.1, "seconds": 0.084, "status": 200, "error": None}],
    "status": "completed",
}


class DeliveryEntry(BaseModel):
    """One try: the status of the answer, or why there was none. `at` in Unix seconds."""

    at: float
    seconds: float
    status: int | None = None
    error: str | None = None


class WebhookEntry(BaseModel):
    """One end of one generation of a job, for one URL. `status` is how the job ended, `due_at` when it is sent next."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    webhook_id: str
    job_id: str
    generation: int
    url: str
    created_at: float
    state: WebhookState
    due_at: float | None = None
    tries: int
    deliveries: list[DeliveryEntry]
    status: str | None = None


class ResendBody(StrictBody):
    """Which one; without it, that of the job's last end."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"webhook_id": _ID}]})

    webhook_id: str | None = Field(default=None, max_length=100)


@router.get(
    "/jobs/{job_id}/webhooks",
    response_model=Envelope[list[WebhookEntry]],
    responses=error_responses(ErrorCode.JOB_NOT_FOUND, ErrorCode.STORE_UNAVAILABLE),
    dependencies=[Depends(needs(Scope.READ))],
)
async def list_webhooks(job_id: JobId, controller: Control) -> Response:
    """The delivery log: one entry for each generation that had a webhook, the oldest first."""
    found = await controller.services.store.webhooks(job_id)
    return ok(
        [delivery_log_entry(webhook, controller.settings.webhook_url, controller.services.clock) for webhook in found]
    )


@router.post(
    "/jobs/{job_id}/webhooks/resend",
    status_code=202,
    response_model=Envelope[WebhookEntry],
    responses=error_responses(ErrorCode.JOB_NOT_FOUND, ErrorCode.CONFLICT, ErrorCode.STORE_UNAVAILABLE),
    dependencies=[Depends(needs(Scope.SUBMIT))],
)
async def resend_webhook(
    job_id: JobId, controller: Control, body: Annotated[ResendBody | None, Body()] = None
) -> Response:
    """Sends the webhook again, under the same id; 409 when the job has none, or none of that id."""
    services, wanted = controller.services, None if body is None else body.webhook_id
    webhook = await schedule_resend(services.store, services.clock, job_id, wanted)
    controller.outside.courier.wanted.set()
    return ok(delivery_log_entry(webhook, controller.settings.webhook_url, controller.services.clock), 202)
