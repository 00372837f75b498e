"""Renders the counters of the process and gauges of the store as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from swath.observability.counters import Histogram, ProcessCounters

__all__ = ["CONTENT_TYPE", "Gauge", "render_metrics"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Gauge(msgspec.Struct, frozen=True):
    """A figure that is what it is now. `values` by the value of the label; by "" when there is none."""

    name: str
    help: str
    values: Mapping[str, float]
    label: str | None = None
    counts_up: bool = False


def render_metrics(figures: ProcessCounters, gauges: Iterable[Gauge] = ()) -> bytes:
    """The text that Prometheus reads, with what the platform says of the process."""

    class Told(Collector):
        def collect(self) -> Iterable[Metric]:
            yield from _counted(figures)
            if figures.browsers is not None:
                told = "Browsers, their places and sessions, and what went through them."
                yield _gauged(Gauge("swath_browsers", told, figures.browsers(), "what"))
            yield from (_gauged(gauge) for gauge in gauges)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Told())
    ProcessCollector(registry=registry)
    return generate_latest(registry)


def _counted(figures: ProcessCounters) -> Iterator[Metric]:
    def counter(name: str, told: str, labels: Sequence[str], values: Iterable[tuple[tuple[str, ...], int]]) -> Metric:
        family = CounterMetricFamily(name, told, labels=labels)
        for label, count in values:
            family.add_metric(label, count)
        return family

    def spread(name: str, told: str, one: Histogram | Mapping[str, Histogram], label: str | None = None) -> Metric:
        family = HistogramMetricFamily(name, told, labels=() if label is None else (label,))
        for value, found in {"": one}.items() if isinstance(one, Histogram) else one.items():
            family.add_metric([] if label is None else [value], found.up_to(), found.total)
        return family

    def single(values: Mapping[str, int]) -> list[tuple[tuple[str, ...], int]]:
        return [((label,), count) for label, count in values.items()]

    yield counter("swath_items", "Items whose end was committed here.", ("state", "kind"), figures.items.items())
    yield counter("swath_attempts", "Tries at items, by failure.", ("kind",), single(figures.attempts))
    yield spread("swath_attempt_seconds", "How long a try took.", figures.attempt_seconds)
    yield counter("swath_site_requests", "Requests sent, by site policy.", ("site",), single(figures.site_requests))
    told = "Requests sent, by domain: the busiest by name, all others as `other`."
    yield counter("swath_domain_requests", told, ("domain",), single(figures.domain_requests.shown()))
    received = single(figures.received_bytes)
    yield counter("swath_received_bytes", "Bytes over the wire, by site policy.", ("site",), received)
    told = "Answers taken from the response cache, for which nothing was sent."
    yield counter("swath_cache_hits", told, (), [((), figures.cache_hits)])
    yield spread("swath_commit_seconds", "How long a commit took.", figures.commit_seconds)
    yield counter("swath_committed_items", "Ends that commits tried to write.", (), [((), figures.committed_items)])
    yield counter(
        "swath_http_requests", "Requests to the API.", ("method", "route", "status"), figures.requests.items()
    )
    yield spread("swath_http_request_seconds", "How long an answer of the API took.", figures.request_seconds, "route")


def _gauged(gauge: Gauge) -> Metric:
    labels = () if gauge.label is None else (gauge.label,)
    made = CounterMetricFamily if gauge.counts_up else GaugeMetricFamily
    family = made(gauge.name, gauge.help, labels=labels)
    for label, value in gauge.values.items():
        family.add_metric([] if gauge.label is None else [label], value)
    return family
