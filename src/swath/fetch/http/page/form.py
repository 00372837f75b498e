"""Forms: reads the controls by the rules of the HTML standard, fills them and submits all fields as a browser would.

Reads ASP.NET WebForms post-backs from links and buttons too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Generic, Protocol, TypeVar
from urllib.parse import unquote

import msgspec
from selectolax.lexbor import LexborHTMLParser, LexborNode

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.fetch.http.page.parsing.text_and_links import text_in
from swath.fetch.url import URLENCODED, multipart, redacted, resolve, urlencoded

__all__ = [
    "ARGUMENT_FIELD",
    "TARGET_FIELD",
    "Form",
    "FormButton",
    "FormContext",
    "FormControl",
    "FormSender",
    "FormSubmission",
    "PostBack",
    "read_controls",
    "read_post_back",
]

_SUBMITTERS: Final = frozenset({"submit", "image"})
_NEVER_SENT: Final = frozenset({"button", "reset", "file"})
_CONTROLS: Final = "input, select, textarea, button"
_TABLE_PARTS: Final = frozenset({"table", "thead", "tbody", "tfoot", "tr"})
_DISABLED_BY_GROUP: Final = frozenset({"fieldset", "optgroup"})


class FormControl(msgspec.Struct, frozen=True):
    """A field: what it sends as it stands, and what it offers if it is a choice, with what a person reads there."""

    name: str
    values: tuple[str, ...]
    choices: tuple[str, ...] | None = None
    labels: tuple[str, ...] = ()
    id: str | None = None


class FormButton(msgspec.Struct, frozen=True):
    """A submit button; it is sent only when pressed. `mem_id` is that of its node."""

    name: str
    value: str
    label: str
    attributes: dict[str, str | None]
    mem_id: int = 0

    def is_called(self, wanted: str) -> bool:
        """Whether a person would mean it by that: its name, id or label."""
        return wanted in {self.name, self.label, self.attributes.get("id")}

    def pairs(self) -> list[tuple[str, str]]:
        """What it adds to the fields; an image sends where it was clicked."""
        if (self.attributes.get("type") or "").lower() == "image":
            prefix = f"{self.name}." if self.name else ""
            return [(f"{prefix}x", "0"), (f"{prefix}y", "0")]
        return [(self.name, self.value)] if self.name else []


def read_controls(tree: LexborHTMLParser, form: LexborNode) -> tuple[list[FormControl], list[FormButton]]:
    """Fields and buttons of a form, in the order of the page, wherever they stand."""
    controls: list[FormControl] = []
    buttons: list[FormButton] = []
    grouped = bool(tree.tags("fieldset") or tree.tags("datalist"))  # cheap to ask; few pages have any
    for node in _nodes_of(tree, form):
        tag, attributes = node.tag, node.attributes
        if "disabled" in attributes or (grouped and _is_in_disabled_group(node)):
            continue
        kind = (attributes.get("type") or ("submit" if tag == "button" else "text")).lower()
        if tag in {"input", "button"} and kind in _SUBMITTERS:
            buttons.append(_button(node, attributes))
        elif tag == "button" or kind in _NEVER_SENT:
            continue
        elif name := attributes.get("name"):
            controls.append(_control(node, attributes, name, kind))
    return controls, buttons


def _button(node: LexborNode, attributes: dict[str, str | None]) -> FormButton:
    name, value = attributes.get("name") or "", attributes.get("value") or ""
    if node.tag == "button":
        return FormButton(name, value, text_in(node), attributes, node.mem_id)
    if "value" not in attributes:
        value = "Submit"  # the label that browsers put on it, and send
    return FormButton(name, value, value or attributes.get("alt") or "", attributes, node.mem_id)


def _nodes_of(tree: LexborHTMLParser, form: LexborNode) -> list[LexborNode]:
    inside = form.css(_CONTROLS) if form.first_child is not None else _nodes_after(form)
    if tree.css_first("[form]") is None:
        return inside
    # Somewhere on the page a control says by id which form it belongs to, instead of standing in it.
    form_id = form.attributes.get("id")
    own = {node.mem_id for node in inside if "form" not in node.attributes}
    return [
        node
        for node in tree.css(_CONTROLS)
        if node.mem_id in own or (form_id and node.attributes.get("form") == form_id)
    ]


def _nodes_after(form: LexborNode) -> list[LexborNode]:
    """The controls of a form that was opened between the rows of a table, as old sites do.

    A form cannot stand there, so parsers leave an empty one and go on; browsers still know whose the fields are. They
    are those behind it, up to the next form or the end of the table.
    """
    table = form.parent
    if table is None or table.tag not in _TABLE_PARTS:
        return []
    while table.tag != "table" and table.parent is not None:
        table = table.parent
    own: list[LexborNode] = []
    is_behind = False
    for node in table.css(f"form, {_CONTROLS}"):
        if node.tag == "form":
            is_behind = node.mem_id == form.mem_id
        elif is_behind:
            own.append(node)
    return own


def _control(node: LexborNode, attributes: dict[str, str | None], name: str, kind: str) -> FormControl:
    own_id = attributes.get("id")
    if node.tag == "select":
        return _select(node, attributes, name)
    if node.tag == "textarea":
        return FormControl(name, (node.text(),), id=own_id)
    value = attributes.get("value")
    if kind in {"checkbox", "radio"}:
        sent = "on" if "value" not in attributes else value or ""
        return FormControl(name, (sent,) if "checked" in attributes else (), (sent,), id=own_id)
    return FormControl(name, (value or "",), id=own_id)


def _select(node: LexborNode, attributes: dict[str, str | None], name: str) -> FormControl:
    usable: list[str] = []
    labels: list[str] = []
    chosen: list[str] = []
    for option in node.css("option"):
        own = option.attributes
        if "disabled" in own or _is_in_disabled_group(option, up_to=node):
            continue
        label = " ".join(option.text().split())
        value = (own["value"] or "") if "value" in own else label
        usable.append(value)
        labels.append(label)
        if "selected" in own:
            chosen.append(value)
    if "multiple" not in attributes:
        # Of several marked options the last counts; without any, a drop-down sends the first that can be chosen.
        is_list = (attributes.get("size") or "1").strip() not in {"0", "1"}
        chosen = chosen[-1:] or ([] if is_list else usable[:1])
    return FormControl(name, tuple(chosen), tuple(usable), tuple(labels), attributes.get("id"))


def _is_in_disabled_group(node: LexborNode, up_to: LexborNode | None = None) -> bool:
    """A disabled group switches off all it holds, but for what stands in its legend; proposals are no fields."""
    inside, around = node, node.parent
    while around is not None and (up_to is None or around.mem_id != up_to.mem_id):
        if around.tag == "datalist":
            return True
        if around.tag in _DISABLED_BY_GROUP and inside.tag != "legend" and "disabled" in around.attributes:
            return True
        inside, around = around, around.parent
    return False


TARGET_FIELD: Final = "__EVENTTARGET"
ARGUMENT_FIELD: Final = "__EVENTARGUMENT"

_TEXT: Final = r"""\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")\s*"""
_PLAIN: Final = re.compile(rf"__doPostBack\({_TEXT},{_TEXT}\)")
_WITH_OPTIONS: Final = re.compile(
    rf"WebForm_PostBackOptions\({_TEXT},{_TEXT},\s*\w+\s*,{_TEXT},{_TEXT},\s*\w+\s*,\s*(?P<client>true|false)\s*\)"
)
_ESCAPE: Final = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|(.))")


