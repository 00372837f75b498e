"""Fields: giving one its value as a person would: keys into a box, a choice in a list, a date or a colour set at once.

stage.py has found the field. What is not there yet (an option that the page has still to fill in) is waited for by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from swath.browser.stage.deadline import Deadline
from swath.browser.stage.not_yet import NotYet
from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind

if TYPE_CHECKING:
    from patchright.async_api import ElementHandle, FilePayload

__all__ = ["choose", "clear_or_tick", "fill", "give_file"]

_MOST_KEYS: Final = 100  # longer texts are put in at once, as Puppeteer does it
_TRUE: Final = frozenset({"true", "on", "yes", "1", "checked"})
_FALSE: Final = frozenset({"false", "off", "no", "0", ""})
_KIND: Final = """node => {
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
_REST: Final = """(node, text) => {
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
_SET: Final = """(node, text) => {
  if ("value" in node) node.value = text;
  else node.innerText = text;
  for (const name of ["input", "change"]) node.dispatchEvent(new Event(name, {bubbles: true, composed: true}));
  return !("value" in node) || node.value === text || (text !== "" && node.value !== "");
}"""
_CHANGED: Final = """node => {
  for (const name of ["input", "change"]) node.dispatchEvent(new Event(name, {bubbles: true, composed: true}));
}"""
_OPTION: Final = """(node, wanted) => {
  if (!(node instanceof HTMLSelectElement)) return -2;
  const flat = text => text.replace(/\\s+/g, " ").trim(), options = [...node.options];
  const by = test => options.findIndex(one => test(one) && !one.disabled);
  const value = by(one => one.value === wanted);
  return value >= 0 ? value : by(one => flat(one.label) === flat(wanted) || flat(one.text) === flat(wanted));
}"""


async def fill(handle: ElementHandle, text: str, key_ms: float, deadline: Deadline) -> bool:
    """Whatever the field is. Whether it is one for a password."""
    kind = await handle.evaluate(_KIND)
    if kind == "list":
        await choose(handle, text, deadline)
    elif kind == "tick":
        await _tick_by_word(handle, text, deadline)
    elif kind in ("box", "editable", "password"):
        await _type(handle, text, key_ms, deadline)
    elif kind == "other":
        await _enabled(handle, deadline)
        await handle.focus()
        if not await handle.evaluate(_SET, text):
            raise _refused(f"the field takes no {text!r}")
    elif kind == "file":
        raise _refused("the field takes a file: use upload")
    else:
        raise _refused("it is no field that takes a text")
    return bool(kind == "password")


async def choose(handle: ElementHandle, option: str, deadline: Deadline) -> None:
    """By value, or by what a person reads there."""
    index = await handle.evaluate(_OPTION, option)
    if index == -2:
        raise _refused("it is no list to choose from")
    if index < 0:
        raise NotYet(f"has no option {option!r}", FailureKind.LAYOUT_CHANGED)
    await handle.select_option(index=index, timeout=deadline.left_ms)


async def clear_or_tick(handle: ElementHandle, on: bool, ms: float) -> None:
    """By a click, if it is not so already."""
    await handle.set_checked(on, timeout=ms)


async def give_file(handle: ElementHandle, name: str, body: bytes, deadline: Deadline) -> None:
    """To a field for files, or to the chooser that a button opens. Its bytes are sent: the browser need not see our
    disk."""
    payload: FilePayload = {"name": name, "mimeType": "application/octet-stream", "buffer": body}
    if await handle.evaluate(_KIND) == "file" or await handle.evaluate("node => node instanceof HTMLLabelElement"):
        await handle.set_input_files(payload, timeout=deadline.left_ms)
        return
    frame = await handle.owner_frame()
    if frame is None:
        raise NotYet("is not on the page any more", FailureKind.LAYOUT_CHANGED)
    async with frame.page.expect_file_chooser(timeout=deadline.left_ms) as chooser:
        await handle.click(timeout=deadline.left_ms)
    await (await chooser.value).set_files(payload, timeout=deadline.left_ms)


async def _type(handle: ElementHandle, text: str, key_ms: float, deadline: Deadline) -> None:
    await _enabled(handle, deadline)
    await handle.focus()
    if len(text) > _MOST_KEYS:
        await handle.evaluate(_SET, text)
        return
    rest = await handle.evaluate(_REST, text)
    if rest:
        await handle.type(rest, delay=key_ms, timeout=0)
    else:
        await handle.evaluate(_CHANGED)


async def _enabled(handle: ElementHandle, deadline: Deadline) -> None:
    await handle.wait_for_element_state("editable", timeout=min(deadline.left_ms, 1_500))


async def _tick_by_word(handle: ElementHandle, word: str, deadline: Deadline) -> None:
    known: Any = word.strip().lower()
    if known not in _TRUE | _FALSE and word != await handle.evaluate("node => node.value"):
        raise _refused(f"{word!r} does not say whether it is to be ticked: write true or false")
    await clear_or_tick(handle, known not in _FALSE, min(deadline.left_ms, 1_500))


def _refused(message: str) -> Failed:
    return Failed(Failure.of(FailureKind.ACTION_FAILED, message))
