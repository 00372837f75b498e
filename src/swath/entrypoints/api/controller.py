"""What the routes work with: services, settings and the limits shared by all requests of one `swath serve`."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import Depends, Request

from swath.bootstrap.network import OutboundAccess
from swath.bootstrap.services import Services
from swath.entrypoints.api.auth import Authenticator, CallerLimits
from swath.entrypoints.api.downloads import DownloadSlots, ExportSlots
from swath.entrypoints.api.events import EventHub
from swath.entrypoints.api.limits import LoadLimits, QueueDepth
from swath.entrypoints.api.request_body import BodySlots
from swath.pipeline.worker.worker import Worker
from swath.sdk.registry import Registry
from swath.settings import Settings

__all__ = ["Control", "Controller", "controller_of"]


class Controller(msgspec.Struct, frozen=True, kw_only=True):
    """One process of `swath serve`. `outside` are its ways out: for robots.txt, and for addresses that callers give.
    `worker` is the one in the same process, if there is one. `started_at` in Unix seconds."""

    services: Services
    registry: Registry
    doorkeeper: Authenticator
    hub: EventHub
    outside: OutboundAccess
    worker: Worker | None = None
    started_at: float = 0.0
    bodies: BodySlots = msgspec.field(default_factory=BodySlots)
    shares: CallerLimits = msgspec.field(default_factory=CallerLimits)
    loads: LoadLimits = msgspec.field(default_factory=LoadLimits)
    downloads: DownloadSlots = msgspec.field(default_factory=DownloadSlots)
    exports: ExportSlots = msgspec.field(default_factory=ExportSlots)
    depth: QueueDepth = msgspec.field(default_factory=QueueDepth)

    @property
    def settings(self) -> Settings:
        """Those that its services were opened with."""
        return self.services.settings


def controller_of(request: Request) -> Controller:
    """The controller of the app that serves this request."""
    controller: Controller = request.app.state.controller
    return controller


Control = Annotated[Controller, Depends(controller_of)]
