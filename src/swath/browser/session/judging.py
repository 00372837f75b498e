"""Judging: what a document in the browser is: a page, a wall, an outage. By the classifier that all kinds share (K7).

Asked by session.py for each document that comes, and for each page that is kept.
"""

from __future__ import annotations

from swath.browser.session.document import Document
from swath.browser.session.dom import Dom, response_of
from swath.browser.session.hands import Hands
from swath.domain.failure import Failure, FailureKind
from swath.domain.site import SignatureKind
from swath.ports.clock import Clock
from swath.web.classify import PAGE, Verdict, classify
from swath.web.gate import Gate

__all__ = ["Judging"]


class Judging:
    """For one attempt. `fills_in_logins`: whoever works here may mean to, so a page that asks for a password is one to
    work on, unless the site's policy says how the end of a session looks there."""

    def __init__(self, hands: Hands, gate: Gate, clock: Clock) -> None:
        self._hands = hands
        self._gate = gate
        self._clock = clock
        self.fills_in_logins = False

    def verdict(self, dom: Dom, document: Document | None) -> Verdict:
        """What it is to whoever works here."""
        verdict = self._plainly(dom, document)
        return PAGE if verdict.failure is not None and self._is_login(dom, verdict.failure) else verdict

    def login_in(self, dom: Dom, document: Document | None) -> Failure | None:
        """That it asks for a password, if it does."""
        failure = self._plainly(dom, document).failure
        return None if failure is None or failure.kind is not FailureKind.SESSION_EXPIRED else failure

    def _plainly(self, dom: Dom, document: Document | None) -> Verdict:
        response = response_of(dom, document)
        if response.status in self._hands.expected:
            return PAGE
        return classify(response, self._gate.policy(response.url), self._clock.now())

    def _is_login(self, dom: Dom, failure: Failure) -> bool:
        if not self.fills_in_logins or failure.kind is not FailureKind.SESSION_EXPIRED:
            return False
        signatures = self._gate.policy(dom.url).signatures
        return all(signature.kind is not SignatureKind.SESSION_EXPIRED for signature in signatures)
