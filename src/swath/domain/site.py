"""SitePolicy: how a site wants to be visited. Comes from YAML that people write, so it is checked field by field.

A site is a domain, or several that share one back end. sites/directory.py finds the policy for an address.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any

from pydantic import Field, field_validator, model_validator

from swath.domain.failure import FailureKind
from swath.domain.hours import AllowedHours
from swath.domain.pattern import objection_to
from swath.domain.proxy_products import ProxyType, ladder_objection
from swath.domain.section import Section

__all__ = ["Breaker", "HeaderSet", "Rate", "RobotsMode", "Signature", "SignatureKind", "SitePolicy"]


class Rate(Section):
    """Requests in a length of time, evenly spread, over all workers and jobs."""

    tokens: float = Field(default=10, gt=0, le=1_000_000, allow_inf_nan=False)
    per_seconds: float = Field(default=1, gt=0, le=86_400, allow_inf_nan=False)

    @property
    def per_second(self) -> float:
        """The same as a number."""
        return self.tokens / self.per_seconds


class RobotsMode(StrEnum):
    """What robots.txt means to us."""

    OBEY = "obey"
    WARN = "warn"  # fetch all the same, and say so
    IGNORE = "ignore"  # it is not even fetched


class HeaderSet(StrEnum):
    """Whose headers a request begins with."""

    PLAIN = "plain"  # our own, which say who we are
    CHROME = "chrome"
    FIREFOX = "firefox"


class Breaker(Section):
    """When a site is left alone because it fails (D3)."""

    window: int = Field(default=10, ge=1, le=1_000)
    failures: int = Field(default=5, ge=1, le=1_000)
    reopen_seconds: float = Field(default=120, gt=0, le=86_400)

    @model_validator(mode="after")
    def _can_be_reached(self) -> Breaker:
        if self.failures > self.window:
            raise ValueError(f"failures ({self.failures}) can never be reached in a window of {self.window}")
        return self


class SignatureKind(StrEnum):
    """What a page that fits a signature is."""

    BLOCKED = FailureKind.BLOCKED.value
    CAPTCHA = FailureKind.CAPTCHA.value
    MAINTENANCE = FailureKind.MAINTENANCE.value
    SESSION_EXPIRED = FailureKind.SESSION_EXPIRED.value
    RATE_LIMITED = FailureKind.RATE_LIMITED.value
    SERVER_ERROR = FailureKind.SERVER_ERROR.value
    ACCESS_POLICY = FailureKind.ACCESS_POLICY.value
    LAYOUT_CHANGED = FailureKind.LAYOUT_CHANGED.value
    NOT_FOUND = "not_found"  # the site's word that there is no such record: a success
    PAGE = "page"  # a good page, whatever the general signatures say


class Signature(Section):
    """How a page is recognised. All that is given must fit; patterns are regular expressions, in any case."""

    kind: SignatureKind
    status: tuple[int, ...] = ()
    header: str | None = None
    """`name: pattern`."""
    title: str | None = None
    body: str | None = None
    css: str | None = None
    """A selector of which something must be on the page."""
    url: str | None = None
    """Of the address after redirects."""
    largest_bytes: int | None = Field(default=None, ge=1)
    """Only pages up to this size: a wall is small, a page that talks about walls is not."""

    @field_validator("title", "body", "url", "header")
    @classmethod
    def _can_be_searched_for(cls, pattern: str | None) -> str | None:
        objection = None if pattern is None else objection_to(pattern)
        if objection is not None:
            raise ValueError(objection)
        return pattern

    @model_validator(mode="after")
    def _says_something(self) -> Signature:
        if not (self.status or self.header or self.title or self.body or self.css or self.url):
            raise ValueError("fits every page; give status, header, title, body, css or url")
        return self


class SitePolicy(Section):
    """How one site is visited; every part has a default."""

    domains: tuple[str, ...] = ()
    """Names that share this policy and its bucket, subdomains included; `host:port` for just that port."""
    rate: Rate = Rate()
    concurrency: int = Field(default=8, ge=1, le=10_000)
    """Requests that may be open at once, over all workers and jobs."""
    slow_down_seconds: float = Field(default=60, gt=0, le=86_400)
    """How long a 429 or 503 keeps the rate halved, and how long each quarter takes to come back."""
    allowed_hours: AllowedHours | None = None
    robots: RobotsMode = RobotsMode.OBEY
    breaker: Breaker = Breaker()
    signatures: tuple[Signature, ...] = ()
    proxy_ladder: tuple[ProxyType, ...] = ()
    remember_tier: bool = False
    """Jobs begin on the step of the ladder that the last job on this site needed."""
    action_delay_ms: tuple[int, int] = (500, 2_000)
    """Pause between two actions in a browser, from … to …."""
    header_set: HeaderSet = HeaderSet.PLAIN
    """Whose headers requests begin with."""
    user_agent: str | None = Field(default=None, min_length=1, max_length=1_000, pattern=r"^[ -~]+$")
    """Takes the place of the one in the header set."""
    impersonate: str | None = None
    """A browser whose TLS and HTTP/2 ways are imitated, such as chrome_143; off by default."""

    @field_validator("domains")
    @classmethod
    def _are_hosts(cls, domains: tuple[str, ...]) -> tuple[str, ...]:
        for domain in domains:
            if not re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?|\[[0-9a-f:.]+\](:\d{1,5})?", domain):
                raise ValueError(f"{domain!r} is no host name; write it in small letters, without scheme or path")
        return domains

    @field_validator("proxy_ladder")
    @classmethod
    def _can_be_climbed(cls, steps: tuple[ProxyType, ...]) -> tuple[ProxyType, ...]:
        objection = ladder_objection(steps)
        if objection is not None:
            raise ValueError(objection)
        return steps

    @field_validator("action_delay_ms")
    @classmethod
    def _is_a_range(cls, delay: tuple[int, int]) -> tuple[int, int]:
        if not 0 <= delay[0] <= delay[1] <= 600_000:
            raise ValueError(f"must go from a smaller to a larger number of milliseconds, not {list(delay)}")
        return delay

    def as_yaml(self) -> dict[str, Any]:
        """Only what was set, as plain values."""
        return self.model_dump(mode="json", exclude_unset=True, by_alias=True)
