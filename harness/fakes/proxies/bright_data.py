"""A provider that speaks Bright Data's grammar and errors over the wire: zones, flags, codes, exits, TLS of its own.

Reaches only what `hosts` maps to loopback. What it was asked for is in `seen`; `refuse` makes it say no.
"""

from __future__ import annotations

import asyncio
import base64
import zlib
from collections import Counter
from enum import StrEnum
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from harness.fakes.listener import Listener
from harness.fakes.proxies.certificates import Authority
from harness.fakes.proxies.http_messages import ProxyRequest, read_request, relay, request_bytes

__all__ = ["FakeBrightData", "FakeZone", "Refusal", "SeenRequest", "Style"]

FLAGS: Final = ("country", "state", "city", "zip", "session")
_OFFERED: Final = {
    "datacenter": {"country", "session"},
    "residential": set(FLAGS),
    "web_unlocker": {"country"},
}
_STATUSES: Final = {
    "client_10050": 401,
    "client_10100": 502,
    "client_10110": 429,
    "client_10120": 502,
    "client_10140": 499,
    "policy_20070": 502,
    "policy_20130": 402,
    "policy_20140": 402,
    "policy_20220": 429,
    "policy_20222": 429,
    "policy_20223": 429,
    "peer_30040": 408,
}


class Style(StrEnum):
    """Where a refusal carries its code."""

    ERR_CODE = "x-brd-err-code"
    ERROR_CODE = "x-brd-error-code"
    PROXY_STATUS = "proxy-status"
    EMPTY_200 = "empty 200"


class FakeZone(NamedTuple):
    """One product of the account."""

    product: str
    password: str


class Refusal(NamedTuple):
    """What a site is refused with; `headers` go with it."""

    code: str
    style: Style = Style.ERR_CODE
    headers: tuple[tuple[str, str], ...] = ()


class SeenRequest(NamedTuple):
    """One request that was let in. `tunnel`: a CONNECT."""

    zone: str
    flags: dict[str, str]
    authority: str
    method: str
    tunnel: bool
    exit_ip: str


