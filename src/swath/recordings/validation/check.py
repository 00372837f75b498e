"""check_recording: checks a whole recording before anything of it runs (A4), whoever made it.

Addresses and file names are checked as they are written; where a host may lead is checked when a page is opened.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from swath.domain.errors import BadInput, Failed
from swath.domain.safe_regex import pattern_error
from swath.domain.validation_messages import did_you_mean
from swath.fetch.url import canonical
from swath.recordings.schema.recording import Recording, walk
from swath.recordings.schema.steps import (
    KEYS,
    MOST_NAME_BYTES,
    AnyStep,
    Download,
    Goto,
    JavaScript,
    Press,
    Upload,
    is_pressable,
)
from swath.recordings.schema.template import LiteralText, Reference, parse_template
from swath.recordings.validation.names import name_problems, reference_problems
from swath.recordings.validation.problems import Problem, step_problem, summarize_problems
from swath.recordings.validation.selectors import selector_problems

__all__ = ["DEEPEST_STEPS", "MOST_STEPS", "address_problems", "check_recording", "problems_of_one"]

_STAND_IN: Final = "1"  # fits in a name, a path, a query and a port
_SCHEME: Final = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]*:")
_SEPARATORS: Final = re.compile(r"[/\\:\x00-\x1f\x7f]")


def address_problems(recording: Recording) -> Iterator[Problem]:
    """Of `base_url`, and of all steps that open, download or upload something."""
    base = recording.base_url
    if base is not None and (objection := _address_error(base, None)):
        yield Problem("base_url", objection)
        return  # what is relative to it cannot be judged
    for placed in walk(recording):
        match placed.step:
            case (Goto() | Download()) as step if step.url is not None:
                if objection := _address_error(step.url, base):
                    yield step_problem(placed, "url", objection)
            case Upload() as step:
                if objection := _file_name_error(step.file):
                    yield step_problem(placed, "file", objection)


def _address_error(text: str, base: str | None) -> str | None:
    parts = parse_template(text).parts
    if isinstance(parts[0], Reference) and (base is None or len(parts) == 1):
        return None  # a whole address may come from the item
    address = "".join(part.text if isinstance(part, LiteralText) else _STAND_IN for part in parts)
    relative = not _SCHEME.match(address)
    if relative and base is None:
        return f"{address[:80]!r} has no scheme; write https://, or give the recording a base_url"
    if relative and re.match(r"\s*[/\\]{2}", address):
        return f"{address[:80]!r} names a host without a scheme; write https:// before it"
    try:
        canonical(address, base if relative else None)
    except Failed as error:
        return error.failure.message
    return None


def _file_name_error(text: str) -> str | None:
    """Uploads come out of one folder, by their names alone. What an item brings is looked at by the player."""
    literal = "".join(part.text for part in parse_template(text).parts if isinstance(part, LiteralText))
    if _SEPARATORS.search(literal) or literal.startswith("~") or text.strip() in ("", ".", ".."):
        return f"{text[:80]!r} is no plain file name; uploads lie in the folder files beside the recording"
    if len(literal.encode("utf-8", "replace")) > MOST_NAME_BYTES:
        return f"{text[:40] + '…'!r} has more than {MOST_NAME_BYTES} bytes, and no file has so long a name"
    return None


MOST_STEPS: Final = 200
DEEPEST_STEPS: Final = 8


def check_recording(recording: Recording, name: str, *, javascript: bool) -> None:
    """Raises BadInput, in one line that begins with `name`. `javascript`: the operator allows it."""
    too_large = list(_size_problems(recording))
    problems = too_large or [
        *_input_problems(recording),
        *_step_problems(recording, javascript=javascript),
        *reference_problems(recording),
        *selector_problems(recording),
        *address_problems(recording),
        *name_problems(recording),
    ]
    if problems:
        raise BadInput(f"{name}: {summarize_problems(problems)}")


def problems_of_one(step: AnyStep, base_url: str | None = None) -> list[Problem]:
    """What is wrong with a step by itself, whatever comes before it; `where` begins inside it. For importers, which
    know how the recorder has counted it."""
    alone = Recording(swath_recording=1, id="one", base_url=base_url, steps=(step,))
    problems = [*_step_problems(alone, javascript=True), *selector_problems(alone), *address_problems(alone)]
    here = f"step 1 ({step.do})"
    return [
        Problem(problem.where.removeprefix(here).removeprefix("step 1.").removeprefix(": "), problem.what)
        for problem in problems
    ]


def _size_problems(recording: Recording) -> Iterator[Problem]:
    places = [placed.place for placed in walk(recording)]
    if len(places) > MOST_STEPS:
        yield Problem("", f"has {len(places):,} steps, with those inside others; at most {MOST_STEPS}")
    deepest = max(places, key=_depth)
    if _depth(deepest) > DEEPEST_STEPS:
        yield Problem(f"step {deepest}", f"stands {_depth(deepest)} steps deep; at most {DEEPEST_STEPS}")


def _depth(place: str) -> int:
    return sum(part.isdecimal() for part in place.removeprefix("recover.").split(".")) - place.startswith("recover.")


def _input_problems(recording: Recording) -> Iterator[Problem]:
    for name, field in recording.inputs.items():
        objection = None if field.pattern is None else pattern_error(field.pattern)
        if objection is not None:
            yield Problem(f"inputs.{name}.pattern", f"{field.pattern!r} {objection}")


def _step_problems(recording: Recording, *, javascript: bool) -> Iterator[Problem]:
    for placed in walk(recording):
        match placed.step:
            case JavaScript() if not javascript:
                what = "JavaScript runs only if the operator allows it: set SWATH_ALLOW_JAVASCRIPT=true"
                yield step_problem(placed, "", f"{what} (allow_javascript), or remove the step")
            case Press(key=key, how=how) if not is_pressable(key, held=how != "press"):
                hint = (
                    did_you_mean(key, KEYS)
                    or "; keys have the names that Chrome gives them, such as Enter; text is for type"
                )
                yield step_problem(placed, "key", f"there is no key {key!r}{hint}")
