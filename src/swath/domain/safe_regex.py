"""Checks and runs regular expressions that people write in YAML.

The text that is searched comes from a site, so a pattern that can backtrack without bound is refused, and every
search
has a time limit.
"""

from __future__ import annotations

import importlib
import re
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import regex

__all__ = ["MAX_SEARCH_SECONDS", "SearchTimeout", "fullmatch", "pattern_error", "search", "shared_search_time"]

MAX_SEARCH_SECONDS: Final = 0.2
"""Of CPU, for one search; ordinary ones take less than a thousandth."""
_QUICK_SECONDS: Final = 0.001  # what a search may take without being counted among others

_constants, _parser = map(importlib.import_module, ("re._constants", "re._parser"))  # they have no public names

_LARGE_REPEAT: Final = 20  # times; what is repeated less often, even twice over, ends soon enough
_MAX_REPEATS_IN_A_ROW: Final = 2  # repeats of the same, which share what they take in every possible way
_MAX_PARTS: Final = 20_000  # the library writes out what is repeated a fixed number of times
_BACKTRACKING: Final = frozenset({_constants.MAX_REPEAT, _constants.MIN_REPEAT})
_REPEATING: Final = _BACKTRACKING | {_constants.POSSESSIVE_REPEAT}
_NOT_BACKTRACKING: Final = frozenset(
    {_constants.POSSESSIVE_REPEAT, _constants.ATOMIC_GROUP}
)  # what they took, they keep
# Plain text to Python's `re`, and something else to the library that searches: [[:alpha:]], (?:text){e<=1}.
_AMBIGUOUS: Final = re.compile(
    r"\[:\^?[a-z]+:\]|(?<!\\)(?:\\\\)*\{[0-9<=+,\s]*[dise][0-9<=+,\sdise]*(?::[^{}]*)?\}", re.IGNORECASE
)


class SearchTimeout(ValueError):
    """A search was given up; its text was made to lead the pattern astray, or is like one that was."""


_seconds_left: ContextVar[list[float] | None] = ContextVar("seconds_left", default=None)