class FakeBrightData(Listener):
    """`kyc`: the account is verified, so government sites and POST are allowed, and residential does not open TLS."""

    def __init__(self, customer: str, zones: dict[str, FakeZone], hosts: dict[str, int], *, kyc: bool = False) -> None:
        super().__init__()
        self.authority = Authority("Fake Bright Data Root CA")
        self.refuse: dict[str, Refusal] = {}
        self.empty_countries: set[str] = set()
        self.seen: list[SeenRequest] = []
        self.refused: Counter[str] = Counter()
        self._customer = customer
        self._zones = zones
        self._hosts = hosts  # `host:port` → port on loopback
        self._kyc = kyc
        self._exits = 0

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Requests in absolute form one after the other, or one tunnel."""
        while True:
            asked = await read_request(reader)
            tunnel = asked.method == "CONNECT"
            authority = asked.target if tunnel else _authority(asked.target)
            let_in = self._let_in(asked, authority)
            if isinstance(let_in, Refusal):
                writer.write(self._no(let_in, tunnel=tunnel))
                if tunnel:
                    return
                continue
            self.seen.append(let_in)
            if tunnel:
                await self._tunnel(let_in, reader, writer)
                return
            writer.write(await self._fetched(let_in, asked))
            await writer.drain()

    # -- who may do what -----------------------------------------------------------------------------------------------

    def _let_in(self, asked: ProxyRequest, authority: str) -> SeenRequest | Refusal:
        given = asked.headers.get("proxy-authorization", "")
        if not given.startswith("Basic "):
            return Refusal("client_10010")
        user, _, password = base64.b64decode(given[6:]).decode().partition(":")
        prefix = f"brd-customer-{self._customer}-zone-"
        zone = max((name for name in self._zones if f"{user}-".startswith(f"{prefix}{name}-")), key=len, default=None)
        if not user.startswith(prefix):
            return Refusal("client_10000")
        if zone is None:
            return Refusal("client_10002")
        if password != self._zones[zone].password:
            return Refusal("client_10000")
        return self._allowed(zone, user.removeprefix(prefix + zone), asked, authority)

    def _allowed(self, zone: str, flags_text: str, asked: ProxyRequest, authority: str) -> SeenRequest | Refusal:
        words = flags_text.split("-")[1:]
        flags = dict(zip(words[::2], words[1::2], strict=False))
        product = self._zones[zone].product
        host = authority.rpartition(":")[0]
        if len(words) % 2 or not flags.keys() <= _OFFERED[product]:
            return Refusal("client_10090")
        if ("state" in flags or "zip" in flags) and flags.get("country") != "us":
            return Refusal("client_10090")
        if flags.get("country") in self.empty_countries:
            return Refusal("client_10061")
        if host.endswith(".gov") and not self._kyc:
            return Refusal("policy_20051")
        if asked.method == "POST" and product == "residential" and not self._kyc:
            return Refusal("policy_20130")
        if host in self.refuse:
            return self.refuse[host]
        if authority not in self._hosts:
            return Refusal("target_40001")
        return SeenRequest(zone, flags, authority, asked.method, asked.method == "CONNECT", self._exit_of(flags))

    def _exit_of(self, flags: dict[str, str]) -> str:
        """The same for the same session, another one each time without."""
        self._exits += 1
        number = zlib.crc32(flags["session"].encode()) if "session" in flags else self._exits
        return f"203.0.113.{number % 254 + 1}"

    def _no(self, refusal: Refusal, *, tunnel: bool) -> bytes:
        code, style, extra = refusal
        self.refused[code] += 1
        family = {"client_100": 407, "client_1": 403, "policy": 403, "target": 502, "peer": 502}
        status = _STATUSES.get(code) or next((s for start, s in family.items() if code.startswith(start)), 403)
        if code in {"client_10060", "client_10061", "client_10062", "client_10063"}:
            status = 400
        if style is Style.EMPTY_200 and not tunnel:
            return request_bytes(200, "OK", {"x-brd-error-code": code, "x-brd-status-code": str(status), **dict(extra)})
        if style is Style.PROXY_STATUS:
            detail = (
                f'brd.superproxy.io; received-status={status}; error="http_request_denied"; details="{code}: denied"'
            )
            return request_bytes(status, "Denied", {"Proxy-Status": detail, **dict(extra)})
        name = Style.ERR_CODE if style is Style.EMPTY_200 else style
        return request_bytes(status, "Denied", {name: code, "x-brd-error": "Request failed", **dict(extra)})

    # -- what goes through ---------------------------------------------------------------------------------------------

    async def _tunnel(self, seen: SeenRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 200 OK\r\nx-brd-ip: {seen.exit_ip}\r\n\r\n".encode())
        await writer.drain()
        product = self._zones[seen.zone].product
        if product == "datacenter" or (product == "residential" and self._kyc):
            site = await asyncio.open_connection("127.0.0.1", self._hosts[seen.authority])
            await relay((reader, writer), site)
            return
        await writer.start_tls(self.authority.context(seen.authority.rpartition(":")[0]))
        while True:
            asked = await read_request(reader)
            again = self._allowed(seen.zone, "", asked, seen.authority)
            inside = seen._replace(method=asked.method, tunnel=False)
            if isinstance(again, Refusal):
                writer.write(self._no(again, tunnel=False))
            else:
                self.seen.append(inside)
                writer.write(await self._fetched(inside, asked))
            await writer.drain()

    async def _fetched(self, seen: SeenRequest, asked: ProxyRequest) -> bytes:
        """The site's answer, with the exit's address in its head. Sites here close after each answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._hosts[seen.authority])
        parts = urlsplit(asked.target)
        ours = {name: value for name, value in asked.headers.items() if name != "connection"}
        kept = {name: value for name, value in ours.items() if not name.startswith("proxy-")}
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        lines = [f"{asked.method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in kept.items())]
        writer.write(("\r\n".join([*lines, "connection: close"]) + "\r\n\r\n").encode("latin-1") + asked.body)
        try:
            answer = await reader.read(-1)
        finally:
            writer.close()
        return _with_exit(answer, seen.exit_ip)


def _with_exit(answer: bytes, exit_ip: str) -> bytes:
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    if any(line.lower().startswith(b"content-length:") for line in lines):  # so our own connection can go on
        lines = [line for line in lines if not line.lower().startswith(b"connection:")]
    own = [f"x-brd-ip: {exit_ip}".encode(), b"x-brd-timeline: fake"]
    return b"\r\n".join([first, *own, *lines]) + b"\r\n\r\n" + body


def _authority(url: str) -> str:
    netloc = urlsplit(url).netloc
    return netloc if netloc.rpartition(":")[2].isdigit() else f"{netloc}:80"
