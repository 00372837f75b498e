"""The value of a form's field on a stored page: what the browser had in it, as the snapshot wrote it down.

Asked by rules.py for kind `value`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

__all__ = ["value_of"]


def value_of(node: LexborNode) -> str:
    """What a form would send of it; for a box to tick `yes` or `no`, for anything else its `value` or its text."""
    attributes = node.attributes
    if node.tag == "select":
        return _chosen(node)
    if node.tag == "input" and (attributes.get("type") or "").lower() in {"checkbox", "radio"}:
        return "yes" if "checked" in attributes else "no"
    if "value" in attributes or node.tag == "input":
        return attributes.get("value") or ""
    return node.text() or ""


def _chosen(select: LexborNode) -> str:
    """Of several marked options the last counts; without any, a drop-down has its first."""
    options = select.css("option")
    chosen = [option for option in options if "selected" in option.attributes]
    attributes = select.attributes
    is_list = "multiple" in attributes or (attributes.get("size") or "1").strip() not in {"0", "1"}
    if not chosen and not is_list:
        chosen = options[:1]
    if not chosen:
        return ""
    own = chosen[-1].attributes
    return (own["value"] or "") if "value" in own else " ".join((chosen[-1].text() or "").split())