def pattern_error(pattern: str) -> str | None:
    """Why the pattern cannot be used; None when it can."""
    if _AMBIGUOUS.search(pattern):
        return "has [:name:] or {e}, which mean different things to different tools; write a-z, or \\{ for a brace"
    try:
        with warnings.catch_warnings(action="ignore", category=FutureWarning):  # a [ in a set is a [
            re.compile(pattern)
            parsed = _parser.parse(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return f"is no regular expression: {error}"
    if _can_backtrack_without_bound(parsed, within=False):
        return "can take for ever, like (a+)+ and (.|\\s)*; make what is inside firm, as in (a++)+, or a set: [\\s\\S]*"
    if _parts_in(parsed) > _MAX_PARTS:
        return f"repeats something more than {_MAX_PARTS:,} times; write + or * for any number"
    return _library_error(pattern)


def search(pattern: str, text: str, *, ignore_case: bool = False) -> regex.Match[str] | None:
    """The first place that matches. Raises TookTooLong."""
    return _timed(_compiled(pattern, ignore_case).search, text)


def fullmatch(pattern: str, text: str) -> regex.Match[str] | None:
    """The whole text, if it matches. Raises TookTooLong."""
    return _timed(_compiled(pattern, False).fullmatch, text)


@contextmanager
def shared_search_time(seconds: float = MAX_SEARCH_SECONDS) -> Iterator[None]:
    """Lets all slow searches inside share the time of one, so that a page with a thousand rows is no way around it."""
    token = _seconds_left.set([seconds])
    try:
        yield
    finally:
        _seconds_left.reset(token)


def _timed(find: Any, text: str) -> regex.Match[str] | None:
    left = _seconds_left.get() or [MAX_SEARCH_SECONDS]
    if left[0] <= 0:
        raise SearchTimeout(_told())
    began = time.thread_time()
    try:
        found: regex.Match[str] | None = find(text, timeout=left[0])
    except TimeoutError:
        left[0] = 0.0
        raise SearchTimeout(_told()) from None
    left[0] -= max(time.thread_time() - began - _QUICK_SECONDS, 0.0)
    return found


def _told() -> str:
    return f"takes longer than {MAX_SEARCH_SECONDS} seconds to search; make the pattern simpler"


@lru_cache(maxsize=1_024)
def _compiled(pattern: str, ignore_case: bool) -> regex.Pattern[str]:
    import regex  # noqa: PLC0415 commands that search for nothing start without it

    return regex.compile(pattern, regex.IGNORECASE if ignore_case else 0)


def _library_error(pattern: str) -> str | None:
    import regex  # noqa: PLC0415 the same

    try:
        _compiled(pattern, False)
    except (regex.error, OverflowError, RecursionError, MemoryError) as error:
        return f"is no regular expression: {error}"
    return None


def _parts_in(parsed: Any) -> int:
    """How large the pattern is when what is repeated at least so often is written out as often."""
    size = 0
    for operator, argument in parsed:
        times = max(int(argument[0]), 1) if operator in _REPEATING else 1
        size += times * max(1, sum(map(_parts_in, _parts(argument))))
    return size


def _can_backtrack_without_bound(parsed: Any, *, within: bool) -> bool:
    """Whether in something done many times there is a repeat that may take more or less, or a choice between equals;
    or whether several repeats of the same follow each other."""
    if _same_in_a_row(parsed) > _MAX_REPEATS_IN_A_ROW:
        return True
    for operator, argument in parsed:
        often = False
        if operator in _BACKTRACKING:
            least, most = int(argument[0]), int(argument[1])
            if within and most > _LARGE_REPEAT and least != most:
                return True
            often = most > _LARGE_REPEAT
            if often and _is_open_ended(argument[2]):
                return True
        if within and operator is _constants.BRANCH and _are_alike(argument[1]):
            return True
        inner = within and operator not in _NOT_BACKTRACKING
        if any(_can_backtrack_without_bound(part, within=inner or often) for part in _parts(argument)):
            return True
    return False


def _same_in_a_row(parsed: Any) -> int:
    """How many repeats without an upper bound, of the same thing, stand next to each other: a*a*a*."""
    longest = length = 0
    before: str | None = None
    for operator, argument in parsed:
        if operator not in _BACKTRACKING or int(argument[1]) <= _LARGE_REPEAT:
            length, before = 0, None
            continue
        inside = repr(argument[2])
        length = length + 1 if inside == before else 1
        before = inside
        longest = max(longest, length)
    return longest


def _is_open_ended(inside: Any) -> bool:
    """Whether what is repeated is a repeat that may take more or less, with nothing that must come before or after it:
    (\\d{1,3},?)+ can cut a row of digits in as many ways as there are."""
    while len(inside) == 1 and inside[0][0] is _constants.SUBPATTERN:
        inside = inside[0][1][-1]
    if any(operator not in _BACKTRACKING for operator, _ in inside):
        return False
    needed = [argument for _, argument in inside if argument[0] > 0]
    loose = any(least != most > 1 for _, (least, most, _) in inside)
    return loose and (not needed or (len(needed) == 1 and needed[0][0] != needed[0][1]))


def _are_alike(choices: list[Any]) -> bool:
    """Whether two of them can begin with the same character: after the parser, only with nothing at all or a dot."""
    first = [choice[0] if len(choice) else None for choice in choices]
    newline = (_constants.LITERAL, ord("\n"))
    dots = [one for one in first if one is not None and one[0] is _constants.ANY]
    return first.count(None) > 1 or (bool(dots) and any(one not in (dots[0], newline) for one in first))


def _parts(argument: Any) -> Iterator[Any]:
    """The patterns in what an operator applies to."""
    if isinstance(argument, _parser.SubPattern):
        yield argument
    elif isinstance(argument, (tuple, list)):
        for part in argument:
            yield from _parts(part)
