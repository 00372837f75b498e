"""Alternatives of a selector as recorders write them, some of which nobody could use: those are dropped with a remark
as long as others stand beside them.

Used by chrome.py and mapped.py before a step is made. When none can be used, the step is refused with the reason.
"""

from __future__ import annotations

from typing import Any, Final

from swath.actions.checking.selectors import objection_to_selector
from swath.actions.importing.imported import Remark
from swath.actions.language.selector import MOST_ALTERNATIVES, MOST_PARTS, MOST_SELECTOR_CHARS

__all__ = ["usable"]

_MOST_SHOWN: Final = 80


def usable(on: Any, place: str, remarks: list[Remark], *, stored: bool = False) -> Any:
    """Those that can be used, if there are any; else all of them. `stored`: they are for stored pages."""
    if not isinstance(on, list):
        return on
    objections = [_objection(one, stored=stored) for one in on]
    kept = [one for one, objection in zip(on, objections, strict=True) if objection is None]
    if not kept:
        return on
    remarks += [
        Remark(f"the selector {objection}, and is dropped; others stay", place) for objection in objections if objection
    ]
    if len(kept) > MOST_ALTERNATIVES:
        told = f"has {len(kept)} selectors for one element; the first {MOST_ALTERNATIVES} stay"
        remarks.append(Remark(told, place))
    return kept[:MOST_ALTERNATIVES]


def _objection(chain: Any, *, stored: bool) -> str | None:
    parts = [chain] if isinstance(chain, str) else chain
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        return None  # no selector at all, which is said when the step is made
    if not parts or len(parts) > MOST_PARTS:
        return f"{_shown(chain)} has {len(parts)} parts"
    for part in parts:
        if len(part) > MOST_SELECTOR_CHARS:
            return f"{_shown(part)} has more than {MOST_SELECTOR_CHARS:,} characters"
        try:
            objection = objection_to_selector(part, stored=stored)
        except ValueError as error:
            return f"{_shown(part)} cannot be read: {error}"
        if objection is not None:
            return objection
    return None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"