class PostBack(msgspec.Struct, frozen=True):
    """An event of a control. `action` is where the form goes instead of home, if it does.

    With `by_button` the script only prepares the form, and the button that carries it sends it.
    """

    target: str
    argument: str = ""
    action: str | None = None
    by_button: bool = False


def read_post_back(node: LexborNode) -> PostBack | None:
    """The post-back in the `href`, `onclick` or `onchange` of an element; None when there is none."""
    attributes = node.attributes
    href = (attributes.get("href") or "").strip()
    if href[:11].lower() == "javascript:" and (found := _in_script(unquote(href[11:]))) is not None:
        return found
    for event in ("onclick", "onchange"):
        if (found := _in_script(attributes.get(event) or "")) is not None:
            return found
    return None


def _in_script(script: str) -> PostBack | None:
    if "PostBack" not in script:
        return None
    # A drop-down calls it by setTimeout, from inside a string, where its quotes are escaped once more.
    for text in (script, _unescaped(script)):
        if options := _WITH_OPTIONS.search(text):
            target, argument, _, action = _strings(options)
            return PostBack(target, argument, action or None, options["client"] == "false")
        if plain := _PLAIN.search(text):
            target, argument = _strings(plain)
            return PostBack(target, argument)
    return None


def _strings(found: re.Match[str]) -> list[str]:
    """The arguments in quotes, in order; each has two groups, for either quote."""
    groups = [found[number] for number in range(1, (found.re.groups // 2) * 2 + 1)]
    return [
        _unescaped(single if single is not None else double or "")
        for single, double in zip(*[iter(groups)] * 2, strict=True)
    ]


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1] or found[2], 16)) if found[1] or found[2] else found[3], text)


