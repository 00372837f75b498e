"""Gestures: what a hand does to one element, as Chrome recorded it. The driver waits until it can be done: in sight, at
rest, not disabled, and not covered by anything else.

stage.py has found the element, and comes again with another when this one did not let itself be touched.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from swath.browser.session.calls import Calls

if TYPE_CHECKING:
    from patchright.async_api import CDPSession, ElementHandle

__all__ = ["Touch", "hover", "touch"]

Button = Literal["primary", "auxiliary", "secondary", "back", "forward"]

_BUTTONS: Final[dict[str, Literal["left", "middle", "right"]]] = {
    "primary": "left",
    "auxiliary": "middle",
    "secondary": "right",
}
_BITS: Final = {"back": 8, "forward": 16}
_NO_TOUCH: Final = "does not support tap"
_BOX: Final = """node => {
  const box = node.getBoundingClientRect();
  return [box.width, box.height, node.clientLeft || 0, node.clientTop || 0];
}"""
_CONTENT: Final = """node => {
  const box = node.getBoundingClientRect(), style = getComputedStyle(node);
  return [box.left + node.clientLeft + parseFloat(style.paddingLeft),
          box.top + node.clientTop + parseFloat(style.paddingTop)];
}"""
_POINT: Final = Path(__file__).with_name("point.js").read_text("utf-8")


class Touch(msgspec.Struct, frozen=True, kw_only=True):
    """How an element is clicked on. Offsets outside its box are ignored; where the recorded place is in the box and not
    on the element (inside a ring, beside the lines of a link), the nearest place that is on it is clicked."""

    times: Literal[1, 2] = 1
    button: Button = "primary"
    device: Literal["mouse", "pen", "touch"] = "mouse"
    offset_x: float | None = None
    offset_y: float | None = None
    hold_ms: float | None = None


async def touch(calls: Calls, handle: ElementHandle, how: Touch, ms: float) -> None:
    """Raises the driver's timeout when it cannot be done in that time."""
    position = await _position(handle, how, ms)
    if how.button in _BITS:
        await _unusual(calls, handle, how, position, ms)
        return
    options: dict[str, Any] = {"timeout": ms}
    if position is not None:
        options["position"] = {"x": position[0], "y": position[1]}
    if how.device == "touch" and await _tapped(calls, handle, how, options):
        return
    options |= {"button": _BUTTONS[how.button], "delay": how.hold_ms}
    await (handle.click(**options) if how.times == 1 else handle.dblclick(**options))


async def hover(handle: ElementHandle, ms: float) -> None:
    """The mouse stands over it."""
    await handle.hover(timeout=ms)


async def _position(handle: ElementHandle, how: Touch, ms: float) -> tuple[float, float] | None:
    """Counted from the padding of the element, as the driver does. None: its middle, which is the driver's default."""
    asked = [how.offset_x, how.offset_y]
    found = await handle.evaluate(_POINT, asked)
    if found is None:
        return None
    if not found["plain"]:
        # The driver's own box of a drawing has room for its outline, and that of what is in a frame of another site
        # leaves out the frame's border: so both are measured here, when nothing scrolls any more.
        await handle.scroll_into_view_if_needed(timeout=ms)
        found = await handle.evaluate(_POINT, asked) or found
        box, origin = await handle.bounding_box(), await _origin(handle)
        if box is not None:
            left, top = found["border"]
            x, y = found["at"]
            return x + origin[0] - box["x"] - left, y + origin[1] - box["y"] - top
    return found["position"][0], found["position"][1]


async def _origin(handle: ElementHandle) -> tuple[float, float]:
    """Where the frame of an element begins in its window."""
    x = y = 0.0
    frame = await handle.owner_frame()
    while frame is not None and frame.parent_frame is not None:
        left, top = await (await frame.frame_element()).evaluate(_CONTENT)
        x, y, frame = x + left, y + top, frame.parent_frame
    return x, y


async def _tapped(calls: Calls, handle: ElementHandle, how: Touch, options: dict[str, Any]) -> bool:
    """Whether this browser has a screen to be touched."""
    try:
        for _ in range(how.times):
            await handle.tap(**options)
    except calls.driver_error as error:
        if _NO_TOUCH in str(error):
            return False
        raise
    return True


async def _unusual(
    calls: Calls, handle: ElementHandle, how: Touch, position: tuple[float, float] | None, ms: float
) -> None:
    """The buttons at the side of a mouse, which the driver does not know."""
    await handle.hover(timeout=ms, **({} if position is None else {"position": {"x": position[0], "y": position[1]}}))  # type: ignore[arg-type] # one position or none
    box, cdp = await handle.bounding_box(), calls.cdp
    if box is None or cdp is None:
        return
    left, top = (await handle.evaluate(_BOX))[2:]
    dx, dy = (box["width"] / 2, box["height"] / 2) if position is None else (position[0] + left, position[1] + top)
    await _press(cdp, how, box["x"] + dx, box["y"] + dy)


async def _press(cdp: CDPSession, how: Touch, x: float, y: float) -> None:
    at = {"x": x, "y": y, "button": how.button, "clickCount": 1}
    for count in range(1, how.times + 1):
        pressed = {**at, "type": "mousePressed", "buttons": _BITS[how.button], "clickCount": count}
        await cdp.send("Input.dispatchMouseEvent", pressed)
        await cdp.send("Input.dispatchMouseEvent", {**at, "type": "mouseReleased", "buttons": 0, "clickCount": count})
