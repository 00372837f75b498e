"""Form: fill in some fields of a form on a page and send it with all the others, as a browser would.

Made by `WebPage.form`; sends through the session that fetched the page, and answers with the page that comes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Generic, Protocol, TypeVar

import msgspec
from selectolax.lexbor import LexborHTMLParser, LexborNode

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.web.address import resolve, shown
from swath.web.controls import Button, Control, read_controls
from swath.web.encode import URLENCODED, multipart, urlencoded
from swath.web.post_back import ARGUMENT_FIELD, TARGET_FIELD, PostBack

__all__ = ["Form", "FormPlace", "FormSender", "FormSent"]

_NAMES_SHOWN: Final = 20
_WEB_FORM_FIELDS: Final = frozenset({"__VIEWSTATE", TARGET_FIELD})

# The page that comes back, whatever a session makes of it: pages know forms, so forms cannot know pages.
P_co = TypeVar("P_co", covariant=True)


class FormPlace(msgspec.Struct, frozen=True):
    """Where a form stands: its page, what links there refer to, and the charset of both."""

    tree: LexborHTMLParser
    url: str
    base_url: str
    charset: str


class FormSent(msgspec.Struct, frozen=True):
    """A form on its way. `content_type` is None for a get, whose fields are in the address."""

    url: str
    referer: str
    content_type: str | None = None
    body: bytes = b""


class FormSender(Protocol[P_co]):
    """What a form needs of a session."""

    async def send_form(self, sent: FormSent, name: str | None) -> P_co:
        """Sends it and answers with the page that comes; `name` keeps it."""
        ...


class Form(Generic[P_co]):
    """One form. Hidden fields, selects and ticked boxes go along by themselves."""

    def __init__(self, place: FormPlace, node: LexborNode, sender: FormSender[P_co] | None) -> None:
        self._place = place
        self._node = node
        self._sender = sender
        self._controls, self._buttons = read_controls(place.tree, node)
        self._filled: dict[str, tuple[str, ...]] = {}

    @property
    def fields(self) -> dict[str, str]:
        """What would be sent without a button; of several values of one name, the last."""
        return dict(self._pairs(None))

    @property
    def is_web_form(self) -> bool:
        """Whether it is the one form of an ASP.NET WebForms page, through which everything there is sent."""
        return any(control.name in _WEB_FORM_FIELDS for control in self._controls)

    def fill(self, values: Mapping[str, object] | None = None, /, **named: object) -> Form[P_co]:
        """Sets fields by name, or by id where the name is nobody else's.

        A box takes True or False, a choice its value or what a person reads there, a field with several values a list;
        None leaves it out. Raises Failed layout_changed when the form has no such field or does not offer that choice.
        """
        for asked, value in {**(values or {}), **named}.items():
            own = self._named(asked)
            if not own:
                raise self._failed(f"has no field {asked!r}; it has {self._known_names()}")
            self._filled[own[0].name] = self._values(asked, value, own)
        return self

    async def submit(self, button: str | None = None, *, name: str | None = None) -> P_co:
        """Presses a button (by name, id or label; the first when none is named); `name` keeps the page that comes."""
        return await self._send(self._button(button), None, name)

    async def post_back(self, target: str, argument: str = "", *, name: str | None = None) -> P_co:
        """Sends the form as `__doPostBack(target, argument)` does in ASP.NET WebForms: no button, but an event."""
        return await self.send_event(PostBack(target, argument), name=name)

    async def send_event(self, event: PostBack, *, name: str | None = None) -> P_co:
        """Sends the form with an event that was read from the page."""
        return await self._send(None, event, name)

    async def press(self, node: LexborNode, event: PostBack | None = None, *, name: str | None = None) -> P_co:
        """Presses the button that is this node. An event on it may say where the form goes."""
        for button in self._buttons:
            if button.mem_id == node.mem_id:
                return await self._send(button, event, name)
        raise self._failed("has no such button, or it is disabled")

    def has_button(self, node: LexborNode) -> bool:
        """Whether this node is a button of the form that can be pressed."""
        return any(button.mem_id == node.mem_id for button in self._buttons)

    async def _send(self, pressed: Button | None, event: PostBack | None, name: str | None) -> P_co:
        if self._sender is None:
            message = "a form on a stored page cannot be submitted; only fetch has the network"
            raise Failed(Failure.of(FailureKind.INTERNAL, message))
        pairs = self._pairs(pressed)
        if event is not None and pressed is None:
            own = {TARGET_FIELD: event.target, ARGUMENT_FIELD: event.argument}
            pairs = [*own.items(), *(pair for pair in pairs if pair[0] not in own)]
        place = self._place
        url = self._address(pressed, event)
        charset = "utf-8" if place.charset.startswith("utf") else place.charset  # forms are never sent as UTF-16
        if self._setting(pressed, "method", "get").lower() != "post":
            sent = FormSent(f"{url.partition('?')[0]}?{urlencoded(pairs, charset)}", place.url)
        elif self._setting(pressed, "enctype", URLENCODED).lower() == "multipart/form-data":
            sent = FormSent(url, place.url, *multipart(pairs, charset))
        else:
            sent = FormSent(url, place.url, URLENCODED, urlencoded(pairs, charset).encode("ascii"))
        return await self._sender.send_form(sent, name)

    def _address(self, pressed: Button | None, event: PostBack | None) -> str:
        action = (event.action if event is not None else None) or self._setting(pressed, "action", "")
        if not action.strip():
            return self._place.url
        try:
            return resolve(action, self._place.base_url)
        except Failed as failed:  # what the site wrote there is not the input's fault
            raise self._failed(f"is sent to no web address: {failed.failure.message}") from None

    def _named(self, asked: str) -> list[Control]:
        own = [control for control in self._controls if control.name == asked]
        if not own and (name := next((control.name for control in self._controls if control.id == asked), None)):
            namesakes = [control for control in self._controls if control.name == name]
            own = namesakes if len(namesakes) == 1 else []
        return own

    def _pairs(self, pressed: Button | None) -> list[tuple[str, str]]:
        """All successful controls in the order of the page; a filled name takes the place of its first control."""
        pairs: list[tuple[str, str]] = []
        done: set[str] = set()
        for control in self._controls:
            if control.name not in self._filled:
                pairs.extend((control.name, value) for value in control.values)
            elif control.name not in done:
                done.add(control.name)
                pairs.extend((control.name, value) for value in self._filled[control.name])
        return pairs + (pressed.pairs() if pressed is not None else [])

    def _values(self, name: str, value: object, own: list[Control]) -> tuple[str, ...]:
        choices = [choice for control in own for choice in control.choices or ()]
        if value is None or value is False:
            return ()
        if value is True:
            return (choices[0],) if choices else ("true",)
        values = tuple(map(str, value)) if isinstance(value, (list, tuple, set)) else (str(value),)
        if any(control.choices is None for control in own):
            return values
        read = {
            label: choice
            for control in own
            for label, choice in zip(control.labels, control.choices or (), strict=False)
        }
        for one in values:
            if one not in choices and one not in read:
                raise self._failed(f"offers no {one!r} for {name!r}; it offers {_some(choices)}")
        return tuple(one if one in choices else read[one] for one in values)

    def _button(self, wanted: str | None) -> Button | None:
        if wanted is None:
            return self._buttons[0] if self._buttons else None
        for button in self._buttons:
            if button.is_called(wanted):
                return button
        raise self._failed(f"has no button {wanted!r}; it has {_some([b.name or b.label for b in self._buttons])}")

    def _setting(self, pressed: Button | None, name: str, default: str) -> str:
        own = pressed.attributes.get("form" + name) if pressed is not None else None
        return own or self._node.attributes.get(name) or default

    def _known_names(self) -> str:
        return _some(list(dict.fromkeys(control.name for control in self._controls)))

    def _failed(self, what: str) -> Failed:
        label = self._node.attributes.get("id") or self._node.attributes.get("name") or "without a name"
        message = f"the form {label} at {shown(self._place.url)} {what}"
        return Failed(Failure.of(FailureKind.LAYOUT_CHANGED, message))


def _some(names: list[str]) -> str:
    listed = ", ".join(repr(name) for name in names[:_NAMES_SHOWN]) or "none"
    return listed if len(names) <= _NAMES_SHOWN else f"{listed} and {len(names) - _NAMES_SHOWN} more"
