"""Masks secrets in text: the operator's own as they are and in URLs, JSON and base64, and what looks like one. Pure."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, quote_plus, unquote, urlsplit

from swath.domain.secret import MASK, Secret

__all__ = ["SecretMask"]

MIN_SECRET_CHARACTERS: Final = 4  # characters; masking each "a" of a text would tell where they were
MIN_BASE64_CHARACTERS: Final = 6
_MAX_DEPTH: Final = 8
# What looks like a credential whoever made it: of a URL, a service key, a webhook's secret, a header.
_LOOKS_SECRET: Final = re.compile(
    r"(?P<url>(?<=://)[^/\s\"'<>@]+(?=@))"
    r"|(?P<key>\bsk_[0-9A-Za-z]+)_[0-9A-Za-z_-]{8,}"
    r"|(?P<hook>\bwhsec)_[0-9A-Za-z+/=_-]{8,}"
    r"|(?P<header>\b(?:x-service-key|(?:proxy-)?authorization)\b[\"']?\s*[:=]\s*[\"']?(?:(?:basic|bearer)\s+)?)[^\s\"',;]+",
    re.IGNORECASE,
)


class SecretMask:
    """Knows the secrets of one process. Without any it only looks for what looks like one."""

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        self._spellings: set[str] = set()
        self._known: re.Pattern[str] | None = None
        self.learn(secrets)

    def learn(self, secrets: Iterable[Secret]) -> None:
        """From now on these are masked, too."""
        for secret in secrets:
            for part in _parts(secret.reveal()):
                self._spellings.update(_spellings(part))
        if self._spellings:
            longest_first = sorted(self._spellings, key=lambda spelling: (-len(spelling), spelling))
            self._known = re.compile("|".join(re.escape(spelling) for spelling in longest_first))

    def text(self, text: str) -> str:
        """The text without them."""
        if self._known is not None:
            text = self._known.sub(MASK, text)
        return _LOOKS_SECRET.sub(_hidden, text)

    def value(self, value: Any, depth: int = 0) -> Any:
        """Whatever it is, made of nothing but what JSON knows, and without them."""
        if value is None or isinstance(value, (bool, int)):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if depth < _MAX_DEPTH and isinstance(value, Mapping):
            return {self.text(str(key)): self.value(part, depth + 1) for key, part in value.items()}
        if depth < _MAX_DEPTH and isinstance(value, (list, tuple, set, frozenset)):
            return [self.value(part, depth + 1) for part in value]
        return self.text(value if isinstance(value, str) else _plain_value(value))


def _hidden(found: re.Match[str]) -> str:
    if found["url"] is not None:
        return MASK
    kept = found["key"] or found["hook"]
    return f"{kept}_{MASK}" if kept else f"{found['header']}{MASK}"


def _plain_value(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 a line is written whatever an author's object does
        return f"<{type(value).__name__}>"


def _parts(secret: str) -> Iterator[str]:
    """The whole, and of an address its password, as it is written there and as it is meant."""
    yield secret
    if "://" in secret:
        try:
            password = urlsplit(secret).password
        except ValueError:
            return
        if password:
            yield password
            yield unquote(password)


def _spellings(secret: str) -> Iterator[str]:
    if len(secret) < MIN_SECRET_CHARACTERS:
        return
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield repr(secret)[1:-1]
    raw = secret.encode("utf-8", "surrogatepass")
    for safe in ("", "/", "/:@"):
        coded = quote(raw, safe=safe)
        yield coded
        yield re.sub(r"%[0-9A-F]{2}", lambda code: code[0].lower(), coded)
    yield quote_plus(raw)
    yield from _base64(raw)


def _base64(raw: bytes) -> Iterator[str]:
    """Itself, and what stands in any base64 text of something that has the secret in it, which begins at one of three
    places: without the characters at its ends, which depend on the neighbours too."""
    for alphabet in (base64.b64encode, base64.urlsafe_b64encode):
        yield alphabet(raw).decode().rstrip("=")
        for before in range(3):
            text = alphabet(bytes(before) + raw).decode().rstrip("=")
            whole = text[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6]
            if len(whole) >= MIN_BASE64_CHARACTERS:
                yield whole
