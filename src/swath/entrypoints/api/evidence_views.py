"""Evidence of an item as the API shows it, declared for OpenAPI (R8): its values, and the pages that they come from.

Before: pipeline/results/evidence.py makes it. After: a part of the item in views.py.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from swath.domain.transitions import ItemState

__all__ = ["EvidenceView"]


class SourceView(BaseModel):
    """A page of an item, and the stored file that has it; `sha256` is of the body as fetched."""

    name: str
    url: str
    status: int
    fetched_at: float
    sha256: str
    size: int
    from_cache: bool
    file: str | None
    artifact: str | None


class ValueView(BaseModel):
    """One field of a record. `pages`: what the record was extracted from; `found_in`: where its text occurs."""

    record: int
    field: str
    value: str | int | float | bool | None
    pages: list[str]
    found_in: list[str] | None


class EvidenceView(BaseModel):
    """How the item has ended in the current version, and from its values back to their pages, which are stored with the
    job `job_id`. `damage`: files that cannot be read."""

    version: int
    scraper_id: str
    scraper_version: str
    state: ItemState
    outcome: str | None
    failure: dict[str, Any] | None
    reason: str | None
    job_id: str
    generation: int | None
    proxy_tier: str | None
    pages: list[SourceView]
    values: list[ValueView]
    damage: list[str]
