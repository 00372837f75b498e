"""Scrolling, for pages that load their rows when one comes to them: a screen at a time, until nothing more comes.

session.py bounds it in time; here it is bounded in number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from patchright.async_api import Frame, Page

__all__ = ["scroll_once", "scroll_to_end"]

_ONCE: Final = "() => window.scrollBy(0, window.innerHeight * 0.9)"
# Waits in the page until it has grown, or has rested for so long.
_GROWN: Final = """async ([rest]) => {
  const height = () => document.documentElement.scrollHeight;
  const before = height();
  window.scrollTo(0, before);
  const until = performance.now() + rest;
  while (performance.now() < until) {
    await new Promise(done => setTimeout(done, 25));
    if (height() > before) return true;
  }
  return false;
}"""


async def scroll_once(page: Page) -> None:
    """One screen down."""
    await page.evaluate(_ONCE)


async def scroll_to_end(page: Page | Frame, most: int, rest_ms: float) -> int:
    """How often it went down before the page had not grown for `rest_ms`."""
    for number in range(1, most + 1):
        if not await page.evaluate(_GROWN, [rest_ms]):
            return number
    return most
