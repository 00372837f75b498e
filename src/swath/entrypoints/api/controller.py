"""Controller: what the routes work with. Made by `swath serve` and handed to app.py; routes ask for it by `Control`.

The way of a request: edge.py → routing.py (its key by gate.py, its body) → routes/ → envelope.py.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import Depends, Request

from swath.bootstrap.network import Outside
from swath.bootstrap.services import Services
from swath.entrypoints.api.doorkeeper import Doorkeeper
from swath.entrypoints.api.exports import Exports
from swath.entrypoints.api.hub import Hub
from swath.entrypoints.api.inert import Downloads
from swath.entrypoints.api.loads import Loads
from swath.entrypoints.api.queue_depth import QueueDepth
from swath.entrypoints.api.request_body import BodyPlaces
from swath.entrypoints.api.shares import Shares
from swath.kit.registry import Registry
from swath.pipeline.execute.worker import Worker
from swath.settings import Settings

__all__ = ["Control", "Controller", "controller_of"]


class Controller(msgspec.Struct, frozen=True, kw_only=True):
    """One process of `swath serve`. `outside` are its ways out: for robots.txt, and for addresses that callers give.
    `worker` is the one in the same process, if there is one. `started_at` in Unix seconds."""

    services: Services
    registry: Registry
    doorkeeper: Doorkeeper
    hub: Hub
    outside: Outside
    worker: Worker | None = None
    started_at: float = 0.0
    bodies: BodyPlaces = msgspec.field(default_factory=BodyPlaces)
    shares: Shares = msgspec.field(default_factory=Shares)
    loads: Loads = msgspec.field(default_factory=Loads)
    downloads: Downloads = msgspec.field(default_factory=Downloads)
    exports: Exports = msgspec.field(default_factory=Exports)
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
