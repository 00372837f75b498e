"""SiteDirectory: which site an address belongs to, and how that site is visited (D1).

Made once from the shipped policies with the operator's file laid over them; asked for every request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final

import msgspec

from swath.domain.errors import BadInput
from swath.domain.site import SitePolicy
from swath.sites.policy_file import PolicyFile, parse_policies, read_policies, write_policies

__all__ = ["Site", "SiteDirectory"]

_ADDRESS: Final = re.compile(r"(?:(https?)://)?(?:[^/?#\\]*@)?(\[[^\]/?#\\]*\]|[^:/?#\\]*)(?::(\d+))?", re.IGNORECASE)
_PORTS: Final = {"http": "80", "https": "443"}
_MOST_KNOWN: Final = 10_000  # addresses remembered; a crawl of the whole web must not fill the memory


class Site(msgspec.Struct, frozen=True):
    """What shares one bucket, one concurrency and one circuit, by its name; its policy has no unset parts."""

    name: str
    policy: SitePolicy


class SiteDirectory:
    """`default` is how a site without an entry is visited; `sites` are those that have one, by their names."""

    def __init__(self, file: PolicyFile) -> None:
        self._file = file
        self.default = file.default
        self.sites: Mapping[str, Site] = {
            name: Site(name, _inherit(file.default, own)) for name, own in file.sites.items()
        }
        self._by_domain = {
            domain: self.sites[name] for name, own in file.sites.items() for domain in _domains(name, own)
        }
        self._known: dict[str, Site] = {}

    @classmethod
    def load(cls, path: Path | None, extra: Mapping[str, Sequence[str]] | None = None) -> SiteDirectory:
        """Raises BadInput for a file that cannot be used.

        `extra` adds domains to entries; those that an entry of the operator claims stay with it.
        """
        file = _shipped()
        if path is not None:
            written = read_policies(path)
            _refuse_shared(written, path)
            file = _overlay(file, written)
        return cls(_with_domains(file, extra or {}))

    def of(self, address: str) -> Site:
        """The site of a URL, a host or a host:port."""
        found = _ADDRESS.match(address)
        key = found[0] if found else address
        site = self._known.get(key)
        if site is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            scheme, host, port = found.groups() if found else (None, address, None)
            site = self._known[key] = self._find(_plain(host), port or _PORTS.get((scheme or "").lower()))
        return site

    def dump(self) -> str:
        """All of it as YAML, shipped entries too. Reads back as the same; comments are lost."""
        return write_policies(self._file)

    def _find(self, host: str, port: str | None) -> Site:
        site = self._by_domain.get(f"{host}:{port}") or self._by_domain.get(host)
        if site is None and not host.rpartition(".")[2].isdigit():  # addresses have no parents
            parent = host
            while site is None and "." in parent:
                parent = parent.partition(".")[2]
                site = self._by_domain.get(parent)
        return site or Site(host.removeprefix("www."), self.default)


def _plain(host: str) -> str:
    """As domains are written in policies: small letters, no dot at the end, IDNA."""
    host = host.rstrip(".").lower()
    if host.isascii():
        return host
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        return host  # the transport will refuse it


# -- putting files together --------------------------------------------------------------------------------------------


@cache
def _shipped() -> PolicyFile:
    text = resources.files("swath.sites").joinpath("shipped.yaml").read_text(encoding="utf-8")
    return parse_policies(text, "shipped site policies")


def _domains(name: str, own: SitePolicy) -> tuple[str, ...]:
    return own.domains or (name,)


def _inherit(base: SitePolicy, own: SitePolicy) -> SitePolicy:
    """Field by field, each whole: an entry with a rate of its own takes nothing from the default's rate."""
    return base.model_copy(update={field: getattr(own, field) for field in own.model_fields_set})


def _refuse_shared(file: PolicyFile, path: Path) -> None:
    owners: dict[str, str] = {}
    for name, own in file.sites.items():
        for domain in _domains(name, own):
            owner = owners.setdefault(domain, name)
            if owner != name:
                raise BadInput(
                    f"{path}: sites.{name}.domains: {domain} belongs to site {owner!r} already; name it in one of them"
                )


def _overlay(shipped: PolicyFile, written: PolicyFile) -> PolicyFile:
    """The operator's word wins: over a field, over a whole entry, and over which entry a domain belongs to."""
    merged = {name: _inherit(shipped.sites.get(name, SitePolicy()), own) for name, own in written.sites.items()}
    taken = {domain for name, own in merged.items() for domain in _domains(name, own)}
    kept: dict[str, SitePolicy] = {}
    for name, own in shipped.sites.items():
        left = tuple(domain for domain in _domains(name, own) if domain not in taken)
        if name not in merged and left:
            kept[name] = own if left == _domains(name, own) else own.model_copy(update={"domains": left})
    return PolicyFile(_inherit(shipped.default, written.default), {**kept, **merged})


def _with_domains(file: PolicyFile, extra: Mapping[str, Sequence[str]]) -> PolicyFile:
    claimed = {domain for name, own in file.sites.items() for domain in _domains(name, own)}
    sites = dict(file.sites)
    for name, domains in extra.items():
        new = tuple(domain for domain in domains if domain not in claimed)
        if name in sites and new:
            sites[name] = sites[name].model_copy(update={"domains": (*_domains(name, sites[name]), *new)})
    return PolicyFile(file.default, sites)
