"""ServiceKey: an API key as the store keeps it, with its hash and scopes. Pure.

The key that a program shows is `sk_<id>_<secret>`. It is generated here, shown once, and never stored.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from enum import StrEnum
from typing import Final

import msgspec

from swath.domain.secret import Secret

__all__ = ["Scope", "ServiceKey", "key_id_of", "key_matches", "new_key"]

PREFIX: Final = "sk"
_UNKNOWN_DIGEST: Final = hashlib.sha256(b"").hexdigest()


class Scope(StrEnum):
    """Each allows what it names: to look, to order and manage jobs, to delete them and manage the service."""

    READ = "read"
    SUBMIT = "submit"
    ADMIN = "admin"


class ServiceKey(msgspec.Struct, frozen=True, kw_only=True):
    """Times in Unix seconds. Two keys may live at once, so that one can take the other's place.

    `expired` is the store's word: its time was over once, or is over by the boot clock, whatever the wall clock shows.
    """

    key_id: str
    name: str
    digest: str
    scopes: tuple[Scope, ...]
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None
    expired: bool = False

    def alive(self, now: float) -> bool:
        """Neither revoked nor expired."""
        return self.revoked_at is None and not self.over(now)

    def over(self, now: float) -> bool:
        """Expired, whether or not it was revoked."""
        return self.expired or (self.expires_at is not None and now >= self.expires_at)

    def life_ends(self, known: float | None, uptime: float, wall: float) -> float | None:
        """Until which uptime of its store (domain/clock_watch.py) it lives; None when it does not expire.

        `known` is what a former look has said. Zero, and for good, from the first look at which it has expired by
        either clock: so no jump of the wall clock gives it more time.
        """
        if self.expires_at is None:
            return None
        ends = uptime + self.expires_at - wall if known is None else known
        return 0.0 if wall >= self.expires_at or uptime >= ends else ends

    def allows(self, scope: Scope) -> bool:
        """`admin` includes `submit`, and that includes `read`."""
        order = list(Scope)
        return any(order.index(held) >= order.index(scope) for held in self.scopes)


def new_key(
    name: str, scopes: tuple[Scope, ...], now: float, expires_at: float | None = None
) -> tuple[ServiceKey, Secret]:
    """A key to keep, and the text to hand out."""
    key_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    key = ServiceKey(
        key_id=key_id, name=name, digest=_digest(secret), scopes=scopes, created_at=now, expires_at=expires_at
    )
    return key, Secret(f"{PREFIX}_{key_id}_{secret}")


def key_id_of(shown: str) -> str | None:
    """Which key a program claims to have; None when it is no key at all."""
    prefix, _, rest = shown.partition("_")
    key_id, _, secret = rest.partition("_")
    return key_id if prefix == PREFIX and key_id and secret else None


def key_matches(key: ServiceKey | None, shown: str, now: float) -> bool:
    """Whether the text is that key's and the key is alive. An unknown key takes as long as a wrong secret."""
    secret = shown.partition("_")[2].partition("_")[2]
    right = hmac.compare_digest(_digest(secret), _UNKNOWN_DIGEST if key is None else key.digest)
    return right and key is not None and key.alive(now)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
