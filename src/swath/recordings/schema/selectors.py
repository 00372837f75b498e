"""How a recording names an element: alternatives, each a chain of parts that leads through shadow roots.

A prefix says the kind of a part, as Chrome's recorder writes it: `aria/Search`, `text/Search`, `xpath///button`,
`pierce/#go`, `css/#go`; without one it is CSS. An item's data in a selector is quoted: whatever the value is, it
cannot
add an alternative, a condition or a role.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from string import punctuation
from typing import Annotated, Any, Final, Literal, NamedTuple, get_args

from pydantic import BeforeValidator, Field, PlainSerializer

from swath.recordings.schema.template import LiteralText, Reference, Text, parse_template

__all__ = [
    "MOST_ALTERNATIVES",
    "MOST_PARTS",
    "MOST_SELECTOR_CHARS",
    "Chain",
    "SelectorKind",
    "SelectorPart",
    "Selectors",
    "part_of",
    "reference_position_error",
    "render_selector_part",
    "selector_label",
]

SelectorKind = Literal["css", "aria", "text", "xpath", "pierce"]

MOST_ALTERNATIVES: Final = 20
MOST_SELECTOR_CHARS: Final = 4_096
MOST_PARTS: Final = 10
_KINDS: Final = frozenset(get_args(SelectorKind))


class SelectorPart(NamedTuple):
    """One step of a chain, without its prefix."""

    kind: SelectorKind
    value: str


def part_of(text: str) -> SelectorPart:
    """What a part means. Any text is one: what has no known prefix is CSS."""
    prefix, slash, value = text.partition("/")
    if slash and prefix in _KINDS:
        return SelectorPart(prefix, value)  # type: ignore[arg-type] # looked up among them
    return SelectorPart("css", text)


def selector_label(selectors: Selectors) -> str:
    """The first alternative, for people."""
    return " > ".join(selectors[0]) if selectors else "(nothing)"


def _as_chains(given: Any) -> Any:
    """One text is one alternative; in a list each is a text, or a list of the parts of a chain."""
    alternatives = [given] if isinstance(given, str) else given
    if not isinstance(alternatives, (list, tuple)):
        return given
    return tuple((one,) if isinstance(one, str) else _as_tuple(one) for one in alternatives)


def _as_tuple(chain: Any) -> Any:
    return tuple(chain) if isinstance(chain, list) else chain


def _as_written(selectors: tuple[tuple[str, ...], ...]) -> Any:
    """The shortest way to write them."""
    alternatives = [chain[0] if len(chain) == 1 else list(chain) for chain in selectors]
    return alternatives[0] if len(selectors) == 1 and isinstance(alternatives[0], str) else alternatives


_Part = Annotated[Text, Field(min_length=1, max_length=MOST_SELECTOR_CHARS)]
Chain = Annotated[tuple[_Part, ...], Field(min_length=1, max_length=MOST_PARTS)]
_Text = Annotated[str, Field(min_length=1, max_length=MOST_SELECTOR_CHARS)]
_Texts = Annotated[list[_Text], Field(min_length=1, max_length=MOST_PARTS)]
_Written = _Text | Annotated[list[_Text | _Texts], Field(min_length=1, max_length=MOST_ALTERNATIVES)]
Selectors = Annotated[
    tuple[Chain, ...],
    Field(
        min_length=1,
        max_length=MOST_ALTERNATIVES,
        description="Alternatives for one element; each a selector, or a list of them that leads through shadow roots.",
    ),
    BeforeValidator(_as_chains, json_schema_input_type=_Written),
    PlainSerializer(_as_written, when_used="json"),
]


ValueOf = Callable[[Reference], str]

_NUMBER: Final = re.compile(r"[0-9]{1,15}")
_CSS_PIECE: Final = re.compile(r"/\*|\\[0-9a-fA-F]{1,6}\s?|\\.|:[\w-]+\(|.", re.DOTALL)
_HALF_ESCAPE: Final = re.compile(r"(?<!\\)(?:\\\\)*\\(?P<code>[0-9a-fA-F]{1,6})?\Z")
_IN_A_NAME: Final = re.compile(r"[\w\u0080-\U0010ffff]-*\Z")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u037d\u037f-\u1fff\u3001-\ud7ff-]")
_OF: Final = re.compile(r"\sof\s")
_ARIA_ATTRIBUTE: Final = re.compile(r"""\[\s*(\w+)\s*=\s*(["'])((?:\\.|[^\\])*?)\2\s*\]""", re.DOTALL)
_ARIA_NAMES: Final = ("name", "role")
_MARK: Final = re.compile("\0([0-9]+)\0")


def render_selector_part(part: SelectorPart, values: ValueOf) -> str:
    """A selector, without its prefix, for one item. Raises ValueError for a value that cannot stand where it should."""
    kind, text = part
    parts = parse_template(text).parts
    if all(isinstance(one, LiteralText) for one in parts):
        return "".join(one.text for one in parts if isinstance(one, LiteralText))
    match kind:
        case "css" | "pierce":
            return _css(parts, values)
        case "xpath":
            return _xpath(parts, values)
        case "aria":
            return _aria(parts, values)
        case "text":
            filled = "".join(one.text if isinstance(one, LiteralText) else values(one) for one in parts)
            if not filled.strip():
                raise ValueError("an empty value names no element")
            return filled


def reference_position_error(part: SelectorPart) -> str | None:
    """Why a reference cannot stand where it does; None when all can. Of XPath: only in quotes, but for a loop's
    number. Elsewhere a value could be anything, an expression even."""
    kind, text = part
    parts = parse_template(text).parts
    if kind == "xpath":
        for inside, one in _xpath_pieces(parts):
            if isinstance(one, Reference) and not inside and not _is_loop_number(one):
                return f"has {one} outside of quotes; in XPath a value stands in them: [@id='{{{{ {one.path} }}}}']"
    if kind in ("css", "pierce"):
        try:
            _css(parts, lambda _: "1")
        except ValueError as error:
            return str(error)
    return None


def _is_loop_number(reference: Reference) -> bool:
    return reference.path == "loop.index" and not reference.calls


# -- CSS ---------------------------------------------------------------------------------------------------------------


class _CssWriter:
    """Where in a selector one stands, after what was written so far."""

    def __init__(self) -> None:
        self.text = ""
        self.quote = ""
        self._comment = False
        self._opened: list[tuple[str, int]] = []  # what each bracket belongs to, and where it stands

    def write(self, text: str) -> None:
        """Of the recording."""
        at = 0
        while at < len(text):
            if self._comment:
                end = text.find("*/", at)
                self._comment, size = end < 0, (len(text) if end < 0 else end + 2) - at
            else:
                size = self._piece(text, at)
            self.text += text[at : at + size]
            at += size

    def _piece(self, text: str, at: int) -> int:
        found = _CSS_PIECE.match(text, at)
        piece = found[0] if found else text[at]
        if piece[0] == "\\":
            return len(piece)
        if self.quote:
            self.quote = "" if piece[0] == self.quote else self.quote
            return 1  # brackets and comments mean nothing in quotes
        if piece == "/*":
            self._comment = True
        elif piece in "\"'":
            self.quote = piece
        elif piece.endswith("("):
            self._opened.append((piece.lower(), len(self.text) + len(piece)))
        elif piece == ")" and self._opened:
            self._opened.pop()
        return len(piece)

    def value(self, reference: Reference, value: str) -> None:
        """Of an item."""
        half = _HALF_ESCAPE.search(self.text)
        if self._comment or (half and not half["code"]):
            raise ValueError(f"has {reference} {'in a comment' if self._comment else 'after a backslash'}")
        if half:
            self.text += " "  # which ends the escape, and belongs to it
        if self.quote:
            self.text += "".join(map(_in_css_text, value))
        elif self._counts():
            if not _NUMBER.fullmatch(value):
                raise ValueError(f"{reference} is {value[:40]!r}, where a number is needed")
            self.text += value
        else:
            self.text += self._name(reference, value)

    def _counts(self) -> bool:
        """Whether it is the number of `:nth-child(2)`."""
        name, at = self._opened[-1] if self._opened else ("", 0)
        return name.startswith(":nth-") and not _OF.search(self.text[at:])

    def _name(self, reference: Reference, value: str) -> str:
        """As CSS.escape of browsers does it, and a little more: not all parsers know the same letters."""
        begins = not _IN_A_NAME.search(self.text)
        if begins and not value:
            raise ValueError(f"{reference} is empty, and names no element")
        if begins and value == "-":
            return "\\-"
        made = ""
        for at, character in enumerate(value):
            first = begins and (at == 0 or (at == 1 and value[0] == "-"))
            if _PLAIN.fullmatch(character) and not (first and character in "0123456789"):
                made += character
            else:
                made += f"\\{character}" if character in punctuation or character == " " else _code(character)
        return made


_UNPRINTED: Final = frozenset(map(chr, [*range(0x20), 0x7F]))


def _css(parts: tuple[LiteralText | Reference, ...], values: ValueOf) -> str:
    made = _CssWriter()
    for one in parts:
        if isinstance(one, LiteralText):
            made.write(one.text)
        else:
            made.value(one, values(one))
    return made.text


def _in_css_text(character: str) -> str:
    if character in _UNPRINTED:
        return _code(character)
    return f"\\{character}" if character in "\"'\\" else character


def _code(character: str) -> str:
    return f"\\{ord(character) or 0xFFFD:x} "


# -- XPath -------------------------------------------------------------------------------------------------------------


def _xpath_pieces(parts: tuple[LiteralText | Reference, ...]) -> Iterator[tuple[str, str | Reference]]:
    """Each piece with the quote that it stands in, "" outside; the quotes themselves are outside."""
    quote = ""
    for one in parts:
        if isinstance(one, Reference):
            yield quote, one
            continue
        for character in one.text:
            if not quote and character in "\"'":
                quote = character
                yield "", character
            elif character == quote:
                quote = ""
                yield "", character
            else:
                yield quote, character


def _xpath(parts: tuple[LiteralText | Reference, ...], values: ValueOf) -> str:
    """XPath knows no escapes: texts are written anew, in the quotes that they do not have."""
    made, text, inside = "", "", False
    for quote, piece in _xpath_pieces(parts):
        if quote:
            text += piece if isinstance(piece, str) else values(piece)
        elif isinstance(piece, Reference):
            made += _xpath_number(piece, values(piece))
        elif piece in "\"'":
            made += _in_xpath_quotes(text, piece) if inside else ""
            text, inside = "", not inside
        else:
            made += piece
    if inside:
        raise ValueError("has a quote that nothing closes")
    return made


def _xpath_number(reference: Reference, value: str) -> str:
    if not _NUMBER.fullmatch(value):
        raise ValueError(f"{reference} is {value[:40]!r}, and outside of quotes only a number can stand in XPath")
    return value


def _in_xpath_quotes(text: str, quote: str) -> str:
    other = "'" if quote == '"' else '"'
    if quote not in text:
        return f"{quote}{text}{quote}"
    if other not in text:
        return f"{other}{text}{other}"
    pieces = [f'"{piece}"' if '"' not in piece else f"'{piece}'" for piece in re.split('("+)', text) if piece]
    return f"concat({', '.join(pieces)})"


# -- aria --------------------------------------------------------------------------------------------------------------


def _aria(parts: tuple[LiteralText | Reference, ...], values: ValueOf) -> str:
    """What is name and what is role is told by the recording alone. Values stand there as marks until that is known."""
    given: list[str] = []
    marked = ""
    for one in parts:
        if isinstance(one, LiteralText):
            marked += one.text.replace("\0", "")
        else:
            marked += f"\0{len(given)}\0"
            given.append(values(one))
    asked: dict[str, str] = {}

    def take(found: re.Match[str]) -> str:
        if found[1] not in _ARIA_NAMES:
            return found[0]
        asked[found[1]] = re.sub(r"\\([\"'\\])", r"\1", found[3])
        return ""

    rest = _ARIA_ATTRIBUTE.sub(take, marked)
    asked.setdefault("name", rest)
    filled = {name: _MARK.sub(lambda mark: given[int(mark[1])], value) for name, value in asked.items()}
    if any(not filled[name].strip() for name, value in asked.items() if _MARK.search(value)):
        raise ValueError("an empty value names no element")
    name, others = filled.pop("name"), "".join(_attribute(*one) for one in filled.items())
    return (_attribute("name", name) if "[" in name or "]" in name else name) + others


def _attribute(name: str, value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'[{name}="{escaped}"]'
