"""Session cookies and the hidden fields of the search form, both signed instead of remembered.

A cookie is a random token with its signature, and the view state is a signature over the cookie. So the site keeps no
state, a restart logs nobody out, and a view state of one session is refused in another, as ASP.NET does it.
"""

import hashlib
import hmac
import secrets
from base64 import b64encode

COOKIE = "county_session"
VIEW_STATE_GENERATOR = "CA0B0334"

_KEY = b"everybody may know the key of a demo county"
_SIGNATURE_LENGTH = 32


def new_session() -> str:
    token = secrets.token_hex(16)
    return token + _signature("session", token).hex()[:_SIGNATURE_LENGTH]


def is_genuine(session: str) -> bool:
    token, signature = session[:-_SIGNATURE_LENGTH], session[-_SIGNATURE_LENGTH:]
    expected = _signature("session", token).hex()[:_SIGNATURE_LENGTH]
    return hmac.compare_digest(signature.encode(), expected.encode())


def hidden_fields(session: str) -> dict[str, str]:
    """Return the names and values of the search form's hidden inputs, in page order."""
    return {
        "__EVENTTARGET": "",
        "__EVENTARGUMENT": "",
        "__VIEWSTATE": _view_state(session),
        "__VIEWSTATEGENERATOR": VIEW_STATE_GENERATOR,
        "__EVENTVALIDATION": b64encode(_signature("events", session) * 3).decode(),
    }


def are_untouched(session: str, form: dict[str, str]) -> bool:
    """Say whether the signed fields of a post are those that the form of this session carried."""
    return all(
        hmac.compare_digest(form.get(name, "").encode(), value.encode())
        for name, value in hidden_fields(session).items()
        if value
    )


def _view_state(session: str) -> str:
    # The payload means nothing; it makes the field as long as the ones that scrapers meet.
    payload = hashlib.shake_256(session.encode()).digest(480)
    return b64encode(payload + _signature("viewstate", session)).decode()


def _signature(purpose: str, text: str) -> bytes:
    return hmac.digest(_KEY, f"{purpose}:{text}".encode(), "sha256")
