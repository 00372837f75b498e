"""Passwords that were typed while somebody recorded: a recording is a file that is passed on, so they are told of.

Used by cautions.py when a step is read, and by binding/, which keeps no password as the example of an input.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, TypeVar

from swath.actions.importing.imported import Remark
from swath.actions.language.recording import Recording
from swath.actions.language.steps import AnyStep, Type
from swath.actions.language.template import has_references
from swath.actions.language.walk import walk

__all__ = ["TYPED_IN_CLEAR", "asks_for_password", "still_told", "types_a_password"]

TYPED_IN_CLEAR: Final = (
    "types a password, which stands in the recording as it was typed; bind it to an input (--bind password=…), and "
    "give the recording to nobody before"
)
_SAID: Final = re.compile(
    r"passw(?:or)?d|passwort|kennwort|passphrase|passcode|(?<![a-z])pwd(?![a-z])|contrase(?:ñ|n)a|mot de passe|senha",
    re.IGNORECASE,
)
Told = TypeVar("Told", Remark, str)


def asks_for_password(step: AnyStep) -> bool:
    """Whether the box in which it types is called so, by any of its selectors."""
    return isinstance(step, Type) and any(_SAID.search(part) for chain in step.on for part in chain)


def types_a_password(step: AnyStep) -> bool:
    """The same, if what it types is the same for each item."""
    return isinstance(step, Type) and asks_for_password(step) and bool(step.text) and not has_references(step.text)


def still_told(told: Iterable[Told], recording: Recording) -> tuple[Told, ...]:
    """Remarks or notes, without those on passwords when inputs have taken the places of all."""
    if any(types_a_password(placed.step) for placed in walk(recording)):
        return tuple(told)
    return tuple(one for one in told if not str(one).endswith(TYPED_IN_CLEAR))
