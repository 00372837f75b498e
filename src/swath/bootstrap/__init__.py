"""The one place where implementations are chosen and joined, by plain constructor calls."""

from __future__ import annotations

from swath.bootstrap.browsers import require_browser
from swath.bootstrap.network import Outside, listening_ports, make_guard, make_network, open_outside
from swath.bootstrap.services import (
    Services,
    check_services,
    make_directory,
    make_registry,
    new_worker_id,
    open_services,
    open_sites,
    require_aws,
)
from swath.bootstrap.trying import open_visit
from swath.bootstrap.workers import make_finisher, make_keeper, make_remover, make_worker

__all__ = [
    "Outside",
    "Services",
    "check_services",
    "listening_ports",
    "make_directory",
    "make_finisher",
    "make_guard",
    "make_keeper",
    "make_network",
    "make_registry",
    "make_remover",
    "make_worker",
    "new_worker_id",
    "open_outside",
    "open_services",
    "open_sites",
    "open_visit",
    "require_aws",
    "require_browser",
]
