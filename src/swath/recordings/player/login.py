"""Detects that a site rejected a password which the recording typed, so that it is not sent again.

Sites lock accounts after a few wrong passwords.
"""

from __future__ import annotations

import re
from typing import Final, Literal
from urllib.parse import urlsplit

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.fetch.browser.tab.element_search import FoundElement
from swath.fetch.browser.tab.recording_tab import RecordingTab
from swath.fetch.browser.tab.step_target import Deadline, FrameLocation
from swath.recordings.schema.models import PageStep
from swath.recordings.schema.steps import AnyStep, Extract, WaitFor

__all__ = ["LoginCheck"]

_PASSWORD_FIELD: Final = [(("css", "input[type=password]"),)]
# Fields, and what ticks or names them, are clicked on the way; all else may send the form.
_SUBMITS_FORM: Final = """node => !node.closest(
  "input:not([type=submit]):not([type=image]):not([type=button]), select, option, textarea, label")"""
_TEXT: Final = "() => document.body ? document.body.innerText.slice(0, 20000) : ''"
_WHAT: Final = r"(?:pass ?(?:word|code|phrase)|credentials?|log ?-?in|sign ?-?in|user ?-?(?:name|id)|pin)"
_WRONG: Final = (
    r"(?:incorrect|invalid|wrong|not (?:recogni[sz]ed|valid|correct|accepted)|does ?n[o']t match|do not match)"
)
_REFUSED: Final = re.compile(
    rf"\b{_WRONG}[^.!?\n]{{0,40}}\b{_WHAT}\b|\b{_WHAT}\b[^.!?\n]{{0,60}}\b{_WRONG}|"
    r"\b(?:log ?-?in|sign ?-?in|authentication) (?:has |was |attempt )?(?:failed|unsuccessful|denied)|"
    r"\baccount (?:is|has been|was) (?:temporarily )?locked|"
    r"\b(?:falsches|ungültiges) (?:passwort|kennwort)|contraseña incorrecta|mot de passe incorrect",
    re.IGNORECASE,
)
# What a page that asks again may look like to the step after it; of other kinds only the page's own words count.
_LOOKS_ALIKE: Final = frozenset(
    {
        FailureKind.ACTION_FAILED,
        FailureKind.LAYOUT_CHANGED,
        FailureKind.NAVIGATION,
    }
)
# The answer to what was sent, or that none came: then it was sent, though its step has failed.
_ANSWERS: Final = frozenset({FailureKind.HTTP_ERROR, FailureKind.SESSION_EXPIRED, FailureKind.NAVIGATION})
_BY_WORDS: Final = frozenset({FailureKind.BLOCKED, FailureKind.SERVER_ERROR, FailureKind.TIMEOUT})
_HIDES_TEXT: Final = "node => node.type === 'password'"
_GOES_SECONDS: Final = 2.0  # that a form may stay after it was sent, when no step waits for anything else
_REFUSAL_MESSAGE: Final = (
    "the site did not accept the password that the recording has typed; it is not sent again, for accounts are locked "
    "after a few wrong ones"
)


class LoginCheck:
    """Of one play. A password that was typed and sent is in doubt until a later step finds a page without a field for
    it."""

    def __init__(self, stage: RecordingTab) -> None:
        self._stage = stage
        self._state: Literal["none", "typed", "sent", "accepted"] = "none"
        self._place: FrameLocation | None = None
        self._text: str | None = None
        self._sends = False
        self._went_on = False

    async def types(self, place: FrameLocation | None, found: FoundElement, text: str) -> None:
        """A text is about to be typed there. Raises Failed credential for the password that the site has just refused:
        a rule, a loop or another branch would send it again."""
        again = self._state == "sent" and text == self._text and _host(place) == _host(self._place)
        if again and await found.handle.evaluate(_HIDES_TEXT):
            raise Failed(Failure.of(FailureKind.CREDENTIAL, _REFUSAL_MESSAGE))

    def typed(self, place: FrameLocation | None, text: str) -> None:
        """A password was typed into a field there."""
        self._state, self._place, self._text = "typed", place, text
        self._sends = self._went_on = False

    async def clicks(self, found: FoundElement) -> None:
        """An element is about to be clicked."""
        if self._state == "typed":
            self._sends = bool(await found.handle.evaluate(_SUBMITS_FORM))

    def presses(self, key: str) -> None:
        """So is a key."""
        self._sends = self._sends or (self._state == "typed" and key in ("Enter", "NumpadEnter"))

    async def element_found(self) -> None:
        """A later step has found its element, and has not acted on it yet."""
        if self._state == "sent":
            self._went_on = True
            if not await self._asks_again():
                self._state = "accepted"

    async def step_done(self, step: AnyStep) -> None:
        """A step has gone well."""
        if self._state == "typed":
            navigates = isinstance(step, PageStep) and step.navigates
            self._state = "sent" if self._sends or navigates else "typed"
        elif isinstance(step, Extract) or (isinstance(step, WaitFor) and step.seconds is None):
            await self.element_found()

    async def refusal(self, failure: Failure | None) -> Failure | None:
        """What a failure is when the site has refused the password; None for any other. Without a failure the play has
        ended well, as far as its steps can tell."""
        is_sent = self._state == "sent" or (self._state == "typed" and self._sends)
        if not is_sent or self._stage.calls.is_over:
            return None
        if failure is not None and failure.kind not in _LOOKS_ALIKE | _ANSWERS | _BY_WORDS:
            return None
        alike = _ANSWERS | (_LOOKS_ALIKE if self._state == "sent" else frozenset())
        by_field = failure is not None and failure.kind in alike and await self._asks_again()
        if not by_field and not await self._says_so() and (failure is not None or not await self._stays()):
            return None
        return Failure.of(
            FailureKind.CREDENTIAL,
            f"{failure.message}; {_REFUSAL_MESSAGE}" if failure is not None else _REFUSAL_MESSAGE,
        )

    async def _asks_again(self) -> bool:
        """Whether a field for a password is shown, in the page in front or where it was typed."""
        calls, search = self._stage.calls, self._stage.search
        places = {FrameLocation(calls.page), *([] if self._place is None else [self._place])}
        return any([await calls.bounded(search.shows(place, _PASSWORD_FIELD, None)) for place in places])

    async def _stays(self) -> bool:
        """Whether the form is all that came of it: nothing was found since, and the field does not go."""
        stage = self._stage

        async def gone() -> bool:
            return not await self._asks_again()

        async def look(deadline: Deadline) -> bool:
            return not await stage.until(FrameLocation(stage.calls.page), deadline, gone, _nothing)

        return not self._went_on and await stage.run("waiting for the login", _GOES_SECONDS, look)

    async def _says_so(self) -> bool:
        calls = self._stage.calls
        for place in (FrameLocation(calls.page), self._place):
            frame = None if place is None else place.frame
            text = None if frame is None else await calls.bounded(frame.evaluate(_TEXT))
            if text and _REFUSED.search(text):
                return True
        return False


async def _nothing(place: FrameLocation, deadline: Deadline) -> None:
    del place, deadline


def _host(place: FrameLocation | None) -> str | None:
    frame = None if place is None else place.frame
    return None if frame is None else urlsplit(frame.url).hostname
