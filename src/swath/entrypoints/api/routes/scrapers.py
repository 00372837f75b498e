"""`GET /scrapers`: the scrapers that jobs may name. None is imported for it."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Depends, Response

from swath.domain.service_key import Scope
from swath.entrypoints.api.controller import Control
from swath.entrypoints.api.envelope import Envelope, ok
from swath.entrypoints.api.models import ScraperList
from swath.entrypoints.api.routing import ApiRoute, needs
from swath.sdk.declaration import ScraperInfo

__all__ = ["router"]

router = APIRouter(tags=["scrapers"], route_class=ApiRoute)


@router.get("/scrapers", response_model=Envelope[ScraperList], dependencies=[Depends(needs(Scope.READ))])
async def list_scrapers(controller: Control) -> Response:
    """The scrapers that can be run here, by id."""
    infos = await asyncio.to_thread(controller.registry.infos)
    return ok({"scrapers": [_view(info) for info in infos]})


def _view(info: ScraperInfo) -> dict[str, Any]:
    """Where a file of the controller's machine lies is nobody's business."""
    told = info.origin if info.origin == "shipped" or info.origin.startswith("package ") else "file"
    return {
        "scraper_id": info.id,
        "name": info.name,
        "version": info.version,
        "description": info.description,
        "sites": list(info.sites),
        "origin": told,
    }
