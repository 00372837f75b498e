"""The pages of a chaos job in browsers: what the site sends for an item, and what must be stored of it.

The site sends a script, and the script draws what truth.py foretells. Without a browser there is nothing to read.
"""

from __future__ import annotations

import hashlib
import json

from harness.chaos import expected

__all__ = ["path_of", "sent", "stored"]


def path_of(item_id: str) -> str:
    """Where the item's page is; ids hold characters that addresses do not."""
    return f"/item/{hashlib.sha256(item_id.encode()).hexdigest()[:16]}"


def stored(item_id: str) -> bytes:
    """The page as it stands in the browser when its script has run."""
    return f"<html><head></head><body>{_drawn(item_id)}</body></html>".encode()


def sent(item_id: str) -> bytes:
    """What comes over the wire."""
    told = json.dumps(_drawn(item_id)).replace("</", "<\\/")
    script = f'addEventListener("DOMContentLoaded", () => {{ document.body.innerHTML = {told}; }})'
    return f"<html><head></head><body><script>{script}</script></body></html>".encode()


def _drawn(item_id: str) -> str:
    return expected.page(item_id).decode().removeprefix("<html>").removesuffix("</html>\n")
