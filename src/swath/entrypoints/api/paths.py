"""Ids in addresses: any text, each byte of it as %XX if need be, slashes too. Used by the routes as parameter types."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Path
from pydantic import AfterValidator

from swath.domain.item import ITEM_ID_LIMIT
from swath.domain.job import JOB_ID_LIMIT
from swath.entrypoints.api.edge import segment_text

__all__ = ["ItemId", "JobId"]

_LONGEST: Final = 12  # characters that one of an id may take: four bytes as %XX


def _job_id(segment: str) -> str:
    return _short_enough(segment_text(segment), JOB_ID_LIMIT)


def _item_id(segment: str) -> str:
    return _short_enough(segment_text(segment), ITEM_ID_LIMIT)


def _short_enough(given: str, limit: int) -> str:
    if len(given) > limit:
        raise ValueError(f"has {len(given):,} characters, and no such id has more than {limit:,}")
    return given


JobId = Annotated[
    str,
    Path(description="URL-encoded if it is not plain.", examples=["test-001"], max_length=JOB_ID_LIMIT * _LONGEST),
    AfterValidator(_job_id),
]
ItemId = Annotated[
    str,
    Path(description="URL-encoded if it is not plain.", examples=["item-1"], max_length=ITEM_ID_LIMIT * _LONGEST),
    AfterValidator(_item_id),
]
