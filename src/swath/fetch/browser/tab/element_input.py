"""Acts on one element that was found: clicks, hovers, fills a field, chooses an option, uploads a file.

The driver waits until the element is visible, at rest, enabled and not covered. Raises ElementNotReady for what the
page may still change, such as a missing option.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.fetch.browser.tab.calls import DriverCalls
from swath.fetch.browser.tab.step_target import Deadline

if TYPE_CHECKING:
    from patchright.async_api import CDPSession, ElementHandle, FilePayload

__all__ = [
    "ClickOptions",
    "ElementNotReady",
    "choose_option",
    "click_element",
    "fill_field",
    "hover_element",
    "set_checked",
    "upload_file",
]


class ElementNotReady(Exception):
    """`why` goes on after what the element is called; `kind` is what it is when it stays so."""

    def __init__(self, why: str, kind: FailureKind) -> None:
        super().__init__(why)
        self.why = why
        self.kind = kind


Button = Literal["primary", "auxiliary", "secondary", "back", "forward"]

_BUTTONS: Final[dict[str, Literal["left", "middle", "right"]]] = {
    "primary": "left",
    "auxiliary": "middle",
    "secondary": "right",
}
_SIDE_BUTTONS: Final = {"back": 8, "forward": 16}
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
_CLICK_POINT: Final = Path(__file__).with_name("point.js").read_text("utf-8")


class ClickOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How an element is clicked on. Offsets outside its box are ignored; where the recorded place is in the box and not
    on the element (inside a ring, beside the lines of a link), the nearest place that is on it is clicked."""

    times: Literal[1, 2] = 1
    button: Button = "primary"
    device: Literal["mouse", "pen", "touch"] = "mouse"
    offset_x: float | None = None
    offset_y: float | None = None
    hold_ms: float | None = None


async def click_element(calls: DriverCalls, handle: ElementHandle, how: ClickOptions, ms: float) -> None:
    """Raises the driver's timeout when it cannot be done in that time."""
    position = await _position(handle, how, ms)
    if how.button in _SIDE_BUTTONS:
        await _click_side_button(calls, handle, how, position, ms)
        return
    options: dict[str, Any] = {"timeout": ms}
    if position is not None:
        options["position"] = {"x": position[0], "y": position[1]}
    if how.device == "touch" and await _tap(calls, handle, how, options):
        return
    options |= {"button": _BUTTONS[how.button], "delay": how.hold_ms}
    await (handle.click(**options) if how.times == 1 else handle.dblclick(**options))


async def hover_element(handle: ElementHandle, ms: float) -> None:
    """The mouse stands over it."""
    await handle.hover(timeout=ms)


async def _position(handle: ElementHandle, how: ClickOptions, ms: float) -> tuple[float, float] | None:
    """Counted from the padding of the element, as the driver does. None: its middle, which is the driver's default."""
    asked = [how.offset_x, how.offset_y]
    found = await handle.evaluate(_CLICK_POINT, asked)
    if found is None:
        return None
    if not found["plain"]:
        # The driver's own box of a drawing has room for its outline, and that of what is in a frame of another site
        # leaves out the frame's border: so both are measured here, when nothing scrolls any more.
        await handle.scroll_into_view_if_needed(timeout=ms)
        found = await handle.evaluate(_CLICK_POINT, asked) or found
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


async def _tap(calls: DriverCalls, handle: ElementHandle, how: ClickOptions, options: dict[str, Any]) -> bool:
    """Whether this browser has a screen to be touched."""
    try:
        for _ in range(how.times):
            await handle.tap(**options)
    except calls.driver_error as error:
        if _NO_TOUCH in str(error):
            return False
        raise
    return True


async def _click_side_button(
    calls: DriverCalls, handle: ElementHandle, how: ClickOptions, position: tuple[float, float] | None, ms: float
) -> None:
    """The buttons at the side of a mouse, which the driver does not know."""
    await handle.hover(timeout=ms, **({} if position is None else {"position": {"x": position[0], "y": position[1]}}))  # type: ignore[arg-type] # one position or none
    box, cdp = await handle.bounding_box(), calls.cdp
    if box is None or cdp is None:
        return
    left, top = (await handle.evaluate(_BOX))[2:]
    dx, dy = (box["width"] / 2, box["height"] / 2) if position is None else (position[0] + left, position[1] + top)
    await _press_side_button(cdp, how, box["x"] + dx, box["y"] + dy)


async def _press_side_button(cdp: CDPSession, how: ClickOptions, x: float, y: float) -> None:
    at = {"x": x, "y": y, "button": how.button, "clickCount": 1}
    for count in range(1, how.times + 1):
        pressed = {**at, "type": "mousePressed", "buttons": _SIDE_BUTTONS[how.button], "clickCount": count}
        await cdp.send("Input.dispatchMouseEvent", pressed)
        await cdp.send("Input.dispatchMouseEvent", {**at, "type": "mouseReleased", "buttons": 0, "clickCount": count})


