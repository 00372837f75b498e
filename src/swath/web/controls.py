"""The controls of a form and what each would send, by the rules of the HTML standard ("constructing the entry list").

Read from the tree when a form is asked for; `form` fills them in and sends them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from swath.web.reading.text import text_in

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

__all__ = ["Button", "Control", "read_controls"]

_SUBMITTERS: Final = frozenset({"submit", "image"})
_SILENT: Final = frozenset({"button", "reset", "file"})
_CONTROLS: Final = "input, select, textarea, button"
_TABLE_PARTS: Final = frozenset({"table", "thead", "tbody", "tfoot", "tr"})
_DISABLED_BY_GROUP: Final = frozenset({"fieldset", "optgroup"})


class Control(msgspec.Struct, frozen=True):
    """A field: what it sends as it stands, and what it offers if it is a choice, with what a person reads there."""

    name: str
    values: tuple[str, ...]
    choices: tuple[str, ...] | None = None
    labels: tuple[str, ...] = ()
    id: str | None = None


class Button(msgspec.Struct, frozen=True):
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


def read_controls(tree: LexborHTMLParser, form: LexborNode) -> tuple[list[Control], list[Button]]:
    """Fields and buttons of a form, in the order of the page, wherever they stand."""
    controls: list[Control] = []
    buttons: list[Button] = []
    grouped = bool(tree.tags("fieldset") or tree.tags("datalist"))  # cheap to ask; few pages have any
    for node in _members(tree, form):
        tag, attributes = node.tag, node.attributes
        if "disabled" in attributes or (grouped and _is_in_disabled_group(node)):
            continue
        kind = (attributes.get("type") or ("submit" if tag == "button" else "text")).lower()
        if tag in {"input", "button"} and kind in _SUBMITTERS:
            buttons.append(_button(node, attributes))
        elif tag == "button" or kind in _SILENT:
            continue
        elif name := attributes.get("name"):
            controls.append(_control(node, attributes, name, kind))
    return controls, buttons


def _button(node: LexborNode, attributes: dict[str, str | None]) -> Button:
    name, value = attributes.get("name") or "", attributes.get("value") or ""
    if node.tag == "button":
        return Button(name, value, text_in(node), attributes, node.mem_id)
    if "value" not in attributes:
        value = "Submit"  # the label that browsers put on it, and send
    return Button(name, value, value or attributes.get("alt") or "", attributes, node.mem_id)


def _members(tree: LexborHTMLParser, form: LexborNode) -> list[LexborNode]:
    inside = form.css(_CONTROLS) if form.first_child is not None else _behind(form)
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


def _behind(form: LexborNode) -> list[LexborNode]:
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


def _control(node: LexborNode, attributes: dict[str, str | None], name: str, kind: str) -> Control:
    own_id = attributes.get("id")
    if node.tag == "select":
        return _select(node, attributes, name)
    if node.tag == "textarea":
        return Control(name, (node.text(),), id=own_id)
    value = attributes.get("value")
    if kind in {"checkbox", "radio"}:
        sent = "on" if "value" not in attributes else value or ""
        return Control(name, (sent,) if "checked" in attributes else (), (sent,), id=own_id)
    return Control(name, (value or "",), id=own_id)


def _select(node: LexborNode, attributes: dict[str, str | None], name: str) -> Control:
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
    return Control(name, tuple(chosen), tuple(usable), tuple(labels), attributes.get("id"))


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
