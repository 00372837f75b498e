"""Selectors: how a recording names one element. Several alternatives, each a chain of parts that leads through shadow
roots.

A part says its kind by a prefix, as Chrome's recorder writes it: `aria/Search`, `text/Search`, `xpath///button`,
`pierce/#go`, `css/#go`; without one it is CSS. The player races the alternatives; reading/ knows them on stored pages.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NamedTuple, get_args

from pydantic import BeforeValidator, Field, PlainSerializer

from swath.actions.language.template import Text

__all__ = [
    "MOST_ALTERNATIVES",
    "MOST_PARTS",
    "MOST_SELECTOR_CHARS",
    "Chain",
    "Part",
    "SelectorKind",
    "Selectors",
    "part_of",
    "shown",
]

SelectorKind = Literal["css", "aria", "text", "xpath", "pierce"]

MOST_ALTERNATIVES: Final = 20
MOST_SELECTOR_CHARS: Final = 4_096
MOST_PARTS: Final = 10
_KINDS: Final = frozenset(get_args(SelectorKind))


class Part(NamedTuple):
    """One step of a chain, without its prefix."""

    kind: SelectorKind
    value: str


def part_of(text: str) -> Part:
    """What a part means. Any text is one: what has no known prefix is CSS."""
    prefix, slash, value = text.partition("/")
    if slash and prefix in _KINDS:
        return Part(prefix, value)  # type: ignore[arg-type] # looked up among them
    return Part("css", text)


def shown(selectors: Selectors) -> str:
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