_MOST_KEYS: Final = 100  # longer texts are put in at once, as Puppeteer does it
_TRUE: Final = frozenset({"true", "on", "yes", "1", "checked"})
_FALSE: Final = frozenset({"false", "off", "no", "0", ""})
_FIELD_KIND: Final = """node => {
  const boxes = ["text", "url", "tel", "search", "number", "email"];
  if (node instanceof HTMLSelectElement) return "list";
  if (node instanceof HTMLTextAreaElement) return "box";
  if (node instanceof HTMLInputElement) {
    if (["checkbox", "radio"].includes(node.type)) return "tick";
    if (node.type === "password") return "password";
    return node.type === "file" ? "file" : boxes.includes(node.type) ? "box" : "other";
  }
  return node.isContentEditable ? "editable" : "none";
}"""
# What is still to be typed. A box that holds a part of it already keeps that, with the cursor behind it.
_REMAINING_TEXT: Final = """(node, text) => {
  const box = "value" in node, now = box ? node.value : node.innerText;
  const goesOn = now.length < text.length && text.startsWith(now);
  if (box) {
    node.value = "";
    if (goesOn) node.value = now;
  } else if (!goesOn) node.innerText = "";
  else {
    const selection = getSelection();
    selection.selectAllChildren(node);
    selection.collapseToEnd();
  }
  return goesOn ? text.slice(now.length) : text;
}"""
_SET_VALUE: Final = """(node, text) => {
  if ("value" in node) node.value = text;
  else node.innerText = text;
  for (const name of ["input", "change"]) node.dispatchEvent(new Event(name, {bubbles: true, composed: true}));
  return !("value" in node) || node.value === text || (text !== "" && node.value !== "");
}"""
_DISPATCH_CHANGE: Final = """node => {
  for (const name of ["input", "change"]) node.dispatchEvent(new Event(name, {bubbles: true, composed: true}));
}"""
_OPTION_INDEX: Final = """(node, wanted) => {
  if (!(node instanceof HTMLSelectElement)) return -2;
  const flat = text => text.replace(/\\s+/g, " ").trim(), options = [...node.options];
  const by = test => options.findIndex(one => test(one) && !one.disabled);
  const value = by(one => one.value === wanted);
  return value >= 0 ? value : by(one => flat(one.label) === flat(wanted) || flat(one.text) === flat(wanted));
}"""


async def fill_field(handle: ElementHandle, text: str, key_ms: float, deadline: Deadline) -> bool:
    """Whatever the field is. Whether it is one for a password."""
    kind = await handle.evaluate(_FIELD_KIND)
    if kind == "list":
        await choose_option(handle, text, deadline)
    elif kind == "tick":
        await _tick_by_word(handle, text, deadline)
    elif kind in ("box", "editable", "password"):
        await _type_text(handle, text, key_ms, deadline)
    elif kind == "other":
        await _wait_until_editable(handle, deadline)
        await handle.focus()
        if not await handle.evaluate(_SET_VALUE, text):
            raise _action_failed(f"the field takes no {text!r}")
    elif kind == "file":
        raise _action_failed("the field takes a file: use upload")
    else:
        raise _action_failed("it is no field that takes a text")
    return bool(kind == "password")


async def choose_option(handle: ElementHandle, option: str, deadline: Deadline) -> None:
    """By value, or by what a person reads there."""
    index = await handle.evaluate(_OPTION_INDEX, option)
    if index == -2:
        raise _action_failed("it is no list to choose from")
    if index < 0:
        raise ElementNotReady(f"has no option {option!r}", FailureKind.LAYOUT_CHANGED)
    await handle.select_option(index=index, timeout=deadline.left_ms)


async def set_checked(handle: ElementHandle, on: bool, ms: float) -> None:
    """By a click, if it is not so already."""
    await handle.set_checked(on, timeout=ms)


async def upload_file(handle: ElementHandle, name: str, body: bytes, deadline: Deadline) -> None:
    """To a field for files, or to the chooser that a button opens. Its bytes are sent: the browser need not see our
    disk."""
    payload: FilePayload = {"name": name, "mimeType": "application/octet-stream", "buffer": body}
    if await handle.evaluate(_FIELD_KIND) == "file" or await handle.evaluate(
        "node => node instanceof HTMLLabelElement"
    ):
        await handle.set_input_files(payload, timeout=deadline.left_ms)
        return
    frame = await handle.owner_frame()
    if frame is None:
        raise ElementNotReady("is not on the page any more", FailureKind.LAYOUT_CHANGED)
    async with frame.page.expect_file_chooser(timeout=deadline.left_ms) as chooser:
        await handle.click(timeout=deadline.left_ms)
    await (await chooser.value).set_files(payload, timeout=deadline.left_ms)


async def _type_text(handle: ElementHandle, text: str, key_ms: float, deadline: Deadline) -> None:
    await _wait_until_editable(handle, deadline)
    await handle.focus()
    if len(text) > _MOST_KEYS:
        await handle.evaluate(_SET_VALUE, text)
        return
    rest = await handle.evaluate(_REMAINING_TEXT, text)
    if rest:
        await handle.type(rest, delay=key_ms, timeout=0)
    else:
        await handle.evaluate(_DISPATCH_CHANGE)


async def _wait_until_editable(handle: ElementHandle, deadline: Deadline) -> None:
    await handle.wait_for_element_state("editable", timeout=min(deadline.left_ms, 1_500))


async def _tick_by_word(handle: ElementHandle, word: str, deadline: Deadline) -> None:
    known: Any = word.strip().lower()
    if known not in _TRUE | _FALSE and word != await handle.evaluate("node => node.value"):
        raise _action_failed(f"{word!r} does not say whether it is to be ticked: write true or false")
    await set_checked(handle, known not in _FALSE, min(deadline.left_ms, 1_500))


def _action_failed(message: str) -> Failed:
    return Failed(Failure.of(FailureKind.ACTION_FAILED, message))
