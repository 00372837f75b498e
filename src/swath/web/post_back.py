"""ASP.NET WebForms: what a click on a link or button there would send, read from the script on it.

`form` sends it; `WebPage.click` looks for it on whatever is clicked.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import msgspec

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

__all__ = ["ARGUMENT_FIELD", "TARGET_FIELD", "PostBack", "read_post_back"]

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