_NAMES_SHOWN: Final = 20
_WEB_FORM_FIELDS: Final = frozenset({"__VIEWSTATE", TARGET_FIELD})

# The page that comes back, whatever a session makes of it: pages know forms, so forms cannot know pages.
P_co = TypeVar("P_co", covariant=True)


class FormContext(msgspec.Struct, frozen=True):
    """Where a form stands: its page, what links there refer to, and the charset of both."""

    tree: LexborHTMLParser
    url: str
    base_url: str
    charset: str


class FormSubmission(msgspec.Struct, frozen=True):
    """A form on its way. `content_type` is None for a get, whose fields are in the address."""

    url: str
    referer: str
    content_type: str | None = None
    body: bytes = b""


class FormSender(Protocol[P_co]):
    """What a form needs of a session."""

    async def send_form(self, sent: FormSubmission, name: str | None) -> P_co:
        """Sends it and answers with the page that comes; `name` keeps it."""
        ...


class Form(Generic[P_co]):
    """One form. Hidden fields, selects and ticked boxes go along by themselves."""

    def __init__(self, place: FormContext, node: LexborNode, sender: FormSender[P_co] | None) -> None:
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

    async def _send(self, pressed: FormButton | None, event: PostBack | None, name: str | None) -> P_co:
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
            sent = FormSubmission(f"{url.partition('?')[0]}?{urlencoded(pairs, charset)}", place.url)
        elif self._setting(pressed, "enctype", URLENCODED).lower() == "multipart/form-data":
            sent = FormSubmission(url, place.url, *multipart(pairs, charset))
        else:
            sent = FormSubmission(url, place.url, URLENCODED, urlencoded(pairs, charset).encode("ascii"))
        return await self._sender.send_form(sent, name)

    def _address(self, pressed: FormButton | None, event: PostBack | None) -> str:
        action = (event.action if event is not None else None) or self._setting(pressed, "action", "")
        if not action.strip():
            return self._place.url
        try:
            return resolve(action, self._place.base_url)
        except Failed as failed:  # what the site wrote there is not the input's fault
            raise self._failed(f"is sent to no web address: {failed.failure.message}") from None

    def _named(self, asked: str) -> list[FormControl]:
        own = [control for control in self._controls if control.name == asked]
        if not own and (name := next((control.name for control in self._controls if control.id == asked), None)):
            namesakes = [control for control in self._controls if control.name == name]
            own = namesakes if len(namesakes) == 1 else []
        return own

    def _pairs(self, pressed: FormButton | None) -> list[tuple[str, str]]:
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

    def _values(self, name: str, value: object, own: list[FormControl]) -> tuple[str, ...]:
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
                raise self._failed(f"offers no {one!r} for {name!r}; it offers {_listed(choices)}")
        return tuple(one if one in choices else read[one] for one in values)

    def _button(self, wanted: str | None) -> FormButton | None:
        if wanted is None:
            return self._buttons[0] if self._buttons else None
        for button in self._buttons:
            if button.is_called(wanted):
                return button
        raise self._failed(f"has no button {wanted!r}; it has {_listed([b.name or b.label for b in self._buttons])}")

    def _setting(self, pressed: FormButton | None, name: str, default: str) -> str:
        own = pressed.attributes.get("form" + name) if pressed is not None else None
        return own or self._node.attributes.get(name) or default

    def _known_names(self) -> str:
        return _listed(list(dict.fromkeys(control.name for control in self._controls)))

    def _failed(self, what: str) -> Failed:
        label = self._node.attributes.get("id") or self._node.attributes.get("name") or "without a name"
        message = f"the form {label} at {redacted(self._place.url)} {what}"
        return Failed(Failure.of(FailureKind.LAYOUT_CHANGED, message))


def _listed(names: list[str]) -> str:
    listed = ", ".join(repr(name) for name in names[:_NAMES_SHOWN]) or "none"
    return listed if len(names) <= _NAMES_SHOWN else f"{listed} and {len(names) - _NAMES_SHOWN} more"
