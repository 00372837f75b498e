"""Runs a scraper's `extract` over pages and checks its record. No network, no clock: the same pages give the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Any, Final

import msgspec
from pydantic import BaseModel, ValidationError

from swath.domain.errors import Failed, SwathError
from swath.domain.failure import Failure, FailureKind
from swath.domain.result import Page
from swath.sdk import models
from swath.sdk.pages import Pages
from swath.sdk.scraper import Scraper

__all__ = ["extract_record"]

_PLAIN: Final = frozenset({str, int, bool, type(None)})  # what is neither a number with a fraction nor holds others


def extract_record(scraper: Scraper, pages: Sequence[Page] | Pages) -> Any:
    """JSON-ready data, or None when the scraper only collects pages.

    Raises NotFound when the scraper does, and Failed: invalid_output when the record does not fit, internal when the
    scraper's code broke.
    """
    if not scraper.has_extract:
        return None
    try:
        record = scraper.extract(pages if isinstance(pages, Pages) else Pages.stored(pages))
        if record is None:
            raise _invalid("extract returned nothing; raise NotFound if there is no such record")
        checked = (
            [_validated_record(scraper, one) for one in record]
            if isinstance(record, list)
            else _validated_record(scraper, record)
        )
        _validated_plain(scraper, checked)
        data = [_as_json(one) for one in checked] if isinstance(checked, list) else _as_json(checked)
        _check_finite(data)
        return data
    except SwathError:
        raise
    except ValidationError as error:
        raise _invalid(models.explain(error)) from error
    except Exception as error:
        raise Failed(scraper.blame(error)) from error


def _validated_record(scraper: Scraper, record: Any) -> Any:
    """The record as the output model has it; anything goes when the scraper declares no output."""
    if scraper.Output is models.Output:
        return record
    if type(record) is dict:  # as most are; to ask what else it could be takes as long as to look it over
        return scraper.Output.model_validate(record)
    if isinstance(record, scraper.Output):
        return record
    if isinstance(record, BaseModel):
        raise _invalid(f"extract returned a {type(record).__name__}, not the scraper's Output")
    return scraper.Output.model_validate(record)


def _validated_plain(scraper: Scraper, checked: Any) -> None:
    if type(scraper).validate_result is Scraper.validate_result:
        return
    for record in checked if isinstance(checked, list) else (checked,):
        try:
            scraper.validate_result(record)
        except (ValueError, AssertionError) as error:
            raise _invalid(f"validate_result: {error}") from error


def _as_json(record: Any) -> Any:
    if isinstance(record, BaseModel):
        return record.model_dump(mode="json")
    try:
        return msgspec.to_builtins(record, str_keys=True)
    except TypeError as error:
        raise _invalid(f"the record cannot be written as JSON: {error}") from error


def _check_finite(data: Any) -> None:
    place = _not_finite(data)
    if place is not None:
        where = f"{'.'.join(map(str, place))}: " if place else ""
        raise _invalid(f"{where}must be a finite number; nan and infinity cannot be written as JSON")


def _not_finite(data: Any) -> tuple[str | int, ...] | None:
    """Where there is a number that JSON would turn into null. Every record comes here, and most hold none at all."""
    if isinstance(data, float):
        return None if isfinite(data) else ()
    parts: Iterable[tuple[str | int, Any]] = ()
    if isinstance(data, dict):
        parts = () if _PLAIN.issuperset(map(type, data.values())) else data.items()
    elif isinstance(data, list):
        parts = enumerate(data)
    for name, part in parts:
        found = _not_finite(part)
        if found is not None:
            return (name, *found)
    return None


def _invalid(message: str) -> Failed:
    return Failed(Failure.of(FailureKind.INVALID_OUTPUT, message))
