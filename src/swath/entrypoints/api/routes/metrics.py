"""`GET /metrics` for Prometheus: the figures of this process and of the store (I4, O2)."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import APIRouter, Depends, Response

from swath.domain.service_key import Scope
from swath.entrypoints.api.controller import Control, Controller
from swath.entrypoints.api.routes.health import ServiceHealthOf
from swath.entrypoints.api.routing import ApiRoute, needs
from swath.observability.counters import FIGURES
from swath.observability.prometheus import CONTENT_TYPE, Gauge, render_metrics

__all__ = ["router"]

router = APIRouter(tags=["service"], route_class=ApiRoute)


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"example": 'swath_items_total{state="success",kind="none"} 2.0'}}}},
    dependencies=[Depends(needs(Scope.READ))],
)
async def metrics(controller: Control, standing: ServiceHealthOf) -> Response:
    """The figures of this process and of the store, as text for Prometheus."""
    look = await standing.look()
    gauges = [*look.gauges(), *_proxy_gauges(controller)]
    return Response(render_metrics(FIGURES, gauges), headers={"Content-Type": CONTENT_TYPE})


def _proxy_gauges(controller: Controller) -> Iterator[Gauge]:
    health = controller.outside.network.ways.health()
    found = {tier.value: proxies.values() for tier, proxies in health.items()}
    well = {tier: sum(one.well for one in proxies) for tier, proxies in found.items()}
    yield Gauge("swath_proxies_well", "Proxies that take part.", well, "tier")
    successes = {tier: sum(one.successes for one in proxies) for tier, proxies in found.items()}
    yield Gauge("swath_proxy_successes", "Tries that a proxy brought an answer to.", successes, "tier", counts_up=True)
    failures = {tier: sum(one.failures for one in proxies) for tier, proxies in found.items()}
    yield Gauge("swath_proxy_failures", "Tries that failed by a proxy's fault.", failures, "tier", counts_up=True)
